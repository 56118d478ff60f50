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
from fullspan.jobs.formats.words import clean, number

__all__ = ["words"]

_HELP = """Score the word vectors of FILE against human judgements: files of `word word score` lines.

A pair with a word that the table lacks is left out, and counted. The rows need names: word2vec and GloVe files have
them, for others give --ids. With --coupled-adam, print the numbers of the Coupled Adam paper about the table.
"""
_EXAMPLES = """
fullspan words glove.6B.50d.txt --pairs simlex.txt --pairs men.csv
fullspan words items.parquet --ids word --pairs wordsim.csv --kind spearman
fullspan words tokens.npy --coupled-adam --frequencies counts.npy
fullspan words glove.6B.50d.txt --coupled-adam --pairs sets/ --sets code
"""


@click.command(cls=Command, help=_HELP, examples=_EXAMPLES)
@file_argument()
@option(
    "--pairs",
    "-p",
    metavar="FILE",
    multiple=True,
    section="Data",
    type=click.Path(),
    help="Judgements; repeatable. Of a folder, the files that --sets names.",
)
@option("--table", "-t", metavar="NAME", section="Data", help="The table to take, where there are several.")
@option("--column", metavar="NAME", section="Data", help="Column of the vectors.")
@option("--ids", metavar="COL|FILE", section="Data", help="Words of the rows: a column, or a file with one a line.")
@option("--frequencies", metavar="COL|FILE", section="Data", help="How often each row occurs, for the set's ρ.")
@option("--coupled-adam", is_flag=True, section="Score", help="The set of the Coupled Adam paper: Iso(E), ‖μ‖, κ, ...")
@option(
    "--sets",
    type=click.Choice(["article", "code"]),
    section="Score",
    help="Which files of a folder: those of the paper's text (default) or of its code.",
)
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
@option("--json", "as_json", is_flag=True, section="Output", help="A list, one object a file; with the set, an object.")
@debug_option
def words(
    file: str,
    pairs: tuple[str, ...],
    coupled_adam: bool,
    sets: str | None,
    kind: str,
    missing: str,
    as_json: bool,
    **where: Any,
) -> None:
    _refuse(pairs, coupled_adam, sets, where["frequencies"])
    files = _files(pairs, sets or "article")
    vectors, names, frequencies = _read(file, bool(files), where)
    rows = [_score(path, vectors, names, kind, missing) for path in files]
    numbers = None
    if coupled_adam:
        numbers = _coupled_adam(vectors, names, frequencies, files, kind=kind, missing=missing)
    if as_json:
        plain = rows if numbers is None else {"coupled_adam": numbers, "pairs": rows}
        echo(json.dumps(plain, indent=2, allow_nan=False) + "\n")
    else:
        _print(rows, numbers, kind)
    if numbers is None and all(row["value"] is None for row in rows):
        raise NothingEvaluatedError(f"words needs a file of judgements that can be scored; got none. {rows[0]['why']}")


def _refuse(pairs: tuple[str, ...], coupled_adam: bool, sets: str | None, frequencies: str | None) -> None:
    if not pairs and not coupled_adam:
        raise click.UsageError("words needs --pairs FILE to score against, or --coupled-adam.")
    if frequencies is not None and not coupled_adam:
        raise click.UsageError("--frequencies is for --coupled-adam: human judgements do not weigh rows.")
    if sets is not None and not any(Path(each).is_dir() for each in pairs):
        raise click.UsageError(f"--sets {sets} chooses among the files of a folder; give the folder with --pairs.")


def _files(pairs: tuple[str, ...], sets: str) -> list[str]:
    """The files of judgements; a folder stands for those of `sets` in it."""
    from fullspan.measures.word_pairs import similarity_files

    found: list[str] = []
    for each in pairs:
        found += map(str, similarity_files(each, sets).values()) if Path(each).is_dir() else [each]
    return found


def _read(file: str, named: bool, where: dict[str, Any]) -> tuple[Any, list[str], Any]:
    """All rows, their names and frequencies: the judgements name words, so that nothing can be left on the disk."""
    import numpy as np

    from fullspan.io.formats import open_table

    table = open_table(file, **where)
    rows, names, frequencies = [], [], []
    for block in table.blocks():
        if named and block.ids is None:
            raise InputError(f"words needs the word of each row; got none in {file!r}. Name them with --ids.")
        rows.append(block.widened().rows)
        names += [] if block.ids is None else [str(each) for each in block.ids]
        frequencies += [] if block.frequencies is None else [block.frequencies]
    if not rows:
        raise NothingEvaluatedError(f"words needs a table with rows; got none in {file!r}.")
    return np.concatenate(rows), names, np.concatenate(frequencies) if frequencies else None


