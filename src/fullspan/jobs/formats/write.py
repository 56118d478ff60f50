"""Write a file whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from pathlib import Path

from fullspan.errors import FullspanError, InputError

__all__ = ["OutputError", "check_target", "write_output"]


class OutputError(FullspanError, OSError):
    """A file cannot be written; what stood there before is untouched."""


def write_output(text: str, path: str | os.PathLike[str], *, inputs: tuple[object, ...] = ()) -> None:
    """Write `text` as UTF-8 to `path`, or to standard output when `path` is ``"-"``.

    Parameters
    ----------
    text
        What to write.
    path
        Where to. A file is written beside its place and moved there when it is whole and on the disk, so that a crash
        or a full disk leaves the old one as it was. A link is followed; a device or a pipe is written to directly.
    inputs
        Paths that were read: none of them may be overwritten.

    Raises
    ------
    InputError
        If `path` is one of `inputs`, or a directory.
    OutputError
        If the file cannot be written.
    """
    if os.fspath(path) == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    target = Path(os.path.realpath(path))
    check_target(path, inputs)
    try:
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            target.write_bytes(text.encode("utf-8", "backslashreplace"))
        else:
            _replace(target, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise OutputError(
            f"Writing a report needs a place that can be written; got {error.strerror or error} at {str(path)!r}. "
            "A file that stood there before is untouched."
        ) from error


def check_target(path: str | os.PathLike[str], inputs: tuple[object, ...] = ()) -> None:
    """Refuse, before any work, a path that must not be written."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"--out needs the path of a file; got the directory {str(path)!r}.")
    if not Path(os.path.realpath(path)).parent.is_dir():
        raise InputError(f"--out needs a directory that exists; got {str(path)!r}. Create it first.")
    for each in inputs:
        if isinstance(each, (str, os.PathLike)) and _same(target, Path(each)):
            raise InputError(f"--out needs a path other than its input; got {str(path)!r} for both.")


def _same(one: Path, other: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return one.exists() and other.exists() and one.samefile(other)
    return False


def _replace(target: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(_mode(target))
        Path(name).replace(target)
    except BaseException:  # also Ctrl-C leaves no temporary file behind
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    _sync_directory(target.parent)


def _mode(target: Path) -> int:
    """The mode of the file that is replaced, or what the process gives new files."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_directory(directory: Path) -> None:
    """Make the new name last as well, where the system lets a directory be synced."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
