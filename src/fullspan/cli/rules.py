"""``fullspan rules``: all rules, or one explained with its limits."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from importlib import resources
from typing import Any

import click

from fullspan.cli.lazy import Command
from fullspan.cli.options import debug_option, option
from fullspan.cli.output import colored, echo, print_rich
from fullspan.errors import UnknownNameError, did_you_mean

__all__ = ["rules"]

_HELP = """List all rules, or explain the rule NAME: what it looks for, why it matters, and its limits.

A finding of `fullspan measure` or `fullspan check` names its rule.
"""
_EXAMPLES = """
fullspan rules
fullspan rules mean-shift
fullspan rules dimensional-collapse --json
"""
_PROSE = re.compile(r"^## ([\w-]+)\n+(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


@click.command(cls=Command, help=_HELP, examples=_EXAMPLES)
@click.argument("name", required=False)
@option("--json", "as_json", is_flag=True, section="Output", help="Objects with name, about, limits and text.")
@debug_option
def rules(name: str | None, as_json: bool) -> None:
    from fullspan.diagnose.rules import RULES

    wanted = list(RULES) if name is None else [_known(name, list(RULES))]
    found = [_plain(RULES[each]) for each in wanted]
    if as_json:
        echo(json.dumps(found if name is None else found[0], indent=2, ensure_ascii=False) + "\n")
    elif name is None:
        _list(found)
    else:
        _explain(found[0])


def _known(name: str, names: Sequence[str]) -> str:
    plain = name.strip().lower().replace("_", "-").replace(" ", "-")
    if plain in names:
        return plain
    close = [each for each in names if plain and each.startswith(plain)]
    if len(close) == 1:
        return close[0]
    raise UnknownNameError(
        f"rules needs the name of a rule; got {name!r}.{did_you_mean(plain, names)} `fullspan rules` lists them all."
    )


def _plain(rule: Any) -> dict[str, Any]:
    folder = resources.files("fullspan.diagnose")
    prose = dict(_PROSE.findall(folder.joinpath("rules.md").read_text(encoding="utf-8")))
    limits = _section(folder.joinpath("thresholds.toml").read_text(encoding="utf-8"), rule.name)
    text = _LINK.sub(r"\1", prose.get(rule.name, "")).strip()
    return {"name": rule.name, "about": rule.about, "limits": limits, "text": text}


def _section(toml: str, name: str) -> str:
    """The section of the shipped limits, comments included."""
    head = re.search(rf"^\[{re.escape(name)}\].*?(?=^\[|\Z)", toml, re.MULTILINE | re.DOTALL)
    return head[0].strip() if head else ""


def _list(found: Sequence[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for each in found:
        grid.add_row(each["name"], Text(each["about"], "dim"))
    print_rich(grid, color=colored(sys.stdout))
    echo("\nOne explained: fullspan rules mean-shift\n")


def _explain(found: dict[str, Any]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    things: list[Any] = [Text.assemble((found["name"], "bold"), f"  looks for {found['about']}"), ""]
    for part in re.split(r"\n\s*\n", found["text"]):
        listed = re.search(r"^(- |\||```| {4})", part, re.MULTILINE)
        things += [Text(part if listed else " ".join(part.split())), ""]
    if found["limits"]:
        things += [Text("Limits that ship, which a fullspan.toml overrides:", "dim")]
        things += [Padding(Text(found["limits"], "cyan"), (0, 0, 0, 2))]
    print_rich(*things, color=colored(sys.stdout))
