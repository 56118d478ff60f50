"""GGUF: an own bounded parser of versions 2 and 3, memory maps of plain tensors, and blocks of quantized ones."""

from __future__ import annotations

import itertools
import math
import mmap
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fullspan._extras import require
from fullspan._typing import Array, Table
from fullspan.errors import FormatError
from fullspan.io._bounds import reading
from fullspan.io.base import OpenOptions, TableInfo
from fullspan.io.checkpoint import Checkpoint, StoredTensor, quote
from fullspan.io.quantized import STORAGE
from fullspan.io.safetensors_ import map_array

__all__ = ["list_tables", "open_checkpoint", "open_tables"]

MAX_NAME = 65_535
MAX_STRING = 2**26
MAX_STRINGS = 2**24
MAX_NESTING = 4
MAX_DIMENSIONS = 4

_TOKEN_TABLE = "token_embd.weight"  # noqa: S105 - the name of a tensor
_TOKENS = "tokenizer.ggml.tokens"
_ALIGNMENT = "general.alignment"
_STRING, _ARRAY = 8, 9
_FIXED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
_PLAIN = {
    0: "float32",
    1: "float16",
    24: "int8",
    25: "int16",
    26: "int32",
    27: "int64",
    28: "float64",
    30: "bfloat16",
}
#: Number of each quantized type: name, numbers in a block, bytes of a block.
_BLOCKS = {
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    29: ("IQ1_M", 256, 56),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
}


