"""What every task does: name the rows it tests, cut its units into cells, and score the units of a cell.

A *unit* is what is drawn in the bootstrap: a labeled row, a pair, a query, a user. A *cell* is a set of units that one
map serves: it was fitted without the rows of the folds that the cell excludes.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError
from fullspan.tasks.statistics import Statistic

__all__ = ["Cell", "Folds", "Task", "View", "encoded", "positions"]


@dataclass(frozen=True, eq=False)
class Folds:
    """The fold of every row of the table.

    Parameters
    ----------
    of
        ``(n,)`` fold from 0, or -1 for a row that no task tests: it is in every fit.
    k
        Number of folds.
    """

    of: Array
    k: int


@dataclass(frozen=True, eq=False)
class Cell:
    """Units that are tested with one map.

    Parameters
    ----------
    key
        What tells this cell from the others of its task.
    excluded
        Folds whose rows the map must not have seen.
    units
        Positions among the units of the task.
    """

    key: tuple[Any, ...]
    excluded: frozenset[int]
    units: Array


class View(Protocol):
    """Rows behind a fitted map, and how they are compared: by dot product (cosine, behind a unit norm) or distance."""

    metric: str

    def at(self, rows: Array) -> Array:
        """The rows of the table at these positions, mapped."""
        ...

    def of(self, vectors: Array) -> Array:
        """Other vectors of the same space, mapped."""
        ...


class Task(ABC):
    """Base of all tasks."""

    #: The metric that the verdict is about; the first one.
    primary: ClassVar[str]
    #: "units": units are resampled; "cells": a cell gives one score, and the spread of cells tells the error.
    resampled: ClassVar[str] = "units"
    #: What one unit is, in words.
    unit: ClassVar[str] = "rows"

    name: str
    seed: int = 0
    notes: tuple[str, ...] = ()

    @property
    @abstractmethod
    def n_units(self) -> int:
        """How many units there are."""

    @property
    def rows(self) -> Array:
        """Positions of the rows that are held out when they are tested; none for a task with vectors of its own."""
        return np.empty(0, np.int64)

    @property
    def groups(self) -> Array | None:
        """``(len(rows),)`` group of each row of `rows`, kept in one fold; or None."""
        return None

    @property
    def strata(self) -> Array | None:
        """``(len(rows),)`` class of each row, spread evenly over the folds; or None."""
        return None

    def prepared(self, n_rows: int, dim: int, seed: int) -> Self:
        """A copy that fits a table of this shape, with the sample of rows that the seed draws."""
        made = copy.copy(self)
        made.seed = seed
        made._prepare(n_rows, dim)
        return made

    def _prepare(self, n_rows: int, dim: int) -> None:  # noqa: B027 (a task without positions has nothing to check)
        """Check that positions and vectors fit the table."""

    @abstractmethod
    def cells(self, folds: Folds) -> list[Cell]:
        """Cells that test every unit once (or every subsample, where cells are resampled)."""

    @abstractmethod
    def inner(self, folds: Folds, cell: Cell) -> list[Cell]:
        """Cells that choose hyper-parameters for `cell`: none of them tests a unit of it, or was fitted to its rows."""

    @abstractmethod
    def evaluate(self, view: View, cell: Cell, folds: Folds) -> Array:
        """Outcomes of the units of a cell: ``(units, columns)``; ``(1,)`` where cells are resampled."""

    @abstractmethod
    def statistics(self, outcomes: Array, units: Array) -> dict[str, Statistic]:
        """Metrics of units from their outcomes, the primary one first."""

    def clusters(self, groups: Array) -> Array:
        """``(n_units,)`` cluster of each unit in the bootstrap; `groups` is the group of every row of the table."""
        return np.arange(self.n_units)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.n_units} {self.unit})"


def encoded(labels: Any, what: str) -> tuple[Array, list[Any]]:
    """Labels as numbers from 0, -1 where one is missing (None, NaN, empty); and the names of the classes, sorted."""
    values = np.asarray(labels, dtype=object) if not isinstance(labels, np.ndarray) else labels
    if values.ndim != 1:
        raise InputError(f"{what} needs one value for every row; got an array of shape {values.shape}.")
    plain = [_value(each) for each in values.tolist()]
    known = sorted({each for each in plain if each is not None}, key=lambda each: (str(type(each)), each))
    number = {each: at for at, each in enumerate(known)}
    return np.array([-1 if each is None else number[each] for each in plain], dtype=np.int64), known


def _value(label: Any) -> Any:
    missing = label is None or label == "" or (isinstance(label, float) and label != label)
    return None if missing else label


def positions(values: Any, what: str) -> Array:
    """Positions of rows as whole numbers."""
    found = np.asarray(values)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise InputError(f"{what} needs positions of rows, whole numbers; got {found.dtype} of shape {found.shape}.")
    return found.astype(np.int64)


def check_positions(found: Array, n_rows: int, what: str) -> None:
    """Refuse positions that the table does not have."""
    if found.size and (found.min() < 0 or found.max() >= n_rows):
        bad = int(found[(found < 0) | (found >= n_rows)][0])
        raise InputError(f"{what} needs positions from 0 to {n_rows - 1}; got {bad}. Is this of another table?")


def check_vectors(vectors: Any, what: str) -> Array:
    """Vectors as a finite array of shape (n, dim)."""
    found = np.asarray(vectors)
    if found.ndim != 2 or found.dtype.kind not in "fiu" or not len(found):
        raise InputError(f"{what} needs an array of shape (n, dim); got {found.dtype} of shape {found.shape}.")
    if not np.isfinite(found).all():
        raise InputError(f"{what} needs finite vectors; got NaN or infinity.")
    return found.astype(np.float32 if found.dtype.itemsize <= 4 else np.float64, copy=False)


def union(groups: Sequence[frozenset[int]]) -> frozenset[int]:
    """All members of the sets."""
    return frozenset().union(*groups)
