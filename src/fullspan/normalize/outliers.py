"""Outliers: values clipped to a range of their column, and whole rows far from the mean."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from fullspan._backend import is_torch_tensor, tensor_to_numpy
from fullspan._typing import Array
from fullspan.errors import InputError
from fullspan.normalize._spectral import Spectrum
from fullspan.normalize.affine import Affine
from fullspan.normalize.base import Normalizer
from fullspan.normalize.facts import Facts
from fullspan.normalize.stages import ClipTo, Pull

__all__ = ["Clip", "Outliers"]

_METHODS = ("sigma", "mad", "quantile")
#: The median absolute deviation of a normal distribution is its standard deviation divided by this.
_MAD = 1.482602218505602
_GRID = 2049


class Clip(Normalizer):
    """Clip every column to a range (winsorize).

    Parameters
    ----------
    limit
        For ``"sigma"`` and ``"mad"``: half the range in deviations. For ``"quantile"``: the share that is clipped on
        either side, below 0.5.
    method
        ``"sigma"``: around the mean, in standard deviations. ``"mad"``: around the median, in median absolute
        deviations times 1.4826 (a standard deviation of normal values). ``"quantile"``: between two quantiles.
    zero_rows, nan_rows
        Policy for rows of zeros and rows with NaN or infinity: ``"error"``, ``"skip"`` or ``"keep"``.

    Attributes
    ----------
    low_, high_
        ``(dim,)`` range of every column. A column whose deviation is zero is not clipped.

    Notes
    -----
    One pass. Not affine: a chain that fits something else behind it reads the table once more.

    Examples
    --------
    >>> import numpy as np
    >>> E = np.array([[1.0], [2.0], [3.0], [4.0], [500.0]])
    >>> Clip(3, "mad").fit_transform(E)[:, 0].round(2).tolist()
    [1.0, 2.0, 3.0, 4.0, 7.45]
    """

    low_: Array
    high_: Array

    def __init__(
        self, limit: float = 3.0, method: str = "sigma", *, zero_rows: str = "keep", nan_rows: str = "error"
    ) -> None:
        self.limit, self.method, self.zero_rows, self.nan_rows = limit, method, zero_rows, nan_rows

    def needs(self) -> tuple[str, ...]:
        return ("mean", "variance") if self.method == "sigma" else ("quantiles",)

    def _check_parameters(self) -> None:
        if self.method not in _METHODS:
            raise InputError(f"Clip needs method to be one of {', '.join(_METHODS)}; got {self.method!r}.")
        if not 0.0 < self.limit < (0.5 if self.method == "quantile" else math.inf):
            wanted = "a share between 0 and 0.5" if self.method == "quantile" else "a positive number of deviations"
            raise InputError(f"Clip with method='{self.method}' needs a limit as {wanted}; got {self.limit}.")

    def _learn(self, facts: Facts | None, dim: int) -> None:
        assert facts is not None
        if self.method == "quantile":
            self.low_, self.high_ = facts.quantile((self.limit, 1.0 - self.limit))
        else:
            middle, spread = (facts.mean, np.sqrt(facts.variance)) if self.method == "sigma" else _robust(facts)
            reach = np.where(spread > 0.0, self.limit * spread, np.inf)
            self.low_, self.high_ = middle - reach, middle + reach
        self._stages = (ClipTo(self.low_, self.high_),)


class Outliers(Normalizer):
    """Find rows far from the mean, and flag them, pull them in, or drop them.

    Parameters
    ----------
    limit
        Distance from which a row is an outlier, in standard deviations of the distances that normal rows have.
    action
        ``"weigh"`` pulls an outlier towards the mean, to the limit; ``"flag"`` leaves rows as they are, see
        :meth:`outliers`; ``"drop"`` makes `transform` leave them out (not inside a pipeline, where rows stay).
    zero_rows, nan_rows
        Policy for rows of zeros and rows with NaN or infinity: ``"error"``, ``"skip"`` or ``"keep"``.

    Attributes
    ----------
    mean_, rank_
        ``(dim,)`` mean, and number of directions in which distances are measured.
    reach_
        The Mahalanobis distance from which a row is an outlier.

    Notes
    -----
    One pass. Distances are Mahalanobis distances; their square follows χ² with `rank_` degrees of freedom for normal
    rows, and its cube root is close to normal (Wilson and Hilferty, 1931). Outliers widen the covariance that they are
    measured with: many of them hide each other.

    Examples
    --------
    >>> import numpy as np
    >>> E = np.random.default_rng(0).normal(size=(200, 2))
    >>> E[7] = 30.0
    >>> np.flatnonzero(Outliers().fit(E).outliers(E)).tolist()
    [7]
    """

    _needs: ClassVar = ("covariance",)
    mean_: Array
    rank_: int
    reach_: float

    def __init__(
        self, limit: float = 4.0, action: str = "weigh", *, zero_rows: str = "keep", nan_rows: str = "error"
    ) -> None:
        self.limit, self.action, self.zero_rows, self.nan_rows = limit, action, zero_rows, nan_rows

    def _check_parameters(self) -> None:
        if self.action not in ("weigh", "flag", "drop"):
            raise InputError(f"Outliers needs action to be one of weigh, flag, drop; got {self.action!r}.")
        if not self.limit > 0.0:
            raise InputError(f"Outliers needs a positive limit; got {self.limit}.")

    def _learn(self, facts: Facts | None, dim: int) -> None:
        assert facts is not None
        spectrum = Spectrum.of(facts)
        self.mean_, self.rank_ = facts.mean, spectrum.rank
        whitener = spectrum.vectors[:, : self.rank_] / np.sqrt(spectrum.values[: self.rank_])
        small = 2.0 / (9.0 * max(self.rank_, 1))
        self.reach_ = math.sqrt(self.rank_ * (1.0 - small + self.limit * math.sqrt(small)) ** 3)
        self._pull = Pull(self.mean_, whitener, self.reach_)
        self._stages = (self._pull,) if self.action == "weigh" else (Affine.identity(dim),)

    def distances(self, E: Any) -> Array:
        """``(rows,)`` Mahalanobis distance of every row from the mean, float64."""
        pull = self._fitted("_pull")
        rows = self._rows(E, reset=False)
        return pull.distances(tensor_to_numpy(rows) if is_torch_tensor(rows) else rows)

    def outliers(self, E: Any) -> Array:
        """``(rows,)`` mask of the outliers."""
        return self.distances(E) > self.reach_

    def transform(self, X: Any) -> Any:
        """Map rows as `action` says; ``"drop"`` returns fewer rows than came in."""
        if self.action != "drop":
            return super().transform(X)
        made = super().transform(X)
        return made[~self.outliers(X)]


def _robust(facts: Facts) -> tuple[Array, Array]:
    """Median and scaled median absolute deviation of every column, from a grid of quantiles."""
    n = facts.n_rows if facts.n_rows <= _GRID else _GRID
    grid = facts.quantile(np.linspace(0.0, 1.0, n) if facts.n_rows <= _GRID else (np.arange(n) + 0.5) / n)
    middle = facts.quantile((0.5,))[0]
    return middle, np.median(np.abs(grid - middle), axis=0) * _MAD
