"""How far two clouds of rows are apart that need not be aligned: moments, two-sample tests, spectra."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check

__all__ = [
    "Significance",
    "classifier_drift",
    "frechet_distance",
    "frechet_from_moments",
    "mean_shift",
    "mmd",
    "spectrum_difference",
]


class Significance(NamedTuple):
    """A statistic, and the probability of one at least as large when both tables come from one distribution."""

    value: float
    p_value: float


def mean_shift(x: Any, y: Any) -> float:
    """How far the mean row has moved, in units of the spread of the rows.

    ``‖μ_y - μ_x‖ / √((tr C_x + tr C_y)/2)``.

    Parameters
    ----------
    x, y
        Tables ``(n, dim)`` and ``(m, dim)``; rows need not be aligned.

    Returns
    -------
    float
        In ``[0, ∞)``: 0 for equal means; √(1/n + 1/m) is expected by chance. Invariant to a common scale, rotation and
        translation.

    Raises
    ------
    UndefinedMeasureError
        Both tables are constant, or one has fewer than two rows.
    InputError
        Different dims.

    Notes
    -----
    O(n·dim).

    References
    ----------
    Standardized mean difference (Cohen 1988), in many dimensions.

    Examples
    --------
    >>> mean_shift([[0.0], [2.0]], [[4.0], [6.0]])
    2.82842712474619
    """
    x, y = _check.pair(x, y, "mean_shift", aligned=False)
    largest = max(float(np.abs(x).max()), float(np.abs(y).max())) or 1.0
    x, y = x / largest, y / largest
    spread = (x.var(axis=0, ddof=1).sum() + y.var(axis=0, ddof=1).sum()) / 2
    if spread <= 1e-30:
        raise UndefinedMeasureError("mean_shift needs rows that differ from each other; got two constant tables.")
    return float(np.linalg.norm(y.mean(axis=0) - x.mean(axis=0)) / math.sqrt(spread))


def frechet_from_moments(mean_x: Any, covariance_x: Any, mean_y: Any, covariance_y: Any) -> float:
    """Fréchet distance of two Gaussians from their means and covariances.

    ``‖μ_x - μ_y‖² + tr(C_x + C_y - 2·(C_x C_y)^(1/2))``.

    Parameters
    ----------
    mean_x, mean_y
        ``(dim,)``.
    covariance_x, covariance_y
        ``(dim, dim)``.

    Returns
    -------
    float
        In ``[0, ∞)``, in squared units of the table: 0 for equal moments.

    Raises
    ------
    UndefinedMeasureError
        A mean or covariance with NaN or infinity: that of one row, or of numbers whose squares overflow.
    InputError
        Different dims; covariances that are not square, symmetric and without negative eigenvalues.

    Notes
    -----
    O(dim³). The root of the product as the nuclear norm of ``C_x^(1/2) C_y^(1/2)``: no complex numbers for singular
    covariances.

    References
    ----------
    Dowson and Landau 1982; Heusel et al. 2017 (FID).

    Examples
    --------
    >>> import numpy as np
    >>> frechet_from_moments([0.0, 0.0], np.eye(2), [3.0, 4.0], np.eye(2))
    25.0
    """
    means = [_moment(each, "mean") for each in (mean_x, mean_y)]
    roots = [_root(each) for each in (covariance_x, covariance_y)]
    dims = [len(each) for each in (*means, *roots)]
    if len(set(dims)) > 1:
        raise InputError(
            f"frechet_from_moments needs means and covariances of one dim; got means of {dims[0]} and {dims[1]} and "
            f"covariances of {dims[2]} and {dims[3]}."
        )
    away = means[0] - means[1]
    # ‖A‖² + ‖B‖² - 2·‖A B‖_* is the squared Procrustes residual of the roots: not negative, and 0 for equal ones
    left, _, right = np.linalg.svd(roots[0] @ roots[1])
    residual = roots[0] - (left @ right) @ roots[1].T
    return float(np.vecdot(away, away) + np.sum(residual * residual))


def _moment(values: Any, what: str) -> Array:
    array = _check.to_numpy(values, "frechet_from_moments").astype(np.float64, copy=False)
    if array.ndim != (1 if what == "mean" else 2):
        shape = "(dim,)" if what == "mean" else "(dim, dim)"
        raise InputError(f"frechet_from_moments needs a {what} of shape {shape}; got shape {array.shape}.")
    if not np.isfinite(array).all():
        raise UndefinedMeasureError(
            f"frechet_from_moments needs a finite {what}; got NaN or infinity. One row has no covariance, and squares "
            "of numbers beyond 1e154 overflow."
        )
    return array


def _root(covariance: Any) -> Array:
    """The symmetric square root of a covariance."""
    C = _moment(covariance, "covariance")
    largest = float(np.abs(C).max(initial=0.0))
    if C.shape[0] != C.shape[1] or np.abs(C - C.T).max(initial=0.0) > 1e-6 * largest:
        raise InputError(f"frechet_from_moments needs a symmetric covariance; got one of shape {C.shape} that is not.")
    values, axes = np.linalg.eigh(C)
    if values.min(initial=0.0) < -1e-6 * largest:
        raise InputError(f"frechet_from_moments needs a covariance without negative eigenvalues; got {values[0]:.4g}.")
    return (axes * np.sqrt(np.maximum(values, 0.0))) @ axes.T


def frechet_distance(x: Any, y: Any) -> float:
    """Distance between two tables as if each were a Gaussian.

    ``‖μ_x - μ_y‖² + tr(C_x + C_y - 2·(C_x C_y)^(1/2))``, covariances with ddof 1.

    Parameters
    ----------
    x, y
        Tables ``(n, dim)`` and ``(m, dim)``; rows need not be aligned.

    Returns
    -------
    float
        In ``[0, ∞)``, in squared units of the table: 0 for equal means and covariances. Invariant to a common rotation
        and translation; a common scale s multiplies it by s².

    Raises
    ------
    UndefinedMeasureError
        Fewer than two rows.
    InputError
        Different dims.

    Notes
    -----
    O(n·dim² + dim³). Biased upwards for few rows: compare tables of equal size.

    References
    ----------
    Dowson and Landau 1982; Heusel et al. 2017, GANs trained by a two time-scale update rule (FID).

    Examples
    --------
    >>> round(frechet_distance([[0.0], [2.0]], [[5.0], [7.0]]), 12)
    25.0
    """
    x, y = _check.pair(x, y, "frechet_distance", aligned=False)
    covariances = [np.atleast_2d(np.cov(each, rowvar=False)) for each in (x, y)]
    return frechet_from_moments(x.mean(axis=0), covariances[0], y.mean(axis=0), covariances[1])


def _cut(x: Array, most: int, random: np.random.Generator) -> Array:
    return x if len(x) <= most else x[np.sort(random.choice(len(x), most, replace=False))]


def mmd(x: Any, y: Any, *, permutations: int = 199, max_rows: int = 1000, seed: int = 0) -> Significance:
    """Whether two tables come from one distribution, by a kernel that sees any difference.

    Unbiased ``MMD² = E k(x,x') + E k(y,y') - 2·E k(x,y)``, ``k = exp(-‖a - b‖²/(2h²))``, h² half the median squared
    distance.

    Parameters
    ----------
    x, y
        Tables ``(n, dim)`` and ``(m, dim)``; rows need not be aligned, and should be independent of each other.
    permutations
        Number of random relabelings for the p value.
    max_rows
        Rows of each table beyond this number are left out at random.
    seed
        Of the sample and the permutations.

    Returns
    -------
    Significance
        value in about ``[0, 2]`` (slightly negative by chance); p_value in ``[1/(permutations + 1), 1]``, exact under
        exchangeability. Invariant to a common scale, rotation and translation.

    Raises
    ------
    UndefinedMeasureError
        Fewer than two rows, or all rows of both equal.
    InputError
        Different dims.

    Notes
    -----
    O((n + m)²·(dim + permutations)).

    References
    ----------
    Gretton et al. 2012, A kernel two-sample test, equation 3.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((60, 3))
    >>> mmd(x, x + 2).p_value
    0.005
    """
    x, y = _check.pair(x, y, "mmd", aligned=False)
    random = np.random.default_rng(seed)
    x, y = _cut(x, max_rows, random), _cut(y, max_rows, random)
    rows = np.vstack([x, y])
    rows = rows - rows.mean(axis=0)
    largest = np.abs(rows).max()
    if largest <= 1e-300:
        raise UndefinedMeasureError(f"mmd needs rows that differ from each other; got {len(rows)} equal rows.")
    rows /= largest
    squares = np.vecdot(rows, rows)
    gaps = np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0.0)
    off = gaps[np.triu_indices(len(rows), 1)]
    width = float(np.median(off)) or float(off.mean())
    kernel = np.exp(-gaps / width)
    np.fill_diagonal(kernel, 0.0)
    labels = np.zeros((len(rows), permutations + 1))
    labels[: len(x), 0] = 1.0
    for column in range(1, permutations + 1):
        labels[random.permutation(len(rows))[: len(x)], column] = 1.0
    n, m = len(x), len(y)
    with_x = kernel @ labels
    in_x = (labels * with_x).sum(axis=0)
    between = with_x.sum(axis=0) - in_x
    in_y = kernel.sum() - in_x - 2 * between
    values = in_x / (n * (n - 1)) + in_y / (m * (m - 1)) - 2 * between / (n * m)
    return Significance(float(values[0]), float((1 + (values[1:] >= values[0] - 1e-12).sum()) / (permutations + 1)))


def classifier_drift(
    x: Any, y: Any, *, max_rows: int = 4000, folds: int = 2, ridge: float = 0.1, seed: int = 0
) -> Significance:
    """Whether a linear classifier can tell on unseen rows which of two tables they come from.

    Held-out accuracy of a discriminant ``(C + ridge·tr C/d·I)⁻¹(μ_y - μ_x)``, with its binomial p value.

    Parameters
    ----------
    x, y
        Tables ``(n, dim)`` and ``(m, dim)``; rows need not be aligned, and should be independent of each other.
    max_rows
        Rows of each table beyond this number, or beyond the smaller table, are left out at random.
    folds
        Each row is judged by a discriminant that has not seen its fold.
    ridge
        Relative to the mean variance of a dimension.
    seed
        Of the sample and the folds.

    Returns
    -------
    Significance
        value in ``[0, 1]``: 0.5 by chance, 1 when the tables can be told apart at every row; p_value in (0, 1],
        one-sided. Invariant to a common scale, rotation and translation.

    Raises
    ------
    UndefinedMeasureError
        Fewer than two rows a fold, or all rows of both equal.
    InputError
        Different dims.

    Notes
    -----
    O(n·dim² + dim³). Linear: it sees a moved mean, not a changed spread; :func:`mmd` sees both. For aligned tables the
    same row can lie in both halves, so use it on independent rows.

    References
    ----------
    Lopez-Paz and Oquab 2017, Revisiting classifier two-sample tests, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((100, 3))
    >>> classifier_drift(x, x + 3).value > 0.9
    True
    """
    x, y = _check.pair(x, y, "classifier_drift", rows=2 * folds, aligned=False)
    random = np.random.default_rng(seed)
    n = min(len(x), len(y), max_rows)
    rows = np.vstack([_cut(x, n, random), _cut(y, n, random)])
    rows = rows - rows.mean(axis=0)
    largest = np.abs(rows).max()
    if largest <= 1e-300:
        raise UndefinedMeasureError(
            f"classifier_drift needs rows that differ from each other; got {len(rows)} equal rows."
        )
    rows /= largest
    label = np.repeat([0, 1], n)
    fold = np.concatenate([random.permutation(n) % folds, random.permutation(n) % folds])
    hits = 0.0
    for each in range(folds):
        train = fold != each
        a, b = rows[train & (label == 0)], rows[train & (label == 1)]
        within = (np.cov(a, rowvar=False) + np.cov(b, rowvar=False)) / 2
        within = np.atleast_2d(within)
        level = float(np.trace(within)) / len(within)
        axis = np.linalg.solve(within + (ridge * level + 1e-12) * np.eye(len(within)), b.mean(axis=0) - a.mean(axis=0))
        score = rows[~train] @ axis - (a.mean(axis=0) + b.mean(axis=0)) @ axis / 2
        hits += float((np.where(score > 0, 1, 0) == label[~train])[score != 0].sum()) + 0.5 * float((score == 0).sum())
    return Significance(hits / (2 * n), _binomial_tail(math.floor(hits), 2 * n))


def _binomial_tail(hits: int, trials: int) -> float:
    """P(at least `hits` heads of a fair coin)."""
    k = np.arange(hits, trials + 1)
    logs = [
        math.lgamma(trials + 1) - math.lgamma(i + 1) - math.lgamma(trials - i + 1) - trials * math.log(2) for i in k
    ]
    top = max(logs)
    return float(min(1.0, math.exp(top) * sum(math.exp(each - top) for each in logs)))


def _eigenvalues(values: Any) -> Any:
    """The eigenvalues of the covariance of a table, or the values themselves."""
    if np.ndim(values) != 2:
        return values
    x = _check.table(values, "spectrum_difference", rows=2)
    largest = float(np.abs(x).max()) or 1.0
    singular = np.linalg.svd((x - x.mean(axis=0)) / largest, compute_uv=False)
    return np.where(singular > 8 * np.finfo(np.float64).eps * math.sqrt(len(x)), singular, 0.0) ** 2


def spectrum_difference(x: Any, y: Any) -> float:
    """How much of the variance has moved to another rank of the spectrum.

    ``½ Σ_j |p_j - q_j|``, p and q the shares ``λ_j/Σλ`` by rank.

    Parameters
    ----------
    x, y
        Two tables ``(n, dim)``, or the ``(r,)`` eigenvalues of their covariances; the shorter is filled with zeros.

    Returns
    -------
    float
        In ``[0, 1)``: 0 when the spectra are proportional. Invariant to scale, rotation and translation of either
        table.

    Raises
    ------
    UndefinedMeasureError
        A spectrum of zeros.

    Notes
    -----
    O(r), for tables O(n·dim²). Total variation distance; blind to rotation of the axes, for which there is
    :func:`~fullspan.measures.drift.principal_angles`.

    References
    ----------
    Own definition.

    Examples
    --------
    >>> spectrum_difference([1.0, 1.0], [3.0, 1.0])
    0.25
    """
    shares = []
    for values in (x, y):
        spectrum = _check.descending(_eigenvalues(values), "spectrum_difference", "eigenvalue")
        shares.append(spectrum / spectrum.sum())
    length = max(map(len, shares))
    p, q = (np.pad(each, (0, length - len(each))) for each in shares)
    return float(np.abs(p - q).sum() / 2)
