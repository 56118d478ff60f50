"""Keras 3 files (``.keras``, ``.weights.h5``) and other HDF5 files: a child process finds where the data sets lie,
and their bytes are mapped or inflated here."""

from __future__ import annotations

import base64
import importlib.util
import json
import math
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from fullspan._backend import looks_like_embedding
from fullspan._extras import require
from fullspan._typing import Array, Table
from fullspan.errors import FormatError
from fullspan.io._bounds import MAX_DIM, one_line, reading
from fullspan.io.base import OpenOptions, TableInfo
from fullspan.io.checkpoint import Checkpoint, StoredTensor, quote
from fullspan.io.quantized import STORAGE
from fullspan.io.safetensors_ import map_array
from fullspan.io.windows import Window, stored_span

__all__ = ["list_tables", "open_checkpoint", "open_tables"]

#: A member of a zip archive may be inflated up to this size, and this many times its compressed size.
MAX_INFLATED = 2**33
MAX_RATIO = 100
#: Weights this small are inflated whatever their ratio: tables of zeros compress well.
SMALL_ENOUGH = 2**26
MAX_SECONDS = 30
MAX_CHUNK_BYTES = 2**28

_WEIGHTS = "model.weights.h5"
_CHILD = Path(__file__).with_name("hdf5_map.py")
_FILTERS = {1: "gzip", 2: "shuffle", 3: "fletcher32"}


class _Part(NamedTuple):
    """The bytes of a file that are an HDF5 file, and what must live as long as they are wanted."""

    path: Path
    start: int
    length: int
    kept: Any = None


