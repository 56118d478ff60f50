"""Every column bent until its values are normal."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError
from fullspan.normalize.base import Normalizer
from fullspan.normalize.facts import Facts
from fullspan.normalize.stages import Curve

__all__ = ["QuantileNormal"]


class QuantileNormal(Normalizer):
    """Map the quantiles of every column to those of the normal distribution.

    Parameters
    ----------
    points
        Quantiles that are kept of every column; the map is a straight line between two of them.
    zero_rows, nan_rows
        Policy for rows of zeros and rows with NaN or infinity: ``"error"``, ``"skip"`` or ``"keep"``.

    Attributes
    ----------
    quantiles_
        ``(points, dim)`` quantiles of every column.

    Notes
    -----
    One pass. Not affine: it folds into nothing, and costs a search a value. Values outside the range of the fit
    become the ends, about ±3.3 with 1,000 points. Of equal values in a column, all become the middle of their range.

    Examples
    --------
    >>> import numpy as np
    >>> E = np.exp(np.random.default_rng(0).normal(size=(2000, 1)))
    >>> made = QuantileNormal().fit_transform(E)
    >>> bool(abs(made.mean()) < 0.01), bool(abs(made.std() - 1) < 0.02)
    (True, True)
    """

    _needs: ClassVar = ("quantiles",)
    quantiles_: Array

    def __init__(self, points: int = 1000, *, zero_rows: str = "keep", nan_rows: str = "error") -> None:
        self.points, self.zero_rows, self.nan_rows = points, zero_rows, nan_rows

    def _check_parameters(self) -> None:
        if isinstance(self.points, bool) or not isinstance(self.points, (int, np.integer)) or self.points < 3:
            raise InputError(f"QuantileNormal needs at least 3 points; got {self.points!r}.")

    def _learn(self, facts: Facts | None, dim: int) -> None:
        assert facts is not None
        shares = np.linspace(0.0, 1.0, self.points)
        self.quantiles_ = facts.quantile(shares)
        half = 0.5 / self.points
        scores = normal_quantiles(np.clip(shares, half, 1.0 - half))
        self._stages = (Curve(self.quantiles_, scores),)


def normal_quantiles(shares: Array) -> Array:
    """Quantiles of the standard normal distribution."""
    from statistics import NormalDist

    normal = NormalDist()
    return np.array([normal.inv_cdf(float(share)) for share in shares])
