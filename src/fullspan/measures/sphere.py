"""Uniformity and alignment of the unit rows on the sphere."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check

__all__ = [
    "Estimate",
    "alignment",
    "uniformity",
    "uniformity_estimate",
]


class Estimate(NamedTuple):
    """A sampled number: its value, its standard error, and how many pairs of rows it rests on."""

    value: float
    standard_error: float
    n_pairs: int


def uniformity_estimate(E: Any, *, t: float = 2.0, max_pairs: int = 2**16, seed: int = 0) -> Estimate:
    """Uniformity with its standard error.

    ``ln mean exp(-t‖u_i - u_j‖²)`` over pairs i ≠ j.

    Parameters
    ----------
    E
        Table ``(n, dim)`` with at least two non-zero rows.
    t
        Sharpness of the kernel, positive.
    max_pairs
        All pairs are taken up to this number; beyond, as many at random.
    seed
        Of the pairs.

    Returns
    -------
    Estimate
        Value as in :func:`uniformity`; the standard error (delta method) is that over the rows, which pairs share, and
        over the pairs drawn where not all were taken; 0 for two rows, which cannot tell one.

    Raises
    ------
    UndefinedMeasureError
        Fewer than two non-zero rows.
    InputError
        t or max_pairs is not positive.

    Notes
    -----
    O(pairs·dim).

    References
    ----------
    Wang and Isola 2020, Understanding contrastive representation learning through alignment and uniformity, equation 2.

    Examples
    --------
    >>> uniformity_estimate([[1.0, 0.0], [-1.0, 0.0]])
    Estimate(value=-8.0, standard_error=0.0, n_pairs=1)
    """
    if t <= 0 or max_pairs < 1:
        raise InputError(f"uniformity needs t > 0 and max_pairs ≥ 1; got t={t}, max_pairs={max_pairs}.")
    units = _check.unit_rows(_check.table(E, "uniformity", rows=1), "uniformity")
    m = len(units)
    if m < 2:
        raise UndefinedMeasureError(f"uniformity needs at least two non-zero rows; got {m}.")
    everything = m * (m - 1) // 2 <= max_pairs
    left, right = np.triu_indices(m, 1) if everything else _random_pairs(m, max_pairs, seed)
    powers = np.empty(len(left))
    for part in _check.row_blocks(len(left), units.shape[1]):
        gap = units[left[part]] - units[right[part]]
        powers[part] = -t * np.vecdot(gap, gap)
    top = powers.max()
    kernel = np.exp(powers - top)
    mean = math.log1p(float(np.expm1(powers - top).mean()))  # no digit of distances far below one is lost
    variance = _jackknife_variance(kernel, left, right, m) if everything else _variance_of_mean(kernel, left, m)
    return Estimate(float(top) + mean, math.sqrt(variance) / float(kernel.mean()), len(left))


def _jackknife_variance(kernel: Array, left: Array, right: Array, m: int) -> float:
    """Variance of the mean over all pairs of `m` rows: the jackknife that leaves one row out."""
    if m < 3:
        return 0.0
    of_row = (np.bincount(left, kernel, minlength=m) + np.bincount(right, kernel, minlength=m)) / (m - 1)
    return 4.0 * (m - 1) / (m * (m - 2) ** 2) * float(np.sum((of_row - of_row.mean()) ** 2))


def _variance_of_mean(kernel: Array, left: Array, m: int) -> float:
    """Variance of the mean over pairs that share rows: that of a U-statistic over rows, and that of the pairs drawn."""
    pairs = float(kernel.var(ddof=1))
    counts = np.bincount(left, minlength=m)
    drawn = counts > 0
    means = np.bincount(left, kernel, minlength=m)[drawn] / counts[drawn]
    rows = max(float(means.var(ddof=1)) - pairs * float((1.0 / counts[drawn]).mean()), 0.0) if len(means) > 1 else 0.0
    return 4.0 * rows / m + pairs / len(kernel)


def _random_pairs(m: int, n_pairs: int, seed: int) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    left = random.integers(0, m, n_pairs)
    return left, (left + random.integers(1, m, n_pairs)) % m


def uniformity(E: Any, *, t: float = 2.0, max_pairs: int = 2**16, seed: int = 0) -> float:
    """How evenly the directions of the rows cover the sphere.

    ``ln mean exp(-t‖u_i - u_j‖²)`` over pairs i ≠ j.

    Parameters
    ----------
    E, t, max_pairs, seed
        As in :func:`uniformity_estimate`.

    Returns
    -------
    float
        In ``[-4t, 0]``, lower is more even: 0 when all rows point one way; about -2t·(1 - 2t/d) in d dimensions for
        directions at random. Invariant to rotation and to the scale of the table and of each row.

    Raises
    ------
    UndefinedMeasureError
        Fewer than two non-zero rows.

    Notes
    -----
    O(pairs·dim). The paper's mean over a batch leaves out the pair of a row with itself, as here.

    References
    ----------
    Wang and Isola 2020, equation 2.

    Examples
    --------
    >>> uniformity([[1.0, 0.0], [5.0, 0.0]])
    0.0
    """
    return uniformity_estimate(E, t=t, max_pairs=max_pairs, seed=seed).value


def alignment(x: Any, y: Any, *, power: float = 2.0) -> float:
    """Mean distance, on the sphere, between rows that belong together.

    ``mean_i ‖u_i - v_i‖^α``.

    Parameters
    ----------
    x, y
        Tables ``(n, dim)``; row i of both is a positive pair.
    power
        α, positive.

    Returns
    -------
    float
        In ``[0, 2^α]``, lower is closer: 0 when each pair points one way. Invariant to a common rotation and to the
        scale of each row.

    Raises
    ------
    UndefinedMeasureError
        A zero row, or no rows.
    InputError
        Different shapes.

    Notes
    -----
    O(n·dim).

    References
    ----------
    Wang and Isola 2020, equation 1.

    Examples
    --------
    >>> alignment([[1.0, 0.0]], [[0.0, 2.0]])
    2.0
    """
    x, y = _check.table(x, "alignment", rows=1), _check.table(y, "alignment", rows=1)
    if x.shape != y.shape:
        raise InputError(f"alignment needs two tables of one shape; got {x.shape} and {y.shape}.")
    u, v = _check.unit_rows(x, "alignment"), _check.unit_rows(y, "alignment")
    if len(u) < len(x) or len(v) < len(y):
        raise UndefinedMeasureError(
            f"alignment needs rows that are not zero; got {2 * len(x) - len(u) - len(v)} zero rows."
        )
    gap = u - v
    return float((np.vecdot(gap, gap) ** (power / 2)).mean())
