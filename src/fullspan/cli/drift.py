"""``fullspan drift``: what changed between versions of a table."""

from __future__ import annotations

import click

from fullspan.cli.lazy import Command
from fullspan.cli.options import file_argument, option, output_options
from fullspan.cli.output import Sink
from fullspan.cli.progress import progress_bar

__all__ = ["drift"]

_HELP = """Compare each NEW version of a table with OLD: what changed in its numbers, and how far its rows moved.

Rows are aligned by id where both files have ids, else by position. With several versions, each is compared with OLD.
"""
_EXAMPLES = """
fullspan drift old.safetensors new.safetensors
fullspan drift monday.parquet tuesday.parquet --ids item --json
fullspan drift step-0.npy step-1000.npy step-2000.npy
"""
_FORMS = ("text", "json", "markdown")


@click.command(cls=Command, help=_HELP, examples=_EXAMPLES)
@file_argument("old")
@click.argument("new", metavar="NEW...", nargs=-1, required=True, type=click.Path())
@option("--table", "-t", metavar="NAME", section="Data", help="The one table to compare.")
@option("--column", metavar="NAME", section="Data", help="Column of the vectors, in both files.")
@option("--ids", metavar="COL", section="Data", help="Column of the row names, in both files.")
@option("--frequencies", metavar="COL", section="Data", help="Column of how often each row occurs.")
@option("--dtype", metavar="TYPE", section="Data", help="Stored type where the format leaves it open: float32x128.")
@option(
    "--align",
    type=click.Choice(["auto", "id", "position", "none"]),
    default="auto",
    show_default=True,
    section="Comparison",
    help="How rows find each other.",
)
@option("--measures", "-m", metavar="A,B", section="Comparison", help="Measures to set side by side.")
@option(
    "--sample",
    type=click.IntRange(2),
    default=2000,
    show_default=True,
    metavar="N",
    section="Comparison",
    help="Aligned rows behind neighbors and tests.",
)
@option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    section="Comparison",
    help="Seed of the sample.",
)
@output_options(_FORMS)
def drift(
    old: str,
    new: tuple[str, ...],
    form: str | None,
    as_json: bool,
    out: str | None,
    quiet: bool,
    measures: str | None,
    **rest: object,
) -> None:
    from fullspan.cli.measure import split
    from fullspan.jobs.drift import drift as job

    sink = Sink(form, as_json, out, quiet, (old, *new), _FORMS)
    with progress_bar(quiet) as told:
        reports = [job(old, each, measures=split(measures), progress=told, **rest) for each in new]  # type: ignore[arg-type]  # options by name
    sink.put_all(reports, new)
