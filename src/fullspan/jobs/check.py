"""Check tables against rules: a gate that passes, fails, or says that it could not tell."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fullspan.diagnose import Check, RulesFile, Thresholds, diagnose
from fullspan.diagnose.rules import DOCS, RULES, waived
from fullspan.diagnose.thresholds import matches
from fullspan.errors import NothingEvaluatedError, UnknownNameError, did_you_mean
from fullspan.jobs.results import Report, TableReport
from fullspan.jobs.saved import is_saved_report, load_report
from fullspan.measures import catalog
from fullspan.store.records import Finding, Reading

__all__ = ["CheckResult", "check", "propose_rules"]

_CHECK_DOCS = "fullspan check --help"


@dataclass(frozen=True)
class CheckResult:
    """What a check found.

    Parameters
    ----------
    report
        The report that was checked; its findings are those of the rules and of the checks together.
    failures, warnings, notes
        Findings that are not waived, by severity; a ``[[check]]`` is called ``check:MEASURE``.
    waived
        Findings under a waiver that has not expired.
    unevaluated
        What was asked for and could not be evaluated, each with the reason in its title: never a pass.
    n_evaluated
        How many checks and rules were evaluated, over all tables.
    """

    report: Report
    failures: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    waived: tuple[Finding, ...] = ()
    unevaluated: tuple[Finding, ...] = ()
    n_evaluated: int = 0

    @property
    def passed(self) -> bool:
        """Whether nothing failed and everything that was asked for was evaluated."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """1 when a check failed, 3 when something could not be evaluated, 0 otherwise (errors raise: 2 and 3)."""
        return 1 if self.failures else 3 if self.unevaluated else 0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them, gravest first: failures, unevaluated, warnings, notes, waived."""
        return self.failures + self.unevaluated + self.warnings + self.notes + self.waived

    def to_dict(self) -> dict[str, Any]:
        """Plain values: ``passed``, ``exit_code``, counts, and the report under its versioned schema."""
        return {
            "passed": self.passed,
            "exit_code": self.exit_code,
            "n_evaluated": self.n_evaluated,
            "unevaluated": [{"table": each.table, "rule": each.rule, "why": each.title} for each in self.unevaluated],
            "report": self.report.to_dict(),
        }


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
        What :func:`fullspan.measure` takes, a :class:`Report`, or the path of a report saved as JSON.
    rules
        Path of a ``fullspan.toml`` or a :class:`~fullspan.diagnose.RulesFile`; None applies the rules as they ship.
    baseline
        A report or the path of one, for checks relative to a baseline, in place of the ``[baseline]`` of the file.
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
    file = rules if isinstance(rules, RulesFile) else None if rules is None else RulesFile.load(rules)
    report = _report_of(source, file, options)
    if not len(report):
        raise NothingEvaluatedError("check needs a table with rows; got none. `fullspan tables FILE` lists them.")
    checks = () if file is None else file.checks
    thresholds = Thresholds.load() if file is None else file.thresholds
    if file is not None:
        file.refuse_unmatched(report.tables)
    good = _baseline_of(baseline, file, checks)
    tables, unevaluated, evaluated = {}, [], 0
    alone = len(report) == 1 and good is not None and len(good) == 1  # one table against one: names may differ
    for key, table in report.tables.items():
        before = None if good is None else next(iter(good)) if alone else good.tables.get(key)
        found = list(diagnose(replace(table.record, table=key), thresholds, today=today))
        for each in checks:
            if matches(key, each.tables):
                outcome, could = _evaluate(each, key, table, before)
                evaluated += could
                if outcome is not None and could:
                    found.append(waived(outcome, thresholds.waivers, today))
                elif outcome is not None:
                    unevaluated.append(outcome)
        judged = {rule.name for rule in RULES.values() if rule.judges(table.record)}
        evaluated += sum(thresholds.limits(rule, key) is not None for rule in judged)
        unevaluated += _not_judged(key, thresholds, judged, table)
        tables[key] = TableReport(table.record, tuple(found))
    if not evaluated and not unevaluated:
        raise NothingEvaluatedError(
            "check needs readings and rules to judge them by; got a report without readings, or rules that are all off."
        )
    return _sorted_out(Report(tables, report.provenance), tuple(unevaluated), evaluated)


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


def _baseline_of(baseline: Any, file: RulesFile | None, checks: tuple[Check, ...]) -> Report | None:
    chosen = baseline if baseline is not None or file is None else file.baseline
    if chosen is None:
        needed = next((each for each in checks if each.relative_to == "baseline"), None)
        if needed is not None:
            raise NothingEvaluatedError(
                f"A check of {needed.measure} relative to a baseline needs a baseline report; got none. "
                'Add [baseline] with report = "good.json", or call with --baseline good.json.'
            )
        return None
    return chosen if isinstance(chosen, Report) else load_report(chosen)


def _evaluate(each: Check, key: str, table: TableReport, before: TableReport | None) -> tuple[Finding | None, bool]:
    """The finding of a check and whether it could be evaluated; no finding when it passed."""
    reading, why = _reading(each, key, table)
    if reading is None or reading.value is None:
        return _not_evaluated(each, key, why), False
    unit, why = _unit(each, key, table, reading, before)
    if unit is None:
        return _not_evaluated(each, key, why), False
    value, error = reading.value / unit, abs((reading.standard_error or 0.0) / unit)
    leeway = each.errors * error
    low = each.minimum is not None and value + leeway < each.minimum
    if reading.below_resolution and each.minimum is not None and not low:  # the value is only known to be at most this
        why = (
            f"its value of at most {reading.value:.3g} is below what {table.record.dtype} resolves, so min says nothing"
        )
        return _not_evaluated(each, key, why), False
    high = each.maximum is not None and value - leeway > each.maximum
    if not (low or high):
        return None, True
    threshold = each.minimum if low else each.maximum
    assert threshold is not None
    return _outside(each, key, reading, value, unit, threshold), True


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


