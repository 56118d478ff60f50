"""A run as the gate sees it: its last readings, the points of a measure where they are asked for, what happened."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fullspan.errors import NothingEvaluatedError, UndefinedMeasureError
from fullspan.measures import catalog
from fullspan.store.records import Event, Point, Reading, TableRecord, WatchedTable
from fullspan.store.runs import Run

__all__ = ["RUN", "RunPoints", "null_of"]

#: What the run itself is called among its tables: where its loss is.
RUN = "(run)"
_FROM_SAMPLE = {"sample", "neighbors", "sample_uniformity"}
_CURVES = ("singular_values", "centered_singular_values")
_STATUS = {
    "finished": "finished",
    "stopped": "was stopped",
    "failed": "ended with an error",
    "running": "is still running",
    "died": "died without a word",
}


@dataclass(frozen=True)
class RunPoints:
    """What a gate reads of one run; the points of a measure are read when they are asked for.

    Parameters
    ----------
    path, name, status, attempts
        What it is, as :class:`~fullspan.Run` says it.
    tables
        Name to table; the run itself is not among them.
    newest
        Table, with :data:`RUN` for the run itself, to measure to its newest point.
    events
        What happened, in the order it was written.
    curves
        Table to the newest vectors of a kind.
    """

    path: Path
    name: str
    status: str
    attempts: int
    tables: Mapping[str, WatchedTable]
    newest: Mapping[str, Mapping[str, Point]]
    events: Sequence[Event]
    curves: Mapping[str, Mapping[str, Any]]
    _series: dict[tuple[str, str], Sequence[Point]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> RunPoints:
        """Read the run in a directory.

        Raises
        ------
        NothingEvaluatedError
            If it has no points yet.
        """
        with Run.open(path) as run:
            tables = run.tables
            found: dict[str, dict[str, Point]] = {}
            for point in run.last_points():
                found.setdefault(point.table or RUN, {})[point.measure] = point
            curves = {table: _curves(run, table) for table in tables if table in found}
            read = cls(run.path, run.name, run.status, len(run.attempts), tables, found, run.events(), curves)
        if not found:
            raise NothingEvaluatedError(
                f"check needs a run with points; got none in {os.fspath(path)!r}, which {_STATUS[read.status]}."
            )
        return read

    @property
    def keys(self) -> list[str]:
        """The tables and, where there is something to say about it, the run itself."""
        told = self.status != "finished" or any(not event.table for event in self.events)
        return [*self.tables, *([RUN] if RUN in self.newest or told else [])]

    def series(self, key: str, measure: str) -> Sequence[Point]:
        """The points of one measure of a table by step, read once; empty where there are none."""
        if measure not in self.newest.get(key, {}):
            return ()
        if (key, measure) not in self._series:
            with Run.open(self.path) as run:
                self._series[key, measure] = run.points("" if key == RUN else key, measure)
        return self._series[key, measure]

    @property
    def scalars(self) -> list[str]:
        """Names of what the run has logged about itself."""
        return list(self.newest.get(RUN, {}))

    @property
    def last(self) -> Point:
        """The newest point of all."""
        return max((point for some in self.newest.values() for point in some.values()), key=lambda each: each.at.step)

    @property
    def facts(self) -> dict[str, Any]:
        """The run in plain values."""
        at = self.last.at
        return {
            "name": self.name,
            "path": str(self.path),
            "status": self.status,
            "attempts": self.attempts,
            "step": at.step,
            "epoch": at.epoch,
            "told": self.told,
        }

    @property
    def told(self) -> str:
        """How it stands, as one sentence."""
        at = self.last.at
        where = f"at step {at.step:,}" + ("" if at.epoch is None else f" (epoch {at.epoch:g})")
        tries = f", attempt {self.attempts}" if self.attempts > 1 else ""
        return f"The run {self.name} {_STATUS[self.status]}{tries}; its last point is {where}."

    def record(self, key: str) -> TableRecord:
        """The last reading of each measure of a table, as a record; `n_rows` are those that were read."""
        newest = self.newest.get(key, {})
        table = self.tables.get(key, WatchedTable(key))
        read = max((point.n_rows or 0 for point in newest.values()), default=0)
        dim = table.dim or 0
        return TableRecord(
            table=key,
            source=str(self.path),
            dtype=table.dtype or "",
            n_rows=read,
            dim=dim,
            passes=0,
            readings={name: _reading(key, point, dim) for name, point in newest.items()},
            profile=dict(self.curves.get(key, {})),
            notes=_notes(table, newest, read),
        )


def _curves(run: Run, table: str) -> dict[str, Any]:
    """The newest spectra, where both kinds are there: the rules read them together."""
    if not set(_CURVES) <= set(run.kinds(table)):
        return {}
    newest = {kind: run.vectors(table, kind)[-1] for kind in _CURVES}
    if len({moment.step for moment, _ in newest.values()}) > 1:
        return {}
    return {kind: np.asarray(values, dtype=np.float64).tolist() for kind, (_, values) in newest.items()}


def _reading(key: str, point: Point, dim: int) -> Reading:
    null = None if point.value is None or not dim else null_of(point.measure, point.n_rows, dim)[0]
    value, deviation = (None, None) if null is None else null
    detail = {"step": point.at.step, "epoch": point.at.epoch, "n_rows": point.n_rows}
    return Reading(
        point.measure,
        point.value,
        null=value,
        null_deviation=deviation,
        why=point.why or (None if point.value is not None else "it has no value at the last point"),
        table=key,
        detail={name: each for name, each in detail.items() if each is not None},
    )


def _notes(table: WatchedTable, newest: Mapping[str, Point], read: int) -> tuple[str, ...]:
    if not newest:
        return ("no point was read",)
    at = max(newest.values(), key=lambda point: point.at.step).at
    when = f"last read at step {at.step:,}" + ("" if at.epoch is None else f", epoch {at.epoch:g}")
    whole = table.n_rows
    rows = f", from {read:,} of {whole:,} rows" if whole and read and read < whole else ""
    return (when + rows,) + (() if table.note is None else (table.note,))


@lru_cache(maxsize=4096)
def null_of(measure: str, n_rows: int | None, dim: int | None) -> tuple[tuple[float, float] | None, str]:
    """What a Gaussian table of the shape reads, with its deviation, or why nobody knows."""
    entry = catalog.CATALOG.get(measure)
    if entry is None or entry.null is None:
        return None, f"{measure} has no null"
    if entry.scale_dependent_null or _FROM_SAMPLE & set(entry.needs):
        return None, f"the null of {measure} depends on more than the shape of the table, which a run does not keep"
    if not n_rows or not dim:
        return None, "the run does not say the shape of the table"
    try:
        null = entry.null(n_rows, dim)
    except UndefinedMeasureError as error:
        return None, str(error)
    return ((float(null.value), float(null.deviation)), "") if null is not None else (None, f"{measure} has no null")
