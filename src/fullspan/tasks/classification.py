"""Classification of labeled rows: by their neighbors, and by a linear probe."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError
from fullspan.tasks.base import Cell, Folds, Task, View, encoded
from fullspan.tasks.nearest import best
from fullspan.tasks.statistics import MacroF1, Mean, Statistic

__all__ = ["Knn", "Labeled", "Probe"]

#: Ridge penalties that a probe tries, as multiples of the mean eigenvalue of the covariance.
_PENALTIES = (0.01, 0.1, 1.0, 10.0)


class Labeled(Task):
    """What the tasks with a label a row share."""

    def __init__(self, labels: Any, groups: Any, name: str, most_rows: int) -> None:
        self.name = name
        self.codes, self.classes = encoded(labels, f"{type(self).__name__} labels")
        if len(self.classes) < 2:
            raise InputError(f"{type(self).__name__} needs labels of two classes or more; got {len(self.classes)}.")
        self._all_groups = None if groups is None else encoded(groups, f"{type(self).__name__} groups")[0]
        if self._all_groups is not None and len(self._all_groups) != len(self.codes):
            raise InputError(
                f"{type(self).__name__} needs as many groups as labels; got {len(self._all_groups)} and "
                f"{len(self.codes)}."
            )
        if most_rows < 20:
            raise InputError(f"{type(self).__name__} needs most_rows of at least 20; got {most_rows}.")
        self.most_rows = most_rows
        self._rows = np.flatnonzero(self.codes >= 0)

    def _prepare(self, n_rows: int, dim: int) -> None:
        if len(self.codes) != n_rows:
            raise InputError(
                f"{type(self).__name__} needs one label for every row; got {len(self.codes)} for {n_rows} rows."
            )
        notes = []
        labeled = len(self._rows)
        if labeled < n_rows:
            notes.append(f"{n_rows - labeled:,} rows without a label are fitted to, never tested.")
        if labeled > self.most_rows:
            chosen = np.random.default_rng([self.seed, 1]).choice(labeled, self.most_rows, replace=False)
            self._rows = self._rows[np.sort(chosen)]
            notes.append(f"A sample of {self.most_rows:,} of {labeled:,} labeled rows is tested.")
        self.notes = tuple(notes)

    @property
    def n_units(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Array:
        return self._rows

    @property
    def groups(self) -> Array | None:
        return None if self._all_groups is None else self._all_groups[self._rows]

    @property
    def strata(self) -> Array:
        return self.codes[self._rows]

    def clusters(self, groups: Array) -> Array:
        return groups[self._rows]

    def cells(self, folds: Folds) -> list[Cell]:
        return [self._cell(folds, frozenset({fold}), fold) for fold in range(folds.k)]

    def _cell(self, folds: Folds, excluded: frozenset[int], fold: int) -> Cell:
        return Cell((fold, *sorted(excluded)), excluded, np.flatnonzero(folds.of[self._rows] == fold))


class _Classifier(Labeled):
    primary: ClassVar = "accuracy"

    def inner(self, folds: Folds, cell: Cell) -> list[Cell]:
        follow = (cell.key[0] + 1) % folds.k
        return [self._cell(folds, cell.excluded | {follow}, follow)]

    def evaluate(self, view: View, cell: Cell, folds: Folds) -> Array:
        train = self._rows[~np.isin(folds.of[self._rows], list(cell.excluded))]
        test = self._rows[cell.units]
        if not len(test):
            return np.empty((0, 1))
        predicted = self._predict(view, train, test) if len(train) else np.zeros(len(test), np.int64)
        return predicted[:, None].astype(np.float64)

    @abstractmethod
    def _predict(self, view: View, train: Array, test: Array) -> Array: ...

    def statistics(self, outcomes: Array, units: Array) -> dict[str, Statistic]:
        truth, predicted = self.codes[self._rows[units]], outcomes[:, 0].astype(np.int64)
        return {
            "accuracy": Mean((truth == predicted).astype(np.float64)),
            "macro-F1": MacroF1(truth, predicted),
        }


class Knn(_Classifier):
    """Classify every row by the labels of its nearest neighbors in the other folds.

    Parameters
    ----------
    labels
        ``(n,)`` label of each row of the table; None, NaN and empty text mean that a row has none.
    k
        How many neighbors vote; of equal votes the nearer neighbors decide.
    groups
        ``(n,)`` key of each row: rows of one group are never in two folds, and are drawn together in the bootstrap.
    name
        What the task is called.
    most_rows
        Labeled rows that are tested at most; a sample beyond.

    Examples
    --------
    >>> Knn(["a", "a", "b", None])
    Knn('knn', 3 rows)
    """

    def __init__(
        self, labels: Any, *, k: int = 10, groups: Any = None, name: str = "knn", most_rows: int = 10_000
    ) -> None:
        super().__init__(labels, groups, name, most_rows)
        if k < 1:
            raise InputError(f"Knn needs at least one neighbor; got k={k}.")
        self.k = k

    def _predict(self, view: View, train: Array, test: Array) -> Array:
        places, _ = best(view.at(test), view.at(train), self.k, view.metric)
        codes = self.codes[train][places]
        weights = 1.0 + 0.5 / self.k**2 * np.arange(places.shape[1], 0, -1)
        votes = np.zeros((len(test), len(self.classes)))
        np.add.at(votes, (np.arange(len(test))[:, None], codes), weights)
        return votes.argmax(axis=1)


class Probe(_Classifier):
    """Classify every row by a linear map of its vector: ridge regression onto the classes.

    Parameters
    ----------
    labels, groups, name, most_rows
        As for :class:`Knn`.

    Notes
    -----
    The penalty is chosen among four multiples of the mean variance by leave-one-out on the rows of the other folds, so
    that the scale of a strategy does not matter. ``O(n·dim² + n·dim·classes)`` a fold.

    Examples
    --------
    >>> Probe(["a", "a", "b", None]).primary
    'accuracy'
    """

    def __init__(self, labels: Any, *, groups: Any = None, name: str = "probe", most_rows: int = 10_000) -> None:
        super().__init__(labels, groups, name, most_rows)

    def _predict(self, view: View, train: Array, test: Array) -> Array:
        x = view.at(train)
        mean = x.mean(axis=0, dtype=np.float64)
        x = x - mean.astype(x.dtype)
        y = np.zeros((len(train), len(self.classes)), x.dtype)
        y[np.arange(len(train)), self.codes[train]] = 1.0
        level = y.mean(axis=0)
        coefficients = _ridge(x, y - level)
        scores = (view.at(test) - mean.astype(x.dtype)) @ coefficients + level
        return scores.argmax(axis=1)


def _ridge(x: Array, y: Array) -> Array:
    """Coefficients of the penalty with the smallest squared error when each row is left out."""
    values, vectors = np.linalg.eigh((x.T @ x).astype(np.float64))
    values = np.maximum(values, 0.0)
    z = x @ vectors.astype(x.dtype)
    projected = (z.T @ y).astype(np.float64)
    squares = z.astype(np.float64) ** 2
    level = float(values.mean()) or 1.0
    found: list[tuple[float, Array]] = []
    for penalty in _PENALTIES:
        damped = 1.0 / (values + penalty * level)
        weights = damped[:, None] * projected
        left = 1.0 - 1.0 / len(x) - squares @ damped
        residuals = (y - z @ weights.astype(x.dtype)) / np.maximum(left, 1e-6)[:, None].astype(x.dtype)
        found.append((float(np.vdot(residuals, residuals)), weights))
    return (vectors @ min(found, key=lambda each: each[0])[1]).astype(x.dtype)
