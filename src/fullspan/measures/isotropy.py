"""Whether a table looks the same in every direction: partition functions, IsoScore, uniformity on the sphere."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check
from fullspan.measures.spectrum import participation_ratio

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = [
    "iso_score",
    "iso_score_star",
    "isotropy",
    "isotropy_of_partition",
    "log_partition",
]

_SIGNS = ("both", "one", "eigh")


def log_partition(E: Any, directions: Any) -> Float[Array, " k"]:
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


def _oracle_shrinkage(eigenvalues: Float[Array, " dim"], n: int) -> float:
    dim = len(eigenvalues)
    square = float(eigenvalues.sum()) ** 2
    squares = float(np.vecdot(eigenvalues, eigenvalues))
    low = (n + 1 - 2 / dim) * (squares - square / dim)
    return 1.0 if low <= 0 else min(1.0, ((1 - 2 / dim) * squares + square) / low)
