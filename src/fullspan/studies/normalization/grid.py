"""Cells: models × strategies at all rates of a grid, Adam for contrast, and the probes."""

from __future__ import annotations

from dataclasses import dataclass

from fullspan.studies.base.grid import Cell
from fullspan.studies.normalization.strategies import FIXED

__all__ = ["MODELS", "STRATEGIES", "Options", "cells_of"]

MODELS = ("linear", "mlp", "transformer")
STRATEGIES = (*FIXED, "batch-norm")
_SECONDS = {"linear": 0.3, "mlp": 0.5, "transformer": 2.0}


@dataclass(frozen=True)
class Options:
    """What is asked of the study.

    Parameters
    ----------
    seeds
        Seeds 0 … seeds - 1: classes, split, initialization, order of rows.
    budget
        Steps of a run.
    folder
        Folder with ``banking77/train.csv``.
    """

    seeds: int = 10
    budget: int = 300
    folder: str | None = None


def cells_of(options: Options, task: str) -> list[Cell]:
    """All cells; words by themselves have nothing to attend to, so there is no transformer for them."""
    models = MODELS if task == "banking77" else MODELS[:2]
    found = [
        Cell(
            f"{model}-{strategy}",
            {"model": model, "strategy": strategy, "optimizer": "sgd", "budget": options.budget},
            "sgd",
            _SECONDS[model] * options.budget / 300,
        )
        for model in models
        for strategy in STRATEGIES
    ]
    found += [
        Cell(
            f"{model}-{strategy}-adam",
            {"model": model, "strategy": strategy, "optimizer": "adam", "budget": options.budget},
            "adam",
            _SECONDS[model] * options.budget / 300,
        )
        for model in models[:2]
        for strategy in ("none", "standardize", "whiten", "batch-norm")
    ]
    return [*found, Cell("probes", {"probes": True}, "probes", 9.0)]
