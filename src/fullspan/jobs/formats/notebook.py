"""A report as HTML for a notebook cell: no scripts, no styles beyond its own elements."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from fullspan.jobs.formats import words
from fullspan.jobs.results import TableReport
from fullspan.store.records import Finding, Reading

__all__ = ["render_notebook"]

#: Readable on white and on black: notebooks come in both.
_COLORS = {"fail": "#d1453b", "warn": "#b7791f", "note": "#2b7bb9", "ok": "#2f855a", "waived": "#808080"}
_MARKS = {"fail": "✗", "warn": "▲", "note": "•", "ok": "✓", "waived": "○"}
_CELL = "padding:2px 10px;text-align:{};border:0"


def render_notebook(report: Any) -> str:
    """A report as an HTML fragment: the verdict, the findings, and the readings folded away under them."""
    return "".join(_table(table) for table in report)


def _text(text: object) -> str:
    return html.escape(words.clean(text))


def _table(table: TableReport) -> str:
    record, worst = table.record, table.worst
    findings = "".join(_finding(finding) for finding in words.by_severity(table.findings))
    groups = "".join(f"<p><b>{_text(group)}</b></p>{_readings(some.values())}" for group, some in record.groups.items())
    notes = "".join(f"<li>{_text(note)}</li>" for note in record.notes)
    said = f"{_MARKS[worst]} {_text(words.verdict(table.findings, len(record.readings)))}"
    opened = " open" if not table.findings else ""
    return (
        f'<div style="border-left:3px solid {_COLORS[worst]};padding:2px 12px;margin:6px 0;max-width:60em">'
        f"<p><b>{_text(record.table or 'table')}</b> {_text(words.shape_of(record))}"
        f'<br><span style="opacity:.7">{_text(" · ".join(words.facts(record)))}</span></p>'
        f'<p style="color:{_COLORS[worst]}"><b>{said}</b></p>'
        f"{findings}<details{opened}><summary>{words.count(len(record.readings), 'reading')}</summary>"
        f"{_readings(record.readings.values())}{groups}{f'<ul>{notes}</ul>' if notes else ''}</details></div>"
    )


def _finding(finding: Finding) -> str:
    kind = "waived" if finding.waived is not None else finding.severity
    group = f" [{_text(finding.group)}]" if finding.group is not None else ""
    lines = [_text(words.evidence_line(evidence)) for evidence in finding.evidence]
    if finding.waived is not None:
        lines.append(f"waived: {_text(finding.waived)}")
    elif finding.cause:
        lines.append(_text(finding.cause))
    remedy = (
        "" if finding.waived is not None else "".join(_remedy(*part) for part in words.remedy_parts(finding.remedy))
    )
    verify = (
        f'<br><span style="opacity:.7">{_text(finding.verify)}</span>' if finding.verify and not finding.waived else ""
    )
    return (
        f'<p style="margin:6px 0"><b style="color:{_COLORS.get(kind, "inherit")}">{_MARKS.get(kind, "•")}</b> '
        f"<b>{_text(words.title_of(finding))}</b>{group}<br>{'<br>'.join(lines)}{verify}</p>{remedy}"
    )


def _remedy(kind: str, text: str) -> str:
    if kind == "prose":
        return f'<p style="margin:4px 0">{html.escape(text)}</p>'
    return f'<pre style="margin:4px 0;padding:6px 8px;background:rgba(128,128,128,.12)">{html.escape(text)}</pre>'


def _readings(readings: Iterable[Reading]) -> str:
    heads = (("measure", "left"), ("", "left"), ("value", "right"), ("± error", "right"), ("isotropic", "right"))
    head = "".join(f'<th style="{_CELL.format(side)}">{name}</th>' for name, side in heads)
    rows = []
    for reading in readings:
        cells = (
            reading.measure,
            words.arrow(reading.measure),
            words.value_of(reading),
            words.error_of(reading),
            words.null_of(reading),
        )
        why = f' title="{_text(reading.why)}"' if reading.value is None and reading.why else ""
        row = "".join(
            f'<td style="{_CELL.format(side)}">{_text(cell)}</td>' for cell, (_, side) in zip(cells, heads, strict=True)
        )
        rows.append(f"<tr{why}>{row}</tr>")
    return (
        f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )
