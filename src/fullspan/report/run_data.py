"""All that the page of a training run shows, as one plain object that JSON can hold."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from typing import Any

from fullspan.jobs.formats import words
from fullspan.report.run_content import Content, Series, content_of, is_full, value_of
from fullspan.report.run_pack import (
    color_of,
    floats,
    kept_positions,
    places_of,
    positions_of,
    runs_of,
    spectrum_of,
)
from fullspan.store.records import Event, MapFrames, Moment

__all__ = ["map_data", "measures_of", "run_data"]

#: Values of all curves, and codes of all heat maps, that a page may hold: past these, curves and maps are thinned.
_MOST_VALUES, _MOST_CODES = 240_000, 280_000
_MOST_POINTS, _FEWEST_POINTS = 2_000, 120
_MOST_RANKS = 64
_MOST_MARKS = 500


def run_data(run: Any, maps: Sequence[MapFrames] = ()) -> dict[str, Any]:
    """What the script of the page reads of one run.

    Parameters
    ----------
    run
        A reader of :mod:`fullspan.store.runs`, or what was read from it.
    maps
        Maps of its tables through time.

    Returns
    -------
    dict
        Values that JSON can hold, without NaN; arrays are packed as base64.
    """
    content = content_of(run)
    tables = list(dict.fromkeys([*content.tables, *(each.table for each in content.series if each.table)]))
    moments = content.moments
    axes = _Axes(moments)
    start = moments[0].wall if moments else 0.0
    most = _cap(content.series)
    return {
        "name": content.name,
        "moments": {
            "step": [at.step for at in moments],
            "epoch": [_rounded(at.epoch) for at in moments],
            "samples": [at.samples for at in moments],
            "time": [round(at.wall - start, 3) for at in moments],
        },
        "tables": [_table(content, name) for name in tables],
        "curves": [_curve(each, content, tables, axes, most) for each in content.series],
        "spectra": _spectra(content, tables, axes),
        "axes": axes.shared,
        "marks": _marks(content.events, moments, tables),
        "maps": [map_data(frames, tables) for frames in maps],
    }


class _Axes:
    """Positions of points among the moments of the run: curves that were read together share one list."""

    def __init__(self, moments: Sequence[Moment]) -> None:
        self._place = {at.step: position for position, at in enumerate(moments)}
        self._known: dict[tuple[int, ...], int] = {}
        self.shared: list[list[int]] = []

    def of(self, moments: Iterable[Moment]) -> int:
        key = tuple(self._place[at.step] for at in moments)
        if key not in self._known:
            self._known[key] = len(self.shared)
            self.shared.append(list(key))
        return self._known[key]


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(float(value), 6)


def _table(content: Content, name: str) -> dict[str, Any]:
    known = content.tables.get(name)
    return {
        "name": words.clean(name),
        "rows": int(getattr(known, "n_rows", 0) or 0),
        "dim": int(getattr(known, "dim", 0) or 0),
        "dtype": words.clean(getattr(known, "dtype", "") or ""),
    }


def _cap(series: Sequence[Series]) -> int:
    """Points that each curve may keep."""
    if sum(len(each.points) for each in series) <= _MOST_VALUES:
        return _MOST_POINTS
    return min(_MOST_POINTS, max(_FEWEST_POINTS, _MOST_VALUES // len(series)))


def _curve(series: Series, content: Content, tables: Sequence[str], axes: _Axes, most: int) -> dict[str, Any]:
    values = [value_of(point) for point in series.points]
    full = [is_full(point, content.tables.get(series.table)) for point in series.points]
    marked = [value is None or whole for value, whole in zip(values, full, strict=True)]
    kept = kept_positions(values, marked, most)
    points = [series.points[position] for position in kept]
    curve: dict[str, Any] = {
        "t": tables.index(series.table) if series.table else -1,
        "m": words.clean(series.measure),
        "x": axes.of(point.at for point in points),
        "v": floats(values[position] for position in kept),
        "f": runs_of([int(full[position]) for position in kept]),
    }
    if any(point.n_rows is not None for point in points):
        curve["n"] = runs_of([point.n_rows for point in points])
    gaps = [(place, point) for place, point in enumerate(points) if value_of(point) is None]
    if gaps:
        curve["gaps"] = [[place, words.clean(point.why or "undefined")] for place, point in gaps]
    if len(kept) < len(values):
        curve["of"] = len(values)
    return curve


def _spectra(content: Content, tables: Sequence[str], axes: _Axes) -> list[dict[str, Any]]:
    """Singular values of every table that has them, thinned in time to what a page can hold."""
    held = content.spectra
    spectra = []
    for name, some in held.items():
        ranks = min(_MOST_RANKS, max(len(values) for _, values in some))
        kept = _evenly(len(some), max(24, _MOST_CODES // (len(held) * ranks)))
        rows = [some[position] for position in kept]
        packed = spectrum_of([values for _, values in rows], _MOST_RANKS)
        spectra.append({"t": tables.index(name), "x": axes.of(at for at, _ in rows), "seen": len(some), **packed})
    return spectra


def _evenly(count: int, most: int) -> list[int]:
    if count <= most:
        return list(range(count))
    return sorted({round(place * (count - 1) / (most - 1)) for place in range(most)})


def _marks(events: Sequence[Event], moments: Sequence[Moment], tables: Sequence[str]) -> list[dict[str, Any]]:
    """Where events are marked on the curves: of very many, the first of each kind and then evenly chosen ones."""
    if not moments:
        return []
    first: dict[tuple[str, str, str], int] = {}
    for place, event in enumerate(events):
        first.setdefault((event.table, event.rule, event.level), place)
    kept = (
        sorted({*first.values(), *_evenly(len(events), _MOST_MARKS)})
        if len(events) > _MOST_MARKS
        else range(len(events))
    )
    steps = [at.step for at in moments]
    return [_mark(events[place], steps, tables) for place in kept]


def _mark(event: Event, steps: Sequence[int], tables: Sequence[str]) -> dict[str, Any]:
    return {
        "x": min(bisect.bisect_left(steps, event.at.step), len(steps) - 1),
        "t": tables.index(event.table) if event.table in tables else -1,
        "step": event.at.step,
        "level": event.level if event.level in ("note", "warn", "fail", "error") else "note",
        "text": words.clean(event.message)[:160],
    }


def map_data(frames: MapFrames, tables: Sequence[str]) -> dict[str, Any]:
    """Frames of a map, packed."""
    count, n_points = frames.positions.shape[:2]
    blank = [None] * count
    return {
        "t": tables.index(frames.table) if frames.table in tables else -1,
        "table": words.clean(frames.table),
        "method": words.clean(frames.method),
        "frames": count,
        "points": n_points,
        "steps": [int(step) for step in frames.steps],
        "epochs": blank if frames.epochs is None else [_number(value) for value in frames.epochs],
        "ids": places_of(frames.row_ids),
        "at": positions_of(frames.positions),
        "colors": [color_of(name, values) for name, values in frames.colors.items()],
        "displacement": blank if frames.displacement is None else [_number(each) for each in frames.displacement],
        "preservation": blank if frames.preservation is None else [_number(each) for each in frames.preservation],
        "notes": [words.clean(note) for note in frames.notes],
    }


def _number(value: Any) -> float | None:
    """A number to six digits; None where there is none."""
    return None if value is None or not math.isfinite(value) else float(f"{float(value):.6g}")


def measures_of(contents: Sequence[Content]) -> list[dict[str, str]]:
    """Name, title, unit and direction of every measure of the runs."""
    first: dict[str, Content] = {}
    for content in contents:
        for series in content.series:
            first.setdefault(series.measure, content)
    return [
        {
            "name": words.clean(name),
            "title": told.title(name),
            "unit": told.unit(name),
            "better": told.better(name),
            "about": told.sentence(name),
        }
        for name, told in first.items()
    ]
