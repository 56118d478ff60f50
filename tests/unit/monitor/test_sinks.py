"""Each sink, read back with the reader of its own tracker."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import fullspan as fs
from fullspan.errors import MissingExtraError
from fullspan.store.records import Moment

VALUES = {"users/gini_index": 0.25, "items[0]/gini_index": 0.125, "loss": 1.0}
#: What trackers need to stay off the network.
OFFLINE = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "HF_HUB_OFFLINE": "1", "TRACKIO_TELEMETRY": "0"}
#: MLflow's own models use a loader strategy that SQLAlchemy 2.1 deprecates.
mlflow_warns = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning")


def moment(step):
    return Moment(step=step, epoch=step / 10, samples=step * 4, wall=1_700_000_000.0 + step)


def send(sink, steps, values=VALUES):
    for step in steps:
        sink({name: value / step for name, value in values.items()}, moment(step))


def in_a_process(code, folder):
    """Run `code` after the helpers of this file: trackers start services and threads, and read the environment once."""
    source = Path(__file__).read_text(encoding="utf-8").partition("def in_a_process")[0] + code
    environment = {**os.environ, **OFFLINE, "TRACKIO_DIR": str(folder), "WANDB_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


class Scalars:
    """The scalars of a folder, as TensorBoard reads them."""

    def __init__(self, folder):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        self.accumulator = EventAccumulator(str(folder))
        self.accumulator.Reload()

    def __getitem__(self, tag):
        return [(event.step, event.value) for event in self.accumulator.Scalars(tag)]


def test_tensorboard_reads_every_value_at_its_step_and_time(tmp_path):
    sink = fs.TensorBoardSink(tmp_path)
    send(sink, (10, 20))
    sink.close()
    read = Scalars(tmp_path)
    for name, value in VALUES.items():
        assert read[f"fullspan/{name}"] == [(10, pytest.approx(value / 10)), (20, pytest.approx(value / 20))]
    assert [event.wall_time for event in read.accumulator.Scalars("fullspan/loss")] == [1_700_000_010, 1_700_000_020]


def test_tensorboard_shows_one_curve_after_a_resume(tmp_path):
    first = fs.TensorBoardSink(tmp_path, prefix="")
    send(first, (10, 20, 30, 40))
    first.close()
    second = fs.TensorBoardSink(tmp_path, prefix="")
    send(second, (30, 40, 50), {"loss": 7.0})
    second.close()
    assert [step for step, _ in Scalars(tmp_path)["loss"]] == [10, 20, 30, 40, 50]
    assert Scalars(tmp_path)["loss"][2][1] == pytest.approx(7 / 30)


def test_a_writer_of_the_user_stays_open(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        sink = fs.TensorBoardSink(writer)
        send(sink, (1,))
        sink.close()
        writer.add_scalar("theirs", 2.0, 2)
    assert Scalars(tmp_path)["theirs"] == [(2, 2.0)]


def test_a_watcher_sends_what_it_stores(tmp_path):
    table = np.random.default_rng(0).normal(size=(50, 4))
    sinks = [fs.TensorBoardSink(tmp_path / "logs")]
    with fs.watch({"items": table}, tmp_path / "run", every=2, measures=["gini_index"], rules=False, sinks=sinks) as to:
        for _ in range(6):
            table[:, 0] *= 1.5
            to.step(loss=float(table.mean()))
    read = Scalars(tmp_path / "logs")
    with fs.open_run(tmp_path / "run") as run:
        for table_name, measure in (("items", "gini_index"), ("", "loss")):
            curve = run.curve(table_name, measure)
            sent = read[f"fullspan/{table_name}/{measure}" if table_name else f"fullspan/{measure}"]
            assert [step for step, _ in sent] == curve.step.tolist()
            assert [value for _, value in sent] == pytest.approx(curve.value.tolist(), rel=1e-6)
            assert len(sent) >= 3


def wandb_rows(folder):
    """The history of the only offline run in a folder: records of a LevelDB log, each one a protobuf message."""
    from wandb.proto.wandb_internal_pb2 import Record

    (path,) = Path(folder).rglob("*.wandb")
    data, at, part, rows = path.read_bytes(), 7, b"", []
    while at + 7 <= len(data):
        room = 32768 - at % 32768
        if room < 7:
            at += room
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        if kind == 0:
            at += room
            continue
        part += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            record, part = Record.FromString(part), b""
            if record.WhichOneof("record_type") == "history":
                items = record.history.item
                rows.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
    return rows


@pytest.mark.slow
def test_wandb_keeps_every_value_under_an_axis_of_its_own(tmp_path):
    in_a_process("sink = fs.WandbSink(project='p')\nsend(sink, (10, 20, 15))\nsink.close()\n", tmp_path)
    rows = wandb_rows(tmp_path)
    assert [row["fullspan/step"] for row in rows] == [10, 20, 15]
    assert [row["fullspan/epoch"] for row in rows] == [1.0, 2.0, 1.5]
    for name, value in VALUES.items():
        assert [row[f"fullspan/{name}"] for row in rows] == [value / 10, value / 20, value / 15]


@pytest.mark.slow
def test_a_wandb_run_of_the_user_stays_open_and_keeps_its_own_steps(tmp_path):
    code = (
        "import wandb\nwith wandb.init(project='p') as run:\n    run.log({'theirs': 1.0}, step=500)\n"
        "    sink = fs.WandbSink(run)\n    send(sink, (10,))\n    sink.close()\n"
        "    run.log({'theirs': 2.0}, step=501)\n"
    )
    in_a_process(code, tmp_path)
    rows = wandb_rows(tmp_path)
    assert [row["theirs"] for row in rows if "theirs" in row] == [1.0, 2.0]
    assert [row["fullspan/loss"] for row in rows if "fullspan/step" in row] == [0.1]


@pytest.fixture(scope="module")
def mlflow_uri(tmp_path_factory):
    """A database of MLflow, whose tables take seconds to make."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


