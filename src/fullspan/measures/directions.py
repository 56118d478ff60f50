"""Where the rows point: cosines of all pairs, exactly, from the moments of the unit rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check

__all__ = [
    "average_cosine",
    "centered_average_cosine",
    "cosine_deviation",
    "mean_deviation",
    "rogue_dimension_share",
    "share_of_largest",
    "unit_deviation",
]


def _unit_moments(E: Any, call: str, center: Any = None) -> tuple[Array, Array, int]:
    """Mean and centered Gram of the unit rows, and their number (at least two)."""
    table = _check.table(E, call, rows=1)
    units = _check.unit_rows(table if center is None else table - center, call)
    if len(units) < 2:
        raise UndefinedMeasureError(f"{call} needs at least two non-zero rows; got {len(units)}.")
    mean = units.mean(axis=0)
    rest = units - mean
    return mean, rest.T @ rest, len(units)


def average_cosine(E: Any) -> float:
    """Mean cosine of all pairs of different rows, exactly.

    ``(‖Σ_i u_i‖² - m) / (m(m - 1))``, u the m non-zero rows at length 1.

    Parameters
    ----------
    E
        Table ``(n, dim)`` with at least two non-zero rows.

    Returns
    -------
    float
        In ``[-1/(m - 1), 1]``: 1 when all rows point one way, about 0 when they point anywhere, -1/(m - 1) when they
        cancel. Invariant to rotation and to the scale of the table and of each row; **not** to translation.

    Raises
    ------
    UndefinedMeasureError
        Fewer than two non-zero rows.

    Notes
    -----
    O(n·dim²) as written; no pair is sampled and nothing is clipped. Computed as 1 - tr(S)/(m - 1), with S the centered
    scatter of the unit rows, which does not cancel when all cosines are near 1.

    References
    ----------
    Ethayarajh 2019, How contextual are contextualized word representations?, section 3.3.

    Examples
    --------
    >>> round(average_cosine([[1.0, 0.0], [0.0, 1.0], [-2.0, 0.0], [0.0, -3.0]]), 6)
    -0.333333
    """
    _, scatter, m = _unit_moments(E, "average_cosine")
    return 1.0 - float(np.trace(scatter)) / (m - 1)


def cosine_deviation(E: Any) -> float:
    """Standard deviation of the cosine over all pairs of different rows, exactly.

    From the Gram matrix of the unit rows: ``‖UᵀU‖_F² = Σ_ij cos²_ij``.

    Parameters
    ----------
    E
        Table ``(n, dim)`` with at least two non-zero rows.

    Returns
    -------
    float
        In ``[0, 1]``, denominator the number of pairs: 0 when all cosines are equal; about 1/√dim for directions at
        random. Invariant to rotation and to the scale of the table and of each row.

    Raises
    ------
    UndefinedMeasureError
        Fewer than two non-zero rows.

    Notes
    -----
    O(n·dim²). No pair is sampled.

    References
    ----------
    Follows from Ethayarajh 2019, section 3.3, with the second moment.

    Examples
    --------
    >>> round(cosine_deviation([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 6)
    0.471405
    """
    mean, scatter, m = _unit_moments(E, "cosine_deviation")
    covariance = scatter / m
    gap = float(np.trace(covariance))
    everything = 2 * float(mean @ covariance @ mean) + float(np.sum(covariance * covariance))
    different = (m * everything - gap * gap) / (m - 1)
    return math.sqrt(max(0.0, different - (gap / (m - 1)) ** 2))


def centered_average_cosine(E: Any, *, remove: int = 0) -> float:
    """Mean cosine of all pairs of rows after the mean row, and maybe some principal axes, are taken out.

    :func:`average_cosine` of ``E - μ``, minus its projection on the first `remove` principal axes.

    Parameters
    ----------
    E
        Table ``(n, dim)``.
    remove
        Number of principal axes to project out, less than dim.

    Returns
    -------
    float
        In ``[-1/(m - 1), 1]``; about -1/n for a cloud around its mean. Invariant to scale, rotation and translation.

    Raises
    ------
    UndefinedMeasureError
        Fewer than two rows that differ from the mean.
    InputError
        `remove` is not in 0 … dim - 1.

    Notes
    -----
    O(n·dim²). Tells a mean shift (this is near 0 although :func:`average_cosine` is not) from a stretched cloud.

    References
    ----------
    Mu, Bhat and Viswanath 2018, All-but-the-top, algorithm 1.

    Examples
    --------
    >>> round(centered_average_cosine([[9.0, 1.0], [9.0, -1.0], [10.0, 0.0], [8.0, 0.0]]), 6)
    -0.333333
    """
    E = _check.table(E, "centered_average_cosine", rows=2)
    if not 0 <= remove < E.shape[1]:
        raise InputError(f"centered_average_cosine needs remove in 0 … {E.shape[1] - 1}; got {remove}.")
    largest = np.abs(E).max()
    rest = E - E.mean(axis=0)
    rest[np.abs(rest).max(axis=1) <= 4 * np.finfo(np.float64).eps * largest] = 0.0
    if remove:
        axes = np.linalg.svd(rest, full_matrices=False)[2][:remove]
        rest = rest - rest @ axes.T @ axes
    return average_cosine(rest)


def average_cosine_error(E: Any, groups: int = 20) -> float:
    """Standard error of the average cosine over the rows: jackknife that deletes a group of rows at a time."""
    units = _check.unit_rows(_check.table(E, "average_cosine", rows=2), "average_cosine")
    groups = min(groups, len(units))
    if groups < 4:
        raise UndefinedMeasureError(f"A standard error needs four non-zero rows; got {len(units)}.")
    sums = np.stack([units[each::groups].sum(axis=0) for each in range(groups)])
    rows = len(units) - np.array([len(units[each::groups]) for each in range(groups)])
    left = sums.sum(axis=0) - sums
    values = (np.vecdot(left, left) - rows) / (rows * (rows - 1))
    return float(np.sqrt((groups - 1) / groups * np.sum((values - values.mean()) ** 2)))


def rogue_dimension_share(E: Any) -> float:
    """Largest part that one dimension has in the mean cosine.

    ``max_j ū_j² / Σ_k ū_k²``, ū the mean of the unit rows.

    Parameters
    ----------
    E
        Table ``(n, dim)``.

    Returns
    -------
    float
        In ``[1/dim, 1]``: 1 when one dimension makes all of the similarity. Invariant to the scale of the table and of
        each row, and to the order of the columns; **not** to rotation.

    Raises
    ------
    UndefinedMeasureError
        No non-zero row, or unit rows that cancel exactly.

    Notes
    -----
    O(n·dim). Where the average cosine is near 0 it is the share of something small: read both.

    References
    ----------
    Timkey and van Schijndel 2021, All bark and no bite: rogue dimensions in transformer language models, section 3.

    Examples
    --------
    >>> round(rogue_dimension_share([[3.0, 1.0], [3.0, -1.0], [3.0, 0.0]]), 6)
    1.0
    """
    mean = _check.unit_rows(_check.table(E, "rogue_dimension_share", rows=1), "rogue_dimension_share").mean(axis=0)
    return share_of_largest(mean)


def share_of_largest(mean: Array) -> float:
    """``max_j m_j² / Σ m²`` of a mean unit row; undefined where rounding is all that is left of it."""
    squares = np.square(mean)
    if squares.sum() <= (8 * np.finfo(np.float64).eps) ** 2:
        raise UndefinedMeasureError(
            "rogue_dimension_share needs unit rows with a mean; got a mean of zero: the rows cancel."
        )
    return float(squares.max() / squares.sum())


def unit_deviation(E: Any) -> float:
    """Spread of the unit rows along each dimension, relative to that of directions at random.

    ``√d · mean_j std_j(u)``, standard deviation with ddof 1.

    Parameters
    ----------
    E
        Table ``(n, dim)`` with at least two non-zero rows.

    Returns
    -------
    float
        In ``[0, √(m/(m - 1))]``: 0 when all rows point one way, about 1 for directions spread over the sphere.
        Invariant to the scale of the table and of each row, and to the order of the columns; **not** to rotation.

    Raises
    ------
    UndefinedMeasureError
        Fewer than two non-zero rows.

    Notes
    -----
    O(n·dim). √d times ``lightly.utils.debug.std_of_l2_normalized``.

    References
    ----------
    Chen and He 2021, Exploring simple siamese representation learning, figure 2.

    Examples
    --------
    >>> unit_deviation([[2.0, 0.0], [2.0, 0.0]])
    0.0
    """
    _, scatter, m = _unit_moments(E, "unit_deviation")
    return mean_deviation(np.diagonal(scatter), m)


def mean_deviation(scatter_diagonal: Array, m: int) -> float:
    """``√d · mean_j √(S_jj/(m - 1))``."""
    if m < 2:
        raise UndefinedMeasureError(f"unit_deviation needs at least two non-zero rows; got {m}.")
    deviations = np.sqrt(np.maximum(scatter_diagonal, 0.0) / (m - 1))
    return float(math.sqrt(len(deviations)) * deviations.mean())