def _unit(
    each: Check, key: str, table: TableReport, reading: Reading, before: TableReport | None
) -> tuple[float | None, str]:
    """What the value is divided by, or why there is no such number."""
    if each.relative_to == "absolute":
        return 1.0, ""
    if each.relative_to == "dim":
        return float(table.record.dim), ""
    if each.relative_to == "null":
        if reading.null is None or reading.null <= 0.0:
            kind = "no null" if reading.null is None else f"a null of {reading.null:.4g}"
            return None, f'{each.measure} has {kind}, so it cannot be relative to it: take relative_to = "absolute"'
        return reading.null, ""
    if before is None:
        return None, "the baseline report has no table of this name"
    found, _ = _reading(each, key, before)
    if found is None or found.value is None or found.value <= 0.0:
        has = "none" if found is None or found.value is None else f"{found.value:.4g}"
        return None, (
            f"a limit relative to the baseline needs {each.measure} above 0 there; the baseline report has {has}: "
            'take relative_to = "absolute"'
        )
    return found.value, ""


def _not_evaluated(each: Check, key: str, why: str) -> Finding:
    where = f"line {each.line}: " if each.line else ""
    return Finding(
        rule=each.rule,
        severity="fail",
        title=f"{where}{each.measure} of {key} could not be checked: {why}",
        cause="A check that cannot be evaluated is not a pass.",
        docs=_CHECK_DOCS,
        table=key,
        group=each.group,
    )


def _not_judged(key: str, thresholds: Thresholds, judged: set[str], table: TableReport) -> list[Finding]:
    """The rules that the file sets limits for on this table, and that lack what they read."""
    asked = {
        rule: override
        for override in thresholds.overrides
        if matches(key, override.tables)
        for rule, change in override.limits.items()
        if change is not None
    }
    return [
        Finding(
            rule=rule,
            severity="fail",
            title=f"line {asked[rule].line}: {rule} could not be judged on {key}: {RULES[rule].lacks(table.record)}",
            cause="A rule that cannot be judged is not a pass.",
            docs=f"{DOCS} {rule}",
            table=key,
        )
        for rule in asked
        if rule not in judged and thresholds.limits(rule, key) is not None
    ]


def _outside(each: Check, key: str, reading: Reading, value: float, unit: float, threshold: float) -> Finding:
    relative = {} if each.relative_to == "absolute" else {f"relative_to_{each.relative_to}": value, "unit": unit}
    evidence = {
        "measure": each.measure,
        "value": reading.value,
        "standard_error": reading.standard_error,
        "null": reading.null,
        "threshold": threshold * unit,
        **relative,
    }
    of = {"absolute": "", "null": " times its null", "dim": " times dim", "baseline": " times the baseline"}
    entry = catalog.CATALOG[each.measure]
    return Finding(
        rule=each.rule,
        severity=each.severity,
        title=f"{each.measure} is {value:.4g}{of[each.relative_to]}; it has to be {each.limits}",
        evidence=({name: number for name, number in evidence.items() if number is not None},),
        cause=f"{entry.title}: {entry.range}.",
        remedy=f"Read what the measure tells with: fullspan measures {each.measure}",
        verify="fullspan check TABLE --rules fullspan.toml",
        docs=_CHECK_DOCS,
        table=key,
        group=each.group,
    )


def _sorted_out(report: Report, unevaluated: tuple[Finding, ...], evaluated: int) -> CheckResult:
    alive = [finding for finding in report.findings if finding.waived is None]
    grades = {grade: tuple(each for each in alive if each.severity == grade) for grade in ("fail", "warn", "note")}
    over = tuple(finding for finding in report.findings if finding.waived is not None)
    return CheckResult(report, grades["fail"], grades["warn"], grades["note"], over, unevaluated, evaluated)


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
        glob = "*" if len(whole) == 1 else _literal(name)
        parts += _proposed(glob, whole.tables[name])
        parts += _proposed_waivers(glob, whole.tables[name], day + dt.timedelta(days=_WAIVED_DAYS))
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
            f"tables = {_toml(glob)}\n"
            f"measure = {_toml(measure)}\n"
            f"{side} = {float(f'{limit:.6g}')!r}\n"
            'severity = "fail"\n'
        )
    return parts


def _proposed_waivers(glob: str, table: TableReport, until: dt.date) -> list[str]:
    failing = [finding for finding in table.findings if finding.severity == "fail" and finding.waived is None]
    return [
        f"[[waive]]  # {finding.title.translate(_ONE_LINE)}\n"
        f"tables = {_toml(glob)}\n"
        f"rule = {_toml(finding.rule)}\n"
        'reason = "present in the run that these rules were proposed from: look at it before this date"\n'
        f"until = {until.isoformat()}\n"
        for finding in {each.rule: each for each in failing if not each.rule.startswith("check:")}.values()
    ]


_ONE_LINE = dict.fromkeys((*range(32), 127), " ")


def _literal(name: str) -> str:
    """A glob that matches the name and nothing else, even when it has the characters of a glob."""
    return "".join(f"[{each}]" if each in "*?[" else each for each in name)


def _toml(text: str) -> str:
    """A TOML basic string: JSON's escapes are a subset of TOML's, but for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
