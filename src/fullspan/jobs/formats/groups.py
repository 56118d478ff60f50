"""The groups of a table beside each other, the worst first: what text and Markdown show in place of all readings."""

from __future__ import annotations

import math
from typing import NamedTuple

from fullspan.jobs.formats import words
from fullspan.jobs.results import TableReport
from fullspan.store.records import Reading

__all__ = ["MOST_GROUPS", "GroupRow", "GroupTable", "cell_of", "group_table"]

#: Groups that are shown; JSON has all of them.
MOST_GROUPS = 20
#: What is shown of a group when more was measured than fits a line.
_KEY = ("information_abundance", "centered_effective_rank", "average_cosine", "mean_norm", "gini_index")
#: Numbers of directions: what they are of the isotropic one is stated beside them.
_OF_NULL = ("information_abundance", "centered_effective_rank")


class GroupRow(NamedTuple):
    """A group: its rows, the gravest severity of its findings or None, and the measures that they rest on."""

    name: str
    n_rows: int | None
    severity: str | None
    blamed: dict[str, str]
    readings: dict[str, Reading]


class GroupTable(NamedTuple):
    """At most :data:`MOST_GROUPS` rows of `measures`; `more` groups are left out, the healthier ones."""

    measures: tuple[str, ...]
    rows: list[GroupRow]
    more: int

    @property
    def caption(self) -> str:
        """How to read the table, in one sentence."""
        if any(name in _OF_NULL for name in self.measures):
            return "The worst first; in brackets the part of what an isotropic table of as many rows has."
        return "The worst first."

    @property
    def rest(self) -> str:
        """What is left out."""
        return f"and {self.more:,} more; --json has every measure of all groups" if self.more else ""


def group_table(table: TableReport) -> GroupTable | None:
    """The groups of a table, or None where none were measured."""
    groups = table.record.groups
    if not groups:
        return None
    rows = sorted((_row(table, name, readings) for name, readings in groups.items()), key=_badness)
    measured = tuple(dict.fromkeys(name for readings in groups.values() for name in readings))
    key = tuple(name for name in _KEY if name in measured)
    shown = key if key and len(measured) > len(_KEY) else measured[: len(_KEY)]
    return GroupTable(shown, rows[:MOST_GROUPS], max(0, len(rows) - MOST_GROUPS))


def _row(table: TableReport, name: str, readings: dict[str, Reading]) -> GroupRow:
    found = [finding for finding in table.findings if finding.group == name and finding.waived is None]
    severity = words.by_severity(found)[0].severity if found else None
    n_rows = next((reading.detail["n_rows"] for reading in readings.values() if "n_rows" in reading.detail), None)
    return GroupRow(name, n_rows, severity, words.blamed(found), readings)


def _badness(row: GroupRow) -> tuple[int, float]:
    """Groups with findings first, the gravest of them before; then those with the fewest directions for their shape."""
    rank = len(words.SEVERITIES) if row.severity is None else words.SEVERITIES.index(row.severity)
    parts = (_part(row.readings.get(name)) for name in _OF_NULL)
    return rank, min((part for part in parts if part is not None), default=math.inf)


def _part(reading: Reading | None) -> float | None:
    if reading is None or reading.value is None or not reading.null:
        return None
    return reading.value / reading.null


def cell_of(row: GroupRow, measure: str) -> str:
    """``2.24 (16%)``, ``0.905``, or nothing where the measure is undefined in the group."""
    reading = row.readings.get(measure)
    if reading is None or reading.value is None:
        return ""
    part = _part(reading) if measure in _OF_NULL else None
    return words.number(reading.value, 3) + (f" ({part:.0%})" if part is not None else "")
