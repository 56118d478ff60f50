"""The cells of the study: the article's grid, and what is varied past it to find causes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fullspan.studies.base.grid import Cell, grid

__all__ = ["BATCH_SIZES", "BEYOND_SEEDS", "OPTIMIZERS", "POINTS", "Options", "article_cells", "cause_cells", "variants"]

OPTIMIZERS = ("sgd", "adam")
BATCH_SIZES = (1, 8, 16, 32)
#: Points of a curve past the article, as many as its epochs.
POINTS = 20
#: Seeds of the cells past the article, at most.
BEYOND_SEEDS = 5

#: Seconds on one core: a row of an epoch, a step, and a parameter a step of optimizers with dense state.
_ROW = 3e-7
_STEP = {"numba": 3e-7, "torch": 2.5e-4}
_DENSE = {"adam": 6e-10, "adamw": 8e-10, "momentum": 2.4e-10}
#: A step of Adam at a batch size that touches few rows, which makes up for the others later.
_LAZY = 3.5e-6
_POINT = 0.03


@dataclass(frozen=True)
class Options:
    """What is asked of the study.

    Parameters
    ----------
    seeds
        Seeds 0 … seeds - 1 of every cell of the article's grid.
    epochs
        Epochs of that grid; 20 in the article.
    dim, head
        Width of the tables, and ``"concat"`` (the article's code) or ``"dot"`` (its text).
    name, folder
        The set of ratings, and where it lies, as :func:`fullspan.datasets.movielens.load_movielens` takes them.
    beyond, beyond_seeds
        Also run what is past the article, with at most these many seeds.
    engine
        Of the trainer: ``"numba"`` or ``"torch"``.
    """

    seeds: int = 10
    epochs: int = 20
    dim: int = 8
    head: str = "concat"
    name: str = "100k"
    folder: str | None = None
    beyond: bool = False
    beyond_seeds: int = BEYOND_SEEDS
    engine: str = "numba"


def article_cells(options: Options, n_rows: int, n_vectors: int) -> list[Cell]:
    """Optimizers × batch sizes."""
    return [
        _cell("article", f"{each['optimizer']}-b{each['batch_size']}", each, options, n_rows, n_vectors)
        for each in grid({"optimizer": OPTIMIZERS, "batch_size": BATCH_SIZES})
    ]


def variants(options: Options) -> list[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Group, name, setup and schedule of the cells past the article."""
    found: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = []
    for b in (1, 8, 32):
        found += [
            ("momentum", f"sgd-momentum-b{b}", {"optimizer": "sgd", "momentum": 0.9, "batch_size": b}, {}),
            (
                "momentum",
                f"sgd-momentum-slow-b{b}",
                {"optimizer": "sgd", "momentum": 0.9, "learning_rate": 0.001, "batch_size": b},
                {},
            ),
            ("momentum", f"adam-no-momentum-b{b}", {"optimizer": "adam", "beta_1": 0.0, "batch_size": b}, {}),
            ("optimizer", f"adamw-b{b}", {"optimizer": "adamw", "batch_size": b}, {}),
            ("optimizer", f"adagrad-b{b}", {"optimizer": "adagrad", "batch_size": b}, {}),
        ]
    for dim in (4, 16, 32, 64):
        for optimizer in OPTIMIZERS:
            for b in (8, 32):
                setup = {"optimizer": optimizer, "batch_size": b, "dim": dim}
                found.append(("dim", f"{optimizer}-dim{dim}-b{b}", setup, {}))
    other = "dot" if options.head == "concat" else "concat"
    for optimizer in OPTIMIZERS:
        for b in (1, 8, 32):
            setup = {"optimizer": optimizer, "batch_size": b, "head": other}
            found.append(("head", f"{optimizer}-{other}-b{b}", setup, {}))
    return found + _updates() + _rates()


def _updates() -> list[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Equal numbers of updates: small batches stopped at those of batch 32, large ones given those of batch 1."""
    found = []
    for optimizer in OPTIMIZERS:
        for b in (1, 8):
            setup = {"optimizer": optimizer, "batch_size": b}
            found.append(("updates", f"{optimizer}-b{b}-as-many-updates-as-b32", setup, {"updates_of": 32}))
        for b in (8, 32):
            setup = {"optimizer": optimizer, "batch_size": b}
            found.append(("updates", f"{optimizer}-b{b}-as-many-updates-as-b1", setup, {"epochs_a_point": b}))
    return found


def _rates() -> list[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Equal learning rate over batch size: large batches at the ratio of batch 1, batch 1 at that of batch 32."""
    found = []
    for optimizer, rate in (("sgd", 0.01), ("adam", 0.001)):
        for b in (8, 32):
            setup = {"optimizer": optimizer, "batch_size": b, "learning_rate": rate * b}
            found.append(("rate", f"{optimizer}-b{b}-rate-over-batch-of-b1", setup, {}))
        setup = {"optimizer": optimizer, "batch_size": 1, "learning_rate": rate / 32}
        found.append(("rate", f"{optimizer}-b1-rate-over-batch-of-b32", setup, {}))
    return found


def cause_cells(options: Options, n_rows: int, n_vectors: int) -> list[Cell]:
    """What is varied past the article, group by group."""
    groups = list(dict.fromkeys(group for group, *_ in variants(options)))
    return [
        _cell(group, name, setup, options, n_rows, n_vectors, **schedule)
        for group, name, setup, schedule in sorted(variants(options), key=lambda each: groups.index(each[0]))
    ]


def _cell(
    part: str,
    name: str,
    setup: dict[str, Any],
    options: Options,
    n_rows: int,
    n_vectors: int,
    epochs_a_point: int = 1,
    updates_of: int | None = None,
) -> Cell:
    """A cell with its schedule: a point after each `epochs_a_point` epochs, or after as many updates as an epoch of
    batch size `updates_of` has."""
    whole = {"dim": options.dim, "head": options.head, **setup}
    schedule: dict[str, Any] = {"points": options.epochs, "epochs_a_point": epochs_a_point}
    rows = n_rows * options.epochs * epochs_a_point
    if updates_of is not None:
        schedule = {"points": options.epochs, "steps_a_point": -(-n_rows // updates_of)}
        rows = schedule["points"] * schedule["steps_a_point"] * setup["batch_size"]
    settings = {"setup": whole, "schedule": schedule, "engine": options.engine}
    return Cell(name, settings, part, _seconds(whole, rows, n_vectors, options))


def _seconds(setup: dict[str, Any], rows: int, n_vectors: int, options: Options) -> float:
    """Expected seconds of one run on one core."""
    steps = rows / setup["batch_size"]
    kind = "momentum" if setup.get("momentum") else setup["optimizer"]
    dense = 0.0 if options.engine == "torch" else _DENSE.get(kind, 0.0) * n_vectors * setup["dim"]
    if kind == "adam" and setup["batch_size"] == 1:
        dense = min(dense, _LAZY * setup["dim"] / 8)
    return rows * _ROW * (1 + setup["dim"] / 32) + steps * (_STEP[options.engine] + dense) + options.epochs * _POINT
