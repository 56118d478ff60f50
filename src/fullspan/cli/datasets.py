"""``fullspan datasets``: data to train on, its license, and where it was found."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from fullspan.cli.lazy import Command
from fullspan.cli.options import debug_option, option
from fullspan.cli.output import colored, echo, print_rich

__all__ = ["datasets"]

_HELP = """List the data sets that fullspan can load, their licenses, and where each was found.

Looks in the folder that FULLSPAN_DATA names, in the cache, and in installed packages; downloads nothing.
"""
_EXAMPLES = """
fullspan datasets
fullspan datasets --json
FULLSPAN_DATA=~/data fullspan datasets
"""


@click.command(cls=Command, help=_HELP, examples=_EXAMPLES)
@option("--json", "as_json", is_flag=True, section="Output", help="Objects with name, title, license, home and place.")
@debug_option
def datasets(as_json: bool) -> None:
    found = [_bundled(), *_movielens()]
    if as_json:
        echo(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
        return
    from rich.text import Text

    things: list[Any] = []
    for each in found:
        things += [Text.assemble((each["name"], "bold"), f"  {each['title']}")]
        things += [Text(f"  found    {each['place']}{': ' if each['path'] else ''}{each['path'] or ''}")]
        things += [Text(f"  license  {each['license']}", "dim"), Text(f"  load     {each['load']}", "dim"), ""]
    print_rich(*things, color=colored(sys.stdout))
    echo('Others are downloaded on first use, with: pip install "fullspan[data]"\n')


def _bundled() -> dict[str, Any]:
    from fullspan.datasets.bundled import DIM, N_ROWS, glove_path

    return {
        "name": "glove",
        "title": f"GloVe 6B: the {N_ROWS:,} most frequent words × {DIM}",
        "license": "PDDL 1.0, public domain",
        "home": "https://nlp.stanford.edu/projects/glove/",
        "load": "fullspan.datasets.load_glove()",
        "place": "bundled",
        "path": str(glove_path()),
        "note": None,
    }


def _movielens() -> list[dict[str, Any]]:
    from fullspan.datasets.fetch import find
    from fullspan.datasets.movielens import SETS
    from fullspan.errors import FormatError

    rows = []
    for name, each in SETS.items():
        load = f'load_movielens("{name}")'
        try:
            found, note = find(each.file, user=load), None
        except FormatError as error:
            found, note = None, str(error)
        place = "broken" if note else "not here" if found is None else found.place
        rows.append(
            {
                "name": f"movielens {name}",
                "title": each.title,
                "license": each.license,
                "home": each.home,
                "load": f"fullspan.datasets.{load}",
                "place": place,
                "path": note if found is None else found.path,
                "note": note,
            }
        )
    return rows
