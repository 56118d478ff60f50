"""What each measure reads on an isotropic Gaussian table of the same shape, so that a small table is not blamed.

Spectra are drawn exactly and cheaply: the R factor of a Gaussian table of n rows is a triangle with chi-distributed
diagonal (Bartlett), so no rows are made. Above 1024 dimensions the quantiles of the Marchenko-Pastur law stand in.
Centering costs one row. Row measures are simulated on a few thousand rows; cosines and norms have closed forms. All
with fixed seeds, cached per shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fullspan._typing import Array
from fullspan.errors import UndefinedMeasureError
from fullspan.measures import _neighbor_nulls as stored

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = [
    "Null",
    "NullFunction",
    "closed_null",
    "gaussian_spectra",
    "isotropy_null",
    "neighbor_null",
    "row_null",
    "spectrum_null",
]


class Null(NamedTuple):
    """Expected value over isotropic Gaussian tables of one shape, and its standard deviation from table to table."""

    value: float
    deviation: float


#: ``(n_rows, dim, scale=None)``; scale is the variance of an entry, for the few measures that depend on it.
NullFunction = Callable[..., Null | None]

_SIMULATED_DIM = 1024
_SMALL_DIM = 256
_ROWS = 4096


def _summarize(values: Any) -> Null:
    """Mean and predictive deviation of a few draws."""
    array = np.asarray(values, dtype=np.float64)
    spread = array.std(ddof=1) if len(array) > 1 else 0.0
    return Null(float(array.mean()), float(spread * math.sqrt(1 + 1 / len(array))))


def _draws(dim: int) -> int:
    return 24 if dim <= 64 else 12 if dim <= 128 else 6 if dim <= 256 else 4 if dim <= 512 else 3


def _triangle(random: np.random.Generator, tall: int, wide: int) -> Float[Array, "wide wide"]:
    """R of the QR decomposition of a Gaussian table of shape ``(tall, wide)``, up to signs."""
    triangle = np.triu(random.standard_normal((wide, wide)), 1)
    np.fill_diagonal(triangle, np.sqrt(random.chisquare(tall - np.arange(wide))))
    return triangle


def marchenko_pastur(tall: int, wide: int) -> Float[Array, " wide"]:
    """``(wide,)`` squared singular values at the quantiles (i - 1/2)/wide of the limiting law, descending."""
    ratio = wide / tall
    angle = np.linspace(np.pi, 0, 8001)
    x = 1 + ratio + 2 * math.sqrt(ratio) * np.cos(angle)
    density = np.sin(angle) ** 2 / np.maximum(x, 1e-300)
    density[0] = density[1] if ratio == 1 else 0.0
    cumulative = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    levels = (np.arange(wide, 0, -1) - 0.5) / wide
    return tall * np.interp(levels, cumulative / cumulative[-1], x)


def gaussian_spectra(n_rows: int, dim: int, centered: bool = False) -> Float[Array, "draws ranks"]:
    """``(draws, ranks)`` squared singular values of Gaussian tables with unit variance, descending.

    Parameters
    ----------
    n_rows, dim
        Shape of the table.
    centered
        Of the table minus its mean row. That has the law of one row less; above 32 rows a dimension this is far below
        the deviation, and the draws of the uncentered table are handed out.

    Returns
    -------
    array
        One draw a row, read-only; a single row of quantiles above 1024 dimensions. Cached.
    """
    return _spectra(n_rows - 1 if centered and n_rows <= 32 * dim else n_rows, dim)


@lru_cache(maxsize=64)
def _spectra(n_rows: int, dim: int) -> Float[Array, "draws ranks"]:
    wide, tall = sorted((n_rows, dim))
    if wide > _SIMULATED_DIM:
        spectra = marchenko_pastur(tall, wide)[None]
    else:
        random = np.random.default_rng([n_rows, dim])
        spectra = np.empty((_draws(wide), wide))
        for draw in spectra:
            triangle = _triangle(random, tall, wide)
            draw[:] = np.maximum(np.linalg.eigvalsh(triangle @ triangle.T)[::-1], 0.0)
    spectra.flags.writeable = False
    return spectra


def spectrum_null(
    kind: str, function: Callable[..., float], *, scaled: bool = False, shape: bool = False
) -> NullFunction:
    """Null of a measure of a spectrum.

    Parameters
    ----------
    kind
        ``"singular"`` and ``"centered_singular"``: descending singular values, min(n, dim) of them; ``"eigenvalues"``:
        of the covariance, dim of them.
    function
        The measure, of that spectrum, or of ``(spectrum, n_rows, dim)`` where `shape` is set.
    scaled
        Whether the measure depends on the scale of the table: the null then needs `scale`.
    """

    @lru_cache(maxsize=256)
    def null(n_rows: int, dim: int, scale: float | None = None) -> Null | None:
        centered = kind != "singular"
        if n_rows - centered < 1 or dim < 1 or (scaled and (scale is None or scale <= 0)):
            return None
        factor = float(scale) if scaled and scale is not None else 1.0

        def read(n: int, d: int) -> Null:
            spectra = gaussian_spectra(n, d, centered)
            length = d if kind == "eigenvalues" else min(n, d)
            padded = np.zeros((len(spectra), length))
            padded[:, : spectra.shape[1]] = spectra
            padded = padded / (n - 1) * factor if kind == "eigenvalues" else np.sqrt(padded * factor)
            return _summarize([function(each, n, d) if shape else function(each) for each in padded])

        try:
            found = read(n_rows, dim)
            wide = min(n_rows, dim)
            if wide <= _SIMULATED_DIM:
                return found
            small = read(round(n_rows * _SMALL_DIM / wide), round(dim * _SMALL_DIM / wide))
            return Null(found.value, abs(found.value) * small.deviation / abs(small.value) if small.value else 0.0)
        except UndefinedMeasureError:
            return None

    return null


@lru_cache(maxsize=32)
def _gaussian_rows(dim: int) -> dict[str, tuple[float, float, int]]:
    """Mean, deviation and number of rows of each row measure over Gaussian rows."""
    from fullspan.measures import sparsity

    n_rows = max(512, min(_ROWS, 2**19 // dim))
    random = np.random.default_rng(dim)
    functions = {"gini_index": sparsity.gini_index, "vector_entropy": sparsity.vector_entropy}
    if dim > 1:
        functions["hoyer_sparsity"] = sparsity.hoyer_sparsity
    values: dict[str, list[Array]] = {name: [] for name in functions}
    step = max(1, 2**16 // dim)
    for start in range(0, n_rows, step):
        rows = random.standard_normal((min(step, n_rows - start), dim))
        for name, function in functions.items():
            values[name].append(function(rows))
    joined = {name: np.concatenate(parts) for name, parts in values.items()}
    return {name: (float(each.mean()), float(each.std(ddof=1)), n_rows) for name, each in joined.items()}


def row_null(name: str, *, part: str = "mean") -> NullFunction:
    """Null of the mean over the rows of a row measure (or, with ``part="deviation"``, of its deviation)."""

    def null(n_rows: int, dim: int, scale: float | None = None) -> Null | None:
        found = _gaussian_rows(dim).get(name)
        if found is None or n_rows < 1:
            return None
        mean, deviation, simulated = found
        uncertainty = math.sqrt(1 / n_rows + 1 / simulated)
        if part == "deviation":
            return Null(deviation, deviation * uncertainty / math.sqrt(2))
        return Null(mean, deviation * uncertainty)

    return null


def _chi_mean(dim: int) -> float:
    """Mean length of a standard normal vector."""
    return math.sqrt(2) * math.exp(math.lgamma((dim + 1) / 2) - math.lgamma(dim / 2))


def _mean_norm(n: int, d: int, scale: float | None) -> Null | None:
    if scale is None:
        return None
    mean = _chi_mean(d)
    return Null(math.sqrt(scale) * mean, math.sqrt(scale * max(0.0, d - mean * mean) / n))


def _norm_variation(n: int, d: int, scale: float | None) -> Null | None:
    if n < 2:
        return None
    value = _chi_deviation(d) / _chi_mean(d)
    return Null(value, value * math.sqrt((1 + 2 * value * value) / (2 * (n - 1))))


def _mean_vector_norm(n: int, d: int, scale: float | None) -> Null | None:
    return None if scale is None else Null(*(math.sqrt(scale / n) * part for part in (_chi_mean(d), _chi_deviation(d))))


def _chi_deviation(dim: int) -> float:
    return math.sqrt(max(0.0, dim - _chi_mean(dim) ** 2))


def _mean_norm_ratio(n: int, d: int, scale: float | None) -> Null | None:
    return Null(1 / math.sqrt(n), _chi_deviation(d) / _chi_mean(d) / math.sqrt(n)) if n > 1 else None


def _average_cosine(n: int, d: int, scale: float | None) -> Null | None:
    return Null(0.0, math.sqrt(2 / (n * (n - 1) * d))) if n > 1 else None


def _centered_average_cosine(n: int, d: int, scale: float | None) -> Null | None:
    """Centering ties two rows with correlation -1/(n-1); the deviation is that of a sample of at most 4096 rows."""
    if n < 3:
        return None
    tie = 2 / math.pi if d == 1 else _chi_mean(d) ** 2 / (d - 1) * (1 - 1 / d)
    m = min(n, 4096)
    spread = math.sqrt(2 / (m * (m - 1) * d))
    return Null(-tie / (n - 1), spread if m < n else spread / math.sqrt(2 * d))


def _cosine_deviation(n: int, d: int, scale: float | None) -> Null | None:
    if n < 3:
        return None
    spread = math.sqrt((2 * d - 2) / (d * d * (d + 2)) * 2 / (n * (n - 1)))
    return Null(1 / math.sqrt(d), math.hypot(spread * math.sqrt(d) / 2, 1 / (math.sqrt(d) * n)))


def _unit_deviation(n: int, d: int, scale: float | None) -> Null | None:
    if n < 3:
        return None
    excess = 3 * d / (d + 2) - 1
    bias = excess / (8 * n)
    return Null(1 - bias, math.sqrt(2 / d) * math.hypot(bias, 1 / (2 * n)))  # all that varies is the length of the mean


@lru_cache(maxsize=64)
def _rogue_dimension_share(n: int, d: int, scale: float | None) -> Null | None:
    squares = np.random.default_rng(d).standard_normal((max(32, min(512, 2**19 // d)), d)) ** 2
    shares = squares.max(axis=1) / squares.sum(axis=1)
    return Null(float(shares.mean()), float(shares.std()))


def _log_mean_exp_cosine(power: float, d: int) -> float:
    """``ln E exp(power·cos)`` between a fixed and a random direction: 0F1(; d/2; power²/4)."""
    term = total = 1.0
    for k in range(1, 400):
        term *= power * power / 4 / (k * (d / 2 + k - 1))
        total += term
        if term < 1e-17 * total:
            break
    return math.log(total)


def _uniformity(n: int, d: int, scale: float | None) -> Null | None:
    if n < 2:
        return None
    mean, square = _log_mean_exp_cosine(4.0, d), _log_mean_exp_cosine(8.0, d)
    pairs = min(n * (n - 1) / 2, 2**18)
    return Null(mean - 4, math.sqrt(max(0.0, math.exp(square - 2 * mean) - 1) / pairs))


def _length_frequency(n: int, d: int, scale: float | None) -> Null | None:
    return Null(0.0, 100 / math.sqrt(n - 1)) if n > 2 else None


_CLOSED = {
    "mean_norm": _mean_norm,
    "mean_vector_norm": _mean_vector_norm,
    "norm_variation": _norm_variation,
    "mean_norm_ratio": _mean_norm_ratio,
    "average_cosine": _average_cosine,
    "centered_average_cosine": _centered_average_cosine,
    "cosine_deviation": _cosine_deviation,
    "unit_deviation": _unit_deviation,
    "rogue_dimension_share": _rogue_dimension_share,
    "uniformity": _uniformity,
    "length_frequency_correlation": _length_frequency,
}


def closed_null(name: str) -> NullFunction:
    """Null of a measure of norms, cosines or frequencies, by formula (a small simulation for the rogue dimension)."""
    function = _CLOSED[name]

    def null(n_rows: int, dim: int, scale: float | None = None) -> Null | None:
        return function(n_rows, dim, scale) if n_rows >= 1 and dim >= 1 else None

    return null


def isotropy_null(*, center: bool = False, both: bool = True) -> NullFunction:
    """Null of the isotropy, which depends on the scale: needs the variance of an entry.

    Along the j-th eigenvector the projections are σ_j times a column of a random orthonormal matrix, so that
    ``ln Z = ln n + t²/2 + noise`` with ``t² = σ_j²/n``; the noise of c and -c is jointly normal as long as it is small,
    with the part that the fixed length of the column takes away removed. Small tables are simulated outright; where the
    noise is not small (huge norms), there is no null.
    """

    @lru_cache(maxsize=64)
    def null(n_rows: int, dim: int, scale: float | None = None) -> Null | None:
        if scale is None or not 0 < scale < math.inf or n_rows < 2 + center:
            return None
        if n_rows * dim <= 2**16:
            return _summarize([_direct_isotropy(n_rows, dim, scale, center, both, seed) for seed in range(8)])
        return _normal_isotropy(n_rows, dim, scale, center, both)

    return null


def _direct_isotropy(n: int, d: int, scale: float, center: bool, both: bool, seed: int) -> float:
    E = np.random.default_rng([seed, n, d]).standard_normal((n, d)) * math.sqrt(scale)
    if center:
        E -= E.mean(axis=0)
    if n < d:
        squares, left = np.linalg.eigh(E @ E.T)
        projections = np.hstack([left * np.sqrt(np.maximum(squares, 0.0)), np.zeros((n, 1))])
    else:
        projections = E @ np.linalg.eigh(E.T @ E)[1]
    logs = [_log_sum_exp(sign * projections) for sign in ((1, -1) if both else (1,))]
    return math.exp(np.min(logs) - np.max(logs))


def _log_sum_exp(x: Array) -> Array:
    top = x.max(axis=0)
    return top + np.log(np.exp(x - top).sum(axis=0))


def _normal_isotropy(n: int, d: int, scale: float, center: bool, both: bool) -> Null | None:
    spectra = gaussian_spectra(n, d, center)
    t = np.zeros((len(spectra), max(d, spectra.shape[1])))
    t[:, : spectra.shape[1]] = spectra * scale / n
    if t.max() > 30:
        return None
    shift = t if center else 0.0
    variance = np.maximum(np.expm1(t) - t * t / 2 - shift, 0.0) / n
    covariance = (np.expm1(-t) - t * t / 2 + shift) / n
    if variance.max() > 0.02:
        return None
    random = np.random.default_rng([n, d])
    values = []
    for each in range(len(t)):
        for _ in range(max(1, 16 // len(t))):
            first, second = random.standard_normal((2, t.shape[1]))
            deviation = np.sqrt(variance[each])
            slope = np.divide(covariance[each], deviation, out=np.zeros_like(deviation), where=deviation > 0)
            rest = np.sqrt(np.maximum(variance[each] - slope**2, 0.0))
            logs = [t[each] / 2 + np.log1p(deviation * first)]
            if both:
                logs.append(t[each] / 2 + np.log1p(slope * first + rest * second))
            values.append(math.exp(np.min(logs) - np.max(logs)))
    return _summarize(values)


@lru_cache(maxsize=32)
def _gaussian_neighbors(n_rows: int, dim: int, k: int) -> tuple[Any, ...]:
    from fullspan.measures.neighbors import nearest_neighbors

    random = np.random.default_rng([n_rows, dim])
    draws = 4 if n_rows <= 512 else 2
    return tuple(nearest_neighbors(random.standard_normal((n_rows, dim)), k=k) for _ in range(draws))


def neighbor_null(name: str, function: Callable[[Any], float], *, k: int = 10) -> NullFunction:
    """Null of a measure of k = 10 nearest neighbors by cosine.

    Near the sample of 4096 rows that a report takes it comes from a stored table, else from two simulated tables of the
    shape.
    """

    @lru_cache(maxsize=64)
    def null(n_rows: int, dim: int, scale: float | None = None) -> Null | None:
        if n_rows <= k + 1 or dim < 2:
            return None
        if n_rows >= 3000:
            return _stored_neighbor_null(name, dim)
        try:
            return _summarize([function(each) for each in _gaussian_neighbors(n_rows, dim, k)])
        except UndefinedMeasureError:
            return None

    return null


def _stored_neighbor_null(name: str, dim: int) -> Null | None:
    if dim > stored.DIMS[-1]:
        return None
    place, known = math.log(dim), np.log(stored.DIMS)
    values, deviations = np.array(stored.VALUES[name]), stored.DEVIATIONS[name]
    if values.min() > 0:
        value = math.exp(np.interp(place, known, np.log(values)))
    else:
        value = float(np.interp(place, known, values))
    return Null(value, float(np.interp(place, known, deviations)))
