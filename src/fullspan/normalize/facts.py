"""What a normalizer may ask about a table, and which summaries answer it.

Facts pass through affine maps: the mean and the covariance of mapped rows follow from those of the rows, so that a
chain of affine steps is fitted from one pass. Quantiles and ranges pass through diagonal maps only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.normalize.affine import Affine
from fullspan.normalize.radial import RadialMoments
from fullspan.summaries.base import Plan, Summaries, Summary
from fullspan.summaries.columns import ColumnMoments
from fullspan.summaries.moments import Moments, WeightedMoments
from fullspan.summaries.quantiles import Quantiles

__all__ = ["Facts", "passes_through", "plan"]

#: What may still be asked about rows behind steps of a kind; behind "other" steps nothing is known.
_KNOWN = {
    "none": {"mean", "variance", "covariance", "radius", "bounds", "quantiles"},
    "diagonal": {"mean", "variance", "covariance", "bounds", "quantiles"},
    "matrix": {"mean", "variance", "covariance"},
    "other": set(),
}


def plan(needs: Iterable[str], weighted: bool) -> Plan:
    """The summaries that one pass has to make to answer all the needs."""
    asked = set(needs)
    kinds: list[Any] = []
    if "radius" in asked:
        kinds.append(RadialMoments.with_options(weighted=True) if weighted else RadialMoments)
    elif "covariance" in asked:
        kinds.append(WeightedMoments if weighted else Moments)
    if "quantiles" in asked:
        kinds.append(Quantiles)
    if (
        "bounds" in asked - ({"bounds"} if "quantiles" in asked else set())
        or (asked and not kinds)
        or (asked & {"mean", "variance"} and kinds == [Quantiles])
    ):
        kinds.append(ColumnMoments.with_options(weighted=weighted, bounds="bounds" in asked))
    return Plan.of(kinds)


def passes_through(needs: Iterable[str], behind: str) -> bool:
    """Whether facts about mapped rows follow from the facts about the rows, behind steps of the kind `behind`."""
    return set(needs) <= _KNOWN[behind]


@dataclass(frozen=True)
class Facts:
    """Facts about rows, or about their image under an affine map.

    Parameters
    ----------
    parts
        Summaries of the rows.
    via
        The map between the rows and what is asked about.
    storage
        Type in which the rows were stored: tells how much of a small variance is rounding.
    frequencies
        Whether weights were counts, so that one is taken off their sum for a covariance.
    """

    parts: Summaries
    via: Affine | None = None
    storage: str = "float32"
    frequencies: bool = True

    def after(self, affine: Affine) -> Facts:
        """Facts about the same rows behind one map more."""
        return replace(self, via=affine if self.via is None else self.via.then(affine))

    def _part(self, *kinds: type[Summary]) -> Any:
        for kind in kinds:
            if kind in self.parts:
                return self.parts[kind]
        names = " or ".join(kind.__name__ for kind in kinds)
        raise InputError(
            f"This normalizer needs a summary of the kind {names}; got "
            f"{', '.join(each.__name__ for each in self.parts) or 'none'}."
        )

    @property
    def _moments(self) -> Moments:
        return self._part(Moments, WeightedMoments, RadialMoments)

    @property
    def _first(self) -> Any:
        return self._part(ColumnMoments, Moments, WeightedMoments, RadialMoments, Quantiles)

    @property
    def n_rows(self) -> int:
        return self._first.n_rows

    @property
    def dim(self) -> int:
        return self._first.dim if self.via is None else self.via.dim_out

    @property
    def weight(self) -> float:
        """Sum of the weights: the number of rows when there are none."""
        return float(getattr(self._first, "weight", self.n_rows))

    def need_rows(self, user: str) -> None:
        """Refuse an empty table."""
        if not self.n_rows or self.weight <= 0.0:
            raise UndefinedMeasureError(
                f"{user}.fit needs at least one row of positive weight; got {self.n_rows} row(s) with a total "
                f"sample_weight of {self.weight:g}. Were all rows left out, or all weights zero?"
            )

    @property
    def mean(self) -> Array:
        mean = self._part(ColumnMoments, Moments, WeightedMoments, RadialMoments).mean
        return mean if self.via is None else self.via.of_mean(mean)

    @property
    def variance(self) -> Array:
        """``(dim,)`` variance with the weight in the denominator, exactly zero for constant columns."""
        part = self._part(ColumnMoments, Moments, WeightedMoments, RadialMoments)
        if self.via is None or self.via.diagonal:
            variance = part.variance if isinstance(part, ColumnMoments) else _diagonal(part)
            return variance if self.via is None else variance * self.via.matrix**2
        moments = self._moments
        variance = np.diagonal(self.via.of_scatter(moments.scatter)) / moments.weight
        # a direction that was projected away holds the rounding of this product
        spread = np.sqrt(np.maximum(np.diagonal(moments.scatter), 0.0) / moments.weight)
        rounding = 2.0**-46 * (spread @ np.abs(self.via.matrix)) ** 2
        return np.where(variance > rounding, variance, 0.0)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Smallest and largest value of every column."""
        part = self._part(ColumnMoments, Quantiles)
        return self._ordered(part.minimum, part.maximum)

    def quantile(self, q: Iterable[float]) -> Array:
        """``(len(q), dim)`` quantiles of every column."""
        wanted = np.asarray(list(q))
        made = self._part(Quantiles).quantile(wanted)
        if self.via is None:
            return made
        mapped = (made - self.via.shift) * self.via.matrix + self.via.offset
        flipped = self.via.matrix < 0.0
        if flipped.any():
            other = (self._part(Quantiles).quantile(1.0 - wanted) - self.via.shift) * self.via.matrix + self.via.offset
            mapped[:, flipped] = other[:, flipped]
        return mapped

    def _ordered(self, low: Array, high: Array) -> tuple[Array, Array]:
        if self.via is None:
            return low, high
        ends = [(each - self.via.shift) * self.via.matrix + self.via.offset for each in (low, high)]
        return np.minimum(*ends), np.maximum(*ends)

    @property
    def degrees(self) -> float:
        """What the scatter is divided by: one less than the count, or the weight when weights are no counts."""
        moments = self._moments
        return moments.weight - 1.0 if self.frequencies or not moments.weighted else moments.weight

    @property
    def covariance(self) -> Array:
        """``(dim, dim)`` covariance."""
        moments = self._moments
        moments.check_scale()
        if self.degrees <= 0.0:
            raise UndefinedMeasureError(
                f"A covariance needs at least two rows (n_samples = {moments.n_rows} of a total weight of "
                f"{moments.weight:g} were given); one row, 1 sample, has none."
            )
        scatter = moments.scatter if self.via is None else self.via.of_scatter(moments.scatter)
        return scatter / self.degrees

    @property
    def second_moment(self) -> Array:
        """``(dim, dim)`` mean of the outer products of rows, the mean not taken away."""
        moments = self._moments
        moments.check_scale()
        scatter = moments.scatter if self.via is None else self.via.of_scatter(moments.scatter)
        return scatter / moments.weight + np.multiply.outer(self.mean, self.mean)

    @property
    def rounding(self) -> Array:
        """``(dim_in, dim_in)`` diagonal: variance that rounding to the stored type left in every column."""
        moments = self._moments
        size = moments.mean**2 + np.diagonal(moments.scatter) / max(moments.weight, 1.0)
        return size * (_EPSILON.get(self.storage, _EPSILON["float32"]) ** 2 / 12.0)

    @property
    def fourth(self) -> float:
        """Mean fourth power of the distance of a row from the mean."""
        if self.via is not None:
            raise InputError("Ledoit-Wolf shrinkage needs to come before other affine steps; got it behind one.")
        return self._part(RadialMoments).fourth / self.weight


_EPSILON = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}


def _diagonal(moments: Moments) -> Array:
    """Column variances from a scatter; rounding around a constant column counts as zero."""
    variance = np.maximum(np.diagonal(moments.scatter), 0.0) / moments.weight
    return np.where(variance <= (2.0**-48 * moments.mean) ** 2, 0.0, variance)
