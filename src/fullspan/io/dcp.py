"""Distributed checkpoints of PyTorch: a folder with ``.metadata`` and the shards that it describes.

``.metadata`` is a pickle, which torch would run. Here it is read without running it, and so are the shards; each row
comes from the memory map of the chunk that holds it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from fullspan._typing import Array, Table
from fullspan.errors import FormatError, MissingFileError
from fullspan.io._bounds import one_line, reading
from fullspan.io.base import OpenOptions, TableInfo
from fullspan.io.checkpoint import Checkpoint, StoredTensor, quote
from fullspan.io.quantized import STORAGE
from fullspan.io.torch_ import TensorPlace, places_of_archive, view_of_storage
from fullspan.io.unpickle import MAX_PICKLE_BYTES, Name, Record, unpickle
from fullspan.io.windows import Window

__all__ = ["list_tables", "open_checkpoint", "open_tables"]

_METADATA = ".metadata"
_MODULE = "torch.distributed.checkpoint.metadata."
_ALLOWED = frozenset(
    {
        _MODULE,
        "torch.distributed.checkpoint.filesystem._StorageInfo",
        "torch.distributed.checkpoint.filesystem._StoragePrefix",
        "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING",  # torch before 2.2
        "torch.distributed._shard.sharded_tensor.metadata.TensorProperties",
        "torch.serialization._get_layout",
        "torch.",
    }
)


@dataclass(frozen=True)
class _Chunk:
    """A box of a tensor, and the bytes of the file that hold it."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    file: Path
    at: int
    length: int


