"""What holds for every normalizer: it is an estimator of scikit-learn, it merges, it undoes, and torch agrees."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan.errors import InputError
from fullspan.normalize.base import NotFittedError
from tests.cases import NORMALIZERS

every_normalizer = pytest.mark.parametrize("case", NORMALIZERS, ids=str)
one_pass = pytest.mark.parametrize("case", [case for case in NORMALIZERS if case.one_pass], ids=str)
TABLE = np.random.default_rng(3).normal(size=(240, 6)) * np.linspace(0.2, 3.0, 6) + np.linspace(-20.0, 20.0, 6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*does not inherit from `sklearn.base.BaseEstimator`:UserWarning")
@every_normalizer
def test_scikit_learn_takes_it_for_an_estimator(case):
    from sklearn.utils.estimator_checks import check_estimator

    found = check_estimator(case.make(), on_fail=None, on_skip=None)
    assert len(found) > 30
    assert [each["check_name"] for each in found if each["status"] == "failed"] == []


@one_pass
def test_merging_is_a_single_pass(case):
    whole, first, second = case.make().fit(TABLE), case.make().fit(TABLE[:90]), case.make().fit(TABLE[90:])
    merged = first.merge(second)
    assert merged.n_rows_ == 240
    assert np.allclose(merged.transform(TABLE), whole.transform(TABLE), rtol=1e-12, atol=1e-12)


@one_pass
def test_rows_added_in_parts_are_a_single_pass(case):
    parts = case.make()
    for part in np.array_split(TABLE, 4):
        parts.partial_fit(part)
    assert np.allclose(parts.transform(TABLE), case.make().fit(TABLE).transform(TABLE), rtol=1e-12, atol=1e-12)


@one_pass
def test_a_summary_made_before_is_as_good_as_the_rows(case):
    fitted = case.make().fit(TABLE)
    if fitted.summary_.parts and fitted.stages[0].kind != "unit":
        again = case.make().fit(fitted.summary_)
        assert np.array_equal(again.transform(TABLE), fitted.transform(TABLE))


@pytest.mark.parametrize("case", [case for case in NORMALIZERS if not case.one_pass], ids=str)
def test_a_chain_of_two_passes_says_so(case):
    assert case.make().passes == 2
    assert case.make().fit(TABLE).passes_ == 2
    assert not hasattr(case.make(), "partial_fit")
    with pytest.raises(InputError, match=r"needs 2 passes over the rows; got an iterator, which can be read once"):
        case.make().fit(iter([TABLE]))


@every_normalizer
def test_blocks_tables_and_tensors_fit_alike(case):
    import torch

    wanted = case.make().fit(TABLE).transform(TABLE)
    blocks = [TABLE[:100], TABLE[100:]]
    for source in (blocks, torch.from_numpy(TABLE)):
        assert np.allclose(case.make().fit(source).transform(TABLE), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
@every_normalizer
def test_types_are_kept_and_torch_agrees(case, kind):
    import torch

    rows = TABLE.astype(kind)
    fitted = case.make().fit(rows)
    made = fitted.transform(rows)
    tensor = fitted.transform(torch.from_numpy(rows))
    assert made.dtype == kind
    assert tensor.dtype == torch.from_numpy(rows).dtype
    tolerance = {np.float64: 1e-12, np.float32: 1e-6, np.float16: 2e-3}[kind]
    assert np.allclose(tensor.numpy(), made, rtol=tolerance, atol=tolerance * float(np.abs(made).max()))


@pytest.mark.parametrize("case", [case for case in NORMALIZERS if case.undoes], ids=str)
def test_inverse_undoes(case):
    fitted = case.make().fit(TABLE)
    assert np.allclose(fitted.inverse_transform(fitted.transform(TABLE)), TABLE, rtol=1e-10, atol=1e-10)
    narrow = TABLE.astype(np.float32)
    back = case.make().fit(narrow).inverse_transform(case.make().fit(narrow).transform(narrow))
    assert np.allclose(back, narrow, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", [case for case in NORMALIZERS if not case.undoes], ids=str)
def test_inverse_is_refused_or_nearest(case):
    fitted = case.make().fit(TABLE)
    if fitted.affine() is None:
        with pytest.raises(InputError, match=r"inverse_transform needs a chain of affine steps; got a step of the"):
            fitted.inverse_transform(fitted.transform(TABLE))
    else:
        once = fitted.transform(TABLE)
        assert np.allclose(fitted.transform(fitted.inverse_transform(once)), once, rtol=1e-9, atol=1e-9)


@every_normalizer
def test_folding_equals_step_by_step(case):
    rows = TABLE.astype(np.float32)
    fitted = case.make().fit(rows)
    step = rows
    for each in fitted if hasattr(fitted, "steps") else [fitted]:
        step = each.transform(step)
    assert np.allclose(fitted.transform(rows), step, rtol=1e-6, atol=1e-6 * max(1.0, float(np.abs(step).max())))


@every_normalizer
def test_broken_rows_follow_the_policy(case):
    rows = TABLE.copy()
    rows[5, 2], rows[9] = np.nan, 0.0
    fitted = case.make()
    with pytest.raises(InputError, match=r"needs finite rows; got NaN in row 5\. Leave such rows out with nan_rows"):
        fitted.fit(rows)
    clean = np.delete(rows, [5, 9], axis=0)
    fitted = case.make().set_params(nan_rows="skip", zero_rows="skip").fit(rows)
    wanted = case.make().fit(clean)
    made = fitted.transform(rows)
    assert fitted.counts_ == {"zero": 1, "nan": 1, "infinite": 0}
    assert np.allclose(np.delete(made, [5, 9], axis=0), wanted.transform(clean), rtol=1e-12, atol=1e-12)
    assert not made[9].any()
    assert np.isnan(made[5]).any()
    with pytest.raises(InputError, match=r"needs rows that are not all zeros; got one at row 9\."):
        case.make().set_params(nan_rows="skip", zero_rows="error").fit(rows)


@every_normalizer
def test_nothing_is_mapped_before_a_fit(case):
    fresh = case.make()
    if fresh._stateless:
        assert fresh.transform(TABLE).shape == TABLE.shape
        return
    with pytest.raises(NotFittedError, match=r"This \w+ instance is not fitted yet\. Call fit\(table\)"):
        fresh.transform(TABLE)


@every_normalizer
def test_rows_of_another_length_are_refused(case):
    import torch

    fitted = case.make().fit(TABLE)
    for rows in (TABLE[:, :4], torch.from_numpy(TABLE[:, :4])):
        with pytest.raises(InputError, match=r"X has 4 features, but \w+ is expecting 6 features as input"):
            fitted.transform(rows)


@every_normalizer
def test_names_and_data_frames(case):
    fitted = case.make().fit(TABLE)
    made = fitted.transform(TABLE)
    names = fitted.get_feature_names_out()
    assert len(names) == made.shape[1] == fitted.dim_out_
    frame = case.make().set_output(transform="pandas").fit(TABLE).transform(TABLE)
    assert list(frame.columns) == list(names)
    assert np.allclose(frame.to_numpy(), made, rtol=1e-12, atol=1e-12)
