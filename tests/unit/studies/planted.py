"""Small ratings with a planted taste, and curves with planted trends."""

from __future__ import annotations

import time

import numpy as np

from fullspan.datasets.movielens import Ratings
from fullspan.studies.base.grid import Cell
from fullspan.studies.base.result import CellCurves


def ratings(n_users: int = 30, n_items: int = 40, n: int = 200, seed: int = 0) -> Ratings:
    """Ratings that depend on how agreeable the user and the item are; every user and item occurs."""
    rng = np.random.default_rng(seed)
    users = np.concatenate([np.arange(n_users), rng.integers(0, n_users, n - n_users)])
    items = np.concatenate([rng.permutation(np.arange(n - n_users) % n_items), rng.integers(0, n_items, n_users)])
    taste = np.linspace(-1, 1, n_users)[users] + np.linspace(-1, 1, n_items)[items] + 0.5 * rng.normal(size=n)
    stars = np.clip(np.round(3.4 + taste), 1, 5).astype(np.float32)
    ids = np.arange(max(n_users, n_items), dtype=np.int64)
    return Ratings(
        users, items, stars, np.zeros(n, np.int64), "planted", "0" * 64, n_users, n_items, ids[:n_users], ids[:n_items]
    )


def curves(
    name: str = "sgd-b8",
    slopes: dict[str, float] | None = None,
    *,
    noise: float = 0.0,
    n_seeds: int = 5,
    epochs: int = 20,
    part: str = "article",
    **more: np.ndarray,
) -> CellCurves:
    """Straight curves of given slopes an epoch, with noise that differs from seed to seed."""
    rng = np.random.default_rng(7)
    x = np.arange(epochs + 1, dtype=float)
    made = {
        measure: 0.5 + slope * x + noise * rng.normal(size=(n_seeds, 1)) * x / epochs + np.zeros((n_seeds, 1))
        for measure, slope in (slopes or {}).items()
    }
    setup = {"optimizer": name.partition("-")[0], "batch_size": int(name.rpartition("b")[2])}
    cell = Cell(name, {"setup": setup}, part)
    return CellCurves(cell, tuple(range(n_seeds)), x, {**made, **more}, (1.0,) * n_seeds)


def square(task, shared):
    """Work for the tests of execution: in a module, so that other processes find it."""
    if shared == "fail" and task.seed == 1:
        raise ValueError("planted")
    if shared == "die" and task.seed == 1:
        import os

        os._exit(9)
    if shared == "slow":
        time.sleep(60 if task.seed else 0)
    return {"x": [0, 1], "curves": {"square": [0, task.seed**2]}, "seconds": 0.0}
