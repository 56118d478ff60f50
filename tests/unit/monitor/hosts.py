"""What the tests of all adapters share: tiny data, and what a run must say when training is over."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import fullspan as fs
from fullspan.store.runs import Run

N_USERS, N_ITEMS, DIM = 40, 30, 4
MEASURES = ("gini_index", "effective_rank")


def ratings(n, seed=0):
    """User ids, item ids and a label of each pair."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, N_USERS, n), rng.integers(0, N_ITEMS, n)
    return users, items, ((users + items) % 3 == 0).astype(np.float32)


class Factorization(torch.nn.Module):
    """Two embedding tables and a bias."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.users = torch.nn.Embedding.from_pretrained(torch.randn(N_USERS, DIM, generator=generator), freeze=False)
        self.items = torch.nn.Embedding.from_pretrained(torch.randn(N_ITEMS, DIM, generator=generator), freeze=False)

    def forward(self, users, items):
        return (self.users(users) * self.items(items)).sum(1)


def assert_equals_checkpoint(run, step, tables):
    """What the run says at `step` is what :func:`fullspan.measure` says of the tables of a checkpoint of that step."""
    assert set(run.tables) == set(tables)
    for name, table in tables.items():
        report = fs.measure(np.asarray(table), measures=MEASURES)
        for measure in MEASURES:
            (point,) = [point for point in run.points(name, measure) if point.at.step == step]
            assert point.value == pytest.approx(report[measure].value, rel=1e-6, abs=1e-6)
            assert point.n_rows == len(table)


def steps_of(run, table, measure=MEASURES[0]):
    return run.curve(table, measure).step.tolist()


def example_of(title):
    """The example in the section of that title of docs/adapters.md."""
    page = (Path(__file__).parents[3] / "docs/adapters.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return re.search(r"^```py\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[1]


def run_example(title):
    """Run that example in the current folder."""
    exec(compile(example_of(title), title, "exec"), {"__name__": "example"})


def opened(path):
    """The run at `path`, to be closed by ``with``."""
    return Run.open(path)


def collapsed_from(n_reads=2):
    """For `tables`: one table that is healthy until it has been read some times, and of rank one from then on."""
    healthy = np.random.default_rng(0).normal(size=(200, 8))
    flat, reads = healthy[:, :1] * np.ones(8), itertools.count(1)

    def table():
        return flat if next(reads) > n_reads else healthy

    return lambda model: {"table": table}
