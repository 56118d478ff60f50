"""``fullspan study`` as a user runs it, on planted ratings."""

from __future__ import annotations

import json

import pytest

from fullspan.cli import study as command
from fullspan.studies import STUDIES
from fullspan.studies.base.grid import Cell, Task
from fullspan.studies.base.study import Plan
from fullspan.studies.movielens import study as module
from tests.unit.studies import planted

TASK = Task(Cell("adam-b1", {}, cost=2.0), 0, "key")


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Planted ratings instead of a download, torch instead of a compiler, a fresh place to write."""
    monkeypatch.setattr(module, "load_movielens", lambda name, folder: planted.ratings())
    monkeypatch.setattr(module, "engine", lambda: "torch")
    monkeypatch.setattr(module, "article_figures", lambda cells: ())  # they are drawn in a unit test
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_list_names_every_study_and_the_next_command(cli):
    ended = cli("study")
    assert ended.code == 0
    for name, told in STUDIES.items():
        assert name in ended.out
        assert told in ended.out
    assert "fullspan study movielens --dry-run" in ended.out


def test_an_unknown_study_is_answered_with_the_nearest(cli):
    ended = cli("study", "movielense")
    assert ended.code == 2
    assert 'Did you mean "movielens"?' in ended.err


def test_a_dry_run_says_what_it_would_do_and_does_nothing(cli, small):
    ended = cli("study", "movielens", "--dry-run", "--jobs", 2)
    assert ended.code == 0
    assert "article: sgd-b1, sgd-b8" in ended.out
    assert "80 runs of 8 cells; 0 are done" in ended.out
    assert "on 2 cores" in ended.out
    assert list(small.iterdir()) == []


def test_a_dry_run_in_json(cli, small):
    plain = json.loads(cli("study", "movielens", "--dry-run", "--beyond", "--json", "--seeds", 3).out)
    assert plain["runs"] == plain["left"] == 3 * len(plain["cells"])
    assert plain["minutes"] > 0
    assert "adam-no-momentum-b32" in plain["cells"]


@pytest.mark.slow
def test_a_quick_study_from_start_to_end(cli, small):
    ended = cli("study", "movielens", "--quick", "--jobs", 1)
    assert (ended.code, ended.err) == (0, "")
    assert "With SGD, Gini index and Hoyer sparsity rise" in ended.out
    assert "16 of 16 runs made now" in ended.out
    assert "fullspan report studies/movielens/runs/adam-b1" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80
    plain = json.loads(cli("study", "movielens", "--quick", "--jobs", 1, "--json").out)
    assert plain["schema"] == "fullspan.study/1"
    assert plain["provenance"]["run"]["run_now"] == 0
    assert cli("study", "movielens", "--quick", "--jobs", 1, "--quiet").out == ""


def test_a_study_without_matplotlib_names_the_extra_before_it_runs(cli, small, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ended = cli("study", "movielens", "--quick")
    assert ended.code == 2
    assert "fullspan study movielens needs the extra 'studies'" in ended.err
    assert not (small / "studies").exists()


def test_ctrl_c_ends_with_130_and_says_how_to_go_on(cli, small, monkeypatch):
    def interrupted(task, shared):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "train", interrupted)
    ended = cli("study", "movielens", "--quick", "--jobs", 1)
    assert ended.code == 130
    assert "Stopped: 0 of 16 runs are done and kept. The same command goes on from there." in ended.err


def test_data_that_are_nowhere_are_answered_in_one_line(cli, tmp_path):
    ended = cli("study", "movielens", "--data", tmp_path / "nowhere", "--dry-run")
    assert ended.code == 2
    assert ended.err.count("\n") == 1
    assert "nowhere" in ended.err


def test_a_bar_only_where_somebody_can_see_it(monkeypatch, capsys):
    planned = Plan((TASK,), (TASK,), 2.0)
    with command._progress(planned, quiet=False) as told:
        assert told is None
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with command._progress(planned, quiet=False) as told:
        assert told is not None
        told(TASK, 1.0)
    assert "1/1 runs" in capsys.readouterr().err
    with command._progress(planned, quiet=True) as told:
        assert told is None
    with command._progress(Plan((TASK,), (), 0.0), quiet=False) as told:
        assert told is None


@pytest.mark.parametrize(("minutes", "told"), [(0.001, "1 second"), (0.5, "30 seconds"), (16.2, "16 minutes")])
def test_times_in_words(minutes, told):
    assert command._time(minutes) == told
