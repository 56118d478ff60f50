"""torch checkpoints: the pickle is read without running it, the tensors are memory maps. Torch is not needed.

Both formats are read: the zip archive, and the stream of pickles and storages from before torch 1.6.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fullspan._typing import Table
from fullspan.errors import FormatError
from fullspan.io._bounds import one_line, reading
from fullspan.io.base import OpenOptions, TableInfo
from fullspan.io.checkpoint import Checkpoint, StoredTensor, quote
from fullspan.io.quantized import STORAGE, ScaledRows
from fullspan.io.safetensors_ import map_array
from fullspan.io.unpickle import MAX_PICKLE_BYTES, Name, Record, unpickle
from fullspan.io.windows import Window, stored_span

__all__ = ["TensorPlace", "list_tables", "open_checkpoint", "open_tables", "places_of_archive"]

MAX_VALUES = 1_000_000
MAX_NESTING = 32

_FORMAT = "torch"
_LEGACY_MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
_STORAGE_TYPES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "ShortStorage": "int16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "BoolStorage": "bool",
    "QInt8Storage": "int8",
    "QUInt8Storage": "uint8",
    "QInt32Storage": "int32",
}
_ALLOWED = frozenset(
    {
        "torch.",
        "torch.storage.UntypedStorage",
        "torch.storage.TypedStorage",
        "torch._utils._rebuild_tensor",
        "torch._utils._rebuild_tensor_v2",
        "torch._utils._rebuild_tensor_v3",
        "torch._utils._rebuild_parameter",
        "torch._utils._rebuild_parameter_with_state",
        "torch._utils._rebuild_qtensor",
        "torch._utils._rebuild_sparse_tensor",
        "torch._utils._rebuild_meta_tensor_no_storage",
        "torch._tensor._rebuild_from_type_v2",
        "torch.nn.parameter.Parameter",
        "torch.nn.parameter.Buffer",
        "torch.serialization._get_layout",
    }
)


@dataclass(frozen=True)
class _Storage:
    """A storage that the pickle names: its member in the archive, its type (None: bytes) and how many numbers."""

    key: str
    dtype: str | None
    numel: int

    @property
    def itemsize(self) -> int:
        return 1 if self.dtype is None else STORAGE[self.dtype].itemsize


@dataclass(frozen=True)
class TensorPlace:
    """Where a tensor lies in a storage, as the pickle says; `quantizer` is set where its numbers are codes."""

    storage: _Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    quantizer: tuple[Any, ...] | None = None


def open_tables(path: Path, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open tables of a torch checkpoint without running its pickle or reading other tensors."""
    return open_checkpoint(path).tables(names, options)


def list_tables(path: Path) -> list[TableInfo]:
    """Every 2-D floating or quantized tensor of a torch checkpoint; tied weights once."""
    return open_checkpoint(path).infos()


def open_checkpoint(path: Path) -> Checkpoint:
    """The tensors of a torch checkpoint, by the path of keys that leads to them."""
    with reading(path, "a torch checkpoint"):
        with path.open("rb") as file:
            head = file.read(len(_LEGACY_MAGIC))
        if head.startswith(b"PK"):
            with Window(path) as window:
                return Checkpoint(path, _FORMAT, _tensors(path, *places_of_archive(path, window)))
        if head == _LEGACY_MAGIC:
            return Checkpoint(path, _FORMAT, _tensors(path, *_places_of_stream(path)))
    what = "a pickle that torch.save did not write; it was refused and never run" if head[:1] == b"\x80" else repr(head)
    raise FormatError(f"{quote(path)} needs a checkpoint written by torch.save; got {what}.")


def _tensors(path: Path, value: Any, spans: dict[str, tuple[int, int]]) -> dict[str, StoredTensor]:
    """Every tensor of what was pickled; those of the same weights once, with the other names beside."""
    tensors: dict[str, StoredTensor] = {}
    first: dict[TensorPlace, str] = {}
    for name, place in _leaves(path, value):
        known = first.setdefault(replace(place, quantizer=None), name)
        if known == name:
            tensors[name] = _stored(path, name, place, spans)
        else:
            tensors[known] = replace(tensors[known], also=(*tensors[known].also, name))
    return tensors


def places_of_archive(path: Path, window: Window) -> tuple[Any, dict[str, tuple[int, int]]]:
    """What ``torch.save`` wrote into a zip archive, with a :class:`TensorPlace` for each tensor, and the spans of
    the storages in the file."""
    with zipfile.ZipFile(window) as archive:  # type: ignore[arg-type]  # a window reads and seeks like a file
        members = {member.filename.partition("/")[2]: member for member in archive.infolist()}
        if "data.pkl" not in members or "constants.pkl" in members:
            kind = "a TorchScript program" if "constants.pkl" in members else "a zip archive without data.pkl"
            raise FormatError(f"{quote(path)} needs a checkpoint written by torch.save; got {kind}. Save a state_dict.")
        order = _bytes(window, members["byteorder"]) if "byteorder" in members else b"little"
        if order != b"little":
            raise FormatError(f"{quote(path)} needs little-endian numbers; got byte order {one_line(order, 40)}.")
        data = _bytes(window, members["data.pkl"])
    spans = {
        name.removeprefix("data/"): stored_span(window, member)
        for name, member in members.items()
        if name.startswith("data/")
    }
    storages: dict[str, _Storage] = {}
    value = unpickle(data, quote(path), _ALLOWED, _MAKE, lambda pid: _storage(path, pid, storages))
    _check_storages(path, storages, spans)
    return value, spans


