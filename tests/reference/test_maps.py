"""Maps and separability against scikit-learn and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from scipy.spatial import procrustes
from sklearn import manifold
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_samples
from sklearn.neighbors import KNeighborsClassifier

from fullspan.measures.map_quality import continuity, trustworthiness
from fullspan.measures.projection import pca_map, procrustes_align
from fullspan.measures.separability import neighbor_purity_estimate, silhouette_estimate

RANDOM = np.random.default_rng(7)
LABELS = RANDOM.integers(0, 6, 400)
E = RANDOM.normal(size=(400, 12)) * np.linspace(3, 1, 12) + 1.5 * RANDOM.normal(size=(6, 12))[LABELS] + 2
FLAT = E[:, :2] + RANDOM.normal(size=(400, 2))


@pytest.mark.parametrize("shape", [(400, 12), (9, 12), (12, 3)])
def test_principal_axes(shape):
    table = E[: shape[0], : shape[1]]
    theirs = PCA(2, svd_solver="full").fit_transform(table)
    assert pca_map(table) == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("k", [1, 5, 40])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_trustworthiness(k, metric):
    theirs = manifold.trustworthiness(E, FLAT, n_neighbors=k, metric=metric)
    assert trustworthiness(E, FLAT, k, metric=metric) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("k", [1, 5, 40])
def test_continuity_is_trustworthiness_the_other_way_round(k):
    assert continuity(E, FLAT, k) == pytest.approx(manifold.trustworthiness(FLAT, E, n_neighbors=k), abs=1e-12)


def test_rotation_alone():
    turn, _ = orthogonal_procrustes(E[:, :2], FLAT)
    assert procrustes_align(E[:, :2], FLAT, shift=False) == pytest.approx(E[:, :2] @ turn, abs=1e-12)


def test_shift_and_scale():
    """Scipy works on standardized maps: its mapped one, brought back to the size and place of the reference."""
    _, theirs, _ = procrustes(FLAT, E[:, :2])
    center = FLAT.mean(axis=0)
    ours = procrustes_align(E[:, :2], FLAT, scale=True)
    assert (ours - center) / np.linalg.norm(FLAT - center) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("n_labels", [2, 6, 200])  # 200 goes past the matrix product
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_silhouettes(metric, n_labels):
    labels = np.concatenate([np.arange(n_labels), RANDOM.integers(0, n_labels, 400 - n_labels)])
    ours = silhouette_estimate(E, labels, metric=metric, max_rows=None, permutations=0)
    theirs = silhouette_samples(E, labels, metric=metric)
    assert ours.samples == pytest.approx(theirs, abs=1e-9)
    assert ours.value == pytest.approx(theirs.mean(), abs=1e-9)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_asked_rows_have_their_own_silhouettes(metric):
    ours = silhouette_estimate(E, LABELS, metric=metric, max_rows=50, permutations=0, seed=3)
    assert ours.samples == pytest.approx(silhouette_samples(E, LABELS, metric=metric)[ours.rows], abs=1e-9)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_purity_is_the_left_out_vote_of_the_nearest_neighbors(metric):
    model = KNeighborsClassifier(8, metric=metric).fit(E, LABELS)
    indices = model.kneighbors(return_distance=False)  # without an argument, a row is not its own neighbor
    theirs = (LABELS[indices] == LABELS[:, None]).mean(axis=1)
    assert neighbor_purity_estimate(E, LABELS, 8, metric=metric).samples == pytest.approx(theirs, abs=1e-12)
