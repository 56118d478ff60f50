"""Flat indexes of faiss: an own bounded parser of the header, and a memory map of the vectors."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fullspan._typing import Table
from fullspan.errors import FormatError
from fullspan.io._bounds import MAX_DIM, one_line, read_exactly, reading
from fullspan.io.base import OpenOptions, TableInfo
from fullspan.io.checkpoint import Checkpoint, StoredTensor, quote
from fullspan.io.safetensors_ import map_array

__all__ = ["list_tables", "open_checkpoint", "open_tables"]

_FLAT = (b"IxF2", b"IxFI", b"IxFl")
_BINARY_FLAT = b"IBxF"
_ID_MAPS = (b"IxMp", b"IxM2")
_BINARY_ID_MAPS = (b"IBMp", b"IBM2")
_METRICS_WITHOUT_ARGUMENT = (0, 1)


def open_tables(path: Path, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open the vectors of a flat faiss index; an ID map gives the ids of its rows."""
    return open_checkpoint(path).tables(names, options)


def list_tables(path: Path) -> list[TableInfo]:
    """The one table of a flat faiss index."""
    return open_checkpoint(path).infos()


def open_checkpoint(path: Path) -> Checkpoint:
    """The vectors of a flat faiss index as one tensor that bears the name of the file."""
    with reading(path, "a flat faiss index"), path.open("rb") as file:
        size = path.stat().st_size
        vectors, ids = _index(path, file, size, nested=False)
        if file.tell() != size:
            raise _lies(path, f"{size - file.tell()} bytes after its end")
    return Checkpoint(path, "faiss", {vectors.name: vectors}, lambda tensor: _ids(path, ids))


def _lies(path: Path, what: str) -> FormatError:
    return FormatError(f"{quote(path)} needs a valid flat faiss index; got {what}. Is the file truncated or damaged?")


def _index(path: Path, file: BinaryIO, size: int, *, nested: bool) -> tuple[StoredTensor, tuple[int, int] | None]:
    """The vectors, and where their ids begin and how many there are; the file is left behind what was read."""
    kind = read_exactly(file, 4, path.name)
    if kind in _FLAT:
        dim, n_rows, _ = _header(path, file)
        return _vectors(path, file, size, (n_rows, dim), "float32", 4), None
    if kind == _BINARY_FLAT:
        n_bytes, n_rows = _binary_header(path, file)
        return _vectors(path, file, size, (n_rows, n_bytes), "uint8", 1), None
    if kind in _ID_MAPS + _BINARY_ID_MAPS and not nested:
        n_rows = _header(path, file)[1] if kind in _ID_MAPS else _binary_header(path, file)[1]
        vectors, _ = _index(path, file, size, nested=True)
        return vectors, _id_map(path, file, size, n_rows, vectors)
    raise FormatError(
        f"{quote(path)} needs a flat faiss index ({_names(_FLAT)}, or {_names(_ID_MAPS)} over one); "
        f"got {_name(kind)!r}. "
        'Convert it: np.save("table.npy", faiss.read_index(path).reconstruct_n()).'
    )


def _name(kind: bytes) -> str:
    return one_line(kind.decode("latin-1"))


def _names(kinds: Sequence[bytes]) -> str:
    return ", ".join(map(_name, kinds))


def _unpack(path: Path, file: BinaryIO, layout: str) -> tuple[Any, ...]:
    return struct.unpack(layout, read_exactly(file, struct.calcsize(layout), path.name))


def _header(path: Path, file: BinaryIO) -> tuple[int, int, int]:
    dim, n_rows, _, _, trained, metric = _unpack(path, file, "<iqqqBi")
    if metric not in _METRICS_WITHOUT_ARGUMENT:
        _unpack(path, file, "<f")
    _check(path, dim, n_rows, trained)
    return dim, n_rows, metric


def _binary_header(path: Path, file: BinaryIO) -> tuple[int, int]:
    dim, n_bytes, n_rows, trained, _ = _unpack(path, file, "<iiqBi")
    _check(path, dim, n_rows, trained)
    if n_bytes * 8 != dim:
        raise _lies(path, f"{n_bytes} bytes a row of {dim} bits")
    return n_bytes, n_rows


def _check(path: Path, dim: int, n_rows: int, trained: int) -> None:
    if not 1 <= dim <= MAX_DIM or n_rows < 0 or trained not in (0, 1):
        raise _lies(path, f"{n_rows} rows of {dim} dimensions")


def _vectors(path: Path, file: BinaryIO, size: int, shape: tuple[int, int], dtype: str, itemsize: int) -> StoredTensor:
    (count,) = _unpack(path, file, "<Q")
    at, n_bytes = file.tell(), shape[0] * shape[1] * itemsize
    if count != shape[0] * shape[1]:
        raise _lies(path, f"{count} numbers for {shape[0]} rows of {shape[1]}")
    if n_bytes > size - at:
        raise _lies(path, f"{size - at} of {n_bytes} bytes of vectors")
    file.seek(at + n_bytes)
    kind = np.dtype("<f4") if dtype == "float32" else np.dtype("u1")
    return StoredTensor(
        path.stem, shape, dtype, lambda: map_array(path, kind, shape, at), why="the vectors of a flat index"
    )


def _id_map(path: Path, file: BinaryIO, size: int, n_rows: int, vectors: StoredTensor) -> tuple[int, int]:
    (count,) = _unpack(path, file, "<Q")
    at = file.tell()
    if count != vectors.shape[0] or count != n_rows:
        raise _lies(path, f"{count} ids for {vectors.shape[0]} rows")
    if 8 * count > size - at:
        raise _lies(path, f"{size - at} of {8 * count} bytes of ids")
    file.seek(at + 8 * count)
    return at, count


def _ids(path: Path, ids: tuple[int, int] | None) -> Any:
    return None if ids is None else map_array(path, np.dtype("<i8"), (ids[1],), ids[0])
