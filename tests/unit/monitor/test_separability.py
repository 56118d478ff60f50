"""Separability over training time, with and without normalizers, side by side."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fullspan.errors import InputError, UnknownNameError
from fullspan.measures.separability import neighbor_purity_estimate, silhouette_estimate
from fullspan.monitor.separability import NORMALIZERS, normalized, separability
from fullspan.store.records import Moment, Point
from fullspan.store.runs import RunWriter

RANDOM = np.random.default_rng(0)
LABELS = RANDOM.integers(0, 4, 600)
CENTERS = RANDOM.normal(size=(4, 8))
#: Labels part over three frames, under one loud dimension that means nothing.
FRAMES = [
    RANDOM.normal(size=(600, 8)) * [30, 1, 1, 1, 1, 1, 1, 1] + share * CENTERS[LABELS] for share in (0.0, 1.0, 2.0)
]


def test_values_are_those_of_the_vectors():
    found = separability(frames=FRAMES, labels=LABELS, steps=[0, 5, 9])
    assert (found.n_rows, found.n_labels, len(found.records)) == (600, 4, 3 * 3 * 2)
    for record in found.records:
        table = normalized(FRAMES[[0, 5, 9].index(record.at.step)], record.normalizer)
        estimate = neighbor_purity_estimate if record.measure == "neighbor_purity" else silhouette_estimate
        expected = estimate(table, LABELS.astype(str))
        assert (record.value, record.standard_error) == (expected.value, expected.standard_error)
        assert (record.chance, record.chance_deviation) == (expected.chance, expected.chance_deviation)


@pytest.mark.parametrize("measure", ["neighbor_purity", "silhouette"])
def test_a_normalizer_that_helps_is_seen_and_only_when_labels_mean_something(measure):
    gains = separability(frames=FRAMES, labels=LABELS).of(measure, "standardize")
    assert abs(gains[0].gain) < 3 * gains[0].gain_error
    assert gains[2].gain > 5 * gains[2].gain_error


@pytest.mark.parametrize("measure", ["neighbor_purity", "silhouette"])
def test_gains_on_labels_that_mean_nothing_are_within_their_errors(measure):
    """Many labels pull the silhouette below zero, differently after each normalizer."""
    scores = []
    for seed in range(10):
        labels = np.random.default_rng(seed).integers(0, 30, 600)
        [record] = separability(frames=FRAMES[:1], labels=labels, normalizers=["none", "standardize"]).of(
            measure, "standardize"
        )
        scores.append(record.gain / record.gain_error)
    assert np.abs(scores).max() < 4
    assert abs(np.mean(scores)) < 1


def test_changing_nothing_gains_nothing():
    found = separability(frames=FRAMES, labels=LABELS, normalizers=["none", "l2"])
    assert [each.gain for each in found.of("neighbor_purity", "l2")] == pytest.approx([0, 0, 0], abs=1e-12)
    assert [each.gain for each in found.of("silhouette", "none")] == [None] * 3
    euclidean = separability(frames=FRAMES, labels=LABELS, normalizers=["none", "l2"], metric="euclidean")
    assert abs(euclidean.of("neighbor_purity", "l2")[2].gain) > 0.001


def test_points_can_be_stored_and_read_back(tmp_path):
    found = separability(frames=FRAMES, labels=LABELS, steps=[0, 5, 9], normalizers=["none", "center+l2"])
    with RunWriter.open(tmp_path / "run") as writer:
        writer.table("item", n_rows=600, dim=8, dtype="float64")
        for step, vectors in zip((0, 5, 9), FRAMES, strict=True):
            writer.add_snapshot("item", Moment(step, epoch=step / 10), np.arange(600), vectors, LABELS)
    of_run = separability(tmp_path / "run", "item", normalizers=["none", "center+l2"])
    assert [each.value for each in of_run.records] == [each.value for each in found.records]
    points = of_run.points()
    assert {each.measure for each in points} == {
        "neighbor_purity",
        "neighbor_purity|center+l2",
        "silhouette",
        "silhouette|center+l2",
    }
    assert all(isinstance(each, Point) and each.table == "item" and each.n_rows for each in points)
    assert [each.at.epoch for each in points if each.measure == "silhouette"] == [0, 0.5, 0.9]
    with RunWriter.open(tmp_path / "run") as writer:
        writer.add(points)
    euclidean = separability(frames=FRAMES[:1], labels=LABELS, normalizers=["none", "center"], metric="euclidean")
    assert "silhouette|center|euclidean" in {each.measure for each in euclidean.points()}


def test_text_and_json():
    found = separability(frames=FRAMES, labels=LABELS, steps=[0, 5, 9], rows=500)
    lines = found.text().splitlines()
    assert lines[0] == "neighbor_purity (10 neighbors, cosine, 500 rows, 4 labels)"
    assert lines[1].split() == ["step", "by", "chance", "none", "center+l2", "gain", "standardize", "gain"]
    assert [line.split()[0] for line in lines[2:5]] == ["0", "5", "9"]
    record = found.of("neighbor_purity", "standardize")[2]
    assert lines[4].endswith(f"{record.value:.4f}  {record.gain:+.4f} ± {record.gain_error:.4f}")
    assert lines[-1] == "500 of 600 rows, drawn with seed 0."
    read = json.loads(found.to_json())
    assert read["records"][0]["at"]["step"] == 0
    assert len(read["records"]) == 18


def test_a_collapsed_frame_has_no_value_and_says_why():
    found = separability(frames=[np.zeros((600, 8)), FRAMES[2]], labels=LABELS, normalizers=["none", "center"])
    first = found.of("neighbor_purity", "none")[0]
    assert first.value is None
    assert "nearest_neighbors needs" in first.why or "needs at least one non-zero row" in first.why
    assert found.of("neighbor_purity", "center")[1].gain is not None
    assert found.points()[0].why == first.why
    assert found.text().splitlines()[2].split()[:3] == ["0", "-", "-"]
    json.loads(found.to_json())


def test_rows_without_a_label_are_left_out_and_counted():
    labels = LABELS.astype(object)
    labels[:5], labels[5:8] = None, ""
    labels[8:10] = np.nan
    found = separability(frames=FRAMES, labels=labels, normalizers=["none"])
    assert found.n_rows == 590
    assert "10 rows left out that have no label." in found.notes
    assert found.n_labels == 4


def test_the_same_seed_gives_the_same_digits_and_progress_is_told():
    told = []
    first, again = (
        separability(frames=FRAMES, labels=LABELS, rows=300, progress=lambda *each: told.append(each)).to_json()
        for _ in range(2)
    )
    assert first == again
    assert told[:3] == [("", "separability", done, 3) for done in (1, 2, 3)]


# -- normalizers


def test_what_each_normalizer_does():
    E = FRAMES[1]
    assert normalized(E, "none") == pytest.approx(E)
    assert normalized(E, "center").mean(axis=0) == pytest.approx(np.zeros(8), abs=1e-12)
    assert np.linalg.norm(normalized(E, "l2"), axis=1) == pytest.approx(np.ones(600))
    standard = normalized(E, "standardize")
    assert standard.mean(axis=0) == pytest.approx(np.zeros(8), abs=1e-12)
    assert standard.std(axis=0) == pytest.approx(np.ones(8))
    bounded = normalized(E, "min-max")
    assert (bounded.min(axis=0).tolist(), bounded.max(axis=0).tolist()) == ([0] * 8, [1] * 8)
    assert np.cov(normalized(E, "whiten").T, ddof=0) == pytest.approx(np.eye(8), abs=1e-9)
    both = normalized(E, "center+l2")
    assert both == pytest.approx(normalized(normalized(E, "center"), "l2"))


@pytest.mark.parametrize("name", NORMALIZERS)
@pytest.mark.parametrize("table", [np.zeros((4, 3)), np.ones((4, 3)), [[1.0, 2.0]], np.eye(3)], ids=str)
def test_normalizers_are_finite_and_leave_their_input_alone(name, table):
    table = np.array(table)
    before = table.copy()
    assert np.isfinite(normalized(table, name)).all()
    assert table.tolist() == before.tolist()


def test_wrong_calls():
    with pytest.raises(UnknownNameError, match='needs a normalizer, .* got "standardise". Did you mean "standardize"?'):
        separability(frames=FRAMES, labels=LABELS, normalizers=["none", "center+standardise"])
    with pytest.raises(InputError, match=r"separability needs one normalizer or more, each once; got \[\]"):
        separability(frames=FRAMES, labels=LABELS, normalizers=[])
    with pytest.raises(InputError, match="needs one normalizer or more, each once; got .*'none', 'none'"):
        separability(frames=FRAMES, labels=LABELS, normalizers=["none", "none"])
    with pytest.raises(
        InputError, match="separability needs a label for each row; got none, nor do the snapshots hold"
    ):
        separability(frames=FRAMES)
    with pytest.raises(InputError, match="separability needs at least two rows with a label; got 1"):
        separability(frames=FRAMES, labels=["a", *[None] * 599])
    with pytest.raises(InputError, match="separability needs a run or frames=, one of the two; got neither"):
        separability(labels=LABELS)
