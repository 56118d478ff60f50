"""Training runs as one JSON document: how each ended, where its curves began and ended, and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fullspan.errors import InputError
from fullspan.report.run_content import content_of
from fullspan.report.run_findings import Noted, findings_of_run
from fullspan.report.run_summary import plain_summary

__all__ = ["run_report"]


def run_report(runs: Sequence[Any]) -> dict[str, Any]:
    """What the page says in words, as values that JSON can hold.

    Parameters
    ----------
    runs
        Readers of :mod:`fullspan.store.runs`.

    Returns
    -------
    dict
        ``runs``: for each its ``name``, ``path``, ``status``, last ``step``, ``epoch`` and ``samples``, its ``tables``,
        its ``curves`` with ``first``, ``last``, ``lowest``, ``highest`` (None where undefined), and its ``findings``.

    Raises
    ------
    InputError
        If `runs` is empty.
    """
    contents = [content_of(run) for run in runs]
    if not contents:
        raise InputError("A run report needs at least one run; got none. Open one with fullspan.open_run.")
    return {
        "runs": [
            plain_summary(content) | {"findings": [_plain(each) for each in findings_of_run(content)]}
            for content in contents
        ]
    }


def _plain(noted: Noted) -> dict[str, Any]:
    return {
        "rule": noted.rule,
        "table": noted.table,
        "level": noted.level,
        "title": noted.title,
        "steps": [event.at.step for event in noted.events],
        "at_last_reading": None if noted.finding is None else asdict(noted.finding),
        "cause": noted.cause,
        "remedy": noted.remedy,
        "verify": noted.verify,
    }
