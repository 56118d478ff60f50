"""The outcome of a study: curves over seeds, claims, effects, provenance; and its JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UnknownNameError
from fullspan.jobs.formats.write import write_output
from fullspan.studies.base.claims import Claim
from fullspan.studies.base.grid import Cell
from fullspan.studies.base.statistics import theil_sen

__all__ = ["SCHEMA", "CellCurves", "StudyResult", "gather", "load_result"]

#: Name and version of the JSON: the version rises when a reader of the old one would misread the new one.
SCHEMA = "fullspan.study/1"


@dataclass(frozen=True)
class CellCurves:
    """What the seeds of one cell gave.

    Parameters
    ----------
    cell
        Its name, settings and part.
    seeds
        The seeds, in order.
    x
        ``(n_points,)`` places of the points: epochs.
    curves
        Measure to ``(n_seeds, n_points)`` values, NaN where one is undefined. Those of parts of a table, such as
        ``"users.d01.gini_index"``, stay in the files of the cells and are left out of the JSON of the study.
    seconds
        What each seed took.
    """

    cell: Cell
    seeds: tuple[int, ...]
    x: Array
    curves: Mapping[str, Array]
    seconds: tuple[float, ...] = ()

    def __getitem__(self, measure: str) -> Array:
        if measure not in self.curves:
            raise UnknownNameError(
                f"{self.cell.name} has no curve named {measure!r}. It has {', '.join(self.curves) or 'none'}."
            )
        return self.curves[measure]

    def changes(self, measure: str, first: float = 1, last: float | None = None) -> list[float]:
        """Theil–Sen slope over the points from `first` to `last`, times the distance between them, a seed."""
        last = float(self.x[-1]) if last is None else last
        inside = (self.x >= first) & (self.x <= last)
        x = self.x[inside]
        return [theil_sen(x, row[inside]) * float(x[-1] - x[0]) for row in self[measure]]

    def to_dict(self) -> dict[str, Any]:
        return {
            "cell": self.cell.name,
            "part": self.cell.part,
            "settings": dict(self.cell.settings),
            "seeds": list(self.seeds),
            "seconds": list(self.seconds),
            "x": self.x.tolist(),
            "curves": {name: _plain(values) for name, values in self.curves.items() if name.count(".") < 2},
        }


def _plain(values: Array) -> Any:
    """Lists with None for NaN, which JSON does not know."""
    return [_plain(row) for row in values] if values.ndim > 1 else [None if v != v else v for v in values.tolist()]


def gather(
    cells: Sequence[Cell], seeds: Sequence[int], results: Mapping[tuple[str, int], Mapping[str, Any]]
) -> dict[str, CellCurves]:
    """The curves of each cell that has all its seeds.

    Parameters
    ----------
    cells, seeds
        What was run.
    results
        Cell name and seed to ``{"x": [...], "curves": {measure: [...]}, "seconds": float}``.
    """
    found = {}
    for cell in cells:
        mine = [results[cell.name, seed] for seed in seeds if (cell.name, seed) in results]
        if len(mine) != len(seeds):
            continue
        curves = {
            name: np.array([each["curves"][name] for each in mine], dtype=np.float64) for name in mine[0]["curves"]
        }
        took = tuple(float(each.get("seconds", 0.0)) for each in mine)
        found[cell.name] = CellCurves(cell, tuple(seeds), np.array(mine[0]["x"], dtype=np.float64), curves, took)
    return found


@dataclass(frozen=True)
class StudyResult:
    """All that a study found.

    Parameters
    ----------
    study, title, question
        Its name, and what it is about.
    options
        What was asked for, as plain values.
    provenance
        What it was made with.
    cells
        Name of each cell to its curves.
    claims
        The claims of the source, answered.
    effects
        What was varied beyond the source, and what that did: plain rows.
    notes
        Plain sentences that a reader must know.
    """

    study: str
    title: str
    question: str
    options: Mapping[str, Any]
    provenance: Mapping[str, Any]
    cells: Mapping[str, CellCurves]
    claims: tuple[Claim, ...] = ()
    effects: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "study": self.study,
            "title": self.title,
            "question": self.question,
            "options": dict(self.options),
            "provenance": dict(self.provenance),
            "claims": [claim.to_dict() for claim in self.claims],
            "effects": [dict(row) for row in self.effects],
            "notes": list(self.notes),
            "extra": dict(self.extra),
            "cells": [each.to_dict() for each in self.cells.values()],
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), allow_nan=False)

    def write(self, path: str | Path) -> None:
        """Write the JSON, whole or not at all."""
        write_output(self.to_json() + "\n", path)


def load_result(path: str | Path) -> dict[str, Any]:
    """The plain values of a result that was written before.

    Raises
    ------
    InputError
        If the file is no result of a study, or of a newer version.
    """
    try:
        plain = json.loads(Path(path).read_text(encoding="utf-8"))
        schema = plain["schema"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"load_result needs the result.json of a study; got {str(path)!r} ({type(error).__name__})."
        ) from error
    if schema != SCHEMA:
        raise InputError(f"load_result needs the schema {SCHEMA}; got {schema!r}. Was it written by another version?")
    return plain
