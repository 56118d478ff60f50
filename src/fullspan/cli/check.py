"""``fullspan check``: a gate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from fullspan.cli.lazy import Command
from fullspan.cli.options import data_options, file_argument, option, output_options
from fullspan.cli.output import Sink
from fullspan.cli.progress import progress_bar

__all__ = ["check"]

_HELP = """Hold the tables of FILE, a report that `fullspan measure --json` wrote, or a watched run against rules.

The rules that ship with the package always apply; --rules adds limits, waivers and checks of your own.

\b
Exit codes:
  0  passed; warnings and notes do not fail
  1  a rule or check failed
  2  wrong usage, or input that cannot be read
  3  something asked for could not be evaluated: never a pass
"""
_EXAMPLES = """
fullspan check items.npy
fullspan check items.npy --init --out fullspan.toml
fullspan check items.npy --rules fullspan.toml --format github
fullspan check today.json --rules fullspan.toml --baseline good.json
fullspan check runs/mf --rules fullspan.toml --baseline runs/main
fullspan check runs/good --init --out fullspan.toml
"""


@click.command(cls=Command, help=_HELP, examples=_EXAMPLES)
@file_argument()
@option("--rules", "-r", metavar="FILE", type=click.Path(), section="Rules", help="Limits, waivers and checks (toml).")
@option(
    "--baseline",
    metavar="FILE",
    type=click.Path(),
    section="Rules",
    help="A good report (json) or run to compare with.",
)
@option("--init", is_flag=True, section="Rules", help="Propose rules from this run instead of checking it.")
@data_options
@option("--by", metavar="WHAT", section="Data", help="Check groups too: label, frequency, or a column.")
@output_options()
def check(
    file: str,
    rules: str | None,
    baseline: str | None,
    init: bool,
    form: str | None,
    as_json: bool,
    out: str | None,
    quiet: bool,
    **data: Any,
) -> int:
    if init and (form or as_json or rules or baseline):
        raise click.UsageError(
            "--init writes a file of rules (toml); it takes no --format, --json, --rules or --baseline."
        )
    sink = Sink("text" if init else form, as_json, out, quiet, (file, rules, baseline))
    options = _measuring(file, data)
    with progress_bar(quiet) as told:
        if init:
            sink.write(_proposed(file, options, told))
            return 0
        result = _checked(file, rules, baseline, options, told)
    if sink.form in ("text", "json"):
        sink.put(result)
    else:
        sink.put(_with_unevaluated(result))
    return result.exit_code


def _measuring(file: str, data: dict[str, Any]) -> dict[str, Any]:
    """Options for measuring FILE; a saved report or a run was measured before, and takes none."""
    from fullspan.jobs.saved import is_saved_report
    from fullspan.store.runs import is_run

    given = {key: value for key, value in data.items() if value not in (None, ())}
    kind = "report" if is_saved_report(file) else "run" if is_run(file) else None
    if given and kind:
        name = next(iter(given)).replace("_", "-")
        raise click.UsageError(
            f"--{name} says how to measure a table, but {file!r} is a {kind}: it was measured before."
        )
    if "table" in given:
        given["table"] = list(given["table"])
    return given


def _checked(file: str, rules: str | None, baseline: str | None, options: dict[str, Any], told: Any) -> Any:
    from fullspan.errors import NothingEvaluatedError, UnknownNameError
    from fullspan.jobs.check import check as job

    try:
        return job(file, rules, baseline=baseline, progress=told, **options)
    except UnknownNameError as error:  # for a gate, a table that is not there is one that nothing was said of
        raise NothingEvaluatedError(str(error)) from error


def _proposed(file: str, options: dict[str, Any], told: Any) -> str:
    from fullspan.jobs.check import propose_rules
    from fullspan.jobs.propose_run import propose_run_rules
    from fullspan.jobs.saved import is_saved_report, load_report
    from fullspan.store.runs import is_run

    if is_run(file):
        return propose_run_rules(file)
    if is_saved_report(file):
        return propose_rules(load_report(file))
    from fullspan.jobs.measure import measure

    return propose_rules(measure(file, progress=told, **options))


def _with_unevaluated(result: Any) -> Any:
    """The report, with what could not be evaluated among the failures of its table."""
    tables = {
        key: replace(table, findings=(*table.findings, *(each for each in result.unevaluated if each.table == key)))
        for key, table in result.report.tables.items()
    }
    return replace(result.report, tables=tables)
