"""Reading a run beside its writer, after a kill, without rights to write, and from a file that is not one."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from fullspan.errors import FormatError, FullspanError, MissingFileError
from fullspan.store import schema, source
from fullspan.store.records import Event, Moment
from fullspan.store.runs import Run, RunWriter, StoreError, find_runs, is_run
from tests.unit.store.conftest import point, read_only


def read(home: Path) -> list[int]:
    return [each.at.step for each in Run.open(home).points()]


def killed(writer: RunWriter, to: Path, *names: str) -> Path:
    """The files as they lie on the disk while the writer is at work: what a kill leaves."""
    to.mkdir()
    for name in names or [each.name for each in writer.path.iterdir()]:
        shutil.copyfile(writer.path / name, to / name)
    return to


def test_a_reader_sees_what_was_acknowledged(writer: RunWriter, home: Path) -> None:
    run = Run.open(home)
    for step in range(5):
        writer.add([point(step)])
        assert [each.at.step for each in run.points()] == list(range(step + 1))


def test_what_a_killed_writer_left_is_read_and_gone_on_with(writer: RunWriter, home: Path) -> None:
    writer.add([point(1), point(2)])
    assert (home / "run.sqlite-wal").stat().st_size > 0
    left = killed(writer, home.with_name("left"))
    assert read(left) == [1, 2]
    with RunWriter.open(left, resume_step=1) as again:
        again.add([point(5)])
    assert read(left) == [1, 5]
    assert [each.status for each in Run.open(left).attempts] == [None, "finished"]
    assert Run.open(left).status == "finished"


@pytest.mark.parametrize("names", [("run.sqlite", "run.sqlite-wal"), ()], ids=["without shared memory", "all files"])
def test_what_a_killed_writer_left_is_read_without_rights_to_write(shared: Path, names: tuple[str, ...]) -> None:
    with RunWriter.open(shared / "run") as writer:
        writer.add([point(1), point(2)])
        left = killed(writer, shared / "left", *names)
        run = Run.open(writer.path)
        assert [each.at.step for each in run.points()] == [1, 2]  # and every module is loaded
    with read_only(left):
        before = sorted(left.iterdir())
        assert read(left) == [1, 2]
        assert sorted(left.iterdir()) == before


def test_a_closed_run_is_read_without_rights_to_write(shared: Path) -> None:
    with RunWriter.open(shared / "run") as writer:
        writer.add([point(1)])
        path = writer.add_snapshot("item", Moment(1), [0], np.ones((1, 2)))
    shutil.copytree(shared / "run", shared / "copy")
    assert read(shared / "copy") == [1]
    assert Run.open(shared / "copy").snapshots("item")[0].read().row_ids.tolist() == [0]  # and every module is loaded
    assert sorted(each.name for each in (shared / "run").iterdir()) == ["run.sqlite", "snapshots", "writer.lock"]
    with read_only(shared / "run"):
        run = Run.open(shared / "run")
        assert [each.at.step for each in run.points()] == [1]
        assert run.status == "finished"
        assert run.snapshots("item")[0].read().vectors.tolist() == [[1, 1]]
        assert path.exists()
        with pytest.raises(
            StoreError, match="RunWriter.open needs a directory that can be written; got Permission denied"
        ):
            RunWriter.open(shared / "run")
        with pytest.raises(StoreError, match="needs a directory that can be written"):
            RunWriter.open(shared / "run/deeper")


def test_half_a_transaction_with_a_rollback_journal_is_not_seen(home: Path, monkeypatch) -> None:
    monkeypatch.setenv("FULLSPAN_JOURNAL", "delete")
    with RunWriter.open(home) as writer:
        assert Run.open(home).attempts[0].journal == "delete"
        writer.add([point(step, 1.0) for step in range(5000)])
        assert not (home / "run.sqlite-wal").exists()
        raw = writer._connection
        raw.execute("PRAGMA cache_size = 5")
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("UPDATE point SET value = 2.0")  # too much for the cache: half of it is in the file
        left = killed(writer, home.with_name("left"))
        raw.execute("ROLLBACK")
    with sqlite3.connect(f"file:{left / 'run.sqlite'}?immutable=1", uri=True) as unaware:
        assert len(unaware.execute("SELECT DISTINCT value FROM point").fetchall()) > 1
    unaware.close()
    with Run.open(left) as run:
        assert {each.value for each in run.points()} == {1.0}
        assert len(run.points()) == 5000


def test_a_copy_in_memory_is_made_anew_when_the_files_change(writer: RunWriter, home: Path, monkeypatch) -> None:
    def refused(self: source.Source, how: str) -> sqlite3.Connection:
        connection = sqlite3.connect("file:/no/such/place?mode=ro", uri=True)
        connection.execute("SELECT 1")
        return connection

    writer.add([point(1)])
    monkeypatch.setattr(source.Source, "_opened", refused)
    with Run.open(home) as run:
        assert [each.at.step for each in run.points()] == [1]
        kept = run._source._copy
        assert len(run.points()) == 1
        assert run._source._copy is kept is not None
        writer.add([point(2)])
        assert [each.at.step for each in run.points()] == [1, 2]


def test_a_missing_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="Run.open needs the directory of a run; got .*gone', which is missing."):
        Run.open(tmp_path / "gone")
    with pytest.raises(MissingFileError, match="which holds no run.sqlite. `fullspan runs FOLDER` lists"):
        Run.open(tmp_path)
    with pytest.raises(MissingFileError, match="find_runs needs a directory that exists; got .*gone"):
        find_runs(tmp_path / "gone")
    (tmp_path / "file").touch()
    with pytest.raises(MissingFileError, match="holds no run.sqlite"):
        Run.open(tmp_path / "file")
    with pytest.raises(FullspanError, match="RunWriter.open needs a directory; got the file"):
        RunWriter.open(tmp_path / "file")
    assert not is_run(tmp_path / "gone")
    assert not is_run("\x00")


def test_a_run_that_is_deleted_meanwhile_is_said(home: Path) -> None:
    RunWriter.open(home).close()
    run = Run.open(home)
    shutil.rmtree(home)
    with pytest.raises(MissingFileError, match="Reading a run needs its run.sqlite; got none in"):
        run.points()


def test_nothing_is_acknowledged_for_a_file_that_is_gone(home: Path) -> None:
    writer = RunWriter.open(home)
    writer.add([point(1)])
    home.rename(home.with_name("moved"))
    for call in (lambda: writer.add([point(2)]), lambda: writer.add_snapshot("t", Moment(1), [0], np.ones((1, 2)))):
        with pytest.raises(StoreError, match="needs the file that was opened; got none, or another one"):
            call()
    with RunWriter.open(home) as other:
        other.add([point(3)])
        with pytest.raises(StoreError, match="needs the file that was opened"):
            writer.add([point(4)])
    writer.close()
    assert read(home) == [3]
    assert read(home.with_name("moved")) == [1]
    with pytest.raises(StoreError, match="RunWriter.finish needs the file that was opened"), RunWriter.open(home):
        shutil.rmtree(home)
    RunWriter.open(home).close()  # and the lock was given up


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE point (x)")
    connection.close()


def newer(path: Path) -> None:
    RunWriter.open(path.parent).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def cut(path: Path) -> None:
    with RunWriter.open(path.parent) as writer:
        writer.add([point(step) for step in range(500)])
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


STRANGE = {
    "text": (lambda path: path.write_text("step,loss\n" * 100), "needs a run that can be read; got a damaged file"),
    "empty": (lambda path: path.touch(), "needs one that was begun; got an empty file"),
    "foreign": (foreign, "needs a file that fullspan wrote; got another SQLite file"),
    "newer": (newer, r"needs a run of version 1 or older; got version 99 .* pip install --upgrade fullspan"),
    "cut": (cut, "needs a run that can be read; got a damaged file .*recover"),
}


@pytest.mark.parametrize("kind", list(STRANGE))
def test_a_strange_file_is_said_in_one_line(home: Path, kind: str) -> None:
    make, words = STRANGE[kind]
    home.mkdir()
    make(home / "run.sqlite")
    with pytest.raises(FormatError, match=words) as caught:
        Run.open(home).points()
    assert "\n" not in str(caught.value)
    if kind != "empty":  # a new run may be made there
        before = (home / "run.sqlite").read_bytes()
        with pytest.raises(FormatError):
            RunWriter.open(home)
        assert (home / "run.sqlite").read_bytes() == before
        assert not (home / "run.sqlite-wal").exists()


def test_no_flipped_byte_raises_anything_else(home: Path) -> None:
    with RunWriter.open(home, config={"a": [1, 2]}) as writer:
        writer.table("item", 3, 2, "float32", also=["b"])
        for step in range(8):
            writer.add([point(step, why="ü")])
            writer.add_vector("item", "singular_values", Moment(step), np.ones(4))
            writer.add_event(Event(Moment(step), "note", "r", "item", "m", {"a": 1}))
        writer.add_snapshot("item", Moment(1), [0], np.ones((1, 2)))
    whole = (home / "run.sqlite").read_bytes()
    chance = random.Random(0)
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(20):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        (home / "run.sqlite").write_bytes(damaged)
        try:
            with Run.open(home) as run:
                _ = run.points(), run.tables, run.measures(), run.attempts, run.events(), run.status, run.name
                _ = run.vectors("item", "singular_values"), run.snapshots("item"), run.last_points(), run.created
                _ = run.curve("item", "gini_index")
        except FullspanError:
            refused += 1
    assert 20 < refused < 150


def test_a_full_disk_is_said_and_nothing_acknowledged_is_lost(writer: RunWriter, home: Path) -> None:
    writer.add([point(1)])
    [pages] = writer._connection.execute("PRAGMA page_count").fetchone()
    writer._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="RunWriter.add needs a place that can be .* got 'database or disk is full'"):
        writer.add([point(step, table=f"table {step}") for step in range(5000)])
    assert read(home) == [1]
    writer._connection.execute("PRAGMA max_page_count = 100000")
    writer.add([point(2, table="table 7")])
    assert read(home) == [1, 2]


def test_a_file_that_another_program_holds_is_said(writer: RunWriter, home: Path) -> None:
    writer._connection.execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(home / "run.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="RunWriter.add needs its turn at the file; got 'database is locked'"):
        writer.add([point(1)])
    other.execute("ROLLBACK")
    other.close()
    writer.add([point(1)])
    assert read(home) == [1]


ADDED = ("ALTER TABLE point ADD COLUMN error REAL", "CREATE TABLE extra (id INTEGER PRIMARY KEY)")


def test_an_older_file_is_brought_up_to_date_by_a_writer(home: Path, monkeypatch) -> None:
    with RunWriter.open(home) as writer:
        writer.add([point(1)])
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, ADDED))
    monkeypatch.setattr("fullspan.store.writer._POINT", "INSERT INTO point VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0.5)")
    with RunWriter.open(home) as writer:
        writer.add([point(2)])
        assert writer._connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert writer._connection.execute("SELECT error FROM point ORDER BY step").fetchall() == [(None,), (0.5,)]
    assert read(home) == [1, 2]


def test_an_older_file_is_read_as_a_newer_one_and_left_alone(home: Path, monkeypatch) -> None:
    with RunWriter.open(home) as writer:
        writer.add([point(1)])
    before = (home / "run.sqlite").read_bytes()
    newest = (*schema.MIGRATIONS, ADDED)
    monkeypatch.setattr(schema, "MIGRATIONS", newest)
    monkeypatch.setattr(source, "MIGRATIONS", newest)
    with Run.open(home) as run:
        assert run._ask("", "SELECT error FROM point") == [(None,)]
        assert [each.at.step for each in run.points()] == [1]
    assert (home / "run.sqlite").read_bytes() == before


def test_a_migration_that_fails_changes_nothing(home: Path, monkeypatch) -> None:
    with RunWriter.open(home) as writer:
        writer.add([point(1)])
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, (*ADDED, "CREATE TABLE point (x)")))
        with pytest.raises(StoreError, match="table point already exists"):
            RunWriter.open(home)
    assert read(home) == [1]
    with RunWriter.open(home) as writer:
        assert writer._connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert not writer._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'extra'").fetchone()


def test_other_programs_read_what_holds(home: Path) -> None:
    with RunWriter.open(home) as writer:
        writer.add([point(1, 1.0), point(2, 1.0)])
    with RunWriter.open(home, resume_step=1) as writer:
        writer.add([point(3, 2.0)])
    connection = sqlite3.connect(home / "run.sqlite")
    rows = connection.execute('SELECT "table", measure, step, attempt, value FROM latest ORDER BY step').fetchall()
    connection.close()
    assert rows == [("item", "gini_index", 1, 1, 1.0), ("item", "gini_index", 3, 2, 2.0)]
