"""Partition functions against a plain sum in float64, and where that sum overflows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.summaries.partition import Partition


def _directions(dim: int, k: int = 5) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(9).normal(size=(dim, dim)))[0][:, :k]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0, 60.0, 1e4])
@pytest.mark.parametrize("parts", [1, 4])
def test_agrees_with_logsumexp(scale, dtype, parts):
    rng = np.random.default_rng(3)
    table = (rng.normal(size=(3000, 12)) * scale + 0.3).astype(dtype)
    directions = _directions(12)
    made = sum(Partition.of(part, directions=directions) for part in np.array_split(table, parts))
    projected = table.astype(np.float64) @ directions
    tolerance = 1e-6 if dtype == np.float32 and scale < 10 else 1e-9 * max(scale, 1.0)
    np.testing.assert_allclose(made.log_z_positive, logsumexp(projected, axis=0), rtol=0, atol=tolerance)
    np.testing.assert_allclose(made.log_z_negative, logsumexp(-projected, axis=0), rtol=0, atol=tolerance)
    np.testing.assert_allclose(made.projection_sums, projected.sum(axis=0), rtol=1e-4, atol=1e-3 * scale * 55)
    known = np.concatenate([logsumexp(projected, axis=0), logsumexp(-projected, axis=0)])
    assert made.log_ratio() == pytest.approx(known.min() - known.max(), abs=1e-6 * max(scale, 1.0))
    assert made.log_ratio(both_signs=False) >= made.log_ratio()


def test_one_row_by_hand():
    made = Partition.of(np.array([[1.0, 2.0]]), directions=np.eye(2))
    assert made.log_z_positive.tolist() == [1.0, 2.0]
    assert made.log_z_negative.tolist() == [-1.0, -2.0]
    assert made.first_order_log_ratio is None


def test_the_first_order_is_near_for_short_rows():
    table = np.random.default_rng(1).normal(size=(4000, 6)) * 0.01 + 0.02
    made = Partition.of(table, directions=_directions(6))
    assert made.first_order_log_ratio == pytest.approx(made.log_ratio(), rel=0.02)


def test_a_chunk_of_long_rows_among_short_ones():
    table = np.random.default_rng(2).normal(size=(5000, 8)).astype(np.float32)
    table[4000:] *= 40.0
    directions = _directions(8)
    made = Partition.of(table, directions=directions)
    wanted = logsumexp(table.astype(np.float64) @ directions, axis=0)
    np.testing.assert_allclose(made.log_z_positive, wanted, rtol=1e-9)


def test_messages():
    with pytest.raises(InputError, match=r"directions of shape \(3, k\), k ≥ 1; got \(2, 2\)"):
        Partition.of(np.ones((1, 3)), directions=np.eye(2))
    with pytest.raises(InputError, match="needs finite directions; got NaN or infinity"):
        Partition.of(np.ones((1, 1)), directions=np.array([[np.nan]]))
    with pytest.raises(UndefinedMeasureError, match="needs at least one row; got none"):
        Partition.empty(2, directions=np.eye(2)).log_ratio()
    with pytest.raises(InputError, match="along the same directions; got different ones"):
        Partition.of(np.ones((1, 2)), directions=np.eye(2)).merge(
            Partition.of(np.ones((1, 2)), directions=2 * np.eye(2))
        )
