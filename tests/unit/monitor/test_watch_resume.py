"""Runs that go on from a checkpoint, and runs that begin again in the same directory."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fullspan as fs
from fullspan.store.runs import Run
from tests.unit.monitor.watching import read, steps, table

FEW = ["gini_index", "effective_rank"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run"


def trained(path, n, *, state=None, factor=1.1, resume_step=None, stop=True, epochs=True):
    """Train from a checkpoint; gives the state after each step, and the value that should stand at each step."""
    E = table() if state is None else state["E"].copy()
    watcher = fs.watch({"E": E}, path, every=1, measures=FEW, resume_step=resume_step)
    if state is not None and "watcher" in state:
        watcher.load_state_dict(json.loads(json.dumps(state["watcher"])))
    states, values = {}, {}
    for _ in range(n):
        E[:, 0] *= factor
        watcher.step(loss=1.0, samples=10)
        if epochs and watcher.steps % 4 == 0:
            watcher.epoch()
        states[watcher.steps] = {"E": E.copy(), "watcher": watcher.state_dict()}
        values[watcher.steps] = read(E, "effective_rank")
    watcher.finish("finished" if stop else "failed")
    return states, values


def test_going_on_from_an_older_checkpoint_gives_one_clean_curve(path):
    states, before = trained(path, 10, stop=False)
    _, after = trained(path, 6, state=states[6], factor=0.5)
    run = Run.open(path)
    curve = run.curve("E", "effective_rank")
    assert curve.step.tolist() == list(range(1, 13))
    expected = {**before, **after}
    assert curve.value == pytest.approx([expected[step] for step in curve.step], abs=1e-6)
    points = run.points("E", "effective_rank")
    assert [point.at.samples for point in points] == [10 * step for step in range(1, 13)]
    assert [point.at.epoch for point in points][5:] == pytest.approx([1.5, 1.75, 2, 2.25, 2.5, 2.75, 3])
    assert run.curve("", "loss").step.tolist() == list(range(1, 13))
    assert len(run.attempts) >= 2
    assert all(event.at.step <= 6 or event.at.step == 12 for event in run.events())


def test_the_step_of_the_checkpoint_is_enough(path):
    states, before = trained(path, 10, epochs=False)
    only = {"E": states[6]["E"]}
    _, after = trained(path, 3, state=only, factor=0.5, resume_step=6, epochs=False)
    assert sorted(after) == [7, 8, 9]
    curve = Run.open(path).curve("E", "effective_rank")
    assert curve.step.tolist() == list(range(1, 10))
    expected = {**before, **after}
    assert curve.value == pytest.approx([expected[step] for step in curve.step], abs=1e-6)


def test_beginning_again_supersedes_everything(path):
    trained(path, 10)
    trained(path, 4, factor=0.5)
    assert steps(path) == [1, 2, 3, 4]
    assert Run.open(path).curve("", "loss").step.tolist() == [1, 2, 3, 4]


def test_reading_one_more_step_keeps_the_others(path):
    trained(path, 4)
    with fs.watch({"E": table()}, path, measures=FEW) as watcher:
        watcher.observe(9)
    assert steps(path) == [1, 2, 3, 4, 9]


def test_a_state_may_be_loaded_while_training_goes_on(path):
    E = table()
    with fs.watch({"E": E}, path, every=1, measures=FEW) as watcher:
        for step in range(6):
            watcher.step(loss=float(step))
            if step == 2:
                state = watcher.state_dict()
        watcher.load_state_dict(state)
        assert watcher.steps == 3
        watcher.step(loss=10.0)
    run = Run.open(path)
    assert steps(path) == [1, 2, 3, 4]
    assert run.curve("", "loss").value.tolist() == [0, 1, 2, 10]


def test_findings_of_the_checkpoint_are_not_told_again(path):
    told = []
    E = table() + 50
    watcher = fs.watch({"E": E}, path, every=1, on_finding=told.append)
    watcher.step()
    state = watcher.state_dict()
    watcher.close()
    assert len(told) == len(watcher.findings) > 0
    with fs.watch({"E": E}, path, every=1, on_finding=told.append) as again:
        again.load_state_dict(state)
        again.step()
        assert {each.rule for each in again.findings} == {each.rule for each in told}
    assert len(told) == len(watcher.findings)


def test_states_are_plain_values(path):
    E = table()
    with fs.watch({"E": E + 50}, path, every=1) as watcher:
        watcher.step(np.int64(3), samples=np.int64(7))
        watcher.epoch()
        state = watcher.state_dict()
    assert json.loads(json.dumps(state)) == state
    assert state["step"] == 3
    assert state["samples"] == 7


def test_maps_go_on_where_they_were(path):
    E = table(300, 6)
    with fs.watch({"E": E}, path, every=None, full="epoch", measures=FEW) as watcher:
        watcher.step()
        watcher.epoch()
        state = watcher.state_dict()
    E = -E[:, ::-1]
    with fs.watch({"E": E}, path, every=None, full="epoch", measures=FEW) as watcher:
        watcher.load_state_dict(state)
        watcher.step()
        watcher.epoch()
    (_, before), *_, (_, after) = Run.open(path).vectors("E", "map:pca")
    assert fs.map_displacement(after, before) < 1e-3
