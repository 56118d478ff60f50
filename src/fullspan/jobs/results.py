"""What `measure` returns: the records of the tables, their findings, and every form they can be shown in."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fullspan.errors import UnknownNameError, did_you_mean
from fullspan.store.records import Finding, Reading, TableRecord

__all__ = ["SCHEMA_VERSION", "Report", "TableReport", "fresh_key", "worst"]

#: Version of the JSON form: the first number changes when a reader of the old form would break.
SCHEMA_VERSION = "1.0"


@dataclass(frozen=True)
class TableReport:
    """The readings and findings of one table."""

    record: TableRecord
    findings: tuple[Finding, ...] = ()

    def __getitem__(self, measure: str) -> Reading:
        return _look_up(self.record.readings, measure, "reading")

    def __contains__(self, measure: object) -> bool:
        return measure in self.record.readings

    def __iter__(self) -> Iterator[Reading]:
        return iter(self.record.readings.values())

    @property
    def table(self) -> str:
        return self.record.table

    @property
    def worst(self) -> str:
        """``"fail"``, ``"warn"``, ``"note"`` or ``"ok"``: the gravest finding that is not waived."""
        return worst(self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The record and the findings as plain values, ready for JSON."""
        return {**dataclasses.asdict(self.record), "findings": [dataclasses.asdict(each) for each in self.findings]}


@dataclass(frozen=True)
class Report:
    """The reports of one or more tables.

    ``report["information_abundance"]`` is the reading when there is one table; with several, ``report["table name"]``
    is the table's report.
    """

    tables: Mapping[str, TableReport]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        if name in self.tables:
            return self.tables[name]
        if len(self.tables) == 1:
            return next(iter(self.tables.values()))[name]
        raise UnknownNameError(
            f"A report of {len(self.tables)} tables needs a table first: "
            f'report["{next(iter(self.tables), "")}"]["{name}"]; '
            f'got "{name}".{did_you_mean(name, self.tables)}'
        )

    def __iter__(self) -> Iterator[TableReport]:
        return iter(self.tables.values())

    def __len__(self) -> int:
        return len(self.tables)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all tables, in the order of the tables."""
        return tuple(finding for table in self for finding in table.findings)

    @property
    def worst(self) -> str:
        return worst(self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Plain values under a versioned schema: ``schema``, ``provenance``, ``tables``; ``fields`` with several."""
        several = {"fields": self.fields} if len(self) > 1 else {}
        return {
            "schema": f"fullspan-report/{SCHEMA_VERSION}",
            "provenance": dict(self.provenance),
            "tables": [table.to_dict() for table in self],
            **several,
        }

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The tables beside each other, one row a table.

        Each has ``table``, ``n_rows``, ``dim``, ``worst``, and where it was read ``information_abundance`` with
        ``null`` and ``relative_to_null``, and ``relative_singular_values``: σ_j/σ_1, a row of the heat map of fields.
        """
        return [_beside(name, table) for name, table in self.tables.items() if table.record.dim]

    def to_json(self, indent: int | None = 2) -> str:
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, default=_plain)

    def to_text(self, **options: Any) -> str:
        from fullspan.jobs.formats.text import render_text

        return render_text(self, **options)

    def to_markdown(self) -> str:
        from fullspan.jobs.formats.markdown import render_markdown

        return render_markdown(self)

    def _repr_html_(self) -> str:
        from fullspan.jobs.formats.notebook import render_notebook

        return render_notebook(self)

    def __repr__(self) -> str:
        lines = [
            f"{table.table}: {table.record.n_rows:,} x {table.record.dim} {table.record.dtype}, {table.worst}"
            for table in self
        ]
        return "Report(" + "; ".join(lines) + ")"


def fresh_key(name: str, taken: Mapping[str, Any]) -> str:
    """The name of a table, with a number where another one has it."""
    key, number = name, 2
    while key in taken:
        key, number = f"{name} ({number})", number + 1
    return key


def _beside(name: str, table: TableReport) -> dict[str, Any]:
    record = table.record
    row: dict[str, Any] = {"table": name, "n_rows": record.n_rows, "dim": record.dim, "worst": table.worst}
    reading = record.readings.get("information_abundance")
    if reading is not None and reading.value is not None:
        row["information_abundance"] = reading.value
        if reading.null:
            row |= {"null": reading.null, "relative_to_null": reading.value / reading.null}
    values = record.profile.get("singular_values") or []
    if values and values[0] > 0:
        row["relative_singular_values"] = [value / values[0] for value in values]
    return row


def worst(findings: tuple[Finding, ...]) -> str:
    grades = {finding.severity for finding in findings if finding.waived is None}
    return next((grade for grade in ("fail", "warn", "note") if grade in grades), "ok")


def _look_up(readings: Mapping[str, Reading], name: str, what: str) -> Reading:
    if name not in readings:
        raise UnknownNameError(
            f'No {what} is named "{name}" in this report.{did_you_mean(name, readings)} It has: {", ".join(readings)}.'
        )
    return readings[name]


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    return str(value)
