"""A report as one HTML file: no network, no other file, and nothing from the data that a browser would run."""

from __future__ import annotations

import base64
import functools
import hashlib
import math
import os
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from fullspan.errors import InputError
from fullspan.jobs.formats import words
from fullspan.jobs.formats.write import write_output
from fullspan.jobs.results import TableReport
from fullspan.report.figures import figures_of, heat_map
from fullspan.store.records import Reading

__all__ = ["render_page", "write_page"]

#: The numbers on top of a table's part of the page, where it has them.
_HEADLINES = ("information_abundance", "effective_rank", "average_cosine", "isotropy", "mean_norm", "gini_index")
_MOST_HEADLINES = 4
_MARKS = {"fail": "✗", "warn": "▲", "note": "•", "ok": "✓", "waived": "○"}
_SAID = {"fail": "failure", "warn": "warning", "note": "note", "ok": "passed", "waived": "waived"}


def render_page(report: Any) -> str:
    """The page as text.

    Parameters
    ----------
    report
        What :func:`fullspan.measure` returns.

    Returns
    -------
    str
        An HTML document that opens from the disk: styles, figures (SVG) and a small script are inside, its Content
        Security Policy allows that script only, and every name from the data is escaped.

    Raises
    ------
    InputError
        If `report` has no tables.

    Examples
    --------
    >>> import numpy as np
    >>> import fullspan as fs
    >>> render_page(fs.measure(np.eye(4)))[:15]
    '<!doctype html>'
    """
    if not hasattr(report, "tables") or not len(report):
        raise InputError(
            f"A page needs a report with at least one table; got {type(report).__name__}. "
            "Make one with fullspan.measure."
        )
    environment = _environment()
    script = _source(environment, "page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("page.html").render(
        style=Markup(_source(environment, "page.css")),  # noqa: S704 (a file of this package)
        script=Markup(script),  # noqa: S704 (likewise)
        digest=digest,
        tables=[_view(table, position) for position, table in enumerate(report)],
        heat_map=heat_map(report.fields) if len(report) > 1 else None,
        provenance=_provenance(report.provenance),
        worst=report.worst,
    )


def write_page(report: Any, path: str | os.PathLike[str]) -> None:
    """Write the page of a report to `path`, whole or not at all.

    Parameters
    ----------
    report
        What :func:`fullspan.measure` returns.
    path
        Where to; an old file there is replaced when the new one is complete.

    Raises
    ------
    InputError
        If `report` has no tables, or `path` is a directory.
    OutputError
        If the file cannot be written.

    Examples
    --------
    >>> import numpy as np
    >>> import fullspan as fs
    >>> write_page(fs.measure(np.eye(4)), "report.html")  # doctest: +SKIP
    """
    write_output(render_page(report), path)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("fullspan.report", "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "clean": words.clean,
        "number": words.number,
        "evidence": words.evidence_line,
        "link": words.link_of,
        "parts": words.remedy_parts,
        "title": words.title_of,
    }
    environment.globals |= {"marks": _MARKS, "said": _SAID, "label": _label}
    return environment


def _source(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _label(key: str) -> str:
    return words.clean(key).replace("_", " ")


def _view(table: TableReport, position: int) -> dict[str, Any]:
    """What the template shows of one table."""
    record = table.record
    grades = words.blamed(finding for finding in table.findings if finding.group is None)
    rows = [_row(reading, grades.get(reading.measure)) for reading in record.readings.values()]
    headlines = [row for name in _HEADLINES for row in rows if row["name"] == name and row["defined"]]
    return {
        "key": f"table-{position + 1}",
        "name": record.table or "table",
        "record": record,
        "shape": words.shape_of(record),
        "facts": words.facts(record),
        "worst": table.worst,
        "verdict": words.verdict(table.findings, len(record.readings)),
        "findings": words.by_severity(table.findings),
        "headlines": headlines[:_MOST_HEADLINES],
        "rows": rows,
        "groups": _groups(record.groups),
        "hygiene": _hygiene(record.hygiene),
        "figures": figures_of(record),
    }


def _row(reading: Reading, grade: str | None) -> dict[str, Any]:
    return {
        "name": reading.measure,
        "title": words.titled(reading.measure),
        "plain": _label(reading.measure).capitalize(),
        "arrow": words.arrow(reading.measure),
        "value": words.value_of(reading),
        "error": words.error_of(reading),
        "null": words.null_of(reading),
        "grade": grade,
        "why": reading.why,
        "defined": bool(_sortable(reading.value)),
        "track": _track(reading, grade),
        "sort": _sortable(reading.value),
        "sort_error": _sortable(reading.standard_error),
        "sort_null": _sortable(reading.null),
    }


def _sortable(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else repr(float(value))


def _track(reading: Reading, grade: str | None) -> Markup:
    """A short line with the value (dot) and the isotropic one (tick)."""
    value, null = reading.value, reading.null
    if value is None or null is None or not (math.isfinite(value) and math.isfinite(null)):
        return Markup("")
    low, high = min(0.0, value, null), max(value, null, 0.0)
    if not high > low:
        return Markup("")

    def place(x: float) -> float:
        return 5 + 90 * (x - low) / (high - low)

    return Markup(
        '<svg class="track" viewBox="0 0 100 14" preserveAspectRatio="xMinYMid" aria-hidden="true">'
        '<line class="rail" x1="2" x2="98" y1="7" y2="7"/>'
        '<line class="mark" x1="{:.1f}" x2="{:.1f}" y1="1.5" y2="12.5"/>'
        '<circle class="{}" cx="{:.1f}" cy="7" r="3.6"/></svg>'
    ).format(place(null), place(null), grade or "ok", place(value))


def _groups(groups: Any) -> dict[str, Any] | None:
    """The groups as one table: a row a measure, a column a group."""
    if not groups:
        return None
    measures = list(dict.fromkeys(name for some in groups.values() for name in some))
    cells = [[words.value_of(some[name]) if name in some else "" for some in groups.values()] for name in measures]
    return {"names": list(groups), "rows": list(zip(measures, cells, strict=True))}


def _hygiene(hygiene: Any) -> list[dict[str, Any]]:
    """What is damaged: the counts that are not zero, with the places."""
    found = []
    for key, each in hygiene.items():
        if not isinstance(each, dict) or not each.get("count"):
            continue
        places = each.get("rows") or each.get("columns") or []
        if not places and each.get("groups"):
            places = [
                row for group in each["groups"] for row in (group.get("rows", []) if isinstance(group, dict) else group)
            ]
        found.append({"what": _label(key), "count": each["count"], "places": words.places(places, 8) if places else ""})
    return found


def _provenance(provenance: Any) -> list[tuple[str, str]]:
    shown = []
    for key, value in provenance.items():
        if isinstance(value, (list, tuple)):
            value = ", ".join(map(str, value))
        shown.append((_label(key), words.clean(value)))
    return shown
