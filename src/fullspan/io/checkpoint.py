"""What every checkpoint format shares: named tensors, which of them are tables, and how one opens."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fullspan._backend import looks_like_embedding
from fullspan._typing import Array, Table
from fullspan.errors import FormatError, UnknownNameError, did_you_mean
from fullspan.io._bounds import checked_shape, note_left_out, reading
from fullspan.io.base import ArrayTable, OpenOptions, TableInfo
from fullspan.io.quantized import (
    PACKED_BITS,
    STORAGE,
    BitRows,
    Companions,
    ScaledRows,
    find_companions,
    refuse_packed,
    widen,
)

__all__ = ["Checkpoint", "StoredTensor", "quote"]

#: A scale is read whole; no table has more of them.
MAX_SCALES = 2**28

_INTEGER_CODES = ("int8", "uint8")


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a checkpoint, as its header describes it.

    Parameters
    ----------
    name, shape, dtype
        As stored; `dtype` is a key of :data:`fullspan.io.quantized.STORAGE` unless `decode` is given.
    read
        Returns an object with a shape whose slices are stored rows. Nothing is read before.
    decode
        Function from stored rows to float rows, for types that only this format has.
    also
        Other names of the same weights.
    why
        Why it is known to be an embedding table, where the format says so; None to go by its name and shape.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], Any]
    decode: Callable[[Any], Array] | None = None
    also: tuple[str, ...] = ()
    why: str | None = None


@dataclass(frozen=True)
class Checkpoint:
    """The tensors of one file or folder.

    Parameters
    ----------
    path, format
        Where it lies and what it is, for messages and listings.
    tensors
        By name, in stored order.
    ids_of
        Returns the ids of the rows of a tensor, or None; called when a table is opened.
    """

    path: Path
    format: str
    tensors: Mapping[str, StoredTensor]
    ids_of: Callable[[StoredTensor], Any] = field(default=lambda tensor: None)

    def infos(self) -> list[TableInfo]:
        """Every 2-D floating or quantized tensor, without reading its rows."""
        beside = self._companions()
        return [self._info(tensor) for tensor in self.tensors.values() if self._is_listed(tensor, beside)]

    def tables(self, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
        """Open the tables called `names`; None takes those that look like embeddings, or else every 2-D tensor."""
        if names is not None:
            return [self._open(self._named(name), options) for name in names]
        infos = self.infos()
        if not infos:
            raise FormatError(
                f"{quote(self.path)} needs a 2-D tensor of real numbers to measure; got {len(self.tensors)} tensors, "
                "none of them one."
            )
        chosen = [info for info in infos if info.embedding] or infos
        tables = [self._open(self.tensors[info.name], options) for info in chosen]
        note_left_out(tables, [info.name for info in infos if info not in chosen], " and shape")
        return tables

    def _named(self, name: str) -> StoredTensor:
        if name in self.tensors:
            return self.tensors[name]
        for tensor in self.tensors.values():
            if name in tensor.also:
                return tensor
        raise UnknownNameError(
            f"{quote(self.path)} has no tensor {name!r}.{did_you_mean(name, self.tensors)} "
            f"fullspan tables {quote(self.path)} lists its tables."
        )

    def _companions(self) -> set[str]:
        """Names of the scales and zero points of other tensors."""
        found: set[str] = set()
        for tensor in self.tensors.values():
            if len(tensor.shape) == 2 and _takes_scale(tensor.dtype):
                beside = find_companions(tensor.name, self.tensors)
                if beside is not None:
                    found.update({beside.scale, beside.zero_point or beside.scale})
        return found

    def _is_listed(self, tensor: StoredTensor, companions: set[str]) -> bool:
        if len(tensor.shape) != 2 or tensor.name in companions or 0 in tensor.shape:
            return False
        if tensor.decode is not None or tensor.dtype.startswith(("float", "bfloat")):
            return True
        return tensor.dtype in _INTEGER_CODES or refuse_packed(tensor.name, self.tensors) is not None

    def _info(self, tensor: StoredTensor) -> TableInfo:
        embedding, why = (True, tensor.why) if tensor.why else looks_like_embedding(tensor.name, tensor.shape)
        packed = refuse_packed(tensor.name, self.tensors)
        if packed is not None:
            embedding, why = False, f"packed ({packed}), which is not read"
        elif tensor.decode is None and _takes_scale(tensor.dtype):
            beside = find_companions(tensor.name, self.tensors)
            if beside is not None:
                why += f", with {beside.scale}"
            elif tensor.dtype in _INTEGER_CODES:
                why += ", no scale beside it: say dtype"
        return TableInfo(tensor.name, tensor.shape, tensor.dtype, embedding, why, self.format, tensor.also)

    def _open(self, tensor: StoredTensor, options: OpenOptions) -> Table:
        checked_shape(tensor.shape, tensor.name)
        with reading(self.path, f"a {self.format} file"):
            return self._table(tensor, options)

    def _table(self, tensor: StoredTensor, options: OpenOptions) -> Table:
        ids = self.ids_of(tensor)
        if tensor.decode is not None:
            dim = tensor.shape[1]
            return ArrayTable(
                tensor.name, tensor.read(), dtype=tensor.dtype, dim=dim, decode=tensor.decode, itemsize=4, ids=ids
            )
        rows, dtype = self._rows(tensor, options)
        decode = None if isinstance(rows, (ScaledRows, BitRows)) else widen(tensor.dtype)
        return ArrayTable(tensor.name, rows, dtype=dtype, decode=decode, ids=ids)

    def _rows(self, tensor: StoredTensor, options: OpenOptions) -> tuple[Any, str]:
        """What slices to the rows of a tensor, and the name of its stored type."""
        packed = refuse_packed(tensor.name, self.tensors)
        if packed is not None:
            raise FormatError(
                f"{tensor.name!r} needs a packing that fullspan reads; got {packed}. Dequantize it with the library "
                "that wrote it and save float16."
            )
        if tensor.dtype not in STORAGE:
            raise FormatError(
                f"{tensor.name!r} needs a stored type that fullspan reads; got {tensor.dtype}. It reads: "
                f"{', '.join(STORAGE)}."
            )
        beside = find_companions(tensor.name, self.tensors) if _takes_scale(tensor.dtype) else None
        if beside is not None:
            return self._scaled(tensor, beside, options.dtype), f"{tensor.dtype} with scales"
        if tensor.dtype in _INTEGER_CODES:
            return self._codes(tensor, options.dtype)
        return tensor.read(), tensor.dtype

    def _scaled(self, tensor: StoredTensor, beside: Companions, said: Any) -> ScaledRows:
        """Codes with the scale, and the zero point, that lie beside them."""
        if tensor.dtype == "uint8" and beside.zero_point is None and said != "uint8":
            raise FormatError(
                f"{tensor.name!r} needs a zero point beside its uint8 codes and {beside.scale!r}; got none. Are "
                'they two codes of 4 bits in a byte? dtype="uint8" says that each byte is one code.'
            )
        if not self.tensors[beside.scale].dtype.startswith(("float", "bfloat")):
            raise FormatError(
                f"{tensor.name!r} needs a floating scale; got {self.tensors[beside.scale].dtype} in {beside.scale!r}."
            )
        self._check_row_major(tensor)
        largest = math.prod(tensor.shape)
        scale = self._numbers(beside.scale, largest) * np.float32(beside.factor)
        zero = None if beside.zero_point is None else self._numbers(beside.zero_point, largest)
        return ScaledRows(tensor.name, tensor.read(), tensor.dtype, scale, zero)

    def _codes(self, tensor: StoredTensor, said: Any) -> tuple[Any, str]:
        """Integer codes without a scale: what they mean is for the caller to say."""
        if said == tensor.dtype:
            return tensor.read(), tensor.dtype
        if said in PACKED_BITS and PACKED_BITS[said][0] == tensor.dtype:
            return BitRows(tensor.read(), said), said
        packings = [name for name, (kind, *_) in PACKED_BITS.items() if kind == tensor.dtype]
        choices = ", ".join(f'dtype="{name}"' for name in packings)
        raise FormatError(
            f'{tensor.name!r} needs a scale beside its {tensor.dtype} codes, or dtype="{tensor.dtype}" (take them as '
            f"integers) or {choices} (packed bits); got {'no scale' if said is None else f'dtype={said!r}'}."
        )

    def _numbers(self, name: str, largest: int) -> Array:
        """A tensor beside a table, of at most so many numbers, as float32."""
        tensor = self.tensors[name]
        if tensor.dtype not in STORAGE:
            raise FormatError(f"The scale {name!r} needs a stored type that fullspan reads; got {tensor.dtype}.")
        if math.prod(tensor.shape) > min(largest, MAX_SCALES):
            raise FormatError(f"{name!r} needs at most a number for each of its table; got shape {tensor.shape}.")
        return widen(tensor.dtype)(np.asarray(tensor.read()[...])).astype(np.float32)

    def _check_row_major(self, tensor: StoredTensor) -> None:
        """bitsandbytes may store its codes in the order of a GPU's tiles, and says so beside them."""
        flag = tensor.name.removesuffix(".weight") + ".weight_format"
        if flag in self.tensors and np.any(self._numbers(flag, 1) != 0):
            raise FormatError(
                f"{tensor.name!r} needs rows in plain order; got a tiled layout ({flag!r} is not 0). Save it again "
                "with a newer bitsandbytes."
            )


def _takes_scale(dtype: str) -> bool:
    return dtype in _INTEGER_CODES or dtype.startswith("float8")


def quote(path: Path) -> str:
    """A path for a message of one line: quoted, with control characters escaped."""
    return repr(str(path))
