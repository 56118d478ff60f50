"""``fullspan measure``: numbers, verdicts, causes, remedies."""

from __future__ import annotations

from typing import Any

import click

from fullspan.cli.lazy import Command
from fullspan.cli.options import data_options, file_argument, option, output_options
from fullspan.cli.output import Sink
from fullspan.cli.progress import progress_bar

__all__ = ["measure", "run_measure", "split"]

_HELP = """Measure the embedding tables of FILE, and say what is wrong with them.

FILE is npy, npz, parquet, arrow, csv, tsv, jsonl, word2vec, GloVe, safetensors, a torch or Keras checkpoint, GGUF, a
faiss index, or the folder of a model or data set. It is read in one streaming pass, or two where a measure needs it.
Findings do not change the exit code: that is what `fullspan check` does.
"""
_EXAMPLES = """
fullspan measure model.safetensors
fullspan measure model.safetensors --table '*embed*' --out report.html
fullspan measure items.parquet --column vector --frequencies count --json
fullspan measure items.npy --measures gini_index,isotropy --by frequency
"""


@click.command(cls=Command, help=_HELP, examples=_EXAMPLES)
@file_argument()
@data_options
@option("--measures", "-m", metavar="A,B", section="Measures", help="Measures to take; see `fullspan measures`.")
@option("--all-measures", is_flag=True, section="Measures", help="Take every measure of one table.")
@option("--by", metavar="WHAT", section="Measures", help="Measure groups too: label, frequency, or a column.")
@option(
    "--sample",
    type=click.IntRange(2),
    default=4096,
    show_default=True,
    metavar="N",
    section="Measures",
    help="Rows that neighbors are searched in.",
)
@option("--no-neighbors", is_flag=True, section="Measures", help="Leave out what needs neighbors.")
@option("--no-errors", is_flag=True, section="Measures", help="Leave out standard errors (faster at large dims).")
@option(
    "--products",
    type=click.Choice(["float64", "float32"]),
    default="float64",
    show_default=True,
    section="Measures",
    help="How rows are multiplied; float32 halves the time at large dims and falls back where it cannot resolve.",
)
@option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    section="Measures",
    help="Seed of the sample.",
)
@option(
    "--rules",
    metavar="FILE",
    type=click.Path(),
    section="Measures",
    help="A fullspan.toml with thresholds of your own.",
)
@output_options()
def measure(file: str, form: str | None, as_json: bool, out: str | None, quiet: bool, **settings: Any) -> None:
    sink = Sink(form, as_json, out, quiet, (file, settings["rules"]))
    report = run_measure(file, quiet=quiet, **settings)
    sink.put(report)


def run_measure(
    file: Any,
    *,
    quiet: bool = False,
    table: tuple[str, ...] = (),
    measures: str | None = None,
    all_measures: bool = False,
    no_neighbors: bool = False,
    no_errors: bool = False,
    rules: str | None = None,
    **rest: Any,
) -> Any:
    """Call :func:`fullspan.measure` with what the options say, under a progress bar."""
    from fullspan.jobs.measure import measure as job

    if measures and all_measures:
        raise click.UsageError("--measures and --all-measures ask for two sets; give one of them.")
    with progress_bar(quiet) as told:
        return job(
            file,
            table=list(table) or None,
            measures=_every(rest.get("frequencies") is not None) if all_measures else split(measures),
            neighbors=not no_neighbors,
            standard_errors=not no_errors,
            thresholds=rules,
            progress=told,
            **rest,
        )


def split(measures: str | None) -> list[str] | None:
    """The names in ``a,b``, or None."""
    if measures is None:
        return None
    return [name.strip() for name in measures.split(",") if name.strip()]


def _every(frequencies: bool) -> list[str]:
    """All measures of one table; those that weigh rows only where frequencies are given."""
    from fullspan.measures import catalog

    left_out = set() if frequencies else {"frequency", "weighted_singular_values"}
    return [
        name for name, entry in catalog.CATALOG.items() if entry.read is not None and not left_out & set(entry.needs)
    ]
