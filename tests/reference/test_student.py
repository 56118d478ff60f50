"""The tail of Student's t against SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

import fullspan as fs
from fullspan.measures._student import student_tail


@pytest.mark.parametrize("degrees", [1, 2.5, 3, 18, 36, 36.7, 200, 1e5])
@pytest.mark.parametrize("t", [0.0, 1e-9, 0.3, -1.0, 2.0, 4.0, 13.0, -60.0])
def test_the_tail_is_that_of_scipy(t, degrees):
    assert student_tail(t, degrees) == pytest.approx(2 * scipy.stats.t.sf(abs(t), degrees), rel=1e-9, abs=1e-300)


def test_infinite_degrees_are_the_normal_law():
    assert student_tail(3.0, math.inf) == pytest.approx(2 * scipy.stats.norm.sf(3.0), rel=1e-12)


def test_a_change_whose_error_rests_on_few_groups_is_judged_by_few_degrees():
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=(300, 6)), rng.normal(size=(300, 6)) * [3, 1, 1, 1, 1, 1]
    table = next(iter(fs.drift(old, new, align="none")))
    for name, groups in (("participation_ratio", True), ("mean_norm", False)):
        change = table[name]
        a, b = (record.readings[name].standard_error ** 2 for record in (table.old, table.new))
        degrees = (a + b) ** 2 / (a**2 / 18 + b**2 / 18) if groups else math.inf
        assert change.p == pytest.approx(student_tail(change.z, degrees), rel=1e-12)
