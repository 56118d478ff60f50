"""Theil–Sen slopes and Student's intervals, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fullspan.errors import InputError
from fullspan.studies.base.statistics import interval, t_quantile, theil_sen


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30))
def test_theil_sen_is_that_of_scipy(values):
    x = np.arange(len(values), dtype=float)
    assert theil_sen(x, values) == pytest.approx(stats.theilslopes(values, x)[0], abs=1e-9)


@given(st.floats(-10, 10), st.floats(-10, 10))
def test_theil_sen_of_a_line_is_its_slope(slope, offset):
    x = np.array([0.0, 1.0, 4.0, 9.0])
    assert theil_sen(x, slope * x + offset) == pytest.approx(slope, abs=1e-9)


def test_pairs_of_one_place_are_left_out():
    assert theil_sen([0, 0, 1], [0.0, 100.0, 1.0]) == pytest.approx(-49.0)


@pytest.mark.parametrize(
    ("x", "y", "told"),
    [
        ([0, 1], [0.0], r"two finite vectors of one length; got shapes \(2,\) and \(1,\)"),
        ([0, 1], [0.0, np.nan], "two finite vectors"),
        ([3, 3], [0.0, 1.0], "points at two places or more; got 1 place"),
        ([], [], "points at two places or more; got 0 place"),
    ],
)
def test_curves_without_a_slope_are_refused(x, y, told):
    with pytest.raises(InputError, match=told):
        theil_sen(x, y)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 9, 10, 29, 200])
@pytest.mark.parametrize("probability", [0.5, 0.6, 0.975, 0.9995])
def test_t_quantile_is_that_of_scipy(probability, degrees):
    assert t_quantile(probability, degrees) == pytest.approx(stats.t.ppf(probability, degrees), rel=1e-9, abs=1e-12)


def test_an_interval_is_that_of_scipy():
    values = [0.3, 0.1, 0.4, 0.15]
    found = interval(values, 0.9)
    low, high = stats.t.interval(0.9, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (found.low, found.high, found.mean, found.n) == (pytest.approx(low), pytest.approx(high), np.mean(values), 4)


def test_one_seed_has_no_interval():
    found = interval([0.5])
    assert (found.mean, found.low, found.high, found.n) == (0.5, None, None, 1)


@pytest.mark.parametrize(("values", "level"), [([], 0.95), ([1.0, np.inf], 0.95), ([1.0, 2.0], 1.0)])
def test_an_interval_of_nothing_is_refused(values, level):
    with pytest.raises(InputError, match="interval needs finite values and a level in"):
        interval(values, level)


def test_intervals_cover_as_often_as_they_say():
    rng = np.random.default_rng(0)
    found = [interval(rng.normal(size=5)) for _ in range(1500)]
    assert np.mean([each.low < 0 < each.high for each in found]) == pytest.approx(0.95, abs=0.02)
