"""Parameters that are none, policies, merging of unlike fits, and the plain objects beneath."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from fullspan.errors import InputError, NothingEvaluatedError, UndefinedMeasureError, UnknownNameError
from fullspan.normalize.affine import Affine
from fullspan.normalize.cut import RandomProjection, Truncate, TruncatedSVD
from fullspan.normalize.folded import Folded
from fullspan.normalize.outliers import Clip, Outliers
from fullspan.normalize.pipeline import Pipeline, make_pipeline
from fullspan.normalize.quantile_normal import QuantileNormal
from fullspan.normalize.scale import Center, MinMax, RobustScale, Standardize
from fullspan.normalize.unit import UnitNorm
from fullspan.normalize.weighting import SIF
from fullspan.normalize.whiten import PCA, RemoveTop, Whiten
from fullspan.summaries.fold import fold
from fullspan.summaries.moments import Moments
from fullspan.summaries.quantiles import Quantiles

TABLE = np.random.default_rng(1).normal(size=(80, 4)) + 3.0


@pytest.mark.parametrize(
    ("normalizer", "message"),
    [
        (Center(zero_rows="drop"), "Center needs zero_rows to be one of error, skip, keep; got 'drop'"),
        (UnitNorm(nan_rows="mask"), "UnitNorm needs nan_rows to be one of error, skip, keep; got 'mask'"),
        (MinMax(1.0, 1.0), r"MinMax needs low below high; got 1\.0 and 1\.0"),
        (RobustScale((0.9, 0.1)), "RobustScale needs quantiles as two rising fractions from 0 to 1"),
        (Clip(method="iqr"), "Clip needs method to be one of sigma, mad, quantile; got 'iqr'"),
        (Clip(0.5, "quantile"), "Clip with method='quantile' needs a limit as a share between 0 and 0.5; got 0.5"),
        (Clip(-1.0), "Clip with method='sigma' needs a limit as a positive number of deviations; got -1.0"),
        (Outliers(action="hide"), "Outliers needs action to be one of weigh, flag, drop; got 'hide'"),
        (Outliers(0.0), r"Outliers needs a positive limit; got 0\.0"),
        (
            PCA(0),
            "PCA needs k as a count of at least 1, a share of variance between 0 and 1, 'parallel' or None; got 0",
        ),
        (PCA(True), "PCA needs k as a count of at least 1"),
        (PCA(5), "PCA needs k of at most the 4 dimensions; got 5"),
        (Whiten("ica"), "Whiten needs rotation to be one of zca, zca-cor, pca, cholesky; got 'ica'"),
        (Whiten(power=3.0), r"Whiten needs a power from 0 to 2; got 3\.0"),
        (Whiten(epsilon=-0.1), r"Whiten needs an epsilon of at least 0; got -0\.1"),
        (Whiten(shrinkage="much"), "Whiten needs shrinkage as 'none', 'oas', 'ledoit-wolf', 'auto' or a number"),
        (RemoveTop(0), "RemoveTop needs k as a count of at least 1, or None; got 0"),
        (Truncate(0), "Truncate needs k as a count of at least 1; got 0"),
        (Truncate(9), r"Truncate needs k of at most the 4 dimensions \(n_features = 4\); got 9"),
        (RandomProjection(0.5), r"RandomProjection needs k as a count of at least 1; got 0\.5"),
        (TruncatedSVD(9), "TruncatedSVD needs k of at most the 4 dimensions"),
        (QuantileNormal(2), "QuantileNormal needs at least 3 points; got 2"),
        (SIF(0.0), r"SIF needs a positive a; got 0\.0"),
        (SIF(remove=-1), "SIF needs remove as a count of at least 0; got -1"),
        (SIF(remove=5), "SIF needs remove of at most the 4 dimensions; got 5"),
        (Pipeline([]), "Pipeline needs a list of .name, normalizer of fullspan. as steps; got "),
        (Pipeline([("x", 3)]), "Pipeline needs a list of"),
        (make_pipeline(Center(zero_rows="skip"), Whiten(zero_rows="error")), "Pipeline needs one policy zero_rows for"),
    ],
)
def test_a_parameter_that_is_none_is_refused_by_the_fit(normalizer, message):
    with pytest.raises(InputError, match=message):
        normalizer.fit(TABLE)


def test_more_directions_than_dimensions():
    with pytest.raises(UndefinedMeasureError, match=r"RemoveTop needs k of at most the 4 dimensions; got 7\."):
        RemoveTop(7).fit(TABLE)


def test_unknown_parameters_suggest_one():
    with pytest.raises(UnknownNameError, match=r'Invalid parameter .roation. for Whiten.* Did you mean "rotation"\?'):
        Whiten().set_params(roation="pca")


def test_parameters_of_steps():
    pipe = make_pipeline(Center(), Whiten())
    pipe.set_params(whiten__power=0.5, center=Standardize())
    assert repr(pipe) == "make_pipeline(Standardize(), Whiten(power=0.5))"
    assert pipe.get_params()["whiten__power"] == 0.5
    fitted = pipe.fit(TABLE)
    assert fitted["whiten"].rank_ == 4
    assert fitted[0].mean_ == pytest.approx(TABLE.mean(axis=0))
    assert not dict(pipe.steps)["whiten"].__sklearn_is_fitted__()
    assert len(pipe) == 2


def test_merging_what_does_not_belong_together():
    one = Whiten().fit(TABLE)
    with pytest.raises(InputError, match=r"merge needs two normalizers of one kind; got Whiten and PCA\."):
        one.merge(PCA().fit(TABLE))
    with pytest.raises(InputError, match=r"merge needs equal parameters; got Whiten\(\) and Whiten\(power=0\.5\)\."):
        one.merge(Whiten(power=0.5).fit(TABLE))
    with pytest.raises(InputError, match=r"merge needs rows of one length; got dim 4 and 3"):
        one.merge(Whiten().fit(TABLE[:, :3]))
    with pytest.raises(InputError, match=r"partial_fit, merge and from_summary need a chain that one pass fits; this"):
        make_pipeline(Clip(), Center()).fit(TABLE).merge(make_pipeline(Clip(), Center()).fit(TABLE))


def test_a_summary_of_another_kind():
    with pytest.raises(InputError, match=r"This normalizer needs a summary of the kind Moments or .*; got Quantiles\."):
        Whiten.from_summary(fold(TABLE, Quantiles))
    assert np.allclose(Standardize.from_summary(fold(TABLE, Moments)).transform(TABLE).std(axis=0), 1.0)
    assert Whiten.from_summary(fold(TABLE, Moments), power=0.5).power == 0.5


def test_rows_from_a_path(tmp_path):
    np.save(tmp_path / "a.npy", TABLE)
    assert np.allclose(Whiten().fit(tmp_path / "a.npy").matrix_, Whiten().fit(TABLE).matrix_)
    assert make_pipeline(Clip(), Whiten(), UnitNorm()).fit(str(tmp_path / "a.npy")).passes_ == 2
    assert UnitNorm().fit(tmp_path / "a.npy").n_rows_ == 80


def test_no_rows_at_all():
    with pytest.raises(NothingEvaluatedError, match=r"A table needs at least one row; got none\."):
        Center().fit(iter([]))
    with pytest.raises(InputError, match=r"Center needs finite rows; got an infinity \(inf\) in row 0\."):
        Center().fit(np.full((2, 2), np.inf))
    with pytest.raises(InputError, match=r"Center\.fit needs at least one row of finite values and a weight above ze"):
        Center(nan_rows="skip").fit(np.full((2, 2), np.inf))


def test_blocks_of_unequal_length():
    with pytest.raises(InputError, match=r"X has 3 features, but Center is expecting 4 features as input"):
        Center().fit([TABLE, TABLE[:, :3]])


def test_weights_that_do_not_fit():
    with pytest.raises(InputError, match=r"Center needs one sample_weight for every row; got 3 for 80 rows"):
        Center().fit(TABLE, sample_weight=[1.0, 2.0, 3.0])
    with pytest.raises(InputError, match=r"Center needs one sample_weight for every row; got 90 for 80 rows"):
        Center().fit([TABLE], sample_weight=np.ones(90))
    with pytest.raises(InputError, match=r"sample_weight needs an array or 'frequencies'; got 'counts'"):
        Center().fit(TABLE, sample_weight="counts")
    with pytest.raises(InputError, match=r"Center with sample_weight='frequencies' needs a table with frequencies"):
        Center().fit(TABLE, sample_weight="frequencies")
    with pytest.raises(InputError, match=r"Center needs sample_weight finite and not negative; got -1"):
        Center().fit(TABLE, sample_weight=np.full(80, -1.0))


def test_fitted_normalizers_pickle():
    fitted = make_pipeline(Clip(), Whiten(), UnitNorm()).fit(TABLE)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.transform(TABLE), fitted.transform(TABLE))
    pending = Whiten().partial_fit(TABLE[:40]).partial_fit(TABLE[40:])
    assert pickle.loads(pickle.dumps(pending)).rank_ == 4


def test_affine_maps():
    with pytest.raises(InputError, match=r"An affine map needs a shift of its input length and an offset of its outp"):
        Affine(np.zeros(3), np.ones(2))
    with pytest.raises(InputError, match=r"Affine maps need equal lengths to follow; got 2 out and 3 in\."):
        Affine.identity(2).then(Affine.identity(3))
    rng = np.random.default_rng(0)
    maps = [
        Affine(rng.normal(size=3), rng.normal(size=3), rng.normal(size=3)),
        Affine(rng.normal(size=3), rng.normal(size=(3, 3)), rng.normal(size=3)),
        Affine(rng.normal(size=3), np.array([1.0, 0.0, 2.0]), rng.normal(size=3)),
    ]
    rows = rng.normal(size=(5, 3))
    for one in maps:
        for other in maps:
            assert np.allclose(one.then(other).apply(rows), other.apply(one.apply(rows)))
    assert np.allclose(maps[1].inverse().apply(maps[1].apply(rows)), rows)
    assert not maps[0].matrix.flags.writeable


def test_a_folded_chain():
    pipe = make_pipeline(Center(), Standardize(), UnitNorm()).fit(TABLE)
    folded = pipe.fold()
    assert repr(folded) == "Folded(4 → 4: affine → unit)"
    assert Folded.of(folded) is folded
    assert folded.affine() is None
    out = np.empty_like(TABLE)
    assert folded.transform(TABLE, out) is out
    assert np.array_equal(out, pipe.transform(TABLE))
    with pytest.raises(InputError, match=r"Folded\.inverse_transform needs affine stages only; got one of the kind"):
        folded.inverse_transform(TABLE)
    with pytest.raises(InputError, match=r"X has 3 features, but Folded is expecting 4 features as input"):
        folded.transform(TABLE[:, :3])
    back = Whiten().fit(TABLE)
    assert np.allclose(Folded.of(back).inverse_transform(back.transform(TABLE)), TABLE)
    assert Folded.of(back).affine() is not None


def test_sif_is_what_the_paper_says():
    rng = np.random.default_rng(0)
    E, counts = rng.normal(size=(60, 5)) + 1.0, rng.integers(1, 99, size=60)
    share = counts / counts.sum()
    top = np.linalg.svd(np.sqrt(share)[:, None] * E)[2][:1]
    rest = E - E @ top.T @ top
    fitted = SIF(1e-2).fit(E, sample_weight=counts)
    assert np.allclose(fitted.transform(E), rest)
    assert np.allclose(fitted.transform(E, frequencies=counts), rest * (0.01 / (0.01 + share))[:, None])
    with pytest.raises(InputError, match=r"SIF needs a frequency of at least 0 for each of the 60 rows; got an array"):
        fitted.transform(E, frequencies=counts[:5])


def test_cuts():
    from sklearn.decomposition import TruncatedSVD as Theirs

    E = np.random.default_rng(0).normal(size=(200, 8)) + 0.5
    ours, theirs = TruncatedSVD(3).fit(E), Theirs(3, algorithm="arpack", random_state=0).fit(E)
    assert np.allclose(np.abs(ours.components_), np.abs(theirs.components_), atol=1e-6)
    assert np.allclose(ours.singular_values_, theirs.singular_values_)
    wide = np.random.default_rng(0).normal(size=(100, 256))
    for orthogonal in (True, False):
        made = RandomProjection(128, orthogonal=orthogonal).fit(wide).transform(wide)
        assert np.linalg.norm(made, axis=1) / np.linalg.norm(wide, axis=1) == pytest.approx(np.ones(100), abs=0.3)
    cut = Truncate(3).fit(E).transform(E)
    assert np.allclose(cut, E[:, :3] / np.linalg.norm(E[:, :3], axis=1, keepdims=True))
    assert np.array_equal(Truncate(3, renormalize=False).fit(E).transform(E), E[:, :3])


def test_quantile_normal_is_close_to_that_of_scikit_learn():
    from scipy.stats import norm, rankdata
    from sklearn.preprocessing import QuantileTransformer

    E = np.random.default_rng(0).lognormal(size=(3000, 3))
    made = QuantileNormal().fit(E).transform(E)
    theirs = QuantileTransformer(n_quantiles=1000, output_distribution="normal").fit_transform(E)
    inner = np.abs(theirs) < 2.5
    assert np.abs(made - theirs)[inner].max() < 0.02
    assert np.abs(made - norm.ppf((rankdata(E, axis=0) - 0.5) / 3000))[inner].max() < 0.05
    ties = QuantileNormal().fit_transform(np.repeat([[0.0], [1.0]], 50, axis=0))
    assert ties[:, 0] == pytest.approx(np.repeat([ties[0, 0], -ties[0, 0]], 50))


def test_outlier_rows_of_tensors():
    import torch

    E = TABLE.copy()
    E[4] = 90.0
    fitted = Outliers().fit(E)
    assert np.array_equal(fitted.outliers(torch.from_numpy(E)), fitted.outliers(E))
    assert fitted.outliers(E)[4]
