"""Nothing that goes wrong with the watching ends the training, unless it is asked to."""

from __future__ import annotations

import logging
import shutil
import sqlite3

import numpy as np
import pytest

import fullspan as fs
from fullspan.errors import FormatError, FullspanError, InputError
from fullspan.monitor import observer
from fullspan.store.failures import StoreError
from fullspan.store.runs import Run
from fullspan.store.writer import RunWriter
from tests.unit.monitor.watching import steps, table

FEW = ["gini_index", "effective_rank"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run"


def test_a_callable_that_fails_is_said_once_and_the_other_tables_are_read(path, caplog):
    def fails():
        raise RuntimeError("gather\ntimed out")

    with (
        caplog.at_level(logging.WARNING, "fullspan.monitor"),
        fs.watch({"E": fails, "F": table()}, path, every=1, measures=FEW) as watcher,
    ):
        for _ in range(5):
            watcher.step()
    message = "reading of E failed: RuntimeError: gather timed out"
    assert [event.message for event in watcher.errors] == [message]
    assert [record.message for record in caplog.records] == [
        f"{message} (step 1; training goes on, and this is said once)"
    ]
    [event] = [event for event in Run.open(path).events() if event.level == "error"]
    assert (event.table, event.message) == ("E", message)
    assert steps(path, name="F") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("call", ["step", "epoch", "observe"])
def test_strict_raises(path, call):
    def fails():
        raise RuntimeError("gather timed out")

    watcher = fs.watch({"E": fails}, path, every=1, measures=FEW, strict=True)
    with pytest.raises(RuntimeError, match="gather timed out"):
        getattr(watcher, call)()


def test_an_interrupt_is_no_error_of_the_watcher(path):
    def interrupted():
        raise KeyboardInterrupt

    watcher = fs.watch({"E": interrupted}, path, every=1, measures=FEW)
    with pytest.raises(KeyboardInterrupt):
        watcher.step()
    watcher.finish("failed")


def test_a_full_disk_loses_nothing_that_fits_into_memory(path, monkeypatch, caplog):
    E = table()
    watcher = fs.watch({"E": E}, path, every=1, measures=FEW)
    watcher.step(loss=1.0)
    full = StoreError("RunWriter.add needs a place that can be read and written; got 'database or disk is full'.")

    def refuse(*_, **__):
        raise full

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING, "fullspan.monitor"):
        for name in ("add", "add_event", "add_vector", "add_snapshot"):
            patched.setattr(RunWriter, name, refuse)
        for _ in range(3):
            watcher.step(loss=2.0)
        watcher.epoch()
    watcher.step(loss=3.0)
    watcher.close()
    assert steps(path) == [1, 2, 3, 4, 5]
    assert Run.open(path).curve("", "loss").value.tolist() == [1, 2, 2, 2, 3]
    assert sum("disk is full" in record.message for record in caplog.records) <= 3
    assert any("disk is full" in event.message for event in Run.open(path).events())


def test_a_real_full_disk(path):
    """SQLite is kept from growing its file: what it says then is what it says on a full disk."""
    E = table()
    watcher = fs.watch({"E": E}, path, every=1, measures=FEW)
    watcher.step()
    connection = watcher._looks.recorder.writer._connection
    [pages] = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    for _ in range(80):
        watcher.step(loss=1.0)
    assert any("full" in event.message for event in watcher.errors)
    connection.execute("PRAGMA max_page_count = 1000000")
    watcher.step()
    watcher.close()
    assert steps(path) == list(range(1, 83))
    assert Run.open(path).status == "finished"


def test_a_directory_that_vanishes(path, caplog):
    E = table()
    watcher = fs.watch({"E": E}, path, every=1, measures=FEW)
    watcher.step()
    shutil.rmtree(path)
    with caplog.at_level(logging.WARNING, "fullspan.monitor"):
        for _ in range(5):
            watcher.step(loss=1.0)
        watcher.epoch()
    assert watcher.steps == 6
    watcher.close()
    assert not path.exists()
    assert "which is gone. What was not written is lost; training goes on unrecorded." in caplog.text
    assert caplog.text.count("which is gone") == 1


def test_sinks_still_hear_when_the_directory_has_vanished(path):
    heard = []
    watcher = fs.watch({"E": table()}, path, every=1, measures=FEW, sinks=[lambda values, at: heard.append(at.step)])
    watcher.step()
    shutil.rmtree(path)
    watcher.step()
    watcher.close()
    assert set(heard) == {1, 2}


