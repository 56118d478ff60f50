"""Training runs as one HTML file: curves, spectra and maps through time, findings, and runs side by side."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from fullspan.errors import InputError
from fullspan.jobs.formats import words
from fullspan.jobs.formats.write import write_output
from fullspan.report.page import _environment, _source
from fullspan.report.run_content import Content, content_of
from fullspan.report.run_data import measures_of, run_data
from fullspan.report.run_findings import Noted, findings_of_run
from fullspan.report.run_summary import headlines_of, run_facts, status_of, summary_of
from fullspan.store.records import MapFrames

__all__ = ["render_run_page", "write_run_page"]

_SCRIPTS = ("run_core.js", "run_curves.js", "run_spectra.js", "run_maps.js", "run_tabs.js")
_SAID = {"fail": "failure", "warn": "warning", "note": "note", "error": "error"}
_MARKS = {"fail": "✗", "error": "✗", "warn": "▲", "note": "•", "ok": "✓"}
_MOST_FINDINGS = 120
#: Tables with the same finding that are shown one by one; of more, the first is and the others are listed under it.
_MOST_APART = 3


def render_run_page(
    runs: Sequence[Any], maps: Sequence[MapFrames | tuple[int, MapFrames]] = (), title: str | None = None
) -> str:
    """The page of one training run, or of several side by side, as text.

    Parameters
    ----------
    runs
        Readers of :mod:`fullspan.store.runs`, in the order in which they are compared.
    maps
        Maps of tables through time: each belongs to the first run, or to the one whose position it is paired with.
    title
        The heading; by default the names of the runs.

    Returns
    -------
    str
        An HTML document that opens from the disk. Its numbers are inside as JSON and base64, its Content Security
        Policy allows only its own scripts, and every name from the data is escaped.

    Raises
    ------
    InputError
        If `runs` is empty, or a map is paired with no run.

    Notes
    -----
    20 frames of 10,000 points take about 1.3 MB. Past 240,000 values the curves are thinned to the extremes of each
    stretch, with full passes kept; the page says where.

    Examples
    --------
    >>> import fullspan as fs
    >>> render_run_page([fs.open_run("runs/mf")])[:15]  # doctest: +SKIP
    '<!doctype html>'
    """
    contents = _distinct([content_of(run) for run in runs])
    if not contents:
        raise InputError("A run page needs at least one run; got none. Open one with fullspan.open_run.")
    placed = _maps_of(contents, maps)
    environment = _environment()
    scripts = [_source(environment, "page.js"), _run_script(environment)]
    views = [_view(content, findings_of_run(content)) for content in contents]
    plain = {
        "runs": [run_data(content, some) for content, some in zip(contents, placed, strict=True)],
        "measures": measures_of(contents),
    }
    parts = _parts(plain, views)
    style = _source(environment, "page.css") + _source(environment, "run.css")
    return environment.get_template("run.html").render(
        title=title or _title(views),
        style=Markup(style),  # noqa: S704 (files of this package)
        scripts=[Markup(script) for script in scripts],  # noqa: S704
        digests=[base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts],
        data=_json(plain),
        views=views,
        head=list(dict.fromkeys(name for view in views for name in view["cells"])),
        worst=_worst(views),
        parts=parts,
        shown={key for key, _, _ in parts},
        summary=summary_of(contents),
        marks=_MARKS,
    )


def write_run_page(
    path: str | os.PathLike[str],
    runs: Sequence[Any],
    maps: Sequence[MapFrames | tuple[int, MapFrames]] = (),
    title: str | None = None,
) -> None:
    """Write the page of one or several training runs to `path`, whole or not at all.

    Parameters
    ----------
    path
        Where to; an old file there is replaced when the new one is complete.
    runs, maps, title
        As in :func:`render_run_page`.

    Raises
    ------
    InputError
        As :func:`render_run_page` does, or if `path` is a directory.
    OutputError
        If the file cannot be written.

    Examples
    --------
    >>> import fullspan as fs
    >>> run = fs.open_run("runs/mf")  # doctest: +SKIP
    >>> write_run_page("mf.html", [run], [fs.project(run, "item", "pacmap")])  # doctest: +SKIP
    """
    write_output(render_run_page(runs, maps, title), path)


def _distinct(contents: list[Content]) -> list[Content]:
    """Runs with names of their own: what else is called the same gets the name of its directory, or a number."""
    taken: set[str] = set()
    named = []
    for content in contents:
        twins = sum(other.name == content.name for other in contents) > 1
        wanted = words.clean(Path(content.path).name) if twins and content.path else content.name
        count, name = 1, wanted
        while name in taken:
            count += 1
            name = f"{wanted} ({count})"
        taken.add(name)
        named.append(replace(content, name=name))
    return named


def _maps_of(runs: Sequence[Content], maps: Sequence[MapFrames | tuple[int, MapFrames]]) -> list[list[MapFrames]]:
    placed: list[list[MapFrames]] = [[] for _ in runs]
    for each in maps:
        place, frames = each if isinstance(each, tuple) else (0, each)
        if not 0 <= place < len(runs):
            raise InputError(
                f"A map needs the position of one of the {len(runs)} runs; got {place}. Positions start at 0."
            )
        if frames.positions.size:
            placed[place].append(frames)
    return placed


def _run_script(environment: Environment) -> str:
    """The parts of the script as one: they share their names with each other and with nobody else."""
    inside = "\n".join(_source(environment, name) for name in _SCRIPTS)
    return f'"use strict";\n(() => {{\n{inside}\n}})();'


def _json(plain: Any) -> Markup:
    """JSON that no parser of HTML takes for the end of its script, or for a comment."""
    text = json.dumps(plain, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704 (every sign that HTML knows is escaped)


def _view(run: Content, noted: Sequence[Noted]) -> dict[str, Any]:
    """What the template shows of one run."""
    status = status_of(run)
    findings = _grouped(noted)
    kinds = [each["kind"] for each in findings]
    return {
        "name": run.name,
        "said": status.said,
        "grade": status.grade,
        "worst": next((kind for kind in ("fail", "warn", "error") if kind in kinds or kind == status.grade), "ok"),
        "found": _counted(noted),
        "count": len(noted),
        "facts": run_facts(run),
        "headlines": headlines_of(run),
        "cells": {each["name"]: each["value"] for each in headlines_of(run)},
        "findings": findings,
        "judged": bool(run.tables),
        "provenance": _provenance(run),
    }


def _grouped(noted: Sequence[Noted]) -> list[dict[str, Any]]:
    """Findings with those of the same rule and level on other tables under the first one, where they are many."""
    groups: dict[tuple[str, str], list[Noted]] = {}
    for each in noted:
        groups.setdefault((each.rule or each.title, each.level), []).append(each)
    shown: list[dict[str, Any]] = []
    for some in groups.values():
        apart = len(some) <= _MOST_APART
        shown += [
            _shown(each) | {"also": [] if apart else [_shown(other) for other in some[1:]]}
            for each in some[: None if apart else 1]
        ]
    return shown[:_MOST_FINDINGS]


def _shown(each: Noted) -> dict[str, Any]:
    return {
        "kind": each.level if each.level in _SAID else "note",
        "said": _SAID.get(each.level, "note"),
        "title": _sentence(each.title),
        "rule": words.clean(each.rule),
        "table": words.clean(each.table),
        "when": each.when,
        "evidence": each.evidence,
        "cause": each.cause,
        "remedy": each.remedy,
        "verify": each.verify,
        "docs": each.docs,
    }


def _sentence(title: str) -> str:
    text = words.clean(title)
    return text[:1].upper() + text[1:] if text[:1].islower() and text.split(" ", 1)[0].isalpha() else text


def _counted(noted: Sequence[Noted]) -> str:
    """``1 failure, 2 warnings``: how many findings of each level there are."""
    counts = [(level, sum(each.level == level for each in noted)) for level in _SAID]
    return ", ".join(words.count(number, _SAID[level]) for level, number in counts if number)


def _worst(views: Sequence[dict[str, Any]]) -> str:
    kinds = {view["worst"] for view in views}
    return next((kind for kind in ("fail", "warn", "error") if kind in kinds), "ok").replace("error", "warn")


def _parts(plain: dict[str, Any], views: Sequence[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Tabs of the page: key, name, and how many things are inside."""
    runs = plain["runs"]
    parts = [("curves", "Curves", "")] if any(run["curves"] for run in runs) else []
    if any(run["spectra"] for run in runs):
        parts.append(("spectra", "Spectra", ""))
    if any(run["maps"] for run in runs):
        parts.append(("maps", "Maps", ""))
    count = sum(view["count"] for view in views)
    return [
        *parts,
        ("findings", "Findings", f"{count:,}" if count else ""),
        ("numbers", "Comparison" if len(runs) > 1 else "Numbers", ""),
    ]


def _title(views: Sequence[dict[str, Any]]) -> str:
    names = [view["name"] for view in views]
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} runs: {names[0]}, {names[1]}, …"


def _provenance(run: Content) -> list[tuple[str, str]]:
    """Where the run lies, when it was made, and what it was configured with."""
    from fullspan import __version__

    shown = [("run", run.name), ("path", run.path), ("status", run.status)]
    shown.append(("page made", dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")))
    shown.append(("fullspan", __version__))
    shown += [(f"config {key}", value) for key, value in run.config.items()]
    return [(words.clean(key), words.clean(value)[:2000]) for key, value in shown if value not in ("", None)]