def open_tables(path: Path, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open tables of a GGUF file; the rows of ``token_embd.weight`` carry their tokens as ids."""
    return open_checkpoint(path).tables(names, options)


def list_tables(path: Path) -> list[TableInfo]:
    """Every 2-D floating or quantized tensor of a GGUF file."""
    return open_checkpoint(path).infos()


def open_checkpoint(path: Path) -> Checkpoint:
    """The tensors of a GGUF file, each with its rows first."""
    with reading(path, "a GGUF file"), path.open("rb") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            header = _Header(path, data)
    return Checkpoint(path, "gguf", header.tensors, lambda tensor: _tokens(path, header, tensor))


class _Header:
    """One walk over the header: values are skipped, but for the alignment and the place of the tokens."""

    def __init__(self, path: Path, data: Any) -> None:
        self.path, self._data, self._at, self._size = path, data, 0, len(data)
        self._strings = 0
        self.alignment = 32
        self.tokens: tuple[int, int] | None = None  # where they begin, and how many
        n_tensors, n_values = self._counts()
        self._values(n_values)
        self.tensors = self._tensors(n_tensors)
        del self._data

    def _lies(self, what: str) -> FormatError:
        return FormatError(
            f"{quote(self.path)} needs a valid GGUF header; got {what}. Is the file truncated or damaged?"
        )

    def _take(self, code: str) -> int:
        size = struct.calcsize("<" + code)
        if self._at + size > self._size:
            raise self._lies(f"the end of the file at byte {self._size}")
        (value,) = struct.unpack_from("<" + code, self._data, self._at)
        self._at += size
        return value

    def _skip(self, n_bytes: int) -> None:
        if n_bytes > self._size - self._at:
            raise self._lies(f"{n_bytes} bytes announced and {self._size - self._at} left")
        self._at += n_bytes

    def _string(self, limit: int) -> str:
        length = self._take("Q")
        if length > limit:
            raise self._lies(f"a string of {length} bytes")
        start = self._at
        self._skip(length)
        return bytes(self._data[start : self._at]).decode("utf-8", "backslashreplace")

    def _counts(self) -> tuple[int, int]:
        if self._data[:4] != b"GGUF":
            raise self._lies(f"the first bytes {bytes(self._data[:4])!r}")
        self._at = 4
        version = self._take("I")
        if version not in (2, 3):
            big = version in (2 << 24, 3 << 24)
            raise FormatError(
                f"{quote(self.path)} needs a little-endian GGUF file of version 2 or 3; got "
                f"{'a big-endian file' if big else f'version {version}'}. Convert it with the tools of llama.cpp."
            )
        n_tensors, n_values = self._take("Q"), self._take("Q")
        if n_tensors * 24 + n_values * 13 > self._size:
            raise self._lies(f"{n_tensors} tensors and {n_values} values in {self._size} bytes")
        return n_tensors, n_values

    def _values(self, n_values: int) -> None:
        seen: set[str] = set()
        for _ in range(n_values):
            key = self._string(MAX_NAME)
            if key in seen:
                raise self._lies(f"the key {key[:80]!r} twice")
            seen.add(key)
            kind = self._take("I")
            if key == _ALIGNMENT and kind in (4, 5, 10, 11):
                self.alignment = self._take(_FIXED[kind])
            else:
                self._value(kind, key, 0)
        if not 8 <= self.alignment <= 2**20 or self.alignment % 8:
            raise self._lies(f"an alignment of {self.alignment}")

    def _value(self, kind: int, key: str, depth: int) -> None:
        if kind in _FIXED:
            self._skip(struct.calcsize("<" + _FIXED[kind]))
        elif kind == _STRING:
            self._skip_strings(1)
        elif kind == _ARRAY and depth < MAX_NESTING:
            self._array(key, depth)
        else:
            raise self._lies(f"a value of type {kind} at depth {depth} under {key[:80]!r}")

    def _array(self, key: str, depth: int) -> None:
        kind, count = self._take("I"), self._take("Q")
        if kind in _FIXED:
            self._skip(count * struct.calcsize("<" + _FIXED[kind]))
            return
        if count * 8 > self._size - self._at:
            raise self._lies(f"an array of {count} under {key[:80]!r}")
        if kind == _STRING:
            if key == _TOKENS and depth == 0:
                self.tokens = (self._at, count)
            self._skip_strings(count)
            return
        self._strings += count
        if self._strings > MAX_STRINGS:
            raise self._lies(f"more than {MAX_STRINGS} values")
        for _ in range(count):
            self._value(kind, key, depth + 1)

    def _skip_strings(self, count: int) -> None:
        self._strings += count
        if self._strings > MAX_STRINGS:
            raise self._lies(f"more than {MAX_STRINGS} strings")
        for _ in range(count):
            length = self._take("Q")
            if length > MAX_STRING:
                raise self._lies(f"a string of {length} bytes")
            self._skip(length)

    def _tensors(self, count: int) -> dict[str, StoredTensor]:
        entries: dict[str, tuple[tuple[int, ...], int, int]] = {}
        for _ in range(count):
            name, entry = self._entry()
            if name in entries:
                raise self._lies(f"the tensor {name[:80]!r} twice")
            entries[name] = entry
        start = -(-self._at // self.alignment) * self.alignment
        spans, tensors = [], {}
        for name, (shape, kind, offset) in entries.items():
            n_bytes, tensors[name] = self._tensor(name, shape, kind, start + offset)
            spans.append((start + offset, start + offset + n_bytes, name))
        self._check_spans(spans)
        return tensors

    def _entry(self) -> tuple[str, tuple[tuple[int, ...], int, int]]:
        name = self._string(MAX_NAME)
        n_dims = self._take("I")
        if not 1 <= n_dims <= MAX_DIMENSIONS:
            raise self._lies(f"{n_dims} dimensions of {name[:80]!r}")
        sizes = [self._take("Q") for _ in range(n_dims)]
        kind, offset = self._take("I"), self._take("Q")
        if offset % self.alignment:
            raise self._lies(f"{name[:80]!r} at byte {offset}, no multiple of {self.alignment}")
        return name, (tuple(reversed(sizes)), kind, offset)

    def _tensor(self, name: str, shape: tuple[int, ...], kind: int, at: int) -> tuple[int, StoredTensor]:
        if kind in _PLAIN:
            dtype = _PLAIN[kind]
            return math.prod(shape) * STORAGE[dtype].itemsize, StoredTensor(
                name, shape, dtype, _mapper(self.path, STORAGE[dtype], shape, at)
            )
        if kind not in _BLOCKS:
            raise self._lies(f"the unknown type {kind} of {name[:80]!r}")
        dtype, numbers, n_bytes = _BLOCKS[kind]
        if shape[-1] % numbers:
            raise self._lies(f"rows of {shape[-1]} numbers in blocks of {numbers} in {name[:80]!r}")
        stored = (*shape[:-1], shape[-1] // numbers * n_bytes)
        tensor = StoredTensor(
            name, shape, dtype, _mapper(self.path, np.dtype("u1"), stored, at), _dequantizer(name, dtype)
        )
        return math.prod(stored), tensor

    def _check_spans(self, spans: list[tuple[int, int, str]]) -> None:
        spans.sort()
        for _, end, name in spans:
            if end > self._size:
                raise self._lies(f"{name[:80]!r} up to byte {end} of {self._size}")
        for (_, end, name), (begin, _, other) in itertools.pairwise(spans):
            if begin < end:
                raise self._lies(f"{name[:80]!r} and {other[:80]!r} in the same bytes")


def _mapper(path: Path, kind: np.dtype[Any], shape: tuple[int, ...], at: int) -> Callable[[], Any]:
    return lambda: map_array(path, kind, shape, at)


def _dequantizer(name: str, dtype: str) -> Callable[[Any], Array]:
    """The function from rows of whole blocks to float32 rows; the package is loaded when first called."""

    def decode(raw: Any) -> Array:
        gguf = require("gguf", "gguf", f"Dequantizing {dtype}")
        try:
            with np.errstate(all="ignore"):
                return gguf.quants.dequantize(np.ascontiguousarray(raw), gguf.GGMLQuantizationType[dtype])
        except (NotImplementedError, KeyError):
            raise FormatError(
                f"{name!r} needs a type that the package gguf can dequantize; got {dtype}. "
                "Convert the file to F16 with llama.cpp (llama-quantize --allow-requantize)."
            ) from None

    return decode


def _tokens(path: Path, header: _Header, tensor: StoredTensor) -> Any:
    """The tokens, where there is one a row of the token table."""
    if tensor.name != _TOKEN_TABLE or header.tokens is None or header.tokens[1] != tensor.shape[0]:
        return None
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        tokens = list(_strings(data, *header.tokens))
    return np.array(tokens, dtype=object)


def _strings(data: Any, at: int, count: int) -> Iterator[str]:
    for _ in range(count):
        (length,) = struct.unpack_from("<Q", data, at)
        yield bytes(data[at + 8 : at + 8 + length]).decode("utf-8", "backslashreplace")
        at += 8 + length
