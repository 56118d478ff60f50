"""Count, mean and scatter: all that the spectrum needs, in float64, from rows of any precision.

Products of float32 rows are formed in float64: float32 products lose the small singular values whatever they are
added up in. Rows are shifted by a pilot mean before they are multiplied, when the table has a large common offset, so
that the scatter keeps its digits; merging adds the usual correction for the difference of the two means.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fullspan._typing import Array, Block
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.summaries.base import Summary, frozen
from fullspan.summaries.sums import column_sums

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Moments", "WeightedMoments", "scratch"]

#: Rows whose common offset stays below this many deviations lose fewer than three of sixteen digits unshifted.
_OFFSET_WORTH_SHIFTING = 4.0
#: A chunk is multiplied at once: at least this many rows for each dimension, or adding the product costs more than it.
_ROWS_PER_DIM = 4
_CHUNK_BYTES = 1 << 20
#: Rows whose mean is the pilot of products in float32; blocks are kept until there are as many.
_PILOT_ROWS = 256
#: Measured in chunks of up to 8,192 rows: 3.4 units of 2^-24 on an entry; 53 where the rows have few bits left (an
#: offset of 10,000 deviations and more in float32), since ties then all round one way.
_ROUNDING = 64 * 2.0**-24
#: Squares of float32 below this lie among its subnormals or near them.
_TOO_SMALL_FLOAT32 = 1e-30


@dataclass(frozen=True, eq=False)
class Moments(Summary):
    """Count, mean and centered scatter of rows, with weights if asked.

    Parameters
    ----------
    dim, n_rows
        Row length and number of rows.
    weight
        Sum of the row weights; equal to `n_rows` when rows are not weighted.
    mean
        ``(dim,)`` weighted mean of the rows.
    scatter
        ``(dim, dim)`` weighted sum of outer products of the centered rows.
    weighted
        Whether the rows were weighted by their frequencies.
    peak
        Largest row norm: tells a table of zeros from one whose squares vanish.
    rounding
        What products in float32 may have cost an entry of the scatter, as a share of the two deviations that it is a
        product of; 0 where products are float64, infinite where float32 could not hold them.

    Notes
    -----
    Options of the recipe: ``weighted=True`` weights every row by its frequency (the table then needs frequencies);
    ``rows_per_dim`` sets how many rows are multiplied at once (4·dim: a smaller chunk takes less memory and more time);
    ``products="float32"`` multiplies rows less a pilot mean in float32, a chunk at a time, and adds the chunks in
    float64: about half the time at large dims. Every eigenvalue then holds to about 4e-6 of the largest (most often
    1e-7), and the last digits depend on how the rows were cut.

    Memory ``8·dim²`` bytes; time ``n·dim²`` multiply-adds, one pass.
    """

    dim: int
    n_rows: int
    weight: float
    mean: Array = field(repr=False)
    scatter: Array = field(repr=False)
    weighted: bool = False
    peak: float = 0.0
    rounding: float = 0.0

    @classmethod
    def accumulator(cls, dim: int, *, products: str = "float64", **options: Any) -> _Builder | _Float32Builder:
        return _builder(products)(cls, dim, **options)

    def merge(self, other: Moments) -> Moments:
        self._check_mergeable(other)
        if self.weighted != other.weighted:
            raise InputError("merge needs both Moments weighted or both unweighted; got one of each.")
        if not self.n_rows or not other.n_rows:
            return self if self.n_rows else other
        weight = self.weight + other.weight
        if weight == 0.0:
            mean, scatter = self.mean, self.scatter
        else:
            gap = other.mean - self.mean
            mean = self.mean + gap * (other.weight / weight)
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                scatter = self.scatter + other.scatter
                scatter += np.multiply.outer(gap * (self.weight * other.weight / weight), gap)
        n_rows, peak = self.n_rows + other.n_rows, max(self.peak, other.peak)
        rounding = max(self.rounding, other.rounding)
        return type(self)(self.dim, n_rows, weight, frozen(mean), frozen(scatter), self.weighted, peak, rounding)

    @cached_property
    def covariance(self) -> Float[Array, "dim dim"]:
        """``(dim, dim)`` covariance of the rows, with ``n - 1`` in the denominator (the weight, when weighted)."""
        return self.scatter / self._degrees

    @cached_property
    def eigenvalues(self) -> Float[Array, " dim"]:
        """``(dim,)`` eigenvalues of the covariance, largest first, none below zero."""
        return self.centered_singular_values_full**2 / self._degrees

    @cached_property
    def centered_singular_values(self) -> Float[Array, " k"]:
        """Singular values of the table minus its mean, largest first; ``min(n_rows, dim)`` of them."""
        return self.centered_singular_values_full[: min(self.n_rows, self.dim)]

    @cached_property
    def centered_singular_values_full(self) -> Array:
        self.check_scale()
        values = np.linalg.eigvalsh(self.scatter)[::-1]
        values = np.sqrt(np.maximum(values, 0.0))
        values[max(self.n_rows - 1, 0) :] = 0.0  # centered rows span one direction less than there are rows
        return values

    @cached_property
    def singular_values(self) -> Float[Array, " k"]:
        """Singular values of the table as it is, not centered, largest first; ``min(n_rows, dim)`` of them.

        They are those of a root of the scatter with one row more for the mean: the mean never meets the small
        eigenvalues in one sum, which is where the plain Gram matrix loses them.
        """
        self.check_scale()
        shift = np.sqrt(self.weight) * self.mean
        if not shift.any():
            return self.centered_singular_values
        root = np.vstack([_root(self.scatter), shift])
        return np.linalg.svd(root, compute_uv=False)[: min(self.n_rows, self.dim)]

    @cached_property
    def gram(self) -> Float[Array, "dim dim"]:
        """``(dim, dim)`` uncentered Gram matrix EᵀE."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return self.scatter + np.multiply.outer(self.weight * self.mean, self.mean)

    @cached_property
    def _degrees(self) -> float:
        degrees = self.weight if self.weighted else self.weight - 1.0
        if degrees <= 0.0:
            raise UndefinedMeasureError(
                f"A covariance needs at least two rows of positive weight; "
                f"got {self.n_rows} row(s) of weight {self.weight:g}."
            )
        return degrees

    def check_scale(self) -> None:
        """Refuse a scatter whose squares have left the range of float64."""
        if self.n_rows and self.weight == 0.0:
            raise UndefinedMeasureError("A weighted spectrum needs a frequency above zero; got zeros only.")
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            trace = float(np.trace(self.scatter)) + float(self.weight * (self.mean @ self.mean))
        if not np.isfinite(trace):
            raise UndefinedMeasureError(
                "A scatter matrix needs entries whose squares stay below 1e308; got larger ones. "
                "Rescale the table (E / abs(E).max()), or use fs.Triangle, which forms no squares."
            )
        if self.peak > 0.0 and trace < 1e-290:
            raise UndefinedMeasureError(
                f"A scatter matrix needs entries whose squares stay above 1e-290; got a total of {trace:.3g}. "
                "Rescale the table (E / abs(E).max()), or use fs.Triangle, which forms no squares."
            )


