"""The runs of the first seed, kept as watched runs: curves, singular values and both tables at every point."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import FullspanError
from fullspan.measures.norms import mean_norm
from fullspan.measures.sparsity import gini_index, hoyer_sparsity, vector_entropy
from fullspan.measures.spectrum import spectral_entropy
from fullspan.store.reader import Run
from fullspan.store.records import Moment, Point
from fullspan.store.writer import RunWriter
from fullspan.studies.base.grid import Task

__all__ = ["RECORDED_SEED", "Recorder", "is_recorded", "run_folder"]

#: The seed whose runs are kept.
RECORDED_SEED = 0
_BOTH = "users+items"
#: What is of the run and of no table.
_SCORES = ("loss", "test_loss", "accuracy", "auc")


def run_folder(task: Task, out: Path) -> Path:
    """Where the run of a task lies."""
    return out / "runs" / task.cell.name


def is_recorded(task: Task, out: Path) -> bool:
    """Whether the run of exactly this task is there, from its first point to its last."""
    folder = run_folder(task, out)
    try:
        run = Run.open(folder)
        return run.config.get("key") == task.key and run.status == "finished"
    except (FullspanError, OSError):
        return False


class Recorder:
    """Write what a run passes through; a context manager.

    Parameters
    ----------
    task, out
        What is run, and the folder of the study.
    data
        The shared data: its provenance goes into the run's settings.
    """

    def __init__(self, task: Task, out: Path, data: Mapping[str, Any]) -> None:
        folder = run_folder(task, out)
        folder.parent.mkdir(parents=True, exist_ok=True)
        config = {"study": "movielens", "cell": task.cell.name, "seed": task.seed, "key": task.key}
        self._writer = RunWriter.open(
            folder,
            name=task.cell.name,
            config={**config, **task.cell.settings, "data": data.get("name")},
            resume_step=-1,
        )
        self._described = False

    def __enter__(self) -> Recorder:
        self._writer.__enter__()
        return self

    def __exit__(self, *ended: Any) -> None:
        self._writer.__exit__(*ended)

    def add(self, trainer: Any, told: Mapping[str, float | None]) -> None:
        """One point: scores and the article's measures as they were computed, and each table by itself."""
        tables = {"users": trainer.users, "items": trainer.items}
        at = Moment(trainer.steps, float(trainer.epoch), trainer.steps * trainer.setup.batch_size, time.time())
        if not self._described:
            self._describe(tables)
        n_rows = sum(map(len, tables.values()))
        points = [
            Point("", name, at, value) if name in _SCORES else Point(_BOTH, name, at, value, n_rows)
            for name, value in told.items()
            if value is not None and "." not in name
        ]
        for name, E in tables.items():
            singular_values = np.linalg.svd(E.astype(np.float64), compute_uv=False)
            points += [Point(name, measure, at, value, len(E)) for measure, value in _exact(E).items()]
            self._writer.add_vector(name, "singular_values", at, singular_values)
            self._writer.add_snapshot(name, at, np.arange(len(E)), E)
        self._writer.add(points)

    def _describe(self, tables: Mapping[str, Array]) -> None:
        for name, E in tables.items():
            self._writer.table(name, len(E), E.shape[1], str(E.dtype))
        n_rows, dim = sum(map(len, tables.values())), next(iter(tables.values())).shape[1]
        self._writer.table(_BOTH, n_rows, dim, "float32", note="both tables, one under the other; article mode")
        self._described = True


def _exact(E: Array) -> dict[str, float]:
    E = E.astype(np.float64)
    return {
        "gini_index": float(gini_index(E).mean()),
        "hoyer_sparsity": float(hoyer_sparsity(E).mean()),
        "vector_entropy": float(vector_entropy(E).mean()),
        "spectral_entropy": spectral_entropy(np.maximum(np.linalg.eigvalsh(np.cov(E, rowvar=False)), 0.0)),
        "mean_norm": mean_norm(E),
    }
