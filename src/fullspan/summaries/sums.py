"""Sums down the columns of float32 rows that hardly depend on how the rows were cut into blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fullspan._typing import Array

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["column_sums"]

#: Rows that are added in float32: their rounding, some 6e-8 of each sum, averages out over the rest.
_TOGETHER = 16


def column_sums(rows: Float[Array, "n k"], weights: Float[Array, " n"] | None = None) -> Float[Array, " k"]:
    """``(k,)`` float64 sums of float32 rows, each times its weight: a few rows in float32, all of these in float64.

    Parameters
    ----------
    rows
        ``(n, k)`` float32, in C order.
    weights
        ``(n,)`` float32; None for ones.

    Notes
    -----
    Relative rounding about ``6e-8 / sqrt(n / 16)``. Costs two to three times a product with a vector in float32, a
    fourth of one in float64.

    Examples
    --------
    >>> column_sums(np.ones((20, 2), dtype=np.float32)).tolist()
    [20.0, 20.0]
    """
    if weights is None:
        weights = np.ones(len(rows), dtype=rows.dtype)
    whole = len(rows) // _TOGETHER * _TOGETHER
    few = weights[:whole].reshape(-1, 1, _TOGETHER) @ rows[:whole].reshape(-1, _TOGETHER, rows.shape[1])
    rest = weights[whole:].astype(np.float64) @ rows[whole:].astype(np.float64)
    return np.add.reduce(few, axis=(0, 1), dtype=np.float64) + rest
