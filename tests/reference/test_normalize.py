"""Normalizers against scikit-learn, and where scikit-learn fails: offsets, missing rank, few rows, extreme rows."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan.errors import InputError
from fullspan.normalize.affine import Affine
from fullspan.normalize.outliers import Clip, Outliers
from fullspan.normalize.pipeline import make_pipeline
from fullspan.normalize.scale import Center, MinMax, RobustScale, Standardize
from fullspan.normalize.unit import UnitNorm
from fullspan.normalize.whiten import PCA, RemoveTop, Whiten

ROTATIONS = ("zca", "zca-cor", "pca", "cholesky")


def table(n_rows: int, dim: int, seed: int = 0, offset: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mixed = (
        rng.normal(size=(n_rows, dim))
        * np.geomspace(1.0, 1.0 / dim, dim)
        @ np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    )
    return mixed + offset


def whiteness(rows: np.ndarray) -> float:
    """How far the covariance is from the identity."""
    return float(np.abs(np.cov(rows.astype(np.float64), rowvar=False) - np.eye(rows.shape[1])).max())


@pytest.mark.parametrize("offset", [0.0, 1.0, 10.0, 100.0, 1e3, 1e4])
@pytest.mark.parametrize("kind", ["axes", "mixed"])
def test_whitened_covariance_at_offsets(offset, kind):
    rng = np.random.default_rng(1)
    E = rng.normal(size=(6000, 64)) * np.geomspace(1.0, 1 / 64, 64) if kind == "axes" else table(6000, 64)
    E = (E + offset).astype(np.float32)
    for rotation in ROTATIONS:
        made = Whiten(rotation).fit(E).transform(E)
        assert made.dtype == np.float32
        assert whiteness(made) < 1e-5
    truth = np.linalg.eigvalsh(np.cov(E.astype(np.float64), rowvar=False))[::-1]
    assert np.allclose(PCA().fit(E).eigenvalues_, truth, rtol=1e-9)


def test_scikit_learn_fails_there():
    """The reason for the test above: the default of its PCA, in float32, with a mean of ten deviations."""
    from sklearn.decomposition import PCA as Theirs

    E = (table(6000, 64) + 100.0).astype(np.float32)
    with np.errstate(all="ignore"):
        assert whiteness(Theirs(whiten=True).fit_transform(E)) > 0.1


@pytest.mark.parametrize("options", [{}, {"power": 0.5}, {"epsilon": 0.3}, {"shrinkage": "oas"}, {"k": 5}])
def test_all_rotations_give_equal_cosines(options):
    E = (table(500, 12, offset=3.0) * np.linspace(1.0, 9.0, 12)).astype(np.float32)
    cosines = []
    for rotation in ROTATIONS:
        made = UnitNorm().fit_transform(Whiten(rotation, **options).fit(E).transform(E)).astype(np.float64)
        cosines.append(made[:100] @ made.T)
    for other in cosines[1:]:
        assert np.abs(other - cosines[0]).max() < 1e-6


def test_rotations_are_what_their_names_say():
    E = table(800, 6, offset=2.0) * [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    covariance = np.cov(E, rowvar=False)
    spread = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance)
    assert np.allclose(Whiten("zca").fit(E).matrix_, vectors / np.sqrt(values) @ vectors.T)
    values, vectors = np.linalg.eigh(covariance / np.outer(spread, spread))
    wanted = (vectors / np.sqrt(values) @ vectors.T) / spread  # P^-1/2 D^-1/2, for columns
    assert np.allclose(Whiten("zca-cor").fit(E).matrix_, wanted.T)
    assert np.allclose(Whiten("cholesky").fit(E).matrix_, np.linalg.cholesky(np.linalg.inv(covariance)))


def test_columns_stay_closest_under_their_rotation():
    E = table(2000, 8, seed=4) @ np.diag(np.linspace(1.0, 30.0, 8))
    spread = E.std(axis=0)

    def nearness(rotation: str, scale: np.ndarray) -> float:
        made = Whiten(rotation).fit(E).transform(E)
        return float(np.sum((made * (E - E.mean(axis=0)) / scale).mean(axis=0)))

    assert max(ROTATIONS, key=lambda each: nearness(each, np.ones(8))) == "zca"
    assert max(ROTATIONS, key=lambda each: nearness(each, spread)) == "zca-cor"


def test_scikit_learn_agrees():
    from sklearn import decomposition, preprocessing

    E = table(3000, 10, offset=0.5)
    for ours, theirs in (
        (Standardize(), preprocessing.StandardScaler()),
        (MinMax(), preprocessing.MinMaxScaler()),
        (MinMax(-1, 3), preprocessing.MinMaxScaler((-1, 3))),
        (RobustScale(), preprocessing.RobustScaler()),
        (RobustScale((0.1, 0.9)), preprocessing.RobustScaler(quantile_range=(10.0, 90.0))),
        (UnitNorm(), preprocessing.Normalizer()),
    ):
        assert np.allclose(ours.fit_transform(E), theirs.fit_transform(E), rtol=1e-10, atol=1e-10), ours
    ours, theirs = PCA(4).fit(E), decomposition.PCA(4, svd_solver="full").fit(E)
    assert np.allclose(np.abs(ours.transform(E)), np.abs(theirs.transform(E)), atol=1e-9)
    assert np.allclose(ours.explained_variance_ratio_, theirs.explained_variance_ratio_)
    whitened = decomposition.PCA(whiten=True, svd_solver="full").fit_transform(E)
    assert np.allclose(np.abs(Whiten("pca").fit(E).transform(E)), np.abs(whitened), atol=1e-8)


@pytest.mark.parametrize(("n_rows", "dim"), [(300, 20), (30, 60)])
def test_shrinkage_is_that_of_scikit_learn(n_rows, dim):
    from sklearn.covariance import ledoit_wolf_shrinkage, oas

    E = table(n_rows, dim, offset=50.0)
    assert Whiten(shrinkage="ledoit-wolf").fit(E).shrinkage_ == pytest.approx(ledoit_wolf_shrinkage(E), rel=1e-8)
    assert Whiten(shrinkage="oas").fit(E).shrinkage_ == pytest.approx(oas(E)[1], rel=1e-8)


def test_robust_scale_of_many_rows_is_close():
    E = np.random.default_rng(0).standard_t(3, size=(150_000, 3)).astype(np.float32)
    fitted = RobustScale().fit(E)
    low, middle, high = np.quantile(E.astype(np.float64), (0.25, 0.5, 0.75), axis=0)
    assert np.abs(fitted.scale_ / (high - low) - 1.0).max() < 1e-3
    assert np.abs(fitted.center_ - middle).max() < 1e-3 * (high - low).min()


def test_median_absolute_deviation():
    for n_rows in (401, 30_000):
        E = np.random.default_rng(0).lognormal(size=(n_rows, 4))
        middle = np.median(E, axis=0)
        spread = np.median(np.abs(E - middle), axis=0) * 1.4826022
        clip = Clip(2.0, "mad").fit(E)
        assert np.allclose(clip.high_, middle + 2.0 * spread, rtol=1e-7 if n_rows == 401 else 5e-3)
        assert np.allclose(clip.transform(E), np.clip(E, clip.low_, clip.high_))


def test_fewer_rows_than_dimensions():
    rng = np.random.default_rng(0)
    spread = np.geomspace(1.0, 0.01, 384)
    E, fresh = (rng.normal(size=(n, 384)) * spread + 5.0 for n in (100, 500))
    for options in ({}, {"shrinkage": "oas"}, {"shrinkage": "ledoit-wolf"}, {"power": 0.5}):
        fitted = Whiten(**options).fit(E.astype(np.float32))
        assert fitted.rank_ == 99
        assert any("rows are few" in note for note in fitted.notes_)
        new = fitted.transform(fresh.astype(np.float32))
        assert np.isfinite(new).all()
        assert np.abs(new).max() < 40.0
    with pytest.raises(InputError, match=r"PCA needs k of at most the numerical rank 99 of this table; got 120\."):
        PCA(120).fit(E)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_output_of_a_layer_norm_lacks_a_direction(kind):
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(3000, 48)) @ rng.normal(size=(48, 48)) + rng.normal(size=48)
    hidden = hidden.astype(kind)
    normed = (hidden - hidden.mean(axis=1, keepdims=True)) / hidden.std(axis=1, keepdims=True)
    E = normed * np.linspace(0.5, 2.0, 48, dtype=kind) + np.linspace(-1.0, 1.0, 48, dtype=kind)
    fitted = Whiten().fit(E)
    made = fitted.transform(E)
    assert fitted.rank_ == 47
    assert "rank 47 of 48" in fitted.notes_[0]
    assert np.abs(made).max() < 30.0
    assert whiteness(Whiten("pca").fit(E).transform(E)) < 1e-4


def test_one_column_without_variance():
    E = table(400, 8, offset=3.0).astype(np.float32)
    E[:, 3] = 0.1
    for normalizer in (Standardize(), MinMax(), RobustScale(), Whiten(), Whiten("zca-cor"), Whiten("cholesky"), PCA()):
        made = normalizer.fit(E).transform(E)
        assert np.isfinite(made).all()
        if made.shape[1] == 8:
            assert not made[:, 3].any() or np.abs(made[:, 3]).max() < 1e-5, normalizer
    assert Whiten().fit(E).rank_ == 7
    assert whiteness(np.delete(Whiten().fit(E).transform(E), 3, axis=1)) < 1e-5


def test_a_dependent_column_under_an_offset_is_rounding():
    """Its variance is far above a share of the largest one, and nothing but the last bit of the float32 values."""
    rng = np.random.default_rng(0)
    E = rng.normal(size=(5000, 3))
    E = np.column_stack([E, E.sum(axis=1)]).astype(np.float32) + np.float32(1e4)
    assert np.linalg.eigvalsh(np.cov(E.astype(np.float64), rowvar=False))[0] > 1e-8
    assert Whiten().fit(E).rank_ == 3


def test_equal_rows_are_refused():
    for normalizer in (Whiten(), PCA()):
        with pytest.raises(InputError, match=r"needs rows that differ, not 1 sample; got 5 equal ones of 3 feature"):
            normalizer.fit(np.full((5, 3), 0.1))


def test_float16_rows_of_norm_300():
    E = np.random.default_rng(0).normal(size=(500, 64)).astype(np.float16)
    E *= np.float16(300.0 / 8.0)
    made = UnitNorm().fit_transform(E)
    assert made.dtype == np.float16
    assert np.abs(np.linalg.norm(made.astype(np.float64), axis=1) - 1.0).max() < 1e-3
    assert whiteness(Whiten().fit(E).transform(E)) < 2e-3
    with pytest.raises(InputError, match=r"A result of type float16 needs values below 6\.55e\+04; got .* float32"):
        MinMax(0, 1e6).fit(E).transform(E)


@pytest.mark.parametrize("size", [1e20, 1e-25, 1e-40, 3e38])
def test_extreme_rows_have_norm_one(size):
    import torch

    E = np.random.default_rng(0).uniform(0.5, 1.0, size=(40, 16))
    E = np.where(np.arange(40)[:, None] % 2, E, E * size).astype(np.float32)
    for made in (UnitNorm().fit_transform(E), UnitNorm().fit_transform(torch.from_numpy(E)).numpy()):
        assert np.abs(np.linalg.norm(made.astype(np.float64), axis=1) - 1.0).max() < (1e-5 if size > 1e-38 else 1e-2)


def test_extreme_tables_give_a_value_or_an_error():
    E = table(300, 6).astype(np.float32)
    for size in (1e15, 1e-15):
        assert whiteness(Whiten().fit(E * np.float32(size)).transform(E * np.float32(size))) < 1e-4
        assert np.allclose(Standardize().fit_transform(E * np.float32(size)).std(axis=0), 1.0, atol=1e-4)
    with pytest.raises(InputError, match=r"A map of float32 rows needs factors between 1e-37 and 3e38; got"):
        Standardize().fit_transform((E.astype(np.float64) * 1e-41).astype(np.float32))


def test_refitting_flips_no_sign():
    E = table(2500, 32, seed=2)
    first = PCA(24).fit(E)
    again = PCA(24, align_to=first).fit(E[100:])
    assert (np.vecdot(first.components_, again.components_) > 0.0).all()
    assert again.component_angles_.max() < 90.0
    assert again.component_angles_[0] < again.component_angles_.max()
    flipped = PCA(24).fit(E)
    flipped.components_ = -first.components_
    turned = PCA(24, align_to=flipped).fit(E[100:])
    assert np.allclose(turned.transform(E), -again.transform(E))
    assert first.transform(E).shape == (2500, 24)
    whole = PCA(32, align_to=PCA(32).fit(E)).fit(E[100:])
    assert whole.angle_ < 1e-4  # both span everything


def test_angle_between_two_fits():
    first = PCA(1).fit(np.outer([-1.0, 0.0, 1.0], [1.0, 0.0]))
    turned = PCA(1, align_to=first).fit(np.outer([-1.0, 0.0, 1.0], [-np.cos(0.3), -np.sin(0.3)]))
    assert turned.angle_ == pytest.approx(np.degrees(0.3))
    assert turned.component_angles_ == pytest.approx([np.degrees(0.3)])
    with pytest.raises(InputError, match=r"PCA needs align_to as an earlier fit to rows of length 3; got PCA with"):
        PCA(align_to=first).fit(table(10, 3))


def test_signs_do_not_depend_on_the_solver():
    fitted = PCA().fit(table(300, 9))
    largest = np.argmax(np.abs(fitted.components_), axis=1)
    assert (fitted.components_[np.arange(9), largest] > 0.0).all()


def test_how_many_components():
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(2000, 3)) * 3.0 @ np.linalg.qr(rng.normal(size=(20, 3)))[0].T
    E = signal + rng.normal(size=(2000, 20))
    assert PCA("parallel").fit(E).components_.shape == (3, 20)
    shares = PCA().fit(E).explained_variance_ratio_.cumsum()
    assert len(PCA(0.6).fit(E).components_) == np.searchsorted(shares, 0.6) + 1
    assert Whiten("zca", k=4).fit(E).transform(E).shape == (2000, 20)
    assert Whiten("pca", k=4).fit(E).transform(E).shape == (2000, 4)


def test_removing_the_top_is_what_the_paper_says():
    E = table(500, 250, offset=1.0)
    centered = E - E.mean(axis=0)
    top = np.linalg.svd(centered, full_matrices=False)[2][:2]
    assert np.allclose(RemoveTop().fit(E).transform(E), centered - centered @ top.T @ top, atol=1e-9)


def test_soft_and_partial_whitening():
    E = table(1000, 5)
    values = PCA().fit(E).eigenvalues_
    soft = np.linalg.eigvalsh(np.cov(Whiten(epsilon=0.5).fit(E).transform(E), rowvar=False))
    assert np.allclose(np.sort(values / (values + 0.5 * values.mean())), soft)
    half = np.linalg.eigvalsh(np.cov(Whiten(power=0.5).fit(E).transform(E), rowvar=False))
    assert np.allclose(np.sort(np.sqrt(values)), half)


def test_folding_many_affine_steps():
    E = table(2000, 32, offset=40.0).astype(np.float32)
    pipe = make_pipeline(Center(), Standardize(), Whiten(epsilon=0.1), RemoveTop(2), PCA(20), Standardize())
    assert pipe.passes == 1
    step = E
    for each in pipe.fit(E):
        step = each.transform(step)
    assert pipe.affine() is not None
    assert np.abs(pipe.transform(E) - step).max() < 1e-6 * np.abs(step).max()
    assert np.array_equal(pipe.fold().transform(E), pipe.transform(E))


def test_one_pass_is_as_good_as_a_pass_a_step():
    E = table(2000, 8, offset=10.0)
    steps = [Standardize(), Whiten("zca", power=0.5), RemoveTop(1), Standardize()]
    pipe, rows = make_pipeline(*steps).fit(E), E
    for step in steps:
        rows = step.fit(rows).transform(rows)
    assert np.allclose(pipe.transform(E), rows, atol=1e-8)


def test_a_direction_that_was_removed_is_not_blown_up():
    E = table(2000, 8, offset=10.0)
    pipe = make_pipeline(Whiten("pca", power=0.5), RemoveTop(1), Standardize()).fit(E)
    made = pipe.transform(E)
    assert np.abs(made[:, 0]).max() < 1e-12
    assert np.allclose(made[:, 1:].std(axis=0), 1.0)


def test_quantiles_follow_through_diagonal_steps():
    E = table(500, 4, offset=3.0)
    pipe = make_pipeline(Standardize(), RobustScale(), MinMax(), RobustScale())
    assert pipe.passes == 1
    assert np.allclose(pipe.fit(E).transform(E), RobustScale().fit_transform(E))


def test_an_affine_map_keeps_its_digits_under_an_offset():
    rng = np.random.default_rng(0)
    E = (rng.normal(size=(500, 16)) + 1e4).astype(np.float32)
    shift, matrix = E.astype(np.float64).mean(axis=0), rng.normal(size=(16, 16))
    wanted = (E.astype(np.float64) - shift) @ matrix
    size = np.abs(wanted).max()
    assert np.abs(Affine(shift, matrix).apply(E) - wanted).max() < 5e-7 * size
    naive = E @ matrix.astype(np.float32) - (shift @ matrix).astype(np.float32)
    assert np.abs(naive - wanted).max() > 1e-4 * size


def test_steep_maps_are_multiplied_in_float64():
    rng = np.random.default_rng(0)
    E = rng.normal(size=(4000, 12)) * np.geomspace(1.0, 1e-4, 12) @ np.linalg.qr(rng.normal(size=(12, 12)))[0]
    E = E.astype(np.float32)
    fitted = Whiten().fit(E)
    assert fitted.affine().steep
    assert whiteness(fitted.transform(E)) < 1e-5


def test_outliers_are_found_pulled_in_and_dropped():
    E = table(400, 6, offset=2.0)
    E[[3, 50]] += 60.0
    fitted = Outliers().fit(E)
    assert np.flatnonzero(fitted.outliers(E)).tolist() == [3, 50]
    pulled = fitted.transform(E)
    assert np.allclose(fitted.distances(pulled)[[3, 50]], fitted.reach_)
    assert np.array_equal(np.delete(pulled, [3, 50], axis=0), np.delete(E, [3, 50], axis=0))
    assert Outliers(action="drop").fit(E).transform(E).shape == (398, 6)
    with pytest.raises(InputError, match=r"Pipeline needs steps that keep every row; got Outliers with action='drop'"):
        make_pipeline(Outliers(action="drop")).fit(E)
    normal = np.random.default_rng(5).normal(size=(20_000, 6))
    assert 0 <= Outliers(3.0).fit(normal).outliers(normal).mean() < 0.004


def test_weights_are_copies_of_rows():
    E = table(60, 4, offset=5.0)
    weights = np.arange(60) % 4
    for make in (Standardize, Whiten, RobustScale, lambda: Whiten(shrinkage="ledoit-wolf"), Outliers):
        weighted, repeated = make().fit(E, sample_weight=weights), make().fit(np.repeat(E, weights, axis=0))
        assert np.allclose(weighted.transform(E), repeated.transform(E), atol=1e-9)
    with pytest.raises(InputError, match=r"RobustScale needs whole numbers as sample_weight, because quantiles count"):
        RobustScale().fit(E, sample_weight=weights + 0.5)


def test_probabilities_as_weights():
    E = table(50, 3, offset=1.0)
    share = np.random.default_rng(0).dirichlet(np.ones(50))
    made = Whiten().fit(E, sample_weight=share).transform(E)
    mean = share @ made
    assert np.allclose(mean, 0.0, atol=1e-9)
    assert np.allclose((share[:, None] * made).T @ made, np.eye(3), atol=1e-9)
