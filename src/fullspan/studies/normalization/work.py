"""One run of the study: a model under a strategy at all rates, or the probes of one seed."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.studies.base.grid import Task
from fullspan.studies.normalization.strategies import FIXED, fitted

__all__ = ["CLASSES", "TARGET", "drawn", "pooled", "run_cell"]

#: Classes that a seed draws, and texts of each at most.
CLASSES, TEXTS = 20, 120
#: The loss to be reached on validation rows, as a share of that of a blind guess, ln(classes).
TARGET = 0.6


def drawn(data: Mapping[str, Any], seed: int) -> dict[str, tuple[Array, Array]]:
    """Tokens and labels of ``train`` (60%), ``validation`` and ``test`` (20% each) from the classes of a seed."""
    rng = np.random.default_rng(seed)
    counts = np.bincount(data["labels"])
    eligible = np.flatnonzero(counts >= 20)
    classes = rng.choice(eligible, min(CLASSES, len(eligible)), replace=False)
    rows = [rng.permutation(np.flatnonzero(data["labels"] == each))[:TEXTS] for each in classes]
    labels = np.repeat(np.arange(len(classes)), [len(each) for each in rows])
    order = rng.permutation(len(labels))
    rows, labels = np.concatenate(rows)[order], labels[order]
    first, second = int(0.6 * len(rows)), int(0.8 * len(rows))
    cuts = {"train": slice(first), "validation": slice(first, second), "test": slice(second, None)}
    return {name: (data["tokens"][rows[cut]], labels[cut]) for name, cut in cuts.items()}


def pooled(table: Array, tokens: Array) -> Array:
    """Mean vector of the words of each text."""
    there = tokens >= 0
    return ((table[tokens] * there[..., None]).sum(1) / there.sum(1)[:, None]).astype(np.float32)


def run_cell(task: Task, shared: Mapping[str, Any]) -> dict[str, Any]:
    """A cell with ``model``, ``strategy`` and ``optimizer``, or with ``probes``.

    Returns
    -------
    dict
        For a model ``x`` holds the base-2 logarithms of the rates, and every curve has a value a rate: ``reach``
        (steps to the target, twice the budget where it is not reached), ``final`` (loss of validation at the end),
        ``validation`` and ``test`` (accuracies), ``rough`` (of the training loss), ``usable`` (1 where the loss ended
        below that of a blind guess). For probes there is one point.
    """
    import torch

    began = time.perf_counter()
    torch.set_num_threads(1)
    with np.errstate(all="ignore"):
        if task.cell.settings.get("probes"):
            from fullspan.studies.normalization.probes import probes

            x, curves = [0.0], {name: [value] for name, value in probes(shared["data"], task.seed).items()}
        else:
            x, curves = _model(task.cell.settings, shared["data"], task.seed)
    plain = {name: [_plain(value) for value in values] for name, values in curves.items()}
    return {"x": x, "curves": plain, "seconds": round(time.perf_counter() - began, 3)}


def _plain(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _model(settings: Mapping[str, Any], data: Mapping[str, Any], seed: int) -> tuple[list[float], dict[str, Any]]:
    from fullspan.studies.normalization.training import BUDGET, Net, fit, rates_of

    model, strategy, optimizer = settings["model"], settings["strategy"], settings["optimizer"]
    layer = "batch-norm" if strategy == "batch-norm" else "none"
    change = strategy if strategy in FIXED else "none"
    parts, classes = _inputs(data, seed, model == "transformer", change)
    rates = rates_of(model, optimizer)
    net = Net(model, parts["train"][0].shape[-1], classes, len(rates), layer, seed)
    found = fit(net, parts, optimizer, seed, settings.get("budget", BUDGET))
    budget, floor = found["steps"][-1], math.log(classes)
    below = found["loss"] <= TARGET * floor
    steps = np.array(found["steps"])
    reach = np.where(below.any(0), steps[below.argmax(0)], 2 * budget)
    final = np.where(np.isfinite(found["loss"][-1]), found["loss"][-1], 1e9)
    curves = {
        "reach": reach,
        "final": final,
        "validation": found["accuracy"][-1],
        "test": found["test"],
        "rough": np.where(np.isfinite(found["rough"]), found["rough"], 1e9),
        "usable": (final < floor).astype(float),
    }
    if model == "linear":
        spread = parts["train"][0].std(0)[:, None] * np.abs(net.weights["out"].detach().numpy())
        shares = np.linalg.norm(np.nan_to_num(spread, posinf=0.0), axis=2)
        curves["uneven"] = [_gini(row) for row in shares]
    return [math.log2(rate) for rate in rates], curves


def _gini(values: Array) -> float:
    total = float(values.sum())
    if not total > 0:
        return 0.0
    order = np.sort(values)
    n = len(order)
    return float((2 * np.arange(1, n + 1) - n - 1) @ order / (n * total))


def _inputs(data: Mapping[str, Any], seed: int, words: bool, change: str) -> tuple[dict[str, Any], int]:
    """Vectors, mask and labels of each part; the strategy is fitted on what the model sees of the training texts."""
    parts, table = drawn(data, seed), data["table"]
    tokens = parts["train"][0]
    if words:
        seen = np.unique(tokens[tokens >= 0])
        changed = fitted(change, table[seen])(table)
        made = {
            name: (changed[t] * (t >= 0)[..., None].astype(np.float32), t >= 0, y) for name, (t, y) in parts.items()
        }
    else:
        apply = fitted(change, pooled(table, tokens))
        made = {name: (apply(pooled(table, t)), None, y) for name, (t, y) in parts.items()}
    return made, int(max(y.max() for _, y in parts.values())) + 1
