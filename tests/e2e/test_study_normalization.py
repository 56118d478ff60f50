"""``fullspan study normalization`` as a user runs it."""

from __future__ import annotations

import json

import pytest

from fullspan.studies.base.study import Data
from fullspan.studies.normalization import study as module
from tests.unit.studies.normalization.test_normalization import planted


@pytest.fixture
def small(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "load", lambda folder: Data(planted(1.0, 30), "0" * 64, {"name": "planted"}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_dry_run_names_cells_and_makes_nothing(cli, small):
    plain = json.loads(cli("study", "normalization", "--dry-run", "--json", "--seeds", 3).out)
    assert plain["runs"] == plain["left"] == 3 * len(plain["cells"])
    assert "transformer-batch-norm" in plain["cells"]
    assert list(small.iterdir()) == []


def test_a_folder_without_texts_is_an_error_of_usage(cli, tmp_path):
    ended = cli("study", "normalization", "--data", tmp_path, "--dry-run")
    assert ended.code == 2
    assert "needs banking77/train.csv" in ended.err


@pytest.mark.slow
def test_a_quick_study_from_start_to_end_and_again(cli, small):
    ended = cli("study", "normalization", "--quick", "--seeds", 1, "--jobs", 1)
    assert (ended.code, ended.err) == (0, "")
    assert "Standardizing embeddings speeds SGD" in ended.out
    assert (small / "studies/normalization/result.html").is_file()
    plain = json.loads(cli("study", "normalization", "--quick", "--seeds", 1, "--jobs", 1, "--json").out)
    assert plain["provenance"]["run"]["run_now"] == 0
    assert {table.name for table in (small / "studies/normalization").glob("*.csv")} == {"probes.csv", "strategies.csv"}
