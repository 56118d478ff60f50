"""How the variance is shared among the principal axes: how many hold most of it, and how much the first one holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from fullspan.errors import InputError
from fullspan.measures import _check
from fullspan.measures.spectrum import nesum

__all__ = ["cumulative_variance_auc", "explained_variance_dims", "top_component_share"]


def explained_variance_dims(eigenvalues: Any, share: float = 0.9) -> int:
    """Number of principal axes that hold a share of the variance.

    The least k with ``Σ_{j≤k} λ_j ≥ share·Σ_j λ_j``.

    Parameters
    ----------
    eigenvalues
        ``(dim,)`` eigenvalues of the covariance.
    share
        In (0, 1]; customary are 0.90, 0.95 and 0.99.

    Returns
    -------
    int
        In ``[1, min(n - 1, dim)]``. Invariant to scale, rotation and translation.

    Raises
    ------
    UndefinedMeasureError
        All eigenvalues are zero.
    InputError
        A share outside (0, 1].

    Notes
    -----
    O(dim). Equivalent: ``sklearn.decomposition.PCA(n_components=share).fit(E).n_components_``.

    References
    ----------
    Jolliffe 2002, Principal Component Analysis, section 6.1.1.

    Examples
    --------
    >>> explained_variance_dims([6.0, 3.0, 1.0], 0.9)
    2
    """
    if not 0 < share <= 1:
        raise InputError(f"explained_variance_dims needs a share in (0, 1]; got {share}.")
    values = _check.descending(eigenvalues, "explained_variance_dims", "eigenvalue")
    cumulative = np.cumsum(values)
    return int(np.searchsorted(cumulative, share * cumulative[-1] * (1 - 1e-12)) + 1)


def top_component_share(eigenvalues: Any) -> float:
    """Share of the variance that lies on the first principal axis.

    ``λ_1 / Σ_j λ_j``.

    Parameters
    ----------
    eigenvalues
        ``(dim,)`` eigenvalues of the covariance.

    Returns
    -------
    float
        In ``[1/dim, 1]``: 1 when all variance lies on one axis. Invariant to scale, rotation and translation.

    Raises
    ------
    UndefinedMeasureError
        All eigenvalues are zero (all rows are equal).

    Notes
    -----
    O(dim). The reciprocal of :func:`nesum`; ``PCA(1).explained_variance_ratio_[0]``.

    References
    ----------
    Jolliffe 2002, Principal Component Analysis, section 6.1.1.

    Examples
    --------
    >>> top_component_share([3.0, 1.0])
    0.75
    """
    return 1 / nesum(eigenvalues)


def cumulative_variance_auc(eigenvalues: Any) -> float:
    """Mean of the cumulative share of variance over the number of axes kept.

    ``(1/dim) Σ_k Σ_{j≤k} λ_j / Σ_j λ_j``.

    Parameters
    ----------
    eigenvalues
        ``(dim,)`` eigenvalues of the covariance, zeros included.

    Returns
    -------
    float
        In ``[(dim + 1)/(2·dim), 1]``: the lower end for equal eigenvalues, 1 when all variance lies on one axis.
        Invariant to scale, rotation and translation.

    Raises
    ------
    UndefinedMeasureError
        All eigenvalues are zero.

    Notes
    -----
    O(dim). Depends on the number of eigenvalues given: hand over all dim of them.

    References
    ----------
    Li, Efros and Pathak 2022, Understanding collapse in non-contrastive siamese representation learning, section 4.

    Examples
    --------
    >>> cumulative_variance_auc([1.0, 1.0])
    0.75
    """
    cumulative = np.cumsum(_check.descending(eigenvalues, "cumulative_variance_auc", "eigenvalue"))
    return float((cumulative / cumulative[-1]).mean())
