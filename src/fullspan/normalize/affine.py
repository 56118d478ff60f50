"""One affine map for any run of affine steps.

The form is ``(x - shift) W + offset``. The shift comes first because rows with a large common offset keep their digits
that way: in float32 the result is good to 1e-7 at offsets of 1e4, where ``x W + c`` loses all but two digits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError
from fullspan.summaries.base import frozen

__all__ = ["Affine"]

#: A map whose singular values are farther apart than this multiplies float32 rows in float64.
_STEEP = 2e3
#: Rows shorter than this are scaled so many at a time: a loop over a short row costs more than its values.
_SHORT, _TOGETHER = 512, 16


class _Parts(NamedTuple):
    """The map in one precision: ``(x - high) W + rest``, where `rest` holds what `high` could not."""

    high: Array | None
    matrix: Array
    rest: Array | None


@dataclass(frozen=True, eq=False)
class Affine:
    """The map ``x -> (x - shift) W + offset`` of rows.

    Parameters
    ----------
    shift
        ``(dim_in,)`` float64, taken away first.
    matrix
        ``W``, float64 of shape ``(dim_in, dim_out)``; or ``(dim,)``, the diagonal of a diagonal one.
    offset
        ``(dim_out,)`` float64, added last; None for zeros.
    size
        Deviation of the outputs where it is known, 0 where not: what is below rounding of it is left out.

    Examples
    --------
    >>> import numpy as np
    >>> double = Affine(np.array([1.0, 1.0]), np.array([2.0, 2.0]))
    >>> double.apply(np.array([[1.0, 3.0]])).tolist()
    [[0.0, 4.0]]
    >>> double.then(double).apply(np.array([[1.0, 3.0]])).tolist()
    [[-2.0, 6.0]]
    """

    shift: Array
    matrix: Array
    offset: Array = field(default=None)  # type: ignore[assignment]  # set below
    size: float = 0.0
    kind = "affine"

    def __post_init__(self) -> None:
        for name in ("shift", "matrix", "offset"):
            value = getattr(self, name)
            value = np.zeros(self.dim_out) if value is None else value
            object.__setattr__(self, name, frozen(np.array(value, dtype=np.float64)))
        object.__setattr__(self, "size", float(self.size))
        fits = self.shift.shape == (self.dim_in,) and self.offset.shape == (self.dim_out,) and self.matrix.ndim <= 2
        if not fits:
            raise InputError(
                f"An affine map needs a shift of its input length and an offset of its output length; got a matrix of "
                f"shape {self.matrix.shape}, a shift of shape {self.shift.shape} and an offset of shape "
                f"{self.offset.shape}."
            )

    @classmethod
    def identity(cls, dim: int) -> Affine:
        """The map that changes nothing."""
        return cls(np.zeros(dim), np.ones(dim))

    @property
    def diagonal(self) -> bool:
        """Whether every column is mapped by itself."""
        return self.matrix.ndim == 1

    @property
    def dim_in(self) -> int:
        return self.matrix.shape[0]

    @property
    def dim_out(self) -> int:
        return self.matrix.shape[-1]

    @property
    def dense(self) -> Array:
        """``(dim_in, dim_out)`` matrix, whatever the form."""
        return np.diag(self.matrix) if self.diagonal else self.matrix

    def then(self, other: Affine) -> Affine:
        """The map that does this one first and `other` after it."""
        if self.dim_out != other.dim_in:
            raise InputError(f"Affine maps need equal lengths to follow; got {self.dim_out} out and {other.dim_in} in.")
        gap = self.offset - other.shift
        if self.diagonal and self.matrix.all():  # into the shift, which keeps digits
            shift, left = self.shift - gap / self.matrix, other.offset
        else:
            shift, left = self.shift, (gap * other.matrix if other.diagonal else gap @ other.matrix) + other.offset
        if self.diagonal:
            matrix = self.matrix * other.matrix if other.diagonal else self.matrix[:, None] * other.matrix
        else:
            matrix = self.matrix * other.matrix if other.diagonal else _product(self.matrix, other.matrix)
        return Affine(shift, matrix, left)

    def inverse(self) -> Affine:
        """The map back; where this one drops directions, to the nearest point that it maps there."""
        if self.diagonal:
            return Affine(self.offset, _reciprocal(self.matrix), self.shift)
        return Affine(self.offset, np.linalg.pinv(self.matrix, rcond=1e-12), self.shift)

    def of_mean(self, mean: Array) -> Array:
        """The image of one row, in float64."""
        rest = mean - self.shift
        return (rest * self.matrix if self.diagonal else rest @ self.matrix) + self.offset

    def of_scatter(self, scatter: Array) -> Array:
        """``Wᵀ S W``: the covariance or scatter of mapped rows."""
        if self.diagonal:
            return self.matrix[:, None] * scatter * self.matrix
        made = self.matrix.T @ scatter @ self.matrix
        return (made + made.T) / 2.0

    @cached_property
    def steep(self) -> bool:
        """Whether the singular values are so far apart that float32 products would lose the small ones."""
        if self.diagonal:
            return False
        tall = self.matrix if self.dim_out <= self.dim_in else self.matrix.T
        values = np.linalg.eigvalsh(tall.T @ tall)
        kept = values[values > 1e-14 * max(values[-1], 1e-300)]
        return bool(len(kept) and kept[-1] > kept[0] * _STEEP**2)

    def parts(self, kind: Any) -> _Parts:
        """The map in the precision `kind`, split so that a shift loses none of its digits."""
        return self._float32 if np.dtype(kind) == np.float32 else self._float64

    @cached_property
    def _float64(self) -> _Parts:
        return _Parts(_or_none(self.shift), self.matrix, _or_none(self.offset))

    @cached_property
    def _float32(self) -> _Parts:
        with np.errstate(over="ignore", under="ignore"):
            high, matrix = self.shift.astype(np.float32), self.matrix.astype(np.float32)
        if not (np.isfinite(high).all() and np.isfinite(matrix).all() and _no_underflow(self.matrix, matrix)):
            raise InputError(
                f"A map of float32 rows needs factors between 1e-37 and 3e38; got up to "
                f"{np.abs(self.matrix).max(initial=0.0):.3g}. Convert the rows to float64 first."
            )
        lost = self.shift - high
        rest = self.offset - (lost * self.matrix if self.diagonal else lost @ self.matrix)
        if not self.offset.any() and np.abs(rest).max(initial=0.0) <= 2.0**-25 * self.size:
            rest = self.offset
        return _Parts(_or_none(high), matrix, _or_none(rest.astype(np.float32)))

    def run(self, rows: Array, out: Array) -> None:
        """Map a block of float32 or float64 rows into `out`, which may be the rows themselves if `W` is diagonal."""
        wide = rows.dtype == np.float32 and self.steep
        high, matrix, rest = self.parts(np.float64 if wide else rows.dtype)
        if self.diagonal:
            _scale(rows, high, matrix, rest, out)
            return
        source = rows.astype(np.float64) if wide else rows
        if high is not None:
            source = np.subtract(source, high, out=source if wide else None)
        if wide:
            out[...] = source @ matrix if rest is None else source @ matrix + rest
            return
        np.matmul(source, matrix, out=out)
        if rest is not None:
            out += rest

    def run_torch(self, rows: Any) -> Any:
        """Map a float32 or float64 tensor."""
        import torch

        wide = rows.dtype == torch.float32 and self.steep
        source = rows.double() if wide else rows
        high, matrix, rest = (
            None if part is None else torch.from_numpy(part.copy()).to(source.device)
            for part in self.parts(np.float32 if source.dtype == torch.float32 else np.float64)
        )
        if high is not None:
            source = source - high
        assert matrix is not None
        made = source * matrix if self.diagonal else source @ matrix
        return (made if rest is None else made + rest).to(rows.dtype)

    def apply(self, rows: Array) -> Array:
        """Map rows, array or tensor of shape ``(n, dim_in)``, keeping their type."""
        from fullspan.normalize.stages import run

        return run((self,), rows)

    def arrays(self) -> dict[str, Array]:
        """What a file keeps of the map."""
        return {"shift": self.shift, "matrix": self.matrix, "offset": self.offset, "size": np.array(self.size)}


def _scale(rows: Array, high: Array | None, factors: Array, rest: Array | None, out: Array) -> None:
    """``(rows - high) * factors + rest`` into `out`; short rows are taken several at a time."""
    n_rows, dim = rows.shape
    if dim < _SHORT and n_rows % _TOGETHER == 0 and rows.flags.c_contiguous and out.flags.c_contiguous:
        shape = (n_rows // _TOGETHER, dim * _TOGETHER)
        rows, out, factors = rows.reshape(shape), out.reshape(shape), np.tile(factors, _TOGETHER)
        high, rest = (None if each is None else np.tile(each, _TOGETHER) for each in (high, rest))
    source = rows if high is None else np.subtract(rows, high, out=out)
    np.multiply(source, factors, out=out)
    if rest is not None:
        out += rest


def _product(one: Array, other: Array) -> Array:
    """The product, with zero where there is nothing but rounding: a later step must not scale that up."""
    made = one @ other
    return np.where(np.abs(made) > 2.0**-48 * (np.abs(one) @ np.abs(other)), made, 0.0)


def _or_none(vector: Array) -> Array | None:
    return vector if vector.any() else None


def _no_underflow(wide: Array, narrow: Array) -> bool:
    """Whether the largest factor of every column is still there in the narrow type."""
    largest, left = np.abs(wide), np.abs(narrow)
    if wide.ndim == 2:
        largest, left = largest.max(axis=0, initial=0.0), left.max(axis=0, initial=0.0)
    return bool(((left >= 1.2e-38) | (largest == 0.0)).all())


def _reciprocal(values: Array) -> Array:
    return np.divide(1.0, values, out=np.zeros_like(values), where=values != 0.0)