def open_tables(path: Path, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open tables of a ``.keras``, ``.weights.h5`` or other HDF5 file."""
    return open_checkpoint(path).tables(names, options)


def list_tables(path: Path) -> list[TableInfo]:
    """Every 2-D floating or quantized data set of a Keras or HDF5 file."""
    return open_checkpoint(path).infos()


def open_checkpoint(path: Path) -> Checkpoint:
    """The data sets of a Keras or HDF5 file by their paths; the name of a layer names its table too."""
    with reading(path, "a Keras or HDF5 file"):
        with path.open("rb") as file:
            is_zip = file.read(4) == b"PK\x03\x04"
        part = _weights_in(path) if is_zip else _Part(path, 0, path.stat().st_size)
        kind = "keras" if is_zip or path.name.endswith(".weights.h5") else "hdf5"
        return Checkpoint(path, kind, _tensors(path, part, _child(path, part)))


def _weights_in(path: Path) -> _Part:
    """The part of a file that holds the weights of a ``.keras`` archive."""
    with Window(path) as window, zipfile.ZipFile(cast("Any", window)) as archive:
        members = [member for member in archive.infolist() if member.filename == _WEIGHTS]
        if len(members) != 1:
            raise FormatError(f"{quote(path)} needs one member {_WEIGHTS!r}, as Keras 3 writes; got {len(members)}.")
        (member,) = members
        if member.compress_type == zipfile.ZIP_STORED:
            return _Part(path, *stored_span(window, member))
        size, packed = member.file_size, member.compress_size
        if size > MAX_INFLATED or (size > SMALL_ENOUGH and size > MAX_RATIO * packed):
            raise FormatError(
                f"{quote(path)} needs weights of at most {MAX_INFLATED} bytes and {MAX_RATIO} times their compressed "
                f"size; got {size} from {packed}. Is it a zip bomb? Unzip it and open {_WEIGHTS}."
            )
        return _inflated(path, archive, member)


def _inflated(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Part:
    """Inflate the weights into a temporary file, which goes when the last table of it goes."""
    file = tempfile.NamedTemporaryFile(prefix="fullspan-", suffix=".h5")  # noqa: SIM115 - lives as long as the part
    with archive.open(member) as packed:
        shutil.copyfileobj(cast("BinaryIO", packed), file, 2**20)
    file.flush()
    if (size := file.tell()) != member.file_size:
        raise FormatError(f"{quote(path)} needs {member.file_size} bytes in {_WEIGHTS}; got {size}. Is it truncated?")
    return _Part(Path(file.name), 0, size, file)


def _child(path: Path, part: _Part) -> list[dict[str, Any]]:
    if importlib.util.find_spec("h5py") is None:
        require("h5py", "hdf5", "Reading a Keras or HDF5 file")
    command = [sys.executable, "-P", str(_CHILD), str(part.path), str(part.start), str(part.length)]
    try:
        done = subprocess.run(  # noqa: S603 - our own script, and no shell
            command, capture_output=True, timeout=MAX_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise FormatError(f"{quote(path)} needs an HDF5 file that lists in {MAX_SECONDS} s; got none.") from None
    if done.returncode != 0:
        what = f"signal {-done.returncode}" if done.returncode < 0 else one_line(done.stderr.decode(errors="replace"))
        raise FormatError(f"{quote(path)} needs a valid HDF5 file; the HDF5 library ended with {what}. Is it damaged?")
    answer = json.loads(done.stdout)
    if "refused" in answer:
        raise FormatError(
            f"{quote(path)} needs to hold its own numbers; got {one_line(answer['refused'])}. It was not opened."
        )
    if "broken" in answer:
        raise FormatError(f"{quote(path)} needs a valid HDF5 file; got {one_line(answer['broken'])}. Is it damaged?")
    return answer["datasets"]


def _tensors(path: Path, part: _Part, entries: list[dict[str, Any]]) -> dict[str, StoredTensor]:
    names = {entry["name"] for entry in entries}
    reasons = {entry["name"]: _why(entry["name"], entry["layer"], entry["shape"]) for entry in entries}
    layers = Counter(entry["layer"] for entry in entries if reasons[entry["name"]])
    found: dict[str, StoredTensor] = {}
    for entry in sorted(entries, key=lambda entry: entry["name"]):
        name, layer, why, kind = entry["name"], entry["layer"], reasons[entry["name"]], _kind(entry["dtype"])
        if kind is None:
            continue
        alias = (layer,) if why and layer and layers[layer] == 1 and layer not in names else ()
        tensor = StoredTensor(
            name,
            tuple(entry["shape"]),
            kind[0],
            lambda entry=entry, kind=kind[1]: _rows(path, part, entry, kind),
            also=alias,
            why=why,
        )
        is_quantized = bool(why) and kind[0] == "int8" and f"{name.rpartition('/')[0]}/1" in names
        found[name] = _refusing(path, tensor) if is_quantized else tensor
    return found


def _refusing(path: Path, tensor: StoredTensor) -> StoredTensor:
    """A quantized layer: whether its bytes are one code or two of 4 bits, only the model's configuration says."""

    def read() -> Any:
        raise FormatError(
            f"{tensor.name!r} of {quote(path)} needs floating weights; got the codes of a quantized Keras layer, of 8 "
            "bits or 4, which the file does not say. Save the model before quantize()."
        )

    return replace(tensor, dtype="quantized", read=read, decode=np.asarray)


def _kind(text: str) -> tuple[str, np.dtype[Any]] | None:
    """The name of a stored type and the NumPy type of its bytes, or None for types that are no real numbers."""
    if text == "bfloat16":
        return text, STORAGE[text]
    kind = np.dtype(text) if text else None
    return (kind.name, kind) if kind is not None and kind.name in STORAGE else None


def _why(name: str, layer: str, shape: Sequence[int]) -> str | None:
    """Why a data set is the table of an embedding layer: Keras numbers the variables of a layer under ``vars``."""
    path, _, _ = name.partition("/vars/")
    if path == name or path.split("/", 1)[0] == "optimizer" or len(shape) != 2:
        return None
    last = path.rpartition("/")[2]
    if looks_like_embedding(last, tuple(shape))[0] or "embedding" in last:
        return f"layer {layer!r} of type {last}" if layer else f"a layer of type {last}"
    return None


def _rows(path: Path, part: _Part, entry: dict[str, Any], kind: np.dtype[Any]) -> Any:
    """What slices to the stored rows of a data set, within the bytes of its file."""
    name, shape, layout = entry["name"], tuple(entry["shape"]), entry["layout"]
    n_bytes = math.prod(shape) * kind.itemsize
    if layout == "compact":
        return np.frombuffer(base64.b64decode(entry["data"]), kind).reshape(shape)
    if layout == "chunked":
        return _InflatedRows(path, part, entry, kind)
    offset = entry.get("offset")
    if layout != "contiguous" or offset is None:
        raise FormatError(f"{name!r} of {quote(path)} needs numbers that were written; got none or a foreign layout.")
    if offset < 0 or offset + n_bytes > part.length:
        raise FormatError(
            f"{name!r} of {quote(path)} needs {n_bytes} bytes from {offset}; got {part.length}. Is it truncated?"
        )
    return map_array(part.path, kind, shape, part.start + offset)


class _InflatedRows:
    """A chunked data set that slices by rows; a band of chunks is inflated at a time."""

    def __init__(self, path: Path, part: _Part, entry: dict[str, Any], kind: np.dtype[Any]) -> None:
        self.shape: tuple[int, int] = (entry["shape"][0], entry["shape"][1])
        self.dtype = kind
        self._path, self._part, self._name = path, part, entry["name"]
        self._chunk: tuple[int, int] = (entry["chunk"][0], entry["chunk"][1])
        self._filters, self._fill = entry["filters"], entry["fill"]
        unknown = [number for number in self._filters if number not in _FILTERS]
        if unknown:
            raise FormatError(
                f"{self._name!r} of {quote(path)} needs the filters {', '.join(_FILTERS.values())} or none; got filter "
                f"{unknown[0]}. Rewrite it with h5repack -f NONE."
            )
        if not 0 < math.prod(self._chunk) * kind.itemsize <= MAX_CHUNK_BYTES or self.shape[1] > MAX_DIM:
            raise FormatError(f"{self._name!r} of {quote(path)} needs chunks of at most 256 MiB; got {self._chunk}.")
        self._bands: dict[int, list[list[int]]] = {}
        for place in entry["chunks"]:
            self._bands.setdefault(place[0], []).append(place)
        self._band: tuple[int, Array] | None = None

    def __getitem__(self, which: slice) -> Array:
        start, stop, _ = which.indices(self.shape[0])
        height = self._chunk[0]
        parts = []
        for top in range(start // height * height, stop, height):
            band = self._read_band(top)
            parts.append(band[max(0, start - top) : stop - top])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _read_band(self, top: int) -> Array:
        if self._band is None or self._band[0] != top:
            height = min(self._chunk[0], self.shape[0] - top)
            band = np.full((height, self.shape[1]), self._fill).astype(self.dtype)
            for place in self._bands.get(top, []):
                self._fill_in(band, place)
            self._band = (top, band)
        return self._band[1]

    def _fill_in(self, band: Array, place: list[int]) -> None:
        _, left, at, size, mask = place
        part = band[:, left : left + self._chunk[1]]
        chunk = self._inflate(at, size, mask).reshape(self._chunk)
        part[:] = chunk[: part.shape[0], : part.shape[1]]

    def _inflate(self, at: int, size: int, mask: int) -> Array:
        wanted = math.prod(self._chunk) * self.dtype.itemsize
        source, begin, length, _ = self._part
        if at < 0 or size < 0 or at + size > length:
            raise FormatError(f"{self._name!r} of {quote(self._path)} needs bytes {at} to {at + size}; got {length}.")
        with reading(self._path, "an HDF5 file"), Window(source, begin + at, size) as window:
            data = window.read(size)
            for index in reversed(range(len(self._filters))):
                if not mask >> index & 1:
                    data = _undo(self._filters[index], data, wanted, self.dtype.itemsize)
        if len(data) != wanted:
            raise FormatError(f"{self._name!r} of {quote(self._path)} needs chunks of {wanted} bytes; got {len(data)}.")
        return np.frombuffer(data, self.dtype)


def _undo(number: int, data: bytes, wanted: int, itemsize: int) -> bytes:
    if number == 1:
        return zlib.decompressobj().decompress(data, wanted + 4)
    if number == 3:
        return data[:-4]
    return np.frombuffer(data, np.uint8).reshape(itemsize, -1).T.tobytes()
