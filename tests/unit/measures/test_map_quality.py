"""How far a map can be believed: preserved neighborhoods, trustworthiness, continuity."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import map_quality
from fullspan.measures.drift import neighbor_overlap
from fullspan.measures.map_quality import chance_preservation, continuity, neighbor_preservation, trustworthiness

RANDOM = np.random.default_rng(0)
E = RANDOM.normal(size=(300, 6))
ALL = (neighbor_preservation, trustworthiness, continuity)


@pytest.mark.parametrize("measure", ALL)
def test_a_map_that_is_the_table_keeps_everything(measure):
    turn = np.linalg.qr(RANDOM.normal(size=(6, 6)))[0]
    assert measure(E, 3 * E @ turn + 7, 5) == 1.0


def test_without_ties_it_is_the_overlap_of_neighbors():
    flat = E[:, :2]
    theirs = neighbor_overlap(E, flat, 7, metric="euclidean")
    assert neighbor_preservation(E, flat, 7) == pytest.approx(theirs, abs=1e-12)


def test_a_map_that_knows_nothing_is_at_chance():
    values = [neighbor_preservation(E, RANDOM.normal(size=(300, 2)), 10) for _ in range(20)]
    error = np.std(values) / np.sqrt(20)
    assert abs(np.mean(values) - chance_preservation(300, 10)) < 4 * error
    assert trustworthiness(E, RANDOM.normal(size=(300, 2)), 10) == pytest.approx(0.5, abs=0.05)


def test_blocks_do_not_matter(monkeypatch):
    flat = E[:, :2]
    whole = [measure(E, flat, 5) for measure in ALL]
    monkeypatch.setattr(map_quality, "_BLOCK", 700)
    assert [measure(E, flat, 5) for measure in ALL] == whole


@pytest.mark.parametrize("measure", ALL)
def test_queries_are_a_seeded_choice_of_rows(measure):
    flat = E[:, :2]
    some = [measure(E, flat, 5, queries=100, seed=seed) for seed in (0, 0, 1)]
    assert some[0] == some[1] != some[2]
    assert some[0] == pytest.approx(measure(E, flat, 5), abs=0.1)
    assert measure(E, flat, 5, queries=300) == measure(E, flat, 5)


def test_copies_cost_nothing():
    """Ten copies of each row: whichever of them is found, it is as near as any."""
    table = np.repeat(E[:30], 10, axis=0)
    assert neighbor_preservation(table, table[:, :] * 2, 4) == 1.0


def test_a_torn_neighborhood_is_discontinuous_and_a_folded_one_is_not_to_be_trusted():
    line = np.arange(40.0)[:, None]
    torn = np.where(line < 20, line, line + 1000)  # the order is kept: only the break is lost
    torn = np.where((line.ravel() % 2 == 0)[:, None], torn, -torn)  # every other row is thrown far away
    assert continuity(line, torn, 2) < trustworthiness(line, torn, 2)
    folded = np.abs(line - 19.6)  # two halves on top of each other
    assert trustworthiness(line, folded, 2) < continuity(line, folded, 2)


@pytest.mark.parametrize("measure", ALL)
def test_hostile_tables(measure):
    name = measure.__name__
    with pytest.raises(UndefinedMeasureError, match=f"{name} needs rows that differ in the table; got 300 equal rows"):
        measure(np.ones((300, 4)), E[:, :2], 5)
    with pytest.raises(UndefinedMeasureError, match=f"{name} needs rows that differ on the map; got 300 equal rows"):
        measure(E, np.ones((300, 2)), 5)
    with pytest.raises(UndefinedMeasureError, match=f"{name} needs more than k=5 rows; got 5. Take a smaller k"):
        measure(E[:5], E[:5, :2], 5)
    with pytest.raises(UndefinedMeasureError, match=f"{name} needs rows that are not zero with the cosine; got 1 zero"):
        measure(np.vstack([E, np.zeros(6)]), RANDOM.normal(size=(301, 2)), 5, metric="cosine")
    with pytest.raises(InputError, match=f"{name} needs k ≥ 1; got 0"):
        measure(E, E[:, :2], 0)
    with pytest.raises(InputError, match=f"{name} needs queries ≥ 1; got 0"):
        measure(E, E[:, :2], 5, queries=0)
    with pytest.raises(InputError, match=f"{name} needs two tables with the same rows; got 300 and 299 rows"):
        measure(E, E[:299, :2], 5)
    with pytest.raises(InputError, match=f'{name} needs metric to be one of "euclidean", "cosine"; got "dot"'):
        measure(E, E[:, :2], 5, metric="dot")


@pytest.mark.parametrize("measure", [trustworthiness, continuity])
def test_ranks_need_more_rows(measure):
    with pytest.raises(InputError, match=f"{measure.__name__} needs k < n/2; got k=5 and 10 rows"):
        measure(E[:10], E[:10, :2], 5)


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_extreme_scales(factor):
    assert neighbor_preservation(factor * E, E[:, :2], 5) == neighbor_preservation(E, E[:, :2], 5)


def test_chance_needs_neighbors():
    with pytest.raises(InputError, match="chance_preservation needs 1 ≤ k < n_rows; got k=10 and n_rows=10"):
        chance_preservation(10, 10)