def _root(scatter: Float[Array, "dim dim"]) -> Float[Array, "dim dim"]:
    """A matrix ``L`` of shape ``(dim, dim)`` with ``LᵀL`` equal to `scatter`."""
    try:
        return np.linalg.cholesky(scatter).T
    except np.linalg.LinAlgError:  # singular: fewer rows than dimensions, or a constant column
        values, vectors = np.linalg.eigh(scatter)
        return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T


class WeightedMoments(Moments):
    """Moments of rows weighted by their frequencies: stands in a plan beside the unweighted ones."""

    @classmethod
    def accumulator(cls, dim: int, *, products: str = "float64", **options: Any) -> _Builder | _Float32Builder:
        return _builder(products)(cls, dim, weighted=True, **options)


def _builder(products: str) -> type[_Builder] | type[_Float32Builder]:
    if products not in ("float64", "float32"):
        raise InputError(f'Moments needs products="float64" or "float32"; got {products!r}.')
    return _Float32Builder if products == "float32" else _Builder


_local = threading.local()


def scratch(dim: int, dtype: Any) -> Array:
    """A ``(dim, dim)`` array of this thread to hold one product: valid until the next call."""
    kept = getattr(_local, "scratch", {})
    if (dim, dtype) not in kept:
        kept = {key: array for key, array in kept.items() if key[0] == dim}  # one dim at a time stays in memory
        kept[dim, dtype] = np.empty((dim, dim), dtype)
        _local.scratch = kept
    return kept[dim, dtype]


def shared_rows(n_rows: int, dim: int) -> Array:
    """A float64 array of this thread to hold one chunk of rows: valid until the next call."""
    kept = getattr(_local, "rows", None)
    if kept is None or kept.shape[1] != dim or len(kept) < n_rows:
        kept = _local.rows = np.empty((n_rows, dim))
    return kept


