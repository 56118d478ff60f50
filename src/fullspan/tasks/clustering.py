"""Clustering of labeled rows: k-means, held against the classes."""

from __future__ import annotations

from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from fullspan._extras import require
from fullspan._typing import Array
from fullspan.errors import InputError
from fullspan.tasks.base import Cell, Folds, View
from fullspan.tasks.classification import Labeled
from fullspan.tasks.statistics import Mean, Statistic

__all__ = ["Cluster"]


class Cluster(Labeled):
    """Cluster the rows of two folds by k-means with as many clusters as classes, and compare the two partitions.

    Parameters
    ----------
    labels, groups, name, most_rows
        As for :class:`fullspan.tasks.Knn`.
    seeds
        Starts of k-means on each pair of folds, of which the scores are averaged.

    Notes
    -----
    The score is the adjusted mutual information. It is taken on every pair of folds: subsamples without replacement,
    since rows drawn twice make clusters look better than they are. The spread of the pairs tells the error (the
    jackknife that deletes groups). Needs the extra ``normalize``.

    References
    ----------
    Vinh, Epps, Bailey (2010), Information theoretic measures for clusterings comparison.

    Examples
    --------
    >>> Cluster(["a", "a", "b", None]).primary
    'AMI'
    """

    primary: ClassVar = "AMI"
    resampled: ClassVar = "cells"

    def __init__(
        self, labels: Any, *, groups: Any = None, name: str = "cluster", seeds: int = 2, most_rows: int = 4_000
    ) -> None:
        super().__init__(labels, groups, name, most_rows)
        if seeds < 1:
            raise InputError(f"Cluster needs at least one seed; got {seeds}.")
        self.seeds = seeds

    def cells(self, folds: Folds) -> list[Cell]:
        return [self._of(folds, frozenset(pair), frozenset(pair)) for pair in combinations(range(folds.k), 2)]

    def inner(self, folds: Folds, cell: Cell) -> list[Cell]:
        others = [fold for fold in range(folds.k) if fold not in cell.excluded]
        return [self._of(folds, cell.excluded | {fold}, frozenset({fold})) for fold in others]

    def _of(self, folds: Folds, excluded: frozenset[int], tested: frozenset[int]) -> Cell:
        units = np.flatnonzero(np.isin(folds.of[self._rows], list(tested)))
        return Cell((*sorted(tested), -1, *sorted(excluded)), excluded, units)

    def evaluate(self, view: View, cell: Cell, folds: Folds) -> Array:
        rows = self._rows[cell.units]
        truth = self.codes[rows]
        n_clusters = len(np.unique(truth))
        if n_clusters < 2:
            raise InputError(f"Cluster {self.name!r} needs two classes in every pair of folds; got {n_clusters}.")
        cluster: Any = require("sklearn.cluster", "normalize", "Clustering")
        metrics: Any = require("sklearn.metrics", "normalize", "Clustering")
        points = view.at(rows)
        scores = []
        for start in range(self.seeds):
            means = cluster.KMeans(n_clusters, n_init=1, random_state=self.seed * 1000 + start, algorithm="lloyd")
            scores.append(metrics.adjusted_mutual_info_score(truth, means.fit_predict(points)))
        return np.array([np.mean(scores)])

    def statistics(self, outcomes: Array, units: Array) -> dict[str, Statistic]:
        return {"AMI": Mean(outcomes.reshape(-1))}
