"""How far a flat map of a table can be believed: which neighborhoods survive, and which rows only look near."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check

if TYPE_CHECKING:
    from jaxtyping import Float, Int

__all__ = ["chance_preservation", "continuity", "neighbor_preservation", "trustworthiness"]

#: Numbers in one block of squared distances: 8 MB.
_BLOCK = 2**20


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