class _Builder:
    """Gathers rows into chunks of a good size, and adds up their products."""

    def __init__(
        self, kind: type[Moments], dim: int, weighted: bool = False, rows_per_dim: int = _ROWS_PER_DIM
    ) -> None:
        self.kind, self.dim, self.weighted = kind, dim, weighted
        self.n_rows, self.weight, self.peak = 0, 0.0, 0.0
        self.capacity = max(rows_per_dim * dim, min(_CHUNK_BYTES // (8 * max(dim, 1)), 8192))
        self.worth = max(rows_per_dim * dim, self.capacity // 4)  # rows that are multiplied without being gathered
        self.filled = 0
        self.buffer: Array | None = None
        self.shift: Array | None = None
        self.chosen = False
        self.total = np.zeros(dim)
        self.products: Array | None = None

    def add(self, block: Block) -> None:
        if not len(block):
            return
        roots = self._roots(block)
        self.peak = max(self.peak, float(block.norms.max()))
        if self.products is None:
            self.products = np.zeros((self.dim, self.dim))
        done = 0
        while done < len(block):
            take = min(self.capacity - self.filled, len(block) - done)
            some = slice(done, done + take)
            if roots is None and not self.filled and take >= self.worth:
                self._multiply(self._shifted(block.rows[some], shared_rows(self.capacity, self.dim)[:take]))
            else:
                self._gather(block.rows[some], None if roots is None else roots[some])
            done += take
        self.n_rows += len(block)

    def _gather(self, rows: Array, roots: Array | None) -> None:
        if self.buffer is None:
            self.buffer = np.empty((self.capacity, self.dim))
            self.roots = np.empty(self.capacity if self.weighted else 0)
        end = self.filled + len(rows)
        self._shifted(rows, self.buffer[self.filled : end])
        if roots is not None:
            self.roots[self.filled : end] = roots
        self.filled = end
        if self.filled == self.capacity:
            self._flush()

    def _shifted(self, rows: Array, chunk: Array) -> Array:
        chunk[...] = rows
        if self.shift is not None:
            chunk -= self.shift
        return chunk

    def summary(self) -> Moments:
        self._flush()
        mean = np.zeros(self.dim) if self.shift is None else self.shift
        scatter = np.zeros((self.dim, self.dim)) if self.products is None else self.products.copy()
        weight = self.weight if self.weighted else float(self.n_rows)
        if weight > 0.0:
            mean = mean + self.total / weight
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # refused when the spectrum is asked for
                scatter -= np.multiply.outer(self.total / weight, self.total)
        return self.kind(self.dim, self.n_rows, weight, frozen(mean), frozen(scatter), self.weighted, self.peak)

    def _choose_shift(self, chunk: Array) -> None:
        """A pilot mean from rows spread over the first chunk, whatever blocks they came in; shifts the chunk."""
        head = chunk[:: max(1, len(chunk) // 256)]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            pilot = np.add.reduce(head, axis=0) / len(head)
            pilot = np.where((head == head[0]).all(axis=0), head[0], pilot)  # a constant column has no spread at all
            rest = head - pilot
            spread = np.sqrt(np.einsum("ij,ij->j", rest, rest) / len(head))
            if len(head) > 1 and (np.abs(pilot) > _OFFSET_WORTH_SHIFTING * spread).any():
                self.shift = pilot
                chunk -= pilot
        self.chosen = True

    def _flush(self) -> None:
        if self.filled and self.buffer is not None:
            self._multiply(self.buffer[: self.filled], self.roots[: self.filled] if self.weighted else None)
            self.filled = 0

    def _multiply(self, chunk: Array, roots: Array | None = None) -> None:
        assert self.products is not None
        if not self.chosen:
            self._choose_shift(chunk)
        if roots is None:
            roots = np.ones(len(chunk))
        else:
            chunk *= roots[:, None]
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            self.total += roots @ chunk
            self.products += np.matmul(chunk.T, chunk, out=scratch(self.dim, np.float64))

    def _roots(self, block: Block) -> Array | None:
        if not self.weighted:
            return None
        weights = _weights(block)
        self.weight += float(weights.sum())
        return np.sqrt(weights)


def _weights(block: Block) -> Array:
    if block.frequencies is None:
        raise InputError("Weighted moments need a frequency for every row; got none. Name them with frequencies=.")
    weights = np.asarray(block.frequencies, dtype=np.float64)
    bad = ~(weights >= 0.0) | np.isinf(weights)
    if bad.any():
        row = int(block.index[np.argmax(bad)])
        raise InputError(f"Frequencies need to be finite and not negative; got {weights[bad][0]} at row {row}.")
    return weights


class _Float32Builder:
    """Products in float32 of rows less a pilot mean, gathered into chunks whose products are added in float64."""

    def __init__(self, kind: type[Moments], dim: int, weighted: bool = False, rows_per_dim: int = 8) -> None:
        self.kind, self.dim, self.weighted = kind, dim, weighted
        self.n_rows, self.weight, self.peak = 0, 0.0, 0.0
        self.capacity = max(rows_per_dim * dim, min(_CHUNK_BYTES // (4 * max(dim, 1)), 8192))
        self.filled = 0
        self.waiting: list[tuple[Array, Array | None]] = []
        self.shift: Array | None = None
        self.total = np.zeros(dim)
        self.products = np.zeros((dim, dim))

    def add(self, block: Block) -> None:
        if not len(block):
            return
        roots = None
        if self.weighted:
            weights = _weights(block)
            self.weight += float(weights.sum())
            roots = np.sqrt(weights)
        self.n_rows += len(block)
        self.peak = max(self.peak, float(block.norms.max()))
        if self.shift is not None:
            self._gather(block.rows, roots)
            return
        self.waiting.append((np.array(block.rows), roots))
        if self.n_rows >= _PILOT_ROWS:
            self._start()

    def _start(self) -> None:
        """Take the pilot mean from the rows that wait, and gather them."""
        head = np.concatenate([rows[:: max(1, len(rows) // _PILOT_ROWS)] for rows, _ in self.waiting]).astype(float)
        with np.errstate(over="ignore", invalid="ignore"):
            pilot = np.where((head == head[0]).all(axis=0), head[0], head.mean(axis=0))
        self.shift = pilot if self.waiting[0][0].dtype == np.float64 else pilot.astype(np.float32).astype(float)
        self.buffer = np.empty((self.capacity, self.dim), np.float32)
        self.roots = np.empty(self.capacity if self.weighted else 0, np.float32)
        for rows, roots in self.waiting:
            self._gather(rows, roots)
        self.waiting = []

    def _gather(self, rows: Array, roots: Array | None) -> None:
        assert self.shift is not None
        shift = self.shift.astype(np.float64 if rows.dtype == np.float64 else np.float32)
        done = 0
        while done < len(rows):
            take = min(self.capacity - self.filled, len(rows) - done)
            some = slice(self.filled, self.filled + take)
            with np.errstate(over="ignore", under="ignore"):  # told by `rounding`
                np.subtract(rows[done : done + take], shift, out=self.buffer[some], casting="same_kind")
            if roots is not None:
                self.roots[some] = roots[done : done + take]
            self.filled, done = some.stop, done + take
            if self.filled == self.capacity:
                self._flush()

    def _flush(self) -> None:
        chunk, roots = self.buffer[: self.filled], self.roots[: self.filled] if self.weighted else None
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            if roots is not None:
                chunk *= roots[:, None]
            self.total += column_sums(chunk, roots)
            self.products += np.matmul(chunk.T, chunk, out=scratch(self.dim, np.float32))
        self.filled = 0

    def summary(self) -> Moments:
        if self.waiting:
            self._start()
        if self.filled:
            self._flush()
        weight = self.weight if self.weighted else float(self.n_rows)
        mean, scatter = np.zeros(self.dim), self.products.copy()
        if self.shift is not None and weight > 0.0:
            away = self.total / weight
            mean = self.shift + away
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                scatter -= np.multiply.outer(away, self.total)
        rounding = self._rounding(scatter, weight)
        return self.kind(
            self.dim, self.n_rows, weight, frozen(mean), frozen(scatter), self.weighted, self.peak, rounding
        )

    def _rounding(self, scatter: Array, weight: float) -> float:
        """More where the pilot lies far from the mean: its square was multiplied too, and taken away again."""
        variances, squares = np.diagonal(scatter), np.square(self.total) / max(weight, 1e-300)
        with np.errstate(all="ignore"):
            if not np.isfinite(variances).all() or not np.isfinite(squares).all():
                return np.inf
            if self.peak > 0.0 and 0.0 < variances.max() < _TOO_SMALL_FLOAT32 * weight:
                return np.inf
            far = np.where(squares > 0.0, squares / np.maximum(variances, 0.0), 0.0)
        return float(_ROUNDING * (1.0 + far.max(initial=0.0)))
