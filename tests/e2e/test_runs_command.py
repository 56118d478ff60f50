"""``fullspan runs``: a list, a comparison, and files that other tools read back."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest

from fullspan.store.records import Event, Moment, Point
from fullspan.store.runs import Run, RunWriter


def write(path: Path, shift: float, steps: range, *, name: str | None = None, finish: str = "finished") -> None:
    writer = RunWriter.open(path, name=name, config={"lr": 0.1})
    writer.table("item", 100, 8, "float32")
    writer.table("user", 50, 8, "float32")
    for step in steps:
        at = Moment(step, epoch=step / 100, samples=step * 32, wall=1_700_000_000.25 + step)
        tables = [Point(table, "gini_index", at, shift + step / 1000, n_rows=50) for table in ("item", "user")]
        falls = Point("item", "information_abundance", at, 5 + shift - abs(step - 300) / 100)
        writer.add([*tables, falls, Point("", "loss", at, 1 / step), Point("", "odd", at, None, why="not finite: nan")])
    writer.add_event(Event(at, "warn", "mean-shift", "item", "it has a mean", {}))
    writer.add_event(Event(at, "fail", "collapse", "item", "it fell", {}))
    writer.finish(finish)
    writer.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    top = tmp_path_factory.mktemp("runs of é")
    write(top / "adam-10", 0.1, range(100, 600, 100), name="Adam")
    write(top / "adam-9", 0.3, range(100, 900, 200), finish="failed")
    return top


def test_runs_are_listed(cli, folder: Path) -> None:
    for args in ((folder,), ("list", folder)):
        ended = cli("runs", *args)
        assert (ended.code, ended.err) == (0, "")
        head, first, second = ended.out.splitlines()
        assert head.split() == ["run", "status", "steps", "epochs", "tables", "loss", "findings", "created"]
        assert first.split()[:8] == ["adam-9", "failed", "700", "7", "2", "0.001429", "✗1", "▲1"]
        assert second.split()[:6] == ["adam-10", "finished", "500", "5", "2", "0.002000"]
        assert max(map(len, ended.out.splitlines())) <= 80


def test_the_list_as_json(cli, folder: Path) -> None:
    for args in ((folder, "--json"), ("--json", folder), ("list", "--json", folder)):
        ended = cli("runs", *args)
        found = json.loads(ended.out)
        assert [each["name"] for each in found] == ["adam-9", "Adam"]
        assert found[0] | {"created": 0} == {
            "path": str(folder / "adam-9"),
            "name": "adam-9",
            "status": "failed",
            "created": 0,
            "attempts": 1,
            "step": 700,
            "epoch": 7.0,
            "tables": ["item", "user"],
            "loss": 1 / 700,
            "loss_why": None,
            "findings": {"fail": 1, "warn": 1},
            "why": None,
        }


def test_the_folder_may_be_left_out(cli, folder: Path, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("runs").code == 2
    (tmp_path / "runs").symlink_to(folder)
    (tmp_path / "compare").symlink_to(folder)
    assert "adam-9" in cli("runs").out
    assert "adam-9" in cli("runs", "--json").out
    assert "adam-9" in cli("runs", "./compare").out


def test_one_run_is_a_list_of_one(cli, folder: Path) -> None:
    assert len(json.loads(cli("runs", folder / "adam-9", "--json").out)) == 1


def test_colors_and_signs_are_for_terminals_that_have_them(cli, folder: Path, monkeypatch) -> None:
    assert "\x1b" not in cli("runs", folder).out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[31mfailed" in cli("runs", folder).out


def test_a_damaged_run_is_listed_and_said(cli, folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "good", 0.1, range(100, 200, 100))
    (tmp_path / "bad\x1b[31m").mkdir()
    (tmp_path / "bad\x1b[31m/run.sqlite").write_text("x" * 5000)
    ended = cli("runs", tmp_path)
    assert ended.code == 0
    assert "unreadable" in ended.out
    assert "\x1b" not in ended.out + ended.err
    assert ended.err.startswith("fullspan: Run.open needs a run that can be read; got a damaged file in")
    assert cli("runs", tmp_path / "bad\x1b[31m").code == 2


def test_an_undefined_loss_is_said(cli, tmp_path: Path) -> None:
    with RunWriter.open(tmp_path / "run") as writer:
        writer.add([Point("", "loss", Moment(1), float("nan"))])
    assert " undefined " in cli("runs", tmp_path).out


def test_a_folder_without_runs_is_nothing_evaluated(cli, tmp_path: Path) -> None:
    ended = cli("runs", tmp_path)
    assert ended.code == 3
    assert ended.err.startswith("fullspan: runs needs a folder with runs; got none in")
    ended = cli("runs", tmp_path / "gone")
    assert ended.code == 2
    assert "find_runs needs a directory that exists" in ended.err


def test_two_runs_are_compared(cli, folder: Path) -> None:
    ended = cli("runs", "compare", folder / "adam-10", folder / "adam-9")
    assert (ended.code, ended.err) == (0, "")
    blocks = ended.out.split("\n\n")
    assert [block.splitlines()[0] for block in blocks[1:]] == ["the run itself", "item", "user"]
    lines = [line.split() for line in blocks[2].splitlines()]
    assert lines[2] == ["gini_index", "last", "0.6000", "500", "1", "700", "0.400"]
    assert lines[3] == ["shared", "0.6000", "500", "0.8000", "500", "0.200"]
    assert lines[4] == ["information_abundance", "↑", "last", "3.100", "500", "1.300", "700", "-1.80"]
    assert lines[6] == ["best", "5.100", "300", "5.300", "300", "0.200"]
    assert max(map(len, ended.out.splitlines())) <= 80


def test_the_comparison_as_json(cli, folder: Path) -> None:
    ended = cli(
        "runs", "compare", folder / "adam-10", folder / "adam-9", "-t", "it*", "-m", "gini_index,x,odd*", "--json"
    )
    assert ended.code == 2
    assert "A run needs a measure of that name; got 'x'." in ended.err
    ended = cli("runs", "compare", folder / "adam-10", folder / "adam-9", "-t", "", "-m", "loss", "--json")
    told = json.loads(ended.out)
    assert [each["status"] for each in told["runs"]] == ["finished", "failed"]
    [row] = told["rows"]
    assert row == {
        "table": "",
        "measure": "loss",
        "better": "lower",
        "shared": {"values": [1 / 500, 1 / 500], "steps": [500, 500], "difference": 0.0},
        "final": {"values": [1 / 500, 1 / 700], "steps": [500, 700], "difference": 1 / 700 - 1 / 500},
        "best": {"values": [1 / 500, 1 / 700], "steps": [500, 700], "difference": 1 / 700 - 1 / 500},
    }


def test_a_step_to_compare_at_can_be_chosen(cli, folder: Path) -> None:
    def shared(step: int) -> dict:
        args = ("-t", "item", "-m", "gini_index", "--step", step, "--json")
        return json.loads(cli("runs", "compare", folder / "adam-10", folder / "adam-9", *args).out)["rows"][0]["shared"]

    assert shared(300)["difference"] == pytest.approx(0.2)
    assert shared(200) == {"values": [0.1 + 0.2, None], "steps": [200, None], "difference": None}


def test_runs_with_nothing_in_common_are_nothing_evaluated(cli, folder: Path, tmp_path: Path) -> None:
    with RunWriter.open(tmp_path / "other") as writer:
        writer.add([Point("other", "gini_index", Moment(1), 0.5)])
    ended = cli("runs", "compare", folder / "adam-9", tmp_path / "other")
    assert ended.code == 3
    assert "compare_runs needs a measure that both runs have a value of; got none in" in ended.err
    assert cli("runs", "compare", folder / "adam-9", folder / "gone").code == 2
    ended = cli("runs", "compare", folder / "adam-9", folder / "adam-10", "--table", "items")
    assert ended.code == 2
    assert "A run needs a table of that name; got 'items'. Did you mean \"item\"?" in ended.err
    assert cli("runs", "compare", folder / "adam-9").code == 2


def test_csv_comes_back(cli, folder: Path, tmp_path: Path) -> None:
    ended = cli("runs", "export", folder / "adam-9", "-o", tmp_path / "out.csv")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == f"20 points written to {tmp_path / 'out.csv'}\n"
    text = (tmp_path / "out.csv").read_text(encoding="utf-8")
    assert cli("runs", "export", folder / "adam-9").out == text
    rows = list(csv.DictReader(io.StringIO(text)))
    points = Run.open(folder / "adam-9").points()
    assert len(rows) == len(points) == 20
    for row, each in zip(rows, points, strict=True):
        assert (row["table"], row["measure"], int(row["step"])) == (each.table, each.measure, each.at.step)
        assert (float(row["epoch"]), int(row["samples"]), float(row["wall"])) == (
            each.at.epoch,
            each.at.samples,
            each.at.wall,
        )
        assert (float(row["value"]) if row["value"] else None) == each.value
        assert (row["n_rows"], row["why"]) == ("" if each.n_rows is None else str(each.n_rows), each.why or "")


def test_any_name_survives_csv(cli, tmp_path: Path) -> None:
    name = 'a,"b"\nü'
    with RunWriter.open(tmp_path / "run") as writer:
        writer.add([Point(name, "m", Moment(1), 0.1 + 0.2)])
    [row] = csv.DictReader(io.StringIO(cli("runs", "export", tmp_path / "run").out))
    assert row["table"] == name
    assert float(row["value"]) == 0.1 + 0.2
    assert row["epoch"] == row["samples"] == ""


def test_parquet_comes_back(cli, folder: Path, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "out.parquet"
    assert cli("runs", "export", folder / "adam-10", "-o", out, "-t", "item", "-m", "gini*").code == 0
    table = pq.read_table(out)
    points = Run.open(folder / "adam-10").points("item", "gini_index")
    assert table.column("value").to_pylist() == [each.value for each in points]
    assert table.column("step").to_pylist() == [100, 200, 300, 400, 500]
    assert table.column("wall").to_pylist() == [each.at.wall for each in points]
    assert table.column("n_rows").to_pylist() == [50] * 5
    assert table.schema.metadata[b"fullspan.run"] == b"Adam"
    assert json.loads(table.schema.metadata[b"fullspan.config"]) == {"lr": 0.1}
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


def test_tensorboard_comes_back(cli, folder: Path, tmp_path: Path) -> None:
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    ended = cli("runs", "export", folder / "adam-9", "-f", "tensorboard", "-o", tmp_path / "logs")
    assert ended.code == 0
    assert ended.err.splitlines() == [
        "fullspan: 4 points that TensorBoard cannot hold left out.",
        f"16 points written to {tmp_path / 'logs'}",
    ]
    found = reading.EventAccumulator(str(tmp_path / "logs"))
    found.Reload()
    assert sorted(found.Tags()["scalars"]) == [
        "item/gini_index",
        "item/information_abundance",
        "loss",
        "user/gini_index",
    ]
    for tag, table, measure in (("item/gini_index", "item", "gini_index"), ("loss", "", "loss")):
        points = Run.open(folder / "adam-9").points(table, measure)
        scalars = found.Scalars(tag)
        assert [each.step for each in scalars] == [each.at.step for each in points]
        assert [each.value for each in scalars] == pytest.approx([each.value for each in points], rel=1e-6)
        assert [each.wall_time for each in scalars] == [each.at.wall for each in points]
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    ended = cli("runs", "export", folder / "adam-9", "-f", "tensorboard", "-o", tmp_path / "logs")
    assert ended.code == 2
    assert "export_run needs a new or empty folder for tensorboard" in ended.err


def test_exports_that_cannot_be(cli, folder: Path, tmp_path: Path) -> None:
    run = folder / "adam-9"
    with RunWriter.open(tmp_path / "bare"):
        pass
    (tmp_path / "file").touch()
    cases = {
        ("export", run, "-o", tmp_path / "out.xyz"): (
            2,
            "needs one of the formats csv, parquet, tensorboard; got none",
        ),
        ("export", run, "-f", "parquet"): (2, "needs a path for parquet; got '-', and only csv can be printed"),
        ("export", run, "-o", tmp_path / "no/out.csv"): (2, "--out needs a directory that exists"),
        ("export", run, "-o", tmp_path / "no/logs", "-f", "tensorboard"): (2, "needs a folder in one that exists"),
        ("export", run, "-o", tmp_path / "file", "-f", "tensorboard"): (2, "for tensorboard; got the file"),
        ("export", run, "-o", run / "run.sqlite", "-f", "csv"): (2, "needs a path other than its input"),
        ("export", run, "-m", "nothing"): (2, "A run needs a measure of that name; got 'nothing'."),
        ("export", tmp_path / "bare"): (3, "export_run needs a run with points; got none in"),
        ("export", tmp_path): (2, "which holds no run.sqlite"),
        ("export", run, "-f", "xml"): (2, "is not one of"),
    }
    for args, (code, words) in cases.items():
        ended = cli("runs", *args)
        assert (ended.code, ended.out) == (code, ""), args
        assert words in ended.err
        assert ended.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bare", "file"]


def test_an_export_that_fails_leaves_what_was_there(cli, folder: Path, tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "out.parquet"
    out.write_bytes(b"before")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    ended = cli("runs", "export", folder / "adam-9", "-o", out)
    assert ended.code == 2
    assert "export_run needs a place that can be written; got No space left on device" in ended.err
    assert out.read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("command", [(), ("list",), ("compare",), ("export",)])
def test_help_has_examples(cli, command: tuple[str, ...]) -> None:
    ended = cli("runs", *command, "--help")
    assert ended.code == 0
    assert "Examples:\n  fullspan runs" in ended.out