@pytest.mark.slow
@mlflow_warns
def test_mlflow_reads_every_value_at_its_step_and_time(mlflow_uri):
    from mlflow import MlflowClient

    sink = fs.MlflowSink(mlflow_uri, experiment="tables")
    send(sink, (10, 20))
    run_id = sink.run_id
    sink.close()
    client = MlflowClient(mlflow_uri)
    assert client.get_run(run_id).info.status == "FINISHED"
    assert client.get_experiment_by_name("tables").experiment_id == client.get_run(run_id).info.experiment_id
    for name, value in (("users/gini_index", 0.25), ("items_0_/gini_index", 0.125), ("loss", 1.0)):
        history = client.get_metric_history(run_id, f"fullspan/{name}")
        assert [(point.step, point.value) for point in history] == [(10, value / 10), (20, value / 20)]
        assert [point.timestamp for point in history] == [1_700_000_010_000, 1_700_000_020_000]


@pytest.mark.slow
@mlflow_warns
def test_an_mlflow_run_of_the_user_stays_open_and_takes_any_number_of_values(mlflow_uri):
    from mlflow import MlflowClient

    client = MlflowClient(mlflow_uri)
    run_id = client.create_run("0").info.run_id
    sink = fs.MlflowSink(mlflow_uri, run_id=run_id, prefix="")
    sink({f"table{i}/gini_index": float(i) for i in range(1001)}, moment(3))
    sink.close()
    run = client.get_run(run_id)
    assert run.info.status == "RUNNING"
    assert run.data.metrics == {f"table{i}/gini_index": float(i) for i in range(1001)}


def test_trackio_reads_every_value_at_its_step(tmp_path):
    in_a_process("sink = fs.TrackioSink('mf', name='sgd')\nsend(sink, (10, 20))\nsink.close()\n", tmp_path)
    with closing(sqlite3.connect(tmp_path / "mf.db")) as database:
        found = database.execute("select run_name, step, metrics from metrics order by step").fetchall()
    assert [(name, step) for name, step, _ in found] == [("sgd", 10), ("sgd", 20)]
    for step, metrics in ((step, json.loads(text)) for _, step, text in found):
        assert metrics == {"fullspan/epoch": step / 10} | {f"fullspan/{k}": v / step for k, v in VALUES.items()}


def test_a_trackio_run_of_the_user_stays_open(tmp_path):
    code = (
        "import trackio\nrun = trackio.init(project='mf', embed=False)\nsink = fs.TrackioSink(run)\n"
        "send(sink, (10,))\nsink.close()\nrun.log({'theirs': 1.0}, step=11)\nrun.finish()\n"
    )
    in_a_process(code, tmp_path)
    with closing(sqlite3.connect(tmp_path / "mf.db")) as database:
        assert [step for (step,) in database.execute("select step from metrics order by step")] == [10, 11]


SINKS = {
    "tensorboard": fs.TensorBoardSink,
    "wandb": lambda folder: fs.WandbSink(project="p", dir=folder),
    "mlflow": lambda folder: fs.MlflowSink(f"sqlite:///{folder}/mlflow.db"),
    "trackio": lambda folder: fs.TrackioSink("mf"),
}


@pytest.mark.parametrize("name", SINKS)
def test_a_sink_that_got_nothing_opens_nothing(name, tmp_path):
    sink = pickle.loads(pickle.dumps(SINKS[name](tmp_path)))
    sink.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", SINKS)
def test_a_missing_tracker_is_an_error_that_says_what_to_install(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard" if name == "tensorboard" else name, None)
    with pytest.raises(MissingExtraError, match=rf'fullspan\.\w+Sink needs .* pip install "fullspan\[{name}\]"'):
        send(SINKS[name](tmp_path), (1,))


def test_numbers_of_numpy_are_taken(tmp_path):
    sink = fs.TensorBoardSink(tmp_path)
    send(sink, (1,), {"loss": np.float32(0.5)})
    sink.close()
    assert Scalars(tmp_path)["fullspan/loss"] == [(1, 0.5)]
