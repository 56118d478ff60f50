"""``fullspan tables``: what a file holds, without reading its rows."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

import click

from fullspan.cli.lazy import Command
from fullspan.cli.options import debug_option, file_argument, option
from fullspan.cli.output import colored, echo, print_rich

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
        echo(f"\nNext: fullspan measure {_quoted(file)}\n")


def _print(found: list[Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    from fullspan.jobs.formats.words import clean

    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    grid.add_column("table", overflow="fold")
    grid.add_column("shape", justify="right", no_wrap=True)
    grid.add_column("type", no_wrap=True)
    grid.add_column("embedding?", overflow="fold")
    for each in found:
        name = Text(clean(each.name), "bold" if each.embedding else "")
        for other in each.also:
            name.append(f"\n= {clean(other)}", "dim")
        mark = Text.assemble(
            ("✓ " if each.embedding else "– ", "green" if each.embedding else "dim"), (clean(each.why), "dim")
        )
        grid.add_row(name, _shape(each.shape), clean(each.dtype), mark)
    print_rich(grid, color=colored(sys.stdout))


def _shape(shape: tuple[int | None, ...]) -> str:
    return " × ".join("?" if size is None else f"{size:,}" for size in shape)


def _quoted(path: str) -> str:
    import shlex

    from fullspan.jobs.formats.words import clean

    return clean(shlex.quote(path))
