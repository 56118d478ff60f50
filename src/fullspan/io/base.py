"""What every reader shares: the options of opening, what a listing says, and a table over anything that slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fullspan._typing import Array, Block
from fullspan.errors import FormatError, InputError

__all__ = [
    "BLOCK_BYTES",
    "NARROW_FLOATS",
    "ArrayTable",
    "OpenOptions",
    "StreamTable",
    "TableInfo",
    "block_rows_for",
    "float_rows",
    "row_ranges",
    "stored_dtype",
    "with_beside",
]

#: About how many bytes of decoded rows a block holds unless the caller says otherwise.
BLOCK_BYTES = 8 * 2**20

#: Types of ml_dtypes that NumPy knows only by name; float32 holds each of them exactly.
NARROW_FLOATS = ("bfloat16", "float8_", "float6_", "float4_")


@dataclass(frozen=True)
class OpenOptions:
    """What the caller said about the file, beyond its path and the names of the tables.

    Parameters
    ----------
    column
        Column of the vectors (parquet, csv, jsonl, Hugging Face data sets), or a glob over one column a dimension.
    ids, labels, frequencies
        What lies beside the rows: a column name, a path to a file with one value a row, or an array.
    dtype
        Stored type, for formats that do not say it: ``"float32"``, or ``"float32x128"`` with the dim of a raw file.
    """

    column: str | None = None
    ids: Any = None
    labels: Any = None
    frequencies: Any = None
    dtype: Any = None


@dataclass(frozen=True)
class TableInfo:
    """One table of a file, as a listing shows it without reading its rows.

    Parameters
    ----------
    name
        What ``table=`` takes to open it.
    shape
        ``(n_rows, dim)``; n_rows is None where only reading to the end can tell. Other tensors keep their own shape.
    dtype
        Name of the stored type.
    embedding
        Whether its name and shape are those of an embedding table.
    why
        The reason for that guess, in a few words.
    format
        Name of the format of the file.
    also
        Other names of the same (tied) weights.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: str
    embedding: bool
    why: str
    format: str
    also: tuple[str, ...] = field(default=())


def stored_dtype(kind: np.dtype[Any]) -> str:
    """The name of a NumPy type without its byte order: ``"float32"``."""
    return kind.name


def float_rows(rows: Any, name: str = "A table") -> Array:
    """`rows` as float16, float32 or float64 in native byte order, a view where the type already is one of them.

    Integers of at most 16 bits, booleans and narrow floats become float32, wider ones float64.
    """
    rows = np.asarray(rows)
    kind = rows.dtype
    if kind.char in "fde" and kind.isnative:
        return rows
    if kind.kind == "f" and kind.itemsize <= 8 and not kind.name.startswith(NARROW_FLOATS):
        return rows if kind.isnative else rows.astype(kind.newbyteorder("="))
    if kind.name.startswith(NARROW_FLOATS):
        return rows.astype(np.float32)
    if kind.kind in "iub":
        return rows.astype(np.float32 if kind.itemsize <= 2 else np.float64)
    if kind.kind == "f":
        with np.errstate(over="ignore"):
            return rows.astype(np.float64)
    raise InputError(f"{name} needs rows of real numbers; got dtype {kind}.")


def block_rows_for(dim: int, itemsize: int = 4) -> int:
    """How many rows of `dim` numbers of `itemsize` bytes fill about 8 MiB; at least one."""
    return max(1, BLOCK_BYTES // max(1, dim * itemsize))


def row_ranges(n_rows: int, block_rows: int, start: int = 0) -> Iterator[tuple[int, int]]:
    """The ranges ``(start, stop)`` of at most `block_rows` rows that cover the table."""
    if block_rows < 1:
        raise InputError(f"A block needs at least one row; got block_rows={block_rows}.")
    for first in range(start, n_rows, block_rows):
        yield first, min(first + block_rows, n_rows)


class ArrayTable:
    """A table over anything that has a shape and slices by rows: an array, a memory map, a data set of HDF5.

    Parameters
    ----------
    name
        What the table is called.
    rows
        Object with ``shape == (n_rows, ...)`` whose ``rows[start:stop]`` gives the stored rows. Nothing is read
        before :meth:`blocks`.
    dtype
        Name of the stored type; by default that of `rows`.
    dim
        Number of decoded dimensions; by default ``rows.shape[1]``.
    decode
        Function from stored rows to ``(n, dim)`` rows of float16, float32 or float64; by default :func:`float_rows`.
    itemsize
        Bytes of one decoded number, which sets the default block (4, or 8 where the stored type is wider).
    ids, labels, frequencies
        ``(n_rows,)`` arrays beside the rows, or anything that slices to one; or None.
    """

    repeatable = True
    #: What a report should say about how the table was chosen, or None.
    note: str | None = None

    def __init__(
        self,
        name: str,
        rows: Any,
        *,
        dtype: str | None = None,
        dim: int | None = None,
        decode: Callable[[Any], Array] | None = None,
        itemsize: int | None = None,
        ids: Any = None,
        labels: Any = None,
        frequencies: Any = None,
    ) -> None:
        shape = tuple(rows.shape)
        if dim is None and len(shape) != 2:
            raise InputError(_shape_message(name, shape))
        self.name = name
        self.rows = rows
        self.n_rows: int = int(shape[0])
        self.dim = int(shape[1] if dim is None else dim)
        if self.n_rows < 1 or self.dim < 1:
            raise InputError(f"A table needs at least one row and one dimension; got shape {shape} in {name!r}.")
        self.dtype = dtype if dtype is not None else stored_dtype(np.dtype(rows.dtype))
        self.itemsize = itemsize or (8 if self.dtype in ("float64", "int32", "uint32", "int64", "uint64") else 4)
        self._decode = decode or float_rows
        self.ids = self._beside("ids", ids)
        self.labels = self._beside("labels", labels)
        self.frequencies = self._beside("frequencies", frequencies)

    def _beside(self, what: str, values: Any) -> Any:
        if values is not None and len(values) != self.n_rows:
            raise InputError(f"{self.name!r} has {self.n_rows} rows and needs as many {what}; got {len(values)}.")
        return values

    def between(self, start: int, stop: int) -> Block:
        """The rows from `start` up to `stop`, both clamped to the table."""
        start, stop = max(0, start), min(stop, self.n_rows)
        rows = self._decode(self.rows[start:stop])
        if rows.shape != (stop - start, self.dim):
            raise FormatError(
                f"{self.name!r} needs {stop - start} rows of {self.dim} numbers from row {start}; "
                f"got shape {rows.shape}. Is the file truncated or still being written?"
            )
        return Block(rows, start, *(_cut(beside, start, stop) for beside in (self.ids, self.labels, self.frequencies)))

    def blocks(self, block_rows: int | None = None) -> Iterator[Block]:
        """Yield the rows from the first to the last in blocks of at most `block_rows` (None: about 8 MiB)."""
        size = block_rows_for(self.dim, self.itemsize) if block_rows is None else block_rows
        for start, stop in row_ranges(self.n_rows, size):
            yield self.between(start, stop)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.n_rows} rows x {self.dim}, {self.dtype}>"


