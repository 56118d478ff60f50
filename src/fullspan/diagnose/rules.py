"""The rules, by name, and what makes findings of a record."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fullspan.diagnose import row_rules, spectrum_rules
from fullspan.diagnose.facts import Facts
from fullspan.diagnose.spectrum_rules import Found
from fullspan.diagnose.thresholds import GRADES, Limits, Thresholds, Waiver
from fullspan.store.records import Finding, TableRecord

__all__ = ["DOCS", "RULES", "Rule", "diagnose", "waived"]

#: Page of the documentation with one section a rule.
DOCS = "fullspan rules"
_FEWEST_IN_GROUP = 30
_MOST_OF_GROUPS = 20


@dataclass(frozen=True)
class Rule:
    """One rule.

    Parameters
    ----------
    name
        What findings, waivers and overrides call it.
    about
        What it looks for, in one line.
    read
        Reads the facts of a table against limits and yields what it found.
    needs
        What it cannot do without: ``reading:NAME``, ``hygiene:NAME`` or ``profile:NAME`` of the record.
    silent_after
        Rules whose finding explains this one: it then adds nothing.
    in_groups
        Whether it judges the groups of a table as well, by their readings alone.
    """

    name: str
    about: str
    read: Callable[[Facts, Limits], Iterator[Found]]
    needs: tuple[str, ...] = ()
    silent_after: tuple[str, ...] = ()
    in_groups: bool = False

    @cached_property
    def reads_curves_only(self) -> bool:
        """Whether it rests on the hygiene and the profile alone: without them it has nothing to say."""
        return bool(self.needs) and not self.in_groups and not any(need.startswith("reading:") for need in self.needs)

    def judges(self, record: TableRecord) -> bool:
        """Whether the record has what the rule reads."""
        return not self.lacks(record)

    def lacks(self, record: TableRecord) -> str:
        """What the rule needs and the record does not have, in words; empty when it has all."""
        held = {
            **{f"reading:{name}": True for name in record.readings},
            **{f"hygiene:{name}": True for name in record.hygiene},
            **{f"profile:{name}": True for name in record.profile},
        }
        missing = [need.partition(":") for need in self.needs if need not in held]
        if any("frequency" in name for _, _, name in missing):
            return "it needs frequencies of the rows: give --frequencies"
        words = ", ".join(f"the {kind} {name}" for kind, _, name in missing)
        return f"it needs {words}, which the report leaves out" if words else ""


_POINT = ("complete-collapse",)
_SPECTRUM = ("profile:centered_singular_values", "profile:singular_values")
_SHAPE = ("profile:dimension_shares", "profile:dimension_quantiles", "reading:average_cosine")
_FREQUENCY = ("reading:length_frequency_correlation",)

#: In the order in which they are read and reported.
RULES: Mapping[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("non-finite", "rows with NaN or infinity", row_rules.non_finite),
        Rule("complete-collapse", "all rows in one point", spectrum_rules.complete_collapse, _SPECTRUM),
        Rule("dimensional-collapse", "rows near a subspace", spectrum_rules.dimensional_collapse, _SPECTRUM, (), True),
        Rule(
            "dominant-direction",
            "one direction with most variance",
            spectrum_rules.dominant_direction,
            _SPECTRUM,
            in_groups=True,
        ),
        Rule("mean-shift", "an offset of all rows (anisotropy)", spectrum_rules.mean_shift, _SHAPE[2:], _POINT, True),
        Rule("rogue-dimensions", "few dimensions that rule the rest", spectrum_rules.rogue_dimensions, _SHAPE, _POINT),
        Rule(
            "anisotropic-spectrum",
            "variance spread unevenly over the directions (anisotropy)",
            spectrum_rules.anisotropic_spectrum,
            _SPECTRUM[:1],
            (*_POINT, "dimensional-collapse", "dominant-direction", "rogue-dimensions"),
            in_groups=True,
        ),
        Rule("norm-tied-to-frequency", "lengths that tell the frequency", row_rules.norm_tied_to_frequency, _FREQUENCY),
        Rule("untrained-rows", "rows that training never met", row_rules.untrained_rows, ("profile:norm",), _POINT),
        Rule("dead-rows", "zero rows", row_rules.dead_rows, ("hygiene:zero_rows",), _POINT),
        Rule(
            "duplicate-rows", "rows that repeat another", row_rules.duplicate_rows, ("hygiene:duplicate_rows",), _POINT
        ),
        Rule(
            "near-duplicate-rows",
            "rows that nearly repeat another",
            row_rules.near_duplicate_rows,
            ("reading:near_duplicate_share",),
            (*_POINT, "dimensional-collapse", "dominant-direction"),
        ),
        Rule(
            "dead-columns",
            "constant or repeated columns",
            row_rules.dead_columns,
            ("hygiene:constant_columns",),
            _POINT,
        ),
        Rule("scale-outliers", "rows or entries out of all scale", row_rules.scale_outliers, ("profile:norm",)),
        Rule(
            "hubness", "rows that are neighbors of very many", spectrum_rules.hubness, ("reading:hubness_skew",), _POINT
        ),
        Rule("wide-for-data", "more dimensions than the rows can span", spectrum_rules.wide_for_data),
        Rule(
            "precision-loss", "a stored type too narrow for the table", row_rules.precision_loss, ("profile:precision",)
        ),
    )
}


@np.errstate(all="ignore")
def diagnose(
    record: TableRecord, thresholds: Thresholds | None = None, *, today: dt.date | None = None
) -> tuple[Finding, ...]:
    """What is wrong with a table, as far as its record shows.

    Parameters
    ----------
    record
        What was read from the table. A rule whose readings are missing says nothing.
    thresholds
        Limits, overrides and waivers; None takes the limits that ship with the package.
    today
        The day on which waivers are judged; None takes the current one.

    Returns
    -------
    tuple of Finding
        In the order of :data:`RULES`. A finding under a waiver carries its reason in `waived`; a finding whose waiver
        has expired says so in its title.

    Notes
    -----
    Groups of at least 30 rows are judged by their own readings, and one is named where it is worse than the whole
    table: 20 findings at most, the gravest first. Rows of one label are meant to be alike, so that an offset they share
    is a note at most.

    No verdict rests on a number alone: a value must lie six deviations of its null away from what a Gaussian table of
    the same shape reads, and two standard errors past the limit of a grade, or the next lower grade counts.

    Examples
    --------
    >>> from fullspan.store.records import TableRecord
    >>> record = TableRecord("items", "items.npy", "float32", n_rows=100, dim=8, n_excluded=2)
    >>> [(finding.rule, finding.severity) for finding in diagnose(record)]
    [('non-finite', 'fail')]
    """
    limits_of = thresholds or Thresholds.load()
    facts = Facts(record)
    findings = _judged(RULES.values(), facts, limits_of)
    findings += _of_groups(record, findings, limits_of)
    return tuple(waived(finding, limits_of.waivers, today) for finding in findings)


def _judged(rules: Iterable[Rule], facts: Facts, limits_of: Thresholds) -> list[Finding]:
    findings: list[Finding] = []
    fired: set[str] = set()
    bare = not (facts.record.profile or facts.record.hygiene)
    for rule in rules:
        if bare and rule.reads_curves_only:
            continue
        limits = limits_of.limits(rule.name, facts.record.table)
        if limits is None or fired.intersection(rule.silent_after):
            continue
        found = list(rule.read(facts, limits))
        if found:
            fired.add(rule.name)
        findings += [_finding(rule, each, facts.record.table) for each in found]
    return findings


def _of_groups(record: TableRecord, whole: list[Finding], limits_of: Thresholds) -> list[Finding]:
    """Findings of the groups that are worse than the whole table, the gravest first."""
    known = {finding.rule: GRADES.index(finding.severity) for finding in whole}
    rules = [rule for rule in RULES.values() if rule.in_groups]
    worse: list[Finding] = []
    for group, readings in record.groups.items():
        rows = int(next((each.detail.get("n_rows", 0) for each in readings.values()), 0))
        if rows < _FEWEST_IN_GROUP:
            continue
        part = TableRecord(record.table, record.source, record.dtype, rows, record.dim, readings=dict(readings))
        for finding in _judged(rules, Facts(part), limits_of):
            alike = finding.rule == "mean-shift" and not group.startswith("frequency ")
            severity = "note" if alike else finding.severity
            if GRADES.index(severity) > known.get(finding.rule, -1):
                worse.append(replace(finding, severity=severity, group=group))
    return sorted(worse, key=lambda finding: -GRADES.index(finding.severity))[:_MOST_OF_GROUPS]


def waived(finding: Finding, waivers: tuple[Waiver, ...], today: dt.date | None = None) -> Finding:
    """The finding under the first waiver that covers it and has not expired."""
    day = today or dt.date.today()  # a waiver ends with the day of whoever runs the check
    covering = [waiver for waiver in waivers if waiver.covers(finding.table, finding.rule)]
    alive = next((waiver for waiver in covering if not waiver.expired(day)), None)
    if alive is not None:
        return replace(finding, waived=alive.reason)
    if covering:
        over = max((waiver for waiver in covering if waiver.until), key=lambda waiver: str(waiver.until))
        title = f'{finding.title} (the waiver "{over.reason}" expired on {over.until})'
        return replace(finding, title=title)
    return finding


def _finding(rule: Rule, found: Found, table: str) -> Finding:
    assert found.severity in GRADES
    return Finding(
        rule=rule.name,
        severity=found.severity,
        title=found.title,
        evidence=tuple(_plain(each) for each in found.evidence),
        cause=found.remedy.cause,
        remedy=found.remedy.text,
        verify=found.remedy.verify,
        docs=f"{DOCS} {rule.name}",
        table=table,
    )


def _plain(value: Any) -> Any:
    """Plain values for JSON; what is not finite or not known is left out of dicts and None elsewhere."""
    if isinstance(value, Mapping):
        plain = {str(key): _plain(each) for key, each in value.items()}
        return {key: each for key, each in plain.items() if each is not None or key == "id"}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (np.generic, np.ndarray)):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
