"""Connections that only read: beside a writer, after one that was killed, and where nothing may be written."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from fullspan.errors import FormatError, FullspanError, MissingFileError
from fullspan.store.failures import said
from fullspan.store.places import FILE
from fullspan.store.schema import MIGRATIONS, TIMEOUT, check_version, migrate

__all__ = ["Source"]

_BESIDE = (FILE, f"{FILE}-wal", f"{FILE}-journal")
_TRY_OTHERWISE = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_IOERR")


class Source:
    """Where a reader gets its connections: a new one for each question, so that nothing stays open between them.

    Parameters
    ----------
    home
        Directory of the run.

    Notes
    -----
    The file is opened with ``mode=ro``. Where that cannot be, as in a read-only directory, it is read as it lies when
    no log is beside it; with a log or a journal that a killed writer left, and for files of an older version, it is
    read from a copy in memory, which is made anew when the files change.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self._copy: sqlite3.Connection | None = None
        self._seen: object = None

    @contextlib.contextmanager
    def connection(self, call: str) -> Iterator[sqlite3.Connection]:
        """A connection in autocommit mode; what goes wrong with it or its answers is an error of fullspan."""
        try:
            connection, lasting = self._connected()
            try:
                yield connection
            finally:
                if not lasting:
                    connection.close()
        except FullspanError:
            raise
        except (sqlite3.Error, zlib.error, ValueError, TypeError) as error:  # of values that no writer wrote
            raise said(error, self.home, call) from error

    def close(self) -> None:
        """Forget the copy in memory, if there is one."""
        if self._copy is not None:
            self._copy.close()
        self._copy = self._seen = None

    def _connected(self) -> tuple[sqlite3.Connection, bool]:
        if self._copy is not None and self._seen == self._signature():
            return self._copy, True
        file = self.home / FILE
        if not file.is_file():
            raise MissingFileError(f"Reading a run needs its {FILE}; got none in {str(self.home)!r}.")
        try:
            connection = self._opened("mode=ro")
        except sqlite3.Error as error:
            if not (getattr(error, "sqlite_errorname", None) or "").startswith(_TRY_OTHERWISE):
                raise
            return self._otherwise()
        return self._newest(connection)

    def _opened(self, how: str) -> sqlite3.Connection:
        uri = f"{(self.home / FILE).absolute().as_uri()}?{how}"
        connection = sqlite3.connect(uri, uri=True, timeout=TIMEOUT, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _otherwise(self) -> tuple[sqlite3.Connection, bool]:
        """Where even reading needs a right to write: as the file lies, or a copy when a log belongs to it."""
        if any(_size(self.home / name) for name in _BESIDE[1:]):
            return self._copied(), True
        return self._newest(self._opened("immutable=1"))

    def _newest(self, connection: sqlite3.Connection) -> tuple[sqlite3.Connection, bool]:
        try:
            version = check_version(connection, self.home)
            if version == 0:
                raise FormatError(f"Reading a run needs one that was begun; got an empty file in {str(self.home)!r}.")
            if version == len(MIGRATIONS):
                return connection, False
            signature = self._signature()
            memory = _memory()
            connection.backup(memory)
        except BaseException:
            connection.close()
            raise
        connection.close()
        return self._kept(memory, signature), True

    def _copied(self) -> sqlite3.Connection:
        """A copy in memory of the file with what its log or journal says."""
        signature = self._signature()
        with tempfile.TemporaryDirectory(prefix="fullspan-") as folder:
            for name in _BESIDE:
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(self.home / name, Path(folder) / name)
            with contextlib.closing(sqlite3.connect(Path(folder) / FILE, isolation_level=None)) as connection:
                [told] = connection.execute("PRAGMA quick_check(1)").fetchone()
                if told != "ok":
                    raise sqlite3.DatabaseError(f"malformed: {told}")
                memory = _memory()
                connection.backup(memory)
        return self._kept(memory, signature)

    def _kept(self, memory: sqlite3.Connection, signature: object) -> sqlite3.Connection:
        try:
            migrate(memory, self.home)
        except BaseException:
            memory.close()
            raise
        self.close()
        self._copy, self._seen = memory, signature
        return memory

    def _signature(self) -> object:
        """What changes when any of the files does."""
        return tuple(_state(self.home / name) for name in _BESIDE)


def _memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
