"""Profiles of single rows: Gini index, entropy, Hoyer sparsity and norm, as distributions over the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from fullspan._typing import Array, Block
from fullspan.errors import UndefinedMeasureError
from fullspan.summaries.base import Summary
from fullspan.summaries.quantiles import ColumnSketch
from fullspan.summaries.row_kernels import row_values

__all__ = ["Distribution", "ROW_MEASURES", "RowProfile", "RowValue", "row_values"]

#: What is measured of every row, the norm first, then in the order of the columns of `row_values`.
ROW_MEASURES = ("norm", "gini_index", "vector_entropy", "hoyer_sparsity")
_N_WORST, _A_FEW = 10, 1024
#: Deviation over mean of norms below which norms of float32 squares are too coarse.
_EVEN = 0.02
#: Rows before which norms come from float64: where so few are read, how they were cut into blocks would show.
_EXACT_ROWS = 1 << 13


@dataclass(frozen=True)
class RowValue:
    """One row and its value: `position` in the table, `id` where the table names its rows."""

    value: float
    position: int
    id: Any = None


@dataclass(frozen=True, eq=False)
class Distribution:
    """How one measure of the rows is spread over the table.

    Parameters
    ----------
    count, mean
        Number of rows that have a value, and their mean.
    sum_of_squares
        Sum of squared differences from the mean.
    lowest, highest
        The ten rows with the smallest and the largest values, most extreme first; empty without details.
    """

    count: int
    mean: float
    sum_of_squares: float
    sketch: ColumnSketch | None = field(repr=False)
    lowest: tuple[RowValue, ...] = field(repr=False)
    highest: tuple[RowValue, ...] = field(repr=False)

    @property
    def deviation(self) -> float:
        """Standard deviation over the rows, denominator ``count - 1``."""
        if self.count < 2:
            raise UndefinedMeasureError(f"A deviation over rows needs at least two rows; got {self.count}.")
        if not np.isfinite(self.sum_of_squares):
            raise UndefinedMeasureError(
                "A deviation over rows needs squares below 1e308; got larger ones. Rescale them."
            )
        return float(np.sqrt(self.sum_of_squares / (self.count - 1)))

    @property
    def standard_error(self) -> float:
        """Standard error of the mean: what the delete-one jackknife gives for a mean."""
        return self.deviation / float(np.sqrt(self.count))

    def quantile(self, q: float | Array) -> Any:
        """Value below which the share `q` of the rows lies; exact for small tables, else within the sketch's error."""
        if self.sketch is None:
            raise UndefinedMeasureError("Quantiles over rows need RowProfile with details=True; got details=False.")
        values = self.sketch.quantile(np.atleast_1d(q))[:, 0]
        return float(values[0]) if np.ndim(q) == 0 else values


@dataclass(frozen=True, eq=False)
class RowProfile(Summary):
    """Distributions of the row measures of :data:`ROW_MEASURES`.

    Parameters
    ----------
    dim, n_rows
        Row length and number of rows added.
    n_zero
        Number of zero rows: their norm counts, but they have no direction, and no Gini index, entropy or sparsity.
    norm, gini_index, vector_entropy, hoyer_sparsity
        A :class:`Distribution` each; `hoyer_sparsity` is empty at dim 1, where it is undefined.

    Notes
    -----
    Options of the recipe: ``details=False`` keeps means and deviations only, not quantiles and extreme rows.

    Time about one sort of every row; memory is fixed.
    """

    dim: int
    n_rows: int
    n_zero: int
    parts: Mapping[str, _Part] = field(repr=False)

    @classmethod
    def accumulator(cls, dim: int, **options: Any) -> _Builder:
        return _Builder(dim, **options)

    def merge(self, other: RowProfile) -> RowProfile:
        self._check_mergeable(other)
        parts = {name: part.merge(other.parts[name]) for name, part in self.parts.items()}
        return RowProfile(self.dim, self.n_rows + other.n_rows, self.n_zero + other.n_zero, parts)

    def distribution(self, measure: str) -> Distribution:
        part = self.parts[measure]
        if not part.count:
            why = "rows that are not zero" if self.dim > 1 or measure != "hoyer_sparsity" else "more than one dimension"
            raise UndefinedMeasureError(
                f"{measure} of rows needs {why}; got {self.n_rows} row(s) of dim {self.dim}, {self.n_zero} zero."
            )
        return part.distribution()

    @property
    def norm(self) -> Distribution:
        return self.distribution("norm")

    @property
    def gini_index(self) -> Distribution:
        return self.distribution("gini_index")

    @property
    def vector_entropy(self) -> Distribution:
        return self.distribution("vector_entropy")

    @property
    def hoyer_sparsity(self) -> Distribution:
        return self.distribution("hoyer_sparsity")


@dataclass(frozen=True, eq=False)
class _Part:
    """The mergeable state behind a :class:`Distribution`."""

    count: int
    mean: float
    sum_of_squares: float
    sketch: ColumnSketch | None
    lowest: tuple[RowValue, ...]
    highest: tuple[RowValue, ...]

    def merge(self, other: _Part) -> _Part:
        if not self.count or not other.count:
            return self if self.count else other
        count = self.count + other.count
        gap = other.mean - self.mean
        return _Part(
            count,
            self.mean + gap * other.count / count,
            self.sum_of_squares + other.sum_of_squares + gap * gap * self.count * other.count / count,
            None if self.sketch is None or other.sketch is None else self.sketch.merge(other.sketch),
            _best(self.lowest + other.lowest, 1.0),
            _best(self.highest + other.highest, -1.0),
        )

    def distribution(self) -> Distribution:
        return Distribution(self.count, self.mean, self.sum_of_squares, self.sketch, self.lowest, self.highest)


