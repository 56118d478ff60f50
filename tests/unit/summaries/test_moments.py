"""Moments against float64 and exact references, at large offsets, extreme scales and small shapes."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan._typing import Block
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.summaries.moments import Moments, WeightedMoments


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("shape", [(300, 8), (40, 64), (2, 5)])
def test_singular_values_agree_with_lapack_on_the_stored_values(shape, offset, dtype):
    rng = np.random.default_rng(3)
    table = (rng.normal(size=shape) + offset).astype(dtype)
    exact = table.astype(np.float64)
    moments = Moments.of(table)
    centered = np.linalg.svd(exact - exact.mean(axis=0), compute_uv=False)
    full = np.linalg.svd(exact, compute_uv=False)
    ranks = min(shape[0] - 1, shape[1])
    np.testing.assert_allclose(moments.centered_singular_values[:ranks], centered[:ranks], rtol=1e-10)
    np.testing.assert_allclose(
        moments.singular_values, full, rtol=1e-8 if offset > 100 else 1e-10, atol=1e-12 * full[0]
    )
    np.testing.assert_allclose(moments.covariance, np.cov(exact, rowvar=False), rtol=1e-9, atol=1e-10 * exact.var())


def test_the_mean_does_not_hide_small_uncentered_singular_values():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(20_000, 16)) * np.logspace(0, -6, 16) + 100.0
    values = Moments.of(table).singular_values
    exact = np.linalg.svd(table, compute_uv=False)
    assert values[-1] / values[0] == pytest.approx(exact[-1] / exact[0], rel=1e-3)
    plain = np.sqrt(np.maximum(np.linalg.eigvalsh(table.T @ table)[0], 0.0))
    assert abs(plain / exact[-1] - 1) > 0.1  # what the plain Gram matrix makes of it


def test_identity_by_hand():
    moments = Moments.of(np.eye(3))
    assert moments.mean.tolist() == pytest.approx([1 / 3] * 3)
    assert moments.singular_values.tolist() == pytest.approx([1.0, 1.0, 1.0])
    assert moments.eigenvalues.tolist() == pytest.approx([0.5, 0.5, 0.0], abs=1e-15)


def test_weights_act_as_repeated_rows():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(30, 4)).astype(np.float32)
    counts = rng.integers(0, 5, size=30)
    weighted = WeightedMoments.of(rows, frequencies=counts.astype(float))
    repeated = Moments.of(np.repeat(rows, counts, axis=0))
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-12)
    np.testing.assert_allclose(weighted.scatter, repeated.scatter, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(weighted.singular_values, repeated.singular_values, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-25, 1e-18, 1e18, 1e25])
def test_float32_at_extreme_scale(scale):
    rng = np.random.default_rng(2)
    table = (rng.normal(size=(50, 4)) * scale).astype(np.float32)
    values = Moments.of(table).singular_values
    np.testing.assert_allclose(values, np.linalg.svd(table.astype(float), compute_uv=False), rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_float64_whose_squares_leave_the_range_is_refused(scale):
    table = np.random.default_rng(2).normal(size=(50, 4)) * scale
    with pytest.raises(UndefinedMeasureError, match="Rescale the table"):
        _ = Moments.of(table).singular_values


def test_one_row_has_a_spectrum_but_no_covariance():
    moments = Moments.of(np.array([[3.0, 4.0]]))
    assert moments.singular_values.tolist() == pytest.approx([5.0])
    with pytest.raises(UndefinedMeasureError, match=r"at least two rows of positive weight; got 1 row"):
        _ = moments.covariance


def test_weights_are_checked():
    with pytest.raises(InputError, match="a frequency for every row; got none"):
        WeightedMoments.of(np.eye(2))
    with pytest.raises(InputError, match=r"not negative; got -1.0 at row 1"):
        WeightedMoments.of(np.eye(2), frequencies=np.array([1.0, -1.0]))


def test_merging_needs_one_kind_and_one_dim():
    with pytest.raises(InputError, match="rows of one length; got dim 2 and 3"):
        Moments.of(np.eye(2)).merge(Moments.of(np.eye(3)))
    with pytest.raises(InputError, match="two summaries of one kind"):
        Moments.of(np.eye(2)).merge(WeightedMoments.of(np.eye(2), frequencies=np.ones(2)))


def test_frozen():
    with pytest.raises(ValueError, match="read-only"):
        Moments.of(np.eye(2)).mean[0] = 1.0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("first", [1, 5])
def test_the_pilot_does_not_rest_on_the_first_block(first, weighted):
    rng = np.random.default_rng(4)
    table = rng.normal(size=(1500, 12)) + 1e4
    weights = rng.uniform(0.5, 2.0, size=1500)
    builder = Moments.accumulator(12, weighted=weighted)
    for part in (slice(0, first), slice(first, 700), slice(700, None)):
        builder.add(Block(table[part], part.start, frequencies=weights[part]))
    roots = np.sqrt(weights) if weighted else np.ones(1500)
    centered = (table - np.average(table, axis=0, weights=roots**2)) * roots[:, None]
    expected = np.linalg.svd(centered, compute_uv=False)
    np.testing.assert_allclose(builder.summary().centered_singular_values, expected, rtol=1e-11)
