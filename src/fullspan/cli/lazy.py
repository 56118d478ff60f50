"""A group whose commands are imported when they are called, and help that reads well: sections, examples, verbatim."""

from __future__ import annotations

import importlib
from typing import Any

import click

from fullspan.errors import did_you_mean

__all__ = ["Command", "Group", "Section"]


class Section(click.Option):
    """An option that names the section of the help it belongs to."""

    def __init__(self, *args: Any, section: str = "Options", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section

    def get_help_extra(self, ctx: click.Context) -> Any:
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


class _ShortHelp(click.Command):
    """``-h`` beside ``--help`` under any context: click keeps the option that the first context asked for."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        return ["-h", "--help"]


class Command(_ShortHelp):
    """A command with examples under its help, and options in sections."""

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections.setdefault(getattr(parameter, "section", "Options"), []).append(record)
        for name, records in sorted(sections.items(), key=lambda item: item[0] == "Options"):
            with formatter.section(name):
                formatter.write_dl(records, col_max=26)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self.examples, formatter)


def _write_examples(examples: str, formatter: click.HelpFormatter) -> None:
    if examples:
        with formatter.section("Examples"):
            for line in examples.strip().splitlines():
                formatter.write(f"  {line.strip()}".rstrip() + "\n")


class Group(_ShortHelp, click.Group):
    """Commands by the place they live in: nothing of them is imported for the list."""

    def __init__(self, *args: Any, places: dict[str, tuple[str, str]], examples: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.places = places
        self.examples = examples

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.places:
            return None
        module, _, name = self.places[cmd_name][0].partition(":")
        return getattr(importlib.import_module(module), name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0]
        if name not in self.places and not name.startswith("-"):
            ctx.fail(
                f"No command is named {name!r}.{did_you_mean(name, self.places)} Commands: {', '.join(self.places)}."
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, told) for name, (_, told) in self.places.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self.examples, formatter)
