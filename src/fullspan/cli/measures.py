"""``fullspan measures``: all measures, or one explained."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import click

from fullspan.cli.lazy import Command
from fullspan.cli.options import debug_option, option
from fullspan.cli.output import colored, echo, print_rich

__all__ = ["measures", "search"]

_HELP = """List all measures, or explain the one whose name, alias, symbol or title is nearest to NAME.

Arrows say which way is healthier; a star marks what `fullspan measure` takes unasked.
"""
_EXAMPLES = """
fullspan measures
fullspan measures iso
fullspan measures "effective rank" --json
"""
_PLAIN = ("name", "title", "symbol", "formula", "family", "usage", "needs", "direction", "range", "unit", "centered")
_MORE = ("source", "equivalent", "traps", "default")


@click.command(cls=Command, help=_HELP, examples=_EXAMPLES)
@click.argument("name", required=False)
@option("--json", "as_json", is_flag=True, section="Output", help="Objects with every field of the catalog.")
@debug_option
def measures(name: str | None, as_json: bool) -> None:
    from fullspan.measures import catalog

    found = list(catalog.CATALOG.values()) if name is None else search(name)
    if as_json:
        plain = [_plain(entry) for entry in found]
        echo(json.dumps(plain if name is None else plain[0], indent=2, ensure_ascii=False) + "\n")
    elif name is None:
        _list(found)
    else:
        _explain(found[0], found[1:])


def search(name: str) -> list[Any]:
    """The measures that `name` may mean, the likeliest first.

    Raises
    ------
    UnknownNameError
        If no name, alias, symbol or title is near it.
    """
    from fullspan.measures import catalog

    plain = "_".join(name.strip().lower().replace("-", " ").split())
    spoken = plain.replace("_", " ")
    if not plain:
        return [catalog.get(name)]
    first = [catalog.CATALOG[each] for each in (catalog.ALIASES.get(plain, plain),) if each in catalog.CATALOG]
    tests = (
        lambda entry: entry.symbol.lower() == spoken,
        lambda entry: entry.name.startswith(plain),
        lambda entry: plain in entry.name,
        lambda entry: spoken in f"{entry.title} {entry.formula} {entry.source}".lower(),
    )
    found = first + [entry for test in tests for entry in catalog.CATALOG.values() if test(entry)]
    if not found:
        found = _near(plain)
    return list(dict.fromkeys(found)) or [catalog.get(name)]


def _near(plain: str) -> list[Any]:
    import difflib

    from fullspan.measures import catalog

    known = [*catalog.CATALOG, *catalog.ALIASES]
    close = difflib.get_close_matches(plain, known, n=3, cutoff=0.7)
    return [catalog.get(each) for each in close]


def _plain(entry: Any) -> dict[str, Any]:
    values = {key: getattr(entry, key) for key in (*_PLAIN, *_MORE)}
    return values | {"needs": list(entry.needs), "traps": list(entry.traps), "invariances": sorted(entry.invariances)}


def _list(found: Iterable[Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    from fullspan.jobs.formats.words import arrow

    grid = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_header=False)
    grid.add_column(no_wrap=True)
    grid.add_column(width=1)
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    family = None
    for entry in found:
        if entry.family != family:
            if family is not None:
                grid.add_row("", "", "", "")
            grid.add_row(Text(entry.family, "bold cyan"), "", "", "")
            family = entry.family
        star = Text("*" if entry.default else "", "green")
        grid.add_row(Text(f"  {entry.name}"), arrow(entry.name), star, Text(entry.title, "dim"))
    print_rich(
        grid, Text("\n↑ higher is healthier  ↓ lower is healthier  * taken unasked", "dim"), color=colored(sys.stdout)
    )
    echo("\nOne explained: fullspan measures effective_rank\n")


def _explain(entry: Any, others: list[Any]) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in _facts(entry):
        grid.add_row(label, Text(text))
    head = Text.assemble((entry.name, "bold"), f"  {entry.title}")
    things: list[Any] = [head, "", Padding(Text(entry.formula, "cyan"), (0, 0, 0, 2)), "", grid]
    if others:
        names = ", ".join(each.name for each in others[:8])
        things += ["", Text(f"Also: {names}", "dim")]
    print_rich(*things, color=colored(sys.stdout))


def _facts(entry: Any) -> Iterable[tuple[str, str]]:
    ways = {"higher": "higher is healthier", "lower": "lower is healthier"}
    centered = {True: "the mean row is taken out first", False: "of the table as it is"}
    null = "printed beside the value" if entry.null is not None else ""
    facts = (
        ("symbol", entry.symbol),
        ("range", f"{entry.range}{f' ({entry.unit})' if entry.unit else ''}"),
        ("direction", ways.get(entry.direction, "neither way is healthier by itself")),
        ("centered", centered.get(entry.centered, "")),
        ("unchanged by", ", ".join(each.replace("_", " ") for each in sorted(entry.invariances))),
        ("isotropic", null and f"the value of a Gaussian table of the same shape is {null}"),
        ("equals", entry.equivalent),
        (
            "in Python",
            f"fullspan.{entry.usage}" if entry.usage and not entry.usage.startswith("fullspan") else entry.usage,
        ),
        ("source", entry.source),
    )
    yield from ((label, text) for label, text in facts if text)
    yield from (("traps" if not position else "", trap) for position, trap in enumerate(entry.traps))
