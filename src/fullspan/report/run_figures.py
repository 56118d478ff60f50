"""Figures of training runs for a paper, drawn by matplotlib: curves, singular values through time, maps."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fullspan._extras import require
from fullspan.errors import InputError
from fullspan.jobs.formats.write import OutputError
from fullspan.report.run_content import Content, Series, content_of, value_of
from fullspan.store.records import MapFrames

__all__ = ["curve_figure", "map_figure", "save_run_figures", "spectrum_figure"]

_CLOCKS = {"epoch": "epoch", "step": "optimizer step", "samples": "samples seen"}
#: Told apart with the common kinds of color blindness.
_COLORS = ("#1f6fb2", "#c4570f", "#1a7a5e", "#8a5fb0", "#a3306f", "#77690a", "#0b7f8f", "#5f6468")
_DASHES = ("-", "--", ":", "-.")
_FORMATS = ("svg", "pdf", "png")
_STYLE = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.titlesize": 8.5,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "lines.linewidth": 1.2,
    "svg.fonttype": "none",
    "svg.hashsalt": "fullspan",
    "pdf.fonttype": 42,
}
_USER = "Drawing figures of a run"
F = TypeVar("F", bound=Callable[..., Any])


def _styled(draw: F) -> F:
    """Draw in the style of a paper, whatever the user's own style is."""

    @functools.wraps(draw)
    def drawn(*args: Any, **options: Any) -> Any:
        with require("matplotlib", "figures", _USER).rc_context(_STYLE):
            return draw(*args, **options)

    return drawn  # type: ignore[return-value]  # the same signature


def save_run_figures(
    runs: Sequence[Any],
    folder: str | os.PathLike[str],
    maps: Sequence[MapFrames] = (),
    formats: Sequence[str] = ("svg", "pdf"),
) -> list[Path]:
    """Draw every curve, spectrum and map of the runs into a folder.

    Parameters
    ----------
    runs
        Readers of :mod:`fullspan.store.runs`; several are drawn over one another.
    folder
        Where to; made when it is missing.
    maps
        Maps through time, drawn as their first, middle and last frames.
    formats
        Of ``"svg"``, ``"pdf"`` and ``"png"``.

    Returns
    -------
    list of Path
        What was written: ``MEASURE.svg``, ``singular-values-RUN-TABLE.svg``, ``map-TABLE-METHOD.svg`` and so on.

    Raises
    ------
    InputError
        If `runs` is empty, or a format is not known.
    OutputError
        If the folder cannot be written.
    MissingExtraError
        If matplotlib is not installed.

    Notes
    -----
    The same runs give the same bytes: no date is written into the files.

    Examples
    --------
    >>> import fullspan as fs
    >>> save_run_figures([fs.open_run("runs/mf")], "figures", formats=["pdf"])  # doctest: +SKIP
    """
    unknown = [name for name in formats if name not in _FORMATS]
    if unknown:
        raise InputError(f"save_run_figures needs formats of {', '.join(_FORMATS)}; got {unknown[0]!r}.")
    contents = [content_of(run) for run in runs]
    if not contents:
        raise InputError("save_run_figures needs at least one run; got none. Open one with fullspan.open_run.")
    written: list[Path] = []
    taken: set[str] = set()
    for name, figure in _figures(contents, maps):
        base = _file_name(name, taken)
        written += [_save(figure, Path(folder) / f"{base}.{form}", form) for form in formats]
    return written


def _figures(contents: Sequence[Content], maps: Sequence[MapFrames]) -> Iterator[tuple[str, Any]]:
    """Name and figure of all there is to draw, one after the other."""
    for measure in dict.fromkeys(series.measure for content in contents for series in content.series):
        yield measure, curve_figure(contents, measure)
    for content in contents:
        for table in content.spectra:
            lead = f"{content.name}-" if len(contents) > 1 else ""
            yield f"singular-values-{lead}{table}", spectrum_figure(content, table)
    for frames in maps:
        yield f"map-{frames.table}-{frames.method}", map_figure(frames)


