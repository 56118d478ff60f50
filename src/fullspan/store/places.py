"""Where a run lies on the disk: its files, their names, and how SQLite must keep them there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from fullspan.errors import InputError, MissingFileError

__all__ = ["FILE", "LOCK", "SNAPSHOTS", "find_runs", "home_of", "is_run", "journal_for", "replace_file", "slug"]

FILE = "run.sqlite"
LOCK = "writer.lock"
SNAPSHOTS = "snapshots"

_MAGIC = b"SQLite format 3\x00"
#: File systems where the shared memory that a write-ahead log needs is not shared between machines.
_NETWORK = {
    "9p", "afs", "beegfs", "ceph", "cifs", "fuse.beegfs", "fuse.ceph", "fuse.glusterfs", "fuse.gcsfuse", "fuse.rclone",
    "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "panfs", "smb", "smb2", "smb3",
    "smbfs",
}  # fmt: skip
_MOUNTS = Path("/proc/mounts")


def home_of(path: str | os.PathLike[str]) -> Path:
    """Directory of the run that `path` names: the directory itself, or the SQLite file in it."""
    given = Path(path)
    return given.parent if given.name == FILE and not given.is_dir() else given


def is_run(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is the directory of a run, or the SQLite file in it.

    Parameters
    ----------
    path
        Any path; one that does not exist is no run.

    Returns
    -------
    bool
        True when the file is there and starts as SQLite's files do: whether it is whole shows when it is opened.

    Examples
    --------
    >>> is_run("no-such-directory")
    False
    """
    try:
        with (home_of(path) / FILE).open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):
        return False


def find_runs(root: str | os.PathLike[str]) -> list[Path]:
    """Directories of all runs at and under `root`, sorted by name; numbers in names count as numbers.

    Parameters
    ----------
    root
        A directory, or a run itself. Links to directories are not followed.

    Returns
    -------
    list of Path
        One a run, damaged ones too: what has the name of a run's file is one.

    Raises
    ------
    MissingFileError
        If `root` does not exist.
    """
    top = home_of(root)
    if not top.is_dir():
        raise MissingFileError(f"find_runs needs a directory that exists; got {os.fspath(root)!r}.")
    return sorted(_walk(top), key=lambda path: [_natural(part) for part in path.parts])


def _walk(top: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(top):
        if FILE in files:
            yield Path(folder)
            folders[:] = [each for each in folders if each != SNAPSHOTS]


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def slug(name: str) -> str:
    """A file name for any table name: what is readable of it, and a hash that keeps different names apart.

    Parameters
    ----------
    name
        Any text, also with slashes, of any length and any script.

    Examples
    --------
    >>> slug("model.user/embedding")
    'model.user-embedding-b7b56036da39'
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:40] or "table"
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def replace_file(target: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file beside its place, and move it there once it is whole and on the disk."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_directory(target.parent)


def _sync_directory(directory: Path) -> None:
    """Make the new name last as well, where the system lets a directory be synced."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def journal_for(directory: Path, mounts: Path = _MOUNTS) -> str:
    """``"wal"``, or ``"delete"`` where the file system spans machines or ``FULLSPAN_JOURNAL`` says so."""
    wanted = os.environ.get("FULLSPAN_JOURNAL", "").strip().lower()
    if wanted in ("wal", "delete"):
        return wanted
    if wanted:
        raise InputError(f"FULLSPAN_JOURNAL needs 'wal' or 'delete'; got {wanted!r}.")
    return "delete" if on_network(directory, mounts) else "wal"


def on_network(directory: Path, mounts: Path = _MOUNTS) -> bool:
    """Whether `directory` lies on a file system that other machines write as well; unknown counts as no."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return False
    place = os.path.realpath(directory)
    best, kind = "", ""
    for fields in (line.split(" ") for line in lines):
        if len(fields) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[1])
        inside = point == "/" or place == point or place.startswith(point + "/")
        if inside and len(point) >= len(best):  # of two mounts at one place the later one is seen
            best, kind = point, fields[2]
    return kind in _NETWORK
