"""Isotropy, cosines, norms and frequency against direct formulas over all pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from sklearn.metrics.pairwise import cosine_similarity

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import directions, isotropy, norms, spectrum, sphere


def table(n=150, dim=9, seed=0, offset=0.4):
    random = np.random.default_rng(seed)
    return random.standard_normal((n, dim)) * np.arange(1, dim + 1) ** -0.5 + offset


def all_cosines(E):
    E = np.asarray(E, dtype=np.float64)
    return cosine_similarity(E)[np.triu_indices(len(E), 1)]


def steps_of_iso_score(eigenvalues):
    """The seven steps of the paper, one by one."""
    n = len(eigenvalues)
    hat = eigenvalues * np.sqrt(n) / np.linalg.norm(eigenvalues)
    defect = np.linalg.norm(hat - 1) / np.sqrt(2 * (n - np.sqrt(n)))
    return ((n - defect**2 * (n - np.sqrt(n))) ** 2 - n) / (n * (n - 1))


@pytest.mark.parametrize("dim", [2, 5, 40])
def test_iso_score_is_the_seven_steps(dim):
    eigenvalues = np.random.default_rng(dim).random(dim)
    assert isotropy.iso_score(eigenvalues) == pytest.approx(steps_of_iso_score(eigenvalues), rel=1e-10)
    assert isotropy.iso_score(np.ones(dim)) == pytest.approx(1)
    assert isotropy.iso_score(np.eye(dim)[0]) == pytest.approx(0)
    with pytest.raises(UndefinedMeasureError, match="at least two dimensions; got 1"):
        isotropy.iso_score([1.0])


def test_iso_score_star_undoes_the_bias():
    random = np.random.default_rng(0)
    E = random.standard_normal((70, 64))
    values = np.linalg.eigvalsh(np.cov(E, rowvar=False))
    assert isotropy.iso_score(values) == pytest.approx(0.5, abs=0.05)
    assert isotropy.iso_score_star(values, 70) > 0.97
    narrow = np.linalg.eigvalsh(np.cov(table(5000, 20), rowvar=False))
    assert isotropy.iso_score_star(narrow, 5000) == pytest.approx(isotropy.iso_score(narrow), rel=0.01)
    assert isotropy.iso_score_star(narrow, 5000, shrinkage=0.0) == isotropy.iso_score(narrow)
    with pytest.raises(InputError, match=r"shrinkage in \[0, 1\]"):
        isotropy.iso_score_star(narrow, 5000, shrinkage=2)
    with pytest.raises(UndefinedMeasureError, match="two dimensions and two rows; got 20 and 1"):
        isotropy.iso_score_star(narrow, 1)


@pytest.mark.parametrize("center", [False, True])
def test_isotropy_against_the_definition(center):
    E = table()
    X = E - E.mean(0) if center else E
    axes = np.linalg.eigh(X.T @ X)[1]
    one = np.exp(X @ axes).sum(0)
    both = np.concatenate([one, np.exp(-X @ axes).sum(0)])
    assert isotropy.isotropy(E, signs="eigh", center=center) == pytest.approx(one.min() / one.max(), rel=1e-9)
    assert isotropy.isotropy(E, center=center) == pytest.approx(both.min() / both.max(), rel=1e-9)
    signed = axes * np.sign(axes[np.abs(axes).argmax(0), np.arange(9)])
    z = np.exp(X @ signed).sum(0)
    assert isotropy.isotropy(E, signs="one", center=center) == pytest.approx(z.min() / z.max(), rel=1e-9)


def test_isotropy_does_not_overflow_and_depends_on_scale():
    E = table() * 1e4
    assert isotropy.isotropy(E) == 0.0
    assert 0 < isotropy.isotropy(E * 2e-5) < isotropy.isotropy(E * 1e-5) < 1
    np.testing.assert_allclose(isotropy.log_partition(E, np.eye(9)), scipy.special.logsumexp(E, axis=0), rtol=1e-13)
    assert isotropy.isotropy_of_partition([2.0, 3.0], [1.0, 2.0]) == pytest.approx(math.exp(-2))
    assert isotropy.isotropy(E * 0 + 1e-30) == pytest.approx(1)


def test_isotropy_errors():
    with pytest.raises(UndefinedMeasureError, match="got 4 zero rows after centering"):
        isotropy.isotropy(np.ones((4, 3)), center=True)
    with pytest.raises(InputError, match='one of "both", "one", "eigh"; got "two"'):
        isotropy.isotropy(np.eye(3), signs="two")
    with pytest.raises(InputError, match="directions of the table's dim 3; got 2"):
        isotropy.log_partition(np.eye(3), np.eye(2))
    with pytest.raises(UndefinedMeasureError, match="at least one direction; got none"):
        isotropy.isotropy_of_partition([])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1.0, 100.0, 1e4])
def test_cosines_against_all_pairs(dtype, offset):
    E = table(offset=offset).astype(dtype)
    pairs = all_cosines(E)
    gap = np.mean(1 - pairs)  # what is left of the digits when all cosines are near 1
    exact = E.astype(np.float64)
    unit = exact / np.linalg.norm(exact, axis=1)[:, None]
    left, right = np.triu_indices(len(E), 1)
    gap = np.mean(np.sum((unit[left] - unit[right]) ** 2, axis=1)) / 2
    assert 1 - directions.average_cosine(E) == pytest.approx(gap, rel=1e-6 if offset > 1 else 1e-10, abs=1e-15)
    assert directions.average_cosine(E) == pytest.approx(pairs.mean(), rel=1e-10)
    assert directions.cosine_deviation(E) == pytest.approx(pairs.std(), rel=1e-6, abs=1e-13 if offset > 1 else 0)


def test_opposite_clusters_are_negative():
    assert directions.average_cosine([[1.0, 0.0], [-1.0, 0.0]]) == pytest.approx(-1)
    simplex = np.eye(4) - 0.25
    assert directions.average_cosine(simplex) == pytest.approx(-1 / 3)
    assert directions.cosine_deviation(simplex) == pytest.approx(0, abs=1e-8)


def test_zero_rows_have_no_direction():
    E = table()
    padded = np.vstack([E, np.zeros((5, 9))])
    for function in (
        directions.average_cosine,
        directions.cosine_deviation,
        directions.unit_deviation,
        directions.rogue_dimension_share,
        sphere.uniformity,
    ):
        assert function(padded) == function(E)
        with pytest.raises(UndefinedMeasureError, match=r"needs at least one non-zero row; got 3 zero rows"):
            function(np.zeros((3, 4)))
        if function is not directions.rogue_dimension_share:
            with pytest.raises(UndefinedMeasureError, match="at least two non-zero rows; got 1"):
                function(np.ones((1, 4)))


def test_centered_cosine_and_removed_components():
    E = table(offset=50.0)
    X = E - E.mean(0)
    assert directions.centered_average_cosine(E) == pytest.approx(all_cosines(X).mean(), abs=1e-9)
    axes = np.linalg.svd(X, full_matrices=False)[2][:2]
    assert directions.centered_average_cosine(E, remove=2) == pytest.approx(
        all_cosines(X - X @ axes.T @ axes).mean(), abs=1e-9
    )
    with pytest.raises(InputError, match="remove in 0 … 8; got 9"):
        directions.centered_average_cosine(E, remove=9)
    with pytest.raises(UndefinedMeasureError, match="non-zero row"):
        directions.centered_average_cosine(np.full((4, 3), 0.1))


def test_rogue_dimension_and_unit_deviation():
    E = table(offset=0.0)
    E[:, 3] += 30
    unit = E / np.linalg.norm(E, axis=1)[:, None]
    mean = unit.mean(0)
    assert directions.rogue_dimension_share(E) == pytest.approx(mean[3] ** 2 / (mean @ mean), rel=1e-12)
    assert directions.unit_deviation(E) == pytest.approx(3 * torch.from_numpy(unit).std(dim=0).mean().item(), rel=1e-12)
    with pytest.raises(UndefinedMeasureError, match="the rows cancel"):
        directions.rogue_dimension_share([[1.0, 1.0], [-1.0, -1.0]])


def test_the_error_of_uniformity_over_all_pairs_is_the_jackknife():
    E = np.random.default_rng(2).normal(size=(40, 5)) + 0.5
    found = sphere.uniformity_estimate(E)
    kernels = [math.exp(sphere.uniformity(np.delete(E, row, axis=0))) for row in range(len(E))]
    expected = math.sqrt(39 / 40 * np.sum((kernels - np.mean(kernels)) ** 2)) / math.exp(found.value)
    assert found.standard_error == pytest.approx(expected, rel=1e-10)
    assert sphere.uniformity_estimate(E[:2]).standard_error == 0.0


def test_uniformity_and_alignment():
    E = table(60)
    unit = torch.from_numpy(E / np.linalg.norm(E, axis=1)[:, None])
    expected = torch.pdist(unit).pow(2).mul(-2).exp().mean().log().item()
    assert sphere.uniformity(E) == pytest.approx(expected, rel=1e-12)
    sampled = sphere.uniformity_estimate(E, max_pairs=1000)
    assert sampled.standard_error > 0
    assert abs(sampled.value - expected) < 4 * sampled.standard_error
    assert sphere.alignment(E, -3 * E) == pytest.approx(4)
    assert sphere.alignment(E, 3 * E) == pytest.approx(0, abs=1e-14)
    assert sphere.alignment(E, -E, power=1) == pytest.approx(2)
    with pytest.raises(InputError, match="t > 0"):
        sphere.uniformity(E, t=0)
    with pytest.raises(InputError, match="two tables of one shape"):
        sphere.alignment(E, E[:3])
    with pytest.raises(UndefinedMeasureError, match="got 1 zero rows"):
        sphere.alignment(np.eye(2), np.array([[0.0, 0.0], [1.0, 0.0]]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_norms(dtype):
    E = table(offset=3.0).astype(dtype)
    wide = E.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1)
    assert norms.mean_norm(E) == pytest.approx(lengths.mean(), rel=1e-13)
    assert norms.mean_vector_norm(E) == pytest.approx(np.linalg.norm(wide.mean(0)), rel=1e-13)
    assert norms.mean_norm_ratio(E) == pytest.approx(np.linalg.norm(wide.mean(0)) / lengths.mean(), rel=1e-13)
    assert norms.norm_variation(E) == pytest.approx(lengths.std(ddof=1) / lengths.mean(), rel=1e-12)
    assert norms.mean_norm_ratio(np.ones((3, 4))) == 1.0
    assert norms.mean_norm(E * 1e-30 if dtype == np.float32 else E * 1e-300) > 0
    with pytest.raises(UndefinedMeasureError, match=r"got 3 zero rows. Is the table still at its zero init"):
        norms.mean_norm_ratio(np.zeros((3, 2)))
    with pytest.raises(UndefinedMeasureError, match="got 3 zero rows"):
        norms.norm_variation(np.zeros((3, 2)))
    with pytest.raises(UndefinedMeasureError, match="at least 1 row; got 0"):
        norms.mean_norm(np.zeros((0, 2)))


def test_length_frequency_correlation():
    random = np.random.default_rng(0)
    lengths, counts = random.random(80), random.integers(0, 30, 80)
    correlation = norms.length_frequency_correlation
    assert correlation(lengths, counts) == pytest.approx(100 * scipy.stats.pearsonr(lengths, counts)[0], rel=1e-10)
    assert correlation(lengths, counts, kind="spearman") == pytest.approx(
        100 * scipy.stats.spearmanr(lengths, counts)[0], rel=1e-10
    )
    logs = np.log(counts / counts.sum() + 1e-10)
    assert correlation(lengths, counts, kind="log") == pytest.approx(100 * np.corrcoef(lengths, logs)[0, 1], rel=1e-10)
    assert correlation(lengths * 1e200, counts * 1e-200) == pytest.approx(correlation(lengths, counts), rel=1e-10)
    np.testing.assert_array_equal(norms.ranks(counts.astype(float)), scipy.stats.rankdata(counts))
    with pytest.raises(UndefinedMeasureError, match="norms that vary; got 80 equal values"):
        correlation(np.full(80, 0.1), counts)
    with pytest.raises(UndefinedMeasureError, match="frequencies that vary"):
        correlation(lengths, np.ones(80))
    with pytest.raises(InputError, match="one frequency for each row; got 80 norms and 3"):
        correlation(lengths, [1, 2, 3])
    with pytest.raises(InputError, match="not negative; got -1"):
        correlation([1.0, 2.0], [1, -1])
    with pytest.raises(UndefinedMeasureError, match="at least two pairs of values; got 1"):
        correlation([1.0], [1])


def test_rank_of_isotropic_tables_is_not_touched_by_signs():
    E = np.vstack([np.eye(6), -np.eye(6)])
    assert isotropy.isotropy(E) == pytest.approx(1)
    assert spectrum.effective_rank(np.linalg.svd(E, compute_uv=False)) == pytest.approx(6)


def test_a_tensor_is_as_good_as_an_array():
    E = table()
    for function in (directions.average_cosine, norms.mean_norm, isotropy.isotropy):
        assert function(torch.from_numpy(E)) == function(E)
        assert function(torch.from_numpy(E).bfloat16()) == pytest.approx(function(E), rel=0.05)
        assert function(torch.nn.Parameter(torch.from_numpy(E))) == function(E)
