"""Hygiene: every planted fault is found, counted and named, and nothing else is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fullspan._typing import Block
from fullspan.errors import InputError
from fullspan.summaries.extremes import ROW_FAULTS, Extremes, largest_finite


def _table(n_rows: int = 3000, dim: int = 6, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n_rows, dim)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("block_rows", [9, 1000, 3000])
def test_planted_rows_are_named(dtype, block_rows):
    table = _table(dtype=dtype)
    table[3, 2], table[3, 4], table[2000, 0] = np.nan, np.nan, np.nan
    table[4, 1], table[5, 1] = np.inf, -np.inf
    table[6], table[2999] = 0.0, -0.0
    table[7] = 2.5
    table[8, 0], table[8, 5] = np.finfo(dtype).tiny / 2, -np.finfo(dtype).tiny / 4
    table[9, 3] = -np.finfo(dtype).max
    ids = np.array([f"row {number}" for number in range(len(table))])
    made = Extremes.of(Block(table[:block_rows], 0, ids[:block_rows]))
    for start in range(block_rows, len(table), block_rows):
        made |= Extremes.of(Block(table[start : start + block_rows], start, ids[start : start + block_rows]))
    found = {fault: ([p for p, _ in hits.first], hits.count, hits.entries) for fault, hits in made.rows.items()}
    assert found == {
        "nan": ([3, 2000], 2, 3),
        "infinite": ([4, 5], 2, 2),
        "zero": ([6, 2999], 2, 12),
        "constant": ([7], 1, 6),
        "denormal": ([8], 1, 2),
        "saturated": ([9], 1, 1),
    }
    assert made.rows["nan"].first[1] == (2000, "row 2000")
    assert (made.largest.value, made.largest.position, made.largest.dimension, made.largest.id) == (
        -np.finfo(dtype).max,
        9,
        3,
        "row 9",
    )
    finite = np.where(np.isfinite(table), table, np.nan)
    assert made.minimum.tolist() == np.nanmin(finite, axis=0).tolist()
    assert made.maximum.tolist() == np.nanmax(finite, axis=0).tolist()
    assert made.nan_columns.tolist() == [0, 2, 4]
    assert made.infinite_columns.tolist() == [1]
    assert made.n_rows == len(table)


def test_columns():
    table = _table(200, 9)
    table[:, 1], table[:, 2], table[:, 5] = 0.0, 0.25, -0.0
    table[:, 7], table[:, 8] = table[:, 3], table[:, 3]
    table[199, 8] += 1.0  # equal to column 3 but for the last row
    table[::2, 4] = np.nan
    for made in (Extremes.of(table), sum(Extremes.of(part, start=0) for part in np.array_split(table, 9))):
        assert made.zero_columns.tolist() == [1, 5]
        assert made.constant_columns.tolist() == [1, 2, 5]
        assert made.duplicate_columns == ((1, 5), (3, 7))
        assert made.absolute_maximum[2] == 0.25


def test_columns_with_nan_in_the_same_places_are_equal():
    table = _table(50, 4)
    table[7, 0] = np.nan
    table[:, 2] = table[:, 0]
    assert Extremes.of(table).duplicate_columns == ((0, 2),)
    table[8, 2] = np.nan
    assert Extremes.of(table).duplicate_columns == ()


def test_a_clean_table_has_no_faults():
    made = Extremes.of(_table())
    assert {hits.count for hits in made.rows.values()} == {0}
    assert made.duplicate_columns == ()
    assert not len(made.constant_columns)
    record = made.to_dict()
    assert all(record[name]["count"] == 0 for name in record if name != "largest_entry")


def test_the_stored_type_sets_the_limits():
    table = _table(20, 4)
    table[2, 1], table[3, 0], table[4, 0] = 65504.0, 2.0**-15, 65503.0
    plain, half = Extremes.of(table), Extremes.of(table, stored_dtype="float16")
    assert [plain.rows[fault].count for fault in ("saturated", "denormal")] == [0, 0]
    assert [half.rows[fault].count for fault in ("saturated", "denormal")] == [1, 1]
    eight = Extremes.of(np.where(table > 448, 448.0, table).astype(np.float32), stored_dtype="float8_e4m3fn")
    assert eight.rows["saturated"].count == 2
    assert eight.rows["denormal"].count == 0
    assert Extremes.of(table, stored_dtype="int8").rows["saturated"].count == 0


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"]
)
def test_limits_agree_with_ml_dtypes(dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert largest_finite(dtype) == float(ml_dtypes.finfo(dtype).max)
    assert largest_finite("int8") is None


def test_only_the_first_twenty_are_named():
    made = sum(Extremes.of(np.zeros((30, 3)), start=start) for start in (60, 0, 30))
    assert made.rows["zero"].count == 90
    assert [position for position, _ in made.rows["zero"].first] == list(range(20))


def test_one_row_and_one_column():
    made = Extremes.of(np.array([[3.0]]))
    assert made.rows["constant"].count == 0
    assert not len(made.constant_columns)
    assert made.duplicate_columns == ()
    assert Extremes.of(np.array([[0.0, 0.0]])).zero_columns.tolist() == [0, 1]


def test_the_record_is_plain_json():
    table = _table(30, 3)
    table[1], table[2, 2] = 0.0, np.nan
    record = Extremes.of(table, ids=np.arange(30)).to_dict()
    assert json.loads(json.dumps(record)) == record
    assert record["zero_rows"] == {"count": 1, "entries": 3, "rows": [{"position": 1, "id": 1}]}
    assert record["non_finite_columns"] == {"count": 1, "columns": [2]}
    assert set(record) == {
        *(f"{'inf' if fault == 'infinite' else fault}_rows" for fault in ROW_FAULTS),
        "constant_columns",
        "zero_columns",
        "non_finite_columns",
        "duplicate_columns",
        "largest_entry",
    }


def test_stored_types_must_agree():
    with pytest.raises(InputError, match="merge needs one stored type; got float16 and float32"):
        Extremes.of(np.ones((1, 2)), stored_dtype="float16").merge(Extremes.of(np.ones((1, 2)), stored_dtype="float32"))
