"""Mean, spread and range of every column, in float64 from rows of any precision: what a scaler needs.

Rows are shifted by the median of a few rows before they are squared, so that a variance keeps its digits under a large
common offset, and a constant column has a variance of exactly zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fullspan._typing import Array, Block
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.summaries.base import Summary, frozen

__all__ = ["ColumnMoments"]

#: Values widened to float64 at once: they stay in the cache between the four operations on them.
_CHUNK_VALUES = 1 << 15
_TOGETHER = 8


@dataclass(frozen=True, eq=False)
class ColumnMoments(Summary):
    """Count, mean, sum of squared deviations and range of every column.

    Parameters
    ----------
    dim, n_rows
        Row length and number of rows.
    weight
        Sum of the row weights; equal to `n_rows` when rows are not weighted.
    mean
        ``(dim,)`` weighted mean of every column.
    squares
        ``(dim,)`` weighted sum of squared deviations from the mean.
    minimum, maximum
        ``(dim,)`` exact range of every column over the rows of positive weight; +inf and -inf when there are none, or
        when the recipe says ``bounds=False``, which takes a third less time.
    weighted
        Whether the rows were weighted by their frequencies.

    Notes
    -----
    Memory ``32·dim`` bytes; time a few operations a value, one pass. For the covariance take :class:`Moments`.
    """

    dim: int
    n_rows: int
    weight: float
    mean: Array = field(repr=False)
    squares: Array = field(repr=False)
    minimum: Array = field(repr=False)
    maximum: Array = field(repr=False)
    weighted: bool = False

    @classmethod
    def accumulator(cls, dim: int, *, weighted: bool = False, bounds: bool = True) -> _Builder:  # type: ignore[override]  # a recipe has options of its own
        return _Builder(dim, weighted, bounds)

    def merge(self, other: ColumnMoments) -> ColumnMoments:
        self._check_mergeable(other)
        if self.weighted != other.weighted:
            raise InputError("merge needs both ColumnMoments weighted or both unweighted; got one of each.")
        weight = self.weight + other.weight
        mean, squares = self.mean, self.squares + other.squares
        if weight > 0.0:
            gap = other.mean - self.mean
            if self.weight == 0.0:
                mean = other.mean
            elif other.weight > 0.0:
                mean = self.mean + gap * (other.weight / weight)
                squares = squares + gap * gap * (self.weight * other.weight / weight)
        return ColumnMoments(
            self.dim,
            self.n_rows + other.n_rows,
            weight,
            frozen(mean + 0.0),
            frozen(squares),
            frozen(np.minimum(self.minimum, other.minimum)),
            frozen(np.maximum(self.maximum, other.maximum)),
            self.weighted,
        )

    @cached_property
    def variance(self) -> Array:
        """``(dim,)`` variance of every column, with the count (or the weight) in the denominator."""
        if self.weight <= 0.0:
            raise UndefinedMeasureError(f"A variance needs a row of positive weight; got {self.n_rows} row(s).")
        return frozen(np.where(self.minimum == self.maximum, 0.0, self.squares / self.weight))


class _Builder:
    """Adds up shifted columns chunk by chunk."""

    def __init__(self, dim: int, weighted: bool, bounds: bool) -> None:
        self.dim, self.weighted, self.bounds = dim, weighted, bounds
        self.n_rows, self.weight = 0, 0.0
        self.shift: Array | None = None
        self.total, self.squares = np.zeros(dim), np.zeros(dim)
        self.low, self.high = np.full(dim, np.inf), np.full(dim, -np.inf)
        self.step = max(_TOGETHER, _CHUNK_VALUES // max(dim, 1) // _TOGETHER * _TOGETHER)
        self.ones = np.ones(self.step)
        self.buffer: Array | None = None

    def add(self, block: Block) -> None:
        rows, weights = block.rows, self._weights(block)
        self.n_rows += len(block)
        if weights is not None and not (weights > 0.0).all():
            rows, weights = rows[weights > 0.0], weights[weights > 0.0]
        if not len(rows):
            return
        if self.buffer is None:
            shift = np.sort(rows[:: max(1, len(rows) // 31)], axis=0)[min(len(rows), 31) // 2].astype(np.float64)
            self.shift = shift
            self.buffer = np.empty((self.step, self.dim))
            self.wide = self.buffer.reshape(self.step // _TOGETHER, -1)
            self.shifts = np.tile(shift, _TOGETHER)
        for start in range(0, len(rows), self.step):
            some = rows[start : start + self.step]
            self._add(some, self.ones[: len(some)] if weights is None else weights[start : start + self.step])
        self.weight += float(len(rows) if weights is None else weights.sum())

    def _add(self, some: Array, weights: Array) -> None:
        assert self.buffer is not None
        assert self.shift is not None
        chunk = self.buffer[: len(some)]
        if self.bounds:
            np.minimum(self.low, some.min(axis=0), out=self.low)
            np.maximum(self.high, some.max(axis=0), out=self.high)
        chunk[...] = some
        if len(some) == self.step:  # a loop over a short row costs more than its values
            self.wide -= self.shifts
        else:
            chunk -= self.shift
        self.total += weights @ chunk
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            np.square(chunk, out=chunk)
            self.squares += weights @ chunk

    def _weights(self, block: Block) -> Array | None:
        if not self.weighted:
            return None
        if block.frequencies is None:
            raise InputError("Weighted columns need a frequency for every row; got none. Name them with frequencies=.")
        weights = np.asarray(block.frequencies, dtype=np.float64)
        bad = ~(weights >= 0.0) | np.isinf(weights)
        if bad.any():
            row = int(block.index[np.argmax(bad)])
            raise InputError(f"Frequencies need to be finite and not negative; got {weights[bad][0]} at row {row}.")
        return weights

    def summary(self) -> ColumnMoments:
        mean, squares = np.zeros(self.dim), np.zeros(self.dim)
        if self.weight > 0.0 and self.shift is not None:
            gap = self.total / self.weight
            mean = self.shift + gap
            if self.bounds:
                mean = np.clip(mean, self.low, self.high)
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                squares = np.maximum(self.squares - gap * self.total, 0.0)
        low, high = frozen(self.low.copy()), frozen(self.high.copy())
        return ColumnMoments(
            self.dim, self.n_rows, self.weight, frozen(mean), frozen(squares), low, high, self.weighted
        )
