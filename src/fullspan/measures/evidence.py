"""What the measures of one table may read: spectra, profiles and samples, computed from summaries when first asked.

A catalog entry names the attributes it needs, reads them here, and never meets rows or files. An attribute whose
summary was not made raises :class:`UndefinedMeasureError`, which a report shows as the reason of a missing number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import UndefinedMeasureError

__all__ = ["Evidence", "FIRST_PASS", "SECOND_PASS"]

#: Attributes that a first pass serves, with the summary each of them comes from.
FIRST_PASS = {
    "singular_values": "spectrum",
    "centered_singular_values": "spectrum",
    "eigenvalues": "spectrum",
    "mean": "spectrum",
    "weighted_singular_values": "weighted",
    "mean_norm": "units",
    "units": "units",
    "unit_moments": "unit_moments",
    "rows": "rows",
    "frequency": "frequency",
    "sample": "sample",
    "neighbors": "sample",
    "sample_uniformity": "sample",
}
#: Attributes that need eigenvectors first, and so a second look at the rows.
SECOND_PASS = {"partition": "spectrum", "signed_partition": "spectrum", "centered_partition": "spectrum"}


@dataclass(frozen=True)
class LogZ:
    """Log partition functions along the same directions with both signs, arrays of shape ``(n_directions,)``."""

    log_z_positive: Array
    log_z_negative: Array


@dataclass(frozen=True, eq=False)
class Evidence:
    """Summaries of one table, as the measures see them.

    Parameters
    ----------
    n_rows, dim, dtype
        Rows in the summaries (the excluded ones are not), row length, stored type.
    moments
        :class:`~fullspan.Moments` of the rows, or None.
    spectrum
        :class:`~fullspan.Moments` or :class:`~fullspan.Triangle`: where singular values come from, or None.
    weighted, unit_rows, row_profile, frequency_profile
        Frequency-weighted moments, :class:`~fullspan.UnitMean` or :class:`~fullspan.UnitMoments`,
        :class:`~fullspan.RowProfile`,
        :class:`~fullspan.FrequencyProfile`, or None each.
    log_z, centered_log_z
        :class:`LogZ` along the eigenvectors of EᵀE, and of the centered table along its own, or None each.
    sample_rows
        ``(m, dim)`` sample of rows, or None; `neighbor_count` neighbors are searched in it.
    """

    n_rows: int
    dim: int
    dtype: str
    moments: Any = None
    spectrum: Any = None
    weighted: Any = None
    unit_rows: Any = None
    row_profile: Any = None
    frequency_profile: Any = None
    log_z: LogZ | None = None
    centered_log_z: LogZ | None = None
    sample_rows: Array | None = None
    neighbor_count: int = 10

    def but(self, **changes: Any) -> Evidence:
        """The same evidence with some summaries replaced; nothing computed is carried over."""
        return replace(self, **changes)

    @property
    def singular_values(self) -> Array:
        """Singular values of the table as it is, largest first."""
        return self._spectrum.singular_values

    @property
    def centered_singular_values(self) -> Array:
        """Singular values of the table minus its mean, largest first."""
        return self._spectrum.centered_singular_values

    @property
    def eigenvalues(self) -> Array:
        """``(dim,)`` eigenvalues of the covariance (denominator n - 1), largest first."""
        with np.errstate(over="ignore", under="ignore"):
            eigenvalues = self._spectrum.eigenvalues
        if self.centered_singular_values[0] > 0.0 and not 1e-290 < eigenvalues[0] < 1e300:
            raise UndefinedMeasureError(
                f"A covariance needs entries between 1e-145 and 1e150; got "
                f"{self.centered_singular_values[0]:.3g} as the "
                "largest singular value. Rescale the table: E / abs(E).max()."
            )
        return eigenvalues

    @property
    def mean(self) -> Array:
        """``(dim,)`` mean row."""
        return self._spectrum.mean

    @property
    def weighted_singular_values(self) -> Array:
        """Singular values of the table with every row weighted by the root of its frequency."""
        return self._need(self.weighted, "frequencies of the rows", "--frequencies").singular_values

    @property
    def units(self) -> Any:
        """Mean of the unit rows: :class:`~fullspan.UnitMean`, or :class:`~fullspan.UnitMoments`, which has it too."""
        return self._need(self.unit_rows, "the mean of the unit rows")

    @property
    def unit_moments(self) -> Any:
        """Moments of the unit rows, with their scatter."""
        units = self._need(self.unit_rows, "moments of the unit rows")
        return self._need(units if hasattr(units, "scatter") else None, "moments of the unit rows")

    @property
    def mean_norm(self) -> float:
        return self.units.mean_norm

    @property
    def mean_square(self) -> float:
        """Mean squared entry of the centered table: the scale that an isotropic Gaussian table would have."""
        root = self.root_mean_square
        if root > 0.0 and not 1e-150 < root < 1e150:
            raise UndefinedMeasureError(
                f"A mean square needs entries between 1e-150 and 1e150; got {root:.3g} as their usual size. "
                "Rescale the table: E / abs(E).max()."
            )
        return root**2

    @property
    def root_mean_square(self) -> float:
        """The root of `mean_square`, also where that leaves the range of float64."""
        values = self.centered_singular_values
        largest = float(values[0]) or 1.0
        with np.errstate(under="ignore"):
            return largest * float(np.linalg.norm(values / largest)) / np.sqrt(max(self.n_rows - 1, 1) * self.dim)

    @property
    def rows(self) -> Any:
        return self._need(self.row_profile, "a profile of the rows")

    @property
    def frequency(self) -> Any:
        return self._need(self.frequency_profile, "frequencies of the rows", "--frequencies")

    @property
    def partition(self) -> LogZ:
        return self._need(self.log_z, "a second pass over the rows", "a file or an array, not a stream")

    @property
    def signed_partition(self) -> LogZ:
        """The same along eigenvectors whose signs are those of LAPACK's symmetric solver on EᵀE."""
        return self.partition

    @property
    def centered_partition(self) -> LogZ:
        return self._need(self.centered_log_z, "a second pass over the rows", "a file or an array, not a stream")

    @property
    def sample(self) -> Array:
        return self._need(self.sample_rows, "a sample of rows", "--sample")

    @cached_property
    def neighbors(self) -> Any:
        """Exact nearest neighbors by cosine within the sample."""
        from fullspan.measures.neighbors import nearest_neighbors

        sample = self.sample
        if len(sample) <= self.neighbor_count + 1:
            raise UndefinedMeasureError(
                f"Neighbors need a sample of more than {self.neighbor_count + 1} rows; got {len(sample)}."
            )
        return nearest_neighbors(sample, k=self.neighbor_count)

    @cached_property
    def sample_uniformity(self) -> Any:
        """Uniformity of the sample, with its standard error."""
        from fullspan.measures.sphere import uniformity_estimate

        return uniformity_estimate(self.sample)

    @property
    def _spectrum(self) -> Any:
        return self._need(self.spectrum, "the moments of the rows")

    @staticmethod
    def _need(found: Any, what: str, hint: str = "") -> Any:
        if found is None:
            raise UndefinedMeasureError(f"This measure needs {what}; got none.{f' Give {hint}.' if hint else ''}")
        return found
