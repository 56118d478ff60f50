"""A run, read once: what the page is made of, also while the run is still written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from fullspan.jobs.formats import words
from fullspan.store.records import Event, Moment, Point

__all__ = ["Content", "Series", "content_of", "is_full", "value_of", "with_points"]

_HIGHER = ("accuracy", "auc", "recall", "precision", "ndcg", "map", "mrr", "hit_rate", "f1")
_TITLES = {
    "loss": "Training loss",
    "test_loss": "Test loss",
    "monitor_overhead": "Cost of watching",
    "lr": "Learning rate",
    "auc": "AUC",
    "test_auc": "Test AUC",
}


@dataclass
class Series:
    """One measure of one table through a run, in the order of its steps."""

    table: str
    measure: str
    points: list[Point] = field(default_factory=list)

    @property
    def defined(self) -> list[Point]:
        return [point for point in self.points if value_of(point) is not None]


@dataclass(frozen=True)
class Content:
    """What a run holds.

    Parameters
    ----------
    name, path, status, created, n_attempts, config
        As the store has them.
    tables
        Name to table, with ``n_rows``, ``dim`` and ``dtype``.
    about
        Name to measure, with ``title``, ``unit`` and ``better``, where the run describes it.
    series
        Every curve: the run's own first, then table by table.
    spectra
        Table to its singular values through time.
    events
        What happened, oldest first.
    """

    name: str
    path: str
    status: str
    created: float
    n_attempts: int
    config: Mapping[str, Any]
    tables: Mapping[str, Any]
    about: Mapping[str, Any]
    series: Sequence[Series]
    spectra: Mapping[str, Sequence[tuple[Moment, np.ndarray]]]
    events: Sequence[Event]

    @cached_property
    def moments(self) -> list[Moment]:
        """One moment a step, with the clocks that anybody read at it; what nobody read lies between its neighbors."""
        by_step: dict[int, Moment] = {}
        points = (point.at for series in self.series for point in series.points)
        vectors = (at for some in self.spectra.values() for at, _ in some)
        for at in (*points, *vectors):
            known = by_step.get(at.step)
            by_step[at.step] = at if known is None else _joined(known, at)
        return _filled([by_step[step] for step in sorted(by_step)])

    def title(self, measure: str) -> str:
        """What a measure is called: as the run describes it, unless that is a sentence of the catalog."""
        base, _, variant = measure.partition("|")
        if variant:
            return f"{self.title(base)} ({words.clean(variant)})"
        told = getattr(self.about.get(measure), "title", None)
        if words.entry(measure) or told in (None, "", measure) or measure == "monitor_overhead":
            told = _TITLES.get(measure) or measure.replace("_", " ")
        text = words.clean(told)
        return text[:1].upper() + text[1:]

    def sentence(self, measure: str) -> str:
        """What the catalog says of a measure in one line."""
        base = measure.partition("|")[0]
        return words.titled(base) if words.entry(base) else ""

    def unit(self, measure: str) -> str:
        measure = measure.partition("|")[0]
        told = getattr(self.about.get(measure), "unit", None)
        return words.clean(told or getattr(words.entry(measure), "unit", "") or "")

    def better(self, measure: str) -> str:
        """``"higher"``, ``"lower"`` or ``""``: which way is better."""
        measure = measure.partition("|")[0]
        told = getattr(self.about.get(measure), "better", None)
        if told in ("higher", "lower"):
            return str(told)
        arrow = words.arrow(measure)
        if arrow:
            return "higher" if arrow == "↑" else "lower"
        return _guessed(measure.lower())


def _joined(one: Moment, other: Moment) -> Moment:
    """Two moments of one step: the later of each clock, since an epoch ends after its last step."""
    if one is other or (one.epoch == other.epoch and one.samples == other.samples):
        return one
    epochs = [at.epoch for at in (one, other) if at.epoch is not None]
    samples = [at.samples for at in (one, other) if at.samples is not None]
    return Moment(one.step, max(epochs, default=None), max(samples, default=None), min(one.wall, other.wall))


def _filled(moments: list[Moment]) -> list[Moment]:
    """Epochs and samples of moments at which nobody counted them, between those at which somebody did."""
    epochs = _between(moments, [at.epoch for at in moments])
    samples = _between(moments, [at.samples for at in moments])
    return [
        Moment(at.step, epoch, None if count is None else round(count), at.wall)
        for at, epoch, count in zip(moments, epochs, samples, strict=True)
    ]


def _between(moments: list[Moment], values: Sequence[float | None]) -> Sequence[float | None]:
    """Missing values in proportion to the steps, from zero at step zero; None past the last one that is known."""
    known = [(at.step, value) for at, value in zip(moments, values, strict=True) if value is not None]
    if len(known) in (0, len(values)):
        return values
    if known[0][0] > 0:
        known.insert(0, (0, 0.0))
    steps = [step for step, _ in known]
    filled = np.interp([at.step for at in moments], steps, [value for _, value in known])
    return [
        value if value is not None else None if at.step > steps[-1] else float(guess)
        for at, value, guess in zip(moments, values, filled, strict=True)
    ]


def _guessed(name: str) -> str:
    """Which way is better, by the common names of scalars."""
    if name == "loss" or name.endswith("_loss") or name in ("perplexity", "rmse", "mae"):
        return "lower"
    return "higher" if any(name == each or name.endswith(f"_{each}") for each in _HIGHER) else ""


def content_of(run: Any) -> Content:
    """Read a run of :mod:`fullspan.store.runs` once."""
    if isinstance(run, Content):
        return run
    tables = run.tables
    read = {name: _spectra(run, name) for name in tables}
    return Content(
        name=words.clean(run.name) or "run",
        path=str(run.path),
        status=run.status,
        created=float(run.created or 0.0),
        n_attempts=len(run.attempts),
        config=run.config or {},
        tables=tables,
        about=run.measures(),
        series=_series(run.points(), ["", *tables]),
        spectra={name: some for name, some in read.items() if some},
        events=sorted(run.events(), key=lambda event: event.at.step),
    )


def with_points(content: Content, points: Sequence[Point]) -> Content:
    """The same run with more curves, such as readings of its snapshots that were made afterwards."""
    return replace(content, series=[*content.series, *_series(points, ["", *content.tables])])


def _spectra(run: Any, table: str) -> list[tuple[Moment, np.ndarray]]:
    return [(at, np.ravel(values)) for at, values in run.vectors(table, "singular_values") if np.size(values)]


def _series(points: Sequence[Point], tables: Sequence[str]) -> list[Series]:
    found: dict[tuple[str, str], Series] = {}
    for point in points:
        key = (point.table, point.measure)
        found.setdefault(key, Series(*key)).points.append(point)
    place = {name: position for position, name in enumerate(tables)}
    return sorted(found.values(), key=lambda each: place.get(each.table, len(place)))


def value_of(point: Point) -> float | None:
    """The value of a point; None where it is undefined."""
    return point.value if point.value is not None and math.isfinite(point.value) else None


def is_full(point: Point, table: Any) -> bool:
    """Whether a point was read from every row of its table."""
    n_rows = getattr(table, "n_rows", None)
    return point.n_rows is not None and n_rows is not None and point.n_rows >= n_rows
