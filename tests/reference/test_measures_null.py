"""Null values against simulated tables, limiting laws and closed forms; and their cost."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
import scipy.special

from fullspan.measures import directions, isotropy, local, neighbors, null, spectrum
from fullspan.measures.abundance import information_abundance


@pytest.mark.parametrize(("n", "dim"), [(30, 8), (8, 30), (12, 12), (1, 5), (5, 1)])
def test_triangles_have_the_law_of_tables(n, dim):
    spectra = null.gaussian_spectra(n, dim)
    direct = np.array(
        [np.linalg.svd(np.random.default_rng(s).standard_normal((n, dim)), compute_uv=False) ** 2 for s in range(200)]
    )
    assert spectra.shape[1] == min(n, dim)
    assert np.all(np.diff(spectra, axis=1) <= 0)
    error = direct.std(axis=0) * math.sqrt(1 / 200 + 1 / len(spectra))
    assert np.all(np.abs(spectra.mean(axis=0) - direct.mean(axis=0)) < 4.5 * error)
    assert not spectra.flags.writeable


@pytest.mark.parametrize(("tall", "wide"), [(2000, 200), (300, 300), (5000, 50)])
def test_marchenko_pastur_against_tables(tall, wide):
    law = null.marchenko_pastur(tall, wide)
    direct = np.linalg.svd(np.random.default_rng(0).standard_normal((tall, wide)), compute_uv=False) ** 2
    assert law.sum() == pytest.approx(tall * wide, rel=2e-3)
    np.testing.assert_allclose(law[2:-2], direct[2:-2], rtol=0.15, atol=0.002 * tall)
    assert information_abundance(np.sqrt(law)) == pytest.approx(information_abundance(np.sqrt(direct)), rel=0.03)


def test_large_tables_use_the_law():
    value, deviation = null.spectrum_null("singular", information_abundance)(4000, 1100)
    E = np.random.default_rng(0).standard_normal((4000, 1100))
    direct = information_abundance(np.sqrt(np.linalg.eigvalsh(E.T @ E)))
    assert value == pytest.approx(direct, rel=0.01)
    assert 0 < deviation < 0.02 * value


def test_nulls_are_known_numbers():
    iso = null.spectrum_null("eigenvalues", isotropy.iso_score)
    assert iso(70, 64).value == pytest.approx(0.502, abs=0.01)
    assert iso(500, 64).value == pytest.approx(0.880, abs=0.01)
    assert iso(100_000, 64).value == pytest.approx(0.9993, abs=5e-4)
    abundance = null.spectrum_null("singular", information_abundance)
    assert abundance(10**7, 32).value == pytest.approx(32, rel=0.01)
    assert abundance(1, 32) == (1.0, 0.0)
    assert null.spectrum_null("eigenvalues", spectrum.nesum)(1, 8) is None
    assert null.row_null("gini_index")(100, 512).value == pytest.approx(math.sqrt(2) - 1, abs=2e-3)
    assert null.row_null("hoyer_sparsity")(100, 1) is None
    assert null.closed_null("mean_norm_ratio")(25, 300).value == 0.2
    assert null.closed_null("mean_norm")(25, 300) is None
    for dim in (1, 2, 3, 50):
        bessel = scipy.special.ive(dim / 2 - 1, 4.0) * math.exp(4.0)
        cosine = bessel * math.gamma(dim / 2) / 2 ** (dim / 2 - 1)
        assert null.closed_null("uniformity")(100, dim).value == pytest.approx(math.log(cosine) - 4, rel=1e-9)
    assert null.closed_null("uniformity")(100, 768).value == pytest.approx(-4 + 8 / 768, abs=1e-4)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("scale", [0.01, 0.3])
def test_isotropy_of_tall_tables(center, both, scale):
    expected = null.isotropy_null(center=center, both=both)(1700, 40, scale)
    values = []
    for seed in range(8):
        E = np.random.default_rng([seed, 99]).standard_normal((1700, 40)) * math.sqrt(scale)
        values.append(isotropy.isotropy(E, signs="both" if both else "eigh", center=center))
    assert abs(np.mean(values) - expected.value) < 3 * expected.deviation
    assert 0.3 < np.std(values) / expected.deviation < 3


def test_isotropy_has_no_null_without_scale_or_at_huge_norms():
    function = null.isotropy_null()
    assert function(1000, 100) is None
    assert function(1000, 100, 0.0) is None
    assert function(10_000, 100, 50.0) is None
    assert 0 <= function(100, 20, 50.0).value < 0.01


NEIGHBORS = [
    neighbors.hubness_skew,
    neighbors.max_occurrence,
    neighbors.robin_hood_index,
    local.two_nn_dimension,
    local.mle_dimension,
    local.relative_contrast,
    local.near_duplicate_share,
    local.outlier_share,
]


def test_stored_neighbor_nulls_are_those_of_a_table():
    found = neighbors.nearest_neighbors(np.random.default_rng(5).standard_normal((4096, 40)))
    for function in NEIGHBORS:
        value, deviation = null.neighbor_null(function.__name__, function)(4096, 40)
        assert function(found) == pytest.approx(value, abs=5 * deviation + 0.02 * abs(value))
    for function in NEIGHBORS:
        expected = null.neighbor_null(function.__name__, function)
        assert expected(5000, 5000) is None
        assert expected(11, 8) is None
        assert expected(200, 8).value == pytest.approx(expected(199, 8).value, rel=1, abs=0.2)


def test_centered_cosine_of_short_rows():
    expected = null.closed_null("centered_average_cosine")
    for n, dim in ((6, 1), (6, 3), (20, 10)):
        values = [
            directions.centered_average_cosine(np.random.default_rng(s).standard_normal((n, dim))) for s in range(300)
        ]
        assert np.mean(values) == pytest.approx(expected(n, dim).value, rel=0.15)


def cpu(call):
    start = time.process_time()
    call()
    return time.process_time() - start


@pytest.mark.parametrize("dim", [64, 256])
def test_nulls_cost_a_few_decompositions_once(dim):
    E = np.random.default_rng(0).standard_normal((4 * dim, dim))
    decomposition = min(cpu(lambda: np.linalg.svd(E, compute_uv=False)) for _ in range(3))
    null._spectra.cache_clear()
    first = null.spectrum_null("singular", information_abundance)
    assert cpu(lambda: first(20_000, dim)) < 30 * decomposition + 0.1
    before = null._spectra.cache_info().misses
    null.spectrum_null("eigenvalues", isotropy.iso_score)(20_000, dim)
    assert null._spectra.cache_info().misses == before
    null.row_null("gini_index")(20_000, dim)
    before = null._gaussian_rows.cache_info().misses
    null.row_null("hoyer_sparsity")(30_000, dim)
    assert null._gaussian_rows.cache_info().misses == before
