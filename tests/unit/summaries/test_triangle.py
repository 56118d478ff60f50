"""Triangle: both spectra to 1e-12 of the largest, at any ratio and any offset."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.summaries.moments import Moments
from fullspan.summaries.triangle import Triangle

_DIM = 24


def _with_spectrum(values: np.ndarray, n_rows: int, centered: bool, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    left = rng.normal(size=(n_rows, len(values)))
    if centered:
        left -= left.mean(axis=0)
    left, right = np.linalg.qr(left)[0], np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    return (left * values) @ right


@pytest.mark.parametrize("use_torch", [False, True])
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("smallest", [-3, -8, -12])
def test_small_singular_values_are_recovered(smallest, centered, use_torch):
    wanted = np.logspace(0, smallest, _DIM)
    table = _with_spectrum(wanted, 1200, centered)
    parts = [Triangle.of(part, use_torch=use_torch) for part in np.array_split(table, 5)]
    for made in (Triangle.of(table, use_torch=use_torch), sum(parts)):
        values = made.centered_singular_values if centered else made.singular_values
        np.testing.assert_allclose(values, wanted, atol=1e-12, rtol=0)
        assert values[-1] / values[0] == pytest.approx(10.0**smallest, rel=0.01)


@pytest.mark.parametrize("offset", [0.0, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("parts", [1, 6])
def test_offsets_do_not_blur_the_centered_spectrum(offset, parts):
    rng = np.random.default_rng(4)
    table = rng.normal(size=(2000, _DIM)) * np.logspace(0, -2, _DIM) + offset * rng.normal(size=_DIM)
    made = sum(Triangle.of(part) for part in np.array_split(table, parts))
    centered = np.linalg.svd(table - table.mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(made.centered_singular_values, centered, rtol=1e-10)
    full = np.linalg.svd(table, compute_uv=False)
    np.testing.assert_allclose(made.singular_values, full, atol=1e-14 * full[0], rtol=1e-12)
    np.testing.assert_allclose(made.mean, table.mean(axis=0), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(made.eigenvalues, centered**2 / (len(table) - 1), rtol=1e-10)


def test_fewer_rows_than_dims_and_one_row():
    table = np.random.default_rng(1).normal(size=(5, 9))
    made = Triangle.of(table)
    np.testing.assert_allclose(made.singular_values, np.linalg.svd(table, compute_uv=False), rtol=1e-12)
    assert made.singular_values.shape == made.centered_singular_values.shape == (5,)
    assert made.centered_singular_values[-1] < 1e-14
    assert made.eigenvalues.shape == (9,)
    one = Triangle.of(table[:1])
    assert one.singular_values[0] == pytest.approx(np.linalg.norm(table[0]))
    assert one.centered_singular_values[0] < 1e-14
    with pytest.raises(UndefinedMeasureError, match=r"at least two rows of positive weight; got 1 row"):
        _ = one.eigenvalues


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e150])
def test_extreme_scales(scale):
    table = np.random.default_rng(2).normal(size=(50, 4))
    np.testing.assert_allclose(
        Triangle.of(table * scale).singular_values / scale, np.linalg.svd(table, compute_uv=False), rtol=1e-12
    )


def test_weights_act_as_repeated_rows():
    rng = np.random.default_rng(3)
    table, counts = rng.normal(size=(40, 5)) + 3.0, rng.integers(0, 4, size=40)
    weighted = Triangle.of(table, frequencies=counts.astype(float), weighted=True)
    repeated = Triangle.of(np.repeat(table, counts, axis=0))
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-12)
    np.testing.assert_allclose(weighted.singular_values, repeated.singular_values, rtol=1e-12)
    np.testing.assert_allclose(weighted.centered_singular_values, repeated.centered_singular_values, rtol=1e-12)
    assert weighted.weight == counts.sum()


def test_agrees_with_moments_on_float32():
    table = (np.random.default_rng(5).normal(size=(500, 6)) + 2.0).astype(np.float32)
    np.testing.assert_allclose(Triangle.of(table).singular_values, Moments.of(table).singular_values, rtol=1e-11)


def test_zeros():
    made = Triangle.of(np.zeros((4, 3)))
    assert made.singular_values.tolist() == made.centered_singular_values.tolist() == [0.0, 0.0, 0.0]


def test_numpy_factors_when_torch_was_not_imported(monkeypatch):
    table = np.random.default_rng(6).normal(size=(30, 4))
    with_torch = Triangle.of(table, use_torch=True)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    without = Triangle.of(table)
    assert "torch" not in sys.modules
    np.testing.assert_allclose(without.singular_values, with_torch.singular_values, rtol=1e-13)


def test_messages():
    table = np.ones((2, 3))
    with pytest.raises(InputError, match="needs a frequency for every row; got none"):
        Triangle.of(table, weighted=True)
    with pytest.raises(InputError, match=r"finite and not negative; got -1.0 at row 1"):
        Triangle.of(table, weighted=True, frequencies=np.array([1.0, -1.0]))
    with pytest.raises(InputError, match="both Triangles weighted or both unweighted"):
        Triangle.of(table).merge(Triangle.of(table, weighted=True, frequencies=np.ones(2)))