def _best(rows: tuple[RowValue, ...], sign: float) -> tuple[RowValue, ...]:
    return tuple(sorted(rows, key=lambda row: (sign * row.value, row.position))[:_N_WORST])


#: Value with its sign turned where the largest are kept, position, id: rows that are still being gathered.
_Key = tuple[float, int, Any]
_by_value_then_place = itemgetter(0, 1)


class _Column:
    """Builds one :class:`_Part`."""

    def __init__(self, details: bool) -> None:
        self.count, self.mean, self.squares = 0, 0.0, 0.0
        self.sketch = ColumnSketch(1) if details else None
        self.lowest: list[_Key] = []
        self.highest: list[_Key] = []

    def add(self, values: Array, block: Block, alive: Array | None) -> None:
        n = len(values)
        mean = float(np.add.reduce(values)) / n
        rest = values - mean
        gap, count = mean - self.mean, self.count + n
        with np.errstate(over="ignore", invalid="ignore"):  # refused when the deviation is asked for
            here = np.float64(rest @ rest) - np.float64(rest.sum()) ** 2 / n
            self.squares = float(self.squares + here + np.float64(gap) ** 2 * self.count * n / count)
        self.mean += gap * n / count
        self.count = count
        if self.sketch is None:
            return
        kind = np.float32 if block.rows.dtype == np.float32 and abs(mean) < 1e30 else np.float64
        self.sketch.add(values[:, None].astype(kind))  # quantiles need no more digits than the rows have
        self.lowest = self._keep(self.lowest, values, 1.0, block, alive)
        self.highest = self._keep(self.highest, values, -1.0, block, alive)

    @staticmethod
    def _keep(kept: list[_Key], values: Array, sign: float, block: Block, alive: Array | None) -> list[_Key]:
        last = None
        if len(kept) == _N_WORST:
            last = sign * kept[-1][0]
        elif len(values) > _A_FEW:  # the tenth of a few rows bounds the tenth of all
            last = sign * np.partition(sign * values[:_A_FEW], _N_WORST - 1)[_N_WORST - 1]
        if last is not None:
            if (values.min() > last) if sign > 0 else (values.max() < last):
                return kept
            candidates = np.flatnonzero(values <= last if sign > 0 else values >= last)
        else:
            candidates = np.arange(len(values))
        if not len(candidates):
            return kept
        if len(candidates) > _N_WORST:  # ties at the cut go to the earliest rows
            key = sign * values[candidates]
            cut = np.partition(key, _N_WORST - 1)[_N_WORST - 1]
            candidates = np.concatenate([candidates[key < cut], candidates[key == cut][:_N_WORST]])
        where = candidates if alive is None else alive[candidates]
        named = [None] * len(where) if block.ids is None else [_plain(block.ids[row]) for row in where]
        fresh = zip((sign * values[candidates]).tolist(), block.index[where].tolist(), named, strict=True)
        return sorted([*kept, *fresh], key=_by_value_then_place)[:_N_WORST]

    def part(self) -> _Part:
        sketch = None if self.sketch is None else self.sketch.copy()
        lowest = tuple(RowValue(value, place, name) for value, place, name in self.lowest)
        highest = tuple(RowValue(-value, place, name) for value, place, name in self.highest)
        return _Part(self.count, self.mean, self.squares, sketch, lowest, highest)


def _plain(identity: Any) -> Any:
    return identity.item() if hasattr(identity, "item") else identity


def _lengths(block: Block, n_before: int) -> Array:
    """Norms whose deviation has the digits of the rows: the first ones, and those that hardly differ, in float64."""
    norms = block.norms
    if block.rows.dtype != np.float32:
        return norms
    if n_before < _EXACT_ROWS:
        return block.exact_norms
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.add.reduce(norms) / len(norms)
        rest = norms - mean
        even = rest @ rest < (_EVEN * mean) ** 2 * len(norms)
    return block.exact_norms if even else norms


class _Builder:
    def __init__(self, dim: int, details: bool = True) -> None:
        self.dim, self.n_rows, self.n_zero = dim, 0, 0
        self.columns = {name: _Column(details) for name in ROW_MEASURES}

    def add(self, block: Block) -> None:
        if not len(block):
            return
        self.n_rows += len(block)
        norms, rows, alive = block.norms, block.rows, None
        self.columns["norm"].add(_lengths(block, self.n_rows - len(block)), block, None)
        if not norms.all():
            alive = np.flatnonzero(norms)
            self.n_zero += len(block) - len(alive)
            if not len(alive):
                return
            rows, norms = rows[alive], norms[alive]
        values = row_values(rows, norms)
        for number, name in enumerate(ROW_MEASURES[1:]):
            if self.dim > 1 or name != "hoyer_sparsity":
                self.columns[name].add(values[number], block, alive)

    def summary(self) -> RowProfile:
        return RowProfile(
            self.dim, self.n_rows, self.n_zero, {name: column.part() for name, column in self.columns.items()}
        )
