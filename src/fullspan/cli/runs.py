"""``fullspan runs``: the runs in a folder, two of them side by side, and one of them for other tools."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

import click

from fullspan.cli.lazy import Command, Group
from fullspan.cli.options import debug_option, file_argument, option
from fullspan.cli.output import colored, echo, print_rich

__all__ = ["compare", "export", "listing", "runs"]

_EXAMPLES = """
fullspan runs runs/
fullspan runs runs/ --json
fullspan runs compare runs/sgd runs/adam --measure gini_index
fullspan runs export runs/adam -o adam.csv
"""
_COLORS = {"running": "green", "died": "red", "failed": "red", "unreadable": "red", "stopped": "yellow"}


class _Runs(Group):
    """A group whose first argument may be a path: that is the command ``list``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in self.places or args[0] in ("-h", "--help"))
        return super().parse_args(ctx, args if named else ["list", *args])


@click.group(
    cls=_Runs,
    places={
        "list": ("fullspan.cli.runs:listing", "List the runs in a folder; `fullspan runs FOLDER` is the same."),
        "compare": ("fullspan.cli.runs:compare", "Two runs side by side."),
        "export": ("fullspan.cli.runs:export", "The points of a run as csv, parquet or TensorBoard files."),
    },
    examples=_EXAMPLES,
    subcommand_metavar="[FOLDER] | COMMAND [ARGS]...",
)
def runs() -> None:
    """List the runs in FOLDER (by default ./runs), compare two, or export one.

    A first argument that is not a command is the folder; ./list is a folder of that name.
    """


@click.command(
    "list",
    cls=Command,
    help="""List the runs at and under FOLDER: how far each came, its last loss, and what rules have found.

    A run is running while its writer lives, and died when that ended without a word.
    """,
    examples="fullspan runs\nfullspan runs experiments/\nfullspan runs experiments/ --json",
)
@click.argument("folder", type=click.Path(), default="runs")
@option("--json", "as_json", is_flag=True, section="Output", help="A list of objects, one a run.")
@debug_option
def listing(folder: str, as_json: bool) -> int:
    from fullspan.errors import NothingEvaluatedError
    from fullspan.jobs.formats.words import clean
    from fullspan.jobs.runs import list_runs

    found = list_runs(folder)
    if not found:
        raise NothingEvaluatedError(
            f"runs needs a folder with runs; got none in {folder!r}. fullspan.watch(model, run='runs/name') makes one."
        )
    if as_json:
        echo(json.dumps([each.to_dict() for each in found], indent=2, ensure_ascii=False) + "\n")
    else:
        _print_list(found, folder)
    for each in found:
        if each.why is not None:
            click.echo(f"fullspan: {clean(each.why)}", err=True)
    return 2 if all(each.why is not None for each in found) else 0


def _print_list(found: list[Any], folder: str) -> None:
    from rich.text import Text

    from fullspan.jobs.formats.words import number

    grid = _grid(
        "run", "status", *(f"{name}>" for name in ("steps", "epochs", "tables", "loss", "findings")), "created"
    )
    for each in found:
        created = "" if each.created is None else f"{datetime.fromtimestamp(each.created).astimezone():%Y-%m-%d %H:%M}"
        counts = ["" if value is None else number(value) for value in (each.step, each.epoch, len(each.tables) or None)]
        loss = number(each.loss) if each.loss is not None else "undefined" if each.loss_why else ""
        grid.add_row(
            Text(_place(each.path, folder), "bold"),
            Text(each.status, _COLORS.get(each.status, "")),
            *counts,
            loss,
            _findings(each.findings),
            created,
        )
    print_rich(grid, color=colored(sys.stdout))


def _findings(counts: dict[str, int]) -> Any:
    from rich.text import Text

    text = Text()
    for level, mark, color in (("fail", "✗", "red"), ("warn", "▲", "yellow")):
        if counts.get(level):
            text.append(f"{' ' if text else ''}{mark}{counts[level]}", color)
    return text


@click.command(
    cls=Command,
    help="""Compare run B with run A: last values, best ones, and those at the last step that both have.

    Differences are B less A. Where neither higher nor lower is better there is no best.
    """,
    examples="""
    fullspan runs compare runs/sgd runs/adam
    fullspan runs compare runs/sgd runs/adam --table 'item*' --measure gini_index,mean_norm
    fullspan runs compare runs/sgd runs/adam --step 1000 --json
    """,
)
@file_argument("a")
@file_argument("b")
@option("--table", "-t", metavar="NAME", multiple=True, section="Data", help="Table or glob to take; repeatable.")
@option("--measure", "-m", metavar="A,B", multiple=True, section="Data", help="Measures or globs; repeatable.")
@option("--step", type=click.IntRange(0), metavar="N", section="Data", help="Compare at this step.")
@option("--json", "as_json", is_flag=True, section="Output", help="An object with runs and rows.")
@debug_option
def compare(a: str, b: str, table: tuple[str, ...], measure: tuple[str, ...], step: int | None, as_json: bool) -> None:
    from fullspan.jobs.runs import compare_runs

    compared = compare_runs(a, b, tables=table or None, measures=_split(measure), step=step)
    if as_json:
        echo(json.dumps(compared.to_dict(), indent=2, ensure_ascii=False) + "\n")
        return
    _print_comparison(compared, (a, b))


