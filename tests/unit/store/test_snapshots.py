"""Sampled rows in files of their own: whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from fullspan.errors import FormatError, InputError, MissingFileError
from fullspan.store.places import slug
from fullspan.store.records import Moment
from fullspan.store.runs import Run, RunWriter, StoreError

AT = Moment(7, epoch=1.0, samples=10, wall=3.0)
E = np.random.default_rng(0).normal(size=(5, 3)).astype("f4")


@pytest.mark.parametrize("labels", [None, ["a", "ü", "", "b", "c"], np.arange(5), np.array(["x"] * 5, object)])
@pytest.mark.parametrize("ids", [np.arange(5)[::-1], list("edcba")])
def test_rows_come_back(writer: RunWriter, home: Path, labels, ids) -> None:
    path = writer.add_snapshot("item", AT, ids, E, labels)
    [found] = Run.open(home).snapshots("item")
    assert (found.at, found.path, found.n_rows, found.dim, found.attempt) == (AT, path, 5, 3, 1)
    row_ids, vectors, names = found.read()
    assert row_ids.tolist() == list(ids)
    assert vectors.dtype == E.dtype
    assert np.array_equal(vectors, E)
    assert names is None if labels is None else names.tolist() == list(labels)
    assert [each.name for each in path.parent.iterdir()] == ["1-7.npz"]


@pytest.mark.parametrize("dtype", ["f2", "f8", "i1"])
def test_the_type_is_kept(writer: RunWriter, home: Path, dtype: str) -> None:
    writer.add_snapshot("item", AT, np.arange(5), E.astype(dtype))
    assert Run.open(home).snapshots("item")[0].read().vectors.dtype == dtype


def test_narrow_types_of_other_packages_are_widened(writer: RunWriter, home: Path) -> None:
    narrow = E.astype(pytest.importorskip("ml_dtypes").bfloat16)
    writer.add_snapshot("item", AT, np.arange(5), narrow)
    found = Run.open(home).snapshots("item")[0].read().vectors
    assert found.dtype == np.float32
    assert np.array_equal(found, narrow.astype(np.float32))


def test_shapes_must_agree(writer: RunWriter, home: Path) -> None:
    with pytest.raises(
        InputError, match=r"row_ids of shape \(n,\) and vectors of shape \(n, dim\); got \(4,\) and \(5, 3\)"
    ):
        writer.add_snapshot("item", AT, np.arange(4), E)
    with pytest.raises(InputError, match=r"got \(5,\) and \(15,\)"):
        writer.add_snapshot("item", AT, np.arange(5), E.ravel())
    with pytest.raises(InputError, match=r"one label a row; got \(2,\) for 5 rows"):
        writer.add_snapshot("item", AT, np.arange(5), E, ["a", "b"])
    with pytest.raises(InputError, match="vectors of numbers; got <U1"):
        writer.add_snapshot("item", AT, [0], [["a"]])
    assert not (home / "snapshots").exists()


def test_a_later_attempt_supersedes_and_overwrites_nothing(home: Path) -> None:
    for attempt, resume in ((1, None), (2, 4)):
        with RunWriter.open(home, resume_step=resume) as writer:
            for step in (5, 6) if attempt == 2 else (3, 5, 9):
                writer.add_snapshot("item", Moment(step), np.arange(5), E * attempt)
    found = Run.open(home).snapshots("item")
    assert [(each.at.step, each.attempt) for each in found] == [(3, 1), (5, 2), (6, 2)]
    assert np.array_equal(found[1].read().vectors, 2 * E)
    assert len(list(home.rglob("*.npz"))) == 5


def test_a_failure_leaves_what_was_there(writer: RunWriter, home: Path, monkeypatch) -> None:
    writer.add_snapshot("item", AT, np.arange(5), E)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="needs a place that can be written; got No space left on device"):
        writer.add_snapshot("item", AT, np.arange(5), 2 * E)
    monkeypatch.undo()
    [found] = Run.open(home).snapshots("item")
    assert np.array_equal(found.read().vectors, E)
    assert [path.name for path in home.rglob("*.npz")] == ["1-7.npz"]
    assert not list(home.rglob("*.tmp"))


def test_half_written_files_are_swept_when_the_run_is_opened(home: Path) -> None:
    with RunWriter.open(home) as writer:
        left = writer.add_snapshot("item", AT, np.arange(5), E).with_name(".1-9.npz.123.tmp")
        left.write_bytes(b"PK")
    with RunWriter.open(home):
        assert not left.exists()
        assert len(list(home.rglob("*.npz"))) == 1


@pytest.mark.parametrize(
    "damage", [lambda data: data[:60], lambda data: b"", lambda data: b"text", lambda data: data[:-90]]
)
def test_a_damaged_file_is_said(writer: RunWriter, home: Path, damage) -> None:
    path = writer.add_snapshot("item", AT, np.arange(5), E)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FormatError, match=r"Snapshot.read needs a whole .npz file; got .*7.npz"):
        Run.open(home).snapshots("item")[0].read()


def test_a_file_that_is_gone_is_said(writer: RunWriter, home: Path) -> None:
    writer.add_snapshot("item", AT, np.arange(5), E).unlink()
    with pytest.raises(MissingFileError, match="Snapshot.read needs the file it was written to; got none at"):
        Run.open(home).snapshots("item")[0].read()


def test_names_of_files_tell_tables_apart() -> None:
    names = ["User", "user", "a/b", "a-b", "a b", "", ".", "..", "é", "ê", "x" * 300, "x" * 301, "con", "\n"]
    slugs = [slug(name) for name in names]
    assert len({each.lower() for each in slugs}) == len(names)
    assert all(
        len(each) <= 60 and set(each) <= set("abcdefghijklmnopqrstuvwxyzUABCDEFGHIJ0123456789._-") for each in slugs
    )
    assert not any(each.startswith(".") for each in slugs)
