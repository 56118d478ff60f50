"""The mean of the unit rows against all pairs, and against the moments that hold it too."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan.errors import UndefinedMeasureError
from fullspan.summaries.unit_mean import UnitMean
from fullspan.summaries.units import UnitMoments


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 0.5, 5.0, 1e4])
@pytest.mark.parametrize("n_rows", [2, 300, 9000])
def test_as_the_moments_of_the_unit_rows(n_rows, offset, dtype):
    table = (np.random.default_rng(7).normal(size=(n_rows, 12)) + offset).astype(dtype)
    mean, moments = UnitMean.of(table), UnitMoments.of(table)
    units = table.astype(np.longdouble)
    units /= np.sqrt((units**2).sum(axis=1, keepdims=True))
    exact = ((units - units.mean(axis=0)) ** 2).sum()
    assert mean.gap == pytest.approx(float(exact), rel=1e-6 if dtype == np.float32 and n_rows > 4096 else 1e-10)
    assert mean.average_cosine == pytest.approx(moments.average_cosine, rel=1e-6, abs=1e-7)
    assert mean.mean_norm == moments.mean_norm
    np.testing.assert_allclose(mean.mean, units.mean(axis=0).astype(float), atol=1e-7)


def test_zero_rows_have_no_direction():
    units = UnitMean.of(np.vstack([np.zeros((3, 2)), np.eye(2)]))
    assert (units.n_rows, units.n_zero, units.n_units) == (5, 3, 2)
    assert units.average_cosine == pytest.approx(0.0)
    with pytest.raises(UndefinedMeasureError, match="at least two rows that are not zero; got 0"):
        _ = UnitMean.of(np.zeros((3, 2))).average_cosine
