"""A study from its plan to its files: cells, runs, claims, figures, one JSON and one page."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from fullspan.errors import InputError
from fullspan.jobs.formats.write import write_output
from fullspan.studies.base import execution, figures
from fullspan.studies.base.claims import Claim
from fullspan.studies.base.execution import Told
from fullspan.studies.base.grid import Cell, Task, tasks_of
from fullspan.studies.base.page import render_study
from fullspan.studies.base.provenance import code_hash, provenance
from fullspan.studies.base.result import CellCurves, StudyResult, gather

__all__ = ["Conclusion", "Data", "Figure", "Plan", "Study", "Table", "plan", "run"]


@dataclass(frozen=True)
class Data:
    """What all runs of a study share: plain arrays, their hash, and where they came from."""

    shared: Any
    sha256: str
    described: Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """A matplotlib figure with its file name, its caption, and what one sees on it."""

    name: str
    caption: str
    alt: str
    drawn: Any


@dataclass(frozen=True)
class Table:
    """Rows of text under a title; also written as ``<name>.csv``."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Conclusion:
    """What a study makes of its curves."""

    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    effects: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


class Study(Protocol):
    """What a study says of itself.

    Attributes
    ----------
    name, title, question
        For people; `name` is also its command.
    packages
        Distributions whose versions go into the provenance.
    code
        Modules that its stored results depend on.
    """

    name: str
    title: str
    question: str
    packages: Sequence[str]
    code: Sequence[str]

    def cells(self, options: Any) -> list[Cell]:
        """The cells that the options ask for."""
        ...

    def seeds(self, options: Any, cell: Cell) -> Sequence[int]:
        """The seeds of a cell."""
        ...

    def data(self, options: Any) -> Data:
        """Load what the runs share."""
        ...

    def work(self) -> execution.Work:
        """The function that makes one run; it is found by its name in other processes."""
        ...

    def is_complete(self, task: Task, out: Path) -> bool:
        """Whether what a run leaves beside its result is there."""
        ...

    def conclude(self, cells: Mapping[str, CellCurves], options: Any) -> Conclusion:
        """Answer the claims, and draw."""
        ...


@dataclass(frozen=True)
class Plan:
    """What a study is going to run.

    Parameters
    ----------
    tasks, left
        All runs, and those without a stored result, the dearest first.
    seconds
        Expected seconds of work of what is left, on one core.
    """

    tasks: tuple[Task, ...]
    left: tuple[Task, ...]
    seconds: float

    def minutes(self, jobs: int) -> float:
        """Expected minutes on the wall with this number of processes, each on a core of its own."""
        longest = max((task.cell.cost for task in self.left), default=0.0)
        return max(self.seconds / max(jobs, 1), longest) / 60


def plan(study: Study, options: Any, data: Data, out: Path) -> Plan:
    """The runs of a study, and which of them are still to be made.

    Parameters
    ----------
    study, options, data
        What is studied.
    out
        The folder of the study: results of runs lie in its ``cells``.
    """
    code = code_hash(study.code)
    tasks = [
        task
        for cell in study.cells(options)
        for task in tasks_of([cell], study.seeds(options, cell), data.sha256, code)
    ]
    names = [(task.cell.name, task.seed) for task in tasks]
    if len(set(names)) < len(names):
        raise InputError(f"{study.name} needs one name a cell; got some twice.")
    left = execution.missing(tasks, out / "cells", lambda task: study.is_complete(task, out))
    return Plan(tuple(tasks), tuple(left), sum(task.cell.cost for task in left))


def run(
    study: Study,
    options: Any,
    out: Path,
    *,
    jobs: int = 1,
    data: Data | None = None,
    told: Told | None = None,
    command: str | None = None,
) -> StudyResult:
    """Run what is left of a study, and write its results.

    Parameters
    ----------
    study, options
        What is studied.
    out
        Folder for ``result.json``, ``result.html``, ``figures/``, ``cells/`` and tables; made if missing.
    jobs
        Parallel processes.
    data
        What `study.data` gave, where it was called already.
    told
        Called after each run with its task and the seconds it took.
    command
        The command, for the provenance.

    Returns
    -------
    StudyResult

    Raises
    ------
    StudyStoppedError, StudyFailedError
        Interrupted, or a run failed; what had ended is kept, and the same call goes on from there.
    """
    began = time.perf_counter()
    out = Path(out)
    data = study.data(options) if data is None else data
    planned = plan(study, options, data, out)
    shared = {"data": data.shared, "out": str(out)}
    results = execution.run_tasks(
        planned.tasks,
        study.work(),
        shared,
        out / "cells",
        jobs=jobs,
        told=told,
        complete=lambda task: study.is_complete(task, out),
    )
    cells = _gathered(planned.tasks, results)
    made_with = provenance(
        study.packages, data={"sha256": data.sha256, **data.described}, code=code_hash(study.code), command=command
    )
    concluded = study.conclude(cells, options)
    made_with["run"] = {
        "jobs": jobs,
        "runs": len(planned.tasks),
        "run_now": len(planned.left),
        "wall_seconds": round(time.perf_counter() - began, 1),
        "run_seconds": round(sum(sum(each.seconds) for each in cells.values()), 1),
    }
    result = StudyResult(
        study.name, study.title, study.question, _plain(options), made_with, cells,
        concluded.claims, concluded.effects, concluded.notes, concluded.extra,
    )  # fmt: skip
    return _write(result, concluded, out)


def _plain(options: Any) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()}


def _gathered(tasks: Sequence[Task], results: Mapping[tuple[str, int], Any]) -> dict[str, CellCurves]:
    seeds: dict[str, list[int]] = {}
    cells: dict[str, Cell] = {}
    for task in tasks:
        cells[task.cell.name] = task.cell
        seeds.setdefault(task.cell.name, []).append(task.seed)
    found: dict[str, CellCurves] = {}
    for name, cell in cells.items():
        found |= gather([cell], seeds[name], results)
    return found


def _write(result: StudyResult, concluded: Conclusion, out: Path) -> StudyResult:
    drawn = [(each, figures.save(each.drawn, out / "figures" / each.name)) for each in concluded.figures]
    for table in concluded.tables:
        write_output(_csv(table), out / f"{table.name}.csv")
    result = replace(result, extra={**result.extra, "figures": [f"figures/{each.name}.svg" for each, _ in drawn]})
    result.write(out / "result.json")
    write_output(render_study(result, drawn, concluded.tables), out / "result.html")
    return result


def _csv(table: Table) -> str:
    held = io.StringIO()
    writer = csv.writer(held, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return held.getvalue()
