"""``fullspan words``: whether cosines agree with human judgements of word similarity."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from fullspan.cli.lazy import Command
from fullspan.cli.options import debug_option, file_argument, option
from fullspan.cli.output import colored, echo, print_rich
from fullspan.errors import InputError, NothingEvaluatedError

__all__ = ["words"]

_HELP = """Score the word vectors of FILE against human judgements: files of `word word score` lines.

A pair with a word that the table lacks is left out, and counted. The rows need names: word2vec and GloVe files have
them, for others give --ids.
"""
_EXAMPLES = """
fullspan words glove.6B.50d.txt --pairs simlex.txt --pairs men.csv
fullspan words items.parquet --ids word --pairs wordsim.csv --kind spearman
"""


@click.command(cls=Command, help=_HELP, examples=_EXAMPLES)
@file_argument()
@option(
    "--pairs",
    "-p",
    metavar="FILE",
    multiple=True,
    required=True,
    section="Data",
    type=click.Path(),
    help="Judgements; repeatable.",
)
@option("--table", "-t", metavar="NAME", section="Data", help="The table to take, where there are several.")
@option("--column", metavar="NAME", section="Data", help="Column of the vectors.")
@option("--ids", metavar="COL|FILE", section="Data", help="Words of the rows: a column, or a file with one a line.")
@option(
    "--kind",
    type=click.Choice(["pearson", "spearman"]),
    default="pearson",
    show_default=True,
    section="Score",
    help="Which correlation.",
)
@option(
    "--missing",
    type=click.Choice(["skip", "zero", "error"]),
    default="skip",
    show_default=True,
    section="Score",
    help="Pairs with a missing word.",
)
@option("--json", "as_json", is_flag=True, section="Output", help="One object a file of judgements.")
@debug_option
def words(file: str, pairs: tuple[str, ...], kind: str, missing: str, as_json: bool, **where: Any) -> None:
    vectors, names = _read(file, where)
    rows = [_score(path, vectors, names, kind, missing) for path in pairs]
    if as_json:
        echo(json.dumps(rows, indent=2, allow_nan=False) + "\n")
    else:
        _print(rows, kind)
    if all(row["value"] is None for row in rows):
        raise NothingEvaluatedError(f"words needs a file of judgements that can be scored; got none. {rows[0]['why']}")


def _read(file: str, where: dict[str, Any]) -> tuple[Any, list[str]]:
    """All rows and their names: the judgements name words, so that nothing can be left on the disk."""
    import numpy as np

    from fullspan.io.formats import open_table

    table = open_table(file, **where)
    rows, names = [], []
    for block in table.blocks():
        if block.ids is None:
            raise InputError(f"words needs the word of each row; got none in {file!r}. Name them with --ids.")
        rows.append(block.widened().rows)
        names += [str(each) for each in block.ids]
    return np.concatenate(rows), names


def _score(path: str, vectors: Any, names: list[str], kind: str, missing: str) -> dict[str, Any]:
    from fullspan.errors import UndefinedMeasureError
    from fullspan.measures.similarity import word_similarity

    row: dict[str, Any] = {"pairs": path, "kind": kind, "value": None, "why": None}
    try:
        return row | word_similarity(vectors, names, path, kind=kind, missing=missing)._asdict()
    except UndefinedMeasureError as error:
        return row | {"why": str(error)}


def _print(rows: list[dict[str, Any]], kind: str) -> None:
    from rich.table import Table
    from rich.text import Text

    from fullspan.jobs.formats.words import clean, number

    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    grid.add_column("judgements", overflow="fold")
    for name in (f"{kind} × 100", "± error", "pairs", "used", "missing"):
        grid.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        name = clean(Path(row["pairs"]).name)
        if row["value"] is None:
            grid.add_row(name, Text("undefined", "dim"), "", "", "", "")
            continue
        error = "" if row["standard_error"] is None else f"± {number(100 * row['standard_error'], 2)}"
        counts = [f"{row[key]:,}" for key in ("n_pairs", "n_used", "n_missing")]
        grid.add_row(name, Text(number(100 * row["value"]), "bold"), error, *counts)
    print_rich(grid, color=colored(sys.stdout))
