"""The rows of a fit: whatever they come from, block by block, with weights, without what the policy leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fullspan._backend import is_torch_tensor, tensor_dtype, tensor_to_numpy
from fullspan._typing import Array, Block
from fullspan.errors import InputError
from fullspan.normalize.stages import run

__all__ = ["POLICIES", "Counts", "Source", "check_rows", "open_source"]

POLICIES = ("error", "skip", "keep")
_BLOCK_BYTES = 1 << 20


@dataclass
class Counts:
    """Rows of zeros, with NaN and with infinity that a pass met."""

    zero: int = 0
    nan: int = 0
    infinite: int = 0

    def as_dict(self) -> dict[str, int]:
        return {"zero": self.zero, "nan": self.nan, "infinite": self.infinite}


def check_rows(block: Block, zero_rows: str, nan_rows: str, user: str, counts: Counts) -> Array | None:
    """The mask of the rows that a fit takes, or None for all; raises where a policy says error."""
    if _surely_plain(block.rows):
        return None
    norms, finite = block.norms, block.finite
    zero = norms == 0.0
    counts.zero += int(np.count_nonzero(zero))
    if finite is not None:
        nan: Any = np.isnan(block.rows[~finite]).any(axis=1)
        counts.nan += int(nan.sum())
        counts.infinite += int((~nan).sum())
        if nan_rows == "error":
            row, what = int(block.index[~finite][0]), "NaN" if nan[0] else "an infinity (inf)"
            raise InputError(
                f"{user} needs finite rows; got {what} in row {row}. Leave such rows out with nan_rows='skip', or let "
                "them through with nan_rows='keep'."
            )
    if zero_rows == "error" and zero.any():
        raise InputError(
            f"{user} needs rows that are not all zeros; got one at row {int(block.index[zero][0])}. Take "
            "zero_rows='skip' to leave such rows as they are, or 'keep' to treat them as any other."
        )
    if zero_rows == "skip" and zero.any():
        return ~zero if finite is None else finite & ~zero
    return finite


def _surely_plain(rows: Array) -> bool:
    """A quick look: the sum is finite, and no row begins with a zero. False means that one has to look closer."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(rows.sum())) and bool(rows[:, 0].all())


@dataclass
class Source:
    """Blocks of rows for one or more passes."""

    table: Any
    user: str
    weights: Any = None
    zero_rows: str = "keep"
    nan_rows: str = "error"
    stages: Sequence[Any] = ()
    repeat: bool = False
    counts: Counts = field(default_factory=Counts)
    storage: str | None = None
    frequencies: bool = True
    n_rows: int = 0
    dim: int | None = None

    def behind(self, stages: Sequence[Any], repeat: bool) -> Source:
        """The same rows for another pass, behind the stages that are fitted by now."""
        return replace(self, stages=tuple(stages), repeat=repeat, counts=Counts(), n_rows=0)

    def blocks(self, block_rows: int | None = None) -> Iterator[Block]:
        for block in _blocks(self.table, block_rows):
            if self.storage is None:
                self.storage = str(block.rows.dtype)
            self._check_length(block)
            block = self._weighted(block.widened())
            mask = check_rows(block, self.zero_rows, self.nan_rows, self.user, self.counts)
            self.n_rows += len(block)
            yield self._prepared(block if mask is None else block.take(mask))

    def _check_length(self, block: Block) -> None:
        if self.dim is None:
            self.dim = block.dim
        elif block.dim != self.dim:
            raise InputError(
                f"X has {block.dim} features, but {self.user} is expecting {self.dim} features as input. Are these "
                "rows of another table?"
            )

    def _prepared(self, block: Block) -> Block:
        if self.stages and len(block):
            block = replace(block, rows=run(self.stages, block.rows))
        if self.repeat and block.frequencies is not None:
            block = block.take(np.repeat(np.arange(len(block)), block.frequencies.astype(np.int64)))
        return block

    def _weighted(self, block: Block) -> Block:
        if self.weights is None:
            return block if block.frequencies is None else replace(block, frequencies=None)
        weights = block.frequencies if isinstance(self.weights, str) else self._slice(block)
        if weights is None:
            raise InputError(f"{self.user} with sample_weight='frequencies' needs a table with frequencies; got none.")
        weights = np.asarray(weights, dtype=np.float64)
        if not (weights >= 0.0).all() or np.isinf(weights).any():
            raise InputError(f"{self.user} needs sample_weight finite and not negative; got {weights.min()}.")
        whole = bool((weights == np.floor(weights)).all())
        self.frequencies = self.frequencies and whole
        if self.repeat and not whole:
            raise InputError(
                f"{self.user} needs whole numbers as sample_weight, because quantiles count rows; got fractions."
            )
        return replace(block, frequencies=weights)

    def _slice(self, block: Block) -> Array:
        if block.start + len(block) > len(self.weights):
            raise InputError(
                f"{self.user} needs one sample_weight for every row; got {len(self.weights)} for more rows than that."
            )
        return self.weights[block.index]

    def finish(self) -> None:
        """Check what only the end of the table can tell."""
        if self.weights is not None and not isinstance(self.weights, str) and len(self.weights) != self.n_rows:
            raise InputError(
                f"{self.user} needs one sample_weight for every row; got {len(self.weights)} for {self.n_rows} rows."
            )

    @property
    def repeatable(self) -> bool:
        """Whether the rows can be read more than once."""
        if hasattr(self.table, "blocks"):
            return bool(getattr(self.table, "repeatable", True))
        return not isinstance(self.table, Iterator)


