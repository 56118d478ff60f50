"""A run in a few words and numbers: how it ended, how far it came, and each curve as its ends and its best."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, NamedTuple

from fullspan.jobs.formats import words
from fullspan.report.run_content import Content, Series, value_of
from fullspan.store.records import Point

__all__ = ["Status", "headlines_of", "lasted", "plain_summary", "run_facts", "status_of", "summary_of"]


class Status(NamedTuple):
    """How a run ended: the word of the store, one sentence, and how grave it is."""

    word: str
    said: str
    grade: str


def status_of(run: Content) -> Status:
    """How a run ended, or that it did not."""
    last = next(reversed(run.moments), None)
    where = f"step {last.step:,}" + ("" if last.epoch is None else f" (epoch {last.epoch:.4g})") if last else ""
    reached = f"the last reading is at {where}" if where else "nothing was read"
    sentences = {
        "finished": ("Finished.", "ok"),
        "stopped": (f"Stopped early: {reached}.", "warn"),
        "failed": (f"Failed with an error: {reached}.", "fail"),
        "running": (f"Still running when this page was made: {reached}.", "note"),
        "died": (f"Died before it finished: {reached}. What was recorded until then is complete.", "fail"),
    }
    said, grade = sentences.get(run.status, (f"Status {words.clean(run.status)}: {reached}.", "note"))
    return Status(run.status, said, grade)


def lasted(seconds: float) -> str:
    """``12.3 s``, ``4 min 12 s``, ``2 h 5 min``."""
    if seconds < 60:
        return f"{words.number(float(f'{seconds:.3g}'), 3)} s"
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def run_facts(run: Content) -> list[str]:
    """Tables, when the run began, and how often it was resumed."""
    facts = []
    if run.tables:
        rows = sum(int(getattr(table, "n_rows", 0) or 0) for table in run.tables.values())
        facts.append(f"{words.count(len(run.tables), 'table')}, {words.count(rows, 'row')}")
        if len(run.tables) <= 3:
            facts[-1] = ", ".join(_shape(name, table) for name, table in run.tables.items())
    began = _day(run.created)
    if began:
        facts.append(f"began {began}")
    if run.n_attempts > 1:
        facts.append(f"resumed {words.count(run.n_attempts - 1, 'time')}")
    return facts


def _shape(name: str, table: Any) -> str:
    known = table.n_rows is not None and table.dim is not None
    return words.clean(name) + (f" {table.n_rows:,} × {table.dim:,}" if known else "")


def _day(created: float) -> str:
    return dt.datetime.fromtimestamp(created, dt.UTC).strftime("%Y-%m-%d %H:%M UTC") if created > 0 else ""


def headlines_of(run: Content) -> list[dict[str, str]]:
    """The numbers on top: steps, epochs, time, losses, and what the watching cost."""
    moments = run.moments
    if not moments:
        return []
    last = moments[-1]
    shown = [{"name": "Optimizer steps", "value": f"{last.step:,}"}]
    if last.epoch is not None:
        shown.append({"name": "Epochs", "value": f"{last.epoch:.4g}"})
    walls = [at.wall for at in moments if at.wall > 0]
    if walls and max(walls) > min(walls):
        shown.append({"name": "Time watched", "value": lasted(max(walls) - min(walls))})
    own = {series.measure: series for series in run.series if not series.table}
    for name, title in (("loss", "Training loss"), ("test_loss", "Test loss")):
        points = own[name].defined if name in own else []
        if points:
            beside = f"at first {words.number(points[0].value)}" if len(points) > 1 else ""
            shown.append({"name": title, "value": words.number(points[-1].value), "beside": beside})
    cost = own["monitor_overhead"].defined if "monitor_overhead" in own else []
    if cost:
        share = 100 * float(cost[-1].value or 0.0)
        shown.append({"name": "Cost of watching", "value": f"{words.number(share, 2)}%", "beside": "of training time"})
    return shown


def summary_of(runs: Sequence[Content]) -> dict[str, Any]:
    """The curves as a table: of one run its ends and extremes; of several their ends and best, and the difference."""
    found = [{(each.table, each.measure): each for each in run.series} for run in runs]
    keys = list(dict.fromkeys(key for each in found for key in each))
    keys.sort(key=lambda key: (key[0] != "", not key[0] and not key[1].endswith("loss")))
    if len(runs) == 1:
        rows = [_alone(found[0][key], runs) for key in keys]
        head, groups, width = ["first", "last", "change", "lowest", "highest", "readings"], [], []
        hint = "Change is the last value less the first. Undefined readings are counted and left out."
    else:
        rows = [_beside(key, found, runs) for key in keys]
        head = ["last", "best"] + ["last", "best", "difference"] * (len(runs) - 1)
        groups, width = [run.name for run in runs], [2, *[3] * (len(runs) - 1)]
        hint = (
            f"Difference: last value less that of {runs[0].name}. Best: by the direction of the measure, "
            "with the step it was read at. The best last value of each row is bold."
        )
    return {"rows": rows, "head": head, "groups": groups, "width": width, "hint": hint}


def _named(key: tuple[str, str], runs: Sequence[Content]) -> dict[str, Any]:
    better = next((way for run in runs if (way := run.better(key[1]))), "")
    arrow = {"higher": "↑", "lower": "↓"}.get(better, "")
    return {"table": words.clean(key[0]), "measure": words.clean(key[1]), "better": better, "arrow": arrow}


def _cell(value: float | None, unit: str = "", signed: bool = False, **more: Any) -> dict[str, Any]:
    if value is None:
        return {"text": "–", "sort": "", **more}
    text = words.number(value) + unit
    return {"text": f"+{text}" if signed and value > 0 else text, "sort": repr(float(value)), **more}


def _alone(series: Series, runs: Sequence[Content]) -> dict[str, Any]:
    key, points = (series.table, series.measure), series.defined
    unit = "%" if runs[0].unit(series.measure) == "%" else ""
    values = [value_of(point) for point in points]
    undefined = len(series.points) - len(points)
    why = next((point.why for point in series.points if value_of(point) is None and point.why), "")
    readings = f"{len(series.points):,}" + (f", {undefined:,} undefined" if undefined else "")
    told = {"text": readings, "sort": len(series.points), "why": words.clean(why)}
    if not points:
        blank = {"text": "undefined", "sort": "", "why": words.clean(why)}
        return _named(key, runs) | {"cells": [blank] * 5 + [told]}
    first, last = values[0], values[-1]
    assert first is not None
    assert last is not None
    plain = [value for value in values if value is not None]
    cells = [_cell(first, unit), _last(series, unit), _cell(last - first, unit, signed=True)]
    return _named(key, runs) | {"cells": [*cells, _cell(min(plain), unit), _cell(max(plain), unit), told]}


def _last(series: Series, unit: str, **more: Any) -> dict[str, Any]:
    """The last value; where the last reading is undefined, that is what it says."""
    final = series.points[-1]
    if value_of(final) is None:
        return {"text": "undefined", "sort": "", "why": words.clean(final.why or ""), **more}
    return _cell(final.value, unit, **more)


def _beside(
    key: tuple[str, str], found: Sequence[dict[tuple[str, str], Series]], runs: Sequence[Content]
) -> dict[str, Any]:
    named = _named(key, runs)
    unit = "%" if runs[0].unit(key[1]) == "%" else ""
    lasts = [_final(each.get(key)) for each in found]
    winner = _best([value for value in lasts if value is not None], named["better"])
    cells: list[dict[str, Any]] = []
    for place, each in enumerate(found):
        series = each.get(key)
        if series is None:
            cells += [_cell(None)] * (2 if place == 0 else 3)
            continue
        is_best = winner is not None and lasts[place] == winner and len({*lasts}) > 1
        cells += [_last(series, unit, best=is_best), _best_cell(series, named["better"], unit)]
        if place:
            here, there = lasts[place], lasts[0]
            cells.append(_cell(None if here is None or there is None else here - there, unit, signed=True))
    return named | {"cells": cells}


def _final(series: Series | None) -> float | None:
    return value_of(series.points[-1]) if series is not None and series.points else None


def _best(values: Sequence[float], better: str) -> float | None:
    if not values or not better:
        return None
    return max(values) if better == "higher" else min(values)


def _best_cell(series: Series, better: str, unit: str) -> dict[str, Any]:
    points: list[Point] = series.defined
    if not better or not points:
        return _cell(None)
    chosen = (max if better == "higher" else min)(points, key=lambda point: value_of(point) or 0.0)
    cell = _cell(chosen.value, unit)
    return cell | {"text": f"{cell['text']} at {chosen.at.step:,}"}


def plain_summary(run: Content) -> dict[str, Any]:
    """How a run ended, and the ends and extremes of its curves, as values that JSON can hold."""
    status = status_of(run)
    last = next(reversed(run.moments), None)
    return {
        "name": run.name,
        "path": run.path,
        "status": status.word,
        "verdict": status.said,
        "attempts": run.n_attempts,
        "created": run.created,
        "step": None if last is None else last.step,
        "epoch": None if last is None else last.epoch,
        "samples": None if last is None else last.samples,
        "tables": {name: {"n_rows": each.n_rows, "dim": each.dim} for name, each in run.tables.items()},
        "curves": [_plain(series) for series in run.series],
    }


def _plain(series: Series) -> dict[str, Any]:
    points, final = series.defined, series.points[-1]
    values = [point.value for point in points if point.value is not None]
    return {
        "table": series.table,
        "measure": series.measure,
        "first": values[0] if values else None,
        "last": value_of(final),
        "why": final.why,
        "lowest": min(values, default=None),
        "highest": max(values, default=None),
        "step": final.at.step,
        "readings": len(series.points),
        "undefined": len(series.points) - len(points),
    }
