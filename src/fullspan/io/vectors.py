"""Word vectors as text: a word and its numbers a line, after a line of counts (word2vec, fastText) or not (GloVe).

A word may hold spaces: the last `dim` fields of a line are its numbers. Lines whose first field is a number with a
point, as numpy.savetxt writes, have no words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fullspan._typing import Array, Block, Table
from fullspan.errors import FormatError, InputError
from fullspan.io._bounds import MAX_DIM, chosen_names, one_line, reading
from fullspan.io.base import OpenOptions, StreamTable, TableInfo
from fullspan.io.beside import attach
from fullspan.io.cells import as_numpy
from fullspan.io.streams import compression, line_chunks, open_bytes, stem

__all__ = ["list_tables", "open_tables", "parse_numbers", "text_dtype"]

_COUNTS = re.compile(rb"(\d{1,19})[ \t](\d{1,9})")
_POINT = re.compile(rb"[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?")
#: Lines that decide how many of the last fields are numbers.
_SAMPLE = 64


class _Layout(NamedTuple):
    counts: bool
    words: bool
    n_rows: int | None
    dim: int


def open_tables(path: Path, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open the one table of a file of word vectors, with the words as ids."""
    chosen_names(path, [stem(path)], names, ())
    dtype = text_dtype(options.dtype, "float32")
    with reading(path, "word vectors as text"):
        layout = _layout(path)

    def read(block_rows: int) -> Iterator[Block]:
        start = 0
        with reading(path, "word vectors as text"), open_bytes(path) as stream:
            for lines in _blocks(stream, path, layout, block_rows):
                block = _block(lines, layout, dtype, start, path)
                start += len(block)
                yield block

    table = StreamTable(stem(path), layout.dim, layout.n_rows, dtype, read, itemsize=np.dtype(dtype).itemsize)
    return [attach(table, options)]


def list_tables(path: Path) -> list[TableInfo]:
    """The one table of a file of word vectors."""
    with reading(path, "word vectors as text"):
        layout = _layout(path)
    kind = "word2vec text" if layout.counts else "GloVe text"
    return [TableInfo(stem(path), (layout.n_rows, layout.dim), "float32", True, "a row a line", kind)]


def text_dtype(asked: Any, default: str) -> str:
    """The type that numbers written as text become."""
    if asked is None:
        return default
    name = np.dtype(asked).name if asked in ("float32", "float64", np.float32, np.float64) else None
    if name is None:
        raise InputError(f'Numbers written as text need dtype="float32" or "float64"; got {asked!r}.')
    return name


def _layout(path: Path) -> _Layout:
    lines = _first_lines(path)
    size = path.stat().st_size if compression(_first_bytes(path)) is None else None
    match = _COUNTS.fullmatch(lines[0].strip()) if len(lines) > 1 else None
    if match is not None and len(lines[1].split()) >= int(match[2]) + 1:
        n_rows, dim = int(match[1]), int(match[2])
        _check_counts(path, n_rows, dim, size)
        return _Layout(True, True, n_rows, dim)
    fields = lines[0].split() if lines else []
    words = not (fields and _POINT.fullmatch(fields[0]))
    dim = Counter(_count_numbers(line) for line in lines).most_common(1)[0][0] if words and lines else len(fields)
    if not 1 <= dim <= MAX_DIM:
        raise FormatError(
            f"{str(path)!r} needs a word and from 1 to {MAX_DIM} numbers a line; got "
            f"{one_line(lines[0][:60] if lines else b'', 80)}."
        )
    return _Layout(False, words, None, dim)


def _count_numbers(line: bytes) -> int:
    """How many numbers follow a word, which may end in a number itself."""
    fields = line.split()[1:]
    for place, field in enumerate(reversed(fields)):
        try:
            float(field)
        except ValueError:
            return place
    return len(fields)


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(4)


def _first_lines(path: Path) -> list[bytes]:
    """The first lines that are not blank, two of them or as many as 64 KiB hold."""
    found: list[bytes] = []
    with open_bytes(path) as stream:
        for lines in line_chunks(stream, path.name, 2**16):
            found += [line for line in lines if line.strip()]
            if len(found) > 1:
                break
    return found[:_SAMPLE]