def open_source(what: Any, weights: Any) -> tuple[Any, Any]:
    """A table, an iterable of blocks or an array from what a user hands to fit; and the weights as an array."""
    if weights is not None and not isinstance(weights, str):
        weights = np.asarray(weights, dtype=np.float64)
        if weights.ndim == 0:
            raise InputError("sample_weight needs one number for every row; got a single number.")
        if weights.ndim != 1:
            raise InputError(f"Sample weights must be 1D array; got sample_weight of shape {weights.shape}.")
    elif isinstance(weights, str) and weights != "frequencies":
        raise InputError(f"sample_weight needs an array or 'frequencies'; got {weights!r}.")
    if isinstance(what, (str, Path)):
        from fullspan.io.formats import open_table

        what = open_table(what)
    return what, weights


def is_stream(what: Any) -> bool:
    """Whether rows come in blocks, not as one array."""
    if hasattr(what, "blocks") or isinstance(what, Iterator):
        return True
    return isinstance(what, (list, tuple)) and bool(what) and (isinstance(what[0], Block) or np.ndim(what[0]) == 2)


def _blocks(table: Any, block_rows: int | None) -> Iterator[Block]:
    if hasattr(table, "blocks"):
        yield from table.blocks(block_rows)
    elif is_torch_tensor(table) or isinstance(table, np.ndarray):
        size = max(1, table.shape[1] * table.itemsize)
        step = block_rows or max(1, _BLOCK_BYTES // size)
        for start in range(0, len(table), step):
            rows = table[start : start + step]
            yield Block(tensor_to_numpy(rows) if is_torch_tensor(rows) else rows, start)
    else:
        yield from _numbered(table)


def _numbered(parts: Iterable[Any]) -> Iterator[Block]:
    start = 0
    for part in parts:
        if isinstance(part, Block):
            block = part
        else:
            rows = np.asarray(tensor_to_numpy(part) if is_torch_tensor(part) else part)
            if rows.ndim != 2:
                raise InputError(f"An iterable of blocks needs arrays of shape (n, dim); got shape {rows.shape}.")
            block = Block(rows, start)
        start += len(block)
        yield block


def storage_of(table: Any) -> str | None:
    """The type in which a table stores its rows, where it says so."""
    if is_torch_tensor(table):
        return tensor_dtype(table)
    kind = getattr(table, "dtype", None)
    return str(kind) if kind is not None else None
