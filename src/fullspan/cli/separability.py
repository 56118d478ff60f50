"""``fullspan separability``: how well labels separate over a training run, with and without normalizers."""

from __future__ import annotations

import json
import sys

import click

from fullspan.cli.lazy import Command
from fullspan.cli.options import debug_option, option
from fullspan.cli.output import Sink, speaks_unicode
from fullspan.cli.progress import progress_bar

__all__ = ["separability"]

_HELP = """How well labels separate in a table at every snapshot of RUN, with and without normalizers, side by side.

Neighbor purity and silhouette of the vectors, beside what they are when the labels are permuted. A normalizer is
none, center, l2, standardize, min-max or whiten, or several joined by +; gains are against the first one.
"""
_EXAMPLES = """
fullspan separability runs/mf --table item --labels genres.txt
fullspan separability runs/mf --labels items.parquet:genre --normalizer l2
fullspan separability runs/mf --metric euclidean --json
"""


@click.command(cls=Command, help=_HELP, examples=_EXAMPLES)
@click.argument("run", metavar="RUN", type=click.Path())
@option("--table", "-t", metavar="NAME", section="Data", help="The table to read, where the run has several.")
@option(
    "--labels",
    metavar="FILE",
    section="Data",
    help="Label of each row of the table, one a line, or FILE:COLUMN; by default those in the snapshots.",
)
@option(
    "--normalizer",
    "-n",
    "normalizers",
    metavar="NAME",
    multiple=True,
    section="Reading",
    help="Repeatable; by default none, center+l2 and standardize.",
)
@option(
    "--metric",
    type=click.Choice(["cosine", "euclidean"]),
    default="cosine",
    show_default=True,
    section="Reading",
    help="How rows are compared.",
)
@option(
    "-k", type=click.IntRange(1), default=10, show_default=True, section="Reading", help="Neighbors behind the purity."
)
@option(
    "--rows",
    type=click.IntRange(2),
    default=4096,
    show_default=True,
    section="Reading",
    help="At most so many rows, the same at every step.",
)
@option("--seed", type=click.IntRange(0), default=0, show_default=True, section="Reading", help="Seed of their choice.")
@option(
    "--out",
    "-o",
    metavar="FILE",
    type=click.Path(),
    section="Output",
    help="Write here, whole or not at all (txt, json).",
)
@option("--json", "as_json", is_flag=True, section="Output", help="Every number, as JSON.")
@option("--quiet", "-q", is_flag=True, section="Output", help="No progress.")
@debug_option
def separability(
    run: str,
    table: str | None,
    labels: str | None,
    normalizers: tuple[str, ...],
    metric: str,
    k: int,
    rows: int,
    seed: int,
    out: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    from fullspan.monitor.separability import separability as read

    sink = Sink(None, as_json, out, quiet, (run,), ("text", "json"))
    chosen = normalizers or ("none", "center+l2", "standardize")
    with progress_bar(quiet) as told:
        found = read(run, table, labels, chosen, metric=metric, k=k, rows=rows, seed=seed, progress=told)
    if sink.form == "json":
        sink.write(json.dumps(found.to_dict(), indent=2, allow_nan=False, ensure_ascii=False) + "\n")
    else:
        text = found.text() + "\n"
        sink.write(text if sink.to_file or speaks_unicode(sys.stdout) else _in_ascii(text))


def _in_ascii(text: str) -> str:
    from fullspan.jobs.formats.text import in_ascii

    return in_ascii(text)
