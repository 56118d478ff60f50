"""``fullspan separability``: labels from the snapshots or a file, text and JSON, and what goes wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fullspan.monitor.separability import separability
from fullspan.store.records import Moment
from fullspan.store.runs import RunWriter

RANDOM = np.random.default_rng(0)
LABELS = np.where(RANDOM.random(200) < 0.5, "böse", "gut")
E = RANDOM.normal(size=(200, 5))


@pytest.fixture
def runs(tmp_path):
    """A run with labels in its snapshots, one without, and the labels in a file."""
    for name, labels in (("with", LABELS), ("without", None)):
        with RunWriter.open(tmp_path / name) as writer:
            writer.table("item", n_rows=200, dim=5, dtype="float64")
            for step in (0, 50):
                vectors = E + step / 10 * (LABELS == "gut")[:, None]
                writer.add_snapshot("item", Moment(step), np.arange(200), vectors, labels)
    (tmp_path / "labels.txt").write_text("label\n" + "\n".join(LABELS) + "\n", encoding="utf-8")
    return tmp_path


def test_text_is_that_of_the_function(cli, runs):
    ended = cli("separability", runs / "with", "--rows", 150, "-k", 5, "--seed", 3)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == separability(runs / "with", rows=150, k=5, seed=3).text() + "\n"
    assert ended.out.startswith("neighbor_purity (5 neighbors, cosine, 150 rows, 2 labels)\n")


def test_labels_may_come_from_a_file(cli, runs):
    first = cli("separability", runs / "with", "--json")
    again = cli("separability", runs / "without", "--table", "item", "--labels", runs / "labels.txt", "--json")
    assert json.loads(first.out) == json.loads(again.out)


def test_json_goes_to_a_file_by_its_suffix(cli, runs):
    out = runs / "found.json"
    ended = cli("separability", runs / "with", "-n", "none", "-n", "center", "--metric", "euclidean", "-o", out)
    assert (ended.code, ended.out) == (0, "")
    read = json.loads(out.read_text("utf-8"))
    assert (read["metric"], read["normalizers"], len(read["records"])) == ("euclidean", ["none", "center"], 8)
    gains = [each["gain"] for each in read["records"] if each["normalizer"] == "center"]
    assert gains == pytest.approx([0] * 4, abs=1e-9)  # distances do not see a shift


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["with", "--table", "items"], 'got "items". Did you mean "item"?'),
        (["with", "-n", "zscore"], 'needs a normalizer, or several joined by "+"; got "zscore"'),
        (["without"], "separability needs a label for each row; got none"),
        (["without", "--labels", "missing.txt"], "labels need the path of a file"),
        (["nowhere"], "Run.open needs the directory of a run"),
        (["with", "--out", "found.html"], "which this command cannot write"),
    ],
)
def test_what_goes_wrong_is_one_line(cli, runs, monkeypatch, args, message):
    monkeypatch.chdir(runs)
    ended = cli("separability", *args)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1
