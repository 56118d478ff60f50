"""Nearest neighbors and what follows from them against brute force and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import local, neighbors

SEARCH = neighbors.nearest_neighbors


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((300, 6)) + 0.5


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_against_scikit_learn(rows, metric, dtype):
    rows = rows.astype(dtype)
    found = SEARCH(rows, k=7, metric=metric)
    wide = rows.astype(np.float64)
    distances, indices = NearestNeighbors(n_neighbors=7, metric=metric, algorithm="brute").fit(wide).kneighbors()
    np.testing.assert_array_equal(found.indices, indices)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-9, atol=1e-15)
    points = wide / np.linalg.norm(wide, axis=1)[:, None] if metric == "cosine" else wide
    assert found.mean_distance == pytest.approx(cdist(points, points).sum() / (300 * 299), rel=1e-10)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_a_huge_offset_costs_no_neighbors(rows, metric):
    far = rows + 1e4
    found = SEARCH(far, k=5, metric=metric)
    points = far.astype(np.longdouble)
    if metric == "cosine":
        points = points / np.sqrt((points**2).sum(1))[:, None]
    exact = np.sqrt(((points[:, None] - points[None]) ** 2).sum(2)).astype(np.float64)
    np.fill_diagonal(exact, np.inf)
    expected = np.sort(exact, axis=1)[:, :5]
    np.testing.assert_allclose(found.euclidean, expected, rtol=1e-6)


def test_zero_rows_are_left_out_of_the_cosine(rows):
    padded = np.insert(rows, [0, 10], 0.0, axis=0)
    found = SEARCH(padded, k=3)
    np.testing.assert_array_equal(found.indices, SEARCH(rows, k=3).indices)
    np.testing.assert_array_equal(padded[found.kept], rows)


def test_hubs_against_direct_counts(rows):
    found = SEARCH(rows, k=10)
    counts = neighbors.k_occurrence(found)
    np.testing.assert_array_equal(counts, [(found.indices == i).sum() for i in range(300)])
    assert neighbors.hubness_skew(found) == pytest.approx(scipy.stats.skew(counts), rel=1e-12)
    assert neighbors.max_occurrence(found) == counts.max() / 299
    assert neighbors.antihub_share(found) == np.mean(counts == 0)
    assert neighbors.robin_hood_index(found) == pytest.approx(np.abs(counts - 10).sum() / (2 * 10 * 300))
    assert neighbors.hubness_skew(rows, 4) == neighbors.hubness_skew(found, 4)
    with pytest.raises(InputError, match="k_occurrence needs 11 neighbors of each row; got 10"):
        neighbors.k_occurrence(found, 11)


def test_a_star_has_a_hub():
    star = np.vstack([np.zeros(8), np.eye(8) * (1 + np.arange(8) / 100)])
    assert neighbors.max_occurrence(star, k=1, metric="euclidean") == 1.0
    assert neighbors.antihub_share(star, k=1, metric="euclidean") == pytest.approx(7 / 9)


def test_ties_do_not_read_as_hubs():
    with pytest.raises(UndefinedMeasureError, match="at least two distinct rows; got 50 equal rows"):
        neighbors.hubness_skew(np.ones((50, 4)))
    mostly = np.tile([1.0, 2.0, 3.0], (600, 1))
    mostly[0] = [3.0, 2.0, 1.0]
    assert neighbors.k_occurrence(mostly)[1:].max() <= 11
    cube = np.random.default_rng(0).integers(0, 2, (800, 10)) * 2.0 - 1
    assert abs(neighbors.hubness_skew(cube)) < 1
    corners = np.vstack([np.eye(40), -np.eye(40)])
    with pytest.raises(UndefinedMeasureError, match="rows that occur unequally often; got 5 for each of 40 rows"):
        neighbors.hubness_skew(corners[:40], k=5)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_intrinsic_dimension_of_a_cube_in_many_dimensions(dim):
    random = np.random.default_rng(dim)
    rows = random.random((1200, dim)) @ np.linalg.qr(random.standard_normal((20, dim)))[0].T
    assert local.two_nn_dimension(rows) == pytest.approx(dim, rel=0.12)
    assert local.two_nn_dimension(rows, method="mle") == pytest.approx(dim, rel=0.12)
    assert local.mle_dimension(rows, 10) == pytest.approx(dim, rel=0.15)  # the faces of the cube lower it


def test_two_nn_against_the_paper_formula(rows):
    r = NearestNeighbors(n_neighbors=2).fit(rows).kneighbors()[0]
    mu = np.sort(np.log(r[:, 1] / r[:, 0]))
    assert local.two_nn_dimension(rows, method="mle") == pytest.approx(300 / mu.sum(), rel=1e-9)
    kept = int(300 * 0.9)
    y = -np.log(1 - np.arange(1, kept + 1) / 301)
    assert local.two_nn_dimension(rows) == pytest.approx((mu[:kept] @ y) / (mu[:kept] @ mu[:kept]), rel=1e-9)


def test_mle_against_a_loop(rows):
    r = NearestNeighbors(n_neighbors=10).fit(rows).kneighbors()[0]
    inverse = np.mean([np.mean([np.log(row[-1] / each) for each in row[:-1]]) for row in r])
    assert local.mle_dimension(rows, 10) == pytest.approx(1 / inverse, rel=1e-9)
    with pytest.raises(InputError, match="k ≥ 2"):
        local.mle_dimension(rows, 1)


@pytest.mark.parametrize("copy", ["exact", "float32", "tiny"])
def test_copies_do_not_change_the_dimension(copy):
    rows = np.random.default_rng(3).standard_normal((800, 10))
    near = {"exact": rows, "float32": rows.astype(np.float32).astype(np.float64), "tiny": rows * (1 + 1e-9)}[copy]
    doubled = np.vstack([rows, near])
    alone = local.two_nn_dimension(rows)
    assert local.two_nn_dimension(doubled) == pytest.approx(alone, rel=0.02)
    found = SEARCH(doubled, k=10, metric="euclidean")
    assert found.n_copies == 1600
    assert local.near_duplicate_share(found) == 1.0


def test_contrast(rows):
    r = NearestNeighbors(n_neighbors=1).fit(rows).kneighbors()[0]
    expected = cdist(rows, rows).sum() / (300 * 299) / r.mean()
    assert local.relative_contrast(rows, metric="euclidean") == pytest.approx(expected, rel=1e-10)
    with pytest.raises(UndefinedMeasureError, match="got a copy of every row"):
        local.relative_contrast([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert local.near_duplicate_share(rows) < 0.1


@pytest.mark.parametrize("scale", [1e-200, 1e-25, 1e25, 1e200])
def test_scale_does_not_matter(rows, scale):
    for metric in ("cosine", "euclidean"):
        np.testing.assert_array_equal(SEARCH(rows * scale, 5, metric).indices, SEARCH(rows, 5, metric).indices)
    assert local.relative_contrast(rows * scale, metric="euclidean") == pytest.approx(
        local.relative_contrast(rows, metric="euclidean"), rel=1e-10
    )


def test_clear_errors(rows):
    with pytest.raises(UndefinedMeasureError, match="more than k=10 non-zero rows; got 5"):
        SEARCH(rows[:5])
    with pytest.raises(UndefinedMeasureError, match="at least one non-zero row; got 20 zero rows"):
        SEARCH(np.zeros((20, 3)))
    with pytest.raises(InputError, match='one of "cosine", "euclidean"; got "dot"'):
        SEARCH(rows, metric="dot")
    with pytest.raises(InputError, match="k ≥ 1; got 0"):
        SEARCH(rows, k=0)
    with pytest.raises(InputError, match="got 1 NaN or infinite values, the first in row 4"):
        SEARCH(np.where(np.arange(300)[:, None] * 6 + np.arange(6) == 25, np.nan, rows))
    with pytest.raises(UndefinedMeasureError, match="distinct neighbor distances; got 0"):
        local.two_nn_dimension([[0.0], [1.0]])
    with pytest.raises(InputError, match=r"discard in \[0, 1\)"):
        local.two_nn_dimension(rows, discard=1.0)
    with pytest.raises(UndefinedMeasureError, match="got none of 4"):
        local.mle_dimension(np.eye(4), 3)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_local_outlier_factor_is_that_of_scikit_learn(metric):
    from sklearn.neighbors import LocalOutlierFactor

    E = np.random.default_rng(4).standard_normal((300, 5)) + 1
    E[:5] *= [[3.0], [4.0], [5.0], [6.0], [9.0]]
    points = E / np.linalg.norm(E, axis=1, keepdims=True) if metric == "cosine" else E
    expected = -LocalOutlierFactor(10).fit(points).negative_outlier_factor_
    found = local.local_outlier_factor(E, metric=metric)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert local.outlier_share(E, metric=metric) == pytest.approx((expected > 1.5).mean())


def test_copies_have_a_finite_outlier_factor():
    E = np.random.default_rng(5).standard_normal((100, 4))
    E[:30] = E[0]
    assert np.isfinite(local.local_outlier_factor(E)).all()


def test_some_neighbors_give_no_outlier_factor():
    found = neighbors.nearest_neighbors(np.random.default_rng(5).standard_normal((50, 4)), 5)
    with pytest.raises(InputError, match="neighbors of all rows"):
        local.local_outlier_factor(found.only(np.arange(50) < 20), 5)


OF_NEIGHBORS = [
    neighbors.hubness_skew,
    neighbors.antihub_share,
    neighbors.robin_hood_index,
    local.two_nn_dimension,
    local.mle_dimension,
    local.relative_contrast,
]


def test_standard_errors_are_the_spread_over_samples():
    random = np.random.default_rng(6)
    centers = random.normal(size=(8, 24))
    scales = np.linspace(0.3, 2, 24)
    values, errors = [], []
    for _ in range(30):
        sample = random.normal(size=(600, 24)) * scales + 1.2 * centers[random.integers(0, 8, 600)]
        found = neighbors.nearest_neighbors(sample)
        values.append([measure(found) for measure in OF_NEIGHBORS])
        errors.append([neighbors.sampling_error(measure, found) for measure in OF_NEIGHBORS])
    ratio = np.mean(errors, axis=0) / np.std(values, axis=0)
    assert ((ratio > 0.6) & (ratio < 1.7)).all(), ratio


def test_search_stays_within_its_memory():
    import tracemalloc

    sample = np.random.default_rng(7).standard_normal((4096, 16))
    tracemalloc.start()
    neighbors.nearest_neighbors(sample)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6
