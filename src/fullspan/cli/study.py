"""``fullspan study``: run an experiment whole, and answer the claims it was made to test."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from fullspan.cli.lazy import Command, Group
from fullspan.cli.options import debug_option, option
from fullspan.cli.output import colored, echo, print_rich
from fullspan.studies import STUDIES

__all__ = ["movielens", "normalization", "study"]

_HELP = """Run an experiment whole, and answer the claims it was made to test; without a name, list the studies.

A study is resumable: each run of it is one file, and what is there already is not run again.
"""
_MOVIELENS_HELP = """Train user and item embeddings on MovieLens with SGD and Adam at batch sizes 1 to 32, measure both
tables after every epoch, and answer the article's takeaways.

Writes result.html, result.json, epochs.csv, figures/ and, of the first seed, runs that `fullspan report` reads.
"""
_NORMALIZATION_HELP = """Train a linear model, an MLP and a small transformer on GloVe vectors of short texts, raw and
normalized in ten ways, at every learning rate of a grid, and answer an article's ten practices.

Texts are those of Banking77 where --data or FULLSPAN_DATA has them; else the task is the ending of a word.
"""
_EXAMPLES = """
fullspan study movielens
fullspan study movielens --seeds 1
fullspan study movielens --beyond --dry-run
fullspan study movielens --data ~/Downloads/ml-100k.zip --out studies/mine --json
"""


@click.group(
    cls=Group,
    places={name: (f"fullspan.cli.study:{name}", told) for name, told in STUDIES.items()},
    invoke_without_command=True,
    help=_HELP,
    examples="fullspan study\nfullspan study movielens --dry-run",
)
@click.pass_context
def study(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        for name, told in STUDIES.items():
            echo(f"{name}\n  {told}\n")
        echo("\nNext: what one of them would run, and how long\n\n  fullspan study movielens --dry-run\n")


def study_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What all studies take."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for add in (
        debug_option,
        option("--quiet", "-q", is_flag=True, section="Output", help="No progress, and no text at the end."),
        option("--json", "as_json", is_flag=True, section="Output", help="Print result.json at the end, nothing else."),
        option("--dry-run", is_flag=True, section="Run", help="Say what would be run and how long; run nothing."),
        option(
            "--jobs",
            "-j",
            type=click.IntRange(1),
            default=cores,
            metavar="N",
            section="Run",
            help="Parallel processes.  [default: one a core]",
        ),
        option(
            "--out",
            "-o",
            type=click.Path(file_okay=False, path_type=Path),
            metavar="DIR",
            section="Output",
            help="Folder for the results.  [default: studies/NAME]",
        ),
    ):
        function = add(function)
    return function


@click.command(cls=Command, help=_MOVIELENS_HELP, examples=_EXAMPLES)
@option(
    "--seeds",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    metavar="N",
    section="Experiment",
    help="Seeds of each cell; claims need two or more.",
)
@option("--head", type=click.Choice(["concat", "dot"]), default="concat", show_default=True, section="Experiment",
        help="The article's code (concat), or what its text says (dot).")  # fmt: skip
@option(
    "--beyond", is_flag=True, section="Experiment", help="Also vary momentum, optimizer, width, head, updates, rate."
)
@option(
    "--beyond-seeds",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    metavar="N",
    section="Experiment",
    help="Seeds of what --beyond adds, at most --seeds.",
)
@option("--quick", is_flag=True, section="Experiment", help="Two seeds and five epochs: to see it work.")
@option(
    "--name",
    type=click.Choice(["100k", "latest-small"]),
    default="100k",
    show_default=True,
    section="Data",
    help="Which ratings.",
)
@option("--data", type=click.Path(), metavar="PATH", section="Data", help="Folder or archive with the ratings.")
@study_options
def movielens(
    seeds: int,
    head: str,
    beyond: bool,
    beyond_seeds: int,
    quick: bool,
    name: str,
    data: str | None,
    out: Path | None,
    jobs: int,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from fullspan.studies.movielens.grid import Options
    from fullspan.studies.movielens.study import MovieLensStudy, engine

    if quick:
        seeds = min(seeds, 2)
    options = Options(
        seeds=seeds,
        epochs=5 if quick else 20,
        head=head,
        name=name,
        folder=data,
        beyond=beyond,
        beyond_seeds=beyond_seeds,
        engine=engine(),
    )
    _run(MovieLensStudy(), options, out or Path("studies/movielens"), jobs, dry_run, as_json, quiet)


@click.command(
    cls=Command,
    help=_NORMALIZATION_HELP,
    examples="fullspan study normalization\nfullspan study normalization --quick\n"
    "fullspan study normalization --data ~/sets --dry-run",
)
@option(
    "--seeds",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    metavar="N",
    section="Experiment",
    help="Seeds of each cell; claims need two or more.",
)
@option("--quick", is_flag=True, section="Experiment", help="Two seeds and 60 steps: to see it work.")
@option("--data", type=click.Path(), metavar="DIR", section="Data", help="Folder with banking77/train.csv.")
@study_options
def normalization(
    seeds: int,
    quick: bool,
    data: str | None,
    out: Path | None,
    jobs: int,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from fullspan import _extras
    from fullspan.studies.normalization.grid import Options
    from fullspan.studies.normalization.study import NormalizationStudy

    if not dry_run:
        _extras.require("torch", "studies", "fullspan study normalization")
    options = Options(seeds=min(seeds, 2) if quick else seeds, budget=60 if quick else 300, folder=data)
    _run(NormalizationStudy(), options, out or Path("studies/normalization"), jobs, dry_run, as_json, quiet)


def _run(study: Any, options: Any, out: Path, jobs: int, dry_run: bool, as_json: bool, quiet: bool) -> None:
    """What the command of every study does with its options."""
    from fullspan import _extras
    from fullspan.studies.base.study import plan, run

    data = study.data(options)
    planned = plan(study, options, data, out)
    if dry_run:
        _tell_plan(study, planned, jobs, out, as_json)
        return
    _extras.require("matplotlib", "studies", f"fullspan study {study.name}")
    with _progress(planned, quiet) as told:
        result = run(study, options, out, jobs=jobs, data=data, told=told)
    if as_json:
        echo(result.to_json() + "\n")
    elif not quiet:
        _tell(result, out)


def _tell_plan(study: Any, planned: Any, jobs: int, out: Path, as_json: bool) -> None:
    minutes = planned.minutes(jobs)
    if as_json:
        import json

        plain = {"study": study.name, "runs": len(planned.tasks), "left": len(planned.left), "minutes": minutes}
        echo(json.dumps({**plain, "jobs": jobs, "cells": list(_cells(planned.tasks))}) + "\n")
        return
    parts: dict[str, list[str]] = {}
    for name, part in _cells(planned.tasks).items():
        parts.setdefault(part, []).append(name)
    for part, names in parts.items():
        print_rich(f"{part}: {', '.join(names)}", color=False)
    done = len(planned.tasks) - len(planned.left)
    echo(f"\n{len(planned.tasks)} runs of {len(_cells(planned.tasks))} cells; {done} are done in {out}.\n")
    echo(f"About {_time(minutes)} on {jobs} core{'s' * (jobs > 1)}, if each has one to itself.\n")


def _cells(tasks: Any) -> dict[str, str]:
    return {task.cell.name: task.cell.part for task in tasks}


def _time(minutes: float) -> str:
    if minutes >= 1.5:
        return f"{minutes:.0f} minutes"
    seconds = max(1, round(60 * minutes))
    return f"{seconds} second{'s' * (seconds > 1)}"


def _tell(result: Any, out: Path) -> None:
    from rich.table import Table

    color = colored(sys.stdout)
    signs = {"holds": "✓", "does not hold": "✗", "undecided": "?", "not testable here": "–"}
    styles = {"holds": "green", "does not hold": "red", "undecided": "yellow", "not testable here": "dim"}
    table = Table("", "answer", "claim", box=None, pad_edge=False, show_header=False)
    for claim in result.claims:
        table.add_row(signs[claim.answer], claim.answer, claim.statement, style=styles[claim.answer])
    print_rich(table, color=color)
    took = result.provenance["run"]
    echo(f"\n{took['run_now']} of {took['runs']} runs made now, {took['wall_seconds']:.0f} s. Wrote {out}.\n")
    runs = sorted((out / "runs").glob("*")) if (out / "runs").is_dir() else []
    echo(
        f"\nNext: the page with figures and numbers{', one run through time' * bool(runs)}\n\n  {out / 'result.html'}\n"
    )
    if runs:
        echo(f"  fullspan report {runs[0]} -o {runs[0].name}.html\n")


@contextlib.contextmanager
def _progress(planned: Any, quiet: bool) -> Iterator[Callable[[Any, float], None] | None]:
    """A bar on standard error, where somebody can see it; it counts work, since runs differ a hundredfold."""
    if quiet or not sys.stderr.isatty() or not planned.left:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.fields[runs]} runs"), BarColumn(), TimeElapsedColumn(), TextColumn("left"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        done, total = 0, len(planned.left)
        shown = bar.add_task("", total=planned.seconds, runs=f"0/{total}")

        def told(task: Any, seconds: float) -> None:
            nonlocal done
            done += 1
            bar.update(shown, advance=task.cell.cost, runs=f"{done}/{total}")

        yield told
