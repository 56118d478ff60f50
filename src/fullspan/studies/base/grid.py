"""Cells of a study: every combination of its factors, and each of them once a seed."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fullspan.errors import InputError

__all__ = ["Cell", "Task", "grid", "key_of", "tasks_of"]

_SLUG = re.compile(r"[a-z0-9][a-z0-9.=_-]*")


@dataclass(frozen=True)
class Cell:
    """One setting of an experiment, run once a seed.

    Parameters
    ----------
    name
        Short name, also of its files: lower-case letters, digits and ``-_.=``.
    settings
        All that decides its outcome beside the seed, the data and the code, as plain JSON values.
    part
        The part of the study it belongs to, such as ``"article"``.
    cost
        How long it takes relative to the other cells of the study: the dearest are started first.
    """

    name: str
    settings: Mapping[str, Any] = field(hash=False)
    part: str = ""
    cost: float = 1.0

    def __post_init__(self) -> None:
        if not _SLUG.fullmatch(self.name):
            raise InputError(
                f"Cell needs a name of lower-case letters, digits and -_.=; got {self.name!r}. It also names files."
            )


@dataclass(frozen=True)
class Task:
    """One cell with one seed: the unit that is run, stored and resumed.

    Parameters
    ----------
    cell, seed
        What is run.
    key
        Hash of the settings, the seed, the data and the code: a stored result with another key is not this one.
    """

    cell: Cell
    seed: int
    key: str

    @property
    def file_name(self) -> str:
        return f"{self.cell.name}--seed-{self.seed}--{self.key[:12]}.json"


def grid(factors: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of the factors, the last one varying fastest.

    Parameters
    ----------
    factors
        Name of each factor to its levels.

    Returns
    -------
    list of dict
        One mapping of factor to level a combination.

    Raises
    ------
    InputError
        A factor without levels.

    Examples
    --------
    >>> grid({"optimizer": ["sgd", "adam"], "batch_size": [1, 8]})[1]
    {'optimizer': 'sgd', 'batch_size': 8}
    """
    empty = [name for name, levels in factors.items() if not len(levels)]
    if empty:
        raise InputError(f"grid needs at least one level a factor; got none for {', '.join(empty)}.")
    return [dict(zip(factors, levels, strict=True)) for levels in itertools.product(*factors.values())]


def key_of(*parts: Any) -> str:
    """SHA-256 of plain values, independent of the order of the keys of mappings.

    Examples
    --------
    >>> key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    True
    """
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def tasks_of(cells: Iterable[Cell], seeds: Iterable[int], data: str, code: str) -> list[Task]:
    """Every cell with every seed, in the order of the cells.

    Parameters
    ----------
    cells, seeds
        What to run.
    data, code
        Hashes of the data and of the code that make the results.

    Raises
    ------
    InputError
        Two cells of one name.
    """
    cells, seeds = list(cells), list(seeds)
    names = [cell.name for cell in cells]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"tasks_of needs one name a cell; got {', '.join(twice)} more than once.")
    return [Task(cell, seed, key_of(dict(cell.settings), seed, data, code)) for cell in cells for seed in seeds]
