"""``fullspan report``: training runs as one page."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import Any

import click

from fullspan.cli.lazy import Command
from fullspan.cli.options import debug_option, option
from fullspan.cli.output import Sink
from fullspan.cli.progress import Told, progress_bar

__all__ = ["report"]

_HELP = """Write one or several training runs as one HTML page: curves, spectra and maps through time, and findings.

The page needs no network and no other file. Several runs are compared: the first one is what the others differ from.
A run can be read while it is still written.
"""
_EXAMPLES = """
fullspan report runs/mf --out mf.html
fullspan report runs/sgd runs/adam --out both.html --title "SGD and Adam"
fullspan report runs/mf --out mf.html --maps pacmap --table item
fullspan report runs/mf --out mf.html --figures figures/
fullspan report runs/mf --json
"""
_METHODS = ("pca", "pca-shared", "pacmap", "tsne", "umap", "none")
_FEWEST_POINTS = 200


@click.command(cls=Command, help=_HELP, examples=_EXAMPLES)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path())
@option("--title", metavar="TEXT", section="Page", help="Heading; by default the names of the runs.")
@option(
    "--maps",
    type=click.Choice(_METHODS),
    section="Page",
    help="How tables are drawn in the plane; by default pca, where the run has snapshots.",
)
@option("--table", "-t", "tables", metavar="NAME", multiple=True, section="Page", help="Table to map; repeatable.")
@option(
    "--max-points",
    type=click.IntRange(2),
    default=10_000,
    show_default=True,
    metavar="N",
    section="Page",
    help="Points of all maps of the page together, in one frame.",
)
@option(
    "--separability",
    is_flag=True,
    section="Page",
    help="Also how well the labels in the snapshots separate, with and without normalizers.",
)
@option("--out", "-o", metavar="FILE", type=click.Path(), section="Output", help="Write the page here (html or json).")
@option("--figures", metavar="DIR", type=click.Path(), section="Output", help="Also figures for a paper: SVG and PDF.")
@option("--open", "open_it", is_flag=True, section="Output", help="Open the page in the browser.")
@option("--json", "as_json", is_flag=True, section="Output", help="How the runs ended and what was found, as JSON.")
@option("--quiet", "-q", is_flag=True, section="Output", help="No progress and no remarks.")
@debug_option
def report(
    runs: tuple[str, ...],
    title: str | None,
    maps: str | None,
    tables: tuple[str, ...],
    max_points: int,
    separability: bool,
    out: str | None,
    figures: str | None,
    open_it: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from fullspan.store.runs import open_run

    if out in (None, "-") and open_it:
        raise click.UsageError("--open needs a file to open: give --out FILE.")
    if out is None and not as_json and figures is None:
        raise click.UsageError("report needs --out FILE for the page, --figures DIR, or --json.")
    sink = _sink(out, as_json, quiet, runs)
    opened: list[Any] = [open_run(path) for path in runs]
    drawn = []
    if _needs_maps(maps, sink, figures):
        with progress_bar(quiet) as told:
            drawn = _maps(opened, maps, tables, max_points, told, quiet)
    if separability:
        with progress_bar(quiet) as told:
            opened = [_separated(run, tables, told, quiet) for run in opened]
    if sink is not None:
        sink.write(_as_json(opened) if sink.form == "json" else _as_page(opened, drawn, title))
    if figures is not None:
        _draw(opened, [frames for _, frames in drawn], figures, quiet)
    if open_it and out is not None:
        webbrowser.open(Path(out).resolve().as_uri())


def _sink(out: str | None, as_json: bool, quiet: bool, runs: tuple[str, ...]) -> Sink | None:
    """Where the page or the JSON goes; None where only figures are asked for."""
    if out is None and not as_json:
        return None
    return Sink("html" if out == "-" and not as_json else None, as_json, out, quiet, runs, ("html", "json"))


def _needs_maps(maps: str | None, sink: Sink | None, figures: str | None) -> bool:
    """Whether maps are to be drawn at all."""
    return maps != "none" and (figures is not None or (sink is not None and sink.form == "html"))


def _as_json(runs: list[Any]) -> str:
    from fullspan.report.run_json import run_report

    return json.dumps(run_report(runs), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _as_page(runs: list[Any], drawn: list[Any], title: str | None) -> str:
    from fullspan.report.run_page import render_run_page

    return render_run_page(runs, drawn, title)


def _maps(
    runs: list[Any], method: str | None, tables: tuple[str, ...], max_points: int, told: Told | None, quiet: bool
) -> list[Any]:
    """Maps of the tables that have snapshots, with the points of the page shared among them."""
    from fullspan.errors import InputError
    from fullspan.monitor.projections import project

    wanted = _mapped(runs, tables)
    if not wanted:
        if method is not None or tables:
            raise InputError(
                "report --maps needs snapshots of a table in the run; got none. "
                "Record them with fullspan.watch(..., snapshots=True), or leave the maps out with --maps none."
            )
        return []
    each = max(max_points // len(wanted), min(_FEWEST_POINTS, max_points))
    drawn, failures = [], []
    for place, run, table in wanted:
        try:
            drawn.append((place, project(run, table, method or "pca", rows=each, progress=told)))
        except InputError as error:
            failures.append(error)
            if not quiet:
                click.echo(f"fullspan: no map of {table!r}: {error}", err=True)
    if failures and not drawn and method is not None:
        raise failures[0]
    return drawn


def _separated(run: Any, tables: tuple[str, ...], told: Told | None, quiet: bool) -> Any:
    """The run with the separability of its labels among its curves."""
    from fullspan.errors import InputError
    from fullspan.monitor.separability import separability
    from fullspan.report.run_content import content_of, with_points

    labeled = [table for _, _, table in _mapped([run], tables) if run.snapshots(table)[-1].read()[2] is not None]
    if not labeled:
        raise InputError(
            "report --separability needs snapshots with labels in every run; got none in "
            f"{str(run.path)!r}. Record them with fullspan.watch(..., labels=…), or leave --separability out."
        )
    points, failures = [], []
    for table in labeled:
        try:
            points += separability(run, table, progress=told).points()
        except InputError as error:
            failures.append(error)
            if not quiet:
                click.echo(f"fullspan: no separability of {table!r}: {error}", err=True)
    if len(failures) == len(labeled):
        raise failures[0]
    return with_points(content_of(run), points)


def _mapped(runs: list[Any], tables: tuple[str, ...]) -> list[tuple[int, Any, str]]:
    """Position of the run, run, and table of every map."""
    from fullspan.errors import UnknownNameError, did_you_mean

    known = {table for run in runs for table in run.tables}
    for name in tables:
        if name not in known:
            raise UnknownNameError(
                f"report --table needs a table of the runs; got {name!r}.{did_you_mean(name, known)} "
                f"They have: {', '.join(sorted(known)) or 'none'}."
            )
    return [
        (place, run, table)
        for place, run in enumerate(runs)
        for table in run.tables
        if (not tables or table in tables) and run.snapshots(table)
    ]


def _draw(runs: list[Any], maps: list[Any], folder: str, quiet: bool) -> None:
    from fullspan.report.run_figures import save_run_figures

    written = save_run_figures(runs, folder, maps)
    if not quiet:
        click.echo(f"{len(written)} files in {folder}", err=True)
