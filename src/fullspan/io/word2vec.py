"""The binary format of the word2vec tool: a line of counts, then a word, a space and float32 numbers a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from fullspan._typing import Array, Block, Table
from fullspan.errors import FormatError
from fullspan.io._bounds import MAX_DIM, MAX_WORD, chosen_names, reading
from fullspan.io.base import OpenOptions, StreamTable, TableInfo, row_ranges
from fullspan.io.beside import attach
from fullspan.io.streams import compression, open_bytes, stem

__all__ = ["list_tables", "open_tables"]

_WHAT = "a word2vec binary file"
_CHUNK = 2**22


def open_tables(path: Path, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open the one table of a word2vec binary file, with the words as ids."""
    chosen_names(path, [stem(path)], names, ())
    with reading(path, _WHAT), open_bytes(path) as stream:
        n_rows, dim = _counts(stream, path)

    def read(block_rows: int) -> Iterator[Block]:
        with reading(path, _WHAT), open_bytes(path) as stream:
            _counts(stream, path)
            words = _Reader(stream, dim, path)
            for start, stop in row_ranges(n_rows, block_rows):
                yield Block(*words.take(start, stop - start))
            words.expect_end()

    return [attach(StreamTable(stem(path), dim, n_rows, "float32", read), options)]


def list_tables(path: Path) -> list[TableInfo]:
    """The one table of a word2vec binary file."""
    with reading(path, _WHAT), open_bytes(path) as stream:
        shape = _counts(stream, path)
    return [TableInfo(stem(path), shape, "float32", True, "a row a word", "word2vec binary")]


def _counts(stream: BinaryIO, path: Path) -> tuple[int, int]:
    """The number of rows and the dim, checked against the size of the file."""
    line = b""
    while not line.endswith(b"\n"):
        sign = stream.read(1)
        line += sign
        if not sign or len(line) > 64:
            raise FormatError(f"{str(path)!r} needs a first line of two counts; got {line[:32]!r}.")
    fields = line.split()
    if len(fields) != 2 or not all(one.isdigit() for one in fields):
        raise FormatError(f"{str(path)!r} needs a first line of two counts; got {line[:32]!r}.")
    n_rows, dim = int(fields[0]), int(fields[1])
    if n_rows < 1 or not 1 <= dim <= MAX_DIM:
        raise FormatError(f"{str(path)!r} needs at least one row and 1 to {MAX_DIM} dimensions; got {n_rows} x {dim}.")
    _check_size(path, n_rows, dim, len(line))
    return n_rows, dim


def _check_size(path: Path, n_rows: int, dim: int, header: int) -> None:
    with path.open("rb") as stream:
        if compression(stream.read(4)) is not None:
            return
    needed, found = n_rows * (4 * dim + 1), path.stat().st_size - header
    if needed > found:
        raise FormatError(
            f"{str(path)!r} needs at least {needed} bytes for {n_rows} rows of {dim} numbers; got {found}. "
            "Is it truncated?"
        )


class _Reader:
    """Rows one after the other out of a stream, with at most one row and a few MiB held."""

    def __init__(self, stream: BinaryIO, dim: int, path: Path) -> None:
        self._stream, self._dim, self._path = stream, dim, path
        self._held, self._at = b"", 0

    def take(self, start: int, count: int) -> tuple[Array, int, Array]:
        """The next `count` rows, where they start, and their words."""
        rows = np.empty((count, self._dim), np.float32)
        words = np.empty(count, object)
        for place in range(count):
            end = self._end_of_word(start + place)
            words[place] = self._held[self._at : end].lstrip(b"\n").decode("utf-8", "replace")
            rows[place] = np.frombuffer(self._held, "<f4", self._dim, end + 1)
            self._at = end + 1 + 4 * self._dim
        return rows, start, words

    def _end_of_word(self, row: int) -> int:
        """Where the space after the next word stands, once the whole row is held."""
        while True:
            end = self._held.find(b" ", self._at, self._at + MAX_WORD)
            if end >= 0 and len(self._held) >= end + 1 + 4 * self._dim:
                return end
            if end < 0 and len(self._held) - self._at >= MAX_WORD:
                raise FormatError(
                    f"{str(self._path)!r} needs words of at most {MAX_WORD} bytes; got a longer one in row {row}. "
                    "Is its dim another one?"
                )
            chunk = self._stream.read(_CHUNK)
            if not chunk:
                raise FormatError(f"{str(self._path)!r} needs more rows; got the end of the file in row {row}.")
            self._held, self._at = self._held[self._at :] + chunk, 0

    def expect_end(self) -> None:
        """Refuse a file that goes on after the rows that it announces."""
        rest = self._held[self._at :] + self._stream.read(16)
        if rest.strip():
            raise FormatError(f"{str(self._path)!r} has more rows than it announces. Is its header damaged?")
