"""A report as Markdown: for a pull request, a wiki, a job summary."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from fullspan.jobs.formats import words
from fullspan.jobs.formats.groups import GroupTable, cell_of, group_table
from fullspan.jobs.results import TableReport
from fullspan.store.records import Finding, Reading

__all__ = ["render_markdown"]

_SIGNS = {"fail": "❌", "warn": "⚠️", "note": "ℹ️", "ok": "✅"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&@])")


def render_markdown(report: Any) -> str:
    """A report as GitHub-flavored Markdown; names from the data are escaped."""
    parts = [_table(table) for table in report]
    if len(parts) > 1:
        parts.append(_beside(report))
    return "\n\n".join(parts) + "\n"


def _beside(report: Any) -> str:
    lines = ["## Tables", "", "| table | shape | information abundance | of isotropic |", "| --- | --- | ---: | ---: |"]
    for row in report.fields:
        name = f"{_SIGNS[row['worst']]} {escape(row['table'] or 'table')}"
        cells = (name, f"{row['n_rows']:,} × {row['dim']:,}", *words.abundance_of(row))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def escape(text: object) -> str:
    """`text` as Markdown that shows it literally, on one line."""
    return _SPECIAL.sub(r"\\\1", words.clean(text))


def code(text: object) -> str:
    """`text` as a code span, fenced by more backticks than it holds."""
    plain = words.clean(text)
    fence = "`" * (max((len(run) for run in re.findall(r"`+", plain)), default=0) + 1)
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def _table(table: TableReport) -> str:
    record = table.record
    parts = [
        f"## {_SIGNS[table.worst]} {escape(record.table or 'table')}",
        f"{escape(words.shape_of(record))} · {escape(' · '.join(words.facts(record)))}",
        f"**{escape(words.verdict(table.findings, len(record.readings)))}**",
        *(_finding(finding) for finding in words.by_severity(table.findings)),
    ]
    if record.readings:
        parts.append(_readings(record.readings.values()))
    groups = group_table(table)
    if groups is not None:
        parts += ["### Groups", groups.caption, _groups(groups)]
        parts += [groups.rest] if groups.rest else []
    if record.notes:
        parts.append("\n".join(f"- {escape(note)}" for note in record.notes))
    return "\n\n".join(parts)


def _finding(finding: Finding) -> str:
    group = f" ({escape(finding.group)})" if finding.group is not None else ""
    sign = "⚪" if finding.waived is not None else _SIGNS.get(finding.severity, "")
    lines = [f"### {sign} {escape(words.title_of(finding))}{group}", ""]
    lines += [f"- {escape(words.evidence_line(evidence))}" for evidence in finding.evidence]
    if finding.waived is not None:
        return "\n".join([*lines, f"- waived: {escape(finding.waived)}"])
    if finding.cause:
        lines += ["", escape(finding.cause)]
    if finding.remedy:
        lines += ["", "Remedy:"]
        for kind, text in words.remedy_parts(finding.remedy):
            lines += ["", *([escape(line) for line in text.splitlines()] if kind == "prose" else _block(text))]
    if finding.verify:
        lines += ["", f"Verify: {escape(finding.verify)}"]
    if finding.docs:
        lines += ["", f"See {escape(words.link_of(finding.docs))}"]
    return "\n".join(lines)


def _block(text: str) -> list[str]:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence, *(words.clean(line) for line in text.splitlines()), fence]


def _readings(readings: Iterable[Reading]) -> str:
    lines = ["| measure | | value | ± error | isotropic |", "| --- | --- | ---: | ---: | ---: |"]
    for reading in readings:
        value = words.value_of(reading)
        if reading.value is None and reading.why:
            value += f" ({reading.why})"
        cells = (
            code(reading.measure),
            words.arrow(reading.measure),
            escape(value),
            words.error_of(reading),
            words.null_of(reading),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _groups(groups: GroupTable) -> str:
    heads = ["group", "rows", *(code(name) for name in groups.measures)]
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    for row in groups.rows:
        sign = f"{_SIGNS[row.severity]} " if row.severity in _SIGNS else ""
        n_rows = "" if row.n_rows is None else f"{row.n_rows:,}"
        cells = (sign + escape(row.name), n_rows, *(escape(cell_of(row, name)) for name in groups.measures))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
