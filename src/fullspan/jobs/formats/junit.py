"""A report as JUnit XML: a suite a table, a case a finding, and one for what passed."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

from fullspan.jobs.formats import words
from fullspan.jobs.results import TableReport
from fullspan.store.records import Finding

__all__ = ["render_junit"]

#: What XML 1.0 cannot hold, even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(report: Any) -> str:
    """A report as JUnit XML: ``fail`` fails, ``warn`` and ``note`` pass with their text, waived ones are skipped."""
    root = ET.Element("testsuites", name="fullspan")
    suites = [_suite(root, table) for table in report]
    for key in ("tests", "failures", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in suites)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(root: ET.Element, table: TableReport) -> ET.Element:
    record = table.record
    suite = ET.SubElement(root, "testsuite", name=_legal(record.table or "table"))
    properties = ET.SubElement(suite, "properties")
    facts = {"shape": f"{record.n_rows}x{record.dim}", "dtype": record.dtype}
    facts |= {name: repr(reading.value) for name, reading in record.readings.items() if reading.value is not None}
    for name, value in facts.items():
        ET.SubElement(properties, "property", name=_legal(name), value=_legal(value))
    for finding in words.by_severity(table.findings):
        _case(suite, record.table, finding)
    if not any(finding.severity == "fail" and finding.waived is None for finding in table.findings):
        case = ET.SubElement(suite, "testcase", classname=_legal(record.table or "table"), name="no failure")
        ET.SubElement(case, "system-out").text = words.verdict(table.findings, len(record.readings))
    cases = list(suite.iter("testcase"))
    suite.set("tests", str(len(cases)))
    suite.set("failures", str(sum(case.find("failure") is not None for case in cases)))
    suite.set("skipped", str(sum(case.find("skipped") is not None for case in cases)))
    suite.set("errors", "0")
    return suite


def _case(suite: ET.Element, table: str, finding: Finding) -> None:
    name = finding.rule if finding.group is None else f"{finding.rule} [{finding.group}]"
    case = ET.SubElement(suite, "testcase", classname=_legal(table or "table"), name=_legal(name))
    body = "\n".join(
        [words.title_of(finding), *(words.evidence_line(evidence) for evidence in finding.evidence)]
        + [f"{label}: {text}" for label in ("cause", "remedy", "verify") if (text := getattr(finding, label))]
    )
    if finding.waived is not None:
        ET.SubElement(case, "skipped", message=_legal(f"waived: {finding.waived}"))
    elif finding.severity == "fail":
        failure = ET.SubElement(case, "failure", message=_legal(words.title_of(finding)), type=_legal(finding.rule))
        failure.text = _legal(body)
    else:
        ET.SubElement(case, "system-out").text = _legal(f"{finding.severity}: {body}")


def _legal(text: object) -> str:
    return _FORBIDDEN.sub("\ufffd", words.clean_lines(text))
