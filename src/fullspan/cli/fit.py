"""``fullspan fit``: learn a normalization from a table."""

from __future__ import annotations

import json
from typing import Any

import click

from fullspan.cli.lazy import Command
from fullspan.cli.options import debug_option, file_argument, option
from fullspan.cli.output import echo
from fullspan.cli.progress import progress_bar

__all__ = ["fit"]

_HELP = """Fit a chain of normalizers to the rows of FILE, and save it.

The chain is read in as few passes as it allows; how many is said before it reads. The saved file is safetensors, with
what was fitted, to how many rows, and the moments that `fullspan verify` compares stored vectors with.
"""
_EXAMPLES = """
fullspan fit items.parquet -s "center | whiten(power=0.5) | l2" -o items.norm
fullspan fit items.parquet --column v --nan-rows skip -s standardize -o a.norm
fullspan fit items.npy --from report.json -o items.norm
"""
_POLICY = click.Choice(["error", "skip", "keep"])


@click.command(cls=Command, help=_HELP, examples=_EXAMPLES)
@file_argument()
@option("--strategy", "-s", metavar="TEXT", section="Fit", help='Steps joined by |: "center | whiten | l2".')
@option(
    "--from", "report", metavar="FILE|DIR", type=click.Path(), section="Fit", help="Take what a comparison recommends."
)
@option("--weighted", is_flag=True, section="Fit", help="Rows count as often as --frequencies say.")
@option("--zero-rows", type=_POLICY, section="Fit", help="What to do with rows of zeros.")
@option("--nan-rows", type=_POLICY, section="Fit", help="What to do with rows with NaN or infinity.")
@option("--table", "-t", metavar="NAME", section="Data", help="Table to take, of several.")
@option("--column", metavar="NAME", section="Data", help="Column of the vectors; a glob where each dimension has one.")
@option("--frequencies", metavar="COL|FILE", section="Data", help="How often each row occurs: a column, or a file.")
@option("--dtype", metavar="TYPE", section="Data", help="Stored type where the format leaves it open: float32x128.")
@option("--out", "-o", metavar="FILE", type=click.Path(), required=True, section="Output", help="Where to save it.")
@option("--force", is_flag=True, section="Output", help="Replace a file that stands there.")
@option("--json", "as_json", is_flag=True, section="Output", help="Say what was fitted as JSON.")
@option("--quiet", "-q", is_flag=True, section="Output", help="No progress, no words.")
@debug_option
def fit(
    file: str, strategy: str | None, report: str | None, out: str, force: bool, as_json: bool, quiet: bool, **rest: Any
) -> None:
    from pathlib import Path

    from fullspan.errors import InputError
    from fullspan.jobs.fit import chain_of, strategy_from
    from fullspan.jobs.fit import fit as job
    from fullspan.jobs.formats.write import check_target
    from fullspan.normalize.persist import save, transform_id

    if (strategy is None) == (report is None):
        raise click.UsageError("fit needs either --strategy or --from.")
    check_target(out, (file, report))
    if Path(out).exists() and not force:
        raise InputError(f"fit needs an output that does not exist; got {out!r}. Pass --force to replace it.")
    text = strategy if strategy is not None else strategy_from(report)
    passes = chain_of(text, rest["zero_rows"], rest["nan_rows"]).passes
    if not quiet:
        source = f" (recommended by {report})" if report else ""
        click.echo(
            f"Fitting {text}{source}: {passes} pass{'' if passes == 1 else 'es'}, then one for a stamp.", err=True
        )
    with progress_bar(quiet) as told:
        folded = job(file, text, progress=told, **rest)
    save(folded, out)
    facts = {
        "path": out,
        "transform_id": transform_id(folded),
        "dim_in": folded.dim_in,
        "dim_out": folded.dim_out,
        **{key: folded.info.get(key) for key in ("strategy", "fingerprint", "n_rows", "passes", "counts")},
    }
    if as_json:
        echo(json.dumps(facts, indent=2, allow_nan=False) + "\n")
    elif not quiet:
        counts = facts["counts"]
        echo(
            f"Saved {out}: {facts['strategy']}, {facts['n_rows']} rows of {folded.dim_in} to {folded.dim_out} numbers, "
            f"id {facts['transform_id']}.\nRows of zeros: {counts['zero']}, with NaN: {counts['nan']}, with infinity: "
            f"{counts['infinite']}.\n"
        )