def open_tables(path: Path, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open tables of a distributed checkpoint; only the wanted rows of the wanted tensors are read."""
    return open_checkpoint(path).tables(names, options)


def list_tables(path: Path) -> list[TableInfo]:
    """Every 2-D floating or quantized tensor of a distributed checkpoint."""
    return open_checkpoint(path).infos()


def open_checkpoint(path: Path) -> Checkpoint:
    """The tensors of the folder `path`, by their fully qualified names."""
    with reading(path, "a distributed checkpoint of torch"):
        file = path / _METADATA
        if not file.is_file():
            raise MissingFileError(f"{quote(path)} needs the file {_METADATA!r} of a distributed checkpoint.")
        if file.stat().st_size > MAX_PICKLE_BYTES:
            raise FormatError(f"{quote(file)} needs at most {MAX_PICKLE_BYTES} bytes; got {file.stat().st_size}.")
        metadata = unpickle(file.read_bytes(), quote(file), _ALLOWED)
        return Checkpoint(path, "torch distributed", _tensors(path, metadata))


def _lies(path: Path, what: str) -> NoReturn:
    raise FormatError(f"{quote(path / _METADATA)} needs a valid description of the shards; got {what}.")


def _tensors(path: Path, metadata: Any) -> dict[str, StoredTensor]:
    described = metadata.get("state_dict_metadata") if isinstance(metadata, Record) else None
    stored = metadata.get("storage_data") if isinstance(metadata, Record) else None
    if not isinstance(described, dict) or not isinstance(stored, dict):
        _lies(path, "no state_dict_metadata or storage_data")
    places = {
        (index.get("fqn"), _sizes(index.get("offset"))): place
        for index, place in stored.items()
        if isinstance(index, Record) and isinstance(place, Record)
    }
    return {
        name: _tensor(path, name, entry, places)
        for name, entry in described.items()
        if isinstance(name, str) and isinstance(entry, Record) and entry.name == _MODULE + "TensorStorageMetadata"
    }


def _sizes(value: Any) -> tuple[int, ...] | None:
    """A ``torch.Size`` of the pickle as a tuple, or None."""
    if isinstance(value, Record) and value.name == "torch.Size" and len(value.args) == 1:
        value = value.args[0]
    if not isinstance(value, (tuple, list)) or len(value) > 64:
        return None
    return tuple(value) if all(type(size) is int and 0 <= size < 2**62 for size in value) else None


def _tensor(path: Path, name: str, entry: Record, places: dict[Any, Record]) -> StoredTensor:
    shape, properties, chunks = _sizes(entry.get("size")), entry.get("properties"), entry.get("chunks")
    dtype = _dtype(properties)
    if shape is None or dtype is None or not isinstance(chunks, list):
        _lies(path, f"a tensor {name[:80]!r} without a size, a dtype or chunks")
    boxes = [_chunk(path, name, chunk, len(shape), places) for chunk in chunks]
    for box in boxes:
        if any(begin + size > whole for begin, size, whole in zip(box.offsets, box.sizes, shape, strict=True)):
            _lies(path, f"a chunk of {name[:80]!r} outside its shape {shape}")
    if sum(math.prod(box.sizes) for box in boxes) != math.prod(shape):
        _lies(path, f"chunks of {name[:80]!r} that do not cover its shape {shape}")
    return StoredTensor(name, shape, dtype, lambda: ChunkedRows(name, shape, dtype, boxes))


def _dtype(properties: Any) -> str | None:
    """The type among the properties, which are pickled as a tuple (dtype, layout, …) or as attributes."""
    if not isinstance(properties, Record):
        return None
    state = properties.state
    found = state[0] if isinstance(state, tuple) and state else properties.get("dtype")
    return found.path.removeprefix("torch.") if isinstance(found, Name) else None


def _chunk(path: Path, name: str, chunk: Any, n_dims: int, places: dict[Any, Record]) -> _Chunk:
    offsets, sizes = (_sizes(chunk.get(key)) if isinstance(chunk, Record) else None for key in ("offsets", "sizes"))
    if offsets is None or sizes is None or len(offsets) != n_dims or len(sizes) != n_dims:
        _lies(path, f"a chunk of {name[:80]!r} without offsets or sizes")
    place = places.get((name, offsets)) or (places.get((name, None)) if not any(offsets) else None)
    if place is None:
        _lies(path, f"no place of the chunk at {offsets} of {name[:80]!r}")
    if place.get("transform_descriptors"):
        raise FormatError(
            f"{quote(path)} needs shards without transforms; got {one_line(place.get('transform_descriptors'), 60)}. "
            "Save it without extensions."
        )
    file, at, length = place.get("relative_path"), place.get("offset"), place.get("length")
    if not isinstance(file, str) or file in ("", ".", "..") or set(file) & set("/\\\0"):
        _lies(path, f"a shard outside the folder, {one_line(repr(file), 80)}. It was not opened")
    if type(at) is not int or type(length) is not int or at < 0 or length < 1:
        _lies(path, f"a chunk of {name[:80]!r} without a place in {file!r}")
    return _Chunk(offsets, sizes, path / file, at, length)


class ChunkedRows:
    """A tensor in chunks that slices by rows; a chunk is mapped when one of its rows is first wanted."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str, chunks: list[_Chunk]) -> None:
        if dtype not in STORAGE:
            raise FormatError(f"{name!r} needs a stored type that fullspan reads; got {one_line(dtype, 40)}.")
        self.shape, self.dtype = shape, STORAGE[dtype]
        self._name, self._stored = name, dtype
        self._chunks = sorted(chunks, key=lambda chunk: chunk.offsets)
        self._mapped: dict[_Chunk, Array] = {}

    def __getitem__(self, which: Any) -> Array:
        start, stop, _ = (which if isinstance(which, slice) else slice(None)).indices(
            self.shape[0] if self.shape else 1
        )
        if not self.shape:
            return self._map(self._chunks[0])
        wanted = [chunk for chunk in self._chunks if _overlap(chunk, start, stop)]
        self._mapped = {chunk: rows for chunk, rows in self._mapped.items() if chunk in wanted}
        self._check(wanted, start, stop)
        parts = [self._part(chunk, start, stop) for chunk in wanted]
        if len(parts) == 1:
            return parts[0][1]
        out = np.empty((stop - start, *self.shape[1:]), self.dtype)
        for box, rows in parts:
            out[box] = rows
        return out

    def _part(self, chunk: _Chunk, start: int, stop: int) -> tuple[tuple[slice, ...], Array]:
        """Where the wanted rows of a chunk go, and the rows."""
        first, last = max(start, chunk.offsets[0]), min(stop, chunk.offsets[0] + chunk.sizes[0])
        rest = (slice(at, at + size) for at, size in zip(chunk.offsets[1:], chunk.sizes[1:], strict=True))
        rows = self._map(chunk)[first - chunk.offsets[0] : last - chunk.offsets[0]]
        return (slice(first - start, last - start), *rest), rows

    def _check(self, wanted: list[_Chunk], start: int, stop: int) -> None:
        rows = (_overlap(chunk, start, stop) * math.prod(chunk.sizes[1:]) for chunk in wanted)
        covered = sum(rows) == (stop - start) * math.prod(self.shape[1:])
        if not covered or any(_intersect(a, b) for a, b in itertools.combinations(wanted[:1000], 2)):
            raise FormatError(f"{self._name!r} needs chunks that cover rows {start} to {stop} once; got other chunks.")

    def _map(self, chunk: _Chunk) -> Array:
        if chunk not in self._mapped:
            self._mapped[chunk] = self._read(chunk)
        return self._mapped[chunk]

    def _read(self, chunk: _Chunk) -> Array:
        if not chunk.file.is_file():
            raise MissingFileError(f"{self._name!r} needs the shard {quote(chunk.file)}; it is missing.")
        with reading(chunk.file, "a shard of a distributed checkpoint"):
            with Window(chunk.file, chunk.at, chunk.length) as window:
                place, spans = places_of_archive(chunk.file, window)
            if not isinstance(place, TensorPlace) or place.shape != chunk.sizes or place.dtype != self._stored:
                raise FormatError(
                    f"{quote(chunk.file)} needs a tensor of shape {chunk.sizes} and dtype {self._stored} at byte "
                    f"{chunk.at}; got another. Is the checkpoint a mix of two?"
                )
            return view_of_storage(chunk.file, self._name, place, spans)


def _overlap(chunk: _Chunk, start: int, stop: int) -> int:
    """How many of the rows from `start` up to `stop` a chunk has."""
    return max(0, min(stop, chunk.offsets[0] + chunk.sizes[0]) - max(start, chunk.offsets[0]))


def _intersect(a: _Chunk, b: _Chunk) -> bool:
    return all(
        max(at, other_at) < min(at + size, other_at + other_size)
        for at, size, other_at, other_size in zip(a.offsets, a.sizes, b.offsets, b.sizes, strict=True)
    )
