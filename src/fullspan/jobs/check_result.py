"""What a check found, of tables or of a run, and the findings that both make."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fullspan.diagnose import Check, Thresholds
from fullspan.diagnose.rules import DOCS, RULES
from fullspan.diagnose.thresholds import matches
from fullspan.errors import NothingEvaluatedError
from fullspan.jobs.results import Report
from fullspan.measures import catalog
from fullspan.store.records import Finding, TableRecord

__all__ = ["CHECK_DOCS", "CheckResult", "not_evaluated", "not_judged", "outside", "refuse_no_baseline", "sorted_out"]

CHECK_DOCS = "fullspan check --help"


@dataclass(frozen=True)
class CheckResult:
    """What a check found.

    Parameters
    ----------
    report
        The report that was checked; its findings are those of the rules and of the checks together. That of a run has
        the last reading of each measure.
    failures, warnings, notes
        Findings that are not waived, by severity; a ``[[check]]`` is called ``check:MEASURE``.
    waived
        Findings under a waiver that has not expired.
    unevaluated
        What was asked for and could not be evaluated, each with the reason in its title: never a pass.
    n_evaluated
        How many checks and rules were evaluated, over all tables.
    run
        Of a run: ``name``, ``path``, ``status`` (``"finished"``, ``"stopped"``, ``"failed"``, ``"running"``,
        ``"died"``), ``attempts``, ``step`` and ``epoch`` of the last point, and ``told``, all that as one sentence;
        empty for tables.
    """

    report: Report
    failures: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    waived: tuple[Finding, ...] = ()
    unevaluated: tuple[Finding, ...] = ()
    n_evaluated: int = 0
    run: Mapping[str, Any] = field(default_factory=dict)

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
        """Plain values: ``passed``, ``exit_code``, counts, the report under its versioned schema, ``run`` of a run."""
        return {
            "passed": self.passed,
            "exit_code": self.exit_code,
            "n_evaluated": self.n_evaluated,
            "unevaluated": [{"table": each.table, "rule": each.rule, "why": each.title} for each in self.unevaluated],
            **({"run": dict(self.run)} if self.run else {}),
            "report": self.report.to_dict(),
        }


def sorted_out(
    report: Report, unevaluated: Sequence[Finding], evaluated: int, run: Mapping[str, Any] | None = None
) -> CheckResult:
    """The findings of a report by severity, with what could not be evaluated."""
    alive = [finding for finding in report.findings if finding.waived is None]
    grades = {grade: tuple(each for each in alive if each.severity == grade) for grade in ("fail", "warn", "note")}
    over = tuple(finding for finding in report.findings if finding.waived is not None)
    least, some = (grades["fail"], grades["warn"], grades["note"], over), tuple(unevaluated)
    return CheckResult(report, *least, some, evaluated, run or {})


def not_evaluated(each: Check, key: str, why: str) -> Finding:
    """A check that was asked for and has no answer."""
    where = f"line {each.line}: " if each.line else ""
    return Finding(
        rule=each.rule,
        severity="fail",
        title=f"{where}{each.measure} of {key} could not be checked: {why}",
        cause="A check that cannot be evaluated is not a pass.",
        docs=CHECK_DOCS,
        table=key,
        group=each.group,
    )


def not_judged(key: str, thresholds: Thresholds, judged: Collection[str], record: TableRecord) -> list[Finding]:
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
            title=f"line {asked[rule].line}: {rule} could not be judged on {key}: {RULES[rule].lacks(record)}",
            cause="A rule that cannot be judged is not a pass.",
            docs=f"{DOCS} {rule}",
            table=key,
        )
        for rule in asked
        if rule not in judged and thresholds.limits(rule, key) is not None
    ]


def outside(each: Check, key: str, title: str, evidence: Mapping[str, Any]) -> Finding:
    """A value past a limit of a check; what is None in the evidence is left out."""
    entry = catalog.CATALOG.get(each.measure)
    return Finding(
        rule=each.rule,
        severity=each.severity,
        title=f"{title}; it has to be {each.limits}",
        evidence=({name: number for name, number in evidence.items() if number is not None},),
        cause="" if entry is None else f"{entry.title}: {entry.range}.",
        remedy="" if entry is None else f"Read what the measure tells with: fullspan measures {each.measure}",
        verify="fullspan check TABLE --rules fullspan.toml",
        docs=CHECK_DOCS,
        table=key,
        group=each.group,
    )


def refuse_no_baseline(each: Check) -> NothingEvaluatedError:
    """The error of a check relative to a baseline that nobody named."""
    return NothingEvaluatedError(
        f"A check of {each.measure} relative to a baseline needs a baseline report; got none. "
        'Add [baseline] with report = "good.json" (or run = "runs/good"), or call with --baseline.'
    )
