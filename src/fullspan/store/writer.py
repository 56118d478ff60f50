"""The one writer of a run: every call is one transaction, acknowledged when it returns."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from fullspan.errors import InputError
from fullspan.store.alive import Lock, this_process
from fullspan.store.failures import StoreError, translated
from fullspan.store.opening import begun, opened, taken
from fullspan.store.places import FILE, SNAPSHOTS, home_of, slug
from fullspan.store.plain import as_json, packed, point_value, text, when
from fullspan.store.records import Event, Moment, Point
from fullspan.store.snapshots import checked_rows, write_rows

__all__ = ["RunWriter"]

_POINT = "INSERT OR REPLACE INTO point VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_VECTOR = """INSERT OR REPLACE INTO vector (tab, kind, step, attempt, epoch, samples, wall, dtype, shape, data)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_SNAPSHOT = "INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_EVENT = """INSERT INTO event (attempt, step, epoch, samples, wall, level, rule, tab, message, detail)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_STATUSES = ("finished", "stopped", "failed")
_LEVELS = ("note", "warn", "fail", "error")
_DIRECTIONS = (None, "higher", "lower")


class RunWriter:
    """Write a run: points, vectors, snapshots and events, each whole or not at all.

    Made by :meth:`open`. One process writes a run at a time, from any of its threads; any number read it meanwhile.
    As a context manager it ends the run as ``"finished"``, or as ``"failed"`` when an exception leaves the block.

    Parameters
    ----------
    path
        Directory of the run.
    connection, lock, attempt
        What :meth:`open` made.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with RunWriter.open(f"{folder}/mf", config={"lr": 0.01}) as writer:
    ...     writer.table("item", n_rows=1682, dim=8, dtype="float32")
    ...     writer.add([Point("item", "gini_index", Moment(step, epoch=step / 100), 0.4) for step in (100, 200)])
    >>> with RunWriter.open(f"{folder}/mf", resume_step=100) as writer:
    ...     writer.add([Point("item", "gini_index", Moment(200, epoch=2.0), 0.5)])
    >>> from fullspan.store.reader import Run
    >>> Run.open(f"{folder}/mf").curve("item", "gini_index").value
    array([0.4, 0.5])
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: Lock, attempt: int) -> None:
        self.path = path
        self.attempt = attempt
        self.ended = False
        self._connection = connection
        self._lock = lock
        self._owner = os.getpid()
        self._place = _place(path)
        self._mutex = threading.RLock()
        self._ids: dict[tuple[str, str], int] = {}
        self._resumed = attempt == 1
        self._wrote = False
        self._closed = False
        self._release = weakref.finalize(self, lock.release)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        config: Mapping[str, Any] | None = None,
        resume_step: int | None = None,
    ) -> RunWriter:
        """Make the run at `path`, or go on with the one that is there as a new attempt.

        Parameters
        ----------
        path
            Directory of the run; made when it is missing.
        name
            What to call it; by default the name of the directory.
        config
            Settings to keep with this attempt; what JSON cannot hold is kept as text.
        resume_step
            The step of the checkpoint that training goes on from: what older attempts wrote later is superseded.
            By default that is the step of the first point; -1 supersedes all.

        Raises
        ------
        RunBusyError
            If another process, or another writer in this one, is writing it.
        StoreError
            If the directory cannot be written.
        FormatError
            If the file there is damaged, of a newer version, or not a run.

        Notes
        -----
        A write-ahead log with ``synchronous = NORMAL``: a process that is killed loses nothing that was acknowledged;
        a machine that loses power may lose the last commits, and never what holds them together. On network file
        systems, or with ``FULLSPAN_JOURNAL=delete``, a rollback journal, which is slower, and as safe.
        """
        home = home_of(path)
        step = None if resume_step is None else _resume_step(resume_step)
        if home.exists() and not home.is_dir():
            raise InputError(f"RunWriter.open needs a directory; got the file {os.fspath(path)!r}.")
        lock = taken(home)
        try:
            connection, journal = opened(home, lock)
            try:
                with translated(home, "RunWriter.open"):
                    attempt = begun(connection, home, name, config, journal, this_process())
                writer = cls(home, connection, lock, attempt)
                if step is not None:
                    writer.rewind(step)
            except BaseException:
                connection.close()
                raise
        except BaseException:
            lock.release()
            raise
        lock.beat()
        return writer

    def table(
        self,
        name: str,
        n_rows: int,
        dim: int,
        dtype: str,
        also: Iterable[str] = (),
        note: str | None = None,
    ) -> None:
        """Say what a table is: its whole shape, its type, and the other names of the same weights."""
        names = [text(each, "RunWriter.table") for each in also]
        with self._writing("RunWriter.table") as connection:
            connection.execute(
                "UPDATE tab SET n_rows = ?, dim = ?, dtype = ?, also = ?, note = ? WHERE id = ?",
                (int(n_rows), int(dim), str(dtype), as_json(names), note, self._id("tab", name)),
            )

    def describe(self, measure: str, title: str, unit: str | None = None, better: str | None = None) -> None:
        """Say what a measure is: its title, its unit, and whether ``"higher"`` or ``"lower"`` is better."""
        if better not in _DIRECTIONS:
            raise InputError(f"RunWriter.describe needs better='higher', 'lower' or None; got {better!r}.")
        with self._writing("RunWriter.describe") as connection:
            connection.execute(
                "UPDATE measure SET title = ?, unit = ?, better = ? WHERE id = ?",
                (title, unit, better, self._id("measure", measure)),
            )

    def add(self, points: Iterable[Point]) -> None:
        """Write points: all of them in one transaction, acknowledged when this returns.

        Parameters
        ----------
        points
            A value that is NaN or infinite is kept as None with the reason. A point of the same table, measure and
            step that this attempt wrote before is replaced.

        Raises
        ------
        InputError
            If one of them is not a point: nothing is written then.
        StoreError
            If the disk is full or the file is held: nothing is written then.
        """
        found = [(when(_checked(each).at), each) for each in points]
        if not found:
            return
        with self._writing("RunWriter.add") as connection:
            if not self._resumed:
                _resume(connection, self.attempt, min(at[0] for at, _ in found))
            connection.executemany(_POINT, [self._row(*each) for each in found])
        self._resumed = self._wrote = True

    def _row(self, at: tuple[Any, ...], point: Point) -> tuple[Any, ...]:
        value, why = point_value(point.value, point.why)
        n_rows = None if point.n_rows is None else int(point.n_rows)
        step, *clocks = at
        ids = self._id("tab", point.table), self._id("measure", point.measure)
        return *ids, step, self.attempt, *clocks, value, n_rows, why

    def add_vector(self, table: str, kind: str, at: Moment, values: Any) -> None:
        """Write an array of numbers, kept bit for bit with its type and shape, and compressed.

        Parameters
        ----------
        table
            Name of the table it belongs to.
        kind
            What it is: ``"singular_values"``, ``"dimension_mean"``, ``"map:pca"``.
        at
            The moment it belongs to.
        values
            Any shape.
        """
        dtype, shape, data = packed(values)
        step, *clocks = when(at)
        with self._writing("RunWriter.add_vector") as connection:
            row = (self._id("tab", table), text(kind, "add_vector"), step, self.attempt, *clocks, dtype, shape, data)
            connection.execute(_VECTOR, row)
        self._wrote = True

    def add_snapshot(self, table: str, at: Moment, row_ids: Any, vectors: Any, labels: Any = None) -> Path:
        """Write sampled rows to a file of their own, and enter it once it is whole and on the disk.

        Parameters
        ----------
        table
            Name of the table.
        at
            The moment the rows were copied at.
        row_ids
            Shape (n,): which rows they are.
        vectors
            Shape (n, dim).
        labels
            Shape (n,), numbers or text, or None.

        Returns
        -------
        Path
            The file.
        """
        rows = checked_rows(row_ids, vectors, labels)
        step, *clocks = when(at)
        self._check("RunWriter.add_snapshot")
        file = f"{SNAPSHOTS}/{slug(text(table, 'add_snapshot'))}/{self.attempt}-{step}.npz"
        try:
            write_rows(self.path / file, rows)
        except OSError as error:
            raise StoreError(
                f"RunWriter.add_snapshot needs a place that can be written; got {error.strerror or error} at "
                f"{str(self.path / file)!r}. What was there before is untouched."
            ) from error
        with self._writing("RunWriter.add_snapshot") as connection:
            shape = (int(rows.vectors.shape[0]), int(rows.vectors.shape[1]))
            connection.execute(_SNAPSHOT, (self._id("tab", table), step, self.attempt, *clocks, *shape, file))
        self._wrote = True
        return self.path / file

    def add_event(self, event: Event) -> None:
        """Write what happened."""
        if event.level not in _LEVELS:
            raise InputError(f"RunWriter.add_event needs one of the levels {', '.join(_LEVELS)}; got {event.level!r}.")
        words = [text(each, "RunWriter.add_event") for each in (event.level, event.rule, event.table, event.message)]
        row = (self.attempt, *when(event.at), *words, as_json(event.detail))
        with self._writing("RunWriter.add_event") as connection:
            connection.execute(_EVENT, row)

    def rewind(self, step: int) -> None:
        """Go on after `step`: whatever was written of later steps is superseded, and kept for whoever asks.

        Parameters
        ----------
        step
            The step of the checkpoint that training goes on from; -1 for a start from scratch.

        Notes
        -----
        Points, vectors, snapshots and events are meant alike. When this attempt has written already, another one
        begins; until it writes, a further call replaces this one.
        """
        step = _resume_step(step)
        with self._writing("RunWriter.rewind") as connection:
            attempt = self.attempt
            if self._wrote:
                connection.execute("UPDATE attempt SET ended = ? WHERE id = ?", (time.time(), attempt))
                attempt = _another(connection, attempt)
            _resume(connection, attempt, step)
        self.attempt, self._resumed, self._wrote = attempt, True, False

    def beat(self) -> None:
        """Tell readers on other machines that this process lives; costs nothing when it was told just now."""
        self._lock.beat()

    def finish(self, status: str = "finished") -> None:
        """Say how the run ended: ``"finished"``, ``"stopped"`` or ``"failed"``. The last word counts."""
        if status not in _STATUSES:
            raise InputError(f"RunWriter.finish needs one of {', '.join(_STATUSES)}; got {status!r}.")
        with self._writing("RunWriter.finish") as connection:
            connection.execute(
                "UPDATE attempt SET ended = ?, status = ? WHERE id = ?", (time.time(), status, self.attempt)
            )
        self.ended = True

    def close(self) -> None:
        """Let go of the file; a run that nobody finished counts as stopped. Once is enough."""
        if self._closed:
            return
        if self._owner == os.getpid():
            try:
                if not self.ended and self._place == _place(self.path):
                    self.finish("stopped")
            finally:
                self._closed = True
                with self._mutex:
                    self._connection.close()
                self._release()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._closed and not self.ended:
                self.finish("failed" if kind is not None else "finished")
        except StoreError:
            if kind is None:  # else what is under way says more than this
                raise
        finally:
            self.ended = True
            self.close()

    def _check(self, call: str) -> None:
        if self._closed:
            raise StoreError(f"{call} needs an open writer; got one that was closed. Open the run again to go on.")
        if self._owner != os.getpid():
            raise StoreError(
                f"{call} needs the process that opened the run; got a fork of it. Write from the parent process only."
            )
        if self._place != _place(self.path):  # SQLite would go on writing what nobody can ever read
            raise StoreError(
                f"{call} needs the file that was opened; got none, or another one, in {str(self.path)!r}. "
                "It was deleted or moved while it was written: open the run again."
            )

    @contextlib.contextmanager
    def _writing(self, call: str) -> Iterator[sqlite3.Connection]:
        """One transaction: what is inside happens whole or not at all."""
        self._check(call)
        connection = self._connection
        with self._mutex, translated(self.path, call):
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                self._ids.clear()
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        self._lock.beat()

    def _id(self, kind: str, name: str) -> int:
        """Number of a table or a measure, which gets one when it is new."""
        if type(name) is not str:
            text(name, "The name of a table or a measure")
        key = (kind, name)
        found = self._ids.get(key)
        if found is None:
            text(name, "The name of a table or a measure")
            self._connection.execute(f"INSERT OR IGNORE INTO {kind} (name) VALUES (?)", (name,))  # noqa: S608
            [found] = self._connection.execute(f"SELECT id FROM {kind} WHERE name = ?", (name,)).fetchone()  # noqa: S608
            self._ids[key] = found
        return found


def _place(home: Path) -> tuple[int, int] | None:
    """Which file on the disk has the name of the run's."""
    try:
        found = (home / FILE).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _checked(point: Any) -> Point:
    if not isinstance(point, Point):
        raise InputError(f"RunWriter.add needs points; got {type(point).__name__}.")
    return point


def _resume_step(step: int) -> int:
    if not isinstance(step, int) or isinstance(step, bool) or step < -1:
        raise InputError(f"Resuming a run needs a whole step, or -1 for a start from scratch; got {step!r}.")
    return step


def _another(connection: sqlite3.Connection, attempt: int) -> int:
    """A further attempt of the same process."""
    columns = "host, boot, pid, pid_started, journal, version, config"
    made = connection.execute(
        f"INSERT INTO attempt (started, {columns}) SELECT ?, {columns} FROM attempt WHERE id = ?",  # noqa: S608
        (time.time(), attempt),
    )
    assert made.lastrowid is not None
    return made.lastrowid


def _resume(connection: sqlite3.Connection, attempt: int, step: int) -> None:
    """Enter where an attempt goes on; what older ones wrote later than any of those that follow is superseded."""
    connection.execute("UPDATE attempt SET resume_step = ? WHERE id = ?", (step, attempt))
    connection.execute(
        """UPDATE attempt SET cutoff = coalesce(
            (SELECT min(later.resume_step) FROM attempt AS later WHERE later.id > attempt.id), 9223372036854775807)"""
    )
