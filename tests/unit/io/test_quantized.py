"""Narrow stored types against ml_dtypes and plain arithmetic."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from fullspan.errors import FormatError, InputError
from fullspan.io.quantized import (
    STORAGE,
    BitRows,
    ScaledRows,
    find_companions,
    refuse_packed,
    widen,
)


@pytest.mark.parametrize("kind", [name for name in STORAGE if name.startswith("float8")])
def test_every_8_bit_float_equals_ml_dtypes(kind: str) -> None:
    pattern = np.arange(256, dtype=np.uint8)
    expected = pattern.view(getattr(ml_dtypes, kind)).astype(np.float32)
    found = widen(kind)(pattern)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.float32
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


def test_every_bfloat16_equals_ml_dtypes_bit_by_bit() -> None:
    pattern = np.arange(2**16, dtype=np.uint16)
    found = widen("bfloat16")(pattern)
    np.testing.assert_array_equal(found.view(np.uint32), pattern.astype(np.uint32) << 16)
    np.testing.assert_array_equal(found, pattern.view(ml_dtypes.bfloat16).astype(np.float32))


@pytest.mark.parametrize(
    ("kind", "wide"),
    [("float16", "float16"), ("float64", "float64"), ("int16", "float32"), ("uint32", "float64"), ("bool", "float32")],
)
def test_plain_types_keep_their_values(kind: str, wide: str) -> None:
    stored = np.array([[0, 1], [1, 1]]).astype(STORAGE[kind])
    found = widen(kind)(stored)
    assert found.dtype == wide
    np.testing.assert_array_equal(found, [[0, 1], [1, 1]])


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(FormatError, match=r"needs a stored type that fullspan knows; got 'F4'"):
        widen("F4")


CODES = np.random.default_rng(0).integers(-128, 128, (300, 260)).astype(np.int8)


@pytest.mark.parametrize(
    "shape",
    [(), (1,), (300,), (300, 1), (260,), (1, 260), (300, 4), (3, 3)],
    ids=["number", "one", "rows", "rows-1", "columns", "1-columns", "groups", "squares"],
)
@pytest.mark.parametrize("with_zero", [False, True])
def test_scales_of_every_granularity(shape: tuple[int, ...], with_zero: bool) -> None:
    random = np.random.default_rng(1)
    scale = random.uniform(0.01, 0.1, shape).astype(np.float32)
    zero = random.integers(-5, 5, shape).astype(np.float32) if with_zero else None

    def grid(values: np.ndarray) -> np.ndarray:
        if shape == (300,):
            values = values[:, None]
        if shape == (300, 4):
            return np.repeat(values, 65, axis=1)
        if shape == (3, 3):
            return np.repeat(np.repeat(values, 128, axis=0), 128, axis=1)[:300, :260]
        return np.broadcast_to(values, (300, 260))

    expected = CODES.astype(np.float32) - (0 if zero is None else grid(zero))
    expected = expected * grid(scale)
    rows = ScaledRows("t", CODES, "int8", scale, zero)
    np.testing.assert_array_equal(rows[0:300], expected)
    np.testing.assert_array_equal(rows[120:140], expected[120:140])
    assert rows.shape == (300, 260)


def test_a_square_table_takes_one_scale_a_row() -> None:
    codes = np.ones((3, 3), np.int8)
    np.testing.assert_array_equal(ScaledRows("t", codes, "int8", np.array([1.0, 2, 3]))[0:3][:, 0], [1, 2, 3])


def test_float8_codes_take_scales_too() -> None:
    stored = np.array([[1.5, -2.0]], ml_dtypes.float8_e4m3fn)
    rows = ScaledRows("t", stored.view(np.uint8), "float8_e4m3fn", np.float32(0.5))
    np.testing.assert_array_equal(rows[0:1], [[0.75, -1.0]])


def test_scales_that_do_not_fit_are_refused() -> None:
    with pytest.raises(FormatError, match=r"scale of 't' needs one number, or one a row.*got shape \(7,\)"):
        ScaledRows("t", CODES, "int8", np.ones(7))
    with pytest.raises(FormatError, match=r"zero point of 't' needs one number"):
        ScaledRows("t", CODES, "int8", np.ones(1), np.ones((2, 2)))
    with pytest.raises(FormatError, match=r"scale of 't' needs finite numbers; got NaN"):
        ScaledRows("t", CODES, "int8", np.array(np.nan))


def test_bits_are_unpacked_as_sentence_transformers_packs_them() -> None:
    E = np.random.default_rng(2).standard_normal((5, 24))
    packed = np.packbits(E > 0, axis=1)
    signs = np.where(E > 0, 1, -1)
    np.testing.assert_array_equal(BitRows(packed, "ubinary")[0:5], signs)
    np.testing.assert_array_equal(BitRows((packed.astype(np.int16) - 128).astype(np.int8), "binary")[1:3], signs[1:3])
    np.testing.assert_array_equal(BitRows(packed, "bits")[0:5], (E > 0).astype(np.float32))
    assert BitRows(packed, "bits").shape == (5, 24)


def test_an_unknown_packing_is_refused() -> None:
    with pytest.raises(InputError, match=r'need dtype "ubinary" or "binary" or "bits"; got \'int4\''):
        BitRows(np.zeros((1, 1), np.uint8), "int4")


@pytest.mark.parametrize(
    "scale",
    ["e.weight_scale", "e.weight.scale", "e.scales", "e.weight_scales", "e.SCB", "e_scale", "e.weight_scale_inv"],
)
def test_companions_are_found_by_name(scale: str) -> None:
    beside = find_companions("e.weight", ["e.weight", scale, "e.weight_zero_point", "f.weight_scale"])
    assert beside is not None
    assert (beside.scale, beside.zero_point) == (scale, "e.weight_zero_point")
    assert beside.factor == (1 / 127 if scale == "e.SCB" else 1)
    assert find_companions("g.weight", [scale]) is None


def test_two_scales_are_not_chosen_from() -> None:
    with pytest.raises(FormatError, match=r"'e.weight' needs one scale .*got 'e.weight_scale', 'e.SCB'. Which one"):
        find_companions("e.weight", ["e.weight_scale", "e.SCB"])


def test_foreign_packings_are_named() -> None:
    assert refuse_packed("layers.0.qweight", []) == "GPTQ or AWQ codes"
    assert refuse_packed("e.weight", ["e.weight.absmax"]) == "4-bit codes of bitsandbytes"
    assert refuse_packed("e.weight", ["e.weight_scale"]) is None