def _coupled_adam(
    vectors: Any, names: list[str], frequencies: Any, files: list[str], **policy: str
) -> list[dict[str, Any]]:
    """The numbers of the paper in its order; those that are undefined carry the reason."""
    from fullspan.errors import UndefinedMeasureError
    from fullspan.measures.similarity import coupled_adam_set, mean_word_similarity

    why = None
    try:
        read = coupled_adam_set(vectors, frequencies=frequencies)
    except UndefinedMeasureError as error:
        read, why = coupled_adam_set(vectors), str(error)
    numbers = [
        _number("isotropy", "Iso(E)", "isotropy of the table", read.isotropy),
        _number("centered_isotropy", "Iso(E−μ)", "isotropy of the centered table", read.centered_isotropy),
        _number("mean_vector_norm", "‖μ‖", "length of the mean row", read.mean_vector_norm),
        _number("mean_norm_ratio", "‖μ‖ʳ", "the same over the mean length of the rows", read.mean_norm_ratio),
        _number("mean_norm", "mean ‖e‖", "mean length of the rows", read.mean_norm),
    ]
    if frequencies is not None:
        what = "correlation of length with frequency"
        numbers.append(_number("length_frequency_correlation", "ρ ×100", what, read.rho, why))
    numbers.append(_number("kappa", "κ", "100 σ_min / σ_max", read.kappa))
    if files:
        score, why = None, None
        try:
            score = mean_word_similarity(vectors, names, {path: path for path in files}, **policy)
        except UndefinedMeasureError as error:
            why = str(error)
        what = f"mean {policy['kind']} correlation with judgements, {len(files)} sets"
        value, deviation = (None, None) if score is None else (score.value, score.standard_error)
        numbers.append(_number("mean_word_similarity", "r̄ ×100", what, value, why, deviation))
    return numbers


def _number(
    name: str, symbol: str, what: str, value: float | None, why: str | None = None, error: float | None = None
) -> dict[str, Any]:
    return {"name": name, "symbol": symbol, "what": what, "value": value, "standard_error": error, "why": why}


def _score(path: str, vectors: Any, names: list[str], kind: str, missing: str) -> dict[str, Any]:
    from fullspan.errors import UndefinedMeasureError
    from fullspan.measures.similarity import word_similarity

    row: dict[str, Any] = {"pairs": path, "kind": kind, "value": None, "why": None}
    try:
        return row | word_similarity(vectors, names, path, kind=kind, missing=missing)._asdict()
    except UndefinedMeasureError as error:
        return row | {"why": str(error)}


def _print(rows: list[dict[str, Any]], numbers: list[dict[str, Any]] | None, kind: str) -> None:
    color = colored(sys.stdout)
    if numbers is not None:
        print_rich(_set_grid(numbers), color=color)
        for each in numbers:
            if each["why"]:
                echo(f"\n{each['name']} is undefined: {each['why']}\n")
        if rows:
            echo("\n")
    if rows:
        print_rich(_pairs_grid(rows, kind), color=color)


def _set_grid(numbers: list[dict[str, Any]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for right, whole in ((False, True), (True, True), (False, True), (False, False)):
        grid.add_column(justify="right" if right else "left", no_wrap=whole)
    for each in numbers:
        value = Text("undefined", "dim") if each["value"] is None else Text(number(each["value"]), "bold")
        grid.add_row(Text(each["symbol"]), value, _error(each["standard_error"]), Text(each["what"], "dim"))
    return grid


def _pairs_grid(rows: list[dict[str, Any]], kind: str) -> Any:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    grid.add_column("judgements", overflow="fold")
    grid.add_column("score", no_wrap=True)
    for name in ("value", "± error", "pairs", "used", "missing"):
        grid.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        name, score = clean(Path(row["pairs"]).name), Text(f"{kind} ×100", "dim")
        if row["value"] is None:
            grid.add_row(name, score, Text("undefined", "dim"), "", "", "", "")
            continue
        deviation = row["standard_error"]
        error = _error(None if deviation is None else 100 * deviation)
        counts = [f"{row[key]:,}" for key in ("n_pairs", "n_used", "n_missing")]
        grid.add_row(name, score, Text(number(100 * row["value"]), "bold"), error, *counts)
    return grid


def _error(deviation: float | None) -> str:
    return "" if deviation is None else f"± {number(deviation, 2)}"
