"""Tables written from their start to their end as bytes: npy, safetensors, word vectors, text."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError

__all__ = ["SUFFIXES", "RowEncoder", "encoder_for"]

_KINDS = {"float16": "F16", "float32": "F32", "float64": "F64", "bfloat16": "BF16"}
_COPY_BYTES = 1 << 20
#: Suffix of the output to the format it names.
SUFFIXES = {
    ".npy": "npy",
    ".safetensors": "safetensors",
    ".vec": "word2vec text",
    ".w2v": "word2vec text",
    ".bin": "word2vec binary",
    ".glove": "GloVe text",
    ".txt": "GloVe text",
    ".csv": "csv",
    ".tsv": "tsv",
}


class RowEncoder:
    """Rows as the bytes of one format; `head`, then `rows` in their order, then `tail` make a file."""

    needs_ids = False

    def __init__(self, n_rows: int, dim: int, dtype: str, ids: bool) -> None:
        self.n_rows, self.dim, self.dtype, self.ids = n_rows, dim, dtype, ids

    def head(self) -> bytes:
        return b""

    def rows(self, rows: Array, ids: Any, start: int) -> bytes:
        raise NotImplementedError

    def tail(self) -> Iterator[bytes]:
        return iter(())


class _Npy(RowEncoder):
    def head(self) -> bytes:
        held = io.BytesIO()
        kind = np.dtype(self.dtype).newbyteorder("<")
        header = {"descr": kind.str, "fortran_order": False, "shape": (self.n_rows, self.dim)}
        np.lib.format.write_array_header_1_0(held, header)
        return held.getvalue()

    def rows(self, rows: Array, ids: Any, start: int) -> bytes:
        return _little(rows, self.dtype)


class _Safetensors(RowEncoder):
    """The table first, then the other tensors of the input, byte for byte."""

    def __init__(self, *settings: Any, name: str, stamp: str, source: Path | None) -> None:
        super().__init__(*settings)
        self.name, self.stamp, self.source = name, stamp, source
        self.others: dict[str, Any] = {}
        self.metadata: dict[str, str] = {}
        self.data_at = 0
        if source is not None:
            with source.open("rb") as stream:
                length = int.from_bytes(stream.read(8), "little")
                entries = json.loads(stream.read(length))
            self.metadata = entries.pop("__metadata__", {})
            self.others = {key: entry for key, entry in entries.items() if key != name}
            self.data_at = 8 + length

    def head(self) -> bytes:
        size = self.n_rows * self.dim * (2 if self.dtype == "bfloat16" else np.dtype(self.dtype).itemsize)
        table = {"dtype": _KINDS[self.dtype], "shape": [self.n_rows, self.dim], "data_offsets": [0, size]}
        entries: dict[str, Any] = {"__metadata__": {**self.metadata, "fullspan": self.stamp}, self.name: table}
        for key, entry in self.others.items():
            start, stop = entry["data_offsets"]
            entries[key] = {**entry, "data_offsets": [size, size + stop - start]}
            size += stop - start
        head = json.dumps(entries).encode()
        head += b" " * (-len(head) % 8)
        return len(head).to_bytes(8, "little") + head

    def rows(self, rows: Array, ids: Any, start: int) -> bytes:
        if self.dtype != "bfloat16":
            return _little(rows, self.dtype)
        bits = np.ascontiguousarray(rows, "<f4").view("<u4").astype(np.uint64)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()

    def tail(self) -> Iterator[bytes]:
        if self.source is None or not self.others:
            return
        with self.source.open("rb") as stream:
            for entry in self.others.values():
                start, stop = entry["data_offsets"]
                stream.seek(self.data_at + start)
                for at in range(start, stop, _COPY_BYTES):
                    yield stream.read(min(_COPY_BYTES, stop - at))


class _Words(RowEncoder):
    """word2vec with its line of counts, or GloVe without."""

    needs_ids = True

    def __init__(self, *settings: Any, counts: bool, binary: bool) -> None:
        super().__init__(*settings)
        self.counts, self.binary = counts, binary

    def head(self) -> bytes:
        return f"{self.n_rows} {self.dim}\n".encode() if self.counts else b""

    def rows(self, rows: Array, ids: Any, start: int) -> bytes:
        words = [_word(word, start + place, self.binary) for place, word in enumerate(ids)]
        if self.binary:
            data = np.ascontiguousarray(rows, "<f4")
            return b"".join(word + b" " + row.tobytes() + b"\n" for word, row in zip(words, data, strict=True))
        lines = (_numbers(row, " ") for row in rows)
        return b"".join(word + b" " + line + b"\n" for word, line in zip(words, lines, strict=True))


class _Separated(RowEncoder):
    """A column ``id`` where the table has ids, then one column a dimension."""

    def __init__(self, *settings: Any, separator: str) -> None:
        super().__init__(*settings)
        self.separator = separator

    def head(self) -> bytes:
        names = (["id"] if self.ids else []) + [f"dim_{place}" for place in range(self.dim)]
        return (self.separator.join(names) + "\n").encode()

    def rows(self, rows: Array, ids: Any, start: int) -> bytes:
        lines = [_numbers(row, self.separator) + b"\n" for row in rows]
        if not self.ids:
            return b"".join(lines)
        names = (self._quoted(str(each)) for each in ids)
        return b"".join(f"{name}{self.separator}".encode() + line for name, line in zip(names, lines, strict=True))

    def _quoted(self, text: str) -> str:
        plain = not set(text) & {'"', "\n", "\r", self.separator}
        return text if plain else '"' + text.replace('"', '""') + '"'


class _Zipped(RowEncoder):
    """Each piece a member of a gzip file, so that a file can be continued."""

    def __init__(self, inner: RowEncoder) -> None:
        super().__init__(inner.n_rows, inner.dim, inner.dtype, inner.ids)
        self.inner, self.needs_ids = inner, inner.needs_ids

    def head(self) -> bytes:
        return gzip.compress(self.inner.head(), mtime=0)

    def rows(self, rows: Array, ids: Any, start: int) -> bytes:
        return gzip.compress(self.inner.rows(rows, ids, start), mtime=0)


def encoder_for(
    form: str, settings: tuple[int, int, str, bool], *, name: str, stamp: str, source: Path | None, zipped: bool
) -> RowEncoder:
    """The encoder of a format for a table of ``(n_rows, dim, dtype, has ids)``."""
    if form == "npy":
        made: RowEncoder = _Npy(*settings)
    elif form == "safetensors":
        made = _Safetensors(*settings, name=name, stamp=stamp, source=source)
    elif form in ("csv", "tsv"):
        made = _Separated(*settings, separator="," if form == "csv" else "\t")
    else:
        made = _Words(*settings, counts=form != "GloVe text", binary=form == "word2vec binary")
    if made.needs_ids and not made.ids:
        raise InputError(f"A {form} file needs a word for each row; got a table without ids. Give ids=.")
    return _Zipped(made) if zipped else made


def _little(rows: Array, dtype: str) -> bytes:
    return np.ascontiguousarray(rows, np.dtype(dtype).newbyteorder("<")).tobytes()


def _numbers(row: Array, separator: str) -> bytes:
    return separator.join(str(value) for value in row).encode()


def _word(word: Any, row: int, binary: bool) -> bytes:
    text = str(word)
    if not text or "\n" in text or "\r" in text or (binary and " " in text):
        raise InputError(f"Word vectors need words without line breaks or spaces; got {text[:40]!r} in row {row}.")
    return text.encode()
