"""Unit norm: every row divided by its length."""

from __future__ import annotations

from typing import Any

from fullspan.normalize.base import Normalizer
from fullspan.normalize.facts import Facts
from fullspan.normalize.stages import Unit

__all__ = ["UnitNorm"]


class UnitNorm(Normalizer):
    """Divide every row by its Euclidean norm (L2).

    Parameters
    ----------
    zero_rows
        A row of zeros has no direction: ``"keep"`` and ``"skip"`` leave it as it is, ``"error"`` refuses it.
    nan_rows
        Policy for rows with NaN or infinity: ``"error"``, ``"skip"`` or ``"keep"``.

    Notes
    -----
    Nothing is fitted. Safe from overflow and underflow: a block with a norm outside 1e-15 to 1e15 is divided by the
    largest value of each row first, so that rows of 1e20 and of 1e-25 have norm one, and float16 rows of norm 300 too.
    After this, dot product, cosine and (reversed) Euclidean distance rank neighbors alike.

    Examples
    --------
    >>> import numpy as np
    >>> UnitNorm().fit_transform(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """

    _stateless = True

    def __init__(self, *, zero_rows: str = "keep", nan_rows: str = "error") -> None:
        self.zero_rows, self.nan_rows = zero_rows, nan_rows

    def _learn(self, facts: Facts | None, dim: int) -> None:
        self._stages = (Unit(),)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags
