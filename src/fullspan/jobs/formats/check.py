"""The result of a check as text: whether it passed, then what did not."""

from __future__ import annotations

from typing import Any

from fullspan.jobs.formats import words
from fullspan.jobs.formats.text import render_text

__all__ = ["render_check"]

_COLORS = {0: "32", 1: "31", 3: "33"}


def render_check(result: Any, *, color: bool = False, findings: bool = True, **looks: Any) -> str:
    """A :class:`~fullspan.jobs.check.CheckResult` as plain text, or with colors for a terminal.

    Parameters
    ----------
    result
        What :func:`fullspan.check` returns.
    findings
        False leaves only the last line.
    color, looks
        As for :func:`~fullspan.jobs.formats.text.render_text`.
    """
    last = _verdict(result)
    if color:
        last = f"\x1b[1;{_COLORS.get(result.exit_code, '0')}m{last}\x1b[0m"
    body = f"{words.clean(result.run['told'])}\n\n" if result.run and findings else ""
    if findings and result.findings:
        body += render_text(result.report, color=color, readings=False, **looks) + "\n"
        body += "".join(f"? {words.clean(each.title)}\n" for each in result.unevaluated)
        body += "\n" if result.unevaluated else ""
    return f"{body}{last}\n"


def _verdict(result: Any) -> str:
    judged = f"{words.count(result.n_evaluated, 'rule')} judged on {words.count(len(result.report), 'table')}"
    if result.failures:
        return f"FAILED: {words.verdict(result.report.findings)[:-1]}; {judged}."
    if result.unevaluated:
        return f"NOT EVALUATED: {words.count(len(result.unevaluated), 'rule')} could not be judged; {judged}."
    return f"passed: {words.verdict(result.report.findings)} {judged[0].upper()}{judged[1:]}."
