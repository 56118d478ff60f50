"""Row profiles against a plain loop in long double."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan.errors import UndefinedMeasureError
from fullspan.summaries.row_kernels import row_values as row_kernel
from fullspan.summaries.rows import RowProfile


def row_values(rows, norms):
    return row_kernel(rows, norms.astype(np.float64)).T


def plain(row):
    sizes = np.sort(np.abs(row.astype(np.longdouble)))
    d, total = len(sizes), np.abs(row.astype(np.longdouble)).sum()
    shares = sizes[sizes > 0] / total
    gini = ((2 * np.arange(1, d + 1) - d - 1) * sizes).sum() / (d * total)
    entropy = -(shares * np.log(shares)).sum()
    hoyer = (np.sqrt(np.longdouble(d)) - total / np.sqrt((sizes**2).sum())) / (np.sqrt(np.longdouble(d)) - 1)
    return [float(gini), float(entropy), float(hoyer)]


@pytest.mark.parametrize("offset", [0.0, 1.0, 30.0, 1e3, 1e4])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 3e-6), (np.float64, 1e-9)])
@pytest.mark.parametrize("dim", [8, 16, 100, 768])
def test_values_of_rows(dim, dtype, rtol, offset):
    table = (np.random.default_rng(5).normal(size=(40, dim)) + offset).astype(dtype)
    values = row_values(table, np.linalg.norm(table.astype(float), axis=1))
    exact = [plain(row) for row in table]
    np.testing.assert_allclose(values, exact, rtol=rtol)
    # what a report shows are means over rows
    np.testing.assert_allclose(values.mean(axis=0), np.mean(exact, axis=0), rtol=rtol / 10)


@pytest.mark.parametrize("scale", [1e-30, 1e-25, 1e25, 1e36])
def test_scale_changes_nothing(scale):
    table = np.random.default_rng(5).normal(size=(40, 20)).astype(np.float32)
    scaled = (table.astype(float) * scale).astype(np.float32)
    profile = RowProfile.of(scaled)
    for name in ("gini_index", "vector_entropy", "hoyer_sparsity"):
        mine = profile.distribution(name).mean
        assert mine == pytest.approx(RowProfile.of(table).distribution(name).mean, rel=1e-6)


def test_sparse_rows_by_hand():
    table = np.zeros((3, 4), np.float32)
    table[0, 1] = -5.0  # one hot
    table[1] = 2.0  # flat
    table[2, :2] = 1.0  # half
    values = row_values(table, np.linalg.norm(table, axis=1))
    np.testing.assert_allclose(values[0], [0.75, 0.0, 1.0], atol=1e-7)
    np.testing.assert_allclose(values[1], [0.0, np.log(4), 0.0], atol=1e-7)
    np.testing.assert_allclose(values[2], [0.5, np.log(2), (2 - 2 / np.sqrt(2)) / 1.0], rtol=1e-6)


def test_mostly_zero_rows_keep_their_entropy():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(100, 256)).astype(np.float32)
    table[rng.random(table.shape) < 0.9] = 0.0
    values = row_values(table, np.linalg.norm(table, axis=1))
    np.testing.assert_allclose(values, [plain(row) for row in table], rtol=1e-6)


def test_zero_rows_are_counted_and_have_a_norm_only():
    table = np.vstack([np.zeros((2, 3)), np.eye(3)])
    profile = RowProfile.of(table)
    assert (profile.n_rows, profile.n_zero) == (5, 2)
    assert (profile.norm.count, profile.gini_index.count) == (5, 3)
    assert profile.gini_index.mean == pytest.approx(2 / 3)
    assert profile.norm.lowest[0].position == 0


def test_extreme_rows_carry_their_ids():
    table = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    table[17] *= 100
    ids = np.array([f"item {i}" for i in range(50)])
    profile = RowProfile.of(table, ids=ids).merge(RowProfile.of(table * 0.5, ids=ids, start=50))
    assert profile.norm.highest[0].id == "item 17"
    assert profile.norm.highest[0].position == 17
    assert profile.norm.highest[1].position == 67
    assert len(profile.norm.highest) == 10


def test_the_mean_carries_its_standard_error():
    table = np.random.default_rng(0).normal(size=(500, 6))
    norms = np.linalg.norm(table, axis=1)
    profile = RowProfile.of(table)
    assert profile.norm.mean == pytest.approx(norms.mean(), rel=1e-14)
    assert profile.norm.standard_error == pytest.approx(norms.std(ddof=1) / np.sqrt(500), rel=1e-12)
    assert profile.norm.quantile(0.5) == pytest.approx(np.median(norms), rel=1e-6)


def test_nothing_to_measure_says_why():
    with pytest.raises(UndefinedMeasureError, match=r"gini_index of rows needs rows that are not zero; got 2 row\(s\)"):
        _ = RowProfile.of(np.zeros((2, 3))).gini_index
    with pytest.raises(UndefinedMeasureError, match="hoyer_sparsity of rows needs more than one dimension"):
        _ = RowProfile.of(np.ones((2, 1))).hoyer_sparsity
