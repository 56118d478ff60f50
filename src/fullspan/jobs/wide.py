"""Tables with fewer rows than dimensions: everything from the rows themselves, whose spectrum costs n²·dim, not dim³.

The reservoir of the first pass then holds the whole table. Squares of such a table have dim - n eigenvalues of zero,
and eigenproblems of dim rows for nothing.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import UndefinedMeasureError
from fullspan.measures.evidence import Evidence, LogZ

__all__ = ["RowSpace", "is_wide", "leave_outs", "with_row_space"]

#: Entries of a table that is taken from its rows: 128 MiB of float64.
_MOST_ENTRIES = 1 << 24
_MOST_ROWS = 4096


def is_wide(table: Any) -> bool:
    """Whether a table has fewer rows than dimensions, and few enough to hold them."""
    n_rows, dim = table.n_rows, table.dim
    return n_rows is not None and n_rows < dim and n_rows <= _MOST_ROWS and n_rows * dim <= _MOST_ENTRIES


class RowSpace:
    """The spectrum of rows that lie in memory, ``(n, dim)`` with n below dim."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows.astype(np.float64)
        self.n_rows, self.dim = rows.shape

    @cached_property
    def mean(self) -> Array:
        """``(dim,)`` mean row."""
        return self.rows[0] + (self.rows - self.rows[0]).mean(axis=0)  # exact where a column is constant

    @cached_property
    def singular_values(self) -> Array:
        """Singular values of the rows, largest first."""
        return np.linalg.svd(self.rows, compute_uv=False)

    @cached_property
    def centered_singular_values(self) -> Array:
        """Singular values of the rows minus their mean; the last is zero, since they span one direction less."""
        values = np.linalg.svd(self.rows - self.mean, compute_uv=False)
        values[max(self.n_rows - 1, 0) :] = 0.0
        return values

    @property
    def eigenvalues(self) -> Array:
        """``(dim,)`` eigenvalues of the covariance, largest first."""
        if self.n_rows < 2:
            raise UndefinedMeasureError(f"A covariance needs at least two rows; got {self.n_rows}.")
        values = np.zeros(self.dim)
        values[: self.n_rows] = self.centered_singular_values**2 / (self.n_rows - 1)
        return values

    @property
    def column_squares(self) -> Array:
        """``(dim,)`` sums of squares of the centered columns."""
        with np.errstate(over="ignore", under="ignore"):
            return ((self.rows - self.mean) ** 2).sum(axis=0)

    def log_z(self, center: bool) -> LogZ:
        """Log partition functions along the right singular vectors; the directions that no row has give ln n."""
        rows = self.rows - self.mean if center else self.rows
        left, values, _ = np.linalg.svd(rows, full_matrices=False)
        projected = np.hstack([left * values, np.zeros((self.n_rows, 1))])
        return LogZ(_log_sum(projected), _log_sum(-projected))


def _log_sum(exponents: Array) -> Array:
    largest = exponents.max(axis=0)
    return np.log(np.exp(exponents - largest).sum(axis=0)) + largest


def with_row_space(evidence: Evidence, rows: Array, second: frozenset[str]) -> Evidence:
    """The evidence with the spectrum and the partition functions of these rows."""
    space = RowSpace(rows)
    finite = bool(np.isfinite(space.rows).all())
    return evidence.but(
        n_rows=len(rows),
        spectrum=space,
        log_z=space.log_z(False) if "partition" in second and finite else None,
        centered_log_z=space.log_z(True) if "centered_partition" in second and finite else None,
    )


def leave_outs(evidence: Evidence, reservoir: Any, count: int, second: frozenset[str]) -> dict[int, Evidence]:
    """The evidence without the rows of each jackknife group: row i is in group ``i mod count``."""
    group = reservoir.positions % count
    left = {}
    for key in np.unique(group):
        rows = reservoir.rows[group != key]
        if len(rows):
            left[int(key)] = with_row_space(evidence, rows, second)
    return left
