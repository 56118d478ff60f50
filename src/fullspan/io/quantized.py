"""Stored numbers narrower than float32, and how each becomes the float32 number it stands for.

One table of kernels for every format: bfloat16 by a shift, 8-bit floats by a table of 256 entries, integers with
scales, bits. A packing that is not listed here is refused, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import FormatError, InputError

__all__ = [
    "PACKED_BITS",
    "STORAGE",
    "BitRows",
    "Companions",
    "ScaledRows",
    "find_companions",
    "refuse_packed",
    "widen",
    "widen_bfloat16",
    "widen_float8",
]

#: The NumPy type that holds the bytes of each stored type.
STORAGE: dict[str, np.dtype[Any]] = {
    "float64": np.dtype("<f8"),
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype("<u2"),
    "float8_e4m3fn": np.dtype("u1"),
    "float8_e5m2": np.dtype("u1"),
    "float8_e4m3fnuz": np.dtype("u1"),
    "float8_e5m2fnuz": np.dtype("u1"),
    "float8_e8m0fnu": np.dtype("u1"),
    "int8": np.dtype("i1"),
    "uint8": np.dtype("u1"),
    "bool": np.dtype("?"),
    "int16": np.dtype("<i2"),
    "uint16": np.dtype("<u2"),
    "int32": np.dtype("<i4"),
    "uint32": np.dtype("<u4"),
    "int64": np.dtype("<i8"),
    "uint64": np.dtype("<u8"),
}

#: How a caller names a packing of one bit a dimension, and the two numbers that a bit stands for.
#: ``binary`` and ``ubinary`` are the names of sentence-transformers: ``np.packbits(E > 0)``, the former minus 128.
PACKED_BITS: dict[str, tuple[str, float, float]] = {
    "ubinary": ("uint8", -1.0, 1.0),
    "binary": ("int8", -1.0, 1.0),
    "bits": ("uint8", 0.0, 1.0),
}

#: Exponent bits, mantissa bits, bias, and which patterns are special.
_FLOAT8 = {
    "float8_e4m3fn": (4, 3, 7, "fn"),
    "float8_e5m2": (5, 2, 15, "ieee"),
    "float8_e4m3fnuz": (4, 3, 8, "fnuz"),
    "float8_e5m2fnuz": (5, 2, 16, "fnuz"),
    "float8_e8m0fnu": (8, 0, 127, "e8m0"),
}


def widen_bfloat16(raw: Array) -> Array:
    """The float32 numbers whose upper halves are `raw` (uint16): exact, the payload of NaN included."""
    wide = raw.astype(np.uint32)
    wide <<= np.uint32(16)
    return wide.view(np.float32)


@cache
def float8_values(kind: str) -> Array:
    """The 256 float32 numbers of an 8-bit floating-point type, by bit pattern."""
    exponent_bits, mantissa_bits, bias, special = _FLOAT8[kind]
    pattern = np.arange(256)
    if special == "e8m0":
        values = np.ldexp(1.0, pattern - bias)
        values[255] = np.nan
        return values.astype(np.float32)
    exponent = (pattern >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = pattern & ((1 << mantissa_bits) - 1)
    fraction = np.where(exponent > 0, 1.0, 0.0) + mantissa / (1 << mantissa_bits)
    values = np.ldexp(fraction, np.maximum(exponent, 1) - bias)
    values = np.where(pattern & 0x80, -values, values)
    if special == "fn":
        values[[0x7F, 0xFF]] = np.nan
    elif special == "fnuz":
        values[0x80] = np.nan
    else:
        top = exponent == (1 << exponent_bits) - 1
        values[top] = np.where(mantissa[top] > 0, np.nan, np.where(pattern[top] & 0x80, -np.inf, np.inf))
    return values.astype(np.float32)


def widen_float8(raw: Array, kind: str) -> Array:
    """The float32 numbers of 8-bit floats (uint8 patterns): exact."""
    return float8_values(kind)[raw]


def widen(kind: str) -> Callable[[Any], Array]:
    """The function from stored rows of type `kind` (a key of :data:`STORAGE`) to float16, float32 or float64 rows."""
    if kind == "bfloat16":
        return lambda raw: widen_bfloat16(np.asarray(raw))
    if kind in _FLOAT8:
        return lambda raw: widen_float8(np.asarray(raw), kind)
    if kind in ("float16", "float32", "float64"):
        return lambda raw: np.asarray(raw, dtype=kind)
    if kind in STORAGE:
        wide = np.float32 if STORAGE[kind].itemsize <= 2 else np.float64
        return lambda raw: np.asarray(raw).astype(wide)
    raise FormatError(f"A table needs a stored type that fullspan knows; got {kind!r}. It knows: {', '.join(STORAGE)}.")


@dataclass(frozen=True)
class Companions:
    """The tensors beside a quantized one that turn its codes into numbers: ``(code - zero_point) * scale``."""

    scale: str
    zero_point: str | None = None
    factor: float = 1.0


#: What is appended to `X.weight` or to `X` for the name of its scale, and what the scale is multiplied by.
_SCALES = {
    "_scale": 1.0,
    ".scale": 1.0,
    "_scales": 1.0,
    ".scales": 1.0,
    "_scale_inv": 1.0,  # DeepSeek's name for what its weights are multiplied by
    ".SCB": 1.0 / 127.0,  # bitsandbytes: the largest magnitude of the row
}
_ZEROS = ("_zero_point", ".zero_point", "_zero_points", ".zero_points")
#: Tensors beside a weight that mean a packing which is not read here.
_FOREIGN = {
    ".absmax": "4-bit codes of bitsandbytes",
    ".quant_map": "4-bit codes of bitsandbytes",
    "_scale_2": "4-bit codes of NVFP4",
    ".g_idx": "GPTQ",
    ".qzeros": "GPTQ or AWQ",
}
_FOREIGN_NAMES = {
    ".qweight": "GPTQ or AWQ codes",
    ".weight_packed": "4-bit codes of compressed-tensors",
    ".codebooks": "AQLM codes",
}


def _stems(name: str) -> tuple[str, ...]:
    base = name.removesuffix(".weight")
    return (name,) if base == name else (name, base)


def find_companions(name: str, names: Container[str]) -> Companions | None:
    """The scale and zero point stored beside tensor `name`, or None when it has no scale."""
    scales = [
        (stem + suffix, factor) for stem in _stems(name) for suffix, factor in _SCALES.items() if stem + suffix in names
    ]
    zeros = [stem + suffix for stem in _stems(name) for suffix in _ZEROS if stem + suffix in names]
    if len(scales) > 1 or len(zeros) > 1:
        found = ", ".join(map(repr, [*(scale for scale, _ in scales), *zeros]))
        raise FormatError(f"{name!r} needs one scale and at most one zero point; got {found}. Which one is meant?")
    if not scales:
        return None
    return Companions(scales[0][0], zeros[0] if zeros else None, scales[0][1])


def refuse_packed(name: str, names: Container[str]) -> str | None:
    """What tensor `name` is packed with when fullspan cannot unpack it, or None."""
    for suffix, what in _FOREIGN_NAMES.items():
        if name.endswith(suffix):
            return what
    for stem in _stems(name):
        for suffix, what in _FOREIGN.items():
            if stem + suffix in names:
                return what
    return None


class ScaledRows:
    """Rows of quantized codes that slice to float32: ``(code - zero_point) * scale``.

    Parameters
    ----------
    name
        What the table is called, for messages.
    rows
        ``(n_rows, dim)`` stored codes that slice by rows.
    kind
        Their stored type, a key of :data:`STORAGE`.
    scale
        One number; or ``(n_rows,)`` or ``(n_rows, 1)``, one a row; or ``(dim,)`` or ``(1, dim)``, one a column;
        or ``(n_rows, groups)``, one for each of `groups` equal parts of a row; or one for each square of 128 × 128.
    zero_point
        The code of zero, in the shape of `scale` or one number; None for 0.
    """

    def __init__(self, name: str, rows: Any, kind: str, scale: Array, zero_point: Array | None = None) -> None:
        self.shape: tuple[int, int] = (int(rows.shape[0]), int(rows.shape[1]))
        self.dtype = np.dtype(np.float32)
        self._name, self._rows, self._widen = name, rows, widen(kind)
        self._scale = self._grid("scale", scale)
        self._zero = None if zero_point is None else self._grid("zero point", zero_point)

    def _grid(self, what: str, values: Array) -> tuple[Array, int, int]:
        """The values as a 2-D grid, with how many rows and columns of the table each entry covers."""
        n_rows, dim = self.shape
        values = np.asarray(values, dtype=np.float32)
        if not np.isfinite(values).all():
            raise FormatError(f"The {what} of {self._name!r} needs finite numbers; got NaN or infinity.")
        if values.size == 1:
            return values.reshape(1, 1), n_rows, dim
        if values.shape == (n_rows,) or values.shape == (n_rows, 1):
            return values.reshape(n_rows, 1), 1, dim
        if values.shape == (dim,) or values.shape == (1, dim):
            return values.reshape(1, dim), n_rows, 1
        if values.ndim == 2 and values.shape[0] == n_rows and dim % values.shape[1] == 0:
            return values, 1, dim // values.shape[1]
        if values.shape == (-(-n_rows // 128), -(-dim // 128)):
            return values, 128, 128
        raise FormatError(
            f"The {what} of {self._name!r} needs one number, or one a row, a column, a group of columns that divides "
            f"{dim}, or a square of 128; got shape {values.shape} beside {self.shape}."
        )

    def __getitem__(self, which: slice) -> Array:
        start, stop, _ = which.indices(self.shape[0])
        codes = self._widen(self._rows[start:stop]).astype(np.float32)
        if self._zero is not None:
            codes -= self._spread(self._zero, start, stop)
        with np.errstate(over="ignore", under="ignore"):
            codes *= self._spread(self._scale, start, stop)
        return codes

    def _spread(self, grid: tuple[Array, int, int], start: int, stop: int) -> Array:
        values, rows_each, columns_each = grid
        if rows_each == 1:
            values = values[start:stop]
        elif len(values) > 1:
            values = values[np.arange(start, stop) // rows_each]
        if 1 < columns_each < self.shape[1]:
            values = np.repeat(values, columns_each, axis=1)[:, : self.shape[1]]
        return values


class BitRows:
    """Rows of packed bits, the first dimension in the highest bit of a byte, that slice to float32.

    Parameters
    ----------
    rows
        ``(n_rows, n_bytes)`` uint8 or int8 codes that slice by rows.
    packing
        A key of :data:`PACKED_BITS`.
    """

    def __init__(self, rows: Any, packing: str) -> None:
        if packing not in PACKED_BITS:
            raise InputError(f"Packed bits need dtype {_choices(PACKED_BITS)}; got {packing!r}.")
        self._rows = rows
        self._signed = PACKED_BITS[packing][0] == "int8"
        self._low, self._high = PACKED_BITS[packing][1:]
        self.shape: tuple[int, int] = (int(rows.shape[0]), 8 * int(rows.shape[1]))
        self.dtype = np.dtype(np.float32)

    def __getitem__(self, which: slice) -> Array:
        codes = np.asarray(self._rows[which])
        if self._signed:
            codes = codes.view(np.uint8) ^ np.uint8(128)
        bits = np.unpackbits(codes.view(np.uint8), axis=1)
        return np.where(bits, np.float32(self._high), np.float32(self._low))


def _choices(names: Iterable[str]) -> str:
    return " or ".join(f'"{name}"' for name in names)