@_styled
def curve_figure(
    runs: Sequence[Any], measure: str, tables: Sequence[str] | None = None, clock: str = "epoch", log: bool = False
) -> Any:
    """One measure through training: a line a table, and with several runs a color a run.

    Parameters
    ----------
    runs
        Readers of :mod:`fullspan.store.runs`.
    measure
        What to draw; of the run itself where no table has it.
    tables
        Names; None takes all that have the measure.
    clock
        ``"epoch"``, ``"step"`` or ``"samples"``; steps where nobody counted epochs or samples.
    log
        Whether the values are on a logarithmic axis.

    Returns
    -------
    matplotlib.figure.Figure
        8.4 cm wide, one column of a paper. Full passes are dots; undefined values are gaps.

    Raises
    ------
    InputError
        If no run has the measure, or the clock is not known.
    """
    if clock not in _CLOCKS:
        raise InputError(f"curve_figure needs a clock of {', '.join(_CLOCKS)}; got {clock!r}.")
    contents = [content_of(run) for run in runs]
    chosen = [
        (place, each) for place, content in enumerate(contents) for each in content.series if each.measure == measure
    ]
    chosen = [(place, each) for place, each in chosen if tables is None or each.table in tables]
    if not chosen:
        raise InputError(
            f"curve_figure needs a measure of the runs; got {measure!r}. `fullspan report --json` lists them."
        )
    kept = _clock_of(chosen, clock)
    figure, axes = _sheet(3.31, 2.2)
    names = list(dict.fromkeys(each.table for _, each in chosen))
    for place, each in chosen:
        _line(axes, contents, place, each, names, kept)
    if log:
        axes.set_yscale("log")
    told = next(content for content in contents if any(each.measure == measure for each in content.series))
    unit = told.unit(measure)
    axes.set_xlabel(_CLOCKS[kept])
    axes.set_ylabel(told.title(measure) + (f" ({unit})" if unit else ""))
    if 1 < len(chosen) <= 12:
        axes.legend()
    return figure


def _clock_of(chosen: Sequence[tuple[int, Series]], clock: str) -> str:
    counted = all(getattr(point.at, clock) is not None for _, each in chosen for point in each.points)
    return clock if counted else "step"


def _line(axes: Any, contents: Sequence[Content], place: int, each: Series, names: Sequence[str], clock: str) -> None:
    several, row = len(contents) > 1, names.index(each.table)
    color = _COLORS[(place if several else row) % len(_COLORS)]
    label = " · ".join(filter(None, (contents[place].name if several else "", each.table if len(names) > 1 else "")))
    xs = [float(getattr(point.at, clock)) for point in each.points]
    ys = [np.nan if (value := value_of(point)) is None else value for point in each.points]
    dash = _DASHES[row % len(_DASHES)] if several else "-"
    axes.plot(xs, ys, dash, color=color, label=label or None, solid_capstyle="round")
    n_rows = getattr(contents[place].tables.get(each.table), "n_rows", None)
    full = [at for at, point in enumerate(each.points) if n_rows and point.n_rows and point.n_rows >= n_rows]
    if 0 < len(full) <= 60:
        axes.plot([xs[at] for at in full], [ys[at] for at in full], "o", color=color, markersize=2.4)


@_styled
def spectrum_figure(run: Any, table: str, relative: bool = True) -> Any:
    """Singular values of a table through training, as a heat map on a logarithmic color scale.

    Parameters
    ----------
    run
        A reader of :mod:`fullspan.store.runs`.
    table
        Name of a table whose singular values were recorded.
    relative
        Whether they are divided by the largest of each reading.

    Returns
    -------
    matplotlib.figure.Figure
        A column a reading, a row a singular value, the largest on top. Zeros are left blank.

    Raises
    ------
    InputError
        If the run has no singular values of the table.
    """
    content = content_of(run)
    found = content.spectra.get(table)
    if not found:
        raise InputError(
            f"spectrum_figure needs a table with singular values; got {table!r}. "
            f"The run has them of: {', '.join(content.spectra) or 'none'}."
        )
    ranks = max(len(values) for _, values in found)
    grid = np.full((ranks, len(found)), np.nan)
    for place, (_, values) in enumerate(found):
        grid[: len(values), place] = values / (values[0] if relative and values[0] > 0 else 1.0)
    grid[~(grid > 0)] = np.nan
    figure, axes = _sheet(3.31, 2.2)
    colors = require("matplotlib.colors", "figures", _USER)
    shown = axes.imshow(
        np.ma.masked_invalid(grid),
        aspect="auto",
        cmap="viridis",
        norm=colors.LogNorm(*_span(grid)),
        extent=_extent(found, ranks),
        interpolation="nearest",
    )
    figure.colorbar(shown, ax=axes, label="σ over the largest" if relative else "singular value")
    axes.set_xlabel("reading" if _uneven(found) else _CLOCKS[_clock_name(found)])
    axes.set_ylabel("rank")
    axes.set_title(table, loc="left")
    return figure


def _span(grid: np.ndarray) -> tuple[float, float]:
    there = grid[np.isfinite(grid)]
    if not len(there):
        return 0.1, 1.0
    high = float(there.max())
    return max(float(there.min()), high * 1e-8) * (1.0 if there.min() < high else 0.9), high


def _clock_name(found: Sequence[Any]) -> str:
    return "epoch" if all(at.epoch is not None for at, _ in found) else "step"


