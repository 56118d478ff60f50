"""The demo: the bundled table, a training that is watched, its page, and what to try next."""

from __future__ import annotations

import re
import shlex

import numpy as np
import pytest

from fullspan.cli import demo_training
from fullspan.cli.main import PLACES
from fullspan.datasets.movielens import Ratings
from fullspan.store.runs import open_run

#: Packages that the core does not bring.
EXTRAS = {"torch", "numba", "scipy", "sklearn", "pandas", "matplotlib", "pacmap", "openTSNE", "umap", "pooch", "h5py"}


@pytest.fixture(autouse=True)
def nothing_here(tmp_path, monkeypatch):
    """No data set on this machine."""
    monkeypatch.delenv("FULLSPAN_DATA", raising=False)
    monkeypatch.setenv("FULLSPAN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(demo_training, "EPOCHS", 1)
    monkeypatch.setattr(demo_training, "_N_PAIRS", 4000)


def ratings():
    random = np.random.default_rng(0)
    users, items = random.integers(0, 60, 3000), random.integers(0, 40, 3000)
    stars = random.integers(1, 6, 3000).astype(np.float32)
    return Ratings(users, items, stars, np.arange(3000), "folder", "0" * 64, 60, 40, np.arange(60), np.arange(40))


@pytest.mark.slow
def test_the_demo_runs_without_any_extra(tmp_path, python):
    code = f"""
import sys
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, NotInstalled())
from fullspan.cli.main import run
sys.exit(run(["demo", "--folder", {str(tmp_path / "demo")!r}, "--quiet"]))
"""
    out = python(code)
    assert "80,000 pairs of the 1,500 most frequent GloVe words" in out
    first, last, held_out = map(float, re.search(r"loss (\S+) -> (\S+), of held-out pairs (\S+)", out).groups())
    assert last < 0.5 * first
    assert held_out < 0.8 * first  # it learned what it was not shown
    assert "mean_norm_ratio" in out
    assert re.search(r"warn step \d+, (left|right): ", out)
    with open_run(tmp_path / "demo" / "run") as run:
        assert run.status == "finished"
        assert run.curve("left", "spectral_entropy").epoch.tolist() == [0, 1, 2, 3, 4, 5, 6]
        shown = re.search(r"left +\S+ -> \S+ +(\S+) -> (\S+)", out).groups()
        values = run.curve("left", "spectral_entropy").value
        assert shown == (f"{values[0]:.3f}", f"{values[-1]:.3f}")
    page = (tmp_path / "demo" / "run.html").read_text("utf-8")
    assert "fullspan demo" in page
    assert "frequency_decile" in page
    assert not re.search(r"(?:src|href)=[\"']https?://", page)


@pytest.mark.slow
def test_what_it_says_to_try_next_exists(cli, tmp_path, short):
    ended = cli("demo", "--out", tmp_path / "glove.html", "--folder", tmp_path / "demo")
    assert (ended.code, ended.err) == (0, "")
    assert "non-families" in (tmp_path / "glove.html").read_text("utf-8")
    lines = ended.out.partition("Next: ")[2].splitlines()[2:]
    assert [shlex.split(line)[1] for line in lines] == ["measures", "measure", "runs", "study"]
    assert {shlex.split(line)[1] for line in lines} <= set(PLACES)
    assert cli("runs", tmp_path / "demo").code == 0
    assert cli("report", tmp_path / "demo" / "run", "--out", tmp_path / "again.html").code == 0


@pytest.mark.slow
def test_ratings_are_taken_where_there_are_any(cli, tmp_path, short, monkeypatch):
    monkeypatch.setattr("fullspan.datasets.fetch.find", lambda file, **_: "ml-100k" in file.name or None)
    monkeypatch.setattr("fullspan.datasets.movielens.load_movielens", lambda name: ratings())
    ended = cli("demo", "--folder", tmp_path / "demo")
    assert ended.code == 0
    assert "A training, watched: MovieLens 100K: 100,000 ratings from 1 to 5; who gave 4 or more." in ended.out
    with open_run(tmp_path / "demo" / "run") as run:
        assert {name: each.n_rows for name, each in run.tables.items()} == {"users": 60, "items": 40}


def test_nothing_is_downloaded(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a download was begun")

    monkeypatch.setattr("fullspan.datasets.fetch._downloaded", refuse)
    assert "GloVe words" in demo_training.pairs().about


def test_the_same_training_gives_the_same_numbers(tmp_path, short):
    data = demo_training.word_pairs()
    for name in "ab":
        demo_training.train(data, tmp_path / name, epochs=1)
    runs = [open_run(tmp_path / name / "run") for name in "ab"]
    points = [[(each.table, each.measure, each.value) for each in run.points() if each.table] for run in runs]
    assert points[0] == points[1]
    assert len(points[0]) > 40


def test_words_that_are_near_go_together():
    data = demo_training.word_pairs()
    assert data.labels.mean() == pytest.approx(0.5, abs=0.01)
    assert len(np.intersect1d(data.training, data.test)) == 0
    counts = np.bincount(data.left, minlength=data.sizes[0])
    assert counts[:100].mean() > 3 * counts[-100:].mean()  # frequent words come up more


def test_only_the_table(cli, tmp_path):
    ended = cli("demo", "--no-training", "--folder", tmp_path / "demo")
    assert ended.code == 0
    assert "A training" not in ended.out
    assert not (tmp_path / "demo").exists()
    assert "fullspan demo --out glove.html" in ended.out


def test_other_forms_are_the_report_alone(cli, tmp_path):
    ended = cli("demo", "--json", "--folder", tmp_path / "demo")
    assert ended.code == 0
    assert ended.out.startswith("{")
    assert ended.out.rstrip().endswith("}")
    assert not (tmp_path / "demo").exists()


def test_the_loop_learns_by_the_slope_of_its_loss():
    """The first step of Adam moves every touched entry by the learning rate, against the numerical gradient."""
    random = np.random.default_rng(0)
    left, right = random.integers(0, 5, 20), random.integers(0, 4, 20)
    labels = random.integers(0, 2, 20).astype(np.float32)
    model = demo_training.Factorization((5, 4), seed=1)
    tables = [model.left.astype(np.float64), model.right.astype(np.float64)]
    model.left, model.right = tables
    slopes = []
    for table in tables:
        slope = np.zeros_like(table)
        for entry in np.ndindex(table.shape):
            kept = table[entry]
            losses = []
            for step in (1e-5, -1e-5):
                table[entry] = kept + step
                losses.append(model.loss(left, right, labels))
            table[entry] = kept
            slope[entry] = (losses[0] - losses[1]) / 2e-5
        slopes.append(slope)
    fresh = demo_training.Factorization((5, 4), seed=1)
    before = [fresh.left.copy(), fresh.right.copy()]
    assert fresh.learn(left, right, labels) == pytest.approx(model.loss(left, right, labels), rel=1e-5)
    for slope, was, now in zip(slopes, before, (fresh.left, fresh.right), strict=True):
        strong = np.abs(slope) > 1e-5
        assert strong.any()
        assert (was - now)[strong] == pytest.approx(demo_training.RATE * np.sign(slope[strong]), rel=0.02)
