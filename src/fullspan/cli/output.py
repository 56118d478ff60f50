"""Where a report goes and how it looks there."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import click

from fullspan.jobs.formats import FORMATS, format_of, render
from fullspan.jobs.formats.words import clean
from fullspan.jobs.formats.write import check_target, write_output

__all__ = ["Sink", "colored", "echo", "print_rich", "speaks_unicode", "width_of"]


def colored(stream: TextIO) -> bool:
    """Whether `stream` gets colors: only a terminal does, unless NO_COLOR or FORCE_COLOR says otherwise."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int:
    """Columns to fill: those of the terminal up to 100, or 80."""
    if not stream.isatty() and "COLUMNS" not in os.environ:
        return 80
    return max(40, min(100, shutil.get_terminal_size((80, 24)).columns))


def speaks_unicode(stream: TextIO) -> bool:
    """Whether the encoding of `stream` can hold the signs of a report."""
    try:
        "✗▲•±↑●┆─×".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def echo(text: str) -> None:
    """Write to standard output; what its encoding cannot hold is escaped."""
    stream = sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


class Sink:
    """The form and the place that the options ask for, checked before any work is done.

    Parameters
    ----------
    form, as_json, out
        What ``--format``, ``--json`` and ``--out`` say.
    quiet
        Whether text leaves out the table of readings.
    inputs
        Paths that are read, and so must not be written.
    """

    def __init__(
        self,
        form: str | None,
        as_json: bool,
        out: str | None,
        quiet: bool,
        inputs: tuple[Any, ...],
        forms: Sequence[str] = tuple(FORMATS),
    ) -> None:
        if as_json and form not in (None, "json"):
            raise click.UsageError(f"--json and --format {form} ask for two forms; give one of them.")
        self.form = "json" if as_json else form or format_of(out)
        if self.form not in forms:
            raise click.UsageError(
                f"--out {out} asks for {self.form}, which this command cannot write; it has {', '.join(forms)}."
            )
        self.out, self.quiet, self.inputs = out, quiet, inputs
        if out is not None and out != "-":
            check_target(out, inputs)

    @property
    def to_file(self) -> bool:
        return self.out is not None and self.out != "-"

    def put(self, report: Any) -> None:
        """Render the report and write it."""
        self.write(self._text(report))

    def put_all(self, reports: Sequence[Any], names: Sequence[str]) -> None:
        """Render one report as it is; several under their names, in JSON as one object."""
        if len(reports) == 1:
            self.put(reports[0])
        elif self.form == "json":
            parts = {name: report.to_dict() for name, report in zip(names, reports, strict=True)}
            self.write(_dumped(parts))
        else:
            lead = "# " if self.form == "markdown" else ""
            self.write(
                "\n".join(
                    f"{lead}{clean(name)}\n\n{self._text(each)}" for name, each in zip(names, reports, strict=True)
                )
            )

    def write(self, text: str) -> None:
        """Write what is rendered already."""
        if self.to_file:
            assert self.out is not None
            write_output(text, self.out, inputs=self.inputs)
        else:
            echo(text)

    def _text(self, report: Any) -> str:
        if self.form == "html":
            from fullspan.report.page import render_page

            return render_page(report)
        if self.form == "json":
            return _json(report)
        if self.form == "markdown":
            return report.to_markdown()
        if self.form == "text" and hasattr(report, "exit_code"):
            from fullspan.jobs.formats.check import render_check

            return render_check(report, findings=not self.quiet, **self._looks())
        if self.form == "text":
            rows = {"readings": False} if self.quiet and hasattr(report, "findings") else {}
            return report.to_text(**rows, **self._looks())
        return render(report, self.form)

    def _looks(self) -> dict[str, Any]:
        if self.to_file:
            return {}
        stream = sys.stdout
        return {"width": width_of(stream), "color": colored(stream), "ascii_only": not speaks_unicode(stream)}


def _json(report: Any) -> str:
    return report.to_json() + "\n" if hasattr(report, "to_json") else _dumped(report.to_dict())


def _dumped(plain: Any) -> str:
    return (
        json.dumps(
            plain, indent=2, allow_nan=False, default=lambda each: each.item() if hasattr(each, "item") else str(each)
        )
        + "\n"
    )


def print_rich(*things: Any, color: bool) -> None:
    """Print what rich can lay out to standard output, in the width and with the signs that it can show."""
    import io

    from rich.console import Console

    held = io.StringIO()
    system = "standard" if color else None
    console = Console(
        file=held,
        width=width_of(sys.stdout),
        force_terminal=color,
        color_system=system,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for thing in things:
        console.print(thing)
    text = "\n".join(line.rstrip() for line in held.getvalue().splitlines()) + "\n"
    if not speaks_unicode(sys.stdout):
        from fullspan.jobs.formats.text import in_ascii

        text = in_ascii(text)
    echo(text)
