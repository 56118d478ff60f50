"""A report as workflow commands of GitHub Actions: one annotation a finding."""

from __future__ import annotations

from typing import Any

from fullspan.jobs.formats import words
from fullspan.store.records import Finding

__all__ = ["render_github"]

_COMMANDS = {"fail": "error", "warn": "warning", "note": "notice"}


def render_github(report: Any) -> str:
    """One line a finding, ``::error title=…::…``; a finding that is waived becomes a notice.

    References
    ----------
    GitHub Docs, "Workflow commands for GitHub Actions"; the escapes are those of actions/toolkit, ``command.ts``.
    """
    lines = [_annotation(table.table, finding) for table in report for finding in words.by_severity(table.findings)]
    for table in report:
        if table.worst == "ok":
            text = f"{words.shape_of(table.record)}. {words.verdict(table.findings, len(table.record.readings))}"
            lines.append(f"::notice title={_property(f'fullspan: {words.clean(table.table)}')}::{_message(text)}")
    return "".join(f"{line}\n" for line in lines)


def _annotation(table: str, finding: Finding) -> str:
    waived = finding.waived is not None
    command = "notice" if waived else _COMMANDS.get(finding.severity, "notice")
    group = f" [{words.clean(finding.group)}]" if finding.group is not None else ""
    lines = [f"{words.title_of(finding)}{group}", *(words.evidence_line(evidence) for evidence in finding.evidence)]
    if waived:
        lines.append(f"Waived: {words.clean(finding.waived)}")
    else:
        lines += [
            f"{label}: {words.clean_lines(text)}"
            for label, text in (("Cause", finding.cause), ("Remedy", finding.remedy))
            if text
        ]
    title = f"fullspan: {words.clean(table)}: {words.clean(finding.rule)}"
    return f"::{command} title={_property(title)}::{_message(chr(10).join(lines))}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
