"""Moments with the third and fourth powers of row lengths: what the Ledoit-Wolf shrinkage asks for, in one pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.summaries.base import frozen
from fullspan.summaries.moments import Moments, _Builder

__all__ = ["RadialMoments"]


@dataclass(frozen=True, eq=False)
class RadialMoments(Moments):
    """Moments, and sums of powers of the distance from the mean.

    Parameters
    ----------
    cubes
        ``(dim,)`` sum of ``|x|² x`` over the centered rows.
    fourth
        Sum of ``|x|⁴`` over the centered rows.
    """

    cubes: Array = field(default=None, repr=False)  # type: ignore[assignment]  # the fields before have defaults
    fourth: float = 0.0

    @classmethod
    def accumulator(cls, dim: int, **options: Any) -> _RadialBuilder:
        return _RadialBuilder(cls, dim, **options)

    def merge(self, other: Moments) -> RadialMoments:
        assert isinstance(other, RadialMoments)
        if not self.n_rows or not other.n_rows:
            self._check_mergeable(other)
            return self if self.n_rows else other
        both = Moments.merge(_plain(self), _plain(other))
        moved = [_moved(each, both.mean) for each in (self, other)]
        return _with(both, moved[0][0] + moved[1][0], moved[0][1] + moved[1][1])


def _plain(made: RadialMoments) -> Moments:
    return Moments(made.dim, made.n_rows, made.weight, made.mean, made.scatter, made.weighted, made.peak, made.rounding)


def _with(made: Moments, cubes: Array, fourth: float) -> RadialMoments:
    same = (made.dim, made.n_rows, made.weight, made.mean, made.scatter, made.weighted, made.peak, made.rounding)
    return RadialMoments(*same, frozen(cubes), fourth)


def _moved(made: RadialMoments, mean: Array) -> tuple[Array, float]:
    """Cubes and fourth powers about another point than the mean of the rows."""
    return _about(made.scatter, made.weight, np.zeros(made.dim), made.cubes, made.fourth, mean - made.mean)


def _about(
    squares: Array, weight: float, total: Array, cubes: Array, fourth: float, step: Array
) -> tuple[Array, float]:
    """Sums of ``|z - step|² (z - step)`` and ``|z - step|⁴`` from the sums of products, lengths and powers of z."""
    trace, length = float(np.trace(squares)), float(step @ step)
    pulled, along = squares @ step, float(total @ step)
    moved = cubes - 2.0 * pulled + length * total - (trace - 2.0 * along + weight * length) * step
    powers = fourth + 4.0 * float(step @ pulled) + weight * length**2 - 4.0 * float(cubes @ step)
    return moved, powers + 2.0 * trace * length - 4.0 * along * length


class _RadialBuilder(_Builder):
    """Adds up powers of the lengths of the shifted chunks."""

    def __init__(self, kind: type[Moments], dim: int, **options: Any) -> None:
        super().__init__(kind, dim, **options)
        self.cubes, self.fourth = np.zeros(dim), 0.0

    def _multiply(self, chunk: Array, roots: Array | None = None) -> None:
        super()._multiply(chunk, roots)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            squares = np.vecdot(chunk, chunk)
            once = squares
            if roots is not None:  # the chunk holds rows times roots of weights
                once = np.divide(squares, roots, out=np.zeros_like(squares), where=roots > 0.0)
            self.cubes += once @ chunk
            self.fourth += float(once @ once)

    def summary(self) -> RadialMoments:
        self._flush()
        raw = np.zeros((self.dim, self.dim)) if self.products is None else self.products.copy()
        self.kind, kind = Moments, self.kind
        try:
            made = super().summary()
        finally:
            self.kind = kind
        if not made.weight:
            return _with(made, np.zeros(self.dim), 0.0)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            step = self.total / made.weight
            cubes, fourth = _about(raw, made.weight, self.total, self.cubes, self.fourth, step)
        return _with(made, cubes, max(fourth, 0.0))
