"""Where a report goes and how it looks there."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, TextIO

import click

from fullspan.jobs.formats import format_of, render
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

    def __init__(self, form: str | None, as_json: bool, out: str | None, quiet: bool, inputs: tuple[Any, ...]) -> None:
        if as_json and form not in (None, "json"):
            raise click.UsageError(f"--json and --format {form} ask for two forms; give one of them.")
        self.form = "json" if as_json else form or format_of(out)
        self.out, self.quiet, self.inputs = out, quiet, inputs
        if out is not None and out != "-":
            check_target(out, inputs)

    @property
    def to_file(self) -> bool:
        return self.out is not None and self.out != "-"

    def put(self, report: Any) -> None:
        """Render the report and write it."""
        text = self._text(report)
        if self.to_file:
            assert self.out is not None
            write_output(text, self.out, inputs=self.inputs)
        else:
            echo(text)

    def _text(self, report: Any) -> str:
        if self.form == "html":
            from fullspan.report.page import render_page

            return render_page(report)
        if self.form != "text":
            return render(report, self.form)
        looks = {"readings": not self.quiet}
        if not self.to_file:
            looks |= {"width": width_of(sys.stdout), "color": colored(sys.stdout), "ascii_only": not speaks_unicode(sys.stdout)}
        if hasattr(report, "to_text") and not hasattr(report, "tables"):
            return report.to_text(**looks)
        return render(report, "text", **looks)


def print_rich(*things: Any, color: bool) -> None:
    """Print what rich can lay out to standard output, in the width and with the signs that it can show."""
    import io

    from rich.console import Console

    held = io.StringIO()
    system = "standard" if color else None
    console = Console(
        file=held, width=width_of(sys.stdout), force_terminal=color, color_system=system, highlight=False, markup=False, emoji=False
    )
    for thing in things:
        console.print(thing)
    text = "\n".join(line.rstrip() for line in held.getvalue().splitlines()) + "\n"
    if not speaks_unicode(sys.stdout):
        from fullspan.jobs.formats.text import in_ascii

        text = in_ascii(text)
    echo(text)
