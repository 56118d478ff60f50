"""What was wrong during a run, and what still is: events by rule, with cause and remedy where the rules know them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fullspan.diagnose.rules import DOCS, RULES, diagnose
from fullspan.errors import UndefinedMeasureError
from fullspan.jobs.formats import words
from fullspan.report.run_content import Content, Series, is_full, value_of
from fullspan.store.records import Event, Finding, Reading, TableRecord

__all__ = ["Noted", "findings_of_run", "last_record"]

_ORDER = {"error": 0, "fail": 1, "warn": 2, "note": 3}


@dataclass
class Noted:
    """One rule on one table: when it fired during the run, and what it says of the last reading.

    Parameters
    ----------
    rule, table, level
        The rule, the table (``""`` is the run itself), and the gravest level it reached.
    title
        One line in plain words.
    events
        Every time it fired, oldest first.
    finding
        The finding on the last reading, or None when the rule no longer fires there.
    gone
        When the watcher said that it was over, unless it fired again since.
    """

    rule: str
    table: str
    level: str
    title: str
    events: list[Event] = field(default_factory=list)
    finding: Finding | None = None
    gone: Any = None

    @property
    def when(self) -> str:
        """``step 40 to 200, 5 times; still so at the last reading``."""
        now = "seen at the last reading" if not self.events else "still so at the last reading"
        tail = [now] if self.finding is not None else []
        if self.gone is not None and not tail:
            tail = [f"gone at {_moment(self.gone)}"]
        if not self.events:
            return tail[0] if tail else ""
        first, last = self.events[0].at, self.events[-1].at
        if first.step == last.step:
            lead = f"at {_moment(first)}"
        else:
            lead = f"{len(self.events)} times from {_moment(first)} to {_moment(last)}"
        return "; ".join([lead, *tail])

    @property
    def evidence(self) -> list[str]:
        if self.finding is not None:
            return [words.evidence_line(each) for each in self.finding.evidence]
        detail = self.events[-1].detail if self.events else {}
        given = detail.get("evidence")
        if isinstance(given, (list, tuple)):
            return [words.evidence_line(each) for each in given if isinstance(each, Mapping)]
        shown = {key: value for key, value in detail.items() if key not in _SAID and _is_short(value)}
        return [words.evidence_line(shown)] if shown else []

    @property
    def cause(self) -> str:
        return self._said("cause")

    @property
    def remedy(self) -> str:
        return self._said("remedy")

    @property
    def verify(self) -> str:
        return self._said("verify")

    @property
    def docs(self) -> str:
        """Where the rule is explained; of an event that does not say, by the name of its rule."""
        return self._said("docs") or (f"{DOCS} {self.rule}" if self.rule in RULES else "")

    def _said(self, what: str) -> str:
        if self.finding is not None:
            return getattr(self.finding, what)
        found = next((event.detail.get(what) for event in reversed(self.events) if event.detail.get(what)), "")
        return found if isinstance(found, str) else ""


_SAID = {"cause", "remedy", "verify", "docs", "title", "severity", "rule", "table", "evidence", "group", "waived"}


def _is_short(value: Any) -> bool:
    return (isinstance(value, (int, float)) and not isinstance(value, bool)) or (
        isinstance(value, str) and len(value) <= 200
    )


def _moment(at: Any) -> str:
    epoch = "" if at.epoch is None else f" (epoch {at.epoch:.4g})"
    return f"step {at.step:,}{epoch}"


def findings_of_run(content: Content) -> list[Noted]:
    """Events of a run by table and rule, joined with the findings on the last reading; the gravest first."""
    noted: dict[tuple[str, str], Noted] = {}
    clocks = {at.step: at for at in content.moments}
    for event in content.events:
        event = replace(event, at=clocks.get(event.at.step, event.at))
        name = event.rule or event.message
        if event.detail.get("cleared") and (event.table, name) in noted:
            noted[event.table, name].gone = event.at
            continue
        one = noted.setdefault((event.table, name), Noted(event.rule, event.table, event.level, event.message))
        one.events.append(event)
        one.gone = None
        one.title = event.message
        one.level = min(one.level, event.level, key=_rank)
    for name in content.tables:
        record = last_record(content, name)
        for finding in diagnose(record) if record is not None else ():
            one = noted.setdefault((name, finding.rule), Noted(finding.rule, name, finding.severity, finding.title))
            one.finding, one.title = finding, finding.title
            one.level = min(one.level, finding.severity, key=_rank)
    return sorted(noted.values(), key=lambda each: (_rank(each.level), each.finding is None))


def _rank(level: str) -> int:
    return _ORDER.get(level, len(_ORDER))


def last_record(content: Content, table: str) -> TableRecord | None:
    """The last reading of a table as the rules take it: full passes where there were any, else the sample."""
    series = {each.measure: each for each in content.series if each.table == table}
    known = content.tables.get(table)
    if known is None or known.n_rows is None or known.dim is None or not series:
        return None
    vectors = content.spectra.get(table)
    readings = {name: reading for name, each in series.items() if (reading := _reading(each, known)) is not None}
    profile = {"singular_values": [float(value) for value in vectors[-1][1]]} if vectors else {}
    rows = next(
        (reading.detail["n_rows"] for reading in readings.values() if reading.detail.get("n_rows")), known.n_rows
    )
    return TableRecord(table, "", known.dtype or "", rows, known.dim, readings=readings, profile=profile)


def _reading(series: Series, table: Any) -> Reading | None:
    """The last point of a curve with the value of an isotropic table, as far as it is defined."""
    whole = [point for point in series.points if is_full(point, table)]
    last = (whole or series.points)[-1]
    value, entry = value_of(last), words.entry(series.measure)
    if value is None or entry is None or value_of(series.points[-1]) is None:  # what was last seen of it is no value
        return None
    rows = last.n_rows or table.n_rows
    null, deviation = _null(entry, rows, table.dim)
    return Reading(
        series.measure, value, null=null, null_deviation=deviation, table=series.table, detail={"n_rows": rows}
    )


def _null(entry: Any, n_rows: int, dim: int) -> tuple[float | None, float | None]:
    """Value on an isotropic Gaussian table and its deviation, where that is known from the shape alone."""
    if entry.null is None or entry.scale_dependent_null:
        return None, None
    try:
        expected = entry.null(n_rows, dim)
    except UndefinedMeasureError:
        return None, None
    return (None, None) if expected is None else (float(expected[0]), float(expected[1]))
