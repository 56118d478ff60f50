"""A run on the disk, and the rights of a user who may not write there."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fullspan.store.records import Moment, Point
from fullspan.store.runs import RunWriter


def point(step: int, value: float | None = 0.5, table: str = "item", measure: str = "gini_index", **rest) -> Point:
    return Point(table, measure, Moment(step, epoch=step / 10, samples=step * 32, wall=1000.0 + step), value, **rest)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def writer(home: Path) -> Iterator[RunWriter]:
    with RunWriter.open(home) as made:
        yield made


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that every user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Inside, nothing in `folder` can be written, not even by root."""
    if not hasattr(os, "geteuid"):
        pytest.skip("needs the file permissions of POSIX")
    for each in [folder, *folder.rglob("*")]:
        each.chmod(0o555 if each.is_dir() else 0o444)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        with pytest.raises(PermissionError):
            (folder / "probe").touch()
        yield
    finally:
        if root:
            os.seteuid(0)
        for each in [folder, *folder.rglob("*")]:
            each.chmod(0o755 if each.is_dir() else 0o644)
