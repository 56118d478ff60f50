"""Readings of `fs.measure` against formulas written out with NumPy and SciPy in float64, at every offset and shape."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.stats
from scipy.spatial.distance import pdist, squareform

import fullspan as fs
from fullspan.measures.catalog import CATALOG

READABLE = [name for name, entry in CATALOG.items() if entry.read is not None]
OFFSETS = (0, 1, 100, 10_000)
SHAPES = ((300, 8), (2000, 64), (40, 96))
DTYPES = ("float32", "float64")
TOLERANCE = {"float32": 1e-6, "float64": 1e-10}


def table(n: int, dim: int, offset: float, dtype: str) -> np.ndarray:
    """Correlated rows of uneven length, of which `offset` is the ratio of mean to deviation of each column."""
    rng = np.random.default_rng(n + dim)
    rows = rng.standard_normal((n, dim)) @ np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    rows *= np.arange(1, dim + 1) ** -0.5 * rng.uniform(0.5, 1.5, size=(n, 1))
    signs = np.where(rng.random(dim) < 0.5, -1.0, 1.0) * rng.uniform(0.8, 1.2, size=dim)
    return (rows + offset * rows.std(axis=0) * signs).astype(dtype)


def frequencies(n: int) -> np.ndarray:
    return np.floor(1e4 / np.arange(1, n + 1) ** 1.1)


def reference(E: np.ndarray, f: np.ndarray) -> dict[str, float | None]:
    """Every readable measure of the stored values, as its definition says; None where it has no value."""
    wide = E.astype(np.longdouble)
    mean = wide.mean(axis=0)
    centered = (wide - mean).astype(np.float64)
    E64 = E.astype(np.float64)
    sigma = np.linalg.svd(E64, compute_uv=False)
    found = _spectral(E64.shape, sigma, np.linalg.svd(centered, compute_uv=False), E.dtype)
    weighted = np.linalg.svd(np.sqrt(f)[:, None] * E64, compute_uv=False)
    found["weighted_information_abundance"] = weighted.sum() / weighted[0]
    norms = np.sqrt((wide**2).sum(axis=1))
    units = wide / norms[:, None]
    return (
        found | _of_rows(wide) | _lengths(norms, mean, f) | _cosines(units) | _near(units) | _partition(E64, centered)
    )


def _entropy(values: np.ndarray) -> float:
    return float(scipy.stats.entropy(values[values > 0]))


def _spectral(shape, sigma, centered, dtype) -> dict[str, float | None]:
    n, dim = shape
    axes = min(n - 1, dim)
    eigen = np.zeros(dim)
    eigen[:axes] = centered[:axes] ** 2 / (n - 1)
    share = np.cumsum(eigen) / eigen.sum()
    ratio = eigen.sum() ** 2 / (eigen**2).sum()
    abundance = sigma.sum() / sigma[0]
    null = fs.CATALOG["information_abundance"].null(n, dim, None).value
    spacing = np.finfo(dtype).eps / 2 * (1 + np.sqrt(min(n, dim) / max(n, dim)))
    return {
        "spectral_entropy": _entropy(eigen),
        "information_abundance": abundance,
        "centered_information_abundance": centered[:axes].sum() / centered[0],
        "relative_information_abundance": abundance / dim,
        "null_information_abundance": abundance / null,
        "effective_rank": np.exp(_entropy(sigma)),
        "centered_effective_rank": np.exp(_entropy(centered[:axes])),
        "eigenvalue_effective_rank": np.exp(_entropy(eigen)),
        "rankme": np.exp(-sum(p * np.log(p) for p in sigma / sigma.sum() + 1e-7)),
        "participation_ratio": ratio,
        "stable_rank": (sigma**2).sum() / sigma[0] ** 2,
        "nesum": eigen.sum() / eigen[0],
        "numerical_rank": float((sigma > sigma[0] * max(spacing, 2.3e-16 * np.sqrt(max(n, dim)))).sum()),
        "explained_variance_dims": float(1 + (share < 0.9).sum()),
        "explained_variance_dims_95": float(1 + (share < 0.95).sum()),
        "explained_variance_dims_99": float(1 + (share < 0.99).sum()),
        "top_component_share": eigen[0] / eigen.sum(),
        "cumulative_variance_auc": share.mean(),
        "inverse_condition_number": sigma[-1] / sigma[0],
        "condition_number": sigma[0] / sigma[-1],
        "log_determinant": float(np.log(eigen).sum()) if n > dim else None,
        "alpha_req": _alpha(eigen[:axes]),
        "tail_exponent": _tail(eigen[:axes]) if axes >= 10 else None,
        "iso_score": (ratio - 1) / (dim - 1),
        "iso_score_star": _shrunk(eigen, n - 1),
    }


def _alpha(eigen: np.ndarray) -> float:
    last = min(len(eigen), 100)
    ranks = np.arange(min(11, last // 10 + 1), last + 1)
    return float(max(0.0, -np.polyfit(np.log(ranks), np.log(eigen[ranks - 1]), 1)[0]))


def _tail(eigen: np.ndarray) -> float:
    """Clauset, Shalizi and Newman, equation 3.1, over every lower end."""
    fits = []
    for size in range(10, len(eigen) + 1):
        above = eigen[:size] / eigen[size - 1]
        alpha = 1 + size / np.log(above).sum()
        middle = (np.arange(size) + 0.5) / size
        fits.append((np.abs(middle - above ** (1 - alpha)).max(), alpha))
    return float(min(fits)[1])


def _shrunk(eigen: np.ndarray, n: int) -> float:
    """IsoScore after the oracle approximating shrinkage of Chen et al., equation 23."""
    dim, trace, squares = len(eigen), eigen.sum(), (eigen**2).sum()
    rho = min(1.0, ((1 - 2 / dim) * squares + trace**2) / ((n + 1 - 2 / dim) * (squares - trace**2 / dim)))
    kept = (1 - rho) * eigen + rho * trace / dim
    return float((kept.sum() ** 2 / (kept**2).sum() - 1) / (dim - 1))


def _of_rows(E: np.ndarray) -> dict[str, float | None]:
    size, dim = np.abs(E), E.shape[1]
    shares = size / size.sum(axis=1, keepdims=True)
    rank = 2 * np.arange(1, dim + 1) - dim - 1
    gini = (np.sort(size, axis=1) * rank).sum(axis=1) / (dim * size.sum(axis=1))
    ratio = size.sum(axis=1) / np.sqrt((E**2).sum(axis=1))
    root = np.sqrt(np.longdouble(dim))
    return {
        "gini_index": float(gini.mean()),
        "vector_entropy": float(-(shares * np.log(shares)).sum(axis=1).mean()),
        "hoyer_sparsity": float(((root - ratio) / (root - 1)).mean()),
    }


def _lengths(norms: np.ndarray, mean: np.ndarray, f: np.ndarray) -> dict[str, float | None]:
    size = float(np.sqrt((mean**2).sum()))
    apart = (norms - norms.mean()).astype(np.float64)
    return {
        "mean_norm": float(norms.mean()),
        "norm_variation": float(norms.std(ddof=1) / norms.mean()),
        "mean_vector_norm": size,
        "mean_norm_ratio": size / float(norms.mean()),
        "length_frequency_correlation": 100 * np.corrcoef(apart, f)[0, 1],
        "length_log_frequency_correlation": 100 * np.corrcoef(apart, np.log(f / f.sum() + 1e-10))[0, 1],
        "length_frequency_rank_correlation": 100 * float(scipy.stats.spearmanr(apart, f)[0]),
    }


def _cosines(units: np.ndarray) -> dict[str, float | None]:
    gaps = pdist((units - units.mean(axis=0)).astype(np.float64), "sqeuclidean")
    mean = units.mean(axis=0)
    return {
        "average_cosine": 1 - gaps.mean() / 2,
        "cosine_deviation": gaps.std() / 2,
        "rogue_dimension_share": float((mean**2).max() / (mean**2).sum()),
        "unit_deviation": float(np.sqrt(units.shape[1]) * units.std(axis=0, ddof=1).mean()),
        "uniformity": float(np.log1p(np.expm1(-2 * gaps).mean())),
    }


def _near(units: np.ndarray) -> dict[str, float | None]:
    """What the ten nearest neighbors by cosine give, from all distances."""
    far = squareform(pdist((units - units.mean(axis=0)).astype(np.float64)))
    n, k = len(far), 10
    mean = far.sum() / (n * (n - 1))
    np.fill_diagonal(far, np.inf)
    nearest = np.argsort(far, axis=1)[:, :k]
    r = np.take_along_axis(far, nearest, 1)
    counts = np.bincount(nearest.ravel(), minlength=n)
    mu = np.sort(np.log(r[:, 1] / r[:, 0]))[: int(n * 0.9)]
    density = 1 / np.maximum(r, r[nearest, -1]).mean(axis=1)
    height = -np.log(1 - np.arange(1, len(mu) + 1) / (n + 1))
    return {
        "hubness_skew": float(scipy.stats.skew(counts)),
        "max_occurrence": counts.max() / (n - 1),
        "antihub_share": float((counts == 0).mean()),
        "robin_hood_index": float(np.abs(counts - k).sum() / (2 * k * n)),
        "two_nn_dimension": float(mu @ height / (mu @ mu)),
        "mle_dimension": 1 / float(np.log(r[:, -1:] / r[:, :-1]).mean()),
        "relative_contrast": mean / r[:, 0].mean(),
        "outlier_share": float((density[nearest].mean(axis=1) / density > 1.5).mean()),
        "near_duplicate_share": float((r[:, 0] <= 0.01 * mean).mean()),
    }


def _partition(E: np.ndarray, centered: np.ndarray) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name, rows in (("isotropy", E), ("centered_isotropy", centered)):
        sums = _log_z(rows, np.linalg.eigh(rows.T @ rows)[1])
        found[name] = float(np.exp(sums.min() - sums.max()))
        if name == "isotropy":
            found["isotropy_eigh"] = float(np.exp(sums[0].min() - sums[0].max()))
    return found


def _log_z(rows: np.ndarray, axes: np.ndarray) -> np.ndarray:
    return np.stack([np.logaddexp.reduce(rows @ axes, axis=0), np.logaddexp.reduce(-rows @ axes, axis=0)])


def _centered_average_cosine(E: np.ndarray) -> float:
    rows = E.astype(np.longdouble) - E.astype(np.longdouble).mean(axis=0)
    units = rows / np.sqrt((rows**2).sum(axis=1))[:, None]
    return float(((units.sum(axis=0) ** 2).sum() - len(E)) / (len(E) * (len(E) - 1)))


@cache
def expected_and_read(shape: tuple[int, int], offset: int, dtype: str):
    E, f = table(*shape, offset, dtype), frequencies(shape[0])
    expected = reference(E, f) | {"centered_average_cosine": _centered_average_cosine(E)}
    return expected, fs.measure(E, measures=READABLE, frequencies=f, standard_errors=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_reading_agrees_with_its_definition(shape, offset, dtype):
    expected, report = expected_and_read(shape, offset, dtype)
    assert set(expected) == set(READABLE)
    wrong = {}
    for name in READABLE:
        reading, value = report[name], expected[name]
        if value is None or reading.value is None:
            if not (value is None and reading.value is None and reading.why):
                wrong[name] = (reading.value, value, reading.why)
            continue
        slack = TOLERANCE[dtype] * abs(value)
        if name == "uniformity" and shape[0] > 512:  # of 65,536 pairs, not of all
            slack = 5 * reading.standard_error
        if not abs(reading.value - value) <= slack:
            wrong[name] = (reading.value, value, abs(reading.value - value) / max(abs(value), 1e-300))
    assert not wrong


def test_signs_of_wide_tables_are_those_of_eigh():
    E = table(40, 96, 1, "float64")
    read = fs.measure(E, measures="isotropy_eigh")["isotropy_eigh"].value
    assert read == pytest.approx(fs.isotropy(E, signs="eigh"), rel=1e-10)
