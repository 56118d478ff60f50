"""The rows that pulses read and snapshots keep."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan.errors import InputError
from fullspan.monitor.sample import map_rows, sample_rows

ZIPF = 1 / np.arange(1, 20_001)


@pytest.mark.parametrize("frequencies", [None, ZIPF])
@pytest.mark.parametrize("draw", [sample_rows, map_rows])
def test_the_same_rows_each_time_and_other_ones_by_seed(draw, frequencies):
    rows = draw(20_000, 500, frequencies, 3)
    assert np.array_equal(rows, draw(20_000, 500, frequencies, 3))
    assert not np.array_equal(rows, draw(20_000, 500, frequencies, 4))
    assert len(np.unique(rows)) == 500
    assert (np.diff(rows) > 0).all()
    assert rows[0] >= 0
    assert rows[-1] < 20_000


@pytest.mark.parametrize("draw", [sample_rows, map_rows])
def test_small_tables_are_read_whole(draw):
    assert np.array_equal(draw(10, 10, np.ones(10)), np.arange(10))
    assert np.array_equal(draw(3, 10), np.arange(3))


def test_every_stratum_of_frequency_gives_its_share():
    order = np.random.default_rng(0).permutation(20_000)
    frequencies = np.empty(20_000)
    frequencies[order] = ZIPF
    ranks = np.empty(20_000, dtype=int)
    ranks[order] = np.arange(20_000)
    drawn = np.sort(ranks[sample_rows(20_000, 500, frequencies)])
    assert (np.abs(drawn - (np.arange(500) + 0.5) * 40) <= 40).all()  # one of each 40 in order of frequency


def test_every_row_has_the_same_chance():
    frequencies = np.array([5.0, 0, 0, 9, 1, 1, 1, 7, 0, 2, 30])
    counts = np.zeros(11)
    for seed in range(4000):
        counts[sample_rows(11, 4, frequencies, seed)] += 1
    # Strata of 2 and 3 rows: chances of 1/2 and 1/3, 4/11 on average.
    assert counts.sum() == 4 * 4000
    assert ((counts / 4000 > 0.3) & (counts / 4000 < 0.54)).all()


def test_maps_show_the_head_and_a_sample_of_the_tail():
    rows = map_rows(20_000, 500, ZIPF)
    assert np.array_equal(rows[:250], np.arange(250))
    assert rows[250:].min() >= 250
    assert rows.max() > 19_000


@pytest.mark.parametrize("wrong", [np.ones(3), -np.ones(20_000), np.full(20_000, np.nan)])
def test_frequencies_are_checked(wrong):
    with pytest.raises(InputError, match=r"watch needs frequencies that are finite and 0 or more, one a row, 20000 in"):
        sample_rows(20_000, 500, wrong)
