"""Flat maps of a table: principal axes, alignment of one map to another, and how far a map can be believed.

A map of two dimensions drops most of what a table holds. :func:`neighbor_preservation`, :func:`trustworthiness` and
:func:`continuity` say how much of the neighborhoods is left, :func:`map_displacement` how far points have jumped
between two frames.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check
from fullspan.measures.map_quality import chance_preservation, continuity, neighbor_preservation, trustworthiness

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = [
    "MapBasis",
    "chance_preservation",
    "continuity",
    "map_displacement",
    "neighbor_preservation",
    "pca_basis",
    "pca_map",
    "procrustes_align",
    "trustworthiness",
]


@dataclass(frozen=True, eq=False)
class MapBasis:
    """The plane that a table is projected to: several tables on one basis share their axes.

    Parameters
    ----------
    mean
        ``(dim,)`` the row that lands at the origin.
    axes
        ``(dims, dim)`` orthonormal rows, strongest first; the entry of largest size in each is positive.
    shares
        ``(dims,)`` share of the total variance along each axis, in ``[0, 1]``.
    """

    mean: Array
    axes: Array
    shares: Array

    def __call__(self, E: Any) -> Float[Array, "n dims"]:
        """Positions ``(n, dims)`` of the rows of a table on this basis."""
        table = _check.table(E, "pca_map")
        if table.shape[1] != len(self.mean):
            raise InputError(f"pca_map needs a table of dim {len(self.mean)}, as its basis; got {table.shape[1]}.")
        return (table - self.mean) @ self.axes.T


def pca_basis(E: Any, dims: int = 2) -> MapBasis:
    """The principal axes of a table, with signs that do not depend on the solver.

    Eigenvectors of ``(E - μ)ᵀ(E - μ)``, each turned so that its entry of largest size is positive.

    Parameters
    ----------
    E
        Table ``(n, dim)``.
    dims
        Number of axes; those past the rank of the table are zero.

    Returns
    -------
    MapBasis
        Mean, axes and their shares of the variance (all 0 for a table of equal rows).

    Raises
    ------
    InputError
        dims < 1, or values that are not finite.

    Notes
    -----
    O(n·dim·min(n, dim)): milliseconds at 10,000 × 64. Where two eigenvalues agree the axes are arbitrary within
    their plane: align maps with :func:`procrustes_align` before they are compared.

    References
    ----------
    Pearson 1901; the rule for signs is that of scikit-learn's ``PCA``.

    Examples
    --------
    >>> pca_basis([[0.0, 0.0], [0.0, 2.0], [0.0, 4.0]], dims=1).axes.tolist()
    [[0.0, 1.0]]
    """
    if dims < 1:
        raise InputError(f"pca_basis needs dims ≥ 1; got {dims}.")
    table = _check.table(E, "pca_basis")
    mean = table.mean(axis=0)
    centered = table - mean
    scale = float(np.abs(centered).max())
    if scale > 0:
        centered /= scale
    values, axes = _principal(centered)
    total = float(values.sum())
    shares, kept = np.zeros(dims), np.zeros((dims, table.shape[1]))
    usable = min(dims, int((values > 1e-14 * max(total, 1e-300)).sum()))
    kept[:usable] = _signed(axes[:usable])
    if usable:
        shares[:usable] = values[:usable] / total
    return MapBasis(mean, kept, shares)


def _principal(centered: Float[Array, "n dim"]) -> tuple[Array, Array]:
    """Eigenvalues of the scatter, largest first, with eigenvectors as rows; by the smaller of the two Gram matrices."""
    n, dim = centered.shape
    if n >= dim:
        values, vectors = np.linalg.eigh(centered.T @ centered)
        return np.maximum(values[::-1], 0.0), vectors[:, ::-1].T
    _, values, axes = np.linalg.svd(centered, full_matrices=False)
    return values**2, axes


def _signed(axes: Float[Array, "dims dim"]) -> Float[Array, "dims dim"]:
    size = np.round(np.abs(axes), 9)  # a tie in size must not be settled by rounding
    strongest = np.take_along_axis(axes, size.argmax(axis=1)[:, None], 1)
    return axes * np.where(strongest < 0, -1.0, 1.0)


def pca_map(E: Any, dims: int = 2, *, basis: MapBasis | None = None) -> Float[Array, "n dims"]:
    """Positions of the rows along the principal axes of their table, or along given axes.

    ``(E - μ) Vᵀ``, V the strongest axes.

    Parameters
    ----------
    E
        Table ``(n, dim)``.
    dims
        Dimensions of the map; ignored when `basis` is given.
    basis
        Axes of another table, from :func:`pca_basis`: maps on one basis can be laid over each other as they are.

    Returns
    -------
    array of shape ``(n, dims)``
        In the units of the table, centered at its mean (on a given basis: at the mean of that). Columns past the
        rank are zero. Invariant to translation and, up to the signs of its axes, to rotation.

    Raises
    ------
    InputError
        dims < 1, values that are not finite, or a basis of another dim.

    Notes
    -----
    O(n·dim·min(n, dim)). Equivalent: ``sklearn.decomposition.PCA(dims).fit_transform(E)`` up to the signs of the axes.

    References
    ----------
    Pearson 1901.

    Examples
    --------
    >>> pca_map([[0.0, 0.0], [0.0, 2.0], [0.0, 4.0]]).round(6).tolist()
    [[-2.0, 0.0], [0.0, 0.0], [2.0, 0.0]]
    """
    return (basis or pca_basis(E, dims))(E)


def procrustes_align(
    positions: Any,
    reference: Any,
    *,
    scale: bool = False,
    shift: bool = True,
    anchors: Any = None,
) -> Float[Array, "n dims"]:
    """Turn, mirror and shift a map so that it lies as near as possible to another of the same rows.

    ``X Q·s + b`` with the orthogonal Q (and shift b, and scale s) of least ``‖X Q·s + b - Y‖_F``.

    Parameters
    ----------
    positions, reference
        Maps ``(n, dims)`` with the same rows.
    scale
        Also choose one common factor. Without it distances within the map stay as they are.
    shift
        Also choose a translation.
    anchors
        Mask or positions of the rows that Q, s and b are chosen from; None takes all. All rows are moved.

    Returns
    -------
    array of shape ``(n, dims)``
        The moved map. Reflections are allowed. Aligning again changes nothing.

    Raises
    ------
    InputError
        Maps of different shapes, or no anchors.

    Notes
    -----
    O(n·dims²). A map whose rows are all equal is shifted only. Equivalent:
    ``X @ scipy.linalg.orthogonal_procrustes(X, Y)[0]`` without shift.

    References
    ----------
    Schönemann 1966, A generalized solution of the orthogonal Procrustes problem.

    Examples
    --------
    >>> square = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 2.0]]
    >>> turned = [[5 - y, x] for x, y in square]
    >>> procrustes_align(turned, square).round(6).tolist()
    [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 2.0]]
    """
    x, y = _check.pair(positions, reference, "procrustes_align", rows=1)
    chosen = slice(None) if anchors is None else np.asarray(anchors)
    a, b = x[chosen], y[chosen]
    if not len(a):
        raise InputError("procrustes_align needs at least one anchor row; got none.")
    zero = np.zeros(x.shape[1])
    from_, to = (a.mean(axis=0), b.mean(axis=0)) if shift else (zero, zero)
    a, b = a - from_, b - to
    left, values, right = np.linalg.svd(a.T @ b)
    turn = left @ right if values[0] > 0 else np.eye(len(zero))
    square = float(np.sum(a * a))
    factor = float(values.sum()) / square if scale and square > 0 and values[0] > 0 else 1.0
    return (x - from_) @ turn * factor + to


def map_displacement(positions: Any, reference: Any) -> float:
    """Median distance that a row has moved between two maps, relative to the spread of the second.

    ``median_i ‖x_i - y_i‖ / √(mean_i ‖y_i - ȳ‖²)``.

    Parameters
    ----------
    positions, reference
        Maps ``(n, dims)`` with the same rows, already aligned.

    Returns
    -------
    float
        In ``[0, ∞)``: 0 when at least half of the rows stay in place, about 1.2 between two unrelated maps of equal
        spread in the plane. Invariant to a common rotation, scale and translation.

    Raises
    ------
    UndefinedMeasureError
        All rows of the reference are equal.
    InputError
        Maps of different shapes.

    Notes
    -----
    O(n·dims). Between frames of an animation: what the eye has to follow.

    References
    ----------
    Own definition.

    Examples
    --------
    >>> map_displacement([[0.0], [0.0], [4.0]], [[0.0], [2.0], [4.0]])
    0.0
    """
    x, y = _check.pair(positions, reference, "map_displacement", rows=1)
    away = y - y.mean(axis=0)
    spread = float(np.sqrt(np.vecdot(away, away).mean()))
    if spread == 0:
        raise UndefinedMeasureError(f"map_displacement needs rows that differ on the map; got {len(x)} equal rows.")
    step = x - y
    return float(np.median(np.sqrt(np.vecdot(step, step))) / spread)
