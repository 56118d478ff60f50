"""Inputs on which other tools give wrong values, crash, or say nothing: the right value or a clear error."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fullspan.errors import FullspanError, InputError, UndefinedMeasureError
from fullspan.measures import abundance, conditioning, decay, directions, drift, isotropy, local, neighbors, spectrum
from fullspan.measures.catalog import CATALOG
from tests.table_evidence import TableEvidence

READABLE = {name: entry for name, entry in CATALOG.items() if entry.read is not None}


def gaussian(n, dim, seed=0):
    return np.random.default_rng(seed).standard_normal((n, dim))


def eigenvalues(E):
    return TableEvidence(E).eigenvalues


def sigma(E):
    return np.linalg.svd(np.asarray(E, dtype=np.float64), compute_uv=False)


@pytest.mark.parametrize(("n", "biased"), [(10, 0.113), (70, 0.502), (500, 0.880), (100_000, 0.9993)])
def test_iso_score_of_few_rows_stands_beside_its_null(n, biased):
    evidence = TableEvidence(gaussian(n, 64))
    entry = CATALOG["iso_score"]
    value, expected = entry.read(evidence), entry.null_for(n, evidence)
    assert value == pytest.approx(biased, abs=0.02)
    assert abs(value - expected.value) < 4 * expected.deviation + 1e-4
    assert isotropy.iso_score_star(evidence.eigenvalues, n) > 0.95


@pytest.mark.parametrize(("n", "low"), [(70, 16.8), (500, 36)])
def test_nesum_stands_beside_its_null(n, low):
    evidence = TableEvidence(gaussian(n, 64))
    value = CATALOG["nesum"].read(evidence)
    assert value == pytest.approx(low, rel=0.12)
    assert value / CATALOG["nesum"].null_for(n, evidence).value == pytest.approx(1, abs=0.12)


def test_wider_than_tall_is_real_and_normalized_by_the_rank():
    E = gaussian(20, 80)
    evidence = TableEvidence(E)
    for name in ("nesum", "participation_ratio", "eigenvalue_effective_rank", "centered_effective_rank"):
        value = CATALOG[name].read(evidence)
        assert isinstance(value, float)
        assert value <= 19
        assert CATALOG[name].bounds(20, 80)[1] == 19
    assert 0 <= decay.alpha_req(evidence.eigenvalues) < 5
    assert conditioning.numerical_rank(sigma(E)) == 20


@pytest.mark.parametrize("dim", [3, 8, 50, 99])
def test_alpha_req_below_a_hundred_dimensions(dim):
    assert math.isfinite(decay.alpha_req(eigenvalues(gaussian(500, dim))))


def test_rank_me_is_on_singular_values():
    E = gaussian(500, 64, seed=1)
    assert spectrum.rankme(sigma(E)) == pytest.approx(62.9, abs=0.2)
    assert spectrum.eigenvalue_effective_rank(sigma(E) ** 2) == pytest.approx(59.9, abs=0.4)
    assert spectrum.effective_rank(sigma(np.ones((100, 64)))) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("name", READABLE)
@pytest.mark.parametrize("kind", ["one row", "constant", "zeros", "one column", "two rows", "opposite"])
def test_degenerate_tables_give_a_number_or_say_why(name, kind):
    tables = {
        "one row": gaussian(1, 6),
        "constant": np.full((50, 6), 0.1),
        "zeros": np.zeros((50, 6)),
        "one column": gaussian(50, 1),
        "two rows": gaussian(2, 6),
        "opposite": np.vstack([np.ones((25, 6)), -np.ones((25, 6))]),
    }
    E = tables[kind]
    try:
        value = float(READABLE[name].read(TableEvidence(E, np.arange(1.0, len(E) + 1))))
    except UndefinedMeasureError as error:
        message = str(error)
    else:
        assert math.isfinite(value)
        low, high = READABLE[name].bounds(*E.shape)
        assert low - 1e-9 <= value <= high + 1e-9 * max(1, abs(value))
        return
    assert "; got " in message
    assert "\n" not in message


def test_constant_data_is_collapsed_not_perfect():
    constant = np.full((50, 6), 0.1)
    for name in ("spectral_entropy", "participation_ratio", "nesum", "iso_score", "centered_information_abundance"):
        with pytest.raises(UndefinedMeasureError, match="got 6 zeros"):
            CATALOG[name].read(ExactlyConstant(constant))
    assert abundance.information_abundance(sigma(constant)) == pytest.approx(1)
    assert directions.average_cosine(constant) == 1.0
    with pytest.raises(UndefinedMeasureError, match="at least two distinct rows; got 50 equal rows"):
        neighbors.hubness_skew(constant)


class ExactlyConstant(TableEvidence):
    """A mean that carries no rounding, as a pilot-shifted summary has it."""

    @property
    def mean(self):
        return self.E[0]


@pytest.mark.parametrize(
    "function",
    [
        directions.average_cosine,
        directions.cosine_deviation,
        isotropy.isotropy,
        neighbors.hubness_skew,
        local.two_nn_dimension,
        spectrum.article_spectral_entropy,
        lambda E: drift.linear_cka(E, E),
    ],
)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_row_is_counted_and_named(function, bad):
    E = gaussian(40, 5)
    E[[17, 30], 2] = bad
    with pytest.raises(InputError, match="got 2 NaN or infinite values, the first in row 17"):
        function(E)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", READABLE)
def test_half_precision_is_widened(name, dtype):
    stored = torch.from_numpy(gaussian(60, 12, 3)).to(dtype)
    wide = TableEvidence(stored.double().numpy(), np.arange(1.0, 61), dtype="float64")
    value = READABLE[name].read(TableEvidence(stored.float().numpy(), np.arange(1.0, 61), dtype="float64"))
    assert value == pytest.approx(READABLE[name].read(wide), rel=1e-9)
    if name == "average_cosine":
        assert directions.average_cosine(stored) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-38, 1e-25, 1e20, 1e25, 1e36])
def test_extreme_scales_of_float32(scale):
    plain = gaussian(80, 12, 4).astype(np.float32)
    scaled = (plain.astype(np.float64) * scale).astype(np.float32)
    for function in (
        directions.average_cosine,
        directions.cosine_deviation,
        directions.unit_deviation,
        neighbors.hubness_skew,
        neighbors.antihub_share,
        local.two_nn_dimension,
        lambda E: spectrum.effective_rank(sigma(E)),
        lambda E: isotropy.iso_score(eigenvalues(E)),
        lambda E: spectrum.stable_rank(sigma(E)),
        lambda E: drift.linear_cka(E, plain),
    ):
        assert function(scaled) == pytest.approx(function(plain), rel=2e-5, abs=1e-6)


def test_float64_at_1e200_is_not_called_infinite():
    E = gaussian(60, 8)
    for function in (directions.average_cosine, neighbors.hubness_skew, local.two_nn_dimension):
        assert function(E * 1e200) == pytest.approx(function(E), rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_mean_of_ten_thousand_deviations(dtype):
    plain = gaussian(2000, 16)
    shifted = (plain + 1e4).astype(dtype)
    assert abundance.information_abundance(sigma(shifted)) < 1.01
    assert spectrum.stable_rank(sigma(shifted)) == pytest.approx(1, abs=1e-6)
    assert isotropy.iso_score(eigenvalues(shifted)) == pytest.approx(isotropy.iso_score(eigenvalues(plain)), rel=1e-3)
    assert directions.average_cosine(shifted) == pytest.approx(1, abs=1e-7)
    assert "centered" in CATALOG["information_abundance"].traps[0]
    centered = CATALOG["centered_information_abundance"].read(TableEvidence(shifted))
    assert centered == pytest.approx(CATALOG["centered_information_abundance"].read(TableEvidence(plain)), rel=1e-2)


def test_a_mean_cosine_below_zero_is_not_clipped():
    clusters = np.vstack([gaussian(20, 5) * 0.01 + 1, gaussian(20, 5, 1) * 0.01 - 1])
    assert directions.average_cosine(clusters) == pytest.approx(-1 / 39, abs=1e-3)


def test_copies_neither_crash_nor_bend_the_dimension():
    rows = gaussian(700, 10)
    alone = local.two_nn_dimension(rows)
    exact = np.vstack([rows, rows[:350]])
    near = np.vstack([rows, rows[:350].astype(np.float32)])
    for doubled in (exact, near):
        assert local.two_nn_dimension(doubled) == pytest.approx(alone, rel=0.05)
        assert neighbors.nearest_neighbors(doubled, metric="euclidean").n_copies == 700


def test_linear_cka_of_independent_data_at_32_rows():
    draws = [np.random.default_rng(s).standard_normal((2, 32, 8)) for s in range(60)]
    biased = np.mean([drift.linear_cka(*each) for each in draws])
    assert biased == pytest.approx(0.2, abs=0.03)
    assert abs(np.mean([drift.linear_cka(*each, debiased=True) for each in draws])) < 0.03
    with pytest.raises(UndefinedMeasureError, match="got 32 equal rows"):
        drift.linear_cka(np.ones((32, 4)), draws[0][0])


def test_gini_of_tiny_rows_is_not_even():
    from fullspan.measures.sparsity import gini_index

    row = np.array([1.0, 0.0, 0.0, 0.0])
    assert gini_index(row * 1e-14) == 0.75
    assert gini_index(row * 1e-14, mode="article") < 0.01


def test_every_refusal_is_ours():
    assert issubclass(UndefinedMeasureError, FullspanError)
    assert issubclass(InputError, FullspanError)


def test_shapes_are_refused_with_the_shape():
    for function in (directions.average_cosine, isotropy.isotropy, neighbors.hubness_skew):
        with pytest.raises(InputError, match=r"needs a table of shape \(rows, dim\); got shape \(5,\)"):
            function(np.ones(5))
        with pytest.raises(InputError, match=r"got shape \(5, 0\)"):
            function(np.ones((5, 0)))
        with pytest.raises(UndefinedMeasureError, match="at least 1 row; got 0"):
            function(np.ones((0, 5)))
        with pytest.raises(InputError, match="real numbers; got dtype object"):
            function(np.array([["a", None]], dtype=object))


def test_what_the_catalog_itself_refuses():
    zeros, few = TableEvidence(np.zeros((9, 4))), TableEvidence(gaussian(4, 4), np.ones(4))
    for name in ("mean_norm_ratio", "norm_variation"):
        with pytest.raises(UndefinedMeasureError, match=rf"{name} needs at least one non-zero row; got 9 zero rows"):
            CATALOG[name].read(zeros)
    with pytest.raises(UndefinedMeasureError, match="more rows than dimensions; got 4 rows of dim 4"):
        CATALOG["log_determinant"].read(few)
    with pytest.raises(UndefinedMeasureError, match="a correlation needs four rows; got 3"):
        CATALOG["length_frequency_correlation"].standard_error(TableEvidence(gaussian(3, 4), np.arange(3.0)))


def test_values_below_the_resolution_of_the_type_are_marked():
    random = np.random.default_rng(0)
    E = random.standard_normal((400, 10))
    E[:, 9] = E[:, :9] @ random.standard_normal(9)
    entry = CATALOG["inverse_condition_number"]
    for dtype in ("float64", "float32", "float16"):
        evidence = TableEvidence(E.astype(dtype))
        assert entry.below_resolution(evidence, entry.read(evidence))
    whole = TableEvidence(gaussian(400, 10).astype(np.float16))
    assert not entry.below_resolution(whole, entry.read(whole))
