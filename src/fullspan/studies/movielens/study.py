"""The study as a whole: its data, its cells, what is concluded from them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from fullspan import _extras
from fullspan.datasets.movielens import Ratings, load_movielens, split
from fullspan.studies.base.execution import Work
from fullspan.studies.base.grid import Cell, Task
from fullspan.studies.base.result import CellCurves
from fullspan.studies.base.statistics import interval
from fullspan.studies.base.study import Conclusion, Data, Table
from fullspan.studies.movielens.causes import cause_claims, decile_changes, effects
from fullspan.studies.movielens.claims import article_claims
from fullspan.studies.movielens.figures import article_figures, cause_figures
from fullspan.studies.movielens.grid import Options, article_cells, cause_cells
from fullspan.studies.movielens.record import RECORDED_SEED, is_recorded
from fullspan.studies.movielens.work import DECILES, MEASURES, SCORES, train

__all__ = ["MovieLensStudy", "engine", "shared_data"]

#: A rating of at least this is a liked one.
LIKED = 4.0
SPLIT_SEED, TEST_SIZE = 42, 0.2
_ORDER = "rows in the order of the file, then train_test_split(test_size=0.2, random_state=42)"


def shared_data(ratings: Ratings, name: str) -> Data:
    """What the runs share, with the order of rows recorded.

    Parameters
    ----------
    ratings
        In the order of the file.
    name
        Of the set.
    """
    train_rows, test_rows = split(len(ratings), TEST_SIZE, SPLIT_SEED)
    shared = {
        "name": name,
        "users": np.asarray(ratings.users),
        "items": np.asarray(ratings.items),
        "labels": ratings.liked(LIKED),
        "train": train_rows,
        "test": test_rows,
        "n_users": ratings.n_users,
        "n_items": ratings.n_items,
    }
    described = {
        "name": name,
        "source": ratings.source,
        "file_sha256": ratings.sha256,
        "ratings": len(ratings),
        "users": ratings.n_users,
        "items": ratings.n_items,
        "liked_share": round(float(shared["labels"].mean()), 6),
        "row_order": _ORDER,
        "train_rows_sha256": _digest(train_rows),
        "first_train_rows": train_rows[:5].tolist(),
        "first_test_rows": test_rows[:5].tolist(),
    }
    return Data(shared, _digest(*(shared[key] for key in ("users", "items", "labels", "train", "test"))), described)


def engine() -> str:
    """The engine that the trainer would take here: part of the settings, since the two differ in the last digits.

    Raises
    ------
    MissingExtraError
        Neither numba nor torch is installed.
    """
    if find_spec("numba") is not None:
        return "numba"
    if find_spec("torch") is not None:
        return "torch"
    _extras.require("numba", "studies", "fullspan study movielens")
    raise AssertionError("require raises where a package is missing")


def _digest(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


class MovieLensStudy:
    """What :mod:`fullspan.studies.base.study` asks of a study."""

    name = "movielens"
    title = "What happens to embeddings during training: MovieLens"
    question = (
        "Two embedding tables learn who likes which movie, with SGD and Adam at batch sizes 1, 8, 16 and 32. How "
        "evenly do their rows use the dimensions, how does that change over the epochs, and do the article's "
        "takeaways hold?"
    )
    packages = ("numpy", "torch", "numba", "matplotlib")
    code = (
        "fullspan.measures.sparsity",
        "fullspan.measures.spectrum",
        "fullspan.studies.movielens.work",
        "fullspan.trainers.factorization",
        "fullspan.trainers.keras_rules",
        "fullspan.trainers.numba_engine",
        "fullspan.trainers.numba_kernel",
        "fullspan.trainers.scores",
        "fullspan.trainers.setup",
        "fullspan.trainers.torch_path",
    )

    def __init__(self) -> None:
        self._data: Data | None = None

    def data(self, options: Options) -> Data:
        self._data = shared_data(load_movielens(options.name, options.folder), options.name)
        return self._data

    def cells(self, options: Options) -> list[Cell]:
        data = (self._data or self.data(options)).shared
        sizes = len(data["train"]), data["n_users"] + data["n_items"]
        return article_cells(options, *sizes) + (cause_cells(options, *sizes) if options.beyond else [])

    def seeds(self, options: Options, cell: Cell) -> Sequence[int]:
        return range(options.seeds if cell.part == "article" else min(options.seeds, options.beyond_seeds))

    def work(self) -> Work:
        return train

    def is_complete(self, task: Task, out: Any) -> bool:
        return task.seed != RECORDED_SEED or is_recorded(task, out)

    def conclude(self, cells: Mapping[str, CellCurves], options: Options) -> Conclusion:
        article = {name: curves for name, curves in cells.items() if curves.cell.part == "article"}
        return Conclusion(
            claims=article_claims(article) + cause_claims(cells),
            figures=article_figures(cells) + cause_figures(cells),
            tables=(_epochs(article), _deciles(article)),
            effects=effects(cells),
            notes=_notes(options),
            extra={"measures": list(MEASURES), "resolution": 1e-4},
        )


def _notes(options: Options) -> tuple[str, ...]:
    notes = [
        (
            "The article's ratings came from another loader, in another order of rows: its split, and so its numbers, "
            "differ from these. Directions are comparable, fourth decimals are not."
        ),
        "The four measures are those of the article's code, on the users' and the items' rows together.",
        (
            "A change is a Theil–Sen slope over the epochs times the epochs between: a curve that falls and then rises "
            "may have none."
        ),
        "Intervals are over seeds of the initialization and of the order of rows; the split is the same in all runs.",
    ]
    if options.head == "dot":
        notes.append("The head is the dot product that the article's text speaks of; its code has a dense layer.")
    if options.seeds < 2:
        notes.append("One seed has no interval over seeds: every claim about a direction is undecided.")
    return tuple(notes)


def _epochs(cells: Mapping[str, CellCurves]) -> Table:
    """The article's numbers, four decimals, a row a cell, seed and epoch."""
    names = (*SCORES, *MEASURES)
    rows = []
    for curves in cells.values():
        setup = curves.cell.settings["setup"]
        for index, seed in enumerate(curves.seeds):
            for epoch in range(1, len(curves.x)):
                values = [f"{round(float(curves[name][index, epoch]), 4):.4f}" for name in names]
                rows.append((setup["optimizer"], str(setup["batch_size"]), str(seed), str(epoch), *values))
    columns = ("optimizer", "batch size", "seed", "epoch", *(name.replace("_", " ") for name in names))
    return Table("epochs", "Losses and measures of every epoch", columns, tuple(rows))


def _deciles(cells: Mapping[str, CellCurves]) -> Table:
    """Changes by decile of rating count."""
    rows = []
    for name, curves in cells.items():
        for table in ("users", "items"):
            for measure in MEASURES:
                for number, values in enumerate(decile_changes(curves, table, measure).T, 1):
                    found = interval(values.tolist())
                    ends = ["" if end is None else f"{end:+.4f}" for end in (found.low, found.high)]
                    rows.append((name, table, str(number), measure, f"{found.mean:+.4f}", *ends))
    columns = ("cell", "table", f"decile of {DECILES}", "measure", "change", "low", "high")
    return Table("deciles", "Changes by decile of rating count, rarest first", columns, tuple(rows))