class StreamTable:
    """A table read from its start to its end: a compressed file, text, batches of columns, an iterator.

    Parameters
    ----------
    name, dim, n_rows, dtype
        As :class:`fullspan._typing.Table` says; `n_rows` None where only reading to the end can tell.
    read
        Function from a number of rows to an iterator of blocks of about that size, each with its `start`.
    repeatable
        Whether `read` may be called again.
    itemsize
        Bytes of one decoded number, which sets the default block.
    """

    #: What a report should say about how the table was chosen, or None.
    note: str | None = None

    def __init__(
        self,
        name: str,
        dim: int,
        n_rows: int | None,
        dtype: str,
        read: Callable[[int], Iterator[Block]],
        *,
        repeatable: bool = True,
        itemsize: int = 4,
    ) -> None:
        if dim < 1 or (n_rows is not None and n_rows < 1):
            raise InputError(
                f"A table needs at least one row and one dimension; got {n_rows} rows x {dim} in {name!r}."
            )
        self.name, self.dim, self.n_rows, self.dtype = name, dim, n_rows, dtype
        self.repeatable, self.itemsize = repeatable, itemsize
        self._read, self._was_read = read, False

    def blocks(self, block_rows: int | None = None) -> Iterator[Block]:
        """Yield the rows from the first to the last in blocks of at most `block_rows` (None: about 8 MiB)."""
        if self._was_read and not self.repeatable:
            raise InputError(
                f"{self.name!r} needs to be read again, but its rows came from an iterator; got a second pass. "
                "Pass an array, a file, or an object whose blocks() starts anew."
            )
        size = block_rows_for(self.dim, self.itemsize) if block_rows is None else block_rows
        if size < 1:
            raise InputError(f"A block needs at least one row; got block_rows={size}.")
        self._was_read = True
        done = 0
        for block in self._read(size):
            if block.dim != self.dim:
                raise InputError(f"{self.name!r} needs rows of {self.dim} numbers; got {block.dim} from row {done} on.")
            done += len(block)
            yield from _split(block, size)
        self._check_count(done)

    def _check_count(self, done: int) -> None:
        if done == 0 or (self.n_rows is not None and done != self.n_rows):
            raise FormatError(
                f"{self.name!r} needs {f'{self.n_rows} rows' if self.n_rows else 'at least one row'}; got {done}. "
                "Is the file truncated or still being written?"
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.n_rows or '?'} rows x {self.dim}, {self.dtype}>"


def _split(block: Block, size: int) -> Iterator[Block]:
    if len(block) <= size:
        yield block
        return
    for start, stop in row_ranges(len(block), size):
        yield block.take(slice(start, stop))


def with_beside(table: ArrayTable, *, ids: Any = None, labels: Any = None, frequencies: Any = None) -> ArrayTable:
    """Put arrays beside the rows of a table, where given; the lengths must match."""
    for what, values in (("ids", ids), ("labels", labels), ("frequencies", frequencies)):
        if values is not None:
            setattr(table, what, table._beside(what, values))
    return table


def _cut(beside: Any, start: int, stop: int) -> Array | None:
    return None if beside is None else np.asarray(beside[start:stop])


def _shape_message(name: str, shape: tuple[int, ...]) -> str:
    hint = {
        1: " A single vector is E[None, :]; one value a row is E[:, None].",
        3: " Choose one slice, or flatten the leading dimensions with E.reshape(-1, E.shape[-1]).",
    }
    return f"A table needs 2 dimensions, rows and dim; got shape {shape} in {name!r}.{hint.get(len(shape), '')}"
