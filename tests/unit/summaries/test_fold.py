"""The fold, plans and groups."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan._typing import Block
from fullspan.errors import InputError, NothingEvaluatedError
from fullspan.summaries.base import Plan, Summaries
from fullspan.summaries.fold import fold
from fullspan.summaries.groups import Grouped, Stripes, frequency_band
from fullspan.summaries.moments import Moments
from fullspan.summaries.partition import Partition
from fullspan.summaries.rows import RowProfile
from fullspan.summaries.units import UnitMoments

TABLE = np.random.default_rng(0).normal(size=(101, 5)).astype(np.float32)


def test_one_class_gives_its_summary_and_a_plan_gives_all():
    assert fold(TABLE, Moments).n_rows == 101
    both = fold(TABLE, Moments | RowProfile | UnitMoments)
    assert isinstance(both, Summaries)
    assert set(both) == {Moments, RowProfile, UnitMoments}
    with pytest.raises(InputError, match="did not make Grouped; it made Moments, RowProfile, UnitMoments"):
        both[Grouped]


def test_sum_merges_summaries_and_results_of_plans():
    parts = [fold(TABLE[i : i + 20], Moments | RowProfile) for i in range(0, 101, 20)]
    whole = fold(TABLE, Moments | RowProfile)
    np.testing.assert_allclose(sum(parts)[Moments].scatter, whole[Moments].scatter, rtol=1e-12)
    assert (parts[0] | parts[1])[RowProfile].n_rows == 40
    assert sum([Moments.of(TABLE[:3]), Moments.of(TABLE[3:])]).n_rows == 101


def test_rows_that_are_not_finite_are_left_out():
    table = TABLE.copy()
    table[3, 1], table[50, 0] = np.nan, np.inf
    clean = np.delete(table, [3, 50], axis=0)
    made = fold(table, Moments | RowProfile, block_rows=7)
    assert made[Moments].n_rows == 99
    np.testing.assert_allclose(made[Moments].mean, clean.astype(float).mean(axis=0), rtol=1e-12)
    assert 3 not in [row.position for row in made[RowProfile].norm.lowest]


def test_blocks_of_any_kind():
    assert fold((TABLE[i : i + 10] for i in range(0, 100, 10)), Moments).n_rows == 100
    assert fold([Block(TABLE)], Moments).n_rows == 101


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        ([TABLE, TABLE[:, :3]], InputError, "rows of one length; got dim 5, then dim 3 at row 101"),
        ([], NothingEvaluatedError, "at least one row; got none"),
        (np.empty((0, 4)), NothingEvaluatedError, "at least one row; got none"),
        (np.arange(3.0), InputError, r"needs shape \(rows, dim\); got shape \(3,\)"),
        (3, InputError, "an iterable of blocks; got int"),
        ([np.arange(3.0)], InputError, r"arrays of shape \(n, dim\); got shape \(3,\) at row 0"),
        (np.array([["a", "b"]]), InputError, "rows of real numbers; got dtype <U1"),
    ],
)
def test_what_is_not_a_table(table, error, message):
    with pytest.raises(error, match=message):
        fold(table, Moments)


def test_what_is_not_a_plan():
    with pytest.raises(InputError, match="A plan needs summary classes"):
        fold(TABLE, 3)
    with pytest.raises(InputError, match="one set of options for each summary; got Moments"):
        Plan.of(Moments.with_options(weighted=True)) | Moments


def test_a_plan_takes_the_same_options_twice_also_arrays():
    recipe = Partition.with_options(directions=np.eye(5))
    assert len(Plan.of(recipe).also(Partition.with_options(directions=np.eye(5))).recipes) == 1
    with pytest.raises(InputError, match="one set of options for each summary; got Partition"):
        Plan.of(recipe).also(Partition.with_options(directions=2 * np.eye(5)))


def test_progress_counts_rows():
    seen = []
    fold(TABLE, Moments, block_rows=50, progress=seen.append)
    assert seen == [50, 100, 101]


@pytest.mark.parametrize("block_rows", [1, 7, 101])
def test_stripes_add_up_and_leave_one_out(block_rows):
    made = fold(TABLE, Stripes.with_options(plan=Moments | UnitMoments, by=4), block_rows=block_rows)
    assert made.total[Moments].n_rows == 101
    np.testing.assert_allclose(made.total[Moments].scatter, Moments.of(TABLE).scatter, rtol=1e-9, atol=1e-9)
    left = dict(made.without())
    rest = np.delete(TABLE, np.arange(1, 101, 4), axis=0)
    np.testing.assert_allclose(left[1][Moments].scatter, Moments.of(rest).scatter, rtol=1e-9, atol=1e-9)
    assert left[1][UnitMoments].average_cosine == pytest.approx(UnitMoments.of(rest).average_cosine, rel=1e-6)


def test_groups_by_label_and_frequency():
    labels = np.array(["a", "b", "a"] * 33 + ["b", "c"])
    frequencies = np.arange(101.0)
    block = Block(TABLE, labels=labels, frequencies=frequencies)
    made = Grouped.of(block, plan=Moments, by="label")
    assert {key: part[Moments].n_rows for key, part in made.parts.items()} == {"a": 66, "b": 34, "c": 1}
    np.testing.assert_allclose(
        made.parts["b"][Moments].mean, TABLE[labels == "b"].astype(float).mean(axis=0), rtol=1e-9
    )
    assert frequency_band(block)[[0, 1, 9, 10, 100]].tolist() == [-1000, 0, 0, 1, 2]
    with pytest.raises(InputError, match="a label for every row; got none"):
        Grouped.of(TABLE, plan=Moments, by="label")
    with pytest.raises(InputError, match="got by='color'"):
        Grouped.of(TABLE, plan=Moments, by="color")
    with pytest.raises(InputError, match="at most 1000 different keys"):
        Grouped.of(Block(np.ones((1001, 1)), labels=np.arange(1001)), plan=Moments, by="label")
