"""What the distances to the nearest neighbors say: intrinsic dimension, contrast, near duplicates."""

from __future__ import annotations

from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check
from fullspan.measures.neighbors import Neighbors, first_neighbors, nearest_neighbors

__all__ = [
    "mle_dimension",
    "local_outlier_factor",
    "near_duplicate_share",
    "outlier_share",
    "relative_contrast",
    "two_nn_dimension",
]


def two_nn_dimension(rows: Any, *, metric: str = "euclidean", discard: float = 0.1, method: str = "fit") -> float:
    """Intrinsic dimension from the distances to the two nearest neighbors.

    ``μ_i = r_2/r_1`` has ``P(μ > x) = x^-d``: d is the slope of ``-ln(1 - F)`` over ``ln μ`` through the origin.

    Parameters
    ----------
    rows
        Table ``(m, dim)``, or :class:`Neighbors` (then `metric` is theirs; more than two neighbors help past
        duplicates).
    metric
        ``"euclidean"`` or ``"cosine"`` (distances of the unit rows).
    discard
        Share of the largest ratios that the fit leaves out; for ``method="fit"``.
    method
        ``"fit"`` as in the paper, or ``"mle"``: m / Σ ln μ.

    Returns
    -------
    float
        In ``(0, ∞)``: about the dimension of the manifold that the rows lie on, too low above 20 or so. Invariant to
        scale and rotation; to translation for the Euclidean metric.

    Raises
    ------
    UndefinedMeasureError
        Fewer than three rows with two distinct neighbor distances.
    InputError
        `discard` outside [0, 1).

    Notes
    -----
    O(m²·dim). Neighbors at distance zero, or within 1e-6 of the mean distance (copies that differ by rounding), are
    skipped and the next one is taken; equal distances are passed over. :attr:`Neighbors.n_copies` counts those rows.

    References
    ----------
    Facco et al. 2017, Estimating the intrinsic dimension of datasets by a minimal neighborhood information, section
    "Methods".

    Examples
    --------
    >>> import numpy as np
    >>> line = np.random.default_rng(0).random((500, 1)) * [[1.0, 2.0, 3.0]]
    >>> 0.8 < two_nn_dimension(line) < 1.2
    True
    """
    _check.one_of(method, ("fit", "mle"), "two_nn_dimension", "method")
    if not 0 <= discard < 1:
        raise InputError(f"two_nn_dimension needs discard in [0, 1); got {discard}.")
    logs = np.sort(_log_ratios(_searched(rows, metric, 10)))
    if len(logs) < 3:
        raise UndefinedMeasureError(
            f"two_nn_dimension needs three rows of distinct neighbor distances; got {len(logs)}. Are the rows copies?"
        )
    if method == "mle":
        return float(len(logs) / logs.sum())
    kept = max(2, int(len(logs) * (1 - discard)))
    height = -np.log1p(-np.arange(1, kept + 1) / (len(logs) + 1))
    return float(np.vecdot(logs[:kept], height) / np.vecdot(logs[:kept], logs[:kept]))


def _searched(rows: Any, metric: str, k: int) -> Neighbors:
    """Neighbors with up to k columns, as many as the rows allow."""
    if isinstance(rows, Neighbors):
        return rows
    table = _check.table(rows, "nearest_neighbors", rows=2)
    return nearest_neighbors(table, min(k, len(table) - 1), metric)


def _log_ratios(found: Neighbors) -> Array:
    """``(rows,)`` ln(r_2/r_1) with r_1 the first distance above zero and r_2 the first above r_1."""
    far = found.euclidean
    real = far > found.copy_distance
    first = np.take_along_axis(far, real.argmax(axis=1)[:, None], 1)
    later = real & (far > first + 2 * found.copy_distance)
    second = np.take_along_axis(far, later.argmax(axis=1)[:, None], 1)
    usable = later.any(axis=1)
    return np.log(second[usable, 0] / first[usable, 0])


