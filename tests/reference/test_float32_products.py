"""Products in float32 against float64: what they resolve, when they are refused, and what a report says of it."""

from __future__ import annotations

import numpy as np
import pytest

import fullspan as fs
from fullspan.errors import InputError

FOUR = ["gini_index", "hoyer_sparsity", "vector_entropy", "spectral_entropy"]


def table(n_rows, dim, offset=0.0, smallest=0.1, seed=0, dtype="f4"):
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    return ((rng.normal(size=(n_rows, dim)) * np.geomspace(1, smallest, dim)) @ axes + offset).astype(dtype)


def exact(E):
    E = E.astype(float)
    rest = E - E.mean(axis=0)
    return np.linalg.eigvalsh(rest.T @ rest)


@pytest.mark.parametrize("offset", [0, 1, 100, 1e4])
@pytest.mark.parametrize("shape", [(20_000, 64), (3_000, 16), (2_000, 256), (100, 40)])
def test_eigenvalues_hold_to_the_stated_rounding_of_the_largest(shape, offset):
    E = table(*shape, offset)
    made = fs.fold(E, fs.Moments.with_options(products="float32"))
    found = np.linalg.eigvalsh(made.scatter)
    assert 0.0 < made.rounding < 4e-5
    assert np.abs(found - exact(E)).max() <= made.rounding * exact(E)[-1]
    np.testing.assert_allclose(made.mean, E.astype(float).mean(axis=0), rtol=1e-7, atol=1e-7)


def test_entries_hold_in_chunks_of_many_rows():
    E = table(20_000, 32, smallest=1.0)
    made = fs.fold(E, fs.Moments.with_options(products="float32"))
    rest = E.astype(float) - E.astype(float).mean(axis=0)
    true = rest.T @ rest
    scale = np.sqrt(np.outer(true.diagonal(), true.diagonal()))
    assert np.abs((made.scatter - true) / scale).max() <= 8 * 2.0**-24


def test_any_cut_and_any_tree_agree_to_float32():
    E = table(5_000, 24, offset=3.0)
    recipe = fs.Moments.with_options(products="float32")
    whole = fs.fold(E, recipe)
    for rows in (1, 7, 255, 256, 4_999):
        cut = fs.fold(E[:1_500] if rows == 1 else E, recipe, block_rows=rows)
        same = fs.fold(E[:1_500], recipe) if rows == 1 else whole
        np.testing.assert_allclose(cut.eigenvalues, same.eigenvalues, rtol=0, atol=5e-7 * same.eigenvalues[0])
    halves = fs.fold(E[:2_000], recipe) | fs.fold(E[2_000:], recipe)
    np.testing.assert_allclose(halves.eigenvalues, whole.eigenvalues, rtol=0, atol=5e-7 * whole.eigenvalues[0])
    assert (halves | fs.fold(E, fs.Moments)).rounding == halves.rounding > 0.0 == fs.fold(E, fs.Moments).rounding


def test_weights_count_as_repeated_rows():
    E = table(400, 8, offset=2.0)
    weights = np.arange(400) % 5
    weighted = fs.fold(
        fs.open_table(E, frequencies=weights), fs.Moments.with_options(products="float32", weighted=True)
    )
    repeated = fs.fold(np.repeat(E, weights, axis=0), fs.Moments)
    np.testing.assert_allclose(weighted.scatter, repeated.scatter, rtol=1e-5, atol=1e-5 * repeated.scatter.max())
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-6)


def test_rounding_tells_of_a_drifting_mean_and_of_squares_out_of_range():
    drifting = table(3_000, 8)
    drifting[1_000:] += 1e4
    calm = fs.fold(drifting, fs.Moments.with_options(products="float32"))
    assert calm.rounding < 4e-5  # the drift is part of the spread
    narrow = np.concatenate([table(256, 8, 1e3), np.full((50_000, 8), 0.5, "f4"), table(256, 8, 0.0)])
    assert fs.fold(narrow, fs.Moments.with_options(products="float32"), block_rows=256).rounding > 4e-5
    for scale in (1e25, 1e-25):
        assert (
            fs.fold(table(500, 8) * np.float32(scale), fs.Moments.with_options(products="float32")).rounding == np.inf
        )


@pytest.mark.parametrize("offset", [0, 1, 100])
def test_the_four_measures_agree_with_float64(offset):
    E = table(4_000, 96, offset)
    quick = fs.measure(E, measures=FOUR, products="float32", standard_errors=False)
    sure = fs.measure(E, measures=FOUR, standard_errors=False)
    (record,) = [each.record for each in quick.tables.values()]
    assert (record.passes, record.notes) == (1, ())
    for name in FOUR:
        assert quick[name].value == pytest.approx(sure[name].value, rel=1e-7)


@pytest.mark.parametrize(
    ("E", "measures"),
    [
        (table(2_000, 32, smallest=1e-3), ["spectral_entropy"]),
        (table(2_000, 32, smallest=0.1), ["inverse_condition_number"]),
        (table(2_000, 16, smallest=0.5) * np.float32(1e25), ["spectral_entropy"]),
        (np.repeat(table(2_000, 16), 2, axis=1), ["spectral_entropy"]),
    ],
    ids=["small axes", "rests on the smallest", "overflows", "rank-deficient"],
)
def test_what_float32_does_not_resolve_is_read_again_and_said(E, measures):
    quick = fs.measure(E, measures=measures, products="float32")
    sure = fs.measure(E, measures=measures)
    (record,), (plain,) = ([each.record for each in report.tables.values()] for report in (quick, sure))
    assert record.passes == plain.passes + 1
    assert any("read again with float64" in note for note in record.notes)
    assert quick[measures[0]].value == sure[measures[0]].value
    assert quick.to_dict()["provenance"]["products"] == "float32"


def test_streams_and_other_words_are_refused():
    with pytest.raises(InputError, match="needs a table that can be read twice; got a stream"):
        fs.measure(iter([table(50, 4)]), products="float32")
    with pytest.raises(InputError, match='products="float64" or "float32"; got \'half\''):
        fs.measure(table(50, 4), products="half")
    with pytest.raises(InputError, match='products="float64" or "float32"; got \'half\''):
        fs.fold(table(50, 4), fs.Moments.with_options(products="half"))
