"""Reads the tables of a run at a moment, records what was read, and judges it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from fullspan._backend import is_torch_tensor
from fullspan._typing import Array
from fullspan.measures import catalog
from fullspan.monitor import gradients, reading
from fullspan.monitor.alerts import Alerts, Change, named, stops
from fullspan.monitor.reading import Measures, Rows
from fullspan.monitor.recorder import LOGGER, Recorder, described
from fullspan.monitor.schedule import Schedule
from fullspan.monitor.tables import Watched, fetched, problem_of
from fullspan.store.records import Event, Finding, Moment, Point, TableRecord

__all__ = ["Observer"]

_MAP = "map:pca"
#: Until a reading has been made: seconds a number of the table, and a table.
_SECONDS_A_NUMBER, _SECONDS_A_TABLE = 4e-8, 0.03
#: Entries of a snapshot are written at about this rate.
_SECONDS_A_SAVED = 4e-8
_OWN = {
    "monitor_overhead": ("Time of watching over time of training, so far", None, "lower"),
    **{name: (title, unit, better) for name, title, unit, better in gradients.GRADIENT_MEASURES},
}


class Observer:
    """The tables of one run, and all that is done with them at one moment.

    Parameters
    ----------
    tables
        What is watched.
    measures
        What is read from them.
    recorder, schedule
        Where readings go, and what counts their cost.
    alerts, on_finding, stop_on
        The rules, or None; who is told of a finding; and which findings end the training.
    snapshots
        Whether sampled rows are kept.
    writes
        Whether this process reads and writes, or only enters the callables.
    """

    def __init__(
        self,
        tables: list[Watched],
        measures: Measures,
        recorder: Recorder,
        schedule: Schedule,
        *,
        alerts: Alerts | None,
        on_finding: Callable[[Finding], object] | None,
        stop_on: frozenset[str],
        snapshots: bool,
        writes: bool,
    ) -> None:
        self.tables, self.measures, self.alerts = tables, measures, alerts
        self.stop = self.described = False
        self._recorder, self._schedule = recorder, schedule
        self._on_finding, self._stop_on = on_finding, stop_on
        self._snapshots, self._writes = snapshots, writes
        self._held: tuple[Moment, dict[str, tuple[Rows, Rows | None]]] | None = None
        self._gradients: dict[str, gradients.GradientReading] = {}
        self._shapes: dict[str, tuple[int, int]] = {}
        self._guess()

    # -- reading

    @property
    def holds(self) -> bool:
        """Whether rows were copied that have not been measured yet."""
        return self._held is not None

    def hold(self, at: Moment) -> None:
        """Copy the rows of a pulse, to be measured when the budget allows."""
        held: dict[str, tuple[Rows, Rows | None]] = {}
        for watched in self.tables:
            with self._guarded(at, "reading", watched.name):
                value = self._whole(watched, at)
                if value is not None:
                    held[watched.name] = self._rows(watched, value, snapshot=self._snapshots)
        if self._writes:
            self._held = (at, held)

    def release(self) -> None:
        """Measure the rows that are held, as of the moment when they were copied."""
        if self._held is None:
            return
        (at, held), self._held = self._held, None
        records, kept = {}, {}
        with self._schedule.reading("pulse"):
            for watched in self.tables:
                if watched.name in held:
                    rows, kept[watched.name] = held[watched.name]
                    with self._guarded(at, "reading", watched.name):
                        records[watched.name] = self._pulsed(watched, rows, at)
        self._judge(records, at)
        self._keep(kept, at)
        self._guess()

    def read(self, at: Moment, *, full: bool, snapshot: bool) -> None:
        """Read all tables now: their sampled rows, or the whole of them."""
        records: dict[str, TableRecord] = {}
        kept: dict[str, Rows | None] = {}
        with self._schedule.reading("full" if full else "pulse"):
            for watched in self.tables:
                with self._guarded(at, "reading", watched.name):
                    value = self._whole(watched, at)
                    if value is None:
                        continue
                    if full:
                        records[watched.name] = self._passed(watched, value, at)
                        if snapshot:
                            kept[watched.name] = reading.rows_of(watched, value, self._map_rows(watched, value))
                    else:
                        rows, kept[watched.name] = self._rows(watched, value, snapshot=snapshot)
                        records[watched.name] = self._pulsed(watched, rows, at)
            self._add_gradients(at)
        self._judge(records, at)
        if snapshot:
            self._keep(kept, at)
        self._guess()

    def _whole(self, watched: Watched, at: Moment) -> Any:
        """The weights, or None where this process has nothing to read."""
        if not (self._writes or watched.calls):
            return None
        value = fetched(watched)
        if not self._writes:
            return None
        problem = problem_of(value)
        if problem != watched.problem:
            watched.problem = problem
            self._tell_problem(watched, at)
        if problem is None:
            self._register(watched, value, at)
            return value.detach() if is_torch_tensor(value) else value
        return None

    def _tell_problem(self, watched: Watched, at: Moment) -> None:
        if watched.problem is None:
            self._recorder.event(Event(at, "note", "", watched.name, f"{watched.name} can be read again."))
            return
        message = f"{watched.name} cannot be read: {watched.problem}"
        if watched.name not in self._shapes:
            self._recorder.now(
                at, "writing the run", watched.name, lambda to: to.table(watched.name, 0, 0, "", watched.also, message)
            )
        LOGGER.warning("%s (step %d)", message, at.step)
        self._recorder.event(Event(at, "warn", "", watched.name, message, {"unreadable": True}))

    def _register(self, watched: Watched, value: Any, at: Moment) -> None:
        shape = _shape(value)
        before = self._shapes.get(watched.name)
        if shape == before:
            return
        self._shapes[watched.name] = shape
        if before is not None:
            message = f"{watched.name} has another shape: {before} before, {shape} now; its sample was drawn anew."
            self._recorder.event(Event(at, "note", "", watched.name, message))
        dtype = reading.dtype_of(value)
        self._recorder.now(
            at, "writing the run", watched.name, lambda to: to.table(watched.name, *shape, dtype, watched.also)
        )
        self._guess()

    def _map_rows(self, watched: Watched, value: Any) -> Array:
        return watched.map_rows(_shape(value)[0])

    def _rows(self, watched: Watched, value: Any, *, snapshot: bool) -> tuple[Rows, Rows | None]:
        """The rows of a pulse, and those of a snapshot, which are the same ones without frequencies."""
        rows = reading.rows_of(watched, value, watched.rows(_shape(value)[0]))
        if not snapshot:
            return rows, None
        positions = self._map_rows(watched, value)
        same = positions is rows.positions
        return rows, rows if same else reading.rows_of(watched, value, positions)

    def _pulsed(self, watched: Watched, rows: Rows, at: Moment) -> TableRecord:
        record = named(reading.pulse(watched, rows, self.measures), watched.name)
        self._recorder.add(reading.points_of(watched.name, record, at))
        return record

    def _passed(self, watched: Watched, value: Any, at: Moment) -> TableRecord:
        record = named(reading.full_pass(watched, value, self.measures), watched.name)
        self._recorder.add(reading.points_of(watched.name, record, at))
        values = reading.singular_values(record)
        if values is not None:
            self._vector(watched, "singular_values", values, at)
        return record

    def _vector(self, watched: Watched, kind: str, values: Array, at: Moment) -> None:
        self._recorder.now(
            at, "writing the run", watched.name, lambda to: to.add_vector(watched.name, kind, at, values)
        )

    # -- snapshots and maps

    def _keep(self, rows: Mapping[str, Rows | None], at: Moment) -> None:
        """Write the rows of snapshots, and a map of each."""
        if not (self._snapshots and any(each is not None for each in rows.values())):
            return
        with self._schedule.reading("snapshot"):
            for watched in self.tables:
                some = rows.get(watched.name)
                if some is not None:
                    with self._guarded(at, "keeping rows", watched.name):
                        self._keep_one(watched, some, at)

    def _keep_one(self, watched: Watched, rows: Rows, at: Moment) -> None:
        values, labels = rows.values, rows.labels
        self._recorder.now(
            at,
            "writing the run",
            watched.name,
            lambda to: to.add_snapshot(watched.name, at, rows.positions, values, labels),
        )
        if rows.frequencies is not None:  # beside the rows they are of, for maps
            self._vector(watched, "frequencies", rows.frequencies, at)
        if values.shape[1] >= 2 and len(values) > 2 and np.isfinite(values).all():
            self._vector(watched, _MAP, self._mapped(watched, values, at), at)

    def _mapped(self, watched: Watched, values: Array, at: Moment) -> Array:
        """Principal axes, turned to lie as near as possible to the map before."""
        from fullspan.measures.projection import pca_map, procrustes_align

        drawn = pca_map(values)
        before = watched.previous_map if watched.previous_map is not None else self._stored_map(watched, at)
        if before is not None and before.shape == drawn.shape:
            drawn = procrustes_align(drawn, before)
        watched.previous_map = drawn
        return drawn.astype(np.float32)

    def _stored_map(self, watched: Watched, at: Moment) -> Array | None:
        """The last map before this moment in the store, for runs that go on."""
        writer = self._recorder.writer
        if writer is None or at.step == 0:
            return None
        from fullspan.store.reader import Run

        frames = [array for moment, array in Run.open(writer.path).vectors(watched.name, _MAP) if moment.step < at.step]
        return frames[-1].astype(np.float64) if frames else None

    # -- gradients

    def take_gradients(self, at: Moment, scale: float) -> None:
        """Read the gradients as they are before a step; they are recorded with the next reading."""
        if not self._writes:
            return
        with self._schedule.spending("pulse"):
            for watched in self.tables:
                with self._guarded(at, "reading the gradient", watched.name):
                    gradient = None if watched.calls else gradients.gradient_of(watched.get())
                    if gradient is not None and gradient.ndim == 2 and gradient.shape[0] > 0:
                        self._gradients[watched.name] = gradients.read_gradient(gradient, scale)

    def forget_gradients(self) -> None:
        """Those that were not recorded belong to a step that was not read."""
        self._gradients = {}

    def _add_gradients(self, at: Moment) -> None:
        taken, self._gradients = self._gradients, {}
        for table, each in taken.items():
            n_rows = self._shapes[table][0] if table in self._shapes else None
            for name, value in (
                ("gradient_norm", each.norm),
                ("gradient_zero_sum_ratio", each.zero_sum_ratio),
                ("touched_row_share", each.touched),
            ):
                why = each.why if value is None else None
                self._recorder.add([Point(table, name, at, value, n_rows, why)])

    # -- rules

    def _judge(self, records: Mapping[str, TableRecord], at: Moment) -> None:
        if self.alerts is None:
            return
        with self._schedule.spending("rules"):
            for record in records.values():
                with self._guarded(at, "judging", record.table):
                    for change in self.alerts.judge(record):
                        self._tell(change, at)

    def _tell(self, change: Change, at: Moment) -> None:
        event = change.event(at)
        self._recorder.event(event)
        grave = not change.gone and event.level != "note"
        LOGGER.log(30 if grave else 20, "step %d: %s: %s (%s)", at.step, event.table, event.message, event.rule)
        if change.gone:
            return
        if stops(change.finding, self._stop_on):
            self.stop = True
        if self._on_finding is not None:
            with self._guarded(at, "on_finding", event.table):
                self._on_finding(change.finding)

    # -- odds and ends

    def describe(self, at: Moment) -> None:
        """Tell the store what the measures are."""
        self.described = True
        about = {name: _about(name) for name in self.measures.names}
        self._recorder.now(at, "writing the run", "", lambda to: described(to, {**about, **_OWN}))

    @contextmanager
    def _guarded(self, at: Moment, what: str, table: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._recorder.trouble(error, at, what, table)

    def _guess(self) -> None:
        """What readings will take, until one of their kind has been made."""
        shapes = [(*self._shapes[each.name], each.size) for each in self.tables if each.name in self._shapes]
        entries = sum(min(n_rows, size) * dim for n_rows, dim, size in shapes)
        whole = sum(n_rows * dim for n_rows, dim, _ in shapes)
        self._schedule.guess("pulse", entries * _SECONDS_A_NUMBER + _SECONDS_A_TABLE * len(self.tables))
        self._schedule.guess("full", whole * _SECONDS_A_NUMBER + 3 * _SECONDS_A_TABLE * len(self.tables))
        self._schedule.guess("snapshot", entries * _SECONDS_A_SAVED + _SECONDS_A_TABLE * len(self.tables))


def _about(measure: str) -> tuple[str, str | None, str | None]:
    entry = catalog.get(measure)
    better = entry.direction if entry.direction in ("higher", "lower") else None
    return entry.title, entry.unit or None, better


def _shape(value: Any) -> tuple[int, int]:
    if callable(getattr(value, "blocks", None)):
        return int(value.n_rows), int(value.dim)
    return int(value.shape[0]), int(value.shape[1])
