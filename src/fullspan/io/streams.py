"""From what the caller names to a local file or a stream of bytes: paths, compressed files, remote URLs."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from fullspan._extras import require
from fullspan.errors import FormatError, InputError, MissingFileError
from fullspan.io._bounds import MAX_LINE, one_line, reading

__all__ = ["COMPRESSED_SUFFIXES", "compression", "head", "is_url", "line_chunks", "local_path", "open_bytes", "stem"]

_MAGIC = {b"\x1f\x8b\x08": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
COMPRESSED_SUFFIXES = (".gz", ".zst")
_HEAD_BYTES = 2**16
_downloads: dict[tuple[str, str], Path] = {}


def is_url(source: str) -> bool:
    """Whether the text is a URL of fsspec (``s3://…``, ``memory://…``) and not a path."""
    protocol, mark, _ = source.partition("://")
    return bool(mark) and protocol.replace("+", "").replace("-", "").replace("::", "").isalnum() and len(protocol) > 1


def local_path(source: str | os.PathLike[str]) -> Path:
    """The regular file or folder that `source` names, with a remote one copied to a temporary folder first.

    Raises
    ------
    MissingFileError
        Nothing is there.
    InputError
        It is a pipe, a socket or a device, which cannot be read twice and may never end.
    """
    text = os.fspath(source)
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    if is_url(text):
        if not text.startswith("file://"):
            return _downloaded(text)
        text = text.removeprefix("file://")
    path = Path(text).expanduser()
    if "\0" in text or not text:
        raise InputError(f"fullspan needs the path of a file; got {text!r}.")
    with reading(path, "a readable file"):
        _check_kind(path, path.stat().st_mode)
    return path


def _check_kind(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        return
    if not stat.S_ISREG(mode):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise InputError(
            f"fullspan needs a regular file, which can be read twice; got {kind}, {str(path)!r}. "
            "Save the stream to a file first (… > table.csv)."
        )
    if not os.access(path, os.R_OK):
        raise PermissionError


def _downloaded(url: str) -> Path:
    fsspec = require("fsspec", "remote", "Reading a remote table")
    with reading(url, "a URL that fsspec can open"):
        filesystem, remote = fsspec.core.url_to_fs(url)
        if not filesystem.exists(remote):
            raise MissingFileError(f"fullspan needs an existing file; got {url!r}. Check the URL and your credentials.")
        key = (url, _version(filesystem, remote))
        if key not in _downloads or not _downloads[key].exists():
            _downloads[key] = _fetch(filesystem, remote, url)
    return _downloads[key]


def _version(filesystem: Any, remote: str) -> str:
    info = filesystem.info(remote)
    return one_line(sorted((k, str(v)) for k, v in info.items() if k not in ("name", "Key")), 2000)


def _fetch(filesystem: Any, remote: str, url: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="fullspan-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = folder / (remote.rstrip("/").rsplit("/", 1)[-1] or "table")
    recursive = filesystem.isdir(remote)
    needed = filesystem.du(remote) if recursive else filesystem.size(remote)
    free = shutil.disk_usage(folder).free
    if needed is not None and needed > free:
        raise InputError(
            f"Reading {url!r} needs {needed} bytes of temporary space; got {free} free in {str(folder.parent)!r}. "
            "Point TMPDIR to a larger disk."
        )
    filesystem.get(remote.rstrip("/") + "/" if recursive else remote, str(target), recursive=recursive)
    return target


def compression(first: bytes) -> str | None:
    """The compression that the first bytes of a file show, by pyarrow's name, or None."""
    return next((name for magic, name in _MAGIC.items() if first.startswith(magic)), None)


def open_bytes(path: Path) -> BinaryIO:
    """A stream of the bytes of a file, decompressed as it goes where it is gzip or zstd. Close it."""
    stream = path.open("rb")
    kind = compression(stream.read(4))
    stream.seek(0)
    if kind is None:
        return stream
    import pyarrow as pa

    stream.close()
    return cast("BinaryIO", pa.CompressedInputStream(pa.OSFile(str(path), "rb"), kind))


def head(path: Path, n_bytes: int = _HEAD_BYTES) -> tuple[bytes, str | None]:
    """The first bytes of a file, decompressed, and the compression they came in."""
    with path.open("rb") as stream:
        first = stream.read(n_bytes)
    kind = compression(first)
    if kind is None:
        return first, None
    with reading(path, f"a whole {kind} stream"), open_bytes(path) as stream:
        return _at_most(stream, n_bytes), kind


def _at_most(stream: BinaryIO, n_bytes: int) -> bytes:
    found = b""
    while len(found) < n_bytes:
        part = stream.read(n_bytes - len(found))
        if not part:
            break
        found += part
    if not found:
        raise FormatError("A compressed table needs bytes; got an empty stream.")
    return found


def line_chunks(stream: BinaryIO, name: str, chunk_bytes: int = 2**22) -> Iterator[list[bytes]]:
    """Whole lines without their ends, many at a time; a line of more than 25 MiB is refused, blank ones are kept."""
    rest: list[bytes] = []
    n_bytes = 0
    while chunk := stream.read(chunk_bytes):
        first, mark, later = chunk.partition(b"\n")
        rest.append(first)
        n_bytes += len(first)
        if n_bytes > MAX_LINE:
            raise FormatError(f"{name!r} needs lines of at most {MAX_LINE} bytes; got a longer one. Is it text?")
        if mark:
            lines = later.split(b"\n")
            last = lines.pop()
            yield [b"".join(rest), *lines]
            rest, n_bytes = [last], len(last)
    if n_bytes:
        yield [b"".join(rest)]


def stem(path: Path) -> str:
    """The name of a table after its file: without the suffix and that of the compression."""
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSED_SUFFIXES else path
    return plain.stem or path.name
