"""What lies beside the rows: ids, labels and frequencies given as an array or as a file with one value a row."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fullspan._backend import is_torch_tensor, tensor_to_numpy
from fullspan._typing import Array, Block, Table
from fullspan.errors import FormatError, InputError, MissingFileError, UnknownNameError
from fullspan.io._bounds import one_line, reading
from fullspan.io.base import ArrayTable, OpenOptions, StreamTable, with_beside
from fullspan.io.streams import local_path, open_bytes

__all__ = ["KINDS", "attach", "attach_arrays", "attach_to_fitting", "checked_frequencies", "given_values", "is_path"]

KINDS = ("ids", "labels", "frequencies")
#: Bytes of a file of ids, labels or frequencies: 64 million rows of 32 characters.
_MAX_BYTES = 2**31


def attach(table: Table, options: OpenOptions) -> Table:
    """Put what the options give beside the rows of `table`; a table with nothing to add comes back as it is."""
    return attach_arrays(table, _given(options))


def attach_to_fitting(tables: list[Table], options: OpenOptions) -> list[Table]:
    """Put what the options give beside the tables of as many rows; at least one must have as many.

    A checkpoint holds tokens and positions, and one file of frequencies is about one of them.
    """
    given = _given(options)
    for what, values in given.items():
        if len(tables) and all(table.n_rows not in (None, len(values)) for table in tables):
            rows = ", ".join(str(table.n_rows) for table in tables[:8])
            raise InputError(f"{what} need as many values as a table has rows ({rows}); got {len(values)}.")
    return [
        attach_arrays(table, {what: values for what, values in given.items() if table.n_rows in (None, len(values))})
        for table in tables
    ]


def _given(options: OpenOptions) -> dict[str, Array]:
    given = {what: given_values(getattr(options, what), what) for what in KINDS}
    return {what: values for what, values in given.items() if values is not None}


def attach_arrays(table: Table, given: dict[str, Array]) -> Table:
    """Put arrays beside the rows of any table."""
    if not given:
        return table
    if table.n_rows is not None:
        for what, values in given.items():
            _check_length(table.name, what, len(values), table.n_rows)
    if isinstance(table, ArrayTable):
        return with_beside(table, **given)

    def read(block_rows: int) -> Iterator[Block]:
        done = 0
        for block in table.blocks(block_rows):
            done += len(block)
            beside = {what: values[done - len(block) : done] for what, values in given.items()}
            for what, values in beside.items():
                if len(values) < len(block):
                    _check_length(table.name, what, len(given[what]), done)
            yield Block(block.rows, block.start, **{**_present(block), **beside})
        for what, values in given.items():
            _check_length(table.name, what, len(values), done)

    return StreamTable(table.name, table.dim, table.n_rows, table.dtype, read, repeatable=table.repeatable)


def _present(block: Block) -> dict[str, Array | None]:
    return {what: getattr(block, what) for what in KINDS}


def _check_length(name: str, what: str, found: int, n_rows: int) -> None:
    if found != n_rows:
        raise InputError(f"{name!r} has {n_rows} rows and needs as many {what}; got {found}.")


def is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def given_values(value: Any, what: str) -> Array | None:
    """The array that an option names: a file of one value a row, or an array; None where it is None or False."""
    if value is None or value is False:
        return None
    values = _from_file(value, what) if is_path(value) else _as_array(value, what)
    if values.ndim != 1:
        raise InputError(f"{what} need one value a row, shape (n_rows,); got shape {values.shape}.")
    return checked_frequencies(values) if what == "frequencies" else values


def _as_array(value: Any, what: str) -> Array:
    if is_torch_tensor(value):
        return tensor_to_numpy(value)
    if isinstance(value, np.ndarray):
        return value
    try:
        items = (
            value.to_pylist() if callable(getattr(value, "to_pylist", None)) else list(value)
        )  # pyarrow's own scalars
    except TypeError:
        raise InputError(f"{what} need a column's name, a path or an array; got {type(value).__name__}.") from None
    items = [None if type(item).__name__ == "NAType" else item for item in items]  # what pandas has for a missing one
    if not any(isinstance(item, str) for item in items):
        return np.asarray(items)
    missing = [what == "labels" and (item is None or item != item) for item in items]  # a row without a label has none
    return np.array([None if gone else str(item) for item, gone in zip(items, missing, strict=True)], dtype=object)


def checked_frequencies(values: Any, start: int = 0) -> Array:
    """Frequencies as float64, each finite and not negative; `start` is the row of the first, for the message."""
    values = np.asarray(values)
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"frequencies need numbers; got dtype {values.dtype}: {one_line(error, 80)}.") from None
    with np.errstate(invalid="ignore"):
        good = np.isfinite(numbers) & (numbers >= 0)
    if not good.all():
        row = int(np.argmin(good))
        raise InputError(f"frequencies need finite numbers from 0 on; got {numbers[row]} in row {start + row}.")
    return numbers


def _from_file(value: Any, what: str) -> Array:
    value, column = _split_column(value)
    try:
        path = local_path(value)
    except MissingFileError:
        raise MissingFileError(
            f"{what} need the path of a file with one value a row, or an array; got {os.fspath(value)!r}, "
            "which is no file. A column's name works for tables that have columns."
        ) from None
    if path.is_dir():
        raise InputError(f"{what} need a file with one value a row; got the folder {str(path)!r}.")
    with reading(path, f"a file of {what}, one a row"):
        with open_bytes(path) as stream:
            first = stream.read(6)
        if first[:4] == b"PAR1" or first == b"ARROW1":
            return _from_column(path, column, what, parquet=first[:4] == b"PAR1")
        return _from_npy(path, what) if first == b"\x93NUMPY" else _from_lines(path, what)


def _split_column(value: Any) -> tuple[Any, str | None]:
    """``"words.parquet:word"`` as the file and the column in it; a file that has a colon in its name is itself."""
    text = os.fspath(value)
    file, colon, column = text.rpartition(":")
    if colon and column and not Path(text).exists() and Path(file).is_file():
        return file, column
    return value, None


def _from_column(path: Path, column: str | None, what: str, *, parquet: bool) -> Array:
    """A column of a parquet or Arrow file: the one that is named, or the only one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pa.memory_map(str(path)) as stream:
        names = pq.read_schema(stream).names if parquet else pa.ipc.open_file(stream).schema.names
        if column is None and len(names) > 1:
            raise InputError(
                f"{what} need one column of {str(path)!r}; got {len(names)} of them. "
                f'Name it as "{path.name}:COLUMN": {", ".join(one_line(name, 40) for name in names[:10])}.'
            )
        chosen = column if column is not None else names[0]
        if chosen not in names:
            known = ", ".join(one_line(name, 40) for name in names[:10])
            raise UnknownNameError(f"{str(path)!r} has no column {chosen!r}; it has {known}.")
        if parquet:
            values = pq.read_table(stream, columns=[chosen]).column(0)
        else:
            values = pa.ipc.open_file(stream).read_all().column(chosen)
        if values.null_count:
            raise InputError(f"{what} need a value in every row; got {values.null_count} nulls in column {chosen!r}.")
        return values.to_numpy() if what == "frequencies" else np.array(values.to_pylist(), dtype=object)


