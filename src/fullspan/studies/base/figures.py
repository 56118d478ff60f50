"""Figures for a page and for paper: panels of curves with bands, and effects with intervals."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullspan import _extras
from fullspan._typing import Array

__all__ = ["COLORS", "Curve", "Dot", "Panel", "forest", "panels", "save"]

#: Blue, orange, green, pink, sky, vermilion: told apart by all kinds of color vision (Okabe and Ito 2008).
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_STYLE = {
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#777777",
    "axes.grid": True,
    "grid.color": "#e6e6e2",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "fullspan",
    "figure.facecolor": "white",
    "axes.formatter.useoffset": False,
}


@dataclass(frozen=True)
class Curve:
    """One line of a panel: the mean of ``(n_seeds, n_points)`` values, thin lines of each seed, a band around them."""

    x: Array
    values: Array
    color: str = COLORS[0]
    label: str = ""
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """Curves in one pair of axes."""

    curves: tuple[Curve, ...]
    title: str = ""
    ylabel: str = ""
    xlabel: str = ""


@dataclass(frozen=True)
class Dot:
    """A row of a forest: an estimate with its interval (None for one seed)."""

    label: str
    mean: float
    low: float | None
    high: float | None
    color: str = COLORS[0]
    group: str = ""


@contextlib.contextmanager
def _styled(user: str) -> Iterator[Any]:
    matplotlib = _extras.require("matplotlib", "figures", user)
    _extras.require("matplotlib.figure", "figures", user)
    with matplotlib.rc_context(_STYLE):
        yield matplotlib.figure.Figure


def panels(rows: Sequence[Sequence[Panel]], *, title: str = "", caption: str = "") -> Any:
    """Draw panels in rows and columns.

    Parameters
    ----------
    rows
        Panels of each row, all of one length. The labels of the first panel's curves are those of all.
    title, caption
        Above and below all of them.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    MissingExtraError
        Without matplotlib.
    """
    n_rows, n_columns = len(rows), max(map(len, rows))
    with _styled("Drawing the figures of a study") as figure_type:
        figure = figure_type(figsize=(2.45 * n_columns, 1.75 * n_rows + 0.8), layout="constrained")
        axes = figure.subplots(n_rows, n_columns, squeeze=False, sharex="col")
        for row, line in zip(axes, rows, strict=True):
            for place, panel in zip(row, line, strict=True):
                _draw(place, panel)
        lines, labels = axes[0, 0].get_legend_handles_labels()
        if labels:
            figure.legend(lines, labels, loc="outside upper right", ncols=len(labels), handlelength=1.6)
        _frame(figure, title, caption)
    return figure


def _draw(axes: Any, panel: Panel) -> None:
    for curve in panel.curves:
        mean = curve.values.mean(axis=0)
        if len(curve.values) > 1:
            low, high = curve.values.min(axis=0), curve.values.max(axis=0)
            axes.fill_between(curve.x, low, high, color=curve.color, alpha=0.16, linewidth=0)
            axes.plot(curve.x, curve.values.T, color=curve.color, linewidth=0.4, alpha=0.4)
        dashes = "--" if curve.dashed else "-"
        axes.plot(curve.x, mean, dashes, color=curve.color, linewidth=1.8, label=curve.label or None)
    axes.set_title(panel.title)
    axes.set_xlabel(panel.xlabel)
    axes.set_ylabel(panel.ylabel, fontweight="bold" if panel.ylabel else "normal")
    axes.margins(x=0.02)


def _frame(figure: Any, title: str, caption: str) -> None:
    if title:
        figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    if caption:
        figure.supxlabel(caption, fontsize=8, color="#555555", x=0.01, ha="left")


def forest(columns: Sequence[tuple[str, Sequence[Dot]]], *, title: str = "", caption: str = "") -> Any:
    """Draw estimates with intervals, a column a measure, a row a setting; all columns have the same rows.

    Parameters
    ----------
    columns
        Title of a column and its rows from top to bottom.
    title, caption
        Above and below all of them.
    """
    labels = [dot.label for dot in columns[0][1]]
    with _styled("Drawing the figures of a study") as figure_type:
        size = (2.2 + 2.5 * len(columns), 0.225 * len(labels) + 1.3)
        figure = figure_type(figsize=size, layout="constrained")
        axes = figure.subplots(1, len(columns), squeeze=False, sharey=True)[0]
        for place, (name, dots) in zip(axes, columns, strict=True):
            _draw_forest(place, name, dots)
        axes[0].set_yticks(range(len(labels)), labels)
        axes[0].set_ylim(len(labels) - 0.5, -0.5)
        _frame(figure, title, caption)
    return figure


def _draw_forest(axes: Any, name: str, dots: Sequence[Dot]) -> None:
    axes.axvline(0, color="#444444", linewidth=0.9)
    for row, dot in enumerate(dots):
        if dot.low is not None and dot.high is not None:
            axes.plot([dot.low, dot.high], [row, row], color=dot.color, linewidth=2, solid_capstyle="butt")
        axes.plot([dot.mean], [row], "o", color=dot.color, markersize=4)
        if row and dots[row - 1].group != dot.group:
            axes.axhline(row - 0.5, color="#bbbbbb", linewidth=0.7)
    axes.set_title(name)
    axes.tick_params(axis="y", length=0)
    limit = max((abs(v) for dot in dots for v in (dot.mean, dot.low or 0, dot.high or 0)), default=1.0) or 1.0
    axes.set_xlim(-1.08 * limit, 1.08 * limit)


def save(figure: Any, stem: Path) -> dict[str, bytes]:
    """Write a figure as SVG and PNG, each whole or not at all, and give both.

    Parameters
    ----------
    figure
        A matplotlib figure.
    stem
        Path without suffix.
    """
    made = {}
    with _styled("Drawing the figures of a study"):
        figure.draw_without_rendering()  # lays out, which costs as much as drawing; once is enough
        figure.set_layout_engine("none")
        for kind, settings in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 150})):
            held = io.BytesIO()
            figure.savefig(held, format=kind, **settings)
            made[kind] = held.getvalue()
            _write(stem.with_name(f"{stem.name}.{kind}"), made[kind])
    return made


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