def mle_dimension(rows: Any, k: int = 10, *, metric: str = "euclidean") -> float:
    """Intrinsic dimension from the distances to the k nearest neighbors, by maximum likelihood.

    ``1/d = mean over rows of (1/(k - 1)) Σ_{j<k} ln(r_k/r_j)``.

    Parameters
    ----------
    rows
        Table ``(m, dim)``, or :class:`Neighbors` (then `metric` is theirs).
    k
        Number of neighbors, at least 2.
    metric
        ``"euclidean"`` or ``"cosine"`` (distances of the unit rows).

    Returns
    -------
    float
        In ``(0, ∞)``: about the dimension of the manifold, too low in high dimension. Invariant to scale and rotation;
        to translation for the Euclidean metric.

    Raises
    ------
    UndefinedMeasureError
        No row has two distinct neighbor distances.
    InputError
        k < 2.

    Notes
    -----
    O(m²·dim). Inverses are averaged (MacKay and Ghahramani), not the estimates. Zero distances are dropped row by row.

    References
    ----------
    Levina and Bickel 2004, Maximum likelihood estimation of intrinsic dimension, equation 8.

    Examples
    --------
    >>> import numpy as np
    >>> 1.7 < mle_dimension(np.random.default_rng(0).random((500, 2)), 20) < 2.3
    True
    """
    if k < 2:
        raise InputError(f"mle_dimension needs k ≥ 2 neighbors; got {k}.")
    found = first_neighbors(rows, k, metric, "mle_dimension")
    far = found.euclidean
    real = far > found.copy_distance
    logs = np.log(
        np.where(real, far, far[:, -1:]) / np.where(far[:, -1:] > 0, far[:, -1:], 1.0),
        where=real,
        out=np.zeros_like(far),
    )
    spans = -logs.sum(axis=1)
    number = real.sum(axis=1) - 1
    if spans.sum() <= 0:
        raise UndefinedMeasureError(
            f"mle_dimension needs rows with two distinct neighbor distances; got none of {len(far)}."
        )
    return float(number[number > 0].sum() / spans[number > 0].sum())


def relative_contrast(rows: Any, *, metric: str = "cosine") -> float:
    """Mean distance between rows over the mean distance to the nearest neighbor.

    ``E[d(x, y)] / E[min_y d(x, y)]``, distances Euclidean (of unit rows for the cosine).

    Parameters
    ----------
    rows
        Table ``(m, dim)``, or :class:`Neighbors` (then `metric` is theirs).
    metric
        ``"cosine"`` or ``"euclidean"``.

    Returns
    -------
    float
        In ``[1, ∞)``: 1 when a nearest neighbor is no nearer than any row, so that searching means nothing. Invariant
        to scale and rotation.

    Raises
    ------
    UndefinedMeasureError
        Every row has a copy, fewer than two rows, or all rows equal.

    Notes
    -----
    O(m²·dim). Falls with dim, rises slowly with m.

    References
    ----------
    He, Kumar and Chang 2012, On the difficulty of nearest neighbor search, definition 1.

    Examples
    --------
    >>> round(relative_contrast([[0.0], [1.0], [2.0], [3.0]], metric="euclidean"), 4)
    1.6667
    """
    found = _searched(rows, metric, 1)
    nearest = float(found.euclidean[:, 0].mean())
    if nearest == 0:
        raise UndefinedMeasureError("relative_contrast needs rows without copies; got a copy of every row.")
    return found.mean_distance / nearest


