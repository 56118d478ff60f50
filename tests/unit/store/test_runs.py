"""What is written comes back; what is resumed supersedes; what is not a number says why."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import fullspan
from fullspan.errors import InputError, UnknownNameError
from fullspan.store.records import Event, Moment, Point, WatchedMeasure, WatchedTable
from fullspan.store.runs import Run, RunWriter, StoreError, find_runs, is_run
from tests.unit.store.conftest import point

AT = Moment(10, epoch=0.5, samples=320, wall=1234.5)


def steps(run: Run, **rest) -> list[int]:
    return [each.at.step for each in run.points(**rest)]


def test_points_come_back_as_they_were(writer: RunWriter, home: Path) -> None:
    written = [
        Point("item", "gini_index", AT, 0.1 + 0.2, n_rows=1000),
        Point("item", "gini_index", Moment(20), -5e-324),
        Point("", "loss", Moment(20, samples=2**62), 1e308),
    ]
    writer.add(written)
    assert sorted(Run.open(home).points(), key=lambda each: (each.at.step, each.table != "")) == [
        written[0],
        written[2],
        written[1],
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan"), 10**400])
def test_what_is_not_finite_is_no_number_and_says_so(writer: RunWriter, home: Path, value: float) -> None:
    writer.add([point(1, value), point(2, 0.25), point(3, None), point(4, math.nan, why="one row only")])
    first, second, third, fourth = Run.open(home).points()
    assert (first.value, third.value, fourth.value) == (None, None, None)
    assert first.why is not None
    assert first.why.startswith("not finite")
    assert (second.value, second.why) == (0.25, None)
    assert (third.why, fourth.why) == ("undefined", "one row only")
    curve = Run.open(home).curve("item", "gini_index")
    assert curve.value.tolist() == [0.25]
    assert curve.undefined == 3


def test_a_curve_has_all_four_clocks(writer: RunWriter, home: Path) -> None:
    writer.add([point(20, 2.0), point(10, 1.0, n_rows=7), Point("item", "gini_index", Moment(30, wall=5.0), 3.0)])
    curve = Run.open(home).curve("item", "gini_index")
    assert curve.step.tolist() == [10, 20, 30]
    assert curve.epoch[:2].tolist() == [1.0, 2.0]
    assert curve.samples[:2].tolist() == [320, 640]
    assert np.isnan(curve.epoch[2])
    assert np.isnan(curve.samples[2])
    assert curve.wall.tolist() == [1010.0, 1020.0, 5.0]
    assert curve.n_rows.tolist() == [7, 0, 0]
    assert len(curve) == 3


def test_numbers_of_training_code_are_taken(writer: RunWriter, home: Path) -> None:
    class Tensor:
        def __float__(self) -> float:
            return 0.25

    at = Moment(np.int64(3), epoch=np.float32(0.5), samples=np.int32(9))  # type: ignore[arg-type]
    values = {"a": np.float32(0.5), "b": Tensor(), "c": True, "d": np.array(2)}
    writer.add([Point("t", name, at, value, n_rows=np.int64(4)) for name, value in values.items()])  # type: ignore[arg-type]
    found = {each.measure: each for each in Run.open(home).points()}
    assert {name: each.value for name, each in found.items()} == {"a": 0.5, "b": 0.25, "c": 1.0, "d": 2.0}
    assert found["a"].at == Moment(3, 0.5, 9)
    assert found["a"].n_rows == 4


def test_a_bad_point_leaves_nothing_of_its_batch(writer: RunWriter, home: Path) -> None:
    writer.add([point(1)])
    bad = {
        "points; got str": ["loss"],
        "number or None as its value; got str": [point(2, "high")],  # type: ignore[list-item]
        "from 0 to": [point(-1)],
        "whole step": [point(2), Point("t", "m", Moment(1.5), 1.0)],  # type: ignore[arg-type]
        "table or a measure needs text; got int": [point(2), Point(3, "m", AT, 1.0)],  # type: ignore[arg-type]
        "UTF-8 can hold": [point(2), Point("\ud800", "m", AT, 1.0)],
        "2\\*\\*63": [point(2**63)],
    }
    for words, points in bad.items():
        with pytest.raises(InputError, match=words):
            writer.add(points)  # type: ignore[arg-type]
    assert steps(Run.open(home)) == [1]
    writer.add([point(2)])  # and the writer goes on
    assert steps(Run.open(home)) == [1, 2]


def test_a_step_written_twice_has_the_later_value(writer: RunWriter, home: Path) -> None:
    writer.add([point(1, 0.1), point(1, 0.2)])
    writer.add([point(1, 0.3)])
    assert [each.value for each in Run.open(home).points(all_attempts=True)] == [0.3]


def test_resuming_supersedes_what_came_later_and_keeps_it(home: Path) -> None:
    with RunWriter.open(home) as writer:
        writer.add([point(step, 1.0) for step in range(0, 60, 10)])
    with RunWriter.open(home, resume_step=25) as writer:
        assert writer.attempt == 2
        assert steps(Run.open(home)) == [0, 10, 20]
        writer.add([point(step, 2.0) for step in (30, 35)])
    run = Run.open(home)
    assert [(each.at.step, each.value) for each in run.points()] == [(0, 1), (10, 1), (20, 1), (30, 2), (35, 2)]
    assert steps(run, all_attempts=True) == [0, 10, 20, 30, 30, 35, 40, 50]
    assert [each.resume_step for each in run.attempts] == [None, 25]


def test_without_a_word_an_attempt_goes_on_at_its_first_point(home: Path) -> None:
    with RunWriter.open(home) as writer:
        writer.add([point(step, 1.0) for step in range(6)])
    with RunWriter.open(home) as writer:
        assert steps(Run.open(home)) == [0, 1, 2, 3, 4, 5]
        writer.add([point(3, 2.0)])
    assert [(each.at.step, each.value) for each in Run.open(home).points()] == [(0, 1), (1, 1), (2, 1), (3, 2)]


def test_rewinding_after_writing_is_a_new_attempt(writer: RunWriter, home: Path) -> None:
    writer.add([point(step, 1.0) for step in (1, 2, 3)])
    writer.rewind(1)
    assert writer.attempt == 2
    writer.add([point(2, 2.0)])
    run = Run.open(home)
    assert [(each.at.step, each.value) for each in run.points()] == [(1, 1.0), (2, 2.0)]
    assert [each.status for each in run.attempts] == [None, None]
    assert run.status == "running"


def test_until_it_writes_the_last_rewind_counts(home: Path) -> None:
    with RunWriter.open(home) as writer:
        writer.add([point(step) for step in range(6)])
    with RunWriter.open(home, resume_step=-1) as writer:
        assert steps(Run.open(home)) == []
        writer.rewind(4)
        assert steps(Run.open(home)) == [0, 1, 2, 3, 4]
        assert writer.attempt == 2


def test_a_third_attempt_may_go_back_further_or_less_far(home: Path) -> None:
    for attempt, (resume, some) in enumerate([(None, range(10)), (6, (7, 8)), (7, (8, 9)), (2, (3,))], 1):
        with RunWriter.open(home, resume_step=resume) as writer:
            writer.add([point(step, attempt) for step in some])
        if attempt == 3:
            found = Run.open(home).points()
            assert [each.value for each in found] == [1] * 7 + [2, 3, 3]
    assert [each.value for each in Run.open(home).points()] == [1, 1, 1, 4]


@pytest.mark.parametrize("step", [-2, 1.5, True, "3"])
def test_resuming_needs_a_step(home: Path, step: object) -> None:
    with pytest.raises(InputError, match="Resuming a run needs a whole step, or -1"):
        RunWriter.open(home, resume_step=step)  # type: ignore[arg-type]
    assert not home.exists()


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<f2", "<i8", "|u1", "|b1"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (4, 3, 2)])
def test_vectors_come_back_bit_for_bit(writer: RunWriter, home: Path, dtype: str, shape: tuple[int, ...]) -> None:
    values = (np.random.default_rng(0).normal(size=shape) * 100).astype(dtype)
    writer.add_vector("item", "map:pca", AT, values)
    [(at, found)] = Run.open(home).vectors("item", "map:pca")
    assert at == AT
    assert found.shape == shape
    assert found.dtype == values.dtype.newbyteorder("<")
    assert np.array_equal(found, values)
    found += found  # it is the caller's own


def test_vectors_are_superseded_like_points(home: Path) -> None:
    for attempt, resume in enumerate([None, 1], 1):
        with RunWriter.open(home, resume_step=resume) as writer:
            for step in range(2 * attempt - 2, 4):
                writer.add_vector("item", "singular_values", Moment(step), np.full(3, attempt))
                writer.add_vector("item", "dimension_mean", Moment(step), np.zeros(3))
    run = Run.open(home)
    assert [(at.step, int(values[0])) for at, values in run.vectors("item", "singular_values")] == [
        (0, 1),
        (1, 1),
        (2, 2),
        (3, 2),
    ]
    assert run.kinds("item") == ["dimension_mean", "singular_values"]
    assert run.vectors("item", "map:pca") == []


def test_a_vector_needs_numbers(writer: RunWriter) -> None:
    with pytest.raises(InputError, match="add_vector needs an array of numbers; got the type <U1"):
        writer.add_vector("item", "map:pca", AT, ["a"])


def test_events_come_back_and_are_superseded(home: Path) -> None:
    with RunWriter.open(home) as writer:
        told = Event(AT, "warn", "collapse", "item", "κ fell", {"rows": np.arange(2), "x": np.nan, "y": (1, None)})
        late = Event(Moment(90), "error", "", "", "line 1\nline 2", {})
        writer.add_event(told)
        writer.add_event(late)
        assert Run.open(home).events()[1] == late
    with RunWriter.open(home, resume_step=50):
        pass
    [found] = Run.open(home).events()
    assert (found.at, found.level, found.rule, found.table, found.message) == (AT, "warn", "collapse", "item", "κ fell")
    assert found.detail == {"rows": [0, 1], "x": None, "y": [1, None]}
    assert len(Run.open(home).events(all_attempts=True)) == 2


def test_an_event_needs_a_known_level(writer: RunWriter) -> None:
    with pytest.raises(InputError, match="one of the levels note, warn, fail, error; got 'fatal'"):
        writer.add_event(Event(AT, "fatal", "", "", "", {}))


def test_what_is_told_of_tables_and_measures(writer: RunWriter, home: Path) -> None:
    writer.table("item", 100, 8, "float32", also=("decoder",), note="sampled")
    writer.describe("gini_index", "Gini index", better="higher")
    writer.add([point(1), point(1, table="user", measure="mean_norm"), point(1, table="", measure="loss")])
    run = Run.open(home)
    assert run.tables == {
        "item": WatchedTable("item", 100, 8, "float32", ("decoder",), "sampled"),
        "user": WatchedTable("user"),
    }
    assert list(run.measures()) == ["gini_index", "mean_norm", "loss"]
    assert run.measures("item") == {"gini_index": WatchedMeasure("gini_index", "Gini index", None, "higher")}
    assert list(run.measures("")) == ["loss"]
    assert run.measures("nothing") == {}
    with pytest.raises(InputError, match="better='higher', 'lower' or None; got 'up'"):
        writer.describe("gini_index", "Gini index", better="up")


def test_the_newest_point_of_each_curve(home: Path) -> None:
    with RunWriter.open(home) as writer:
        writer.add([point(step) for step in range(5)] + [point(2, table="user")])
    with RunWriter.open(home, resume_step=3) as writer:
        writer.add([point(3, 7.0)])
    found = Run.open(home).last_points()
    assert [(each.table, each.at.step, each.value) for each in found] == [("item", 3, 7.0), ("user", 2, 0.5)]


def test_unknown_names_are_said_with_the_known_ones(writer: RunWriter, home: Path) -> None:
    writer.add([point(1)])
    run = Run.open(home)
    with pytest.raises(
        UnknownNameError, match="Run.curve needs a table of the run; got 'items'. Did you mean \"item\"?"
    ):
        run.curve("items", "gini_index")
    with pytest.raises(UnknownNameError, match="needs a measure of the run; got 'zzz'. It has 'gini_index'."):
        run.points(measure="zzz")
    assert run.points("") == []
    assert len(run.curve("", "gini_index")) == 0


def test_config_and_name(home: Path) -> None:
    with RunWriter.open(home, name="first try", config={"lr": 0.1, "shape": (2, 3), "bad": math.nan, "path": home}):
        assert Run.open(home).config == {"lr": 0.1, "shape": [2, 3], "bad": None, "path": str(home)}
    with RunWriter.open(home):
        assert Run.open(home).config["lr"] == 0.1
    with RunWriter.open(home, config={"lr": 0.2}):
        run = Run.open(home)
        assert run.config == {"lr": 0.2}
        assert run.name == "first try"
        assert [each.config and each.config["lr"] for each in run.attempts] == [0.1, None, 0.2]
        assert run.attempts[-1].version == fullspan.__version__
    with RunWriter.open(home.with_name("other")):
        assert Run.open(home.with_name("other")).name == "other"


def test_how_a_run_ends(home: Path) -> None:
    def status(end) -> str:
        writer = RunWriter.open(home)
        end(writer)
        writer.close()
        writer.close()
        return Run.open(home).status

    assert status(lambda writer: writer.finish()) == "finished"
    assert status(lambda writer: writer.finish("stopped")) == "stopped"
    assert status(lambda writer: writer.finish("failed")) == "failed"
    assert status(lambda writer: None) == "stopped"
    with pytest.raises(ZeroDivisionError), RunWriter.open(home):
        _ = 1 / 0
    assert Run.open(home).status == "failed"
    with RunWriter.open(home) as writer:
        assert Run.open(home).status == "running"
        with pytest.raises(InputError, match="one of finished, stopped, failed; got 'done'"):
            writer.finish("done")
    assert Run.open(home).status == "finished"


def test_a_closed_writer_says_so(home: Path) -> None:
    writer = RunWriter.open(home)
    writer.close()
    for call in (lambda: writer.add([point(1)]), lambda: writer.add_snapshot("t", AT, [0], np.ones((1, 2)))):
        with pytest.raises(StoreError, match="needs an open writer; got one that was closed"):
            call()


@pytest.mark.parametrize("name", ["a/b/../c", "x" * 5000, "表 ü 🦜", "it's; DROP TABLE point; --", "\x00\n", " ", "."])
def test_any_name_is_a_name(writer: RunWriter, home: Path, name: str) -> None:
    writer.add([Point(name, name, AT, 1.0)])
    writer.add_vector(name, name, AT, [1.0])
    path = writer.add_snapshot(name, AT, [0], np.ones((1, 2)))
    run = Run.open(home)
    assert list(run.tables) == [name]
    assert run.curve(name, name).value.tolist() == [1.0]
    assert run.vectors(name, name)[0][1].tolist() == [1.0]
    assert run.snapshots(name)[0].path == path
    assert path.parent.parent == home / "snapshots"


def test_runs_are_found_by_name_in_order(tmp_path: Path) -> None:
    for name in ("lr-10", "lr-9", "deep/er/a", "deep/er"):
        RunWriter.open(tmp_path / name).close()
    (tmp_path / "other").mkdir()
    found = find_runs(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in found] == ["deep/er", "deep/er/a", "lr-9", "lr-10"]
    assert find_runs(tmp_path / "lr-9") == find_runs(tmp_path / "lr-9/run.sqlite") == [tmp_path / "lr-9"]
    assert is_run(tmp_path / "lr-9")
    assert is_run(tmp_path / "lr-9/run.sqlite")
    assert not is_run(tmp_path)
    assert Run.open(tmp_path / "lr-9/run.sqlite").path == tmp_path / "lr-9"