def _uneven(found: Sequence[Any]) -> bool:
    """Whether the readings are too far from evenly spaced for an axis of steps."""
    gaps = np.diff([float(getattr(at, _clock_name(found))) for at, _ in found])
    return len(gaps) > 1 and bool(gaps.max() > 1.5 * gaps.min())


def _extent(found: Sequence[Any], ranks: int) -> tuple[float, float, float, float]:
    low, high = 0.5, len(found) + 0.5
    if not _uneven(found) and len(found) > 1:
        ends = [float(getattr(found[place][0], _clock_name(found))) for place in (0, -1)]
        half = (ends[1] - ends[0]) / (len(found) - 1) / 2
        low, high = ends[0] - half, ends[1] + half
    return low, high, ranks + 0.5, 0.5


@_styled
def map_figure(frames: MapFrames, color: str | None = None, shown: int = 3) -> Any:
    """Frames of a map side by side, on one scale.

    Parameters
    ----------
    frames
        A map through time.
    color
        Which of its colors; None takes the first.
    shown
        How many frames, evenly chosen, the first and the last among them.

    Returns
    -------
    matplotlib.figure.Figure
        Each frame is titled with its epoch or step, and the share of neighbors that it keeps.

    Raises
    ------
    InputError
        If the map has no such color.
    """
    if color is not None and color not in frames.colors:
        raise InputError(
            f"map_figure needs a color of the map; got {color!r}. It has: {', '.join(frames.colors) or 'none'}."
        )
    places = sorted({round(at) for at in np.linspace(0, len(frames.steps) - 1, min(shown, len(frames.steps)))})
    figures = require("matplotlib.figure", "figures", _USER)
    figure = figures.Figure(figsize=(2.2 * len(places), 2.5), layout="constrained")
    panes = np.atleast_1d(figure.subplots(1, len(places), sharex=True, sharey=True))
    values, legend = _inks(frames, color)
    look: dict[str, Any] = {"s": 3, "linewidths": 0, "rasterized": True}
    drawn = None
    for axes, place in zip(panes, places, strict=True):
        drawn = axes.scatter(*frames.positions[place].T, c=values, **look)
        axes.set_title(_frame_title(frames, place))
        axes.set_aspect("equal")
        axes.set_xticks([])
        axes.set_yticks([])
    if not legend and frames.colors:
        figure.colorbar(drawn, ax=list(panes), label=color or next(iter(frames.colors)), shrink=0.8)
    for name, ink in legend:
        panes[-1].scatter([], [], color=ink, s=10, label=name)
    if legend:
        figure.legend(loc="outside lower center", ncols=min(len(legend), 6))
    return figure


def _inks(frames: MapFrames, color: str | None) -> tuple[Any, list[tuple[str, str]]]:
    name = color or next(iter(frames.colors), None)
    if name is None:
        return _COLORS[0], []
    values = np.asarray(frames.colors[name])
    if values.dtype.kind in "fiu" and "label" not in name:
        return values, []
    words, codes, counts = np.unique(values.astype(str), return_inverse=True, return_counts=True)
    ranked = np.argsort(-counts, kind="stable")[: len(_COLORS) - 1]
    inks = np.full(len(words), _COLORS[-1], dtype=object)
    inks[ranked] = _COLORS[: len(ranked)]
    return inks[codes].tolist(), [(str(words[at]), str(inks[at])) for at in ranked]


def _frame_title(frames: MapFrames, place: int) -> str:
    epoch = np.nan if frames.epochs is None else frames.epochs[place]
    when = f"step {int(frames.steps[place]):,}" if np.isnan(epoch) else f"epoch {epoch:.4g}"
    kept = np.nan if frames.preservation is None else frames.preservation[place]
    return when if np.isnan(kept) else f"{when}, {kept:.0%} kept"


def _sheet(width: float, height: float) -> tuple[Any, Any]:
    """A figure and its axes, without the state of pyplot."""
    figures = require("matplotlib.figure", "figures", _USER)
    figure = figures.Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _save(figure: Any, target: Path, form: str) -> Path:
    """Write one figure, whole or not at all."""
    matplotlib = require("matplotlib", "figures", _USER)
    held = io.BytesIO()
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[form]
    with matplotlib.rc_context(_STYLE):
        figure.savefig(held, format=form, metadata=dates, dpi=300)
    part = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(held.getvalue())
        part.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise OutputError(
            f"Drawing figures needs a folder that can be written; got {error.strerror or error} at {str(target)!r}."
        ) from error
    return target


def _file_name(name: str, taken: set[str]) -> str:
    """A name that every file system takes, and that no other figure has."""
    plain = re.sub(r"[^\w.-]+", "-", name).strip("-.")[:80] or "figure"
    count, chosen = 1, plain
    while chosen.lower() in taken:
        count += 1
        chosen = f"{plain}-{count}"
    taken.add(chosen.lower())
    return chosen
