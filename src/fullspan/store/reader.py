"""Read a run, also while it is written: what holds, without what a later attempt has superseded."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fullspan.errors import FormatError, MissingFileError, UnknownNameError, did_you_mean
from fullspan.store.alive import is_alive, last_beat
from fullspan.store.opening import writer_of
from fullspan.store.places import FILE, LOCK, home_of
from fullspan.store.plain import unpacked
from fullspan.store.records import Attempt, Curve, Event, Moment, Point, WatchedMeasure, WatchedTable
from fullspan.store.snapshots import Snapshot
from fullspan.store.source import Source

__all__ = ["Run", "open_run"]

_POINTS = """
SELECT tab.name, measure.name, point.step, point.epoch, point.samples, point.wall, point.value, point.n_rows,
       point.why, {newest} AS attempt
FROM point CROSS JOIN attempt ON attempt.id = point.attempt JOIN tab ON tab.id = point.tab
     JOIN measure ON measure.id = point.measure
WHERE {where} {group} ORDER BY point.step, point.tab, point.measure, attempt
"""
_CURVE = """
SELECT point.step, epoch, samples, wall, value, coalesce(n_rows, 0), max(attempt)
FROM point CROSS JOIN attempt ON attempt.id = point.attempt
WHERE point.tab = ? AND point.measure = ? AND point.step <= attempt.cutoff GROUP BY point.step ORDER BY point.step
"""
_LAST = """
SELECT tab.name, measure.name, point.step, point.epoch, point.samples, point.wall, point.value, point.n_rows, point.why
FROM tab CROSS JOIN measure JOIN point ON (point.tab, point.measure, point.step, point.attempt) = (
    SELECT p.tab, p.measure, p.step, p.attempt FROM point AS p CROSS JOIN attempt ON attempt.id = p.attempt
    WHERE p.tab = tab.id AND p.measure = measure.id AND p.step <= attempt.cutoff
    ORDER BY p.step DESC, p.attempt DESC LIMIT 1)
ORDER BY tab.id, measure.id
"""
_MEASURES = """
SELECT name, title, unit, better FROM measure WHERE EXISTS (
    SELECT 1 FROM tab JOIN point ON point.tab = tab.id AND point.measure = measure.id
    WHERE tab.name = coalesce(?, tab.name))
