"""The rows that are most alike: exact search by blocks of a matrix product."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fullspan._typing import Array

__all__ = ["alike", "best", "paired"]

_BLOCK_VALUES = 1 << 22


def alike(queries: Array, rows: Array, metric: str) -> Array:
    """``(queries, rows)`` scores, the higher the more alike; a distance is taken as its negative square, but for a
    term that is the same for all rows of a query."""
    made = queries @ rows.T
    if metric == "euclidean":
        made *= 2.0
        made -= np.vecdot(rows, rows)
    return made


def paired(first: Array, second: Array, metric: str) -> Array:
    """Scores of pairs of rows, float64."""
    first, second = first.astype(np.float64), second.astype(np.float64)
    if metric == "euclidean":
        apart = first - second
        return -np.sqrt(np.vecdot(apart, apart))
    return np.vecdot(first, second)


def best(
    queries: Array, rows: Array, k: int, metric: str, leave_out: Callable[[Array, int], None] | None = None
) -> tuple[Array, Array]:
    """Positions and scores of the `k` rows most alike each query, the best first; of equals the earlier.

    Parameters
    ----------
    queries, rows
        ``(q, dim)`` and ``(n, dim)``.
    k
        How many, at most n.
    metric
        ``"euclidean"``, or anything else for dot products.
    leave_out
        Called with a block of scores and the position of its first query, to set scores to ``-inf``.
    """
    k = min(k, len(rows))
    step = max(1, _BLOCK_VALUES // max(len(rows), 1))
    places, scores = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), queries.dtype)
    for start in range(0, len(queries), step):
        block = alike(queries[start : start + step], rows, metric)
        if leave_out is not None:
            leave_out(block, start)
        some = (
            np.argpartition(-block, k - 1, axis=1)[:, :k] if k < len(rows) else np.tile(np.arange(k), (len(block), 1))
        )
        some.sort(axis=1)
        found = np.take_along_axis(block, some, axis=1)
        order = np.argsort(-found, axis=1, kind="stable")
        places[start : start + len(block)] = np.take_along_axis(some, order, axis=1)
        scores[start : start + len(block)] = np.take_along_axis(found, order, axis=1)
    return places, scores
