"""A part of a file as a file of its own, and the place of an uncompressed member of a zip archive."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

from fullspan.errors import FormatError

__all__ = ["Window", "stored_span"]


class Window(io.RawIOBase):
    """The bytes of `path` from `start` on, `length` of them, as a seekable read-only file."""

    def __init__(self, path: Path, start: int = 0, length: int | None = None) -> None:
        size = path.stat().st_size
        self.start, self.length = start, size - start if length is None else length
        if not 0 <= start <= start + self.length <= size:
            raise FormatError(f"{str(path)!r} needs bytes {start} to {start + self.length}; got {size} bytes.")
        self._file, self._at = path.open("rb"), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.length}[whence]
        if base + offset < 0:
            raise OSError("a seek before the start of the file")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)[: max(0, self.length - self._at)]
        self._file.seek(self.start + self._at)
        count = self._file.readinto(view)
        self._at += count
        return count

    def close(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()
        super().close()


def stored_span(window: Window, member: zipfile.ZipInfo) -> tuple[int, int]:
    """Where an uncompressed member lies in the file of the window, and how many bytes it has."""
    if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size or member.flag_bits & 1:
        raise FormatError(f"The member {member.filename[:80]!r} needs to be stored uncompressed; got a compressed one.")
    window.seek(member.header_offset)
    header = window.read(30)
    if len(header) < 30 or header[:4] != b"PK\x03\x04":
        raise FormatError(f"The member {member.filename[:80]!r} needs a local header; got other bytes. Is it damaged?")
    name_bytes, extra_bytes = struct.unpack_from("<HH", header, 26)
    begin = member.header_offset + 30 + name_bytes + extra_bytes
    if begin + member.file_size > window.length:
        raise FormatError(f"The member {member.filename[:80]!r} needs {member.file_size} bytes; got fewer.")
    return window.start + begin, member.file_size
