"""The tables of a run's SQLite file, and how a file of an older version becomes one of the newest."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from fullspan.errors import FormatError

__all__ = ["APPLICATION_ID", "MIGRATIONS", "NEVER", "TIMEOUT", "check_version", "migrate"]

#: ``PRAGMA application_id`` of a run: "fspn" in ASCII.
APPLICATION_ID = 0x6673706E
#: Cutoff of an attempt that no later one has superseded.
NEVER = 2**63 - 1
#: Seconds to wait for another process that holds the file.
TIMEOUT = 30.0

_FIRST = (
    "CREATE TABLE run (id INTEGER PRIMARY KEY CHECK (id = 1), name TEXT NOT NULL, created REAL NOT NULL)",
    f"""CREATE TABLE attempt (
        id INTEGER PRIMARY KEY, started REAL NOT NULL, ended REAL, resume_step INTEGER,
        cutoff INTEGER NOT NULL DEFAULT {NEVER}, status TEXT, host TEXT NOT NULL, boot TEXT, pid INTEGER NOT NULL,
        pid_started TEXT, journal TEXT NOT NULL, version TEXT NOT NULL, config TEXT)""",
    """CREATE TABLE tab (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, n_rows INTEGER, dim INTEGER, dtype TEXT,
        also TEXT NOT NULL DEFAULT '[]', note TEXT)""",
    "CREATE TABLE measure (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, title TEXT, unit TEXT, better TEXT)",
    """CREATE TABLE point (
        tab INTEGER NOT NULL, measure INTEGER NOT NULL, step INTEGER NOT NULL, attempt INTEGER NOT NULL,
        epoch REAL, samples INTEGER, wall REAL NOT NULL, value REAL, n_rows INTEGER, why TEXT,
        PRIMARY KEY (tab, measure, step, attempt)) WITHOUT ROWID""",
    """CREATE TABLE vector (
        id INTEGER PRIMARY KEY, tab INTEGER NOT NULL, kind TEXT NOT NULL, step INTEGER NOT NULL,
        attempt INTEGER NOT NULL, epoch REAL, samples INTEGER, wall REAL NOT NULL, dtype TEXT NOT NULL,
        shape TEXT NOT NULL, data BLOB NOT NULL, UNIQUE (tab, kind, step, attempt))""",
    """CREATE TABLE snapshot (
        tab INTEGER NOT NULL, step INTEGER NOT NULL, attempt INTEGER NOT NULL, epoch REAL, samples INTEGER,
        wall REAL NOT NULL, n_rows INTEGER NOT NULL, dim INTEGER NOT NULL, file TEXT NOT NULL,
        PRIMARY KEY (tab, step, attempt)) WITHOUT ROWID""",
    """CREATE TABLE event (
        id INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, step INTEGER NOT NULL, epoch REAL, samples INTEGER,
        wall REAL NOT NULL, level TEXT NOT NULL, rule TEXT NOT NULL, tab TEXT NOT NULL, message TEXT NOT NULL,
        detail TEXT NOT NULL)""",
    # For whoever opens the file with another program: what holds, without what was superseded.
    """CREATE VIEW latest AS
        SELECT tab.name AS "table", measure.name AS measure, point.step, max(point.attempt) AS attempt, point.epoch,
               point.samples, point.wall, point.value, point.n_rows, point.why
        FROM point JOIN attempt ON attempt.id = point.attempt JOIN tab ON tab.id = point.tab
             JOIN measure ON measure.id = point.measure
        WHERE point.step <= attempt.cutoff GROUP BY point.tab, point.measure, point.step""",
)
#: The statements that lead from each version of the file to the next; the newest version is their number.
MIGRATIONS: tuple[Sequence[str], ...] = (_FIRST,)


def migrate(connection: sqlite3.Connection, path: Path) -> int:
    """Bring the file to the newest version, whole or not at all; gives the version it had.

    Parameters
    ----------
    connection
        In autocommit mode (``isolation_level=None``).
    path
        Directory of the run, for the error.

    Raises
    ------
    FormatError
        If the file is of a newer version than this one knows, or not a run.
    """
    found = check_version(connection, path)
    if found == len(MIGRATIONS):
        return found
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in (each for step in MIGRATIONS[found:] for each in step):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return found


def check_version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the file: 0 for an empty one, never above what is known here."""
    version, application = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id")
    )
    empty = not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    if not empty and application != APPLICATION_ID:
        raise FormatError(f"A run needs a file that fullspan wrote; got another SQLite file in {str(path)!r}.")
    if version > len(MIGRATIONS):
        raise FormatError(
            f"This fullspan needs a run of version {len(MIGRATIONS)} or older; got version {version} in {str(path)!r}. "
            "A newer fullspan wrote it: pip install --upgrade fullspan"
        )
    return 0 if empty else version
