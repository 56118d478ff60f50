"""Moments of the rows scaled to length one: exact mean and deviation of the cosines of all pairs of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fullspan._typing import Array, Block
from fullspan.errors import UndefinedMeasureError
from fullspan.summaries.base import Summary, frozen
from fullspan.summaries.moments import Moments, scratch

__all__ = ["UnitMoments"]


@dataclass(frozen=True, eq=False)
class Gaps:
    """Sums of ``q = |δ|²`` with ``δ = u - pilot`` that the moments of the unit rows u do not hold.

    Parameters
    ----------
    pilot
        ``(dim,)`` a point near the unit rows.
    squares
        ``Σ q²``.
    vector
        ``(dim,)`` ``Σ q·δ``.
    """

    pilot: Array = field(repr=False)
    squares: float
    vector: Array = field(repr=False)

    def at(self, pilot: Array, moments: Moments) -> Gaps:
        """The sums of the rows of `moments` about another pilot."""
        t, m = self.pilot - pilot, moments.n_rows
        away = moments.mean - self.pilot
        first = m * away
        along = moments.scatter @ t + first * float(away @ t)
        total, step = float(np.trace(moments.scatter)) + m * float(away @ away), float(t @ t)
        squares = self.squares + 4.0 * float(t @ along) + m * step**2
        squares += 4.0 * float(self.vector @ t) + 2.0 * step * total + 4.0 * step * float(t @ first)
        vector = self.vector + t * (total + 2.0 * float(t @ first) + m * step) + 2.0 * along + step * first
        return Gaps(pilot, squares, frozen(vector))

    def variance(self, units: UnitMoments) -> float:
        """Variance of ``|u - mean|²`` (denominator m)."""
        m = units.n_units
        squares = self.at(units.mean, units.moments).squares
        return max(squares / m - (float(np.trace(units.scatter)) / m) ** 2, 0.0)


def _merged(one: UnitMoments, other: UnitMoments) -> Gaps | None:
    if not one.n_units or not other.n_units:
        return one.gaps if one.n_units else other.gaps
    if one.gaps is None or other.gaps is None:
        return None
    moved = other.gaps.at(one.gaps.pilot, other.moments)
    return Gaps(one.gaps.pilot, one.gaps.squares + moved.squares, frozen(one.gaps.vector + moved.vector))


@dataclass(frozen=True, eq=False)
class UnitMoments(Summary):
    """Moments of the unit rows ``u = e / |e|``; zero rows have no direction and are only counted.

    Parameters
    ----------
    dim, n_rows
        Row length and number of rows added, zero rows included.
    n_zero
        Number of zero rows.
    norm_total
        Sum of the Euclidean norms of the rows.
    moments
        :class:`Moments` of the unit rows.
    gaps
        :class:`Gaps` of the unit rows, or None where they are spread so widely that the moments suffice.

    Notes
    -----
    With ``M = |mean|²`` and the covariance ``C`` of the unit rows (denominator m), the cosines of all m² ordered pairs
    have mean ``M`` and variance ``2·meanᵀ C mean + |C|²``; the m pairs of a row with itself are then taken out. Where
    all cosines are close to one, ``2·meanᵀ C mean`` cancels and half the variance of ``|u - mean|²``, its equal, is
    taken instead. No pair is sampled.
    """

    dim: int
    n_rows: int
    n_zero: int
    norm_total: float
    moments: Moments
    gaps: Gaps | None = None

    @classmethod
    def accumulator(cls, dim: int, **options: Any) -> _Builder:
        return _Builder(dim, **options)

    def merge(self, other: UnitMoments) -> UnitMoments:
        self._check_mergeable(other)
        return UnitMoments(
            self.dim,
            self.n_rows + other.n_rows,
            self.n_zero + other.n_zero,
            self.norm_total + other.norm_total,
            self.moments.merge(other.moments),
            _merged(self, other),
        )

    @property
    def mean_norm(self) -> float:
        """Average Euclidean norm of the rows, zero rows included."""
        if not self.n_rows:
            raise UndefinedMeasureError("A mean norm needs at least one row; got none.")
        return self.norm_total / self.n_rows

    @property
    def n_units(self) -> int:
        """Number of rows that have a direction."""
        return self.moments.n_rows

    @property
    def mean(self) -> Array:
        """``(dim,)`` mean of the unit rows."""
        return self.moments.mean

    @property
    def scatter(self) -> Array:
        """``(dim, dim)`` centered scatter of the unit rows."""
        return self.moments.scatter

    @cached_property
    def average_cosine(self) -> float:
        """Mean cosine over all pairs of different rows, in ``[-1/(m-1), 1]``."""
        m = self._pairs_exist()
        # one minus the mean over all ordered pairs is the trace of the covariance, since |u| = 1
        return 1.0 - float(np.trace(self.scatter)) / (m - 1)

    @cached_property
    def cosine_deviation(self) -> float:
        """Standard deviation of the cosine over all pairs of different rows."""
        m = self._pairs_exist()
        covariance = self.scatter / m
        gap = float(np.trace(covariance))  # 1 - M
        along = 2.0 * float(self.mean @ covariance @ self.mean) if self.gaps is None else self.gaps.variance(self) / 2.0
        everything = along + float(np.sum(covariance * covariance))
        different = (m * m * everything - m * gap * gap) / (m * m - m)  # mean square of (cosine - M), i != j
        off_mean = gap / (m - 1)  # M minus the mean over different rows
        return float(np.sqrt(max(different - off_mean * off_mean, 0.0)))

    @cached_property
    def dimension_shares(self) -> Array:
        """``(dim,)`` share of every dimension in the mean cosine: squared mean of the unit rows over its sum."""
        squares = self.mean**2
        total = float(squares.sum())
        if total == 0.0:
            raise UndefinedMeasureError("Shares of the mean cosine need a mean direction; got a mean of zero.")
        return squares / total

    def _pairs_exist(self) -> int:
        if self.n_units < 2:
            raise UndefinedMeasureError(
                f"A cosine between rows needs at least two rows that are not zero; got {self.n_units}."
            )
        return self.n_units


#: Above this length of the mean unit row, float32 differences of unit rows have too few digits left.
_CONCENTRATED = 0.9
_CHUNK_BYTES = 1 << 20


class _Builder:
    """Scales rows to length one; products in float32 unless the rows are few, concentrated or of float64."""

    def __init__(self, dim: int, rows_per_dim: int = 4) -> None:
        self.dim, self.n_rows, self.n_zero = dim, 0, 0
        self.exact: bool | None = None
        self.inner = Moments.accumulator(dim, rows_per_dim=rows_per_dim)
        self.capacity = max(rows_per_dim * dim, min(_CHUNK_BYTES // (4 * max(dim, 1)), 8192))
        self.filled, self.n_fast, self.norm_total = 0, 0, 0.0
        self.pilot: Array | None = None
        self.squares, self.vector = 0.0, np.zeros(dim)

    def add(self, block: Block) -> None:
        norms, rows = block.norms, block.rows
        alive = norms > 0.0
        if not alive.all():
            rows, norms = rows[alive], norms[alive]
        self.n_rows += len(block)
        self.norm_total += float(norms.sum())
        self.n_zero += len(block) - len(norms)
        if not len(norms):
            return
        if self.exact is None:
            self._start(rows, norms)
        ordinary = self.exact or bool(norms.min() > 1e-30 and norms.max() < 1e30)
        (self._add_fast if ordinary and not self.exact else self._add_exact)(rows, norms)

    def _start(self, rows: Array, norms: Array) -> None:
        head = rows[:1024] / norms[:1024, None]
        concentrated = float(np.linalg.norm(head.mean(axis=0))) > _CONCENTRATED
        self.exact = rows.dtype == np.float64 or concentrated
        if not self.exact:
            self.buffer = np.empty((self.capacity, self.dim), dtype=np.float32)
            self.norms = np.empty(self.capacity)
            self.total = np.zeros(self.dim)
            self.products = np.zeros((self.dim, self.dim))

    def _add_exact(self, rows: Array, norms: Array) -> None:
        step = self.capacity
        for start in range(0, len(rows), step):
            some = slice(start, start + step)
            with np.errstate(under="ignore"):
                units = rows[some].astype(np.float64)
                units /= norms[some, None]
                units /= np.sqrt(np.vecdot(units, units))[:, None]  # norms of float32 rows may hold seven digits
            self.inner.add(Block(units))
            self._add_gaps(units)

    def _add_gaps(self, units: Array) -> None:
        if self.pilot is None:
            self.pilot = frozen(units.mean(axis=0))
        units -= self.pilot
        q = np.vecdot(units, units)
        self.squares += float(q @ q)
        self.vector += q @ units

    def _add_fast(self, rows: Array, norms: Array) -> None:
        done = 0
        while done < len(rows):
            take = min(self.capacity - self.filled, len(rows) - done)
            chunk = self.buffer[self.filled : self.filled + take]
            if self.n_fast:
                inverse = (1.0 / norms[done : done + take]).astype(np.float32)
                np.multiply(rows[done : done + take], inverse[:, None], out=chunk)
            else:  # kept as they are: a table that ends here is taken exactly
                chunk[...] = rows[done : done + take]
                self.norms[self.filled : self.filled + take] = norms[done : done + take]
            self.filled += take
            done += take
            if self.filled == self.capacity:
                self._flush()

    def _flush(self) -> None:
        chunk = self.buffer[: self.filled]
        if not self.n_fast:
            chunk *= (1.0 / self.norms[: self.filled]).astype(np.float32)[:, None]
        self.total += np.ones(self.filled, dtype=np.float32) @ chunk
        self.products += np.matmul(chunk.T, chunk, out=scratch(self.dim, np.float32))
        self.n_fast += self.filled
        self.filled = 0

    def summary(self) -> UnitMoments:
        if self.filled:
            if self.n_fast:
                self._flush()
            else:  # a small table costs nothing more when taken exactly
                self._add_exact(self.buffer[: self.filled], self.norms[: self.filled])
                self.filled = 0
        moments = self.inner.summary()
        if self.n_fast:
            mean = self.total / self.n_fast
            scatter = self.products - np.multiply.outer(mean, self.total)
            np.fill_diagonal(scatter, scatter.diagonal() * _unit_trace(scatter, self.n_fast, mean))
            moments = moments.merge(
                Moments(self.dim, self.n_fast, float(self.n_fast), frozen(mean), frozen(scatter), peak=1.0)
            )
        gaps = None
        if self.pilot is not None and not self.n_fast:
            gaps = Gaps(self.pilot, self.squares, frozen(self.vector.copy()))
        return UnitMoments(self.dim, self.n_rows, self.n_zero, self.norm_total, moments, gaps)


def _unit_trace(scatter: Array, n_rows: int, mean: Array) -> float:
    """The factor that restores the exact trace: unit rows have squared length one, which rounding blurs."""
    trace = float(np.trace(scatter))
    exact = n_rows * (1.0 - float(mean @ mean))
    return exact / trace if trace > 0.0 else 1.0
