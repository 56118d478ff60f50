"""Check a training run against rules: at its last point, at any, in a range, or against another run."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fullspan.diagnose import Check, RulesFile, Thresholds, diagnose
from fullspan.diagnose.rules import DOCS, RULES, waived
from fullspan.diagnose.thresholds import GRADES, matches, place
from fullspan.errors import InputError, NothingEvaluatedError
from fullspan.jobs.check_result import (
    CheckResult,
    not_evaluated,
    not_judged,
    outside,
    refuse_no_baseline,
    sorted_out,
)
from fullspan.jobs.results import Report, TableReport
from fullspan.jobs.run_points import RUN, RunPoints, null_of
from fullspan.jobs.saved import load_report
from fullspan.store.records import Event, Finding, Point
from fullspan.store.runs import is_run

__all__ = ["check_run"]

#: Subtracted from a value, and what it is then divided by.
_Scale = tuple[float, float]


def check_run(
    path: str | os.PathLike[str],
    rules: Any = None,
    *,
    baseline: Any = None,
    today: dt.date | None = None,
    progress: Any = None,
    **options: Any,
) -> CheckResult:
    """Check a watched training run against the rules of the package and of a ``fullspan.toml``.

    Parameters
    ----------
    path
        Directory of the run. It may still be written.
    rules
        Path of a ``fullspan.toml`` or a :class:`~fullspan.diagnose.RulesFile`; None applies the rules as they ship to
        the last readings.
    baseline
        Directory of another run, a report, or the path of one, in place of the ``[baseline]`` of the file.
    today
        The day on which waivers are judged; None takes the current one.
    progress
        Not used: a run was measured while it was written.

    Returns
    -------
    CheckResult
        Its report has the last reading of each measure, and the run itself under the name ``"(run)"``; `run` says how
        it stands.

    Raises
    ------
    InputError, FormatError, MissingFileError
        The run or the rules cannot be read (exit code 2).
    NothingEvaluatedError
        There is nothing to check: no point, a glob that matches no table, an unknown rule or measure (exit code 3).

    Notes
    -----
    Reads the newest points, and all points of the measures that are checked: about 0.1 s for 10,000 points.
    """
    if options:
        raise InputError(
            f"check of a run takes no {next(iter(options))}: a run was measured while it was written; "
            f"got {os.fspath(path)!r}."
        )
    run = RunPoints.read(path)
    file = rules if isinstance(rules, RulesFile) or rules is None else RulesFile.load(rules, run.scalars)
    thresholds = Thresholds.load() if file is None else file.thresholds
    checks = () if file is None else file.checks
    if file is not None:
        file.refuse_unmatched(run.keys)
        _refuse_untargeted(file, run)
    judge = _Judge(run, _baselines(baseline if baseline is not None or file is None else file.baseline, checks))
    reports, unevaluated, evaluated = {}, [], 0
    for key in run.keys:
        record = run.record(key)
        found, judged = _ruled(run, key, thresholds, today)
        evaluated += len(judged)
        unevaluated += [] if key == RUN else not_judged(key, thresholds, judged, record)
        for outcome, could in judge.outcomes(key, checks):
            evaluated += could
            if outcome is not None:
                (found if could else unevaluated).append(
                    waived(outcome, thresholds.waivers, today) if could else outcome
                )
        reports[key] = TableReport(record, tuple(found))
    if not evaluated and not unevaluated:
        raise NothingEvaluatedError(
            "check needs readings and rules to judge them by; got a run without readings of a table and no check."
        )
    return sorted_out(Report(reports, {"source": str(run.path)}), unevaluated, evaluated, run.facts)


def _refuse_untargeted(file: RulesFile, run: RunPoints) -> None:
    """A check of a measure of tables that matches the run alone, or the other way round, checks nothing."""
    for each in file.checks:
        if not any(True for key in run.keys if _meant(each, key, run)):
            kind = "the run itself" if each.measure in run.scalars else "a table"
            raise NothingEvaluatedError(
                f"{place(file.name, each)}: {each.measure} is of {kind}; got tables = {', '.join(each.tables)!r}, "
                f"which match none. There are: {', '.join(run.keys[:20])}."
            )


def _meant(each: Check, key: str, run: RunPoints) -> bool:
    """Whether a check is about a table: what the run logged about itself is not about its tables."""
    of_run = each.measure in run.scalars and not any(
        each.measure in measures for table, measures in run.newest.items() if table != RUN
    )
    return matches(key, each.tables) and (key == RUN) == of_run


# The rules that ship ----------------------------------------------------------------------------------------------


def _ruled(run: RunPoints, key: str, thresholds: Thresholds, today: dt.date | None) -> tuple[list[Finding], set[str]]:
    """What the rules say about the last readings of a table, what they said while it was trained; and which judged."""
    if key == RUN:
        found = [*_standing(run), *_said(run, "", set(), thresholds)]
        return [waived(each, thresholds.waivers, today) for each in found], set()
    record = run.record(key)
    whole = run.tables[key].n_rows
    sampled = whole is not None and record.n_rows < whole
    able = {rule.name for rule in RULES.values() if rule.needs and rule.judges(record)}
    found = [
        each for each in diagnose(record, thresholds, today=today) if not (sampled and each.rule == "wide-for-data")
    ]
    fired = {each.rule for each in found}
    said = [waived(each, thresholds.waivers, today) for each in _said(run, key, fired, thresholds)]
    judged = {name for name in able if thresholds.limits(name, key) is not None}
    return [*found, *said], judged | {each.rule for each in said if each.rule in RULES}


def _standing(run: RunPoints) -> Iterator[Finding]:
    """How the run ended, unless it ended well."""
    severity = {"finished": None, "stopped": "note", "running": "note", "failed": "warn", "died": "warn"}[run.status]
    if severity is not None:
        more = {"died": "Its process is gone and has not said that it was done: what is judged is what it left."}
        yield Finding(
            rule=f"run-{run.status}",
            severity=severity,
            title=run.told.rstrip("."),
            cause=more.get(run.status, ""),
            docs="check.md#runs",
            table=RUN,
        )


def _said(run: RunPoints, key: str, known: set[str], thresholds: Thresholds) -> Iterator[Finding]:
    """What the watcher said about a table: what still holds as it said it, what has passed as a note."""
    told: dict[str, list[Event]] = {}
    for event in run.events:
        if event.table == key and event.level in (*GRADES, "error"):
            told.setdefault("watcher-error" if event.level == "error" else event.rule, []).append(event)
    for rule, events in told.items():
        turned_off = rule in thresholds.rules and thresholds.limits(rule, key) is None
        if rule not in known and not turned_off:
            yield _as_finding(rule, events, key)


def _as_finding(rule: str, events: Sequence[Event], key: str) -> Finding:
    first, last = events[0], events[-1]
    times = f"{len(events)} times, last at" if last.level == "error" and len(events) > 1 else "since"
    when = f"from step {first.at.step:,} to" if last.detail.get("cleared") else times
    return Finding(
        rule=rule or "watcher",
        severity="warn" if last.level == "error" else last.level,
        title=f"{last.message.rstrip('.')} ({when} step {last.at.step:,})",
        evidence=tuple(each for each in last.detail.get("evidence", ()) if isinstance(each, dict)),
        **{part: str(last.detail.get(part, "")) for part in ("cause", "remedy", "verify")},
        docs=f"{DOCS} {rule}" if rule in RULES else "check.md#runs",
        table=key or RUN,
    )


# Checks -----------------------------------------------------------------------------------------------------------


def _baselines(default: Any, checks: Sequence[Check]) -> dict[Any, RunPoints | Report]:
    """What is compared with: that of a check by its path, the one for all others under None."""
    found: dict[Any, RunPoints | Report] = {} if default is None else {None: _baseline(default)}
    for each in checks:
        if each.compares and each.baseline is None and default is None:
            raise refuse_no_baseline(each)
        if each.baseline is not None and each.baseline not in found:
            found[each.baseline] = _baseline(each.baseline)
    return found


def _baseline(chosen: Any) -> RunPoints | Report:
    if isinstance(chosen, Report):
        return chosen
    return RunPoints.read(chosen) if is_run(chosen) else load_report(chosen)


@dataclass(frozen=True)
class _Judge:
    """A run, and what it is compared with."""

    run: RunPoints
    baselines: Mapping[Any, RunPoints | Report]

    def outcomes(self, key: str, checks: Sequence[Check]) -> Iterator[tuple[Finding | None, bool]]:
        """The finding of each check of a table, if any, and whether it could be evaluated."""
        failed: set[int] = set()  # of the conditions of one [[check]] the gravest counts
        for each in checks:
            if _meant(each, key, self.run) and each.entry not in failed:
                points, why = self._points(each, key)
                outcome, could = (not_evaluated(each, key, why), False) if why else self._judged(each, key, points)
                if outcome is not None and could:
                    failed.add(each.entry)
                yield outcome, could

    def _points(self, each: Check, key: str) -> tuple[list[Point], str]:
        """The points that a check reads, or why it cannot."""
        series = self.run.series(key, each.measure)
        if each.group is not None or each.errors:
            asked = "group" if each.group is not None else "errors"
            return [], f"{asked} needs a report; the points of a run have none"
        if not series:
            known = ", ".join(self.run.newest.get(key, {})) or "none"
            return [], f"the run has not read it (it has: {known})"
        meant = [point for point in series if each.at.covers(point.at)]
        if not meant:
            first, last = series[0].at, series[-1].at
            return [], f'no point lies in at = "{each.at}"; they go from {_moment(first)} to {_moment(last)}'
        points = [point for point in meant if point.n_rows is None or point.n_rows >= each.min_rows]
        if not points:
            most = max(point.n_rows or 0 for point in meant)
            return [], f"no point was read from min_rows = {each.min_rows:,} rows; the most are {most:,}"
        points = points[-each.window :] if each.at.clock == "last" else points
        if len(points) < each.window:
            return [], f"window = {each.window} needs as many points; it has {len(points)}"
        return points, ""

    def _judged(self, each: Check, key: str, points: Sequence[Point]) -> tuple[Finding | None, bool]:
        scale_of, why = self._scale(each, key, points)
        if scale_of is None:
            return not_evaluated(each, key, why), False
        read = []
        for point in points:
            scale, why = scale_of(point)
            if scale is None:
                return not_evaluated(each, key, why), False
            value = None if point.value is None else (point.value - scale[0]) / scale[1]
            read.append(_Read(point, scale, value, value is not None and each.outside(value)))
        bad = _in_a_row([one.outside for one in read], each.window)
        if bad:
            return _finding(each, key, [read[at] for at in bad], read), True
        missing = [one.point for one in read if one.value is None]
        if missing:
            why = f"it is undefined at {len(missing)} of {len(read)} points, first at {_moment(missing[0].at)}"
            return not_evaluated(each, key, f"{why} ({missing[0].why or 'no value'})"), False
        return None, True

    def _scale(
        self, each: Check, key: str, points: Sequence[Point]
    ) -> tuple[Callable[[Point], tuple[_Scale | None, str]] | None, str]:
        """A function of a point to what its value is relative to, or why there is none."""
        table = self.run.tables.get(key)
        dim = None if table is None else table.dim
        if each.relative_to == "absolute":
            return lambda _: ((0.0, 1.0), ""), ""
        if each.relative_to == "dim":
            return (None, "the run does not say its dim") if not dim else (lambda _: ((0.0, float(dim)), ""), "")
        if each.relative_to == "null":
            return lambda point: _relative(each, *null_of(each.measure, point.n_rows, dim)), ""
        values, why = self._before(each, key, points)
        if values is None:
            return None, why
        by_step = dict(zip((point.at.step for point in points), values, strict=True))
        return lambda point: _to_baseline(each, by_step[point.at.step]), ""

    def _before(self, each: Check, key: str, points: Sequence[Point]) -> tuple[Sequence[float] | None, str]:
        """The value of the baseline beside each point."""
        good = self.baselines[each.baseline]
        if isinstance(good, Report):
            return _of_report(good, each, key, len(points), alone=len(self.run.tables) == 1)
        name = key
        if key != RUN and len(self.run.tables) == len(good.tables) == 1:
            name = next(iter(good.tables))  # one table against one: names may differ
        series = [point for point in good.series(name, each.measure) if point.value is not None]
        if not series:
            return None, f"the baseline run {good.name} has no {each.measure} of {name}"
        values = np.array([point.value for point in series], dtype=np.float64)
        if each.at.clock == "last":
            return [float(values[-each.window :].mean())] * len(points), ""
        clock = "epoch" if all(point.at.epoch is not None for point in (*points, *series)) else "step"
        at, there = ([float(getattr(point.at, clock)) for point in some] for some in (points, series))
        return np.interp(at, there, values).tolist(), ""


def _of_report(good: Report, each: Check, key: str, count: int, *, alone: bool) -> tuple[Sequence[float] | None, str]:
    table = next(iter(good)) if alone and len(good) == 1 and key != RUN else good.tables.get(key)
    if table is None:
        return None, "the baseline report has no table of this name"
    reading = table.record.readings.get(each.measure)
    if reading is None or reading.value is None:
        return None, f"the baseline report has no {each.measure} of it"
    return [reading.value] * count, ""


def _relative(each: Check, null: tuple[float, float] | None, why: str) -> tuple[_Scale | None, str]:
    if null is None or null[0] <= 0.0:
        has = why or f"{each.measure} has a null of {0.0 if null is None else null[0]:.4g}"
        return None, f'{has}, so it cannot be relative to it: take relative_to = "absolute"'
    return (0.0, null[0]), ""


def _to_baseline(each: Check, value: float) -> tuple[_Scale | None, str]:
    if each.relative_to == "difference":
        return (value, 1.0), ""
    if value <= 0.0:
        return None, (
            f"a limit relative to the baseline needs {each.measure} above 0 there; the baseline has {value:.4g}: take "
            'a difference such as "drop > 0.02"'
        )
    return (0.0, value), ""


# What is said about it --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Read:
    """A point, its value relative to what the limits are relative to, and whether it is past one."""

    point: Point
    scale: _Scale
    value: float | None
    outside: bool


def _in_a_row(flags: Sequence[bool], window: int) -> list[int]:
    """Places of the flags that belong to at least `window` in a row."""
    places: list[int] = []
    row: list[int] = []
    for at, flag in enumerate((*flags, False)):
        if flag:
            row.append(at)
        else:
            places += row if len(row) >= window else []
            row = []
    return places


def _finding(each: Check, key: str, bad: Sequence[_Read], read: Sequence[_Read]) -> Finding:
    def beyond(one: _Read) -> float:
        assert one.value is not None
        past = [each.minimum - one.value] if each.minimum is not None else []
        return max(past + ([one.value - each.maximum] if each.maximum is not None else []))

    worst = bad[-1] if each.at.clock == "last" else max(bad, key=beyond)
    offset, unit = worst.scale
    value, point = worst.value, worst.point
    assert value is not None
    low = each.minimum is not None and value < each.minimum
    threshold = each.minimum if low else each.maximum
    assert threshold is not None
    relative = {} if each.relative_to == "absolute" else {f"relative_to_{each.relative_to}": value, "unit": unit}
    if each.relative_to == "difference":
        relative = {"baseline": offset, "difference": value}
    evidence = {
        "measure": each.measure,
        "value": point.value,
        "threshold": threshold * unit + offset,
        **relative,
        "step": point.at.step,
        "epoch": point.at.epoch,
        "points_outside": len(bad),
        "points_checked": len(read),
        "n_rows": point.n_rows,
    }
    found = outside(each, key, _title(each, value, bad, read, worst), evidence)
    return replace(found, verify="fullspan check RUN --rules fullspan.toml, after the next run.")


def _title(each: Check, value: float, bad: Sequence[_Read], read: Sequence[_Read], worst: _Read) -> str:
    at = _moment(worst.point.at)
    if each.at.clock == "last":
        before = f", as at the {each.window - 1} before" if each.window > 1 else ""
        return f"{each.measure} is {value:.4g}{each.of} at the last point, {at}{before}"
    first = f", the first at {_moment(bad[0].point.at)}" if len(bad) > 1 else ""
    return f"{each.measure} was {value:.4g}{each.of} at {at}; {len(bad)} of {len(read)} points are outside{first}"


def _moment(at: Any) -> str:
    return f"step {at.step:,}" + ("" if at.epoch is None else f" (epoch {at.epoch:g})")
