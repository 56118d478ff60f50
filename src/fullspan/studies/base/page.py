"""A study as one HTML file: claims with their answers, figures, tables and provenance; no network, no script."""

from __future__ import annotations

import base64
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from fullspan.jobs.formats.words import clean
from fullspan.studies.base.claims import ANSWERS
from fullspan.studies.base.result import StudyResult

__all__ = ["render_study"]

_KINDS = dict(zip(ANSWERS, ("holds", "fails", "undecided", "untestable"), strict=True))
_SIGNS = dict(zip(ANSWERS, ("✓", "✗", "?", "–"), strict=True))


def render_study(
    result: StudyResult, figures: Sequence[tuple[Any, Mapping[str, bytes]]] = (), tables: Sequence[Any] = ()
) -> str:
    """The page as text.

    Parameters
    ----------
    result
        What a study found.
    figures
        Each with what :func:`fullspan.studies.base.figures.save` gave for it.
    tables
        Tables to show, closed at first.

    Returns
    -------
    str
        An HTML document that opens from the disk and loads nothing: its Content Security Policy allows neither network
        nor scripts, and every text is escaped.
    """
    environment = _environment()
    return environment.get_template("study.html").render(
        style=Markup(_source(environment, "study.css")),  # noqa: S704 (a file of this package)
        result=result,
        counts=[(name, sum(claim.answer == name for claim in result.claims)) for name in ANSWERS],
        figures=[(each, _inlined(made["svg"])) for each, made in figures],
        tables=tables,
        columns=list(result.effects[0]) if result.effects else [],
        provenance=list(_flat(result.provenance)),
    )


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("fullspan.studies.base", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"clean": clean, "signed": _signed, "shown": _shown}
    environment.globals |= {"kinds": _KINDS, "signs": _SIGNS}
    return environment


def _source(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _inlined(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.4f}"


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:+.4f}"
    return "–" if value is None else clean(value)


def _flat(plain: Mapping[str, Any], lead: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in plain.items():
        name = f"{lead}{key}".replace("_", " ")
        rows += _flat(value, f"{name}: ") if isinstance(value, Mapping) else [(name, clean(value))]
    return rows
