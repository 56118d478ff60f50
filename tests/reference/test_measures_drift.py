"""Measures of two tables against scipy and direct formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import scipy.spatial
import scipy.stats
from scipy.spatial.distance import cdist

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import drift, shift


@pytest.fixture
def pair():
    random = np.random.default_rng(0)
    x, y = random.standard_normal((2, 120, 7))
    y[:, :3] += x[:, :3]
    return x + 3, y * 2


@pytest.fixture
def turn():
    return np.linalg.qr(np.random.default_rng(1).standard_normal((7, 7)))[0]


def gram(x):
    x = x - x.mean(0)
    return x @ x.T


def unbiased_hsic(k, m):
    """Song et al. 2012, equation 5, on n × n matrices."""
    n = len(k)
    k, m, one = k - np.diag(np.diag(k)), m - np.diag(np.diag(m)), np.ones(n)
    middle = one @ k @ one * (one @ m @ one) / ((n - 1) * (n - 2))
    return np.trace(k @ m) + middle - 2 / (n - 2) * (one @ k @ m @ one)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cka(pair, dtype):
    x, y = (each.astype(dtype) for each in pair)
    tolerance = 1e-10 if dtype == np.float64 else 1e-6
    k, m = gram(x.astype(float)), gram(y.astype(float))
    assert drift.linear_cka(x, y) == pytest.approx(np.sum(k * m) / np.linalg.norm(k) / np.linalg.norm(m), rel=tolerance)
    kx, ky = x.astype(float) @ x.T.astype(float), y.astype(float) @ y.T.astype(float)
    expected = unbiased_hsic(kx, ky) / math.sqrt(unbiased_hsic(kx, kx) * unbiased_hsic(ky, ky))
    assert drift.linear_cka(x, y, debiased=True) == pytest.approx(expected, rel=1e-9)


def test_debiased_cka_of_independent_data_is_near_zero():
    draws = [np.random.default_rng(s).standard_normal((2, 32, 8)) for s in range(40)]
    assert np.mean([drift.linear_cka(*each) for each in draws]) > 0.15
    assert abs(np.mean([drift.linear_cka(*each, debiased=True) for each in draws])) < 0.03


def test_what_a_rotation_shift_and_scale_leave_alone(pair, turn):
    x, _ = pair
    moved = 3 * x @ turn + 100
    assert drift.linear_cka(x, moved) == pytest.approx(1, abs=1e-12)
    assert drift.linear_cka(x, moved, debiased=True) == pytest.approx(1, abs=1e-9)
    assert drift.procrustes_distance(x, moved) == pytest.approx(0, abs=1e-12)
    assert drift.neighbor_overlap(x, 3 * x @ turn) == 1.0
    values = [np.linalg.eigvalsh(np.cov(each, rowvar=False)) for each in (x, moved)]
    assert shift.spectrum_difference(*values) == pytest.approx(0, abs=1e-12)
    assert shift.spectrum_difference(x, moved) == pytest.approx(0, abs=1e-12)
    assert drift.spectrum_difference is shift.spectrum_difference


def test_procrustes(pair):
    x, y = pair
    assert drift.procrustes_distance(x, y) == pytest.approx(scipy.spatial.procrustes(x, y)[2], rel=1e-10)
    cx, cy = x - x.mean(0), y - y.mean(0)
    assert drift.procrustes_from_moments(cx.T @ cy, np.sum(cx**2), np.sum(cy**2)) == pytest.approx(
        drift.procrustes_distance(x, y), rel=1e-10
    )
    assert drift.cka_from_moments(cx.T @ cy, cx.T @ cx, cy.T @ cy) == pytest.approx(drift.linear_cka(x, y), rel=1e-12)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_principal_angles(pair, k):
    x, y = pair
    bases = [np.linalg.svd(each - each.mean(0))[2][:k].T for each in (x, y)]
    expected = scipy.linalg.subspace_angles(*bases)[::-1]
    np.testing.assert_allclose(drift.principal_angles(x, y, k), expected, atol=1e-9)
    np.testing.assert_allclose(drift.principal_angles(x, 5 * x + 1, k), np.zeros(k), atol=1e-7)


def test_rows_and_neighbors(pair):
    x, y = pair
    expected = np.linalg.norm(y - x, axis=1) / np.sqrt(np.mean(np.sum(x**2, axis=1)))
    np.testing.assert_allclose(drift.row_displacement(x, y), expected, rtol=1e-12)
    cosine = np.sum(x * y, 1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
    np.testing.assert_allclose(drift.row_cosine(x, y), cosine, atol=1e-13)
    far = [cdist(each, each, "cosine") + np.eye(120) * 9 for each in (x, y)]
    near = [np.argsort(each, axis=1)[:, :10] for each in far]
    overlap = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(*near, strict=True)])
    assert drift.neighbor_overlap(x, y) == pytest.approx(overlap)


def test_frechet_and_mean_shift(pair):
    x, y = pair
    cx, cy = np.cov(x, rowvar=False), np.cov(y, rowvar=False)
    root = scipy.linalg.sqrtm(cx @ cy).real
    expected = np.sum((x.mean(0) - y.mean(0)) ** 2) + np.trace(cx + cy - 2 * root)
    assert shift.frechet_distance(x, y) == pytest.approx(expected, rel=1e-10)
    assert shift.frechet_distance(x, x) == pytest.approx(0, abs=1e-20)
    assert shift.frechet_distance(x[:4], y[:5]) > 0
    spread = math.sqrt((np.trace(cx) + np.trace(cy)) / 2)
    assert shift.mean_shift(x, y[:50]) == pytest.approx(
        np.linalg.norm(x.mean(0) - y[:50].mean(0))
        / math.sqrt((np.trace(cx) + np.trace(np.cov(y[:50], rowvar=False))) / 2)
    )
    assert shift.mean_shift(x, x + np.array([spread, 0, 0, 0, 0, 0, 0])) == pytest.approx(
        spread / math.sqrt(np.trace(cx))
    )


def test_mmd_is_unbiased_and_its_p_holds():
    random = np.random.default_rng(2)
    results = [shift.mmd(*random.standard_normal((2, 40, 4)), permutations=49) for _ in range(60)]
    assert abs(np.mean([each.value for each in results])) < 0.01
    assert np.mean([each.p_value <= 0.1 for each in results]) < 0.25
    x, y = random.standard_normal((2, 40, 4))
    assert shift.mmd(x, y * 3).p_value <= 0.01
    assert shift.mmd(x * 1e-200 + 0, y * 3e-200).p_value <= 0.01


def test_mmd_against_the_formula():
    x, y = np.random.default_rng(3).standard_normal((2, 15, 3))
    rows = np.vstack([x, y])
    gaps = cdist(rows, rows, "sqeuclidean")
    kernel = np.exp(-gaps / np.median(gaps[np.triu_indices(30, 1)]))
    within = [(part.sum() - 15) / (15 * 14) for part in (kernel[:15, :15], kernel[15:, 15:])]
    assert shift.mmd(x, y, permutations=1).value == pytest.approx(sum(within) - 2 * kernel[:15, 15:].mean(), rel=1e-9)


def test_classifier_drift():
    random = np.random.default_rng(4)
    chance = [shift.classifier_drift(*random.standard_normal((2, 60, 5))).p_value for _ in range(60)]
    assert np.mean(np.array(chance) <= 0.1) < 0.25
    x = random.standard_normal((200, 5))
    found = shift.classifier_drift(x, x[::-1] + 1.5)
    assert found.value > 0.8
    assert found.p_value < 1e-10
    assert shift._binomial_tail(60, 100) == pytest.approx(scipy.stats.binom.sf(59, 100, 0.5), rel=1e-9)


def test_clear_errors(pair):
    x, y = pair
    constant = np.full((120, 7), 0.1)
    for function in (drift.linear_cka, drift.procrustes_distance):
        with pytest.raises(UndefinedMeasureError, match="rows that differ from each other; got 120 equal rows"):
            function(x, constant)
        with pytest.raises(InputError, match=r"same rows; got 120 and 3 rows. Align them by id first"):
            function(x, y[:3])
    with pytest.raises(UndefinedMeasureError, match="got a constant table"):
        drift.cka_from_moments(np.eye(2), np.zeros((2, 2)), np.eye(2))
    with pytest.raises(UndefinedMeasureError, match="got a constant table"):
        drift.procrustes_from_moments(np.eye(2), 0.0, 1.0)
    with pytest.raises(UndefinedMeasureError, match="at least 4 rows; got 3"):
        drift.linear_cka(x[:3], y[:3], debiased=True)
    with pytest.raises(UndefinedMeasureError, match="rank k=9 or more; got rank 7"):
        drift.principal_angles(x, y, 9)
    with pytest.raises(InputError, match="k ≥ 1"):
        drift.principal_angles(x, y, 0)
    with pytest.raises(InputError, match="one dim; got 7 and 3"):
        shift.frechet_distance(x, y[:, :3])
    with pytest.raises(UndefinedMeasureError, match="got 120 zero rows"):
        drift.row_displacement(0 * x, y)
    with pytest.raises(UndefinedMeasureError, match="got 120 zero rows"):
        drift.row_cosine(x, 0 * y)
    with pytest.raises(UndefinedMeasureError, match="two constant tables"):
        shift.mean_shift(constant, constant)
    with pytest.raises(UndefinedMeasureError, match="got 240 equal rows"):
        shift.mmd(0 * x, 0 * y)
    with pytest.raises(UndefinedMeasureError, match="got 240 equal rows"):
        shift.classifier_drift(0 * x, 0 * y)
    with pytest.raises(UndefinedMeasureError, match="got 2 zeros"):
        shift.spectrum_difference([0.0, 0.0], [1.0])


@pytest.mark.parametrize(
    ("moments", "error", "message"),
    [
        (([0, 0], np.full((2, 2), np.nan), [0, 0], np.eye(2)), UndefinedMeasureError, "needs a finite covariance; got"),
        (([0, 0], np.eye(2), [0, np.inf], np.eye(2)), UndefinedMeasureError, "needs a finite mean; got NaN or"),
        (([0, 0], np.eye(2), [0], np.eye(1)), InputError, "one dim; got means of 2 and 1 and covariances of 2 and 1"),
        (([0, 0, 0], np.eye(2), [0, 0, 0], np.eye(2)), InputError, "means of 3 and 3 and covariances of 2 and 2"),
        (([0, 0], np.eye(2)[:1], [0, 0], np.eye(2)), InputError, r"symmetric covariance; got one of shape \(1, 2\)"),
        (([0, 0], [[1, 2], [0, 1]], [0, 0], np.eye(2)), InputError, "needs a symmetric covariance"),
        (([0, 0], -np.eye(2), [0, 0], np.eye(2)), InputError, "without negative eigenvalues; got -1"),
        (([[0, 0]], np.eye(2), [0, 0], np.eye(2)), InputError, r"a mean of shape \(dim,\); got shape \(1, 2\)"),
    ],
)
def test_moments_that_have_no_frechet_distance(moments, error, message):
    with pytest.raises(error, match=message) as caught:
        shift.frechet_from_moments(*moments)
    assert type(caught.value) is error


def test_tables_whose_covariance_overflows_have_no_frechet_distance():
    x = np.array([[1e200], [-1e200], [0.0]])
    with np.errstate(over="ignore"), pytest.raises(UndefinedMeasureError, match="beyond 1e154 overflow"):
        shift.frechet_distance(x, x)