def _places_of_stream(path: Path) -> tuple[Any, dict[str, tuple[int, int]]]:
    """The same of the format before torch 1.6: five pickles, then each storage behind its count."""
    storages: dict[str, _Storage] = {}
    size = path.stat().st_size
    with path.open("rb") as data:
        _, _, system = (unpickle(data, quote(path), ()) for _ in range(3))
        if not isinstance(system, dict) or system.get("little_endian") is not True:
            raise FormatError(f"{quote(path)} needs little-endian numbers; got {one_line(system, 80)}.")
        value = unpickle(data, quote(path), _ALLOWED, _MAKE, lambda pid: _storage(path, pid, storages))
        keys = unpickle(data, quote(path), ())
        if not isinstance(keys, list) or not all(key in storages for key in keys):
            raise FormatError(f"{quote(path)} needs a list of its storages; got {one_line(keys, 80)}.")
        spans: dict[str, tuple[int, int]] = {}
        for key in keys:
            count, storage = int.from_bytes(data.read(8), "little"), storages[key]
            spans[key] = (data.tell(), min(count * storage.itemsize, size - data.tell()))
            data.seek(sum(spans[key]))
    _check_storages(path, storages, spans)
    return value, spans


def _check_storages(path: Path, storages: dict[str, _Storage], spans: dict[str, tuple[int, int]]) -> None:
    for key, storage in storages.items():
        if key not in spans:
            raise FormatError(f"{quote(path)} needs the storage {key[:40]!r}; the file does not have it.")
        needed, found = storage.numel * storage.itemsize, spans[key][1]
        if needed > found:
            raise FormatError(
                f"{quote(path)} needs {needed} bytes in the storage {key[:40]!r}; got {found}. "
                "Is the file truncated or damaged?"
            )


def _bytes(window: Window, member: zipfile.ZipInfo) -> bytes:
    begin, length = stored_span(window, member)
    if length > MAX_PICKLE_BYTES:
        raise FormatError(f"The member {member.filename!r} needs at most {MAX_PICKLE_BYTES} bytes; got {length}.")
    window.seek(begin - window.start)
    return window.read(length)


def _storage(path: Path, pid: Any, storages: dict[str, _Storage]) -> _Storage:
    """The storage that a persistent id names, noted under its key."""
    if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage" or not isinstance(pid[1], Name):
        raise FormatError(f"{quote(path)} needs storages that torch.save wrote; got {one_line(pid, 80)}.")
    kind, key, numel = pid[1].path.rpartition(".")[2], pid[2], pid[4]
    dtype = _STORAGE_TYPES.get(kind)
    if (dtype is None and kind != "UntypedStorage") or not isinstance(key, str) or not _is_count(numel):
        raise FormatError(f"{quote(path)} needs storages of a known type; got {one_line(kind, 40)}.")
    if len(pid) > 5 and pid[5] is not None:
        raise FormatError(f"{quote(path)} needs whole storages; got a view of one. Save it again with torch.save.")
    found = _Storage(key, dtype, numel)
    if storages.setdefault(key, found).itemsize != found.itemsize:
        raise FormatError(f"{quote(path)} needs one type for the storage {key[:40]!r}; got two.")
    return found


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**62


def _place(storage: Any, offset: Any, size: Any, strides: Any, *rest: Any) -> TensorPlace:
    """Where a tensor lies, checked to be inside its storage; `rest` are flags and hooks, which do not matter here."""
    size = size.args[0] if isinstance(size, Record) and size.name == "torch.Size" else size
    if not isinstance(storage, _Storage):
        raise FormatError("A tensor needs a storage; got none.")
    sizes = (size, strides)
    if not all(isinstance(each, tuple) and len(each) <= 64 and all(map(_is_count, each)) for each in sizes):
        raise FormatError(f"A tensor needs a shape and strides; got {one_line(sizes, 80)}.")
    if not _is_count(offset) or len(size) != len(strides):
        raise FormatError(f"A tensor needs an offset and as many strides as sizes; got {one_line(sizes, 80)}.")
    return TensorPlace(storage, storage.dtype or "uint8", offset, size, strides)


def _place_v3(storage: Any, offset: Any, size: Any, strides: Any, *rest: Any) -> TensorPlace:
    dtype = next((value.path for value in rest if isinstance(value, Name)), "")
    return replace(_place(storage, offset, size, strides), dtype=dtype.removeprefix("torch."))


