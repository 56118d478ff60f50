"""Check tables against rules: a gate that passes, fails, or says that it could not tell."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fullspan.diagnose import Check, RulesFile, Thresholds, diagnose
from fullspan.diagnose.rules import RULES, waived
from fullspan.diagnose.thresholds import matches
from fullspan.errors import InputError, NothingEvaluatedError, UnknownNameError, did_you_mean
from fullspan.jobs.check_result import (
    CheckResult,
    not_evaluated,
    not_judged,
    outside,
    refuse_no_baseline,
    sorted_out,
)
from fullspan.jobs.check_run import check_run
from fullspan.jobs.results import Report, TableReport
from fullspan.jobs.saved import is_saved_report, load_report
from fullspan.measures import catalog
from fullspan.store.records import Finding, Reading
from fullspan.store.runs import is_run

__all__ = ["CheckResult", "check", "propose_rules"]


def check(
    source: Any,
    rules: Any = None,
    *,
    baseline: Any = None,
    today: dt.date | None = None,
    **options: Any,
) -> CheckResult:
    """Check tables against the rules of the package and of a ``fullspan.toml``.

    Parameters
    ----------
    source
        What :func:`fullspan.measure` takes, a :class:`Report`, the path of a report saved as JSON, or the directory of
        a watched training run.
    rules
        Path of a ``fullspan.toml`` or a :class:`~fullspan.diagnose.RulesFile`; None applies the rules as they ship.
    baseline
        A report or the path of one, for checks relative to a baseline, in place of the ``[baseline]`` of the file; for
        a run, another run.
    today
        The day on which waivers are judged; None takes the current one.
    options
        Handed to :func:`fullspan.measure` (``table``, ``column``, ``frequencies``, ``progress``, …).

    Returns
    -------
    CheckResult
        ``.passed``, ``.exit_code``, ``.failures``, ``.warnings``, ``.waived``, ``.unevaluated``, ``.report``.

    Raises
    ------
    InputError, FormatError, MissingFileError
        The input or the rules cannot be read (exit code 2).
    NothingEvaluatedError
        There is nothing to check: no table, a glob that matches none, an unknown rule or measure (exit code 3).

    Examples
    --------
    >>> import numpy as np
    >>> import fullspan as fs
    >>> E = np.random.default_rng(0).normal(size=(200, 8))
    >>> fs.check(E).passed
    True
    >>> [finding.rule for finding in fs.check(E + 10).failures]
    ['mean-shift']
    """
    if isinstance(source, (str, os.PathLike)) and is_run(source):
        return check_run(source, rules, baseline=baseline, today=today, **options)
    file = rules if isinstance(rules, RulesFile) else None if rules is None else RulesFile.load(rules)
    report = _report_of(source, file, options)
    if not len(report):
        raise NothingEvaluatedError("check needs a table with rows; got none. `fullspan tables FILE` lists them.")
    checks = () if file is None else file.checks
    thresholds = Thresholds.load() if file is None else file.thresholds
    if file is not None:
        file.refuse_unmatched(report.tables)
    good = _baselines(baseline if baseline is not None or file is None else file.baseline, checks)
    tables, unevaluated, evaluated = {}, [], 0
    for key, table in report.tables.items():
        found = list(diagnose(replace(table.record, table=key), thresholds, today=today))
        failed: set[int] = set()  # of the conditions of one [[check]] the gravest counts
        for each in checks:
            if matches(key, each.tables) and each.entry not in failed:
                before = _before(good.get(each.baseline), key, len(report) == 1)
                outcome, could = _evaluate(each, key, table, before)
                evaluated += could
                if outcome is not None and could:
                    failed.add(each.entry)
                    found.append(waived(outcome, thresholds.waivers, today))
                elif outcome is not None:
                    unevaluated.append(outcome)
        judged = {rule.name for rule in RULES.values() if rule.judges(table.record)}
        evaluated += sum(thresholds.limits(rule, key) is not None for rule in judged)
        unevaluated += not_judged(key, thresholds, judged, table.record)
        tables[key] = TableReport(table.record, tuple(found))
    if not evaluated and not unevaluated:
        raise NothingEvaluatedError(
            "check needs readings and rules to judge them by; got a report without readings, or rules that are all off."
        )
    return sorted_out(Report(tables, report.provenance), unevaluated, evaluated)


def _report_of(source: Any, file: RulesFile | None, options: Mapping[str, Any]) -> Report:
    """The report to check: as it is, from its JSON, or measured now with what the checks need."""
    if isinstance(source, Report):
        return source
    if is_saved_report(source):
        return load_report(source)
    from fullspan.jobs.measure import measure

    asked = dict(options)
    if asked.get("measures") is None and file is not None:
        extra = [each.measure for each in file.checks if not catalog.CATALOG[each.measure].default]
        if extra:
            defaults = [entry.name for entry in catalog.CATALOG.values() if entry.default]
            asked |= {"measures": list(dict.fromkeys([*defaults, *extra])), "hygiene": True}
    return measure(source, **asked)


def _baselines(default: Any, checks: tuple[Check, ...]) -> dict[Any, Report]:
    """The baseline reports: that of a check by its path, the one for all others under None."""
    found: dict[Any, Report] = {} if default is None else {None: _baseline(default)}
    for each in checks:
        if each.compares and each.baseline is None and default is None:
            raise refuse_no_baseline(each)
        if each.baseline is not None and each.baseline not in found:
            found[each.baseline] = _baseline(each.baseline)
    return found


def _baseline(chosen: Any) -> Report:
    if isinstance(chosen, Report):
        return chosen
    if isinstance(chosen, (str, os.PathLike)) and is_run(chosen):
        raise InputError(
            f"A table needs a report as its baseline; got the run {os.fspath(chosen)!r}. Write one "
            "with: fullspan measure TABLE --out good.json"
        )
    return load_report(chosen)


def _before(good: Report | None, key: str, alone: bool) -> TableReport | None:
    """The table of the baseline; one table is compared with one whatever they are called."""
    if good is None:
        return None
    return next(iter(good)) if alone and len(good) == 1 else good.tables.get(key)


def _evaluate(each: Check, key: str, table: TableReport, before: TableReport | None) -> tuple[Finding | None, bool]:
    """The finding of a check and whether it could be evaluated; no finding when it passed."""
    why = _of_a_run(each, table)
    reading, why = (None, why) if why else _reading(each, key, table)
    if reading is None or reading.value is None:
        return not_evaluated(each, key, why), False
    scale, why = _scale(each, key, table, reading, before)
    if scale is None:
        return not_evaluated(each, key, why), False
    offset, unit = scale
    value, error = (reading.value - offset) / unit, abs((reading.standard_error or 0.0) / unit)
    leeway = each.errors * error
    low = each.minimum is not None and value + leeway < each.minimum
    silent, bound = _limit_it_cannot_tell(reading)
    if reading.below_resolution and getattr(each, silent) is not None and not each.outside(value, leeway):
        why = (
            f"its value of {bound} {reading.value:.3g} is below what {table.record.dtype} resolves, so "
            f"{silent.removesuffix('imum')} says nothing"
        )
        return not_evaluated(each, key, why), False
    if not each.outside(value, leeway):
        return None, True
    threshold = each.minimum if low else each.maximum
    assert threshold is not None
    return _outside(each, key, reading, value, scale, threshold), True


def _limit_it_cannot_tell(reading: Reading) -> tuple[str, str]:
    """The limit that a value below resolution could pass untruly, and how that value bounds the true one."""
    rises = reading.measure in catalog.CATALOG and catalog.CATALOG[reading.measure].direction == "lower"
    return ("maximum", "at least") if rises else ("minimum", "at most")


def _of_a_run(each: Check, table: TableReport) -> str:
    """What a check asks for that only a run has, or that this table does not have rows for."""
    if each.window > 1 or each.at.clock not in ("last", "any"):
        asked = f"window = {each.window}" if each.window > 1 else f'at = "{each.at}"'
        return f"{asked} is about the points of a run; a table is a single one"
    if table.record.n_rows < each.min_rows:
        return f"it has {table.record.n_rows:,} rows, and the check asks for min_rows = {each.min_rows}"
    return ""


def _reading(each: Check, key: str, table: TableReport) -> tuple[Reading | None, str]:
    record = table.record
    if each.group is not None and each.group not in record.groups:
        known = ", ".join(list(record.groups)[:20]) or "none; ask for them with --by"
        return None, f'no group is named "{each.group}" (there are: {known})'
    readings = record.readings if each.group is None else record.groups[each.group]
    reading = readings.get(each.measure)
    if reading is None:
        return None, _missing(each.measure)
    return reading, reading.why or f"{each.measure} is undefined on it"


def _missing(measure: str) -> str:
    needs = set(catalog.CATALOG[measure].needs)
    if {"frequency", "weighted_singular_values"} & needs:
        return f"{measure} needs frequencies of the rows: give --frequencies"
    return f"{measure} was not measured: the report leaves it out"


def _scale(
    each: Check, key: str, table: TableReport, reading: Reading, before: TableReport | None
) -> tuple[tuple[float, float] | None, str]:
    """What is subtracted from the value and what it is then divided by, or why there are no such numbers."""
    if each.relative_to == "absolute":
        return (0.0, 1.0), ""
    if each.relative_to == "dim":
        return (0.0, float(table.record.dim)), ""
    if each.relative_to == "null":
        if reading.null is None or reading.null <= 0.0:
            kind = "no null" if reading.null is None else f"a null of {reading.null:.4g}"
            return None, f'{each.measure} has {kind}, so it cannot be relative to it: take relative_to = "absolute"'
        return (0.0, reading.null), ""
    if before is None:
        return None, "the baseline report has no table of this name"
    found, _ = _reading(each, key, before)
    if found is not None and found.value is not None and each.relative_to == "difference":
        return (found.value, 1.0), ""
    if found is None or found.value is None or found.value <= 0.0:
        has = "none" if found is None or found.value is None else f"{found.value:.4g}"
        return None, (
            f"a limit relative to the baseline needs {each.measure} above 0 there; the baseline report has {has}: "
            'take relative_to = "absolute", or a difference such as "drop > 0.02"'
        )
    return (0.0, found.value), ""


def _outside(
    each: Check, key: str, reading: Reading, value: float, scale: tuple[float, float], threshold: float
) -> Finding:
    offset, unit = scale
    relative = {} if each.relative_to == "absolute" else {f"relative_to_{each.relative_to}": value, "unit": unit}
    if each.relative_to == "difference":
        relative = {"baseline": offset, "difference": value}
    evidence = {
        "measure": each.measure,
        "value": reading.value,
        "standard_error": reading.standard_error,
        "null": reading.null,
        "threshold": threshold * unit + offset,
        **relative,
    }
    return outside(each, key, f"{each.measure} is {value:.4g}{each.of}", evidence)


#: What `propose_rules` guards: measure, which side is guarded, and the least margin, relative or absolute.
_GUARDED = (
    ("information_abundance", "min", 0.2, 0.0),
    ("centered_effective_rank", "min", 0.1, 0.0),
    ("top_component_share", "max", 0.25, 0.02),
    ("average_cosine", "max", 0.2, 0.05),
    ("mean_norm", "min", 0.3, 0.0),
    ("mean_norm", "max", 0.3, 0.0),
    ("hubness_skew", "max", 0.5, 0.5),
)
_PROPOSED_ERRORS = 4.0
_WAIVED_DAYS = 90


def propose_rules(report: Any, *, tables: Iterable[str] | None = None, today: dt.date | None = None) -> str:
    """Propose a ``fullspan.toml`` from a good run: limits with room around what it read.

    Parameters
    ----------
    report
        A :class:`Report`, or the path of one saved as JSON.
    tables
        Names of the tables to guard; None takes all.
    today
        The day from which waivers count; None takes the current one.

    Returns
    -------
    str
        TOML. The run it came from passes; what fails in that run is waived for 90 days, with the reason said.

    Notes
    -----
    A limit lies four standard errors from the value, and never nearer than a margin that says what change is worth an
    alarm: 20% of the information abundance, 10% of the centered effective rank, and so on.

    Examples
    --------
    >>> import numpy as np
    >>> import fullspan as fs
    >>> report = fs.measure(np.eye(8), measures=["information_abundance"])
    >>> print("\\n".join(propose_rules(report).splitlines()[4:6]))
    measure = "information_abundance"
    min = 6.4
    """
    whole = report if isinstance(report, Report) else load_report(report)
    names = list(whole.tables) if tables is None else list(tables)
    unknown = next((name for name in names if name not in whole.tables), None)
    if unknown is not None:
        raise UnknownNameError(
            f'propose_rules needs names of tables; got "{unknown}".{did_you_mean(unknown, whole.tables)} '
            f"The report has: {', '.join(list(whole.tables)[:20])}."
        )
    day = today or dt.date.today()
    parts = [
        "# Proposed from a good run: see `fullspan check --help`. Every limit has room for four standard errors.\n"
    ]
    for name in names:
        glob = "*" if len(whole) == 1 else literal(name)
        parts += _proposed(glob, whole.tables[name])
        parts += waivers_of(glob, whole.tables[name], day)
    if len(parts) == 1:
        raise NothingEvaluatedError("propose_rules needs readings to guard; got a report without any of them.")
    return "\n".join(parts)


def _proposed(glob: str, table: TableReport) -> list[str]:
    parts = []
    for measure, side, relative, absolute in _GUARDED:
        reading = table.record.readings.get(measure)
        if reading is None or reading.value is None:
            continue
        value = reading.value
        room = max(_PROPOSED_ERRORS * (reading.standard_error or 0.0), relative * abs(value), absolute)
        limit = value - room if side == "min" else value + room
        if side == "min" and limit <= 0:
            limit = 0.5 * value
        error = "" if reading.standard_error is None else f" ± {reading.standard_error:.2g}"
        parts.append(
            f"[[check]]  # this run: {value:.6g}{error}\n"
            f"tables = {toml_of(glob)}\n"
            f"measure = {toml_of(measure)}\n"
            f"{side} = {float(f'{limit:.6g}')!r}\n"
            'severity = "fail"\n'
        )
    return parts


def waivers_of(glob: str, table: TableReport, today: dt.date) -> list[str]:
    """A ``[[waive]]`` of 90 days for each rule that fails on a table."""
    until = today + dt.timedelta(days=_WAIVED_DAYS)
    failing = [finding for finding in table.findings if finding.severity == "fail" and finding.waived is None]
    return [
        f"[[waive]]  # {finding.title.translate(_ONE_LINE)}\n"
        f"tables = {toml_of(glob)}\n"
        f"rule = {toml_of(finding.rule)}\n"
        'reason = "present in the run that these rules were proposed from: look at it before this date"\n'
        f"until = {until.isoformat()}\n"
        for finding in {each.rule: each for each in failing if not each.rule.startswith("check:")}.values()
    ]


_ONE_LINE = dict.fromkeys((*range(32), 127), " ")


def literal(name: str) -> str:
    """A glob that matches the name and nothing else, even when it has the characters of a glob."""
    return "".join(f"[{each}]" if each in "*?[" else each for each in name)


def toml_of(text: str) -> str:
    """Text as a TOML basic string: JSON's escapes are a subset of TOML's, but for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
