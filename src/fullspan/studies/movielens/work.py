"""One run: train, and measure both tables as the article does after every epoch."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.measures.sparsity import gini_index, hoyer_sparsity, vector_entropy
from fullspan.measures.spectrum import article_spectral_entropy
from fullspan.studies.base.grid import Task
from fullspan.studies.movielens.record import RECORDED_SEED, Recorder
from fullspan.trainers.factorization import FactorizationTrainer, Setup

__all__ = ["DECILES", "MEASURES", "SCORES", "article_measures", "deciles_of", "kernel_measures", "train"]

#: The article's four, in its order.
MEASURES = ("gini_index", "hoyer_sparsity", "vector_entropy", "spectral_entropy")
SCORES = ("loss", "test_loss", "accuracy", "auc")
DECILES = 10

Record = Callable[[Any, Mapping[str, float | None]], None]


def article_measures(E: Array) -> dict[str, float]:
    """The four measures of a table, with the constants of the article's code.

    Parameters
    ----------
    E
        ``(n_rows, dim)`` table.

    Returns
    -------
    dict
        Means over the rows of Gini index, Hoyer sparsity and vector entropy; spectral entropy of the whole.

    Examples
    --------
    >>> article_measures(np.vstack([np.eye(3), -np.eye(3)]))["hoyer_sparsity"]
    1.0
    """
    rows = _rows(E)
    return {**{name: float(values.mean()) for name, values in rows.items()}, "spectral_entropy": _spectral(E)}


def _rows(E: Array) -> dict[str, Array]:
    return {
        "gini_index": gini_index(E, mode="article"),
        "hoyer_sparsity": hoyer_sparsity(E, mode="article"),
        "vector_entropy": vector_entropy(E, mode="article"),
    }


def _spectral(E: Array) -> float:
    return article_spectral_entropy(E)


def deciles_of(counts: Array) -> list[Array]:
    """Rows from the least to the most frequent, in ten parts of (nearly) one size; ties by position.

    Examples
    --------
    >>> [part.tolist() for part in deciles_of(np.array([5, 1, 3] * 4))][:2]
    [[1, 4], [7, 10]]
    """
    return np.array_split(np.argsort(counts, kind="stable"), DECILES)


def train(task: Task, shared: Mapping[str, Any]) -> dict[str, Any]:
    """Run one cell with one seed.

    Parameters
    ----------
    task
        Its cell has ``setup`` (arguments of the trainer's setup), ``schedule`` and ``engine``.
    shared
        ``data``: arrays ``users``, ``items``, ``labels``, ``train``, ``test`` and the sizes ``n_users``, ``n_items``;
        ``out``: the folder of the study, where the run of the first seed is recorded.

    Returns
    -------
    dict
        ``x`` (points, 0 is the initialization), ``curves`` (loss, test loss, accuracy, AUC, the four measures of both
        tables together, ``users.d01.gini_index`` … of each decile of rating counts, and those of
        :func:`kernel_measures`) and ``seconds``.
    """
    if task.seed != RECORDED_SEED:
        return _trained(task, shared["data"])
    with Recorder(task, Path(shared["out"]), shared["data"]) as recorder:
        return _trained(task, shared["data"], recorder.add)


def _trained(task: Task, data: Mapping[str, Any], record: Record | None = None) -> dict[str, Any]:
    began = time.perf_counter()
    settings = task.cell.settings
    setup = Setup(n_users=data["n_users"], n_items=data["n_items"], seed=task.seed, **settings["setup"])
    trainer = FactorizationTrainer(setup, engine=settings["engine"])
    part = {name: data[name][data["train"]] for name in ("users", "items", "labels")}
    held_out = [data[name][data["test"]] for name in ("users", "items", "labels")]
    groups = {
        "users": deciles_of(np.bincount(part["users"], minlength=data["n_users"])),
        "items": deciles_of(np.bincount(part["items"], minlength=data["n_items"])),
    }
    points = []
    for loss in _schedule(trainer, list(part.values()), settings["schedule"]):
        scores = trainer.evaluate(*held_out)
        told = {"loss": loss, "test_loss": scores["loss"], "accuracy": scores["accuracy"], "auc": scores["auc"]}
        measured = {**article_measures(both(trainer)), **kernel_measures(trainer)}
        points.append({**told, **measured, **_by_decile(trainer, groups)})
        if record is not None:
            record(trainer, points[-1])
    curves = {name: [point[name] for point in points] for name in points[0]}
    return {"x": list(range(len(points))), "curves": curves, "seconds": round(time.perf_counter() - began, 3)}


def kernel_measures(trainer: Any) -> dict[str, float]:
    """Of the dense layer, whose halves every gradient of a row is a multiple of; empty with the dot head.

    Returns
    -------
    dict
        ``kernel.gini_index``: Gini index of each half, averaged over the rows it serves. ``kernel.alignment``: mean
        absolute cosine of a row with its half, from 0 to 1.
    """
    if not trainer.kernel.size:
        return {}
    dim = trainer.setup.dim
    unequal = cosine = 0.0
    for E, half in ((trainer.users, trainer.kernel[:dim]), (trainer.items, trainer.kernel[dim:])):
        unequal += len(E) * float(gini_index(half, mode="article"))
        lengths = np.linalg.norm(E, axis=1) * np.linalg.norm(half) + 1e-12
        cosine += float((np.abs(E @ half) / lengths).sum())
    n_rows = len(trainer.users) + len(trainer.items)
    return {"kernel.gini_index": unequal / n_rows, "kernel.alignment": cosine / n_rows}


def both(trainer: Any) -> Array:
    """The users' rows, then the items'."""
    return np.concatenate([trainer.users, trainer.items])


def _schedule(trainer: Any, columns: list[Array], schedule: Mapping[str, Any]) -> Iterator[float | None]:
    """The running mean of the training loss at each point; None where there is none."""
    yield None
    if "steps_a_point" in schedule:
        yield from _by_steps(trainer, columns, schedule)
        return
    for _ in range(schedule["points"]):
        loss = None
        for _ in range(schedule["epochs_a_point"]):
            loss = trainer.fit_epoch(*columns)
        yield loss


class _PauseError(Exception):
    """Ends an epoch after some steps; the next call goes on from there."""


def _by_steps(trainer: Any, columns: list[Array], schedule: Mapping[str, Any]) -> Iterator[None]:
    every = schedule["steps_a_point"]
    reached = 0

    def pause(trainer: Any) -> None:
        if trainer.steps >= reached:
            raise _PauseError

    for _ in range(schedule["points"]):
        reached += every
        while trainer.steps < reached:
            with contextlib.suppress(_PauseError):
                trainer.fit_epoch(*columns, every=reached - trainer.steps, on_steps=pause)
        yield None


def _by_decile(trainer: Any, groups: Mapping[str, list[Array]]) -> dict[str, float]:
    found = {}
    for table, parts in groups.items():
        E = getattr(trainer, table)
        rows = _rows(E)
        for number, part in enumerate(parts, 1):
            lead = f"{table}.d{number:02d}"
            found |= {f"{lead}.{name}": float(values[part].mean()) for name, values in rows.items()}
            found[f"{lead}.spectral_entropy"] = _spectral(E[part])
    return found
