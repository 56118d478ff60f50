"""The study as a whole: its data, its cells, what is concluded from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fullspan.studies.base.execution import Work
from fullspan.studies.base.figures import COLORS, Curve, Dot, Panel, forest, panels
from fullspan.studies.base.grid import Cell, Task
from fullspan.studies.base.result import CellCurves
from fullspan.studies.base.statistics import interval
from fullspan.studies.base.study import Conclusion, Data, Figure, Table
from fullspan.studies.normalization.claims import at, claims, rate
from fullspan.studies.normalization.data import load
from fullspan.studies.normalization.grid import MODELS, STRATEGIES, Options, cells_of
from fullspan.studies.normalization.work import run_cell

__all__ = ["NormalizationStudy"]

_SHOWN = ("none", "standardize", "unit-norm", "whiten", "batch-norm")
_UNITS = "Accuracy is that of test rows; a rate is chosen on validation rows."


class NormalizationStudy:
    """What :mod:`fullspan.studies.base.study` asks of a study."""

    name = "normalization"
    title = "Does normalizing embeddings help training?"
    question = (
        "GloVe vectors of short texts go into a linear model, an MLP and a small transformer, raw or normalized in one "
        "of ten ways. Does training get faster, steadier, better, once each has its own learning rate, and do the "
        "article's ten practices hold?"
    )
    packages = ("numpy", "torch", "matplotlib")
    code = (
        "fullspan.normalize.affine",
        "fullspan.normalize.outliers",
        "fullspan.normalize.scale",
        "fullspan.normalize.unit",
        "fullspan.normalize.whiten",
        "fullspan.studies.normalization.data",
        "fullspan.studies.normalization.probes",
        "fullspan.studies.normalization.strategies",
        "fullspan.studies.normalization.training",
        "fullspan.studies.normalization.work",
    )

    def __init__(self) -> None:
        self._data: Data | None = None

    def data(self, options: Options) -> Data:
        self._data = load(options.folder)
        return self._data

    def cells(self, options: Options) -> list[Cell]:
        return cells_of(options, (self._data or self.data(options)).shared["task"])

    def seeds(self, options: Options, cell: Cell) -> Sequence[int]:
        return range(options.seeds)

    def work(self) -> Work:
        return run_cell

    def is_complete(self, task: Task, out: Any) -> bool:
        return True

    def conclude(self, cells: Mapping[str, CellCurves], options: Options) -> Conclusion:
        task = (self._data or self.data(options)).shared["task"]
        return Conclusion(
            claims=claims(cells),
            figures=(_rates(cells), _accuracies(cells)),
            tables=(_strategies(cells), _probes(cells)),
            notes=_notes(task, options),
            extra={"task": task},
        )


def _notes(task: str, options: Options) -> tuple[str, ...]:
    what = (
        "Task: 20 of the 77 intents of Banking77 a seed, a text is its first 12 words that GloVe knows."
        if task == "banking77"
        else "Task: the ending of a word, told from its vector. No texts were at hand (FULLSPAN_DATA or --data with "
        "banking77/train.csv), so there is no transformer, and answers about sentences cannot be had."
    )
    notes = [
        what,
        "Strategies act on what the model sees: mean vectors of texts (linear, MLP), word vectors (transformer).",
        "A target that was not reached counts as twice the steps of a run. Rates lie a factor of four apart.",
        "Claims and their resolutions were fixed after a trial of nine cells on seed 99, which is in no result.",
        "Intervals are over seeds: classes drawn, split, initialization, order of rows. It is one data set.",
    ]
    if options.seeds < 2:
        notes.append("One seed has no interval over seeds: every claim is undecided.")
    return tuple(notes)


def _models(cells: Mapping[str, CellCurves]) -> list[str]:
    return [model for model in MODELS if f"{model}-none" in cells]


def _rates(cells: Mapping[str, CellCurves]) -> Figure:
    """Steps to the target and accuracy over the rate."""
    rows = []
    for measure, label in (("reach", "steps to target"), ("test", "accuracy")):
        rows.append(
            [
                Panel(
                    tuple(
                        Curve(cells[f"{m}-{s}"].x, cells[f"{m}-{s}"][measure], COLORS[k], s)
                        for k, s in enumerate(_SHOWN)
                    ),
                    m,
                    label,
                    "log2 of the learning rate",
                )
                for m in _models(cells)
            ]
        )
    return Figure(
        "rates",
        f"SGD over learning rates. Thin lines are seeds. {_UNITS}",
        "Two rows of panels, a column a model: steps to the target loss, and accuracy, over the learning rate.",
        panels(rows, caption="A strategy that moves a curve sideways only changes the rate that is wanted."),
    )


def _accuracies(cells: Mapping[str, CellCurves]) -> Figure:
    columns = []
    for model in _models(cells):
        base = at(cells, f"{model}-none", "test", rate(cells, f"{model}-none"))
        dots = []
        for name in STRATEGIES[1:]:
            mine = at(cells, f"{model}-{name}", "test", rate(cells, f"{model}-{name}"))
            found = interval((mine - base).tolist())
            dots.append(Dot(name, found.mean, found.low, found.high))
        columns.append((model, dots))
    return Figure(
        "accuracy",
        f"Accuracy minus that of raw vectors, each at its best rate, with 95% intervals over seeds. {_UNITS}",
        "A forest plot, a column a model, a row a strategy.",
        forest(columns),
    )


def _told(values: Any, digits: int = 3) -> str:
    found = interval(np.asarray(values, dtype=float).tolist())
    if found.low is None or found.high is None:
        return f"{found.mean:.{digits}f}"
    return f"{found.mean:.{digits}f} ± {(found.high - found.low) / 2:.{digits}f}"


def _strategies(cells: Mapping[str, CellCurves]) -> Table:
    rows = []
    for name, curves in cells.items():
        if curves.cell.part == "probes":
            continue
        model, strategy, optimizer = (curves.cell.settings[key] for key in ("model", "strategy", "optimizer"))
        same = rate(cells, f"{model}-none" + "-adam" * (optimizer == "adam"))
        best, first = rate(cells, name), rate(cells, name, "reach")
        rates = np.asarray(curves.x)[best]
        rows.append(
            (
                model, strategy, optimizer,
                _told(at(cells, name, "test", best)), _told(at(cells, name, "test", same)),
                _told(at(cells, name, "reach", first), 0), _told(at(cells, name, "reach", same), 0),
                f"{2.0 ** float(np.median(rates)):g}",
            )
        )  # fmt: skip
    columns = (
        "model", "strategy", "optimizer", "accuracy, best rate", "accuracy, rate of raw vectors",
        "steps to target, best rate", "steps to target, rate of raw vectors", "best rate (median)",
    )  # fmt: skip
    return Table("strategies", "Strategies at their best rate, and at that of raw vectors", columns, tuple(rows))


def _probes(cells: Mapping[str, CellCurves]) -> Table:
    rows = [(name, _told(values[:, 0])) for name, values in cells["probes"].curves.items()]
    return Table(
        "probes", "Probes: one linear model, nearest neighbors, a tuned table", ("probe", "value"), tuple(rows)
    )
