"""Who writes a run, whether that process still lives, and the lock that lets only one write."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import socket
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["STALE", "Lock", "Taken", "Writer", "is_alive", "last_beat", "this_process"]

#: Seconds without a sign of life after which a writer on another machine counts as dead.
STALE = 300.0
#: Seconds between signs of life.
BEAT = 5.0
_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


@dataclass(frozen=True)
class Writer:
    """The process that writes a run, so that no other one with its number is taken for it."""

    host: str
    boot: str | None
    pid: int
    pid_started: str | None


def this_process() -> Writer:
    """The identity of this process."""
    return Writer(socket.gethostname(), _boot(), os.getpid(), _started(os.getpid()))


def is_alive(writer: Writer, beat: float | None, now: float | None = None) -> bool:
    """Whether `writer` still runs: asked of the system on its own machine, else by its last sign of life.

    Parameters
    ----------
    writer
        As it entered itself.
    beat
        When it last gave a sign of life, in seconds since 1970-01-01 UTC, or None.
    now
        The time to judge at.
    """
    here = _boot()
    if writer.host == socket.gethostname() and writer.boot == here and os.name == "posix":
        return _runs(writer)
    if writer.host == socket.gethostname() and _restarted(writer.boot, here):
        return False
    return beat is not None and (time.time() if now is None else now) - beat < STALE


def _runs(writer: Writer) -> bool:
    try:
        os.kill(writer.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is there, and someone else's
    started = _started(writer.pid)
    return started != "dead" and (writer.pid_started is None or started is None or started == writer.pid_started)


def _restarted(before: str | None, now: str | None) -> bool:
    """Whether the machine has been started anew since: its processes are gone with it."""
    return before is not None and now is not None and before.partition("/")[0] != now.partition("/")[0]


@functools.cache
def _boot() -> str | None:
    """Which start of the machine this is, and which space of process numbers (containers have their own)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = Path("/proc/self/ns/pid").readlink()
    except (OSError, ValueError):
        return None
    return f"{boot}/{space}"


def _started(pid: int) -> str | None:
    """When a process was started, in ticks since the machine was; "dead" for one that only waits to be reaped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before may hold spaces
    return None if len(fields) < 20 else "dead" if fields[0] in "ZX" else fields[19]


def last_beat(lock: Path) -> float | None:
    """When the writer last gave a sign of life."""
    try:
        return lock.stat().st_mtime
    except OSError:
        return None


class Taken(Exception):  # noqa: N818  # a signal between two functions, which no user sees
    """Another process holds the lock, or this one does already."""


class Lock:
    """A lock on a file, which the system gives up when the process ends in whatever way.

    POSIX record locks are not inherited by forked children, so that a data loader that outlives its trainer does not
    keep the run; closing any descriptor of the file gives them up, so that this process keeps a list of its own.
    """

    _held: set[tuple[int, int]] = set()  # noqa: RUF012  # of the whole process, as the locks are
    _mutex = threading.Lock()

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._mutex:
            if _identity(path) in self._held:
                raise Taken
            self._handle: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                self.certain = _lock(self._handle)
            except BaseException:
                os.close(self._handle)
                raise
            found = os.fstat(self._handle)
            self._key = found.st_dev, found.st_ino
            self._held.add(self._key)
        self._owner = os.getpid()
        self._next = 0.0

    @classmethod
    def forget(cls) -> None:
        """In a forked child: it holds none of its parent's locks."""
        cls._held.clear()
        cls._mutex = threading.Lock()

    def beat(self) -> None:
        """Give a sign of life, at most one in five seconds."""
        now = time.monotonic()
        if now >= self._next and self._handle is not None:
            self._next = now + BEAT
            with contextlib.suppress(OSError):
                os.utime(self.path)

    def release(self) -> None:
        """Give the lock up; once is enough."""
        if self._handle is None:
            return
        os.close(self._handle)
        self._handle = None
        if self._owner == os.getpid():
            self._held.discard(self._key)


def _identity(path: Path) -> tuple[int, int]:
    """Which file on the disk has a name; (0, 0) when there is none."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def _lock(handle: int) -> bool:
    """Take the lock at once or not at all; False where the file system has none."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return False
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            raise Taken from None
        raise
    return True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Lock.forget)
