"""Trends of curves, and intervals of their means over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fullspan.errors import InputError

__all__ = ["Interval", "interval", "t_quantile", "theil_sen"]


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, and where it lies with the confidence `level`; `low` and `high` are None for one seed."""

    mean: float
    low: float | None
    high: float | None
    n: int
    level: float


def theil_sen(x: Any, y: Any) -> float:
    """Slope of a line through points: the median of the slopes of all pairs.

    Parameters
    ----------
    x, y
        ``(n,)`` places and values, n ≥ 2; pairs of one place are left out.

    Returns
    -------
    float
        In units of y a unit of x. Up to 29% of the points may be arbitrary without moving it far.

    Raises
    ------
    InputError
        Fewer than two places, or values that are not finite.

    Notes
    -----
    O(n²) time and memory. Equivalent: ``scipy.stats.theilslopes(y, x)[0]``.

    References
    ----------
    Theil 1950, A rank-invariant method of linear and polynomial regression analysis. Sen 1968, Estimates of the
    regression coefficient based on Kendall's tau.

    Examples
    --------
    >>> theil_sen([0, 1, 2, 3, 4], [1.0, 3.0, 5.0, 7.0, 100.0])
    2.0
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InputError(f"theil_sen needs two finite vectors of one length; got shapes {x.shape} and {y.shape}.")
    first, second = np.triu_indices(len(x), 1)
    run = x[second] - x[first]
    apart = run != 0
    if not apart.any():
        raise InputError(f"theil_sen needs points at two places or more; got {len(np.unique(x))} place.")
    return float(np.median((y[second] - y[first])[apart] / run[apart]))


def interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Mean of one value a seed, with Student's interval.

    Parameters
    ----------
    values
        One number a seed.
    level
        Confidence, in (0, 1).

    Returns
    -------
    Interval
        ``mean ± t·s/√n`` with n - 1 degrees of freedom; without ends for one seed.

    Raises
    ------
    InputError
        No values, or values that are not finite.

    Examples
    --------
    >>> interval([1.0, 2.0, 3.0]).low < 0
    True
    """
    found = np.asarray(values, dtype=np.float64)
    if not found.size or not np.isfinite(found).all() or not 0 < level < 1:
        raise InputError(f"interval needs finite values and a level in (0, 1); got {found.size} values, level {level}.")
    mean = float(found.mean())
    if found.size == 1:
        return Interval(mean, None, None, 1, level)
    half = t_quantile((1 + level) / 2, found.size - 1) * float(found.std(ddof=1)) / math.sqrt(found.size)
    return Interval(mean, mean - half, mean + half, found.size, level)


def t_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t, for a probability of at least one half.

    Notes
    -----
    Bisection on the closed form for whole degrees of freedom. Equivalent: ``scipy.stats.t.ppf``.

    References
    ----------
    Abramowitz and Stegun 1964, 26.7.3 and 26.7.4.

    Examples
    --------
    >>> round(t_quantile(0.975, 9), 4)
    2.2622
    """
    low, high = 0.0, 1.0
    while _within(high, degrees) < 2 * probability - 1:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _within(middle, degrees) < 2 * probability - 1 else (low, middle)
    return (low + high) / 2


def _within(t: float, degrees: int) -> float:
    """Probability that \\|T\\| < t."""
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = total = 0.0 if degrees == 1 else (cosine if odd else 1.0)
    for step in range(3 if odd else 2, degrees - 1, 2):
        term *= cosine * cosine * (step - 1) / step
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