def _quantized_place(
    storage: Any, offset: Any, size: Any, strides: Any, quantizer: Any = None, *rest: Any
) -> TensorPlace:
    if not isinstance(quantizer, tuple) or len(quantizer) < 3 or not isinstance(quantizer[0], Name):
        raise FormatError(f"A quantized tensor needs a scheme, scale and zero point; got {one_line(quantizer, 80)}.")
    return replace(_place(storage, offset, size, strides), quantizer=quantizer)


def _ordered(pairs: Any = ()) -> dict[Any, Any]:
    return dict(pairs) if isinstance(pairs, (list, tuple)) else {}


_MAKE: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": _place,
    "torch._utils._rebuild_tensor_v2": _place,
    "torch._utils._rebuild_tensor_v3": _place_v3,
    "torch._utils._rebuild_qtensor": _quantized_place,
    "torch._utils._rebuild_parameter": lambda data, *rest: data,
    "torch._utils._rebuild_parameter_with_state": lambda data, *rest: data,
    "collections.OrderedDict": _ordered,
    "collections.defaultdict": lambda *rest: {},
}


def _leaves(path: Path, value: Any) -> Iterator[tuple[str, TensorPlace]]:
    """Every tensor in nested dicts and lists, with a unique name from the keys that lead to it."""
    stack: list[tuple[str, Any, int]] = [("", value, 0)]
    seen: set[str] = set()
    visited = 0
    while stack:
        name, item, depth = stack.pop()
        visited += 1
        if visited > MAX_VALUES or depth > MAX_NESTING:
            raise FormatError(f"{quote(path)} needs at most {MAX_VALUES} values, {MAX_NESTING} deep; got more.")
        if isinstance(item, TensorPlace):
            name = name or path.stem
            while name in seen:
                name += "~"
            seen.add(name)
            yield name, item
        for key, child in reversed(_children(item)):
            stack.append((f"{name}.{key}" if name else str(key), child, depth + 1))


def _children(item: Any) -> list[tuple[Any, Any]]:
    if isinstance(item, dict):
        return [(key, child) for key, child in item.items() if isinstance(key, (str, int))]
    return list(enumerate(item)) if isinstance(item, (list, tuple)) else []


def _stored(path: Path, name: str, place: TensorPlace, spans: dict[str, tuple[int, int]]) -> StoredTensor:
    if place.quantizer is None:
        return StoredTensor(name, place.shape, place.dtype, lambda: view_of_storage(path, name, place, spans))
    return StoredTensor(
        name, place.shape, f"q{place.dtype}", lambda: _dequantized(path, name, place, spans), decode=np.asarray
    )


def view_of_storage(path: Path, name: str, place: TensorPlace, spans: dict[str, tuple[int, int]]) -> Any:
    """A tensor as a view of the memory map of its storage."""
    if place.dtype not in STORAGE:
        raise FormatError(
            f"{name!r} needs a stored type that fullspan reads; got {one_line(place.dtype, 40)}. It reads: "
            f"{', '.join(STORAGE)}."
        )
    kind = STORAGE[place.dtype]
    begin, _ = spans[place.storage.key]
    available = place.storage.numel * place.storage.itemsize // kind.itemsize
    count = math.prod(place.shape)
    last = place.offset + sum((size - 1) * stride for size, stride in zip(place.shape, place.strides, strict=True))
    if count and (last >= available or count > available):
        raise FormatError(
            f"{name!r} of {quote(path)} needs {max(count, last + 1)} numbers for shape {place.shape}; its storage has "
            f"{available}. Is it an expanded view? Save it with .contiguous()."
        )
    if count == 0:
        return np.empty(place.shape, kind)
    flat = map_array(path, kind, (last + 1 - place.offset,), begin + place.offset * kind.itemsize)
    strides = tuple(stride * kind.itemsize for stride in place.strides)
    return np.lib.stride_tricks.as_strided(flat, place.shape, strides, writeable=False)


def _dequantized(path: Path, name: str, place: TensorPlace, spans: dict[str, tuple[int, int]]) -> ScaledRows:
    assert place.quantizer is not None
    scheme, *values = place.quantizer
    if len(place.shape) != 2 or scheme.path not in ("torch.per_tensor_affine", "torch.per_channel_affine"):
        raise FormatError(f"{name!r} needs a quantizer per tensor or per channel; got {one_line(scheme.path, 60)}.")
    scale, zero = (_values(path, name, value, spans) for value in values[:2])
    if scheme.path == "torch.per_channel_affine":
        if len(values) < 3 or values[2] not in (0, 1):
            raise FormatError(f"{name!r} needs a quantizer along rows or columns; got axis {one_line(values[2:], 40)}.")
        shape = (-1, 1) if values[2] == 0 else (1, -1)
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    return ScaledRows(name, view_of_storage(path, name, place, spans), place.dtype, scale, zero)


def _values(path: Path, name: str, value: Any, spans: dict[str, tuple[int, int]]) -> Any:
    if isinstance(value, TensorPlace):
        return np.array(view_of_storage(path, name, value, spans), dtype=np.float64)
    if isinstance(value, (int, float)):
        return np.float64(value)
    raise FormatError(f"{name!r} needs a scale and a zero point; got {one_line(value, 60)}.")
