"""Options that several commands share, each in its section of the help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from fullspan.cli.lazy import Section
from fullspan.jobs.formats import FORMATS

__all__ = ["data_options", "debug_option", "file_argument", "option", "output_options"]

F = TypeVar("F", bound=Callable[..., Any])


def option(*names: str, section: str, **settings: Any) -> Callable[[F], F]:
    """``click.option`` in a section of the help."""
    return click.option(*names, cls=Section, section=section, **settings)


def file_argument(name: str = "file", metavar: str | None = None) -> Callable[[F], F]:
    """A path or an URL: it is the reader that says what is wrong with it."""
    return click.argument(name, metavar=metavar or name.upper(), type=click.Path())


def data_options(function: F) -> F:
    """Which tables of the file, and what lies beside their rows."""
    for add in (
        option(
            "--dtype", metavar="TYPE", section="Data", help="Stored type where the format leaves it open: float32x128."
        ),
        option(
            "--frequencies", metavar="COL|FILE", section="Data", help="How often each row occurs: a column, or a file."
        ),
        option("--labels", metavar="COL|FILE", section="Data", help="Group of each row: a column, or a file."),
        option(
            "--ids", metavar="COL|FILE", section="Data", help="Name of each row: a column, or a file with one a line."
        ),
        option(
            "--column",
            metavar="NAME",
            section="Data",
            help="Column of the vectors; a glob where each dimension has one.",
        ),
        option(
            "--table",
            "-t",
            "table",
            metavar="NAME",
            multiple=True,
            section="Data",
            help="Table or glob to take; repeatable.",
        ),
    ):
        function = add(function)
    return function


def output_options(forms: Sequence[str] = tuple(FORMATS)) -> Callable[[F], F]:
    """Which form, where to, and how much beside it."""

    def add_all(function: F) -> F:
        for add in (
            debug_option,
            option(
                "--quiet", "-q", is_flag=True, section="Output", help="No progress; text without the table of readings."
            ),
            option(
                "--out",
                "-o",
                metavar="FILE",
                type=click.Path(),
                section="Output",
                help="Write here, whole or not at all; - is standard output.",
            ),
            option("--json", "as_json", is_flag=True, section="Output", help="The same as --format json."),
            option(
                "--format",
                "-f",
                "form",
                type=click.Choice(list(forms)),
                section="Output",
                help="By default what the suffix of --out says, else text.",
            ),
        ):
            function = add(function)
        return function

    return add_all


def debug_option(function: F) -> F:
    """`fullspan.cli.main.run` looks for it among the arguments."""
    return click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")(function)
