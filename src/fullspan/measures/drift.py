"""How far two versions of a table are apart; rows are aligned unless a measure compares distributions.

Aligned (row i of both is the same thing): CKA, Procrustes, displacement, neighbor overlap. Not aligned: mean shift,
Fréchet distance, MMD, classifier drift, spectrum difference, principal angles. The last two tests come with a
permutation or binomial p.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check
from fullspan.measures.neighbors import nearest_neighbors
from fullspan.measures.shift import (
    Significance,
    classifier_drift,
    frechet_distance,
    frechet_from_moments,
    mean_shift,
    mmd,
    spectrum_difference,
)

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = [
    "Significance",
    "cka_from_moments",
    "classifier_drift",
    "frechet_distance",
    "frechet_from_moments",
    "linear_cka",
    "mean_shift",
    "mmd",
    "neighbor_overlap",
    "principal_angles",
    "procrustes_distance",
    "procrustes_from_moments",
    "row_cosine",
    "row_displacement",
    "spectrum_difference",
]


def _centered(x: Float[Array, "n dim"], call: str) -> Float[Array, "n dim"]:
    """The centered table at unit Frobenius norm; undefined for a constant one."""
    largest = np.abs(x).max()
    rest = x / largest if largest > 0 else x
    rest = rest - rest.mean(axis=0)
    norm = np.sqrt(np.sum(rest * rest))
    if norm <= 8 * np.finfo(np.float64).eps * math.sqrt(x.size):
        raise UndefinedMeasureError(f"{call} needs rows that differ from each other; got {len(x)} equal rows.")
    return rest / norm


def cka_from_moments(cross: Any, xx: Any, yy: Any) -> float:
    """Linear CKA from centered cross-products, as a one-pass summary keeps them.

    ``‖XᵀY‖_F² / (‖XᵀX‖_F·‖YᵀY‖_F)``.

    Parameters
    ----------
    cross, xx, yy
        Centered scatters ``(dx, dy)``, ``(dx, dx)``, ``(dy, dy)``.

    Returns
    -------
    float
        In ``[0, 1]``: 1 when the two tables agree up to rotation and one common scale.

    Raises
    ------
    UndefinedMeasureError
        One of the tables is constant.

    Notes
    -----
    O(dx·dy). Biased upwards for few rows: 0.2 at 32 rows of independent data.

    References
    ----------
    Kornblith et al. 2019, Similarity of neural network representations revisited, equation 5.

    Examples
    --------
    >>> import numpy as np
    >>> cka_from_moments(np.eye(2), np.eye(2), np.eye(2))
    1.0
    """
    parts = [_check.table(each, "linear_cka", rows=1) for each in (cross, xx, yy)]
    scales = [float(np.abs(each).max()) for each in parts]
    if min(scales[1:]) == 0:
        raise UndefinedMeasureError("linear_cka needs rows that differ from each other; got a constant table.")
    if scales[0] == 0:
        return 0.0
    norms = [float(np.sqrt(np.sum((each / scale) ** 2))) for each, scale in zip(parts, scales, strict=True)]
    ratio = norms[0] ** 2 / (norms[1] * norms[2]) * (scales[0] / scales[1]) * (scales[0] / scales[2])
    return min(1.0, ratio)


def linear_cka(x: Any, y: Any, *, debiased: bool = False) -> float:
    """Similarity of the pairwise similarities within two tables.

    ``‖XᵀY‖_F² / (‖XᵀX‖_F·‖YᵀY‖_F)`` of the centered tables.

    Parameters
    ----------
    x, y
        Tables ``(n, dx)`` and ``(n, dy)`` with the same rows.
    debiased
        Use the unbiased estimator of HSIC (Song et al. 2012), whose expectation is 0 on independent data; needs 4 rows.

    Returns
    -------
    float
        In ``[0, 1]`` (debiased: down to about -1): 1 when the tables agree up to rotation and one common scale;
        invariant to rotation, scale and translation of either.

    Raises
    ------
    UndefinedMeasureError
        A constant table, or too few rows; debiased, also when an estimate of HSIC is not positive.
    InputError
        Different numbers of rows.

    Notes
    -----
    O(n·dx·dy), no n × n matrix. The biased number is 0.2 at 32 rows of independent data.

    References
    ----------
    Kornblith et al. 2019, equation 5; Song et al. 2012, Feature selection via dependence maximization, equation 5.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.arange(12.0).reshape(4, 3) ** 2
    >>> round(linear_cka(x, 5 * x[:, ::-1] + 1), 6)
    1.0
    """
    x, y = _check.pair(x, y, "linear_cka", rows=4 if debiased else 2, same_dim=False)
    x, y = _centered(x, "linear_cka"), _centered(y, "linear_cka")
    if not debiased:
        return cka_from_moments(x.T @ y, x.T @ x, y.T @ y)
    own, other = _hsic(x, x), _hsic(y, y)
    if min(own, other) <= 1e-14:
        raise UndefinedMeasureError(
            f"linear_cka needs more rows to be debiased; got {len(x)}: the estimate of HSIC is not positive."
        )
    return float(_hsic(x, y) / math.sqrt(own * other))


def _hsic(x: Float[Array, "n dim_x"], y: Float[Array, "n dim_y"]) -> float:
    """Unbiased HSIC of two centered tables, up to the factor 1/(n(n - 3)), from their columns and row norms."""
    n = len(x)
    x_norms, y_norms = np.vecdot(x, x), np.vecdot(y, y)
    both = float(np.vecdot(x_norms, y_norms))
    trace = float(np.sum((x.T @ y) ** 2)) - both
    return trace + float(x_norms.sum() * y_norms.sum()) / ((n - 1) * (n - 2)) - 2 * both / (n - 2)


def procrustes_from_moments(cross: Any, x_square: float, y_square: float) -> float:
    """Procrustes distance from the centered cross-product, as a one-pass summary keeps it.

    ``1 - (‖XᵀY‖_* / (‖X‖_F·‖Y‖_F))²``.

    Parameters
    ----------
    cross
        Centered cross-product ``(dx, dy)``.
    x_square, y_square
        Squared Frobenius norms of the centered tables (traces of their scatters).

    Returns
    -------
    float
        In ``[0, 1]``, as in :func:`procrustes_distance`.

    Raises
    ------
    UndefinedMeasureError
        One of the tables is constant.

    Notes
    -----
    O(dim³).

    References
    ----------
    Schönemann 1966, A generalized solution of the orthogonal Procrustes problem.

    Examples
    --------
    >>> import numpy as np
    >>> round(procrustes_from_moments(np.eye(2), 2.0, 2.0), 12)
    0.0
    """
    if not (x_square > 0 and y_square > 0):
        raise UndefinedMeasureError("procrustes_distance needs rows that differ from each other; got a constant table.")
    cross = _check.table(cross, "procrustes_distance", rows=1)
    share = float(np.linalg.svd(cross / math.sqrt(x_square) / math.sqrt(y_square), compute_uv=False).sum())
    return max(0.0, 1 - share * share)


def procrustes_distance(x: Any, y: Any) -> float:
    """What is left between two tables after the best shift, scale and rotation.

    ``min ‖X - s·Y·Q‖_F²`` over s and orthogonal Q, both centered and at unit Frobenius norm.

    Parameters
    ----------
    x, y
        Tables ``(n, dx)`` and ``(n, dy)`` with the same rows.

    Returns
    -------
    float
        In ``[0, 1]``: 0 when the tables agree up to shift, scale and rotation (reflections included). Invariant to
        rotation, scale and translation of either.

    Raises
    ------
    UndefinedMeasureError
        A constant table, or fewer than two rows.
    InputError
        Different numbers of rows.

    Notes
    -----
    O(n·dx·dy + dim³). Equivalent: ``scipy.spatial.procrustes(x, y)[2]``.

    References
    ----------
    Schönemann 1966; Ding, Denain and Steinhardt 2021, Grounding representation similarity, section 2.

    Examples
    --------
    >>> x = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]
    >>> round(procrustes_distance(x, [[3 - b, 3 + a] for a, b in x]), 12)
    0.0
    """
    x, y = _check.pair(x, y, "procrustes_distance", same_dim=False)
    x, y = _centered(x, "procrustes_distance"), _centered(y, "procrustes_distance")
    return procrustes_from_moments(x.T @ y, 1.0, 1.0)


def principal_angles(x: Any, y: Any, k: int = 10, *, center: bool = True) -> Float[Array, " k"]:
    """Angles between the subspaces that the k strongest directions of two tables span.

    ``cos θ_j`` are the singular values of ``V_xᵀ V_y``, V the first k right singular vectors.

    Parameters
    ----------
    x, y
        Tables ``(n, dim)`` and ``(m, dim)``; rows need not be aligned.
    k
        Dimension of the subspaces, at most the rank of both.
    center
        Take the principal axes of the centered tables.

    Returns
    -------
    array of shape ``(k,)``
        In ``[0, π/2]`` radians, ascending: all 0 when the subspaces agree. Invariant to scale, and to a common
        rotation.

    Raises
    ------
    UndefinedMeasureError
        A table of rank less than k: its subspace is not determined.
    InputError
        k < 1, or different dims.

    Notes
    -----
    O(n·dim²). Small angles by their sines. Two singular values that nearly agree at position k make the subspace
    arbitrary. Equivalent: ``scipy.linalg.subspace_angles(V_x, V_y)[::-1]``.

    References
    ----------
    Björck and Golub 1973, Numerical methods for computing angles between linear subspaces.

    Examples
    --------
    >>> principal_angles([[1.0, 0.0], [-1.0, 0.0]], [[0.0, 1.0], [0.0, -1.0]], k=1).round(4).tolist()
    [1.5708]
    """
    x, y = _check.pair(x, y, "principal_angles", rows=1, aligned=False)
    if k < 1:
        raise InputError(f"principal_angles needs k ≥ 1; got {k}.")
    a, b = (_basis(each, k, center) for each in (x, y))
    cosines = np.clip(np.linalg.svd(a @ b.T, compute_uv=False), 0, 1)
    sines = np.clip(np.linalg.svd(b - (b @ a.T) @ a, compute_uv=False), 0, 1)[::-1]
    return np.where(cosines**2 < 0.5, np.arccos(cosines), np.arcsin(sines))


def _basis(x: Float[Array, "n dim"], k: int, center: bool) -> Float[Array, "k dim"]:
    largest = np.abs(x).max()
    x = x / largest if largest > 0 else x
    x = x - x.mean(axis=0) if center else x
    _, values, axes = np.linalg.svd(x, full_matrices=False)
    rank = int((values > values[0] * _check.resolution("float64", *x.shape)).sum()) if values[0] > 0 else 0
    if rank < k:
        raise UndefinedMeasureError(
            f"principal_angles needs tables of rank k={k} or more; got rank {rank}. Take a smaller k."
        )
    return axes[:k]


def row_displacement(x: Any, y: Any) -> Float[Array, " n"]:
    """How far each row has moved, relative to the typical length of a row before.

    ``‖y_i - x_i‖ / √(mean_j ‖x_j‖²)``.

    Parameters
    ----------
    x, y
        Tables ``(n, dim)`` before and after, with the same rows.

    Returns
    -------
    array of shape ``(n,)``
        In ``[0, ∞)``: 0 for rows that did not move. Invariant to a common scale and rotation.

    Raises
    ------
    UndefinedMeasureError
        The table before is all zeros.
    InputError
        Different shapes.

    Notes
    -----
    O(n·dim). The root mean square and not ‖x_i‖, so that a row that was near zero does not explode.

    References
    ----------
    Own definition.

    Examples
    --------
    >>> row_displacement([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 3.0]]).tolist()
    [0.0, 2.0]
    """
    x, y = _check.pair(x, y, "row_displacement", rows=1)
    largest = max(float(np.abs(x).max()), float(np.abs(y).max()))
    if not x.any():
        raise UndefinedMeasureError(f"row_displacement needs a first table that is not zero; got {len(x)} zero rows.")
    x, y = x / largest, y / largest
    away = y - x
    return np.sqrt(np.vecdot(away, away) / np.vecdot(x, x).mean())


def row_cosine(x: Any, y: Any) -> Float[Array, " n"]:
    """Cosine between each row before and after.

    ``cos(x_i, y_i)``.

    Parameters
    ----------
    x, y
        Tables ``(n, dim)`` before and after, with the same rows.

    Returns
    -------
    array of shape ``(n,)``
        In ``[-1, 1]``: 1 for rows that kept their direction. Invariant to the scale of each row and to a common
        rotation.

    Raises
    ------
    UndefinedMeasureError
        A zero row in either table.
    InputError
        Different shapes.

    Notes
    -----
    O(n·dim). As 1 - ‖u - v‖²/2, exact for small turns.

    References
    ----------
    Salton 1975 (cosine similarity).

    Examples
    --------
    >>> row_cosine([[1.0, 0.0]], [[0.0, 5.0]]).round(6).tolist()
    [0.0]
    """
    x, y = _check.pair(x, y, "row_cosine", rows=1)
    u, v = _check.unit_rows(x, "row_cosine"), _check.unit_rows(y, "row_cosine")
    if len(u) < len(x) or len(v) < len(y):
        raise UndefinedMeasureError(
            f"row_cosine needs rows that are not zero; got {2 * len(x) - len(u) - len(v)} zero rows. Leave them out."
        )
    away = u - v
    return np.maximum(-1.0, 1 - np.vecdot(away, away) / 2)


def neighbor_overlap(x: Any, y: Any, k: int = 10, *, metric: str = "cosine") -> float:
    """Share of the k nearest neighbors that a row keeps.

    ``mean_i |N_k^x(i) ∩ N_k^y(i)| / k``.

    Parameters
    ----------
    x, y
        Tables ``(n, dx)`` and ``(n, dy)`` with the same rows: a sample, as time grows with n².
    k, metric
        As in :func:`nearest_neighbors`.

    Returns
    -------
    float
        In ``[0, 1]``: 1 when every row keeps its neighbors, about k/(n - 1) by chance. Invariant to rotation and scale
        of either.

    Raises
    ------
    UndefinedMeasureError
        Not more than k rows, all rows equal, or a zero row with the cosine.
    InputError
        Different numbers of rows.

    Notes
    -----
    O(n²·dim). Depends on n and k.

    References
    ----------
    Wendlandt, Kummerfeld and Mihalcea 2018, Factors influencing the surprising instability of word embeddings, section
    3.

    Examples
    --------
    >>> x = [[0.0, 1.0], [1.0, 1.0], [1.0, 0.0], [-1.0, 0.5]]
    >>> neighbor_overlap(x, x, k=2)
    1.0
    """
    x, y = _check.pair(x, y, "neighbor_overlap", same_dim=False)
    first, second = nearest_neighbors(x, k, metric), nearest_neighbors(y, k, metric)
    if len(first.kept) < len(x) or len(second.kept) < len(y):
        raise UndefinedMeasureError(
            "neighbor_overlap needs rows that are not zero with the cosine; leave them out of both tables."
        )
    return float((first.indices[:, :, None] == second.indices[:, None, :]).any(axis=2).mean())