def _print_comparison(compared: Any, names: tuple[str, str]) -> None:
    from rich.text import Text

    from fullspan.jobs.formats.words import clean, count

    things: list[Any] = []
    for letter, name, run in zip("AB", names, compared.runs, strict=True):
        reached = "no steps" if run.step is None else f"{run.step:,} steps"
        things.append(Text.assemble((f"{letter}  {clean(name)}", "bold"), f"  {run.status}, {reached}"))
    for table in dict.fromkeys(row.table for row in compared.rows):
        rows = [row for row in compared.rows if row.table == table]
        grid = _grid("", "", "A>", "at step>", "B>", "at step>", "B − A>", gap=1)
        for row in rows:
            _add_compared(grid, row)
        things += ["", Text(clean(table) or "the run itself", "bold"), grid]
    lone = sum(None in row.final for row in compared.rows)
    if lone:
        things += ["", Text(f"{count(lone, 'measure')} only one of them has.", "dim")]
    print_rich(*things, color=colored(sys.stdout))


def _add_compared(grid: Any, row: Any) -> None:
    """Up to three lines a measure: the last values, those at a shared step when that is another, and the best."""
    from fullspan.jobs.formats.words import clean, number
    from fullspan.jobs.runs import difference

    arrow = {"higher": " ↑", "lower": " ↓"}.get(row.better or "", "")
    title = clean(row.measure) + arrow
    pairs = {"last": row.final}
    if row.shared != row.final and None not in row.final:
        pairs["shared"] = row.shared
    if row.better is not None:
        pairs["best"] = row.best
    for name, pair in pairs.items():
        cells = [cell for each in pair for cell in _cells(each)]
        grid.add_row(title, name, *cells, number(difference(pair), 3))
        title = ""


def _cells(reached: Any) -> tuple[str, str]:
    from fullspan.jobs.formats.words import number

    return ("–", "") if reached is None else (number(reached.value), f"{reached.step:,}")


@click.command(
    cls=Command,
    help="""Write the points of RUN for other tools: one row a point in csv and parquet, scalars for TensorBoard.

    What a later attempt has superseded is left out.
    """,
    examples="""
    fullspan runs export runs/adam -o adam.csv
    fullspan runs export runs/adam --measure loss | head
    fullspan runs export runs/adam -o adam.parquet --table item
    fullspan runs export runs/adam --format tensorboard -o logs/adam
    """,
)
@file_argument("run")
@option("--table", "-t", metavar="NAME", multiple=True, section="Data", help="Table or glob to take; repeatable.")
@option("--measure", "-m", metavar="A,B", multiple=True, section="Data", help="Measures or globs; repeatable.")
@option(
    "--format",
    "-f",
    "form",
    type=click.Choice(["csv", "parquet", "tensorboard"]),
    section="Output",
    help="By default what the suffix of --out says, else csv.",
)
@option(
    "--out",
    "-o",
    metavar="PATH",
    type=click.Path(),
    default="-",
    section="Output",
    help="A file, or a folder for tensorboard; - prints csv.",
)
@option("--quiet", "-q", is_flag=True, section="Output", help="Do not say what was written.")
@debug_option
def export(run: str, table: tuple[str, ...], measure: tuple[str, ...], form: str | None, out: str, quiet: bool) -> None:
    from fullspan.jobs.export import export_run
    from fullspan.jobs.formats.words import clean, count

    told = export_run(run, out, form, tables=table or None, measures=_split(measure))
    if told.left_out:
        click.echo(f"fullspan: {count(told.left_out, 'point')} that TensorBoard cannot hold left out.", err=True)
    if out != "-" and not quiet:
        click.echo(f"{count(told.points, 'point')} written to {clean(out)}", err=True)


def _split(measures: tuple[str, ...]) -> list[str] | None:
    names = [name.strip() for each in measures for name in each.split(",")]
    return names or None


def _grid(*columns: str, gap: int = 2) -> Any:
    """A table without lines; a name that ends in ``>`` is a column of numbers, and the first one may wrap."""
    from rich.table import Table

    grid = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="dim")
    for at, name in enumerate(columns):
        right = name.endswith(">")
        grid.add_column(name.rstrip(">"), justify="right" if right else "left", no_wrap=at > 0, overflow="fold")
    return grid


def _place(path: Any, folder: str) -> str:
    """The path of a run under the folder that was given."""
    from pathlib import Path

    from fullspan.jobs.formats.words import clean

    given = Path(folder)
    if path == given or not path.is_relative_to(given):
        return clean(path)
    return clean(path.relative_to(given))
