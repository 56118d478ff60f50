"""The reference of the command line, from its own help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click


def walk(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """Path of each command and its help, parents first."""
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            try:
                child = command.get_command(context, name)
            except ModuleNotFoundError:
                continue
            if child is not None and not child.hidden:
                yield from walk(child, click.Context(child, info_name=name, parent=context, max_content_width=100))


def pages() -> tuple[dict[str, str], Any]:
    try:
        from fullspan.cli.main import app
    except ModuleNotFoundError:
        return {}, None
    lines = ["# Command line", "", "What `fullspan COMMAND --help` prints."]
    context = click.Context(app, info_name="fullspan", max_content_width=100, terminal_width=100)
    for path, text in walk(app, context):
        lines += ["", f"## {path}", "", "```text", click.unstyle(text), "```"]
    return {"reference/cli.md": "\n".join([*lines, ""])}, {"Command line": "reference/cli.md"}
