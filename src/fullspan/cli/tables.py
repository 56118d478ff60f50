"""``fullspan tables``: what a file holds, without reading its rows."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

import click

from fullspan.cli.lazy import Command
from fullspan.cli.options import debug_option, file_argument, option
from fullspan.cli.output import colored, echo, print_rich, width_of

__all__ = ["tables"]

_HELP = """List the tables of FILE: name, shape, stored type, and which of them look like embeddings.

Only headers are read, so that a checkpoint of any size answers at once.
"""
_EXAMPLES = """
fullspan tables model.safetensors
fullspan tables model.safetensors --all
fullspan tables model.safetensors --json
"""


@click.command(cls=Command, help=_HELP, examples=_EXAMPLES)
@file_argument()
@option(
    "--all", "everything", is_flag=True, section="Output", help="Also the tensors that do not look like embeddings."
)
@option("--json", "as_json", is_flag=True, section="Output", help="A list of objects, always of all tables.")
@debug_option
def tables(file: str, everything: bool, as_json: bool) -> None:
    from fullspan.io.formats import list_tables

    found = list(list_tables(file))
    if as_json:
        echo(json.dumps([dataclasses.asdict(each) for each in found], indent=2) + "\n")
        return
    guessed = [each for each in found if each.embedding]
    shown = found if everything or not guessed else guessed
    _print(shown)
    if len(shown) < len(found):
        echo(f"\n{len(found) - len(shown):,} other tensors: fullspan tables --all {_quoted(file)}\n")
    if guessed:
        echo(f"\nNext, for those marked: fullspan measure {_quoted(file)}\n")


def _print(found: list[Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    from fullspan.jobs.formats.words import clean

    rows = [(clean(each.name), _shape(each.shape), clean(each.dtype), clean(each.why)) for each in found]
    wide = sum(max((len(row[column]) for row in rows), default=0) + 2 for column in range(4)) + 2
    reasons = wide <= width_of(sys.stdout)  # else only --json gives them
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    grid.add_column("", width=1)
    grid.add_column("table", overflow="fold")
    grid.add_column("shape", justify="right", no_wrap=True)
    grid.add_column("type", no_wrap=True)
    if reasons:
        grid.add_column("", style="dim", no_wrap=True)
    for each, (name, shape, dtype, why) in zip(found, rows, strict=True):
        title = Text(name, "bold" if each.embedding else "")
        for other in each.also:
            title.append(f"\n= {clean(other)}", "dim")
        mark = Text("✓", "green") if each.embedding else Text("")
        grid.add_row(mark, title, shape, dtype, *([why] if reasons else []))
    print_rich(grid, color=colored(sys.stdout))


def _shape(shape: tuple[int | None, ...]) -> str:
    return " × ".join("?" if size is None else f"{size:,}" for size in shape)


def _quoted(path: str) -> str:
    import shlex

    from fullspan.jobs.formats.words import clean

    return clean(shlex.quote(path))
