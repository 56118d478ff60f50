"""The triangular factor R of the table with a column of ones: both spectra, without squaring anything.

A product EᵀE squares the singular values, so that those below 1e-8 of the largest drown in rounding. The factor R of a
QR decomposition has the same singular values as E and keeps them to 1e-15 of the largest. R of stacked rows is R of
stacked factors, so it merges. With a column of ones before E, the first row of R holds the mean, and the rest of R is
the factor of the centered table: one state gives both spectra.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from fullspan import _extras
from fullspan._typing import Array, Block
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.summaries.base import Summary, frozen

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Triangle"]

#: Rows are shifted by a pilot mean when some column's offset is above so many deviations.
_OFFSET_WORTH_SHIFTING = 4.0
#: Rows factored at once: 8 for each dimension, within 32 MiB or 2 for each dimension.
_LEAST_ROWS, _CHUNK_BYTES = 512, 32 << 20


@dataclass(frozen=True, eq=False)
class Triangle(Summary):
    """The R factor of ``[1 | E]``, from rows shifted by a pilot that is added back exactly.

    Parameters
    ----------
    dim, n_rows
        Row length and number of rows.
    weight
        Sum of the row weights; equal to `n_rows` when rows are not weighted.
    pilot
        ``(dim,)`` what was subtracted from the rows: an approximate mean where the table has a large common offset,
        else zeros. It only moves the first row of the factor.
    factor
        ``(dim + 1, dim + 1)`` upper triangular float64: R of ``[1 | E - pilot]``.
    weighted
        Whether the rows were weighted by their frequencies.

    Notes
    -----
    Options of the recipe: ``weighted=True`` weights every row by its frequency; ``use_torch`` decides who factors:
    torch's QR takes about 4 times as long as the float64 product EᵀE at dim 128, NumPy's 7 to 8 times. None (the
    default) takes torch when the program has already imported it; True imports it; digits agree to rounding.

    Singular values are within about 1e-15 of the largest on float64 rows, whatever their ratio. Memory ``8·(dim+1)²``
    bytes and a chunk of ``8·dim`` rows; time ``2·n·dim²`` multiply-adds, one pass.

    References
    ----------
    Demmel, Grigori, Hoemmen, Langou (2012), "Communication-optimal parallel and sequential QR and LU factorizations".
    """

    dim: int
    n_rows: int
    weight: float
    pilot: Array = field(repr=False)
    factor: Array = field(repr=False)
    weighted: bool = False
    use_torch: bool | None = field(default=None, repr=False)

    @classmethod
    def accumulator(cls, dim: int, *, weighted: bool = False, use_torch: bool | None = None) -> _Builder:  # type: ignore[override]  # a recipe has options of its own
        return _Builder(dim, weighted, use_torch)

    def merge(self, other: Self) -> Self:
        self._check_mergeable(other)
        if self.weighted != other.weighted:
            raise InputError("merge needs both Triangles weighted or both unweighted; got one of each.")
        if not self.n_rows or not other.n_rows:
            return self if self.n_rows else other
        pilot = self.pilot if self.pilot.any() else other.pilot
        stacked = np.vstack([self._factor_at(pilot), other._factor_at(pilot)])
        return replace(
            self,
            n_rows=self.n_rows + other.n_rows,
            weight=self.weight + other.weight,
            pilot=pilot,
            factor=frozen(_factor(stacked, self.use_torch)),
        )

    @cached_property
    def mean(self) -> Float[Array, " dim"]:
        """``(dim,)`` weighted mean of the rows."""
        if not self.weight:
            return np.zeros(self.dim)
        return self.pilot + self.factor[0, 1:] / self.factor[0, 0]

    @cached_property
    def singular_values(self) -> Float[Array, " k"]:
        """Singular values of the table as it is, not centered, largest first; ``min(n_rows, dim)`` of them."""
        return self._spectrum(self._factor_at(np.zeros(self.dim))[:, 1:])

    @cached_property
    def centered_singular_values(self) -> Float[Array, " k"]:
        """Singular values of the table minus its mean, largest first; ``min(n_rows, dim)`` of them."""
        values = self._spectrum(self.factor[1:, 1:])
        values[max(self.n_rows - 1, 0) :] = 0.0  # centered rows span one direction less than there are rows
        return values

    @cached_property
    def eigenvalues(self) -> Float[Array, " dim"]:
        """``(dim,)`` eigenvalues of the covariance, largest first; denominator as in Moments."""
        degrees = self.weight if self.weighted else self.weight - 1.0
        if degrees <= 0.0:
            raise UndefinedMeasureError(
                f"A covariance needs at least two rows of positive weight; "
                f"got {self.n_rows} row(s) of weight {self.weight:g}."
            )
        values = np.zeros(self.dim)
        known = self.centered_singular_values
        values[: len(known)] = known**2 / degrees
        return values

    def _spectrum(self, matrix: Array) -> Array:
        largest = float(np.abs(matrix).max(initial=0.0))
        if largest == 0.0:
            return np.zeros(min(self.n_rows, self.dim))
        values = np.linalg.svd(matrix / largest, compute_uv=False) * largest
        return values[: min(self.n_rows, self.dim)]

    def _factor_at(self, pilot: Array) -> Array:
        """The factor of the same rows shifted by another pilot: only its first row changes."""
        if np.array_equal(pilot, self.pilot):
            return self.factor
        moved = self.factor.copy()
        moved[0, 1:] += moved[0, 0] * (self.pilot - pilot)
        return moved


class _Builder:
    """Gathers rows into chunks under the factor so far, and factors both together."""

    def __init__(self, dim: int, weighted: bool, use_torch: bool | None) -> None:
        self.dim, self.weighted, self.use_torch = dim, weighted, use_torch
        self.n_rows, self.weight = 0, 0.0
        self.pilot: Array | None = None
        self.filled = dim + 1
        rows = max(min(8 * dim, _CHUNK_BYTES // (8 * dim + 8)), 2 * dim, _LEAST_ROWS)
        self.capacity = dim + 1 + rows
        self.buffer: Array | None = None

    def add(self, block: Block) -> None:
        if not len(block):
            return
        roots = _root_weights(block) if self.weighted else None
        if self.buffer is None:
            self.buffer = np.zeros((self.capacity, self.dim + 1))
            self.pilot = _pilot(block.rows)
        done = 0
        while done < len(block):
            stop = min(done + self.capacity - self.filled, len(block))
            self._fill(block.rows[done:stop], None if roots is None else roots[done:stop])
            done = stop
            if self.filled == self.capacity:
                self._flush()
        self.n_rows += len(block)
        self.weight += len(block) if roots is None else float(np.sum(np.asarray(block.frequencies, dtype=np.float64)))

    def _fill(self, rows: Array, roots: Array | None) -> None:
        assert self.buffer is not None
        assert self.pilot is not None
        chunk = self.buffer[self.filled : self.filled + len(rows)]
        chunk[:, 0] = 1.0
        chunk[:, 1:] = rows
        if self.pilot.any():
            chunk[:, 1:] -= self.pilot
        if roots is not None:
            chunk *= roots[:, None]
        self.filled += len(rows)

    def _flush(self) -> None:
        assert self.buffer is not None
        head = self.dim + 1
        if self.filled > head:
            self.buffer[:head] = _factor(self.buffer[: self.filled], self.use_torch)
            self.filled = head

    def summary(self) -> Triangle:
        head = self.dim + 1
        if self.buffer is None or self.pilot is None:
            pilot, factor = np.zeros(self.dim), np.zeros((head, head))
        else:
            self._flush()
            pilot, factor = self.pilot, self.buffer[:head].copy()
        return Triangle(
            self.dim, self.n_rows, self.weight, frozen(pilot), frozen(factor), self.weighted, self.use_torch
        )


def _pilot(rows: Float[Array, "n dim"]) -> Float[Array, " dim"]:
    """An approximate mean when the offset of some column is large beside its spread, else zeros."""
    head = np.asarray(rows[:1024], dtype=np.float64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        mean, spread = head.mean(axis=0), head.std(axis=0)
    if len(head) < 2 or not np.isfinite(mean).all() or not (np.abs(mean) > _OFFSET_WORTH_SHIFTING * spread).any():
        return np.zeros(rows.shape[1])
    return np.where((head == head[0]).all(axis=0), head[0], mean)  # a constant column has no spread, not even rounding


def _factor(stacked: Float[Array, "n width"], use_torch: bool | None) -> Float[Array, "k width"]:
    """R of the rows, with the diagonal not negative, so that equal tables have equal factors."""
    torch = sys.modules.get("torch") if use_torch is None else None
    if use_torch:
        torch = _extras.require("torch", "torch", "Triangle with use_torch=True")
    if torch is None:
        factor: Array = np.linalg.qr(stacked, mode="r")  # type: ignore[assignment]  # mode "r" gives one array
    else:
        factor = torch.linalg.qr(torch.from_numpy(stacked), mode="r")[1].numpy()
    return factor * np.where(np.diagonal(factor) < 0.0, -1.0, 1.0)[:, None]


def _root_weights(block: Block) -> Array:
    if block.frequencies is None:
        raise InputError("A weighted Triangle needs a frequency for every row; got none. Name them with frequencies=.")
    weights = np.asarray(block.frequencies, dtype=np.float64)
    bad = ~(weights >= 0.0) | np.isinf(weights)
    if bad.any():
        row = int(block.index[np.argmax(bad)])
        raise InputError(f"Frequencies need to be finite and not negative; got {weights[bad][0]} at row {row}.")
    return np.sqrt(weights)