def near_duplicate_share(rows: Any, *, metric: str = "cosine", tolerance: float = 0.01) -> float:
    """Share of the rows that have a near copy.

    ``#{i : min_j d(i, j) ≤ tolerance·mean distance} / m``.

    Parameters
    ----------
    rows
        Table ``(m, dim)``, or :class:`Neighbors` (then `metric` is theirs).
    metric
        ``"cosine"`` or ``"euclidean"``.
    tolerance
        Relative to the mean distance over all pairs.

    Returns
    -------
    float
        In ``[0, 1]``: 0 when all rows stand apart. Invariant to scale and rotation.

    Raises
    ------
    UndefinedMeasureError
        Fewer than two rows, or all rows equal.

    Notes
    -----
    O(m²·dim). In a sample it misses pairs of which one row was not drawn: a lower bound for the table.

    References
    ----------
    Own definition; compare the near-duplicate rate of vecscope, which takes a fixed cosine.

    Examples
    --------
    >>> near_duplicate_share([[0.0], [0.001], [5.0], [9.0]], metric="euclidean")
    0.5
    """
    found = _searched(rows, metric, 1)
    return float((found.euclidean[:, 0] <= tolerance * found.mean_distance).mean())


def local_outlier_factor(rows: Any, k: int = 10, *, metric: str = "cosine") -> Array:
    """How much sparser the surroundings of each row are than those of its neighbors.

    ``LOF_i = mean_{j in N(i)} lrd_j / lrd_i``, ``lrd_i = 1 / mean_{j in N(i)} max(r_k(j), d(i, j))``.

    Parameters
    ----------
    rows
        Table ``(m, dim)``, or :class:`Neighbors` of all its rows (then `metric` is theirs).
    k
        Number of neighbors that make the surroundings.
    metric
        ``"euclidean"`` or ``"cosine"`` (distances of the unit rows).

    Returns
    -------
    array of shape ``(m,)``
        In ``(0, ∞)``: about 1 within a cloud of rows, above 1.5 for a row that stands aside. Invariant to scale and
        rotation; to translation for the Euclidean metric.

    Raises
    ------
    UndefinedMeasureError
        Not more than k rows, or all rows equal.

    Notes
    -----
    O(m²·dim). Distances within 1e-6 of the mean distance count as that much, so that copies have a finite density.
    Equivalent: ``-sklearn.neighbors.LocalOutlierFactor(k).fit(unit_rows).negative_outlier_factor_``.

    References
    ----------
    Breunig et al. 2000, LOF: identifying density-based local outliers, definitions 5 to 7.

    Examples
    --------
    >>> local_outlier_factor([[0.0], [1.0], [2.0], [3.0], [9.0]], k=2, metric="euclidean").round(2).tolist()
    [1.0, 1.0, 1.0, 1.0, 4.33]
    """
    found = first_neighbors(rows, k, metric, "local_outlier_factor")
    if found.indices.max() >= found.n_rows:
        raise InputError("local_outlier_factor needs the neighbors of all rows; got those of some of them.")
    far = np.maximum(found.euclidean, found.copy_distance)
    reach = np.maximum(far, far[found.indices, -1]).mean(axis=1)
    return reach * (1 / reach[found.indices]).mean(axis=1)


def outlier_share(rows: Any, k: int = 10, *, metric: str = "cosine", threshold: float = 1.5) -> float:
    """Share of the rows that stand aside of their neighbors.

    ``#{i : LOF_i > 1.5} / m``.

    Parameters
    ----------
    rows, k, metric
        As in :func:`local_outlier_factor`.
    threshold
        Local outlier factor above which a row counts.

    Returns
    -------
    float
        In ``[0, 1]``: 0 when density changes slowly everywhere. Invariant to scale and rotation.

    Raises
    ------
    UndefinedMeasureError
        Not more than k rows, or all rows equal.

    Notes
    -----
    O(m²·dim). In high dimension all distances are alike and few rows reach the threshold: 0 tells little there.

    References
    ----------
    Breunig et al. 2000; the threshold is scikit-learn's.

    Examples
    --------
    >>> outlier_share([[0.0], [1.0], [2.0], [3.0], [9.0]], k=2, metric="euclidean")
    0.2
    """
    return float((local_outlier_factor(rows, k, metric=metric) > threshold).mean())


def outlier_share_error(found: Neighbors) -> float:
    """Standard error of :func:`outlier_share` over the rows, whose factors stay as they are."""
    share = outlier_share(found, found.k)
    return float(np.sqrt(share * (1 - share) / max(found.n_rows - 1, 1)))
