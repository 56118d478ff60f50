"""Whether a table looks the same in every direction: partition functions, IsoScore, uniformity on the sphere."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check
from fullspan.measures.spectrum import participation_ratio

__all__ = [
    "Estimate",
    "alignment",
    "average_cosine",
    "centered_average_cosine",
    "cosine_deviation",
    "iso_score",
    "iso_score_star",
    "isotropy",
    "isotropy_of_partition",
    "log_partition",
    "rogue_dimension_share",
    "uniformity",
    "uniformity_estimate",
    "unit_deviation",
]

_SIGNS = ("both", "one", "eigh")


class Estimate(NamedTuple):
    """A sampled number: its value, its standard error, and how many pairs of rows it rests on."""

    value: float
    standard_error: float
    n_pairs: int


def log_partition(E: Any, directions: Any) -> Array:
    """Logarithm of the partition function of the table along given directions.

    ``ln Z(c) = ln Σ_i exp(c·e_i)``, by log-sum-exp.

    Parameters
    ----------
    E
        Table ``(n, dim)``.
    directions
        ``(k, dim)``, one direction a row.

    Returns
    -------
    array of shape ``(k,)``
        In ``[ln n - max‖e‖·‖c‖, ln n + max‖e‖·‖c‖]`` nats; ln n for a table of zeros.

    Raises
    ------
    InputError
        The two do not have the same dim.

    Notes
    -----
    O(n·dim·k) time, one pass. exp itself overflows float32 above a projection of 88 and float64 above 709.

    References
    ----------
    Arora et al. 2016, A latent variable model approach to PMI-based word embeddings, section 2.

    Examples
    --------
    >>> log_partition([[0.0], [0.0]], [[1.0]]).round(6).tolist()
    [0.693147]
    """
    E = _check.table(E, "log_partition", rows=1)
    axes = _check.table(directions, "log_partition", rows=1)
    if axes.shape[1] != E.shape[1]:
        raise InputError(f"log_partition needs directions of the table's dim {E.shape[1]}; got {axes.shape[1]}.")
    highest = np.full(len(axes), -np.inf)
    total = np.zeros(len(axes))
    for part in _check.row_blocks(len(E), max(E.shape[1], len(axes))):
        projection = E[part] @ axes.T
        top = np.maximum(highest, projection.max(axis=0))
        total = total * np.exp(highest - top) + np.exp(projection - top).sum(axis=0)
        highest = top
    return highest + np.log(total)


def isotropy_of_partition(log_z_positive: Any, log_z_negative: Any = None) -> float:
    """Isotropy from partition functions that are known already.

    ``min Z / max Z`` over the directions, and over their opposites where given.

    Parameters
    ----------
    log_z_positive
        ``(k,)`` ln Z along each direction.
    log_z_negative
        ``(k,)`` ln Z along its opposite; None for one sign each.

    Returns
    -------
    float
        In ``(0, 1]``: 1 when Z is equal in all directions.

    Raises
    ------
    InputError
        Values that are not finite, or not 1-D.

    Notes
    -----
    O(k). What the one-pass report uses after its second look at the rows.

    References
    ----------
    Mu, Bhat and Viswanath 2018, All-but-the-top, equation 3.

    Examples
    --------
    >>> isotropy_of_partition([1.0, 1.0])
    1.0
    """
    parts = [_check.vector(log_z_positive, "isotropy", "log partition functions")]
    if log_z_negative is not None:
        parts.append(_check.vector(log_z_negative, "isotropy", "log partition functions"))
    logs = np.concatenate(parts)
    if not len(logs):
        raise UndefinedMeasureError("isotropy needs at least one direction; got none.")
    return math.exp(logs.min() - logs.max())


def isotropy(E: Any, *, signs: str = "both", center: bool = False) -> float:
    """How evenly the table spreads over directions, from its partition function along the principal axes.

    ``Iso(E) = min_c Z(c) / max_c Z(c)``, ``Z(c) = Σ_i exp(c·e_i)``, c over the eigenvectors of EᵀE (of E Eᵀ in the
    paper, whose E stands transposed).

    Parameters
    ----------
    E
        Table ``(n, dim)``.
    signs
        ``"both"``: c and -c, which no decomposition's choice of sign can change. ``"one"``: one sign, that which makes
        the largest entry of c positive. ``"eigh"``: as LAPACK's symmetric solver returns them, as published numbers do.
    center
        Subtract the mean row first: Iso(E - μ).

    Returns
    -------
    float
        In ``(0, 1]``: 1 for Z equal in all directions, towards 0 for a table shifted or stretched one way. Invariant to
        rotation where signs="both" and the eigenvalues differ. **Not** invariant to scale: halving a table raises it.

    Raises
    ------
    UndefinedMeasureError
        No rows, or only zeros.

    Notes
    -----
    O(n·dim²), two passes. Eigenvectors are not the extremes over the sphere: other directions can give less. One
    Adam-trained table gave .114 (eigh), .115 (svd), .199 (eig) and .023 (both signs). Iterating over the *rows* of the
    eigenvector matrix, as some published scripts do, gives a different number.

    References
    ----------
    Arora et al. 2016; Mu, Bhat and Viswanath 2018, equation 3; Stollenwerk and Stollenwerk 2025, equation 25.

    Examples
    --------
    >>> import numpy as np
    >>> round(isotropy(np.vstack([np.eye(3), -np.eye(3)])), 6)
    1.0
    >>> round(isotropy([[2.0, 0.0], [0.0, 1.0]]), 4), round(isotropy([[2.0, 0.0], [0.0, 1.0]], signs="eigh"), 4)
    (0.1353, 0.4432)
    """
    _check.one_of(signs, _SIGNS, "isotropy", "signs")
    E = _check.table(E, "isotropy", rows=1)
    if center:
        E = E - E.mean(axis=0)
    largest = np.abs(E).max()
    if largest == 0:
        raise UndefinedMeasureError(
            f"isotropy needs at least one non-zero row; got {len(E)} zero rows{' after centering' * center}."
        )
    axes = np.linalg.eigh((E / largest).T @ (E / largest))[1]
    if signs == "one":
        axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1.0, 1.0)
    if signs != "both":
        return isotropy_of_partition(log_partition(E, axes.T))
    logs = log_partition(E, np.hstack([axes, -axes]).T)
    return isotropy_of_partition(logs)


def iso_score(eigenvalues: Any) -> float:
    """How evenly the variance spreads over the principal axes, as a share of the dimensions.

    IsoScore's seven steps come to ``(PR - 1)/(d - 1)``, with PR the participation ratio of the covariance's
    eigenvalues.

    Parameters
    ----------
    eigenvalues
        ``(dim,)`` eigenvalues of the covariance, zeros included, dim ≥ 2.

    Returns
    -------
    float
        In ``[0, 1]``: 0 when all variance lies on one axis, 1 when it is equal on all. Invariant to scale, rotation and
        translation.

    Raises
    ------
    UndefinedMeasureError
        One dimension, or all rows equal.

    Notes
    -----
    O(dim). Biased for few rows: n rows of an isotropic Gaussian read about n/(n + dim): 0.50 at n = 70, dim = 64.
    Compare with its null, or use :func:`iso_score_star`.

    References
    ----------
    Rudman et al. 2022, IsoScore: measuring the uniformity of embedding space utilization, algorithm 1.

    Examples
    --------
    >>> iso_score([1.0, 1.0, 1.0, 1.0])
    1.0
    >>> iso_score([1.0, 0.0, 0.0])
    0.0
    """
    dim = np.size(eigenvalues)
    if dim < 2:
        raise UndefinedMeasureError(f"iso_score needs at least two dimensions; got {dim}.")
    return (participation_ratio(_check.descending(eigenvalues, "iso_score", "eigenvalue")) - 1) / (dim - 1)


def iso_score_star(eigenvalues: Any, n_rows: int, *, shrinkage: float | None = None) -> float:
    """IsoScore of a covariance that is shrunk towards the sphere, to undo the bias of few rows.

    IsoScore of ``(1 - ζ)·C + ζ·(tr C/d)·I``.

    Parameters
    ----------
    eigenvalues
        ``(dim,)`` eigenvalues of the covariance, zeros included, dim ≥ 2.
    n_rows
        Number of rows that the covariance comes from.
    shrinkage
        ζ in [0, 1]; None takes the oracle approximating shrinkage of Chen et al., which goes to 0 as n grows.

    Returns
    -------
    float
        In ``[0, 1]``: 0 when all variance lies on one axis (up to the shrinkage), 1 when it is equal on all. Invariant
        to scale, rotation and translation.

    Raises
    ------
    UndefinedMeasureError
        One dimension, fewer than two rows, or all rows equal.
    InputError
        A shrinkage outside [0, 1].

    Notes
    -----
    O(dim). The paper shrinks towards a covariance of more data, or towards I; an absolute I would depend on the scale,
    so the target here has the table's own mean variance. Gaussian tables read near 1 at any n; a collapsed table of few
    rows is flattered, by about its ζ.

    References
    ----------
    Rudman and Eickhoff 2024, Stable anisotropic regularization, section 3; Chen et al. 2010, Shrinkage algorithms for
    MMSE covariance estimation, equation 23.

    Examples
    --------
    >>> round(iso_score_star([2.0, 1.0], 10**9), 6), iso_score_star([2.0, 1.0], 3, shrinkage=1.0)
    (0.8, 1.0)
    """
    values = _check.descending(eigenvalues, "iso_score_star", "eigenvalue")
    if len(values) < 2 or n_rows < 2:
        raise UndefinedMeasureError(
            f"iso_score_star needs two dimensions and two rows; got {len(values)} and {n_rows}."
        )
    if shrinkage is None:
        shrinkage = _oracle_shrinkage(values, n_rows - 1)
    if not 0 <= shrinkage <= 1:
        raise InputError(f"iso_score_star needs a shrinkage in [0, 1]; got {shrinkage}.")
    return iso_score((1 - shrinkage) * values + shrinkage * values.mean())


def _oracle_shrinkage(eigenvalues: Array, n: int) -> float:
    dim = len(eigenvalues)
    square = float(eigenvalues.sum()) ** 2
    squares = float(np.vecdot(eigenvalues, eigenvalues))
    low = (n + 1 - 2 / dim) * (squares - square / dim)
    return 1.0 if low <= 0 else min(1.0, ((1 - 2 / dim) * squares + square) / low)


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


def uniformity_estimate(E: Any, *, t: float = 2.0, max_pairs: int = 2**18, seed: int = 0) -> Estimate:
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
        Value as in :func:`uniformity`; the standard error (delta method over the pairs drawn) is 0 when all pairs were
        taken.

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
    error = 0.0 if everything else float(kernel.std(ddof=1) / kernel.mean() / math.sqrt(len(kernel)))
    return Estimate(float(top + math.log(kernel.mean())), error, len(left))


def _random_pairs(m: int, n_pairs: int, seed: int) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    left = random.integers(0, m, n_pairs)
    return left, (left + random.integers(1, m, n_pairs)) % m


def uniformity(E: Any, *, t: float = 2.0, max_pairs: int = 2**18, seed: int = 0) -> float:
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
