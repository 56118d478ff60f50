"""Moments of two aligned tables side by side: their similarity, their best rotation, their shift."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from fullspan._typing import Array, Block, row_norms
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.summaries.base import Summary, frozen
from fullspan.summaries.quantiles import ColumnSketch

__all__ = ["CrossMoments", "MovedRow"]

_N_WORST = 10
_LEAST_ROWS = 2048
#: Lengths whose products neither vanish nor overflow.
_SAFE_LENGTHS = (1e-140, 1e140)


@dataclass(frozen=True)
class MovedRow:
    """One row and its value: `position` in the table, `id` where the table names its rows."""

    value: float
    position: int
    id: Any = None


@dataclass(frozen=True, eq=False)
class CrossMoments(Summary):
    """Joint moments of rows ``z = [x | y]``, x of the first table and y of the second.

    Parameters
    ----------
    dim, n_rows
        Length of z and number of rows.
    split
        Length of x.
    mean, scatter
        ``(dim,)`` and ``(dim, dim)`` mean of z and sum of outer products of the centered z, float64.
    norm_sums
        ``(3,)`` sums over the rows of ``a²``, ``a·b`` and ``b²``, where a and b are the squared norms of the centered
        x and y: what takes the bias out of CKA.
    norm_vectors
        ``(2, dim)`` sums of ``a z`` and ``b z`` over the centered rows, which merging needs.
    moved
        How single rows moved, when x and y have one length; None otherwise.

    Notes
    -----
    Option of the recipe: ``split``. Memory ``8·dim²`` bytes; time ``n·dim²`` multiply-adds in float64, one pass.
    """

    dim: int
    n_rows: int
    split: int
    mean: Array = field(repr=False)
    scatter: Array = field(repr=False)
    norm_sums: Array = field(repr=False)
    norm_vectors: Array = field(repr=False)
    moved: _Moved | None = field(default=None, repr=False)

    @classmethod
    def accumulator(cls, dim: int, *, split: int) -> _Builder:  # type: ignore[override]  # a recipe has options of its own
        return _Builder(dim, split)

    def merge(self, other: Self) -> Self:
        self._check_mergeable(other)
        if self.split != other.split:
            raise InputError(f"merge needs tables split at one column; got {self.split} and {other.split}.")
        if not self.n_rows or not other.n_rows:
            return self if self.n_rows else other
        n_rows = self.n_rows + other.n_rows
        gap = other.mean - self.mean
        parts = [self._about(gap * (other.n_rows / n_rows)), other._about(gap * (-self.n_rows / n_rows))]
        scatter = self.scatter + other.scatter
        scatter += np.multiply.outer(gap * (self.n_rows * other.n_rows / n_rows), gap)
        moved = None if self.moved is None or other.moved is None else self.moved.merge(other.moved)
        return replace(
            self,
            n_rows=n_rows,
            mean=frozen(self.mean + gap * (other.n_rows / n_rows)),
            scatter=frozen(scatter),
            norm_sums=frozen(parts[0][0] + parts[1][0]),
            norm_vectors=frozen(parts[0][1] + parts[1][1]),
            moved=moved,
        )

    def _about(self, shift: Array) -> tuple[Array, Array]:
        """The sums of norms when rows are taken from ``mean + shift`` instead of the mean."""
        slopes = np.zeros((2, self.dim))  # a becomes a + slope·z + level
        slopes[0, : self.split] = -2.0 * shift[: self.split]
        slopes[1, self.split :] = -2.0 * shift[self.split :]
        levels = np.array([shift[: self.split] @ shift[: self.split], shift[self.split :] @ shift[self.split :]])
        totals = self._norm_totals
        bent = slopes @ self.scatter
        vectors = self.norm_vectors + bent - np.multiply.outer(totals + self.n_rows * levels, shift)
        sums = np.empty(3)
        for place, (i, j) in enumerate(((0, 0), (0, 1), (1, 1))):
            sums[place] = (
                self.norm_sums[place]
                + slopes[j] @ self.norm_vectors[i]
                + slopes[i] @ self.norm_vectors[j]
                + bent[i] @ slopes[j]
                + levels[j] * totals[i]
                + levels[i] * totals[j]
                + self.n_rows * levels[i] * levels[j]
            )
        return sums, vectors

    @property
    def mean_x(self) -> Array:
        """``(split,)`` mean of x."""
        return self.mean[: self.split]

    @property
    def mean_y(self) -> Array:
        """``(dim - split,)`` mean of y."""
        return self.mean[self.split :]

    @property
    def scatter_xx(self) -> Array:
        """Centered XᵀX."""
        return self.scatter[: self.split, : self.split]

    @property
    def scatter_xy(self) -> Array:
        """Centered XᵀY."""
        return self.scatter[: self.split, self.split :]

    @property
    def scatter_yy(self) -> Array:
        """Centered YᵀY."""
        return self.scatter[self.split :, self.split :]

    @property
    def mean_shift(self) -> float:
        """Distance between the two mean rows; needs x and y of one length."""
        self._same_length("mean_shift")
        return float(np.linalg.norm(self.mean_y - self.mean_x))

    @cached_property
    def linear_cka(self) -> float:
        """Linear CKA, ``|XᵀY|² / (|XᵀX| |YᵀY|)`` in Frobenius norms of centered tables, in [0, 1]; biased upward."""
        x, y = self._sizes("linear_cka")
        cross = float(np.sum((self.scatter_xy / x / y) ** 2))
        own = float(np.linalg.norm(self.scatter_xx / x / x) * np.linalg.norm(self.scatter_yy / y / y))
        return cross / own

    @cached_property
    def debiased_cka(self) -> float:
        """Linear CKA from unbiased HSIC (Song et al. 2012): about 0 for unrelated tables, at most 1; needs 4 rows."""
        if self.n_rows < 4:
            raise UndefinedMeasureError(f"A debiased CKA needs at least four rows; got {self.n_rows}.")
        x, y = self._sizes("debiased_cka")
        own, other = self._hsic(0, x, x), self._hsic(2, y, y)
        if min(own, other) <= 1e-14:
            raise UndefinedMeasureError(
                f"linear_cka needs more rows to be debiased; got {self.n_rows}: the estimate of HSIC is not positive."
            )
        return self._hsic(1, x, y) / float(np.sqrt(own * other))

    def _hsic(self, which: int, x: float, y: float) -> float:
        """Unbiased HSIC of the tables scaled by 1/x and 1/y, up to the factor 1/(n(n - 3))."""
        n = self.n_rows
        scatter = (self.scatter_xx, self.scatter_xy, self.scatter_yy)[which]
        first, second = self._norm_totals[list(((0, 0), (0, 1), (1, 1))[which])]
        both = float(self.norm_sums[which] / x / x / y / y)
        trace = float(np.sum((scatter / x / y) ** 2)) - both
        return trace + float(first / x / x * (second / y / y)) / ((n - 1) * (n - 2)) - 2.0 * both / (n - 2)

    @cached_property
    def procrustes_distance(self) -> float:
        """``1 - (|XᵀY|_* / (|X| |Y|))²`` of centered tables: 0 when they agree up to shift, scale and rotation."""
        x, y = self._sizes("procrustes_distance")
        share = float(np.linalg.svd(self.scatter_xy / x / y, compute_uv=False).sum())
        return max(0.0, 1.0 - share * share)

    @cached_property
    def rotation(self) -> Array:
        """``(split, split)`` orthogonal Q that brings X nearest to Y as ``(X - mean_x) Q``; needs one length."""
        self._same_length("rotation")
        left, _, right = np.linalg.svd(self.scatter_xy)
        return frozen(left @ right)

    def principal_angles(self, k: int = 10) -> Array:
        """``(k,)`` angles in radians, smallest first, between the spans of the k principal axes of X and of Y."""
        self._same_length("principal_angles")
        if not 1 <= k <= self.split:
            raise InputError(f"principal_angles needs k from 1 to {self.split}; got {k}.")
        x, y = (self._axes(scatter, k) for scatter in (self.scatter_xx, self.scatter_yy))
        cosines = np.linalg.svd(x.T @ y, compute_uv=False)
        sines = np.linalg.svd(y - x @ (x.T @ y), compute_uv=False)[::-1]
        # the sine is the accurate one for small angles
        return np.where(cosines > 0.7, np.arcsin(np.clip(sines, 0.0, 1.0)), np.arccos(np.clip(cosines, -1.0, 1.0)))

    def _axes(self, scatter: Array, k: int) -> Array:
        values, vectors = np.linalg.eigh(scatter)
        rank = int(np.sum(values > values[-1] * len(values) * np.finfo(np.float64).eps)) if values[-1] > 0 else 0
        if rank < k:
            raise UndefinedMeasureError(
                f"principal_angles needs tables of rank k={k} or more; got rank {rank}. Take a smaller k."
            )
        return vectors[:, ::-1][:, :k]

    @property
    def mean_row_cosine(self) -> float:
        """Mean cosine of x and y over the rows where both are not zero, in [-1, 1]."""
        moved = self._rows_moved("mean_row_cosine")
        if not moved.cosines.count:
            raise UndefinedMeasureError("mean_row_cosine needs rows that are not zero in both tables; got none.")
        return moved.cosine_sum / moved.cosines.count

    @property
    def mean_row_displacement(self) -> float:
        """Mean distance of y from x over all rows."""
        moved = self._rows_moved("mean_row_displacement")
        if not self.n_rows:
            raise UndefinedMeasureError("mean_row_displacement needs at least one row; got none.")
        return moved.displacement_sum / self.n_rows

    def row_cosine_quantile(self, q: Any) -> Array:
        """``(len(q),)`` quantiles of the cosine of x and y over the rows where both are not zero."""
        return self._rows_moved("row_cosine_quantile").cosines.quantile(q)[:, 0]

    def row_displacement_quantile(self, q: Any) -> Array:
        """``(len(q),)`` quantiles of the distance of y from x."""
        return self._rows_moved("row_displacement_quantile").displacements.quantile(q)[:, 0]

    @property
    def least_cosine(self) -> tuple[MovedRow, ...]:
        """The ten rows of smallest cosine, smallest first; empty when x and y differ in length."""
        return () if self.moved is None else self.moved.least_cosine

    @property
    def most_displaced(self) -> tuple[MovedRow, ...]:
        """The ten rows of largest displacement, largest first; empty when x and y differ in length."""
        return () if self.moved is None else self.moved.most_displaced

    @property
    def _norm_totals(self) -> Array:
        diagonal = self.scatter.diagonal()
        return np.array([diagonal[: self.split].sum(), diagonal[self.split :].sum()])

    def _sizes(self, call: str) -> tuple[float, float]:
        """Frobenius norms of the centered tables, which must not vanish."""
        squares = self._norm_totals
        means = np.array([self.mean_x @ self.mean_x, self.mean_y @ self.mean_y]) * self.n_rows
        if not np.isfinite(squares).all():
            raise UndefinedMeasureError(
                f"{call} needs entries whose squares stay below 1e308; got larger ones. Rescale the tables."
            )
        if self.n_rows < 2 or not (squares > (64 * np.finfo(np.float64).eps) ** 2 * means).all():
            raise UndefinedMeasureError(f"{call} needs rows that differ from each other; got a constant table.")
        return float(np.sqrt(squares[0])), float(np.sqrt(squares[1]))

    def _same_length(self, call: str) -> None:
        if 2 * self.split != self.dim:
            raise UndefinedMeasureError(
                f"{call} needs two tables of one dim; got {self.split} and {self.dim - self.split}."
            )

    def _rows_moved(self, call: str) -> _Moved:
        self._same_length(call)
        assert self.moved is not None
        return self.moved


@dataclass(frozen=True, eq=False)
class _Moved:
    """Cosines and displacements of single rows."""

    cosines: ColumnSketch
    displacements: ColumnSketch
    cosine_sum: float = 0.0
    displacement_sum: float = 0.0
    least_cosine: tuple[MovedRow, ...] = ()
    most_displaced: tuple[MovedRow, ...] = ()

    def merge(self, other: _Moved) -> _Moved:
        return _Moved(
            self.cosines.merge(other.cosines),
            self.displacements.merge(other.displacements),
            self.cosine_sum + other.cosine_sum,
            self.displacement_sum + other.displacement_sum,
            _worst(self.least_cosine + other.least_cosine, 1.0),
            _worst(self.most_displaced + other.most_displaced, -1.0),
        )

    @classmethod
    def of(cls, x: Array, y: Array, block: Block) -> _Moved:
        with np.errstate(over="ignore"):
            displacements = row_norms(y - x)
        lengths = row_norms(x), row_norms(y)
        alive = np.flatnonzero((lengths[0] > 0.0) & (lengths[1] > 0.0))
        cosines = _cosines(x, y, *lengths, alive)
        made = cls(ColumnSketch(1), ColumnSketch(1), float(cosines.sum()), float(displacements.sum()))
        made.cosines.add(cosines[:, None])
        made.displacements.add(displacements[:, None])
        return replace(
            made,
            least_cosine=_extreme(cosines, 1.0, block, alive),
            most_displaced=_extreme(displacements, -1.0, block, np.arange(len(x))),
        )


def _cosines(x: Array, y: Array, x_lengths: Array, y_lengths: Array, alive: Array) -> Array:
    """Cosines of the rows that are not zero."""
    if len(alive) < len(x):
        x, y, x_lengths, y_lengths = x[alive], y[alive], x_lengths[alive], y_lengths[alive]
    both = np.concatenate([x_lengths, y_lengths])
    if both.min(initial=1.0) < _SAFE_LENGTHS[0] or both.max(initial=1.0) > _SAFE_LENGTHS[1]:
        x, y = x / x_lengths[:, None], y / y_lengths[:, None]
        x_lengths, y_lengths = np.ones(len(x)), np.ones(len(x))
    return np.clip(np.vecdot(x, y) / x_lengths / y_lengths, -1.0, 1.0)


def _extreme(values: Array, sign: float, block: Block, where: Array) -> tuple[MovedRow, ...]:
    key = sign * values
    near = np.arange(len(key))
    if len(key) > _N_WORST:
        near = np.flatnonzero(key <= np.partition(key, _N_WORST - 1)[_N_WORST - 1])
    order = near[np.lexsort((block.index[where[near]], key[near]))[:_N_WORST]]
    names = None if block.ids is None else block.ids[where[order]]
    found = zip(values[order].tolist(), block.index[where[order]].tolist(), strict=True)
    return tuple(
        MovedRow(value, position, None if names is None else _plain(names[place]))
        for place, (value, position) in enumerate(found)
    )


def _worst(rows: tuple[MovedRow, ...], sign: float) -> tuple[MovedRow, ...]:
    return tuple(sorted(rows, key=lambda row: (sign * row.value, row.position))[:_N_WORST])


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


class _Builder:
    """Adds chunks of rows, each centered by its own mean, as summaries of their own."""

    def __init__(self, dim: int, split: int) -> None:
        if not 0 < split < dim:
            raise InputError(f"CrossMoments needs a split from 1 to {dim - 1}; got {split}.")
        self.dim, self.split = dim, split
        self.capacity = max(4 * dim, _LEAST_ROWS)
        self.buffer: Array | None = None
        self.filled = 0
        empty = _Moved(ColumnSketch(1), ColumnSketch(1)) if 2 * split == dim else None
        self.total = CrossMoments(
            dim, 0, split, np.zeros(dim), np.zeros((dim, dim)), np.zeros(3), np.zeros((2, dim)), None
        )
        self.moved = empty

    def add(self, block: Block) -> None:
        if not len(block):
            return
        if self.buffer is None:
            self.buffer = np.empty((self.capacity, self.dim))
        for start in range(0, len(block), _LEAST_ROWS):
            part = block.take(slice(start, start + _LEAST_ROWS))
            if self.filled + len(part) > self.capacity:
                self._flush()
            self.buffer[self.filled : self.filled + len(part)] = part.rows
            if self.moved is not None:
                wide = self.buffer[self.filled : self.filled + len(part)]
                self.moved = self.moved.merge(_Moved.of(wide[:, : self.split], wide[:, self.split :], part))
            self.filled += len(part)

    def _flush(self) -> None:
        if not self.filled or self.buffer is None:
            return
        rows, split = self.buffer[: self.filled], self.split
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # refused when a reading is asked for
            mean = rows.mean(axis=0)
            rows -= mean
            norms = np.stack([np.vecdot(part, part) for part in (rows[:, :split], rows[:, split:])])
            sums = np.array([norms[0] @ norms[0], norms[0] @ norms[1], norms[1] @ norms[1]])
            chunk = CrossMoments(self.dim, self.filled, split, mean, rows.T @ rows, sums, norms @ rows, None)
            self.total = self.total.merge(chunk)
        self.filled = 0

    def summary(self) -> CrossMoments:
        self._flush()
        moved = self.moved
        if moved is not None:
            moved = replace(moved, cosines=moved.cosines.copy(), displacements=moved.displacements.copy())
        return replace(self.total, moved=moved)
