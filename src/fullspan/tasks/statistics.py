"""Metrics of units under weights: one number for each row of weights, so that a bootstrap is a matrix product."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from fullspan._typing import Array

__all__ = ["Correlation", "MacroF1", "Mean", "RankCorrelation", "Statistic"]

_CHUNK_VALUES = 1 << 21


class Statistic(Protocol):
    """A metric of units."""

    def __call__(self, weights: Array) -> Array:
        """``(draws,)`` values under ``(draws, units)`` weights: how often each unit was drawn."""
        ...


def _chunks(weights: Array) -> Iterator[Array]:
    step = max(1, _CHUNK_VALUES // max(weights.shape[1], 1))
    for start in range(0, len(weights), step):
        yield weights[start : start + step].astype(np.float64)


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean of one value a unit."""

    values: Array

    def __call__(self, weights: Array) -> Array:
        return np.concatenate([part @ self.values / part.sum(axis=1) for part in _chunks(weights)])


@dataclass(frozen=True, eq=False)
class MacroF1:
    """The mean of F1 over the classes that were drawn or predicted."""

    truth: Array
    predicted: Array

    def __call__(self, weights: Array) -> Array:
        n = int(max(self.truth.max(initial=0), self.predicted.max(initial=0))) + 1
        truth, predicted = np.eye(n)[self.truth], np.eye(n)[self.predicted]
        right = truth * (self.truth == self.predicted)[:, None]
        found = []
        for part in _chunks(weights):
            both = part @ truth + part @ predicted
            with np.errstate(invalid="ignore", divide="ignore"):
                score = np.where(both > 0.0, 2.0 * (part @ right) / both, 0.0)
            found.append(score.sum(axis=1) / (both > 0.0).sum(axis=1))
        return np.concatenate(found)


def _weighted_correlation(x: Array, y: Array, weights: Array) -> Array:
    """Pearson's correlation of the columns under each row of weights; 0 where one of them is constant."""
    total = weights.sum(axis=1, keepdims=True)
    x = x - (weights * x).sum(axis=1, keepdims=True) / total
    y = y - (weights * y).sum(axis=1, keepdims=True) / total
    weighted = weights * x
    xx, yy = (weighted * x).sum(axis=1), (weights * y * y).sum(axis=1)
    scale = np.sqrt(xx * yy)
    return np.divide((weighted * y).sum(axis=1), scale, out=np.zeros(len(weights)), where=scale > 0.0)


@dataclass(frozen=True, eq=False)
class Correlation:
    """Pearson's correlation of scores with what people said."""

    scores: Array
    truth: Array

    def __call__(self, weights: Array) -> Array:
        x, y = _scaled(self.scores), _scaled(self.truth)
        return np.concatenate([_weighted_correlation(x[None], y[None], part) for part in _chunks(weights)])


def _scaled(values: Array) -> Array:
    values = values.astype(np.float64) - values.mean(dtype=np.float64)
    return values / (np.abs(values).max(initial=0.0) or 1.0)


@dataclass(frozen=True, eq=False)
class _Ranks:
    """Average ranks of values in any sample drawn from them, from one sort."""

    values: Array

    @cached_property
    def _order(self) -> tuple[Array, Array, Array]:
        order = np.argsort(self.values, kind="stable")
        sorted_ = self.values[order]
        new = np.concatenate([[True], sorted_[1:] != sorted_[:-1]])
        place = np.empty(len(order), np.int64)
        place[order] = np.cumsum(new) - 1
        return order, np.flatnonzero(new), place

    def __call__(self, weights: Array) -> Array:
        order, starts, place = self._order
        tied = np.add.reduceat(weights[:, order], starts, axis=1)
        return (np.cumsum(tied, axis=1) - tied / 2.0)[:, place]


@dataclass(frozen=True, eq=False)
class RankCorrelation:
    """Spearman's correlation; every draw is ranked anew."""

    scores: Array
    truth: Array

    def __call__(self, weights: Array) -> Array:
        mine, theirs = _Ranks(self.scores), _Ranks(self.truth)
        return np.concatenate([_weighted_correlation(mine(part), theirs(part), part) for part in _chunks(weights)])
