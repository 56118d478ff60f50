"""Runs: stored whole, resumed, spread over processes, and stopped without loss."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from fullspan.studies.base.execution import StudyFailedError, StudyStoppedError, load, missing, run_tasks
from fullspan.studies.base.grid import Cell, tasks_of
from fullspan.studies.base.provenance import code_hash, provenance
from tests.unit.studies.planted import square


@pytest.fixture
def tasks():
    return tasks_of([Cell("cheap", {"a": 1}), Cell("dear", {"a": 2}, cost=5.0)], range(2), "data", "code")


def test_all_results_are_given_and_stored(tasks, tmp_path):
    found = run_tasks(tasks, square, None, tmp_path)
    assert found["dear", 1]["curves"] == {"square": [0, 1]}
    assert set(found) == {("cheap", 0), ("cheap", 1), ("dear", 0), ("dear", 1)}
    assert {path.name for path in tmp_path.iterdir()} == {task.file_name for task in tasks}
    stored = json.loads((tmp_path / tasks[3].file_name).read_text())
    assert (stored["cell"], stored["seed"], stored["settings"]) == ("dear", 1, {"a": 2})


def test_what_is_stored_is_not_run_again(tasks, tmp_path):
    run_tasks(tasks[:3], square, None, tmp_path)
    told = []
    found = run_tasks(tasks, square, None, tmp_path, told=lambda task, seconds: told.append(task))
    assert told == tasks[3:]
    assert len(found) == 4


def test_the_dearest_run_first(tasks, tmp_path):
    assert [task.cell.name for task in missing(tasks, tmp_path)] == ["dear", "dear", "cheap", "cheap"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"key": "other", "result": {}}', '{"result": {}}'])
def test_a_torn_or_foreign_file_is_run_again(tasks, tmp_path, text):
    path = tmp_path / tasks[0].file_name
    path.write_text(text)
    assert load(tasks[0], tmp_path) is None
    run_tasks(tasks[:1], square, None, tmp_path)
    assert load(tasks[0], tmp_path)["key"] == tasks[0].key


def test_another_key_is_another_result(tmp_path):
    old, new = (tasks_of([Cell("a", {})], [0], data, "code") for data in ("old", "new"))
    run_tasks(old, square, None, tmp_path)
    assert missing(new, tmp_path) == new
    assert not missing(old, tmp_path)


def test_a_result_without_what_belongs_beside_it_is_run_again(tasks, tmp_path):
    run_tasks(tasks, square, None, tmp_path)
    assert missing(tasks, tmp_path, complete=lambda task: task.seed == 1) == [tasks[2], tasks[0]]


def test_a_failing_run_is_named_and_the_others_are_kept(tasks, tmp_path):
    with pytest.raises(StudyFailedError, match=r"needs every run to end; got ValueError: planted in dear, seed 1"):
        run_tasks(tasks, square, "fail", tmp_path)
    assert load(tasks[2], tmp_path) is not None


def test_ctrl_c_keeps_what_is_done(tasks, tmp_path):
    def interrupted(task, shared):
        if len(list(tmp_path.iterdir())) == 2:
            raise KeyboardInterrupt
        return square(task, shared)

    with pytest.raises(StudyStoppedError, match=r"Stopped: 2 of 4 runs are done and kept\. The same command goes on"):
        run_tasks(tasks, interrupted, None, tmp_path)
    assert len(run_tasks(tasks, square, None, tmp_path)) == 4
    assert StudyStoppedError.exit_code == 130


@pytest.mark.slow
def test_processes_give_what_one_process_gives(tasks, tmp_path):
    assert run_tasks(tasks, square, None, tmp_path / "two", jobs=2) == run_tasks(tasks, square, None, tmp_path / "one")


@pytest.mark.slow
def test_a_killed_process_is_told_from_a_result(tasks, tmp_path):
    with pytest.raises(StudyFailedError, match=r"needs its processes to live; got one killed near .* Was memory short"):
        run_tasks(tasks, square, "die", tmp_path, jobs=2)


@pytest.mark.slow
def test_a_failure_in_a_process_ends_the_study(tasks, tmp_path):
    with pytest.raises(StudyFailedError, match="ValueError: planted in"):
        run_tasks(tasks, square, "fail", tmp_path, jobs=2)


_SLOW = """
import sys
from pathlib import Path
from fullspan.studies.base.execution import StudyStoppedError, run_tasks
from fullspan.studies.base.grid import Cell, tasks_of
from tests.unit.studies.planted import square
if __name__ == "__main__":
    tasks = tasks_of([Cell("a", {}), Cell("b", {})], range(2), "data", "code")
    try:
        run_tasks(tasks, square, "slow", Path(sys.argv[1]), jobs=2)
    except StudyStoppedError as error:
        print(error)
        sys.exit(error.exit_code)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of a terminal")
def test_ctrl_c_at_a_terminal_stops_all_processes(tmp_path):
    """The whole process group gets the signal, as at a terminal; nobody is left behind."""
    script, out = tmp_path / "slow.py", tmp_path / "cells"
    script.write_text(textwrap.dedent(_SLOW))
    root = Path(__file__).resolve().parents[3]
    started = subprocess.Popen(
        [sys.executable, str(script), str(out)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    until = time.monotonic() + 60
    while len(list(out.glob("*.json"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(started.pid, signal.SIGINT)
    told, _ = started.communicate(timeout=30)
    assert started.returncode == 130
    assert "Stopped: 2 of 4 runs are done and kept." in told
    until = time.monotonic() + 20
    while _alive(started.pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _alive(started.pid)


def _alive(group):
    """Processes of a group that still run."""
    found = []
    for process in psutil.process_iter(["pid", "status"]):
        try:
            if os.getpgid(process.info["pid"]) == group and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process)
        except ProcessLookupError:
            continue
    return found


def test_the_hash_of_the_code_changes_with_the_code_it_names():
    one = code_hash(["fullspan.measures.sparsity"])
    assert one == code_hash(["fullspan.measures.sparsity"])
    assert one != code_hash(["fullspan.measures.sparsity", "fullspan.measures.spectrum"])


def test_the_code_of_an_engine_that_is_not_installed_can_be_hashed(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    assert code_hash(["fullspan.trainers.numba_kernel"])


def test_provenance_says_what_a_result_was_made_with():
    found = provenance(["numpy", "no-such-package"], data={"sha256": "abc"}, code="c", command="fullspan study x")
    assert set(found["packages"]) == {"numpy"}
    assert (found["command"], found["data"], found["code"]) == ("fullspan study x", {"sha256": "abc"}, "c")
    assert found["hardware"]["cores"] >= 1
    assert found["commit"] is None or len(found["commit"]) == 40
    assert json.loads(json.dumps(found, allow_nan=False)) == found
