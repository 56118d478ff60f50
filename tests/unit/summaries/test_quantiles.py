"""Quantiles: exact while small; beyond, within the stated error for every distribution and order."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.summaries.quantiles import ColumnSketch, Quantiles

_CENTRAL = (0.1, 0.25, 0.5, 0.75, 0.9)
_SHAPES = {
    "gaussian": lambda x: x,
    "laplace": lambda x: np.sign(x) * x * x,
    "log-normal": np.exp,
    "ties": lambda x: np.round(2 * x) / 2,
    "two far modes": lambda x: x + 1000.0 * (x > 0.3),
}
_ORDERS = {
    "random": lambda x: x,
    "sorted": lambda x: np.sort(x, axis=0),
    "descending": lambda x: np.sort(x, axis=0)[::-1],
    "alternating": lambda x: np.concatenate([np.sort(x, axis=0)[::2], np.sort(x, axis=0)[1::2]]),
}


def _rows(shape: str, order: str, n_rows: int = 200_000, columns: int = 3) -> np.ndarray:
    draws = np.random.default_rng(11).standard_normal((n_rows, columns)).astype(np.float32)
    return _ORDERS[order](_SHAPES[shape](draws))


def _added(rows: np.ndarray, step: int, **options: int) -> ColumnSketch:
    sketch = ColumnSketch(rows.shape[1], **options)
    for start in range(0, len(rows), step):
        sketch.add(rows[start : start + step])
    return sketch


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("shape", ["gaussian", "laplace", "log-normal", "ties"])
def test_within_a_thousandth_of_the_interquartile_range(shape, order):
    rows = _rows(shape, order)
    sketch = _added(rows, 4999)
    exact = np.quantile(rows.astype(np.float64), (0.25, 0.5, 0.75), axis=0)
    assert not sketch.exact
    error = np.abs(sketch.quantile((0.25, 0.5, 0.75)) - exact) / (exact[2] - exact[0])
    assert error.max() < 1e-3
    assert sketch.rank_error < 5e-4


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("parts", [1, 7])
def test_ranks_are_within_the_stated_error(shape, order, parts):
    rows = _rows(shape, order, 30_000)
    pieces = [_added(piece, 700, capacity=512) for piece in np.array_split(rows, parts)]
    sketch = pieces[0]
    for piece in pieces[1:]:
        sketch = sketch.merge(piece)
    assert sketch.count == len(rows)
    found = sketch.quantile(_CENTRAL)
    for row, q in zip(found, _CENTRAL, strict=True):
        below = (rows < row - 1e-6 * np.abs(row)).mean(axis=0)
        upto = (rows <= row + 1e-6 * np.abs(row)).mean(axis=0)
        off = np.maximum(below - q, q - upto).max()
        assert off <= sketch.rank_error + 2e-3  # a reading interpolates between neighbors that stand for many rows


def test_minimum_and_maximum_are_exact_and_memory_is_bounded():
    rows = _rows("gaussian", "random", 100_000)
    sketch = _added(rows, 1000, capacity=1024)
    assert sketch.quantile((0.0, 1.0)).tolist() == [rows.min(axis=0).tolist(), rows.max(axis=0).tolist()]
    assert sketch.n_bytes <= 3 * 4 * (1024 + 64 + 1024)
    assert (np.diff(sketch.quantile(np.linspace(0, 1, 101)), axis=0) >= 0).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 2, 3, 1000, 5000])
def test_exact_for_small_tables(n_rows, dtype):
    rows = np.random.default_rng(n_rows).normal(size=(n_rows, 4)).astype(dtype)
    made = Quantiles.of(rows)
    q = np.linspace(0, 1, 23)
    np.testing.assert_allclose(
        made.quantile(q), np.quantile(rows.astype(np.float64), q, axis=0), rtol=1e-14, atol=1e-14
    )
    assert made.exact
    assert made.error_bound == 0.0
    np.testing.assert_allclose(made.median, np.median(rows.astype(np.float64), axis=0), rtol=1e-14)
    assert (made.interquartile_range >= 0).all()


def test_constant_columns_and_signed_zeros_are_exact():
    rows = np.zeros((70_000, 3), dtype=np.float32)
    rows[::2, 0], rows[:, 1] = -0.0, 0.1
    made = Quantiles.of(rows, capacity=256)
    assert not made.exact
    values = made.quantile((0.0, 0.3, 0.5, 1.0))
    assert (values[:, 0] == 0.0).all()
    assert not np.signbit(values[:, 0]).any()
    assert (values[:, 1] == np.float32(0.1)).all()
    assert (made.interquartile_range == 0.0).all()


def test_float64_keeps_its_digits_beside_float32():
    sketch = ColumnSketch(1)
    sketch.add(np.ones((10, 1), dtype=np.float32))
    sketch.add(np.full((11, 1), 1.0 + 1e-12))
    assert sketch.quantile(1.0)[0, 0] == 1.0 + 1e-12


def test_a_copy_is_independent():
    sketch = _added(_rows("gaussian", "random", 100), 100)
    twin = sketch.copy()
    sketch.add(np.full((50, 3), 9.0, dtype=np.float32))
    assert (sketch.count, twin.count) == (150, 100)
    assert twin.maximum.max() < 9.0
    twin.add(np.full((1, 3), -9.0, dtype=np.float32))
    assert sketch.minimum.min() > -9.0


def test_many_small_sketches_merge_into_one():
    rows = _rows("gaussian", "random", 20_000, 1)
    total = ColumnSketch(1, capacity=1024)
    for piece in np.array_split(rows, 400):
        total = total.merge(_added(piece, 50, capacity=1024))
    assert total.count == len(rows)
    assert abs(float(total.quantile(0.5)[0, 0])) < 0.03


def test_the_default_capacity_shrinks_for_wide_tables():
    assert [ColumnSketch(dim).capacity for dim in (1, 512, 1024, 4096, 100_000)] == [65536, 65536, 32768, 8192, 8192]


def test_messages():
    sketch = ColumnSketch(2)
    with pytest.raises(UndefinedMeasureError, match="A quantile needs at least one row; got an empty sketch"):
        sketch.quantile(0.5)
    with pytest.raises(InputError, match=r"needs a power of two of at least 256 as its capacity; got 300"):
        ColumnSketch(2, capacity=300)
    sketch.add(np.ones((1, 2)))
    with pytest.raises(InputError, match=r"needs fractions from 0 to 1; got \[1.5\]"):
        sketch.quantile(1.5)
    with pytest.raises(InputError, match=r"two sketches of one shape; got 2 columns with capacity 65536 and 3 with"):
        sketch.merge(ColumnSketch(3))