ORDER BY id
"""
_ATTEMPTS = """
SELECT id, started, ended, resume_step, status, host, pid, version, journal, config FROM attempt ORDER BY id
"""


class Run:
    """Read a run. Each question is one consistent answer from the file, and nothing stays open between two of them.

    Made by :meth:`open`, or by :func:`open_run`. What a later attempt superseded is left out.

    Parameters
    ----------
    path
        Directory of the run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._source = Source(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Run:
        """The run in the directory `path`.

        Parameters
        ----------
        path
            The directory, or the SQLite file in it.

        Raises
        ------
        MissingFileError
            If there is no such directory, or no run in it.
        FormatError
            If the file is damaged, of a newer version, or not a run.
        """
        home = home_of(path)
        if not home.exists():
            raise MissingFileError(f"Run.open needs the directory of a run; got {os.fspath(path)!r}, which is missing.")
        if not (home / FILE).is_file():
            raise MissingFileError(
                f"Run.open needs the directory of a run; got {os.fspath(path)!r}, which holds no {FILE}. "
                "`fullspan runs FOLDER` lists the runs in a folder."
            )
        run = cls(home)
        if not run._ask("Run.open", "SELECT 1 FROM run, attempt LIMIT 1"):
            raise FormatError(f"Run.open needs a run that was begun; got an empty one in {os.fspath(path)!r}.")
        return run

    @property
    def name(self) -> str:
        """What the run is called."""
        return self._ask("Run.name", "SELECT name FROM run")[0][0]

    @property
    def created(self) -> float:
        """When it was begun, in seconds since 1970-01-01 UTC."""
        return self._ask("Run.created", "SELECT created FROM run")[0][0]

    @property
    def attempts(self) -> list[Attempt]:
        """Everyone who wrote it, the first one first."""
        return self._ask("Run.attempts", _ATTEMPTS, made=_attempt)

    @property
    def config(self) -> dict[str, Any]:
        """The settings of the newest attempt that has any."""
        return next((each.config for each in reversed(self.attempts) if each.config is not None), {})

    @property
    def status(self) -> str:
        """``"finished"``, ``"stopped"`` or ``"failed"`` as the writer said; else ``"running"`` or ``"died"``.

        A writer on this machine is looked for among its processes; one on another counts as dead five minutes after
        its last sign of life.
        """
        with self._source.connection("Run.status") as connection:
            found = writer_of(connection)
            [said] = connection.execute("SELECT status FROM attempt ORDER BY id DESC LIMIT 1").fetchone()
        if found is None:
            return said or "stopped"
        return "running" if is_alive(found[0], last_beat(self.path / LOCK)) else "died"

    @property
    def tables(self) -> dict[str, WatchedTable]:
        """Name to table, in the order of their first mention; the run itself, whose name is empty, is not one."""
        query = "SELECT name, n_rows, dim, dtype, also, note FROM tab WHERE name != '' ORDER BY id"
        return {each.name: each for each in self._ask("Run.tables", query, made=_table)}

    def measures(self, table: str | None = None) -> dict[str, WatchedMeasure]:
        """Name to measure, of one table (``""`` is the run itself) or of all, where there are points."""
        found = self._ask("Run.measures", _MEASURES, (table,), lambda row: WatchedMeasure(*row))
        return {each.name: each for each in found}

    def points(
        self, table: str | None = None, measure: str | None = None, *, all_attempts: bool = False
    ) -> list[Point]:
        """Points by step, of one table or measure or of all.

        Parameters
        ----------
        table, measure
            Names; ``""`` is the run itself. None takes all.
        all_attempts
            Also what later attempts have superseded, the older attempt first.

        Raises
        ------
        UnknownNameError
            If the run has no such table or measure.
        """
        where, values = ["1" if all_attempts else "point.step <= attempt.cutoff"], []
        with self._source.connection("Run.points") as connection:
            for kind, name in (("tab", table), ("measure", measure)):
                if name is not None:
                    where.append(f"point.{kind} = ?")
                    values.append(_number(connection, "Run.points", kind, name))
            query = _POINTS.format(
                newest="point.attempt" if all_attempts else "max(point.attempt)",
                where=" AND ".join(where),
                group="" if all_attempts else "GROUP BY point.tab, point.measure, point.step",
            )
            return [_point(row) for row in connection.execute(query, values)]

    def curve(self, table: str, measure: str) -> Curve:
        """One measure of one table over time, as arrays; points without a value are left out and counted.

        Raises
        ------
        UnknownNameError
            If the run has no such table or measure.
        """
        with self._source.connection("Run.curve") as connection:
            key = [_number(connection, "Run.curve", *each) for each in (("tab", table), ("measure", measure))]
            rows = connection.execute(_CURVE, key).fetchall()
            some = [row for row in rows if row[4] is not None]
            kinds = ("i8", "f8", "f8", "f8", "f8", "i8")
            columns = [np.array([row[at] for row in some], kind) for at, kind in enumerate(kinds)]
        return Curve(table, measure, *columns, undefined=len(rows) - len(some))

    def last_points(self) -> list[Point]:
        """The newest point of each table and measure; as fast for a long run as for a short one."""
        return self._ask("Run.last_points", _LAST, made=_point)

    def vectors(self, table: str, kind: str) -> list[tuple[Moment, np.ndarray]]:
        """The arrays of one kind, such as ``"singular_values"``, by step, with the moment each belongs to."""
        return self._newest("Run.vectors", "vector", "dtype, shape, data", "kind = ?", (table, kind), _vector)

    def kinds(self, table: str) -> list[str]:
        """The kinds of vectors that a table has."""
        query = "SELECT DISTINCT kind FROM vector JOIN tab ON tab.id = vector.tab WHERE tab.name = ? ORDER BY kind"
        return self._ask("Run.kinds", query, (table,), made=lambda row: row[0])

    def snapshots(self, table: str) -> list[Snapshot]:
        """Where the sampled rows of a table lie, by step; `Snapshot.read` reads them."""

        def made(row: Sequence[Any]) -> Snapshot:
            return Snapshot(_moment(row), self.path / row[6], row[4], row[5], row[7])

        return self._newest("Run.snapshots", "snapshot", "n_rows, dim, file", "1", (table,), made)

    def events(self, *, all_attempts: bool = False) -> list[Event]:
        """What happened, in the order it was written."""
        query = f"""SELECT step, epoch, samples, wall, level, rule, tab, message, detail
            FROM event JOIN attempt ON attempt.id = event.attempt
            WHERE {"1" if all_attempts else "step <= cutoff"} ORDER BY event.id"""  # noqa: S608
        return self._ask("Run.events", query, made=_event)

    def close(self) -> None:
        """Let go of what is kept in memory, if anything is."""
        self._source.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _ask(
        self, call: str, query: str, values: Sequence[Any] = (), made: Callable[[Sequence[Any]], Any] = tuple
    ) -> list[Any]:
        """The rows of one query, each made into what the caller gives out while the file is known to be to blame."""
        with self._source.connection(call) as connection:
            return [made(row) for row in connection.execute(query, values)]

    def _newest(
        self,
        call: str,
        kind: str,
        columns: str,
        where: str,
        values: tuple[str, ...],
        made: Callable[[Sequence[Any]], Any],
    ) -> list[Any]:
        query = f"""SELECT step, epoch, samples, wall, {columns}, max(attempt) FROM {kind}
            JOIN attempt ON attempt.id = {kind}.attempt
            WHERE tab = ? AND {where} AND step <= cutoff GROUP BY step ORDER BY step"""  # noqa: S608
        with self._source.connection(call) as connection:
            tab = _number(connection, call, "tab", values[0])
            return [made(row) for row in connection.execute(query, (tab, *values[1:]))]


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a run to read it, also while it is written.

    Parameters
    ----------
    path
        Its directory, or the SQLite file in it.

    Returns
    -------
    Run
        Nothing stays open between two questions to it.

    Raises
    ------
    MissingFileError
        If there is no run at `path`.
    FormatError
        If its file is damaged, of a newer version, or not a run.

    Examples
    --------
    >>> open_run("no-such-run")
    Traceback (most recent call last):
    ...
    fullspan.errors.MissingFileError: Run.open needs the directory of a run; got 'no-such-run', which is missing.
    """
    return Run.open(path)


def _number(connection: Any, call: str, kind: str, name: str) -> int:
    known = dict(connection.execute(f"SELECT name, id FROM {kind}"))  # noqa: S608
    if name == "" and kind == "tab":
        return known.get("", -1)  # a run of which nothing is told but its tables
    if name not in known:
        what = "table" if kind == "tab" else kind
        names = [each for each in known if each]
        hint = did_you_mean(name, names) or f" It has {', '.join(map(repr, names[:8])) or 'none'}."
        raise UnknownNameError(f"{call} needs a {what} of the run; got {name!r}.{hint}")
    return known[name]


def _moment(row: Sequence[Any]) -> Moment:
    return Moment(*row[:4])


def _point(row: Sequence[Any]) -> Point:
    return Point(row[0], row[1], Moment(*row[2:6]), *row[6:9])


def _vector(row: Sequence[Any]) -> tuple[Moment, np.ndarray]:
    return _moment(row), unpacked(*row[4:7])


def _event(row: Sequence[Any]) -> Event:
    return Event(_moment(row), *row[4:8], detail=json.loads(row[8]))


def _table(row: Sequence[Any]) -> WatchedTable:
    return WatchedTable(*row[:4], also=tuple(json.loads(row[4])), note=row[5])


def _attempt(row: Sequence[Any]) -> Attempt:
    return Attempt(*row[:9], config=None if row[9] is None else json.loads(row[9]))
