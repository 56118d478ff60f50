"""The rule that answers claims, on planted numbers and curves."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan.errors import InputError
from fullspan.studies.base.claims import answer, part, untestable
from fullspan.studies.base.grid import Cell
from fullspan.studies.base.result import CellCurves
from fullspan.studies.movielens.causes import cause_claims, effects, trend, verdict
from fullspan.studies.movielens.claims import article_claims, opposed
from tests.unit.studies import planted

RISING, FALLING = {"gini_index": 0.01, "hoyer_sparsity": 0.01}, {"gini_index": -0.01, "hoyer_sparsity": -0.01}


def answered(looked, resolution=1e-4):
    return answer("name", "It does.", "somewhere", "slope", looked, resolution=resolution)


@pytest.mark.parametrize(
    ("values", "claimed", "found"),
    [
        ([0.10, 0.11, 0.12], "rises", "supported"),
        ([0.10, 0.11, 0.12], "falls", "contradicted"),
        ([-0.10, -0.11, -0.12], "falls", "supported"),
        ([-0.10, -0.11, -0.12], "rises", "contradicted"),
        ([1e-6, 2e-6, 3e-6], "rises", "contradicted"),  # certain, and too small to be seen
        ([0.0, 0.0, 0.0], "falls", "contradicted"),
        ([-0.1, 0.1, 0.2], "rises", "undecided"),
        ([0.5], "rises", "undecided"),
        ([0.10, 0.11], "rises", "supported"),
        ([0.01, 0.20], "rises", "undecided"),
    ],
)
def test_a_part_is_answered_by_its_interval(values, claimed, found):
    assert part("x", values, claimed, resolution=1e-4).found == found


def test_an_interval_that_touches_the_resolution_is_undecided():
    assert part("x", [0.9, 1.0, 1.1], "rises", resolution=1.0).found == "undecided"


def test_a_contradiction_is_harder_where_there_are_many_parts():
    values = [-0.04, -0.01, -0.05, -0.02]
    assert part("x", values, "rises", resolution=1e-4).found == "contradicted"
    assert part("x", values, "rises", resolution=1e-4, n_parts=1000).found == "undecided"


def test_another_direction_is_refused():
    with pytest.raises(InputError, match=r'part needs "rises" or "falls" as what is claimed; got .grows.'):
        part("x", [1.0], "grows", resolution=0.0)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([[0.1, 0.11], [0.2, 0.21]], "holds"),
        ([[0.1, 0.11], [-0.2, -0.21]], "does not hold"),
        ([[0.1, 0.11], [-0.2, 0.21]], "undecided"),
        ([[0.1], [0.2]], "undecided"),
        ([], "not testable here"),
    ],
)
def test_a_claim_is_a_conjunction(values, said):
    claim = answered([(f"part {i}", each, "rises") for i, each in enumerate(values)])
    assert claim.answer == said
    assert claim.why


def test_the_part_against_a_claim_is_named():
    claim = answered([("good", [0.1, 0.11], "rises"), ("bad", [-0.2, -0.21], "rises")])
    assert claim.why == "2 parts: 1 supported, 1 contradicted. Against it: bad -0.2050 [-0.2685, -0.1415]."
    claim = answered([("good", [0.1, 0.11], "rises"), ("bad", [-0.2, 0.2], "rises")])
    assert claim.why == "2 parts: 1 supported, 1 undecided. Open: bad +0.0000 [-2.5412, +2.5412]."


def test_a_claim_names_a_few_of_many_parts_against_it():
    claim = answered([(f"part {i}", [-0.2, -0.21], "rises") for i in range(5)])
    assert claim.why.count("part ") == 3
    assert claim.why.endswith("; and 2 more.")


def test_one_seed_says_where_it_points_and_that_it_decides_nothing():
    claim = answered([("a", [0.1], "rises"), ("b", [0.1], "falls")])
    assert "1 of 2 point as claimed" in claim.why


def test_a_claim_that_cannot_be_tested_says_why():
    assert untestable("n", "s", "w", "t", "because").why == "because"


def test_noise_around_nothing_is_rarely_taken_for_a_trend():
    rng = np.random.default_rng(3)
    found = [part("x", rng.normal(size=10), "rises", resolution=1e-4).found for _ in range(400)]
    assert found.count("supported") / 400 < 0.06
    assert found.count("contradicted") / 400 < 0.06


def article(sgd=RISING, adam=FALLING, *, spectral=-0.01, batch_1=FALLING, turn=True, n_seeds=5, noise=0.0):
    """Curves that move as the article says, or not."""
    cells = {}
    for optimizer, slopes in (("sgd", sgd), ("adam", adam)):
        for b in (1, 8, 16, 32):
            mine = batch_1 if (optimizer, b) == ("sgd", 1) else slopes
            opposite = {"vector_entropy": -2 * mine["gini_index"], "spectral_entropy": spectral}
            loss = {"loss": 0.6 - (optimizer == "adam") * 0.05 + np.zeros((n_seeds, 21))}
            made = planted.curves(f"{optimizer}-b{b}", {**mine, **opposite}, n_seeds=n_seeds, noise=noise, **loss)
            cells[f"{optimizer}-b{b}"] = made
    if turn:
        x = np.arange(21.0)
        shape = np.where(x <= 5, -0.01 * x, -0.05 + 0.02 * (x - 5)) + np.zeros((n_seeds, 1))
        cells["adam-b1"].curves.update(gini_index=shape, hoyer_sparsity=shape, vector_entropy=-shape)
    return cells


def answers(cells):
    return {claim.name: claim.answer for claim in article_claims(cells)}


def test_what_moves_as_the_article_says_holds():
    found = answers(article())
    assert set(found.values()) == {"holds"}
    assert len(found) == 7


def test_what_moves_otherwise_does_not_hold():
    found = answers(article(sgd=FALLING, adam=RISING, spectral=0.01, batch_1=RISING, turn=False))
    assert found.pop("entropy-opposes-gini") == "holds"
    assert found.pop("adam-converges-faster") == "holds"
    assert set(found.values()) == {"does not hold"}


def test_what_does_not_move_does_not_hold():
    flat = {"gini_index": 0.0, "hoyer_sparsity": 0.0}
    found = answers(article(sgd=flat, adam=flat, spectral=0.0, batch_1=flat, turn=False))
    assert found.pop("adam-converges-faster") == "holds"
    assert set(found.values()) == {"does not hold"}


def test_noise_among_seeds_leaves_trends_undecided():
    found = answers(article(noise=1.0, turn=False))
    assert found["sgd-raises-gini-and-hoyer"] == found["adam-lowers-gini-and-hoyer"] == "undecided"


def test_one_seed_decides_nothing():
    assert set(answers(article(n_seeds=1)).values()) == {"undecided"}


def test_one_cell_that_moves_otherwise_refutes_and_is_named():
    cells = article()
    cells["sgd-b16"] = planted.curves("sgd-b16", {**cells_slopes(-0.01), "loss": 0.0})
    claim = next(each for each in article_claims(cells) if each.name == "sgd-raises-gini-and-hoyer")
    assert claim.answer == "does not hold"
    assert "Gini index, SGD, batch 16" in claim.why


def cells_slopes(slope):
    return dict.fromkeys(("gini_index", "hoyer_sparsity", "vector_entropy", "spectral_entropy"), slope)


def test_few_epochs_cannot_show_a_turn():
    cells = {}
    for optimizer in ("sgd", "adam"):
        for b in (1, 8, 16, 32):
            cells[f"{optimizer}-b{b}"] = planted.curves(
                f"{optimizer}-b{b}", {**cells_slopes(-0.01), "loss": 0}, epochs=5
            )
    claim = next(each for each in article_claims(cells) if each.name == "adam-batch-1-turns")
    assert (claim.answer, claim.why) == ("not testable here", "It needs at least 8 epochs; got 5.")


def test_a_measure_that_stays_has_nothing_to_oppose():
    assert opposed(planted.curves("sgd-b8", {"gini_index": 0.0, "vector_entropy": 0.1}), "gini_index") == [0.0] * 5


def test_causes_are_not_testable_without_their_cells():
    assert {claim.answer for claim in cause_claims(article())} == {"not testable here"}


def test_rows_that_turn_to_the_dense_layer_are_seen_with_their_kinship():
    cells = article()
    for curves in cells.values():
        ends = np.linspace(0.3, 0.4, 5)
        curves.curves["gini_index"][:, -1] = ends
        curves.curves["kernel.gini_index"] = np.linspace(0.5, 0.4, 21) * np.linspace(1, 1.2, 5)[:, None]
        curves.curves["kernel.alignment"] = np.linspace(0.3, 0.9, 21) + np.zeros((5, 1))
    found = {claim.name: claim for claim in cause_claims(cells)}
    assert found["rows-turn-to-the-dense-layer"].answer == "holds"
    assert found["adam-evens-the-dense-layer"].answer == "holds"
    told = found["rows-turn-to-the-dense-layer"].detail["sgd-b8"]
    assert told == "cosine 0.900, Gini of rows 0.350, of dense weights 0.440, correlation over seeds +1.00"


def test_the_guesses_at_causes_on_planted_cells():
    """Noise raises, momentum lowers, scaling lowers; batch 1 turns by its noise: as the guesses would have it."""
    cells = article()
    slopes = {
        "sgd-b1-as-many-updates-as-b32": -0.01,
        "sgd-b8-as-many-updates-as-b32": 0.03,
        "sgd-b32-as-many-updates-as-b1": 0.01,
        "adam-no-momentum-b8": 0.01,
        "adam-no-momentum-b32": 0.01,
        "sgd-momentum-slow-b8": -0.01,
        "sgd-momentum-slow-b32": -0.01,
        "adagrad-b8": -0.01,
        "adagrad-b32": -0.01,
    }
    for name, slope in slopes.items():
        made = planted.curves("sgd-b8", {**cells_slopes(slope), "spectral_entropy": -0.01}, n_seeds=3)
        cells[name] = CellCurves(Cell(name, made.cell.settings, "updates"), made.seeds, made.x, made.curves)
    found = {claim.name: claim.answer for claim in cause_claims(cells)}
    assert found["noise-turns-batch-1"] == "holds"
    assert found["momentum-lowers-gini"] == "holds"
    assert found["noise-raises-gini"] == "does not hold"  # batch 1 moves against it
    assert found["scaling-lowers-gini"] == "does not hold"  # Adam without momentum rises
    assert found["spectral-entropy-falls-everywhere"] == "holds"
    assert found["optimizers-are-related"] == "not testable here"


@pytest.mark.parametrize(
    ("here", "there", "said"),
    [
        ("rises", "rises", "keeps"),
        ("falls", "rises", "reverses"),
        ("flat", "falls", "removes"),
        ("unclear", "falls", "unclear"),
        ("rises", "unclear", "unclear"),
        ("rises", "flat", "unclear"),
    ],
)
def test_what_became_of_a_trend(here, there, said):
    assert verdict(here, there) == said


def test_a_trend_within_the_resolution_is_flat():
    assert trend([1e-6, 2e-6, -1e-6])[1] == "flat"


def test_a_variant_is_held_against_its_cell_of_the_article():
    cells = article()
    for name, slope in (("sgd-momentum-b8", -0.01), ("adam-no-momentum-b8", -0.01), ("adamw-b8", 0.0)):
        cells[name] = planted.curves(name, cells_slopes(slope), part="momentum", auc=np.full((5, 21), 0.7))
    rows = {row["cell"]: row for row in effects(cells)}
    assert rows["sgd-momentum-b8"]["gini_trend"] == "falls: reverses"
    assert rows["adam-no-momentum-b8"]["gini_trend"] == "falls: keeps"
    assert (rows["adamw-b8"]["against"], rows["adamw-b8"]["gini_trend"]) == ("adam-b8", "flat: removes")
    assert rows["adamw-b8"]["auc"] == pytest.approx(0.7)
