"""Measures of a spectrum against numpy, scipy, scikit-learn and the articles' own formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from sklearn.decomposition import PCA

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import abundance, conditioning, decay, spectrum, variance_shares
from fullspan.measures._check import resolution


def table(n=200, dim=12, seed=0, offset=0.0):
    random = np.random.default_rng(seed)
    return random.standard_normal((n, dim)) * np.arange(1, dim + 1) ** -0.7 + offset


@pytest.fixture
def E():
    return table(offset=0.3)


@pytest.fixture
def sigma(E):
    return np.linalg.svd(E, compute_uv=False)


@pytest.fixture
def eigenvalues(E):
    return np.linalg.eigvalsh(np.cov(E, rowvar=False))[::-1]


ON_SINGULAR = [
    spectrum.effective_rank,
    spectrum.rankme,
    spectrum.stable_rank,
    conditioning.numerical_rank,
    conditioning.inverse_condition_number,
    conditioning.condition_number,
    abundance.information_abundance,
]
ON_EIGENVALUES = [
    spectrum.spectral_entropy,
    spectrum.eigenvalue_effective_rank,
    spectrum.participation_ratio,
    spectrum.nesum,
    variance_shares.explained_variance_dims,
    variance_shares.top_component_share,
    variance_shares.cumulative_variance_auc,
    conditioning.log_determinant,
    decay.alpha_req,
    decay.tail_exponent,
]


@pytest.mark.parametrize("dim", [1, 2, 7])
def test_equal_values_span_everything(dim):
    even = np.full(dim, 0.25)
    for function in (spectrum.effective_rank, spectrum.eigenvalue_effective_rank, spectrum.participation_ratio):
        assert function(even) == pytest.approx(dim, rel=1e-12)
    for function in (spectrum.stable_rank, spectrum.nesum, abundance.information_abundance):
        assert function(even) == dim
    assert conditioning.numerical_rank(even) == dim
    assert conditioning.inverse_condition_number(even) == 1.0
    assert variance_shares.cumulative_variance_auc(even) == pytest.approx((dim + 1) / (2 * dim))
    assert spectrum.spectral_entropy(even) == pytest.approx(math.log(dim))


def test_rank_one_spans_one():
    one = [3.0, 0.0, 0.0, 0.0]
    for function in (
        spectrum.effective_rank,
        spectrum.eigenvalue_effective_rank,
        spectrum.participation_ratio,
        spectrum.stable_rank,
        spectrum.nesum,
        variance_shares.top_component_share,
        variance_shares.cumulative_variance_auc,
        abundance.information_abundance,
        conditioning.numerical_rank,
        variance_shares.explained_variance_dims,
    ):
        assert function(one) == 1
    assert conditioning.inverse_condition_number(one) == 0
    assert spectrum.spectral_entropy(one) == 0


def test_against_numpy_and_scipy(E, sigma, eigenvalues):
    same = pytest.approx
    assert spectrum.spectral_entropy(eigenvalues) == same(scipy.stats.entropy(eigenvalues), rel=1e-12)
    assert spectrum.effective_rank(sigma) == same(math.exp(scipy.stats.entropy(sigma)), rel=1e-12)
    assert abundance.information_abundance(sigma) == same(np.linalg.norm(E, "nuc") / np.linalg.norm(E, 2), rel=1e-12)
    assert spectrum.stable_rank(sigma) == same(np.linalg.norm(E) ** 2 / np.linalg.norm(E, 2) ** 2, rel=1e-12)
    assert conditioning.condition_number(sigma) == same(np.linalg.cond(E), rel=1e-10)
    assert conditioning.inverse_condition_number(sigma) == same(1 / np.linalg.cond(E), rel=1e-10)
    covariance = np.cov(E, rowvar=False)
    assert conditioning.log_determinant(eigenvalues) == same(np.linalg.slogdet(covariance)[1], rel=1e-12)
    assert spectrum.participation_ratio(eigenvalues) == same(
        np.trace(covariance) ** 2 / np.sum(covariance**2), rel=1e-12
    )
    centered = np.linalg.svd(E - E.mean(0), compute_uv=False)
    assert spectrum.nesum(eigenvalues) == same(spectrum.stable_rank(centered), rel=1e-12)
    pca = PCA().fit(E)
    assert variance_shares.top_component_share(eigenvalues) == same(pca.explained_variance_ratio_[0], rel=1e-12)
    for share in (0.5, 0.9, 0.95, 0.99):
        assert (
            variance_shares.explained_variance_dims(eigenvalues, share) == PCA(n_components=share).fit(E).n_components_
        )
    shares = sigma / sigma.sum() + 1e-7
    assert spectrum.rankme(sigma) == same(np.exp(-(shares * np.log(shares)).sum()), rel=1e-12)


def test_order_of_the_ranks(E):
    centered = np.linalg.svd(E - E.mean(0), compute_uv=False)
    values = centered**2
    chain = [
        spectrum.stable_rank(centered),
        spectrum.participation_ratio(values),
        spectrum.eigenvalue_effective_rank(values),
        spectrum.effective_rank(centered),
    ]
    assert chain == sorted(chain)


def test_article_spectral_entropy():
    for E in (table(), table(5, 9), np.ones((4, 3)), table() * 1e-6):
        values = np.clip(np.linalg.eigvalsh(np.cov(E, rowvar=False)), 1e-12, None)
        p = values / values.sum()
        assert spectrum.article_spectral_entropy(E) == pytest.approx(-(p * np.log(p)).sum(), rel=1e-10)
    assert spectrum.article_spectral_entropy(np.ones((4, 3))) == pytest.approx(math.log(3))
    with pytest.raises(UndefinedMeasureError, match="at least two dimensions; got 1"):
        spectrum.article_spectral_entropy(np.ones((4, 1)))
    with pytest.raises(UndefinedMeasureError, match="at least 2 rows; got 1"):
        spectrum.article_spectral_entropy(np.ones((1, 4)))


@pytest.mark.parametrize("function", ON_SINGULAR + ON_EIGENVALUES)
@pytest.mark.parametrize("scale", [1e-200, 1e-25, 1e25, 1e200])
def test_scale_and_order_do_not_matter(function, scale, eigenvalues):
    shuffled = np.random.default_rng(0).permutation(eigenvalues) * scale
    expected = function(eigenvalues)
    if function is conditioning.log_determinant:
        expected += len(eigenvalues) * math.log(scale)
    assert function(shuffled) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("function", ON_SINGULAR + ON_EIGENVALUES)
def test_clear_errors(function):
    with pytest.raises(UndefinedMeasureError, match=r"at least one non-zero .*; got 64 zeros\. Is the table still at"):
        function(np.zeros(64))
    with pytest.raises(UndefinedMeasureError, match="got 0 zeros"):
        function([])
    with pytest.raises(InputError, match="got 1 NaN or infinite values, the first at position 2"):
        function([1.0, 1.0, np.nan])
    with pytest.raises(InputError, match=r"as a 1-D array; got shape \(3, 3\)\. For a whole table call fs\.measure"):
        function(np.eye(3))
    with pytest.raises(InputError, match=r"not negative; got -0.5"):
        function([1.0, -0.5] + [1.0] * 10)


def test_rounding_below_zero_counts_as_zero():
    assert spectrum.participation_ratio([1.0, 1.0, -1e-17]) == 2.0


def test_the_message_of_the_architecture():
    with pytest.raises(
        UndefinedMeasureError,
        match=r"^information_abundance needs at least one non-zero singular value; got 64 zeros\. "
        r"Is the table still at its zero initialization\?$",
    ):
        abundance.information_abundance(np.zeros(64))


def test_numerical_rank_and_resolution():
    E = table(500, 20)
    low = E[:, :6] @ np.random.default_rng(1).standard_normal((6, 20))
    for dtype in (np.float64, np.float32):
        stored = np.linalg.svd(low.astype(dtype).astype(np.float64), compute_uv=False)
        assert conditioning.numerical_rank(stored, dtype=dtype, n_rows=500) == 6
    half = np.linalg.svd(low.astype(np.float16).astype(np.float64), compute_uv=False)
    assert conditioning.numerical_rank(half, dtype="float16", n_rows=500) == 6
    assert conditioning.numerical_rank(half) == 20
    default = 500 * np.finfo(float).eps
    assert conditioning.numerical_rank(np.linalg.svd(E, compute_uv=False), tolerance=default) == np.linalg.matrix_rank(
        E
    )
    with pytest.raises(InputError, match=r"tolerance in \[0, 1\)"):
        conditioning.numerical_rank([1.0], tolerance=2)
    names = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
    sizes = [resolution(name, 1000, 64) for name in names]
    assert sizes == sorted(sizes)
    assert resolution("torch.float16", 1000, 64) == resolution(np.float16, 1000, 64)
    assert resolution("float64", 10**6, 64) < 1e-12


def test_no_volume_without_all_directions():
    with pytest.raises(UndefinedMeasureError, match="eigenvalues above zero; got 1 of 3 at zero"):
        conditioning.log_determinant([2.0, 1.0, 0.0])
    with pytest.raises(UndefinedMeasureError, match="smallest singular value above zero; got 0"):
        conditioning.condition_number([2.0, 0.0])


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("dim", [3, 8, 50, 99, 100, 700])
def test_alpha_req_recovers_a_power(alpha, dim):
    values = np.arange(1, dim + 1.0) ** -alpha
    fit = decay.alpha_req_fit(values)
    assert fit.alpha == pytest.approx(alpha, abs=1e-9)
    assert fit.r_squared == pytest.approx(1.0)
    assert 1 <= fit.first < fit.last <= min(100, dim)


def test_alpha_req_takes_the_paper_range_and_matches_polyfit():
    values = np.sort(np.random.default_rng(0).random(300))[::-1]
    slope, _ = np.polyfit(np.log(np.arange(11, 101)), np.log(values[10:100]), 1)
    fit = decay.alpha_req_fit(values)
    assert (fit.first, fit.last) == (11, 100)
    assert fit.alpha == pytest.approx(-slope, rel=1e-10)
    assert decay.alpha_req(values, (1, 300)) != fit.alpha
    ranks = np.log(np.arange(11, 101))
    assert fit.r_squared == pytest.approx(scipy.stats.pearsonr(ranks, np.log(values[10:100]))[0] ** 2, rel=1e-9)
    with pytest.raises(InputError, match="fit range within 1 … 300"):
        decay.alpha_req(values, (5, 400))
    with pytest.raises(UndefinedMeasureError, match="at least three non-zero eigenvalues to fit; got 2"):
        decay.alpha_req([2.0, 1.0, 0.0])


def test_tail_exponent_of_a_pareto_sample():
    values = (1 - np.random.default_rng(0).random(2000)) ** (-1 / 1.5)
    assert decay.tail_exponent(values) == pytest.approx(2.5, abs=0.25)
    with pytest.raises(UndefinedMeasureError, match="at least 10 non-zero eigenvalues"):
        decay.tail_exponent(np.arange(1, 9))


def test_abundance_variants(E, sigma):
    assert abundance.relative_information_abundance(sigma, 12) == abundance.information_abundance(sigma) / 12
    with pytest.raises(InputError, match="dim ≥ the number of singular values; got dim=3"):
        abundance.relative_information_abundance(sigma, 3)
    gaussian = np.linalg.svd(np.random.default_rng(5).standard_normal((300, 40)), compute_uv=False)
    assert abundance.null_information_abundance(gaussian, 300, 40) == pytest.approx(1, abs=0.05)
    with pytest.raises(UndefinedMeasureError, match="at least one row and one column; got 0 and 40"):
        abundance.null_information_abundance(gaussian, 0, 40)


def test_lidar_counts_what_tells_groups_apart():
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 8)
    centers = random.standard_normal((40, 3)) @ random.standard_normal((3, 10))
    E = centers[groups] + 0.01 * random.standard_normal((320, 10))
    value = spectrum.lidar(E, groups)
    assert 2 < value < 3.5
    assert spectrum.lidar(1e-9 * E + 5, groups) == pytest.approx(value, rel=1e-4)
    with pytest.raises(UndefinedMeasureError, match="at least two groups; got 1"):
        spectrum.lidar(E, np.zeros(320))
    with pytest.raises(InputError, match="one group label for each of 320 rows; got 3"):
        spectrum.lidar(E, [1, 2, 3])
    with pytest.raises(UndefinedMeasureError, match="no variation in one of the two"):
        spectrum.lidar(centers, np.arange(40))


def test_shares_out_of_range():
    with pytest.raises(InputError, match=r"share in \(0, 1\]; got 1.5"):
        variance_shares.explained_variance_dims([1.0], 1.5)
    assert variance_shares.explained_variance_dims([1.0, 1.0, 1.0], 1.0) == 3
