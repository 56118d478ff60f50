"""``fullspan verify``: do stored vectors come from a fit, and are vectors normalized already?"""

from __future__ import annotations

import json

import click

from fullspan.cli.lazy import Command
from fullspan.cli.options import debug_option, file_argument, option
from fullspan.cli.output import echo
from fullspan.cli.progress import progress_bar

__all__ = ["verify"]

_HELP = """Say whether the vectors of FILE come from the saved fit NORM; without NORM, whether they are normalized.

Exit code 0: mapped once by this fit, or normalized. 1: not mapped, mapped twice, from another fit, or not normalized.
3: nothing could be said.
"""
_EXAMPLES = """
fullspan verify items.norm index.parquet
fullspan verify vectors.npy --json
"""


@click.command(cls=Command, help=_HELP, examples=_EXAMPLES)
@file_argument("norm", metavar="[NORM]")
@click.argument("file", type=click.Path(), required=False)
@option("--table", "-t", metavar="NAME", section="Data", help="Table to take, of several.")
@option("--column", metavar="NAME", section="Data", help="Column of the vectors.")
@option("--json", "as_json", is_flag=True, section="Output", help="Say what was found as JSON.")
@option("--quiet", "-q", is_flag=True, section="Output", help="No progress.")
@debug_option
def verify(norm: str, file: str | None, table: str | None, column: str | None, as_json: bool, quiet: bool) -> int:
    from fullspan.jobs.verify import verify as job

    with progress_bar(quiet) as told:
        found = job(norm, file, table=table, column=column, progress=told)
    echo(json.dumps(found.to_dict(), indent=2, allow_nan=False) + "\n" if as_json else f"{found.words}\n")
    return found.exit_code
