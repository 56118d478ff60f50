"""How many directions a table spans, from its singular values or from the eigenvalues of its covariance.

``singular_values`` are those of the table E, uncentered unless a name says otherwise: a mean shift is then one large
singular value. ``eigenvalues`` are those of the covariance (centered, ddof 1). All but the log-determinant do not
change when the table is scaled or rotated. For every spectrum
``stable rank ≤ participation ratio ≤ exp H(λ) ≤ exp H(σ)``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check

__all__ = [
    "article_spectral_entropy",
    "effective_rank",
    "eigenvalue_effective_rank",
    "lidar",
    "nesum",
    "participation_ratio",
    "rankme",
    "spectral_entropy",
    "stable_rank",
]


def _entropy(values: Array) -> float:
    shares = values / values.sum()
    shares = shares[shares > 0]
    return max(0.0, float(-(shares * np.log(shares)).sum()))


def spectral_entropy(eigenvalues: Any, *, mode: str = "exact") -> float:
    """Entropy of the variance along the principal axes.

    ``H = -Σ_j p_j ln p_j`` with ``p_j = λ_j / Σ_k λ_k``.

    Parameters
    ----------
    eigenvalues
        ``(dim,)`` eigenvalues of the covariance of the table.
    mode
        ``"exact"``, or ``"article"``: eigenvalues are clipped at 1e-12 from below, as in the article's code.

    Returns
    -------
    float
        In ``[0, ln dim]`` nats: 0 when all variance lies on one axis, ln dim when it is equal on all. Invariant to
        scale (not in the article mode), rotation and translation of the table. With n rows it cannot exceed ln(min(n -
        1, dim)).

    Raises
    ------
    UndefinedMeasureError
        All eigenvalues are zero (all rows are equal).

    Notes
    -----
    O(dim). Called "frequency-domain" in the article; no frequency is involved. exp of it is
    :func:`eigenvalue_effective_rank`.

    References
    ----------
    Article "What's Happening to Embeddings During Training?", function ``spectral_entropy``.

    Examples
    --------
    >>> round(spectral_entropy([2.0, 2.0, 2.0, 2.0]), 6)
    1.386294
    >>> spectral_entropy([3.0, 0.0])
    0.0
    """
    if _check.one_of(mode, ("exact", "article"), "spectral_entropy", "mode") == "article":
        return _entropy(np.maximum(_check.vector(eigenvalues, "spectral_entropy", "eigenvalues"), 1e-12))
    return _entropy(_check.descending(eigenvalues, "spectral_entropy", "eigenvalue"))


def article_spectral_entropy(E: Any) -> float:
    """Spectral entropy of a table exactly as the article's code computes it.

    ``eigvalsh(cov(E))`` with ddof 1, clipped at 1e-12, natural logarithm.

    Parameters
    ----------
    E
        Table ``(n, dim)`` with n ≥ 2 and dim ≥ 2.

    Returns
    -------
    float
        In ``[0, ln dim]`` nats. The clip makes it depend on the scale: a table of standard deviation 1e-6 reads ln dim.

    Raises
    ------
    UndefinedMeasureError
        Fewer than two rows or two dimensions.

    Notes
    -----
    O(n·dim² + dim³) time, a float64 copy of the table. :func:`spectral_entropy` has no absolute constant.

    References
    ----------
    Article "What's Happening to Embeddings During Training?", function ``spectral_entropy``.

    Examples
    --------
    >>> import numpy as np
    >>> round(article_spectral_entropy(np.vstack([np.eye(3), -np.eye(3)])), 4)
    1.0986
    """
    E = _check.table(E, "article_spectral_entropy", rows=2)
    if E.shape[1] < 2:
        raise UndefinedMeasureError("article_spectral_entropy needs at least two dimensions; got 1.")
    return spectral_entropy(np.linalg.eigvalsh(np.cov(E, rowvar=False)), mode="article")


def effective_rank(singular_values: Any) -> float:
    """How many directions the table uses, as the exponential of the entropy of its singular values.

    ``erank = exp(-Σ_j p_j ln p_j)`` with ``p_j = σ_j / Σ_k σ_k``.

    Parameters
    ----------
    singular_values
        ``(r,)`` singular values of the table, uncentered (or of the centered table, for the centered variant).

    Returns
    -------
    float
        In ``[1, min(n, dim)]`` directions: 1 for rank one, min(n, dim) for equal singular values. Invariant to scale
        and rotation; to translation only when centered.

    Raises
    ------
    UndefinedMeasureError
        All singular values are zero.

    Notes
    -----
    O(r). Other libraries give this name to the same formula on eigenvalues (:func:`eigenvalue_effective_rank`), or to
    the :func:`participation_ratio`: three different numbers.

    References
    ----------
    Roy and Vetterli 2007, The effective rank, definition 1.

    Examples
    --------
    >>> round(effective_rank([1.0, 1.0, 1.0]), 6)
    3.0
    >>> effective_rank([7.0, 0.0])
    1.0
    """
    return math.exp(_entropy(_check.descending(singular_values, "effective_rank")))


def eigenvalue_effective_rank(eigenvalues: Any) -> float:
    """How many principal axes carry the variance, as the exponential of the spectral entropy.

    ``exp(-Σ_j p_j ln p_j)`` with ``p_j = λ_j / Σ_k λ_k``.

    Parameters
    ----------
    eigenvalues
        ``(dim,)`` eigenvalues of the covariance.

    Returns
    -------
    float
        In ``[1, min(n - 1, dim)]`` directions: 1 when all variance lies on one axis. Invariant to scale, rotation and
        translation.

    Raises
    ------
    UndefinedMeasureError
        All eigenvalues are zero (all rows are equal).

    Notes
    -----
    O(dim). Never more than :func:`effective_rank` of the same centered table: squaring makes the shares less even.

    References
    ----------
    exp of the article's spectral entropy; the package reptrix calls it RankMe.

    Examples
    --------
    >>> round(eigenvalue_effective_rank([1.0, 1.0]), 6)
    2.0
    """
    return math.exp(_entropy(_check.descending(eigenvalues, "eigenvalue_effective_rank", "eigenvalue")))


def rankme(singular_values: Any) -> float:
    """Effective rank as the RankMe paper writes it, with its small constant.

    ``exp(-Σ_j p_j ln p_j)`` with ``p_j = σ_j / Σ_k σ_k + 1e-7``.

    Parameters
    ----------
    singular_values
        ``(r,)`` singular values of the uncentered table.

    Returns
    -------
    float
        In about ``[1, min(n, dim)]`` directions. The shares add up to 1 + r·1e-7, so the ends are passed by a hair
        (1.00008 on rank one at r = 64). Invariant to scale and rotation.

    Raises
    ------
    UndefinedMeasureError
        All singular values are zero.

    Notes
    -----
    O(r). :func:`effective_rank` is the same without the constant.

    References
    ----------
    Garrido et al. 2023, RankMe, equation 1.

    Examples
    --------
    >>> round(rankme([1.0, 1.0]), 4)
    2.0
    """
    values = _check.descending(singular_values, "rankme")
    shares = values / values.sum() + 1e-7
    return math.exp(float(-(shares * np.log(shares)).sum()))


def participation_ratio(eigenvalues: Any) -> float:
    """How many principal axes carry the variance, from the second moment of the eigenvalues.

    ``PR = (Σ_j λ_j)² / Σ_j λ_j²``.

    Parameters
    ----------
    eigenvalues
        ``(dim,)`` eigenvalues of the covariance.

    Returns
    -------
    float
        In ``[1, min(n - 1, dim)]`` directions: 1 when all variance lies on one axis. Invariant to scale, rotation and
        translation.

    Raises
    ------
    UndefinedMeasureError
        All eigenvalues are zero (all rows are equal).

    Notes
    -----
    O(dim). IsoScore is ``(PR - 1)/(dim - 1)``. With n rows of an isotropic Gaussian it reads about n·dim/(n + dim).

    References
    ----------
    Gao et al. 2017, A theory of multineuronal dimensionality, equation 5.

    Examples
    --------
    >>> participation_ratio([1.0, 1.0, 1.0, 0.0])
    3.0
    """
    values = _check.descending(eigenvalues, "participation_ratio", "eigenvalue")
    return float(values.sum() ** 2 / np.vecdot(values, values))


def stable_rank(singular_values: Any) -> float:
    """Energy of the table relative to its strongest direction.

    ``‖E‖_F² / ‖E‖₂² = Σ_j σ_j² / σ_1²``.

    Parameters
    ----------
    singular_values
        ``(r,)`` singular values of the table, uncentered.

    Returns
    -------
    float
        In ``[1, rank]`` directions: 1 for rank one, the rank for equal singular values. Invariant to scale and
        rotation.

    Raises
    ------
    UndefinedMeasureError
        All singular values are zero.

    Notes
    -----
    O(r). A mean shift makes it read 1. Of the centered table it is :func:`nesum`.
    Equivalent: ``(numpy.linalg.norm(E) / numpy.linalg.norm(E, 2)) ** 2``.

    References
    ----------
    Rudelson and Vershynin 2007, Sampling from large matrices, section 1.

    Examples
    --------
    >>> stable_rank([2.0, 1.0, 1.0])
    1.5
    """
    values = _check.descending(singular_values, "stable_rank")
    return float(np.vecdot(values, values))


def nesum(eigenvalues: Any) -> float:
    """Total variance relative to that of the first principal axis.

    ``Σ_j λ_j / λ_1``.

    Parameters
    ----------
    eigenvalues
        ``(dim,)`` eigenvalues of the covariance.

    Returns
    -------
    float
        In ``[1, min(n - 1, dim)]`` directions: 1 when all variance lies on one axis. Invariant to scale, rotation and
        translation.

    Raises
    ------
    UndefinedMeasureError
        All eigenvalues are zero (all rows are equal).

    Notes
    -----
    O(dim). The stable rank of the centered table; the reciprocal of :func:`~fullspan.top_component_share`.

    References
    ----------
    He and Ozay 2022, Exploring the gap between collapsed and whitened features, section 3 (normalized eigenvalue sum).

    Examples
    --------
    >>> nesum([4.0, 2.0, 2.0])
    2.0
    """
    return float(_check.descending(eigenvalues, "nesum", "eigenvalue").sum())


def lidar(E: Any, groups: Any, *, epsilon: float = 1e-4) -> float:
    """Effective rank of what tells groups of rows apart from what varies within a group.

    ``exp H(p)`` of the eigenvalues of ``W^(-1/2) B W^(-1/2)``: B between the groups, W within them plus ε·mean
    variance·I.

    Parameters
    ----------
    E
        Table ``(n, dim)``.
    groups
        ``(n,)`` label of each row: augmentations of one object, or a class. At least two groups, one of them with two
        rows.
    epsilon
        Ridge on W, relative to the mean within-group variance of a dimension.

    Returns
    -------
    float
        In ``[1, min(groups - 1, dim)]`` directions. Invariant to scale, rotation and translation.

    Raises
    ------
    UndefinedMeasureError
        Fewer than two groups, no variation within groups, or none between them.
    InputError
        A label is missing for some rows.

    Notes
    -----
    O(n·dim² + dim³). The paper adds an absolute ε = 1e-4 to W; here it is relative, which keeps the scale invariance.

    References
    ----------
    Thilak et al. 2024, LiDAR: sensing linear probing performance in joint embedding SSL architectures, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> corners = np.repeat(np.eye(4), 2, axis=0) + np.tile([[1e-3], [-1e-3]], (4, 4))
    >>> 1 <= lidar(corners, np.repeat(np.arange(4), 2)) <= 3
    True
    """
    E = _check.table(E, "lidar", rows=2)
    names, which = np.unique(np.asarray(groups), return_inverse=True)
    if len(which) != len(E):
        raise InputError(f"lidar needs one group label for each of {len(E)} rows; got {len(which)}.")
    if len(names) < 2:
        raise UndefinedMeasureError(f"lidar needs at least two groups; got {len(names)}.")
    E = E - E.mean(axis=0)
    counts = np.bincount(which)
    centers = np.zeros((len(names), E.shape[1]))
    np.add.at(centers, which, E)
    centers /= counts[:, None]
    rest = E - centers[which]
    within = rest.T @ rest / len(E)
    ridge = epsilon * np.trace(within) / E.shape[1]
    if ridge <= 0 or not centers.any():
        raise UndefinedMeasureError(
            "lidar needs rows that vary within groups and between them; got no variation in one of the two."
        )
    values, axes = np.linalg.eigh(within + ridge * np.eye(E.shape[1]))
    spread = (centers * np.sqrt(counts / len(E))[:, None]) @ (axes / np.sqrt(values))
    return effective_rank(np.linalg.svd(spread, compute_uv=False) ** 2)
