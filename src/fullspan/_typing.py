"""What travels between the floors: a block of rows, and the protocol of a table.

Readers yield blocks and know nothing of summaries; summaries take blocks and know nothing of readers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fullspan.errors import InputError

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Array", "Block", "Table", "dots", "row_norms"]

Array = NDArray[Any]

#: Squares outside this range have lost digits in float32 (underflow below, overflow above).
_SAFE_SQUARES = (1e-30, 1e37)
#: Entries that are widened to float64 at once.
_WIDE_ENTRIES = 1 << 16


@dataclass(frozen=True)
class Block:
    """Some rows of a table, with what lies beside them.

    Parameters
    ----------
    rows
        Floating-point array of shape ``(n, dim)``: float16, float32 or float64. A reader widens everything else
        (bfloat16, fp8, int8 with scales) to float32, which holds it exactly, and integers of 32 bits or more
        to float64.
    start
        Position in the table of the first row, from 0.
    ids
        ``(n,)`` names of the rows (str or integer), or None.
    labels
        ``(n,)`` group labels, or None.
    frequencies
        ``(n,)`` non-negative counts or probabilities, float64, or None.
    positions
        ``(n,)`` positions in the table when the rows are not consecutive; leave None otherwise.
    """

    rows: Array
    start: int = 0
    ids: Array | None = None
    labels: Array | None = None
    frequencies: Array | None = None
    positions: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.rows.ndim != 2:
            raise InputError(f"A block needs a 2-D array of rows; got shape {self.rows.shape}.")
        n_rows = len(self.rows)
        for name in ("ids", "labels", "frequencies", "positions"):
            beside = getattr(self, name)
            if beside is not None and len(beside) != n_rows:
                raise InputError(f"A block of {n_rows} rows needs as many {name}; got {len(beside)}.")

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def dim(self) -> int:
        return self.rows.shape[1]

    @cached_property
    def index(self) -> Array:
        """``(n,)`` int64: where each row stands in the table."""
        if self.positions is not None:
            return self.positions
        return np.arange(self.start, self.start + len(self.rows), dtype=np.int64)

    def take(self, which: Any) -> Block:
        """The rows chosen by a slice, a mask or an array of positions within the block."""
        start = self.start
        if isinstance(which, slice) and which.step in (None, 1) and self.positions is None:
            start, positions = self.start + which.indices(len(self))[0], None
        else:
            positions = self.index[which]

        def pick(beside: Array | None) -> Array | None:
            return None if beside is None else beside[which]

        taken = Block(self.rows[which], start, pick(self.ids), pick(self.labels), pick(self.frequencies), positions)
        if "norms" in self.__dict__:  # known already: a part need not compute them again
            taken.__dict__["norms"] = self.norms[which]
        return taken

    def widened(self) -> Block:
        """The same block with C-ordered rows of float32 or float64 in native byte order."""
        rows = self.rows
        kind = rows.dtype
        if kind == np.float16:
            rows = rows.astype(np.float32)
        elif kind in (np.float32, np.float64):
            rows = np.ascontiguousarray(rows, dtype=kind.newbyteorder("="))
        elif kind.kind in "iub" or kind.kind == "f":
            rows = rows.astype(np.float32 if kind.itemsize <= 2 and kind.kind != "f" else np.float64)
        else:
            raise InputError(f"A table needs rows of real numbers; got dtype {kind}.")
        return self if rows is self.rows else replace(self, rows=rows)

    @cached_property
    def norms(self) -> Array:
        """``(n,)`` float64 Euclidean norms of the rows; not finite exactly where a row is not finite."""
        return row_norms(self.rows)

    @cached_property
    def exact_norms(self) -> Array:
        """The same from squares in float64, for what rests on the differences between norms."""
        if self.rows.dtype == np.float64:
            return self.norms
        step = max(1, _WIDE_ENTRIES // max(self.dim, 1))
        parts = [row_norms(self.rows[at : at + step].astype(np.float64)) for at in range(0, len(self), step)]
        return np.concatenate(parts) if parts else self.norms

    @cached_property
    def finite(self) -> Array | None:
        """``(n,)`` mask of the rows without NaN or infinity, or None when all of them are clean."""
        mask = np.isfinite(self.norms)
        if mask.all():
            return None
        suspects = np.flatnonzero(~mask)
        mask[suspects] = np.isfinite(self.rows[suspects]).all(axis=1)  # a norm may overflow where no entry does
        return None if mask.all() else mask


def dots(a: Array, b: Array) -> Array:
    """``(n,)`` dot product of every row of `a` with the same row of `b`, or with the one row that `b` is.

    A row gives the same digits wherever it stands, which a product of matrices does not promise.
    """
    # below this length a call of BLAS for each row costs more than the row
    if a.shape[1] >= 28:
        return np.vecdot(a, b)
    return np.einsum("ij,ij->i" if b.ndim == 2 else "ij,j->i", a, b)


def row_norms(rows: Float[Array, "n dim"]) -> Float[Array, " n"]:
    """Euclidean norm of every row, float64, safe from underflow and overflow of the squares."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = dots(rows, rows).astype(np.float64)
        low, high = _SAFE_SQUARES if rows.dtype == np.float32 else (1e-280, 1e300)
        doubtful = ~((squares > low) & (squares < high))
        norms = np.sqrt(squares)
        if doubtful.any():
            some = rows[doubtful].astype(np.float64)
            largest = np.abs(some).max(axis=1, initial=0.0)
            scale = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)[:, None]
            norms[doubtful] = np.sqrt(np.vecdot(some / scale, some / scale)) * scale[:, 0]
    return norms


@runtime_checkable
class Table(Protocol):
    """A shape, a dtype, and blocks of rows."""

    @property
    def name(self) -> str:
        """What the table is called: the tensor's name in a checkpoint, or the file's stem."""
        ...

    @property
    def dim(self) -> int: ...

    @property
    def n_rows(self) -> int | None:
        """Number of rows, or None when only reading to the end can tell."""
        ...

    @property
    def dtype(self) -> str:
        """Name of the stored type: ``"float32"``, ``"bfloat16"``, ``"int8"``, …"""
        ...

    @property
    def repeatable(self) -> bool:
        """Whether :meth:`blocks` may be called more than once."""
        ...

    def blocks(self, block_rows: int | None = None) -> Iterator[Block]:
        """Yield the rows from the first to the last in blocks of at most `block_rows` (None: about 8 MiB)."""
        ...
