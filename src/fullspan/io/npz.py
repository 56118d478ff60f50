"""NumPy archives: each array streams out of the zip in blocks, checked against what the archive announces."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from fullspan._backend import looks_like_embedding
from fullspan._typing import Array, Table
from fullspan.errors import FormatError, FullspanError, InputError
from fullspan.io._bounds import chosen_names, note_left_out, read_exactly, reading
from fullspan.io.base import OpenOptions, TableInfo, stored_dtype
from fullspan.io.beside import KINDS, attach_arrays, checked_frequencies, given_values, is_path
from fullspan.io.npy import Header, read_header, stream_table

__all__ = ["list_tables", "open_tables"]

#: Deflate packs at most 1032 bytes in one; an archive that announces more lies.
_MAX_RATIO = 1040
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_MAX_BESIDE_BYTES = 2**31
#: Names under which an array of one value a row is taken for what lies beside the rows.
_BESIDE_NAMES = {
    "ids": ("ids", "id", "keys", "words", "tokens", "vocab", "names"),
    "labels": ("labels", "label", "y", "classes"),
    "frequencies": ("frequencies", "frequency", "counts", "count", "freq"),
}


def open_tables(path: Path, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open arrays of an archive; None takes those that look like embeddings, or else every 2-D one."""
    with reading(path, "an npz archive"):
        headers = _headers(path)
    infos = _infos(headers)
    if names is None and not infos:
        found = ", ".join(f"{name} {header.shape}" for name, header in list(headers.items())[:6])
        raise InputError(f"{str(path)!r} needs a 2-D array of numbers; got {found or 'no array at all'}.")
    for name in set(names or ()) - set(headers):
        _refuse(path, name)
    default = [info.name for info in infos if info.embedding] or [info.name for info in infos]
    chosen = chosen_names(path, list(headers), names, default)
    tables = [_open(path, name, headers, options) for name in chosen]
    if names is None:
        note_left_out(tables, [info.name for info in infos if info.name not in chosen])
    return tables


def list_tables(path: Path) -> list[TableInfo]:
    """Every 2-D array of numbers of an archive."""
    with reading(path, "an npz archive"):
        return _infos(_headers(path))


def _infos(headers: dict[str, Header]) -> list[TableInfo]:
    return [
        TableInfo(name, header.shape, stored_dtype(header.dtype), *looks_like_embedding(name, header.shape), "npz")
        for name, header in headers.items()
        if len(header.shape) == 2 and header.dtype.kind in "fiub" and 0 not in header.shape
    ]


def _headers(path: Path) -> dict[str, Header]:
    """The header of every array; arrays of objects are left out, and refused when asked for."""
    headers = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                _check_member(path, member)
                with archive.open(member) as stream:
                    header = _header_or_none(cast("BinaryIO", stream), member.filename)
                if header is not None:
                    headers[member.filename.removesuffix(".npy")] = header
    return headers


def _refuse(path: Path, name: str) -> None:
    """Raise why an array that the archive has is none that can be read."""
    with reading(path, "an npz archive"), zipfile.ZipFile(path) as archive:
        if f"{name}.npy" in archive.namelist():
            with archive.open(f"{name}.npy") as stream:
                read_header(cast("BinaryIO", stream), name)


def _header_or_none(stream: BinaryIO, name: str) -> Header | None:
    try:
        return read_header(stream, name)
    except FullspanError as error:
        if "Python objects" in str(error) or "real numbers" in str(error):
            return None
        raise


def _check_member(path: Path, member: zipfile.ZipInfo) -> None:
    if member.compress_type not in _METHODS or member.flag_bits & 1:
        raise FormatError(
            f"{member.filename!r} in {str(path)!r} needs to be stored or deflated, without a password; got method "
            f"{member.compress_type}. Save it again with numpy.savez."
        )
    if member.compress_size > path.stat().st_size or member.file_size > _MAX_RATIO * max(1, member.compress_size):
        raise FormatError(
            f"{member.filename!r} in {str(path)!r} announces {member.file_size} bytes out of {member.compress_size}, "
            "which no archive packs; got a zip bomb or a damaged file."
        )


@contextmanager
def _member(path: Path, name: str) -> Iterator[BinaryIO]:
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as stream:
        yield cast("BinaryIO", stream)


def _opener(path: Path, name: str) -> Callable[[], Any]:
    return lambda: _member(path, name)


def _open(path: Path, name: str, headers: dict[str, Header], options: OpenOptions) -> Table:
    with reading(path, "an npz archive"), zipfile.ZipFile(path) as archive:
        n_bytes = archive.getinfo(f"{name}.npy").file_size
    table = stream_table(name, _opener(path, name), path, n_bytes)
    beside = {what: _beside(path, what, getattr(options, what), headers, headers[name].shape[0]) for what in KINDS}
    return attach_arrays(table, {what: values for what, values in beside.items() if values is not None})


def _beside(path: Path, what: str, given: Any, headers: dict[str, Header], n_rows: int) -> Array | None:
    """An array of the archive named so, a file, an array; or by default one whose name says it and that fits."""
    if given is None:
        fits = [name for name in _BESIDE_NAMES[what] if name in headers and headers[name].shape == (n_rows,)]
        return _vector(path, fits[0], headers[fits[0]], what) if fits else None
    if is_path(given) and str(given) in headers:
        return _vector(path, str(given), headers[str(given)], what)
    return given_values(given, what)


def _vector(path: Path, name: str, header: Header, what: str) -> Array:
    if header.data_bytes > _MAX_BESIDE_BYTES:
        raise FormatError(f"{name!r} needs at most {_MAX_BESIDE_BYTES} bytes; got {header.data_bytes}.")
    with reading(path, "an npz archive"), _member(path, name) as stream:
        read_header(stream, name)
        values = np.frombuffer(read_exactly(stream, header.data_bytes, name), header.dtype).reshape(header.shape)
        stream.read(1)
    return checked_frequencies(values) if what == "frequencies" else values
