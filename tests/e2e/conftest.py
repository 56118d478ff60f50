"""Tables on the disk, and the command line in this process: its exit code, and both its streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from fullspan.cli.main import run


class Ended(NamedTuple):
    """What a command ended with."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys, monkeypatch) -> Callable[..., Ended]:
    """Run the command line on its arguments, without a terminal and with the colors of none."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "FULLSPAN_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def call(*args: object) -> Ended:
        code = run([str(each) for each in args])
        return Ended(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def tables(tmp_path_factory):
    """A folder with a healthy table, a shifted one, and a newer version of the healthy one."""
    folder = tmp_path_factory.mktemp("tables with spaces, é")
    E = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    np.save(folder / "good.npy", E)
    np.save(folder / "shifted.npy", E + 10)
    np.save(folder / "newer.npy", E + 0.1 * np.random.default_rng(1).normal(size=E.shape).astype(np.float32))
    np.savez(folder / "model.npz", user_embedding=E[:100], item_embedding=E[100:])
    return folder
