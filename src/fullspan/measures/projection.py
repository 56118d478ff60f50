"""Flat maps of a table: principal axes, alignment of one map to another, and how far a map can be believed.

A map of two dimensions drops most of what a table holds. :func:`neighbor_preservation`, :func:`trustworthiness` and
:func:`continuity` say how much of the neighborhoods is left, :func:`map_displacement` how far points have jumped
between two frames.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check

if TYPE_CHECKING:
    from jaxtyping import Float, Int

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

#: Numbers in one block of squared distances: 8 MB.
_BLOCK = 2**20


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


def chance_preservation(n_rows: int, k: int = 10) -> float:
    """Neighbor preservation of a map that knows nothing of the table.

    ``k / (n - 1)``.

    Parameters
    ----------
    n_rows, k
        Rows on the map, and neighbors of each.

    Returns
    -------
    float
        In ``(0, 1]``.

    Raises
    ------
    InputError
        k < 1, or not more than k rows.

    Notes
    -----
    Exact: k of the other n - 1 rows, drawn without regard to the k true ones, hit k²/(n - 1) of them on average.

    References
    ----------
    Lee and Verleysen 2009, Quality assessment of dimensionality reduction, section 4.

    Examples
    --------
    >>> chance_preservation(101, 10)
    0.1
    """
    if not 1 <= k < n_rows:
        raise InputError(f"chance_preservation needs 1 ≤ k < n_rows; got k={k} and n_rows={n_rows}.")
    return k / (n_rows - 1)


def neighbor_preservation(
    E: Any, positions: Any, k: int = 10, *, metric: str = "euclidean", queries: int | None = None, seed: int = 0
) -> float:
    """Share of the k nearest neighbors in a table that are among the k nearest on its map.

    ``mean_i |N_k^E(i) ∩ N_k^map(i)| / k``.

    Parameters
    ----------
    E
        Table ``(n, dim)``.
    positions
        Its map ``(n, dims)``, row by row.
    k
        Number of neighbors.
    metric
        ``"euclidean"`` or ``"cosine"``: how neighbors in the table are chosen. On the map always Euclidean.
    queries
        How many rows to ask for their neighbors (among all rows), a seeded choice; None asks all.
    seed
        Seed of that choice.

    Returns
    -------
    float
        In ``[0, 1]``: 1 when every neighborhood survives, ``k/(n - 1)`` by chance (:func:`chance_preservation`).
        Invariant to rotation, scale and translation of the map, and of the table for the Euclidean metric.

    Raises
    ------
    UndefinedMeasureError
        Not more than k rows, all rows equal, or a zero row with the cosine.
    InputError
        k < 1, different numbers of rows, or an unknown metric.

    Notes
    -----
    O(queries·n·dim) time, 16 MB. A row as near as the k-th neighbor in the table counts as one, so that copies cost
    nothing. With 1,000 queries the standard error is about 0.01. Few rows of ten dimensions and more keep their
    neighbors in the plane: read the value against chance and against other frames, not against 1.

    References
    ----------
    Lee and Verleysen 2009, Quality assessment of dimensionality reduction, section 4 (Q_NX); Venna et al. 2010.

    Examples
    --------
    >>> line = [[0.0, 0.0], [1.0, 1.0], [3.0, 3.0], [6.0, 6.0]]
    >>> neighbor_preservation(line, [[0.0], [1.0], [3.0], [6.0]], k=1)
    1.0
    """
    call = "neighbor_preservation"
    table, flat = _points(E, positions, k, metric, call)
    asked = _asked(len(table), queries, seed, call)
    hits = 0
    for far, near in _distance_blocks(table, flat, asked):
        border = np.partition(far, k - 1, axis=1)[:, k - 1 : k]
        found = np.argpartition(near, k - 1, axis=1)[:, :k]
        hits += int((np.take_along_axis(far, found, 1) <= border + 1e-12).sum())
    return hits / (len(asked) * k)


def trustworthiness(
    E: Any, positions: Any, k: int = 10, *, metric: str = "euclidean", queries: int | None = None, seed: int = 0
) -> float:
    """How far the neighbors seen on a map are neighbors in the table: false neighbors cost by their rank.

    ``1 - 2/(n·k·(2n - 3k - 1)) Σ_i Σ_{j ∈ N_k^map(i)} max(0, r(i, j) - k)``, r the rank of j among the neighbors of i
    in the table.

    Parameters
    ----------
    E, positions, k, metric, queries, seed
        As in :func:`neighbor_preservation`; ``k < n/2``.

    Returns
    -------
    float
        In ``[0, 1]``: 1 when no row looks nearer than it is, about 0.5 by chance. Invariant as
        :func:`neighbor_preservation`.

    Raises
    ------
    UndefinedMeasureError
        As in :func:`neighbor_preservation`.
    InputError
        As there, or k ≥ n/2.

    Notes
    -----
    O(queries·n·(dim + k)) time. A rank counts the rows that are strictly nearer, plus one. Equivalent:
    ``sklearn.manifold.trustworthiness(E, positions, n_neighbors=k)``.

    References
    ----------
    Venna and Kaski 2001, Neighborhood preservation in nonlinear projection methods, equation 1.

    Examples
    --------
    >>> line = [[0.0], [1.0], [3.0], [6.0], [10.0]]
    >>> trustworthiness(line, line, k=1)
    1.0
    """
    call = "trustworthiness"
    table, flat = _points(E, positions, k, metric, call)
    return 1 - _excess(table, flat, k, _asked(len(table), queries, seed, call), call)


def continuity(
    E: Any, positions: Any, k: int = 10, *, metric: str = "euclidean", queries: int | None = None, seed: int = 0
) -> float:
    """How far the neighbors in the table stay neighbors on the map: torn neighborhoods cost by their rank.

    :func:`trustworthiness` with the two spaces exchanged.

    Parameters
    ----------
    E, positions, k, metric, queries, seed
        As in :func:`trustworthiness`.

    Returns
    -------
    float
        In ``[0, 1]``: 1 when no neighborhood is torn, about 0.5 by chance.

    Raises
    ------
    UndefinedMeasureError, InputError
        As in :func:`trustworthiness`.

    Notes
    -----
    As :func:`trustworthiness`.

    References
    ----------
    Venna and Kaski 2001, Neighborhood preservation in nonlinear projection methods, equation 2.

    Examples
    --------
    >>> line = [[0.0], [1.0], [3.0], [6.0], [10.0]]
    >>> continuity(line, line, k=1)
    1.0
    """
    call = "continuity"
    table, flat = _points(E, positions, k, metric, call)
    return 1 - _excess(flat, table, k, _asked(len(table), queries, seed, call), call)


def _points(E: Any, positions: Any, k: int, metric: str, call: str) -> tuple[Array, Array]:
    """Table and map, centered and at a scale where rounding of distances is below 1e-12."""
    _check.one_of(metric, ("euclidean", "cosine"), call, "metric")
    if k < 1:
        raise InputError(f"{call} needs k ≥ 1; got {k}.")
    table, flat = _check.pair(E, positions, call, rows=1, same_dim=False)
    if len(table) <= k:
        raise UndefinedMeasureError(f"{call} needs more than k={k} rows; got {len(table)}. Take a smaller k.")
    if metric == "cosine":
        n_zero = len(table) - int(table.any(axis=1).sum())
        if n_zero:
            raise UndefinedMeasureError(f"{call} needs rows that are not zero with the cosine; got {n_zero} zero rows.")
        table = _check.unit_rows(table, call)
    return _scaled(table, call, "in the table"), _scaled(flat, call, "on the map")


def _scaled(points: Float[Array, "n dim"], call: str, where: str) -> Float[Array, "n dim"]:
    centered = points - points.mean(axis=0)
    size = float(np.abs(centered).max())
    if size == 0 or not np.ptp(points, axis=0).any():
        raise UndefinedMeasureError(f"{call} needs rows that differ {where}; got {len(points)} equal rows.")
    centered /= size
    return centered / float(np.sqrt(np.vecdot(centered, centered).max()))


def _asked(n_rows: int, queries: int | None, seed: int, call: str) -> Int[Array, " q"]:
    if queries is None or queries >= n_rows:
        return np.arange(n_rows)
    if queries < 1:
        raise InputError(f"{call} needs queries ≥ 1; got {queries}.")
    return np.sort(np.random.default_rng(seed).choice(n_rows, queries, replace=False))


def _distance_blocks(
    table: Float[Array, "n dim"], flat: Float[Array, "n dims"], asked: Int[Array, " q"]
) -> Iterator[tuple[Array, Array]]:
    """Blocks of query rows with their squared distances to all rows in both spaces; infinite to themselves."""
    for part in _check.row_blocks(len(asked), len(table), _BLOCK):
        rows = asked[part]
        yield _squared(table, rows), _squared(flat, rows)


def _squared(points: Float[Array, "n dim"], rows: Int[Array, " block"]) -> Float[Array, "block n"]:
    squares = np.vecdot(points, points)
    gaps = squares[rows, None] + squares - 2 * points[rows] @ points.T
    np.maximum(gaps, 0.0, out=gaps)
    gaps[np.arange(len(rows)), rows] = np.inf
    return gaps


def _excess(true: Float[Array, "n a"], seen: Float[Array, "n b"], k: int, asked: Int[Array, " q"], call: str) -> float:
    """How far the neighbors in `seen` rank past k in `true`, as a share of the worst case."""
    n = len(true)
    if 2 * k >= n:
        raise InputError(f"{call} needs k < n/2; got k={k} and {n} rows.")
    total = 0
    for far, near in _distance_blocks(true, seen, asked):
        found = np.argpartition(near, k - 1, axis=1)[:, :k]
        for j in range(k):
            rank = 1 + (far < np.take_along_axis(far, found[:, j : j + 1], 1) - 1e-12).sum(axis=1)
            total += int(np.maximum(rank - k, 0).sum())
    return 2 * total / (len(asked) * k * (2 * n - 3 * k - 1))
