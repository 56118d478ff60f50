"""The mean of the rows scaled to length one, and their spread around it: all that the average cosine needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fullspan._typing import Array, Block
from fullspan.errors import UndefinedMeasureError
from fullspan.summaries.base import Summary, frozen
from fullspan.summaries.sums import column_sums

__all__ = ["UnitMean"]


@dataclass(frozen=True, eq=False)
class UnitMean(Summary):
    """Mean of the unit rows ``u = e / |e|``; zero rows have no direction and are only counted.

    Parameters
    ----------
    dim, n_rows
        Row length and number of rows added, zero rows included.
    n_units
        Number of rows that have a direction.
    norm_total
        Sum of the Euclidean norms of the rows.
    mean
        ``(dim,)`` mean of the unit rows.
    gap
        Sum of ``|u - mean|²``: what the unit rows miss of pointing one way.

    Notes
    -----
    Cheaper than :class:`~fullspan.UnitMoments` by its matrix product. Since ``|u| = 1``, one minus the average cosine
    is ``gap / (m - 1)``: no digits are lost, also when all rows nearly point one way.
    """

    dim: int
    n_rows: int
    n_units: int
    norm_total: float
    mean: Array = field(repr=False)
    gap: float

    @classmethod
    def accumulator(cls, dim: int, **options: Any) -> _Builder:
        return _Builder(dim, **options)

    def merge(self, other: UnitMean) -> UnitMean:
        self._check_mergeable(other)
        n_units, away = self.n_units + other.n_units, other.mean - self.mean
        share = other.n_units / n_units if n_units else 0.0
        return UnitMean(
            self.dim,
            self.n_rows + other.n_rows,
            n_units,
            self.norm_total + other.norm_total,
            frozen(self.mean + away * share),
            self.gap + other.gap + self.n_units * share * float(away @ away),
        )

    @property
    def n_zero(self) -> int:
        """Number of zero rows."""
        return self.n_rows - self.n_units

    @property
    def mean_norm(self) -> float:
        """Average Euclidean norm of the rows, zero rows included."""
        if not self.n_rows:
            raise UndefinedMeasureError("A mean norm needs at least one row; got none.")
        return self.norm_total / self.n_rows

    @cached_property
    def average_cosine(self) -> float:
        """Mean cosine over all pairs of different rows, in ``[-1/(m-1), 1]``."""
        if self.n_units < 2:
            raise UndefinedMeasureError(
                f"A cosine between rows needs at least two rows that are not zero; got {self.n_units}."
            )
        return 1.0 - self.gap / (self.n_units - 1)

    @cached_property
    def dimension_shares(self) -> Array:
        """``(dim,)`` share of every dimension in the mean cosine: squared mean of the unit rows over its sum."""
        squares = self.mean**2
        total = float(squares.sum())
        if total == 0.0:
            raise UndefinedMeasureError("Shares of the mean cosine need a mean direction; got a mean of zero.")
        return squares / total


#: Rows that are taken in float64 before float32 sums are trusted: a small table is taken exactly.
_EXACT_ROWS = 1 << 13
#: Above this length of the mean, float32 sums leave too few digits of its distance to one.
_CONCENTRATED = 0.9
_CHUNK_BYTES = 1 << 20


class _Builder:
    def __init__(self, dim: int) -> None:
        self.dim, self.n_rows, self.norm_total = dim, 0, 0.0
        self.step = max(1, _CHUNK_BYTES // (8 * max(dim, 1)))
        self.pilot: Array | None = None
        self.away, self.squares, self.n_exact = np.zeros(dim), 0.0, 0
        self.fast, self.n_fast = np.zeros(dim), 0

    def add(self, block: Block) -> None:
        norms, rows = block.norms, block.rows
        self.n_rows += len(block)
        self.norm_total += float(norms.sum())
        alive = norms > 0.0
        if not alive.all():
            rows, norms = rows[alive], norms[alive]
        if not len(norms):
            return
        if self._fast_enough(rows, norms):
            self._add_fast(rows, norms)
        else:
            self._add_exact(rows, norms)

    def _fast_enough(self, rows: Array, norms: Array) -> bool:
        if rows.dtype != np.float32 or self.n_exact < _EXACT_ROWS or norms.min() < 1e-30 or norms.max() > 1e30:
            return False
        mean = self._exact_mean()
        return float(mean @ mean) < _CONCENTRATED**2

    def _exact_mean(self) -> Array:
        if self.pilot is None or not self.n_exact:
            return np.zeros(self.dim)
        return self.pilot + self.away / self.n_exact

    def _add_exact(self, rows: Array, norms: Array) -> None:
        for start in range(0, len(rows), self.step):
            some = slice(start, start + self.step)
            with np.errstate(under="ignore"):
                units = rows[some].astype(np.float64)
                units /= norms[some, None]
                units /= np.sqrt(np.vecdot(units, units))[:, None]  # norms of float32 rows may hold seven digits
            if self.pilot is None:
                self.pilot = units[:256].mean(axis=0)
            units -= self.pilot
            self.away += units.sum(axis=0)
            self.squares += float(np.vdot(units, units))
            self.n_exact += len(units)

    def _add_fast(self, rows: Array, norms: Array) -> None:
        inverse = (1.0 / norms).astype(np.float32)
        for start in range(0, len(rows), 4096):
            some = slice(start, start + 4096)
            self.fast += column_sums(rows[some], inverse[some])
        self.n_fast += len(rows)

    def summary(self) -> UnitMean:
        exact = self._exact_mean()
        gap = self.squares - float(self.away @ self.away) / self.n_exact if self.n_exact else 0.0
        found = UnitMean(self.dim, self.n_rows, self.n_exact, self.norm_total, frozen(exact), max(gap, 0.0))
        if not self.n_fast:
            return found
        mean = self.fast / self.n_fast
        gap = self.n_fast * (1.0 - float(mean @ mean))  # unit rows: what is not in the mean is spread
        return found.merge(UnitMean(self.dim, 0, self.n_fast, 0.0, frozen(mean), gap))
