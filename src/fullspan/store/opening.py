"""How a run is opened for writing: one writer, the right journal, the newest version, a new attempt."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from fullspan import __version__
from fullspan.errors import FullspanError
from fullspan.store.alive import Lock, Taken, Writer, is_alive, last_beat
from fullspan.store.failures import RunBusyError, StoreError, translated
from fullspan.store.places import FILE, LOCK, SNAPSHOTS, journal_for, on_network
from fullspan.store.plain import as_json
from fullspan.store.schema import TIMEOUT, migrate

__all__ = ["begun", "opened", "taken", "writer_of"]

_WRITER = """SELECT host, boot, pid, pid_started, started FROM attempt
    WHERE id = (SELECT max(id) FROM attempt) AND ended IS NULL"""


def taken(home: Path) -> Lock:
    """The lock of a run, whose directory is made when it is missing."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        return Lock(home / LOCK)
    except Taken:
        raise _busy(home) from None
    except OSError as error:
        raise StoreError(
            f"RunWriter.open needs a directory that can be written; got {error.strerror or error} at {str(home)!r}."
        ) from error


def opened(home: Path, lock: Lock) -> tuple[sqlite3.Connection, str]:
    """A connection to the file at its newest version, and the kind of journal it got."""
    with translated(home, "RunWriter.open"):
        connection = sqlite3.connect(home / FILE, timeout=TIMEOUT, isolation_level=None, check_same_thread=False)
        try:
            new = migrate(connection, home) == 0
            if not new and (on_network(home) or not lock.certain):
                _refuse_living(connection, home)
            wanted = journal_for(home)
            [journal] = connection.execute(f"PRAGMA journal_mode = {wanted}").fetchone()
            connection.execute(f"PRAGMA synchronous = {'NORMAL' if journal == 'wal' else 'FULL'}")
        except BaseException:
            connection.close()
            raise
    _sweep(home)
    return connection, journal


def begun(
    connection: sqlite3.Connection,
    home: Path,
    name: str | None,
    config: Mapping[str, Any] | None,
    journal: str,
    writer: Writer,
) -> int:
    """Enter the run, if it is new, and an attempt; gives the number of the attempt."""
    now = time.time()
    settings = None if config is None else as_json(config)
    who = (writer.host, writer.boot, writer.pid, writer.pid_started)
    connection.execute("BEGIN IMMEDIATE")
    try:
        title = name or Path(os.path.realpath(home)).name or "run"
        connection.execute("INSERT OR IGNORE INTO run VALUES (1, ?, ?)", (title, now))
        if name is not None:
            connection.execute("UPDATE run SET name = ?", (name,))
        made = connection.execute(
            """INSERT INTO attempt (started, host, boot, pid, pid_started, journal, version, config)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
            (now, *who, journal, __version__, settings),
        )
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    assert made.lastrowid is not None
    return made.lastrowid


def writer_of(connection: sqlite3.Connection) -> tuple[Writer, float] | None:
    """The process that has the last attempt open, and since when."""
    row = connection.execute(_WRITER).fetchone()
    return None if row is None else (Writer(*row[:4]), row[4])


def _refuse_living(connection: sqlite3.Connection, home: Path) -> None:
    """Where locks cannot be trusted, what the writer entered about itself decides."""
    found = writer_of(connection)
    mine = found is not None and found[0].pid == os.getpid() and is_alive(found[0], None)
    if found is not None and not mine and is_alive(found[0], last_beat(home / LOCK)):
        raise _busy(home, found)


def _busy(home: Path, found: tuple[Writer, float] | None = None) -> FullspanError:
    if found is None:
        with contextlib.suppress(sqlite3.Error):
            connection = sqlite3.connect(f"{(home / FILE).absolute().as_uri()}?mode=ro", uri=True, timeout=1)
            with contextlib.closing(connection):
                found = writer_of(connection)
    who = "another process"
    if found is not None:
        writer, since = found
        here = "this process" if writer.pid == os.getpid() else f"process {writer.pid} on {writer.host}"
        who = f"{here}, since {datetime.fromtimestamp(since).astimezone():%Y-%m-%d %H:%M:%S}"
    return RunBusyError(
        f"RunWriter.open needs a run that nobody else is writing; got {str(home)!r}, which is written by {who}. "
        "End or close that writer, or give another directory."
    )


def _sweep(home: Path) -> None:
    """Remove what a killed writer left half written."""
    for left in (home / SNAPSHOTS).glob("*/.*.tmp"):
        with contextlib.suppress(OSError):
            left.unlink()