def test_a_sink_that_fails_is_left_alone(path, caplog):
    calls = []

    def sink(values, at):
        calls.append(at)
        raise ConnectionError("no network")

    with (
        caplog.at_level(logging.WARNING, "fullspan.monitor"),
        fs.watch({"E": table()}, path, every=1, measures=FEW, sinks=[sink]) as watcher,
    ):
        for _ in range(9):
            watcher.step()
    assert len(calls) == 3
    assert caplog.text.count("the sink sink failed: ConnectionError: no network") == 1
    assert steps(path) == list(range(1, 10))


def test_a_listener_that_fails(path):
    def listener(finding):
        raise ValueError("no mail server")

    E = table() + 50
    with fs.watch({"E": E}, path, every=1, on_finding=listener) as watcher:
        watcher.step()
    assert any("on_finding of E failed: ValueError: no mail server" in event.message for event in watcher.errors)
    assert watcher.findings


def test_a_sink_that_cannot_close(path):
    class Sink:
        def __call__(self, values, at):
            pass

        def close(self):
            raise OSError("broken pipe")

    with fs.watch({"E": table()}, path, measures=FEW, sinks=[Sink()]) as watcher:
        watcher.step()
    assert "closing the sink Sink failed: OSError: broken pipe" in watcher.errors[0].message
    assert Run.open(path).status == "finished"


def test_a_measure_that_fails_on_one_table(path, monkeypatch):
    real = observer.reading.pulse

    def pulse(watched, rows, measures):
        if watched.name == "E":
            raise MemoryError
        return real(watched, rows, measures)

    monkeypatch.setattr(observer.reading, "pulse", pulse)
    with fs.watch({"E": table(), "F": table()}, path, every=1, measures=FEW) as watcher:
        watcher.step()
    assert [event.table for event in watcher.errors] == ["E"]
    assert steps(path, name="F") == [1]


def test_tables_of_numbers_that_are_none(path):
    E = table()
    E[:] = np.nan
    with fs.watch({"E": E}, path, every=1, strict=True) as watcher:
        watcher.step()
        assert [finding.rule for finding in watcher.findings] == ["non-finite"]
    points = Run.open(path).points("E")
    assert all(point.value is None and "NaN or infinity" in point.why for point in points)
    assert len(points) == 12


@pytest.mark.parametrize("rows", [1, 2])
def test_tables_of_hardly_any_rows(path, rows):
    with fs.watch({"E": table(rows)}, path, every=1, full="epoch", strict=True) as watcher:
        watcher.step()
        watcher.epoch()
    assert Run.open(path).points("E", "mean_norm")[-1].n_rows == rows


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sinks": 5}, r"watch needs sinks that can be called; got 5."),
        ({"sinks": [print, 5]}, r"watch needs sinks that can be called"),
        ({"on_finding": "log"}, r"watch needs on_finding to be callable; got 'log'."),
        ({"seed": "a"}, r"watch needs a seed, a whole number of 0 or more; got 'a'."),
    ],
)
def test_arguments_that_could_only_fail_later_are_refused_at_once(path, wrong, message):
    with pytest.raises(InputError, match=message):
        fs.watch({"E": table()}, path, **wrong)
    assert not path.exists()


def test_what_is_wrong_before_training_is_raised(tmp_path):
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(FullspanError):
        fs.watch({"E": table()}, tmp_path / "file" / "run")
    (tmp_path / "run").mkdir()
    with sqlite3.connect(tmp_path / "run" / "run.sqlite") as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    with pytest.raises(FormatError):
        fs.watch({"E": table()}, tmp_path / "run")


def test_a_program_that_ends_without_closing_writes_what_waited(python, tmp_path):
    code = (
        "import numpy as np, fullspan as fs\n"
        f"watcher = fs.watch({{'E': np.eye(8)}}, {str(tmp_path / 'run')!r}, every=100)\n"
        "for _ in range(7): watcher.step(loss=1.0)\n"
    )
    python(code)
    run = Run.open(tmp_path / "run")
    assert run.status == "stopped"
    assert run.curve("", "loss").step.tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_a_second_writer_is_refused(path):
    with (
        fs.watch({"E": table()}, path, measures=FEW),
        pytest.raises(FullspanError, match=r"RunWriter.open needs"),
    ):
        fs.watch({"E": table()}, path, measures=FEW)


def test_a_state_that_is_none(path):
    with (
        fs.watch({"E": table()}, path, measures=FEW) as watcher,
        pytest.raises(InputError, match=r"watcher.load_state_dict needs what state_dict gave, version 1; got 9."),
    ):
        watcher.load_state_dict({"version": 9})
