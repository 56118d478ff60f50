"""The figures of the article, and those past it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fullspan.studies.base import figures as draw
from fullspan.studies.base.figures import COLORS, Curve, Dot, Panel
from fullspan.studies.base.result import CellCurves
from fullspan.studies.base.study import Figure
from fullspan.studies.movielens.causes import decile_changes, trend
from fullspan.studies.movielens.grid import BATCH_SIZES, OPTIMIZERS
from fullspan.studies.movielens.work import DECILES, MEASURES

__all__ = ["article_figures", "cause_figures"]

_TITLES = {
    "gini_index": "Gini index",
    "hoyer_sparsity": "Hoyer sparsity",
    "vector_entropy": "Vector entropy (nats)",
    "spectral_entropy": "Spectral entropy (nats)",
}
_SPOKEN = {"sgd": "SGD", "adam": "Adam"}
_TREND_COLORS = {"rises": COLORS[1], "falls": COLORS[0], "flat": "#444444", "unclear": "#999999"}


def article_figures(cells: Mapping[str, CellCurves]) -> tuple[Figure, ...]:
    """One figure an optimizer, one row a batch size; then the changes of all cells, and those by rating count."""
    found = [_curves(cells, optimizer, number) for number, optimizer in enumerate(OPTIMIZERS, 1)]
    some = {name: curves for name, curves in cells.items() if curves.cell.part == "article"}
    changes = Figure(
        "figure-3-changes",
        "Figure 3. Change of each measure over the epochs (Theil–Sen slope times epochs): mean over seeds with its "
        "95% interval. Orange rises, blue falls, gray is unclear.",
        "A row for each optimizer and batch size, a column for each of the four measures, with intervals beside zero.",
        _forest(some, "Change over the epochs"),
    )
    return (*found, changes, _deciles(cells))


def cause_figures(cells: Mapping[str, CellCurves]) -> tuple[Figure, ...]:
    """The changes of every variant past the article."""
    more = {name: curves for name, curves in cells.items() if curves.cell.part != "article"}
    if not more:
        return ()
    drawn = _forest(more, "Change over the run, past the article")
    caption = (
        "Figure 5. What was varied past the article: change of each measure over the run, mean over seeds with its "
        "95% interval. Orange rises, blue falls, black is flat, gray is unclear."
    )
    return (Figure("figure-5-causes", caption, "A row for each variant, a column for each of the measures.", drawn),)


def _curves(cells: Mapping[str, CellCurves], optimizer: str, number: int) -> Figure:
    rows = [
        _row(cells[f"{optimizer}-b{b}"], b, first=b == BATCH_SIZES[0], last=b == BATCH_SIZES[-1]) for b in BATCH_SIZES
    ]
    n_seeds = len(cells[f"{optimizer}-b1"].seeds)
    band = f"Mean over {n_seeds} seeds; thin lines and band: the seeds." if n_seeds > 1 else "One seed."
    spoken = _SPOKEN[optimizer]
    return Figure(
        f"figure-{number}-{optimizer}",
        f"Figure {number}. {spoken}: losses and measures over the epochs, one row a batch size. {band}",
        f"Four rows of five panels for {spoken}: losses, Gini index, Hoyer sparsity, vector entropy, spectral entropy.",
        draw.panels(rows, title=f"{spoken}: losses and embedding measures", caption=band),
    )


def _row(curves: CellCurves, batch_size: int, *, first: bool, last: bool) -> list[Panel]:
    x = curves.x[1:]
    epoch = "epoch" if last else ""
    losses = (
        Curve(x, curves["loss"][:, 1:], COLORS[0], "training" if first else ""),
        Curve(x, curves["test_loss"][:, 1:], COLORS[1], "test" if first else "", dashed=True),
    )
    panels = [Panel(losses, "Loss (nats)" if first else "", f"batch {batch_size}", epoch)]
    for measure in MEASURES:
        curve = Curve(x, curves[measure][:, 1:], COLORS[2])
        panels.append(Panel((curve,), _TITLES[measure] if first else "", "", epoch))
    return panels


def _forest(cells: Mapping[str, CellCurves], title: str) -> Any:
    return draw.forest([(_TITLES[name], _dots(cells, name)) for name in MEASURES], title=title)


def _dots(cells: Mapping[str, CellCurves], measure: str) -> list[Dot]:
    dots = []
    for name, curves in cells.items():
        found, said = trend(curves.changes(measure))
        group = curves.cell.part if curves.cell.part != "article" else name.partition("-")[0]
        dots.append(Dot(name, found.mean, found.low, found.high, _TREND_COLORS[said], group))
    return dots


def _deciles(cells: Mapping[str, CellCurves]) -> Figure:
    x = np.arange(1, DECILES + 1, dtype=np.float64)
    rows = []
    for number, table in enumerate(("users", "items")):
        rows.append([_decile_panel(cells, x, table, o, m, number) for o in OPTIMIZERS for m in MEASURES[::3]])
    caption = "One line a batch size; band from the least to the greatest seed."
    return Figure(
        "figure-4-deciles",
        "Figure 4. Change over the epochs by decile of rating count in the training set, rarest first: users "
        f"above, items below. {caption}",
        "Two rows of four panels: change of Gini index and spectral entropy by decile, for SGD and Adam.",
        draw.panels(rows, title="Change over the epochs by decile of rating count", caption=caption),
    )


def _decile_panel(
    cells: Mapping[str, CellCurves], x: np.ndarray, table: str, optimizer: str, measure: str, row: int
) -> Panel:
    curves = tuple(
        Curve(x, decile_changes(cells[f"{optimizer}-b{b}"], table, measure), color, f"batch {b}" if not row else "")
        for b, color in zip(BATCH_SIZES, COLORS, strict=False)
    )
    title = f"{_SPOKEN[optimizer]}: {_TITLES[measure].partition(' (')[0]}" if not row else ""
    first = optimizer == OPTIMIZERS[0] and measure == MEASURES[0]
    return Panel(curves, title, table if first else "", "decile" if row else "")
