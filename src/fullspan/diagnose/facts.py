"""What the rules may ask of a record: readings, counts, curves, and what a Gaussian table of the same shape reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from fullspan._typing import Array
from fullspan.errors import UndefinedMeasureError
from fullspan.measures.null import spectrum_null
from fullspan.measures.spectrum import effective_rank, participation_ratio
from fullspan.measures.variance_shares import explained_variance_dims, top_component_share
from fullspan.store.records import Reading, TableRecord

__all__ = ["Facts", "Value"]

#: Spacing of the numbers around one, over the numbers themselves; whole numbers and bits repeat more often.
_COARSE = {"int8": 0.05, "uint8": 0.05, "bool": 1.8}
_CENTERED_RANK = spectrum_null("centered_singular", effective_rank)
_PARTICIPATION = spectrum_null("eigenvalues", participation_ratio)
_TOP_SHARE = spectrum_null("eigenvalues", top_component_share)


class Value(NamedTuple):
    """A number, its standard error, and its null; None where there is none."""

    value: float
    error: float | None = None
    null: float | None = None
    deviation: float | None = None

    def beyond_null(self, deviations: float) -> bool:
        """Whether it lies further from its null than tables of this shape do by chance."""
        if self.null is None:
            return True
        return abs(self.value - self.null) > deviations * (self.deviation or 0.0)

    def evidence(self, measure: str, **more: Any) -> dict[str, Any]:
        """As a row of the evidence of a finding, without what is missing."""
        row = {
            "measure": measure,
            "value": self.value,
            "standard_error": self.error,
            "null": self.null,
            "null_deviation": self.deviation,
            **more,
        }
        return {key: each for key, each in row.items() if each is not None}


class Facts:
    """A :class:`~fullspan.TableRecord`, as the rules see it.

    Parameters
    ----------
    record
        What was read from the table.
    """

    def __init__(self, record: TableRecord) -> None:
        self.record = record
        self.n_rows = record.n_rows - record.n_excluded
        self.dim = record.dim

    @property
    def span(self) -> int:
        """How many directions the centered rows can span."""
        return max(min(self.n_rows - 1, self.dim), 0)

    def reading(self, measure: str) -> Value | None:
        """A reading that has a value."""
        found: Reading | None = self.record.readings.get(measure)
        if found is None or found.value is None or not math.isfinite(found.value):
            return None
        return Value(found.value, *map(_finite, (found.standard_error, found.null, found.null_deviation)))

    def curve(self, name: str) -> Array:
        """A curve of the profile; empty when it was not read."""
        return np.asarray(self.record.profile.get(name) or [], dtype=np.float64)

    def count(self, kind: str) -> int:
        """How many rows or columns the hygiene counts under a name; 0 when it was not looked at."""
        found = self.record.hygiene.get(kind)
        return int(found.get("count") or 0) if isinstance(found, Mapping) else 0

    def named(self, kind: str, key: str = "rows") -> list[Any]:
        """The rows or columns that the hygiene names under a kind."""
        found = self.record.hygiene.get(kind)
        return list(found.get(key) or []) if isinstance(found, Mapping) else []

    def spread_of(self, row_measure: str) -> Mapping[str, Any] | None:
        """The distribution of a row measure, such as the norm."""
        found = self.record.profile.get(row_measure)
        return found if isinstance(found, Mapping) and found.get("values") else None

    @cached_property
    def offset(self) -> float:
        """Length of the mean row."""
        found = self.reading("mean_vector_norm")
        if found is not None:
            return max(found.value, 0.0)
        whole, around = _length(self.curve("singular_values")), _length(self.centered)
        return math.sqrt(max(whole - around, 0.0)) * math.sqrt(whole + around) / math.sqrt(max(self.n_rows, 1))

    @cached_property
    def centered(self) -> Array:
        """Singular values of the centered table, at most as many as the rows can span."""
        return self.curve("centered_singular_values")[: self.span]

    @cached_property
    def spread(self) -> float:
        """Root mean squared distance of the rows from their mean."""
        return _length(self.centered) / math.sqrt(max(self.n_rows, 1))

    @cached_property
    def entry_size(self) -> float:
        """Root mean square of the entries of the table as it is."""
        return _length(self.curve("singular_values")) / math.sqrt(max(self.n_rows * self.dim, 1))

    @cached_property
    def has_spread(self) -> bool:
        """Whether the rows differ by more than rounding."""
        return (
            len(self.centered) > 0 and self.centered[0] > 0 and self.spread > 8 * np.finfo(np.float64).eps * self.offset
        )

    @cached_property
    def centered_effective_rank(self) -> Value | None:
        """Effective rank of the centered table and its null."""
        found = self.reading("centered_effective_rank")
        if found is not None and found.null is not None:
            return found
        return self._of_spectrum(effective_rank, self.centered, _CENTERED_RANK) if self.has_spread else None

    @cached_property
    def top_share(self) -> Value | None:
        """Share of the variance along the first principal axis and its null."""
        return self._of_shares("top_component_share", top_component_share, _TOP_SHARE)

    @cached_property
    def participation_ratio(self) -> Value | None:
        """How many principal axes carry the variance, by its second moment, and the null."""
        return self._of_shares("participation_ratio", participation_ratio, _PARTICIPATION)

    def used_dimensions(self, share: float) -> int:
        """How many principal axes carry a share of the variance."""
        return explained_variance_dims(self._shares, share) if self.has_spread else 0

    @property
    def _shares(self) -> Array:
        """Variance along the principal axes, relative to the first."""
        return np.square(self.centered / self.centered[:1])

    def _of_shares(self, measure: str, function: Any, null: Any) -> Value | None:
        """A reading of the eigenvalues, or the same from the curve where it was not read."""
        found = self.reading(measure)
        if found is not None and found.null is not None:
            return found
        if not self.has_spread:
            return None
        padded = np.zeros(self.dim)
        padded[: len(self.centered)] = self._shares
        return self._of_spectrum(function, padded, null)

    def _of_spectrum(self, function: Any, spectrum: Array, null: Any) -> Value | None:
        try:
            expected = null(self.n_rows, self.dim)
            null_value, deviation = (None, None) if expected is None else map(float, expected)
            return Value(float(function(spectrum)), None, null_value, deviation)
        except UndefinedMeasureError:
            return None

    @property
    def spacing(self) -> float:
        """Spacing of the stored numbers around one."""
        precision = self.record.profile.get("precision") or {}
        return float(precision.get("eps") or np.finfo(np.float32).eps)

    @property
    def chance_of_a_tie(self) -> float:
        """Chance that two Gaussian numbers are equal once stored: ∫φ² times the spacing of the stored numbers."""
        return min(1.0, 0.29 * _COARSE.get(self.record.dtype, self.spacing))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _length(values: Array) -> float:
    """Root of the sum of squares, without overflow."""
    largest = float(values.max(initial=0.0))
    return largest * float(np.sqrt(np.sum(np.square(values / largest)))) if 0 < largest < math.inf else largest


@lru_cache(maxsize=64)
def largest_shares(dim: int, count: int) -> tuple[float, float]:
    """Mean and deviation of the share that the largest `count` of `dim` squared normal numbers have in their sum."""
    squares = np.random.default_rng([dim, count]).standard_normal((max(16, min(256, 2**18 // dim)), dim)) ** 2
    squares.sort(axis=1)
    shares = squares[:, dim - count :].sum(axis=1) / squares.sum(axis=1)
    return float(shares.mean()), float(shares.std(ddof=1))
