"""Every form a report can be shown in: a file a form, names and suffixes here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fullspan.errors import UnknownNameError, did_you_mean

__all__ = ["FORMATS", "format_of", "render"]

#: Format to the suffixes of files that ask for it. ``html`` is rendered by :mod:`fullspan.report.page`, one floor up.
FORMATS: dict[str, tuple[str, ...]] = {
    "text": (".txt", ".log"),
    "json": (".json",),
    "markdown": (".md", ".markdown"),
    "html": (".html", ".htm"),
    "junit": (".xml",),
    "github": (),
}


def format_of(path: str | None, default: str = "text") -> str:
    """The format that the suffix of `path` asks for, or `default`."""
    suffix = Path(path).suffix.lower() if path else ""
    return next((name for name, suffixes in FORMATS.items() if suffix in suffixes), default)


def render(report: Any, form: str, **options: Any) -> str:
    """The report as text of one of :data:`FORMATS` but ``html``; `options` are those of the text form."""
    if form == "text":
        from fullspan.jobs.formats.text import render_text

        return render_text(report, **options)
    if form == "json":
        return report.to_json() + "\n"
    if form == "markdown":
        from fullspan.jobs.formats.markdown import render_markdown

        return render_markdown(report)
    if form == "junit":
        from fullspan.jobs.formats.junit import render_junit

        return render_junit(report)
    if form == "github":
        from fullspan.jobs.formats.github import render_github

        return render_github(report)
    raise UnknownNameError(f'No format is named "{form}".{did_you_mean(form, FORMATS)} Formats: {", ".join(FORMATS)}.')
