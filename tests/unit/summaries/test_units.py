"""Mean and deviation of all pairwise cosines against all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan.errors import UndefinedMeasureError
from fullspan.summaries.units import UnitMoments


def all_pairs(table):
    exact = table.astype(np.float64)
    units = exact / np.linalg.norm(exact, axis=1, keepdims=True)
    return (units @ units.T)[np.triu_indices(len(units), 1)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 0.5, 5.0, 100.0])
@pytest.mark.parametrize("n_rows", [2, 300, 3000])
def test_cosines_of_all_pairs(n_rows, offset, dtype):
    table = (np.random.default_rng(7).normal(size=(n_rows, 12)) + offset).astype(dtype)
    units = UnitMoments.of(table)
    cosines = all_pairs(table)
    assert units.average_cosine == pytest.approx(cosines.mean(), rel=1e-6, abs=1e-7)
    if n_rows > 2:
        assert units.cosine_deviation == pytest.approx(cosines.std(), rel=1e-6)
    assert units.mean_norm == pytest.approx(np.linalg.norm(table.astype(float), axis=1).mean(), rel=1e-7)


def test_almost_parallel_rows_keep_their_digits():
    table = (np.random.default_rng(7).normal(size=(200, 12)) + 1e4).astype(np.float32)
    exact = table.astype(np.longdouble)
    units = exact / np.sqrt((exact**2).sum(axis=1, keepdims=True))
    gaps = (((units[:, None] - units[None]) ** 2).sum(axis=2) / 2)[np.triu_indices(200, 1)]  # one minus the cosine
    mine = UnitMoments.of(table)
    assert 1.0 - mine.average_cosine == pytest.approx(float(gaps.mean()), rel=1e-6)
    assert mine.cosine_deviation == pytest.approx(float(gaps.std()), rel=1e-5)


def test_opposite_clusters_have_a_negative_mean_cosine():
    table = np.vstack([np.tile([1.0, 0.0], (5, 1)), np.tile([-1.0, 0.0], (5, 1))])
    assert UnitMoments.of(table).average_cosine == pytest.approx(-1 / 9)


def test_zero_rows_have_no_direction():
    units = UnitMoments.of(np.vstack([np.zeros((3, 2)), np.eye(2)]))
    assert (units.n_rows, units.n_zero, units.n_units) == (5, 3, 2)
    assert units.average_cosine == pytest.approx(0.0)
    with pytest.raises(UndefinedMeasureError, match="at least two rows that are not zero; got 0"):
        _ = UnitMoments.of(np.zeros((3, 2))).average_cosine


def test_shares_name_the_rogue_dimension():
    table = np.random.default_rng(0).normal(size=(500, 10)).astype(np.float32)
    table[:, 4] += 20
    shares = UnitMoments.of(table).dimension_shares
    assert int(np.argmax(shares)) == 4
    assert shares[4] > 0.99
    assert shares.sum() == pytest.approx(1.0)
