"""``fullspan apply``: map a table with a saved fit."""

from __future__ import annotations

import json
from typing import Any

import click

from fullspan.cli.lazy import Command
from fullspan.cli.options import debug_option, file_argument, option
from fullspan.cli.output import echo
from fullspan.cli.progress import progress_bar

__all__ = ["apply"]

_HELP = """Map the rows of FILE with the saved fit NORM, block by block, into a new file.

Parquet and Arrow files keep their other columns, safetensors files their other tensors. A run that was interrupted
goes on where it stopped when the same command is given again. The output appears when it is whole.
"""
_EXAMPLES = """
fullspan apply items.norm items.parquet -o items.normalized.parquet
fullspan apply items.norm items.npy -o items.safetensors --dtype float16
fullspan apply words.norm glove.txt -o words.vec.gz
"""
_POLICY = click.Choice(["error", "skip", "keep"])


@click.command(cls=Command, help=_HELP, examples=_EXAMPLES)
@file_argument("norm")
@file_argument()
@option("--zero-rows", type=_POLICY, section="Apply", help="Rows of zeros; by default as they were fitted.")
@option("--nan-rows", type=_POLICY, section="Apply", help="Rows with NaN or infinity; by default as fitted.")
@option("--again", is_flag=True, section="Apply", help="Map rows that this very fit has mapped already.")
@option("--table", "-t", metavar="NAME", section="Data", help="Table to take, of several.")
@option("--column", metavar="NAME", section="Data", help="Column of the vectors.")
@option("--ids", metavar="COL|FILE", section="Data", help="Name of each row: a column, or a file with one a line.")
@option("--out", "-o", metavar="FILE", type=click.Path(), required=True, section="Output", help="Where to write.")
@option(
    "--dtype",
    type=click.Choice(["float16", "float32", "float64"]),
    section="Output",
    help="Type to write; by default that of the input.",
)
@option("--force", is_flag=True, section="Output", help="Replace a file that stands there.")
@option("--no-resume", is_flag=True, section="Output", help="Begin anew, whatever an interrupted run has left.")
@option("--json", "as_json", is_flag=True, section="Output", help="Say what was written as JSON.")
@option("--quiet", "-q", is_flag=True, section="Output", help="No progress, no words.")
@debug_option
def apply(norm: str, file: str, out: str, no_resume: bool, as_json: bool, quiet: bool, **rest: Any) -> None:
    from fullspan.jobs.apply import apply as job

    with progress_bar(quiet) as told:
        done = job(norm, file, out, resume=not no_resume, progress=told, **rest)
    if as_json:
        echo(json.dumps(done.to_dict(), indent=2, allow_nan=False) + "\n")
        return
    if quiet:
        return
    lines = [f"Wrote {out}: {done.n_rows} rows of {done.dim} numbers, {done.dtype}, {done.format}."]
    if done.resumed_rows:
        lines.append(f"Continued after {done.resumed_rows} rows that an interrupted run had written.")
    if done.left_rows:
        lines.append(f"Rows left as they were: {done.left_rows}.")
    echo("\n".join([*lines, *done.notes]) + "\n")