def _check_counts(path: Path, n_rows: int, dim: int, size: int | None) -> None:
    if n_rows < 1 or not 1 <= dim <= MAX_DIM:
        raise FormatError(
            f"{str(path)!r} needs counts of at least one row and from 1 to {MAX_DIM} dimensions; got {n_rows} x {dim}."
        )
    if size is not None and n_rows * 2 * dim > size:
        raise FormatError(
            f"{str(path)!r} announces {n_rows} rows of {dim} numbers, which need more than its {size} bytes. "
            "Is it truncated?"
        )


def _blocks(stream: Any, path: Path, layout: _Layout, block_rows: int) -> Iterator[list[bytes]]:
    """Lines that are not blank, at most `block_rows` at a time and about 64 MiB."""
    held: list[bytes] = []
    n_bytes, skip = 0, layout.counts
    for lines in line_chunks(stream, path.name):
        for line in lines:
            if not line or line.isspace():
                continue
            if skip:
                skip = False
                continue
            held.append(line)
            n_bytes += len(line)
            if len(held) >= block_rows or n_bytes > 2**26:
                yield held
                held, n_bytes = [], 0
    if held:
        yield held


def _block(lines: list[bytes], layout: _Layout, dtype: str, start: int, path: Path) -> Block:
    words, numbers = [], []
    dim = layout.dim
    n_spaces = dim if layout.words else dim - 1
    for place, line in enumerate(lines):
        line = line.rstrip()
        if line.count(b" ") == n_spaces and b"\t" not in line:
            word, _, rest = line.partition(b" ") if layout.words else (b"", b"", line)
        else:
            word, rest = _split(line, layout, start + place, path)
        words.append(word.decode("utf-8", "replace"))
        numbers.append(rest)
    rows = parse_numbers(numbers, dim, dtype, start, path)
    return Block(rows, start, np.array(words, dtype=object) if layout.words else None)


def _split(line: bytes, layout: _Layout, row: int, path: Path) -> tuple[bytes, bytes]:
    """The word, which may hold spaces, and the last `dim` fields."""
    fields = line.split()
    if len(fields) < layout.dim + layout.words or (len(fields) > layout.dim and not layout.words):
        raise InputError(
            f"{str(path)!r} needs {layout.dim} numbers{' and a word' if layout.words else ''} a line; got "
            f"{len(fields)} fields in row {row}."
        )
    numbers = fields[len(fields) - layout.dim :]
    return b" ".join(fields[: len(fields) - layout.dim]), b" ".join(numbers)


def parse_numbers(lines: list[bytes], dim: int, dtype: str, start: int, path: Path) -> Array:
    """Lines of `dim` numbers divided by single spaces as an array, ``(len(lines), dim)``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        parts = pc.split_pattern(_one_text(b" ".join(lines)), " ")  # type: ignore[attr-defined]  # made when it loads
        values = as_numpy(pc.cast(parts.values, pa.type_for_alias(dtype)))
        if values.size == len(lines) * dim:
            return values.reshape(len(lines), dim)
    except pa.ArrowInvalid:
        pass
    return np.array([_row(line, dim, start + place, path) for place, line in enumerate(lines)], dtype=dtype)


def _one_text(data: bytes) -> Any:
    """An Arrow array of one text; `pyarrow.array` would import pandas."""
    import pyarrow as pa

    offsets = np.array([0, len(data)], np.int64)
    return pa.LargeStringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(data))


def _row(line: bytes, dim: int, row: int, path: Path) -> list[float]:
    fields = line.split()
    try:
        numbers = [float(field) for field in fields]
    except ValueError:
        numbers = []
    if len(numbers) != dim:
        raise InputError(
            f"{str(path)!r} needs {dim} numbers a line; got {one_line(line.decode('utf-8', 'replace'), 60)!r} "
            f"in row {row}."
        )
    return numbers
