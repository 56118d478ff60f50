"""``fullspan demo``: the main job on the table that ships with the package, and a short training that is watched."""

from __future__ import annotations

import contextlib
import logging
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fullspan.cli.lazy import Command
from fullspan.cli.measure import run_measure
from fullspan.cli.options import option, output_options
from fullspan.cli.output import Sink, echo

if TYPE_CHECKING:
    from fullspan.cli.demo_training import Pairs, Trained

__all__ = ["demo"]

_HELP = """Measure the bundled table, the 20,000 most frequent words of GloVe 6B, and watch a short training.

The training is a small matrix factorization in NumPy: of MovieLens where it is on this machine already (`fullspan
datasets` lists the places), else of pairs of the bundled words. Nothing is downloaded.
"""
_EXAMPLES = """
fullspan demo
fullspan demo --out glove.html
fullspan demo --folder runs/demo
"""
_SHOWN = ("gini_index", "spectral_entropy", "information_abundance", "mean_norm_ratio")
_MARKS = {"fail": "FAIL", "warn": "warn"}


@click.command(cls=Command, help=_HELP, examples=_EXAMPLES)
@option(
    "--folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    section="Training",
    help="Where the watched training and its page go; by default a new temporary folder.",
)
@option("--no-training", is_flag=True, section="Training", help="Only measure the bundled table.")
@output_options()
def demo(
    folder: Path | None,
    no_training: bool,
    form: str | None,
    as_json: bool,
    out: str | None,
    quiet: bool,
) -> None:
    from fullspan.datasets.bundled import glove_path

    path = glove_path()
    sink = Sink(form, as_json, out, quiet, (path,))
    report = run_measure(path, quiet=quiet, column="vector", ids="word", frequencies="zipf_frequency")
    sink.put(report)
    if not sink.to_file and sink.form != "text":
        return
    if sink.to_file:
        echo(f"Wrote {sink.out}.\n")
    trained = None if no_training else _watched(folder)
    _next(trained, sink.to_file)


def _watched(folder: Path | None) -> Trained:
    """Train, and say what was seen."""
    from fullspan.cli.demo_training import BATCH, DIM, EPOCHS, pairs, train

    data = pairs()
    epochs = f"{EPOCHS} epochs of {-(-len(data.training) // BATCH)} steps"
    echo(f"\nA training, watched: {data.about}.\n")
    echo(f"Matrix factorization in NumPy: {DIM} dimensions, Adam, {epochs}.\n\n")
    sys.stdout.flush()  # a reader that has seen enough ends the demo here
    folder = Path(tempfile.mkdtemp(prefix="fullspan-demo-")) if folder is None else folder
    with _without_log():
        trained = train(data, folder)
    _tell(data, trained)
    return trained


@contextlib.contextmanager
def _without_log() -> Iterator[None]:
    """Keep what the watcher logs from standard error: the demo prints it in its own place."""
    logger, handler = logging.getLogger("fullspan.monitor"), logging.NullHandler()
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def _tell(data: Pairs, trained: Trained) -> None:
    from fullspan.store.runs import open_run

    first, last = trained.losses
    echo(f"  loss {first:.3f} -> {last:.3f}, of held-out pairs {trained.test_loss:.3f}\n\n")
    with open_run(trained.run) as run:
        rows = [["", *_SHOWN], *([name, *(_ends(run, name, each) for each in _SHOWN)] for name in data.names)]
        events = [each for each in run.events() if each.level in _MARKS]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        echo("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n")
    if events:
        echo("\n  What the rules said meanwhile:\n")
    for each in events:
        text = f"{_MARKS[each.level]} step {each.at.step}, {each.table}: {each.message}"
        echo(textwrap.fill(text, 96, initial_indent="  ", subsequent_indent="       ") + "\n")
    echo(
        f"\n  Watching took {100 * trained.overhead:.0f}% of the time of this training, as short as it is: every epoch "
        "was read\n  whole, and mapped. Left to itself, a watcher keeps to 1%.\n"
    )


def _ends(run: Any, table: str, measure: str) -> str:
    """First and last value of a curve."""
    values = run.curve(table, measure).value
    return f"{values[0]:.3f} -> {values[-1]:.3f}"


def _next(trained: Trained | None, to_file: bool) -> None:
    if trained is not None:
        echo(f"\nWrote {trained.page}: curves, spectra, maps and findings of the training\n")
    what = ["one measure explained", "your own table"]
    lines = ["fullspan measures average_cosine", "fullspan measure YOUR_FILE"]
    if not to_file:
        what.insert(0, "the table with figures")
        lines.insert(0, "fullspan demo --out glove.html --no-training")
    if trained is not None:
        what.append("the run, and a study of MovieLens")
        lines += [f"fullspan runs {trained.run.parent}", "fullspan study movielens"]
    echo(f"\nNext: {', '.join(what)}\n\n" + "".join(f"  {line}\n" for line in lines))