def _from_npy(path: Path, what: str) -> Array:
    from fullspan.io.npy import open_memmap

    values = open_memmap(path, ndim=1)
    return np.asarray(values) if what == "frequencies" else values


def _from_lines(path: Path, what: str) -> Array:
    """One value a line; a first line that is no number is the header of frequencies, and "id" or "label" of others."""
    size = path.stat().st_size
    if size > _MAX_BYTES:
        raise FormatError(f"A file of {what} needs at most {_MAX_BYTES} bytes; got {size} in {str(path)!r}.")
    with open_bytes(path) as stream:
        raw = stream.read(_MAX_BYTES + 1)
    if len(raw) > _MAX_BYTES:
        raise FormatError(f"A file of {what} needs at most {_MAX_BYTES} bytes; {str(path)!r} decompresses to more.")
    lines = raw.decode("utf-8-sig").splitlines() if b"\r" in raw else raw.decode("utf-8-sig").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if what == "frequencies":
        return _numbers(path, lines)
    if lines and lines[0].strip().lower() in _HEADERS[what]:
        lines = lines[1:]
    return np.array(lines, dtype=object)


_HEADERS = {"ids": ("id", "ids", "word", "token", "key", "item_id", "user_id"), "labels": ("label", "labels", "class")}


def _numbers(path: Path, lines: list[str]) -> Array:
    if lines and not _is_number(lines[0]):
        lines = lines[1:]
    numbers = np.empty(len(lines))
    for row, line in enumerate(lines):
        if not _is_number(line):
            raise InputError(
                f"frequencies need one number a line; got {one_line(line, 40)!r} in row {row} of {str(path)!r}."
            )
        numbers[row] = float(line)
    return numbers


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
