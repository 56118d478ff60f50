"""Rules while training goes on: each finding is told when it comes, when it grows graver, and when it is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fullspan.diagnose import RULES, RulesFile, Thresholds, diagnose
from fullspan.diagnose.thresholds import GRADES
from fullspan.errors import InputError, UnknownNameError, did_you_mean
from fullspan.store.records import Event, Finding, Moment, TableRecord

__all__ = ["Alerts", "Change", "stop_names"]

#: How many readings in a row must be without a finding before it counts as gone: samples lie near limits by chance.
CLEAR_AFTER = 2


@dataclass
class _Active:
    finding: Finding
    absent: int = 0


class Change(NamedTuple):
    """A finding that came, grew graver, or is gone."""

    finding: Finding
    gone: bool

    def event(self, at: Moment) -> Event:
        """What the store keeps of it."""
        each = self.finding
        detail = {"evidence": list(each.evidence), "cause": each.cause, "remedy": each.remedy, "verify": each.verify}
        if self.gone:
            return Event(at, "note", each.rule, each.table, f"Cleared: {each.title}", {"cleared": True})
        return Event(at, each.severity, each.rule, each.table, each.title, {**detail, "cleared": False})


class Alerts:
    """The findings that hold now.

    Parameters
    ----------
    rules
        None for the rules as they ship, the path of a ``fullspan.toml``, a :class:`~fullspan.Thresholds` or a
        :class:`~fullspan.diagnose.RulesFile`. Of a file, ``[[rule]]`` and ``[[waive]]`` apply.
    """

    def __init__(self, rules: Any = None) -> None:
        self._thresholds = _thresholds(rules)
        self._active: dict[tuple[str, str, str | None], _Active] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What holds now, in the order in which it came."""
        return tuple(each.finding for each in self._active.values())

    def judge(self, record: TableRecord) -> list[Change]:
        """Judge one table by its newest record; what has changed since the last one."""
        found = {_key(each): each for each in diagnose(record, self._thresholds) if each.waived is None}
        changes = [self._came(key, each) for key, each in found.items()]
        judged = {rule.name for rule in RULES.values() if rule.judges(record)}
        silenced = _silenced({each.rule for each in found.values()})
        for key, active in list(self._active.items()):
            if key[0] == record.table and key not in found and key[1] in judged - silenced:
                changes.append(self._absent(key, active))
        return [each for each in changes if each is not None]

    def _came(self, key: tuple[str, str, str | None], finding: Finding) -> Change | None:
        before = self._active.get(key)
        self._active[key] = _Active(finding)
        graver = before is None or GRADES.index(finding.severity) > GRADES.index(before.finding.severity)
        return Change(finding, gone=False) if graver else None

    def _absent(self, key: tuple[str, str, str | None], active: _Active) -> Change | None:
        active.absent += 1
        if active.absent < CLEAR_AFTER:
            return None
        del self._active[key]
        return Change(active.finding, gone=True)

    def state_dict(self) -> list[dict[str, Any]]:
        """The findings that hold, as plain values."""
        return [
            {
                "rule": each.rule,
                "severity": each.severity,
                "title": each.title,
                "table": each.table,
                "group": each.group,
            }
            for each in self.findings
        ]

    def load_state_dict(self, state: Iterable[Mapping[str, Any]]) -> None:
        """Go on with the findings of `state`: they are not told again."""
        self._active = {_key(finding): _Active(finding) for finding in (Finding(**each) for each in state)}


def _key(finding: Finding) -> tuple[str, str, str | None]:
    return finding.table, finding.rule, finding.group


def _silenced(fired: set[str]) -> set[str]:
    """Rules that say nothing since another one explains what they would say."""
    return {rule.name for rule in RULES.values() if fired.intersection(rule.silent_after)}


def _thresholds(rules: Any) -> Thresholds:
    if isinstance(rules, RulesFile):
        return rules.thresholds
    return rules if isinstance(rules, Thresholds) else Thresholds.load(rules)


def named(record: TableRecord, table: str) -> TableRecord:
    """The record under the name by which the table is watched."""
    return record if record.table == table else replace(record, table=table)


def stop_names(stop_on: Any) -> frozenset[str]:
    """The severities and rules that end the training, checked.

    Raises
    ------
    UnknownNameError
        If one is neither.
    """
    names = () if stop_on is None else (stop_on,) if isinstance(stop_on, str) else tuple(stop_on)
    known = [*GRADES, *RULES]
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"watch needs stop_on to name severities or rules; got {name!r}.")
        if name not in known:
            raise UnknownNameError(
                f'watch needs stop_on to be a severity (note, warn, fail) or the name of a rule; got "{name}".'
                f"{did_you_mean(name, known)} `fullspan rules` lists all of them."
            )
    return frozenset(names)


def stops(finding: Finding, names: frozenset[str]) -> bool:
    """Whether a finding ends the training: its rule is named, or its severity is one that is named or graver."""
    grades = [GRADES.index(each) for each in names if each in GRADES]
    return finding.rule in names or bool(grades and GRADES.index(finding.severity) >= min(grades))
