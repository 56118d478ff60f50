"""safetensors: an own bounded parser of the header, and memory maps of the tensors."""

from __future__ import annotations

import errno
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fullspan._typing import Table
from fullspan.errors import FormatError, MissingFileError
from fullspan.io._bounds import one_line, read_exactly, reading, too_large
from fullspan.io.base import OpenOptions, TableInfo
from fullspan.io.checkpoint import Checkpoint, StoredTensor, quote
from fullspan.io.quantized import STORAGE

__all__ = ["list_tables", "map_array", "open_checkpoint", "open_tables", "read_json", "read_metadata", "sharded"]

MAX_HEADER_BYTES = 100_000_000
MAX_DIMENSIONS = 64

_FORMAT = "safetensors"
_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
    "I16": "int16",
    "U16": "uint16",
    "I32": "int32",
    "U32": "uint32",
    "I64": "int64",
    "U64": "uint64",
}
#: Types that are known by name and size only: a file may hold them, but they do not open as a table.
_OTHER_BITS = {"C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}


def open_tables(path: Path, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open tables of a safetensors file, or of all the shards that an index lists."""
    return open_checkpoint(path).tables(names, options)


def list_tables(path: Path) -> list[TableInfo]:
    """Every 2-D floating or quantized tensor of a safetensors file or of a sharded one."""
    return open_checkpoint(path).infos()


def open_checkpoint(path: Path) -> Checkpoint:
    """The tensors of a safetensors file, or of the shards of a ``*.safetensors.index.json``."""
    if path.suffix == ".json":
        return Checkpoint(path, _FORMAT, sharded(path, _tensors))
    return Checkpoint(path, _FORMAT, _tensors(path))


def read_metadata(path: Path) -> dict[str, str]:
    """The strings that the writer put under ``__metadata__``."""
    header, _, _ = _read_header(path)
    return _metadata(path, header)


def _lies(path: Path, what: str) -> FormatError:
    return FormatError(f"{quote(path)} needs a valid safetensors header; got {what}. Is the file truncated or damaged?")


def _read_header(path: Path) -> tuple[dict[str, Any], int, int]:
    """The parsed header, where the data begins, and how many bytes of data there are."""
    with reading(path, "a safetensors file"), path.open("rb") as file:
        size = path.stat().st_size
        prefix = file.read(8)
        if len(prefix) < 8:
            raise _lies(path, f"a file of {size} bytes")
        length = int.from_bytes(prefix, "little")
        if length > min(size - 8, MAX_HEADER_BYTES):
            raise _lies(path, f"a header of {length} bytes in a file of {size}")
        raw = read_exactly(file, length, path.name)
        return _parse_json(path, raw), 8 + length, size - 8 - length


def _parse_json(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        header = json.loads(raw.decode("utf-8"), object_pairs_hook=lambda pairs: _unique(path, pairs))
    except FormatError:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise _lies(path, f"a header that is not JSON ({type(error).__name__})") from None
    if not isinstance(header, dict):
        raise _lies(path, f"a JSON {type(header).__name__} in place of an object")
    return header


def _unique(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _lies(path, f"the name {name[:80]!r} twice")
        found[name] = value
    return found


def _metadata(path: Path, header: dict[str, Any]) -> dict[str, str]:
    metadata = header.get("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _lies(path, "metadata that are not strings")
    return metadata


def _tensors(path: Path) -> dict[str, StoredTensor]:
    header, data_start, data_bytes = _read_header(path)
    _metadata(path, header)
    spans: list[tuple[int, int, str]] = []
    tensors: dict[str, StoredTensor] = {}
    for name, entry in header.items():
        if name != "__metadata__":
            dtype, shape, (begin, end) = _check_entry(path, name, entry, data_bytes)
            spans.append((begin, end, name))
            tensors[name] = StoredTensor(name, shape, dtype, _mapper(path, dtype, shape, data_start + begin))
    _check_spans(path, spans)
    return tensors


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _check_entry(path: Path, name: str, entry: Any, data_bytes: int) -> tuple[str, tuple[int, ...], tuple[int, int]]:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise _lies(path, f"an entry of {name!r} without exactly a dtype, a shape and data_offsets")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or (code not in _DTYPES and code not in _OTHER_BITS):
        raise _lies(path, f"the unknown dtype {str(code)[:40]!r} of {name!r}")
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS or not all(map(_is_count, shape)):
        raise _lies(path, f"a shape of {name!r} that is not a list of sizes")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise _lies(path, f"data_offsets of {name!r} that are not two positions")
    begin, end = offsets
    if not begin <= end <= data_bytes:
        raise _lies(path, f"{name!r} at bytes {begin} to {end} of {data_bytes}")
    bits = _OTHER_BITS[code] if code in _OTHER_BITS else 8 * STORAGE[_DTYPES[code]].itemsize
    if math.prod(shape) * bits != 8 * (end - begin):
        raise _lies(path, f"{end - begin} bytes for shape {tuple(shape)} of {code} in {name!r}")
    return _DTYPES.get(code, code), tuple(shape), (begin, end)


def _check_spans(path: Path, spans: list[tuple[int, int, str]]) -> None:
    spans = sorted(spans)
    for (_, end, name), (begin, _, other) in itertools.pairwise(spans):
        if begin < end:
            raise _lies(path, f"{name!r} and {other!r} in the same bytes")


def _mapper(path: Path, dtype: str, shape: tuple[int, ...], offset: int) -> Callable[[], Any]:
    def read() -> Any:
        return map_array(path, STORAGE[dtype], shape, offset)

    return read


def map_array(path: Path, kind: np.dtype[Any], shape: tuple[int, ...], offset: int) -> Any:
    """A read-only memory map of an array that lies whole within a file."""
    if 0 in shape:
        return np.empty(shape, kind)
    try:
        mapped = np.memmap(path, kind, "r", offset, shape)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            raise too_large(path, "a table in place", one_line(error)) from error
        raise FormatError(
            f"{quote(path)} needs {math.prod(shape) * kind.itemsize} bytes from byte {offset}; got "
            f"{type(error).__name__}: {error}."
        ) from error
    return mapped.view(np.ndarray)


def sharded(path: Path, read: Callable[[Path], Mapping[str, StoredTensor]]) -> dict[str, StoredTensor]:
    """The tensors of all the shards that an index lists, each shard read by `read`."""
    shard_of = _weight_map(path)
    shards = {shard: read(_shard(path, shard)) for shard in sorted(set(shard_of.values()))}
    tensors: dict[str, StoredTensor] = {}
    for name, shard in shard_of.items():
        if name not in shards[shard]:
            raise FormatError(f"{quote(path)} needs the tensor {name!r} in {shard!r}; that shard does not have it.")
        tensors[name] = shards[shard][name]
    return tensors


def _weight_map(path: Path) -> dict[str, str]:
    """Which shard holds each tensor, every shard checked to be a plain name beside the index."""
    index = read_json(path, MAX_HEADER_BYTES)
    found = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(found, dict) or not found:
        raise FormatError(f"{quote(path)} needs a weight_map from tensors to shards; got none.")
    for name, shard in found.items():
        if not isinstance(shard, str) or shard in ("", ".", "..") or set(shard) & set("/\\\0"):
            raise FormatError(
                f"{quote(path)} needs shards that lie beside it; got {shard!r} for {name!r}. It was not opened."
            )
    return found


def _shard(index: Path, shard: str) -> Path:
    path = index.parent / shard
    if not path.is_file():
        raise MissingFileError(f"{quote(index)} needs its shard {shard!r}; it is missing. Was the download complete?")
    return path


def read_json(path: Path, limit: int) -> Any:
    """The contents of a JSON file of at most `limit` bytes."""
    with reading(path, "JSON"):
        size = path.stat().st_size
        if size > limit:
            raise FormatError(f"{quote(path)} needs at most {limit} bytes of JSON; got {size}.")
        return json.loads(path.read_bytes().decode("utf-8"))
