"""Neighbor purity and silhouette, against labels at random."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import separability
from fullspan.measures.separability import (
    neighbor_purity,
    neighbor_purity_estimate,
    silhouette,
    silhouette_estimate,
)

RANDOM = np.random.default_rng(0)
LABELS = RANDOM.integers(0, 4, 400)
NOISE = RANDOM.normal(size=(400, 8))
APART = NOISE + 50 * np.eye(8)[LABELS]
BOTH = pytest.mark.parametrize("estimate", [neighbor_purity_estimate, silhouette_estimate])
METRICS = pytest.mark.parametrize("metric", ["cosine", "euclidean"])


@BOTH
@METRICS
def test_labels_apart_are_far_above_chance(estimate, metric):
    found = estimate(APART, LABELS, metric=metric)
    assert found.value > 0.9
    assert found.above_chance > 50
    assert found.value == found.samples.mean()
    assert len(found.samples) == len(found.rows) == found.n_rows == 400


@BOTH
@METRICS
def test_labels_that_mean_nothing_are_at_chance(estimate, metric):
    found = [estimate(NOISE, np.random.default_rng(seed).permutation(LABELS), metric=metric) for seed in range(12)]
    assert np.abs([each.above_chance for each in found]).max() < 4
    assert np.mean([each.value - each.chance for each in found]) == pytest.approx(0, abs=0.005)


def test_chance_of_purity_is_exact():
    """The mean over all orders of the labels of a small table."""
    labels = np.array([0, 0, 0, 1, 1, 2])
    many = [neighbor_purity(NOISE[:6], np.random.default_rng(seed).permutation(labels), 2) for seed in range(500)]
    chance = neighbor_purity_estimate(NOISE[:6], labels, 2).chance
    assert chance == pytest.approx((3 * 2 + 2 * 1) / (6 * 5))
    assert abs(np.mean(many) - chance) < 4 * np.std(many) / np.sqrt(500)


def test_the_silhouette_of_nothing_is_below_zero_and_falls_with_the_labels():
    few, many = (silhouette_estimate(NOISE, np.arange(400) % n) for n in (2, 100))
    assert many.chance < few.chance < 0
    assert many.value == pytest.approx(many.chance, abs=0.05)


def test_a_chance_that_never_varies():
    """Three neighbors of four rows are all the others: any order of the labels reads the same."""
    rows = [[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]]
    found = neighbor_purity_estimate(rows, [0, 0, 0, 1], k=3)
    assert (found.value, found.chance_deviation, found.above_chance) == (pytest.approx(found.chance), 0, 0)
    assert silhouette_estimate(APART, LABELS, permutations=1).above_chance == np.inf


@METRICS
def test_a_row_alone_in_its_label_counts_nothing(metric):
    labels = np.append(np.zeros(399, dtype=int), 1)
    assert silhouette_estimate(APART, labels, metric=metric, permutations=0).samples[-1] == 0
    assert neighbor_purity_estimate(APART, labels, metric=metric).samples[-1] == 0


@BOTH
def test_labels_may_be_words_booleans_or_objects(estimate):
    value = estimate(APART, LABELS).value
    for labels in (LABELS.astype(str), LABELS * 1.5, list(LABELS), LABELS.astype(object)):
        assert estimate(APART, labels).value == value
    assert estimate(APART, LABELS > 1).n_rows == 400


@BOTH
def test_zero_rows_have_no_cosine(estimate):
    table = np.vstack([np.zeros((3, 8)), APART])
    found = estimate(table, np.append([0, 1, 2], LABELS))
    assert found.rows.min() == 3
    assert found.value == pytest.approx(estimate(APART, LABELS).value)
    assert estimate(table, np.append([0, 1, 2], LABELS), metric="euclidean").rows.min() == 0


def test_the_same_seed_gives_the_same_digits():
    first, again, other = (silhouette_estimate(NOISE, LABELS, max_rows=50, seed=seed) for seed in (1, 1, 2))
    assert (first.value, first.chance, first.chance_deviation) == (again.value, again.chance, again.chance_deviation)
    assert first.value != other.value


@METRICS
def test_many_labels_take_another_way_to_the_same_sums(metric, monkeypatch):
    whole = silhouette_estimate(NOISE, LABELS, metric=metric)
    monkeypatch.setattr(separability, "_FEW", 1)
    monkeypatch.setattr(separability, "_BLOCK", 4000)
    again = silhouette_estimate(NOISE, LABELS, metric=metric)
    assert again.samples == pytest.approx(whole.samples, abs=1e-9)
    assert again.chance == pytest.approx(whole.chance, abs=1e-9)


@pytest.mark.parametrize("factor", [1e-200, 1e150])
@pytest.mark.parametrize("measure", [neighbor_purity, silhouette])
@METRICS
def test_extreme_scales(measure, metric, factor):
    assert measure(factor * NOISE, LABELS, metric=metric) == pytest.approx(measure(NOISE, LABELS, metric=metric))


def test_the_error_covers_what_other_rows_would_say():
    """Standard error against the spread over fresh tables."""
    random = np.random.default_rng(5)
    values, errors = [], []
    for _ in range(40):
        labels = random.integers(0, 3, 300)
        found = neighbor_purity_estimate(random.normal(size=(300, 5)) + np.eye(5)[labels], labels, permutations=0)
        values.append(found.value)
        errors.append(found.standard_error)
    assert 0.6 < np.mean(errors) / np.std(values, ddof=1) < 1.5


@pytest.mark.parametrize("measure", [neighbor_purity, silhouette])
def test_bad_labels(measure):
    name = measure.__name__
    with pytest.raises(InputError, match=rf"{name} needs one label for each of 400 rows; got shape \(399,\)"):
        measure(NOISE, LABELS[1:])
    with pytest.raises(InputError, match=f"{name} needs a label for every row; got 1 that are NaN or infinite"):
        measure(NOISE, np.append(LABELS[1:] * 1.0, np.nan))
    with pytest.raises(InputError, match=f"{name} needs a label for every row; got None for some"):
        measure(NOISE, [None, *LABELS[1:]])
    with pytest.raises(UndefinedMeasureError, match=f"{name} needs rows of at least two labels; got 1"):
        measure(NOISE, np.zeros(400))
    with pytest.raises(InputError, match='needs metric to be one of "cosine", "euclidean"; got "dot"'):
        measure(NOISE, LABELS, metric="dot")


def test_one_row_a_label_has_no_silhouette():
    with pytest.raises(UndefinedMeasureError, match="silhouette needs a label that two rows share; got 400 labels"):
        silhouette(NOISE, np.arange(400))
    with pytest.raises(InputError, match="silhouette needs max_rows ≥ 1; got 0"):
        silhouette(NOISE, LABELS, max_rows=0)


def test_equal_rows_have_no_silhouette_to_speak_of():
    assert silhouette(np.ones((6, 3)), [0, 0, 0, 1, 1, 1]) == 0
    assert silhouette(np.ones((6, 3)), [0, 0, 0, 1, 1, 1], metric="euclidean") == 0
