"""Similarity of pairs of rows, held against what people said."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError
from fullspan.tasks.base import Cell, Folds, Task, View, check_positions, positions
from fullspan.tasks.nearest import paired
from fullspan.tasks.statistics import Correlation, RankCorrelation, Statistic

__all__ = ["Similarity"]


class Similarity(Task):
    """Rank pairs of rows by their similarity, and correlate it with judgements.

    Parameters
    ----------
    first, second
        ``(m,)`` positions of the two rows of each pair.
    scores
        ``(m,)`` judged similarity, the higher the more alike.
    name
        What the task is called.

    Notes
    -----
    Rows of a pair may lie in two folds: the map that scores the pair is then fitted without both. Pairs are resampled.

    Examples
    --------
    >>> Similarity([0, 1, 2], [3, 4, 5], [1.0, 5.0, 2.5], name="men")
    Similarity('men', 3 pairs)
    """

    primary: ClassVar = "spearman"
    unit: ClassVar = "pairs"

    def __init__(self, first: Any, second: Any, scores: Any, *, name: str) -> None:
        self.name = name
        self.first, self.second = positions(first, "Similarity"), positions(second, "Similarity")
        self.scores = np.asarray(scores, dtype=np.float64)
        if not (len(self.first) == len(self.second) == len(self.scores)) or self.scores.ndim != 1:
            raise InputError(
                f"Similarity needs two positions and one score for every pair; got {len(self.first)}, "
                f"{len(self.second)} and {len(self.scores)}."
            )
        if len(self.scores) < 3 or not np.isfinite(self.scores).all() or np.ptp(self.scores) == 0.0:
            raise InputError(
                f"Similarity needs at least three pairs with finite scores that differ; got {len(self.scores)} in "
                f"{name!r}."
            )

    def _prepare(self, n_rows: int, dim: int) -> None:
        check_positions(self.rows, n_rows, f"Similarity {self.name!r}")

    @property
    def n_units(self) -> int:
        return len(self.scores)

    @property
    def rows(self) -> Array:
        return np.unique(np.concatenate([self.first, self.second]))

    def _sets(self, folds: Folds) -> list[frozenset[int]]:
        both = zip(folds.of[self.first].tolist(), folds.of[self.second].tolist(), strict=True)
        return [frozenset(pair) - {-1} for pair in both]

    def cells(self, folds: Folds) -> list[Cell]:
        return self._cells(folds, frozenset())

    def inner(self, folds: Folds, cell: Cell) -> list[Cell]:
        return self._cells(folds, cell.excluded)

    def _cells(self, folds: Folds, outer: frozenset[int]) -> list[Cell]:
        """Pairs by the folds of their rows, those left out that touch `outer`."""
        by_set: dict[frozenset[int], list[int]] = {}
        for unit, folds_of_pair in enumerate(self._sets(folds)):
            if not folds_of_pair & outer:
                by_set.setdefault(folds_of_pair, []).append(unit)
        order = sorted(by_set, key=sorted)
        return [Cell((*sorted(outer), -1, *sorted(each)), outer | each, np.array(by_set[each])) for each in order]

    def evaluate(self, view: View, cell: Cell, folds: Folds) -> Array:
        first, second = view.at(self.first[cell.units]), view.at(self.second[cell.units])
        return paired(first, second, view.metric)[:, None]

    def statistics(self, outcomes: Array, units: Array) -> dict[str, Statistic]:
        found, truth = outcomes[:, 0], self.scores[units]
        return {"spearman": RankCorrelation(found, truth), "pearson": Correlation(found, truth)}
