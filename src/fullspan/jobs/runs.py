"""The runs in a folder at a glance, and two of them side by side."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from fullspan.errors import FullspanError, NothingEvaluatedError, UnknownNameError, did_you_mean
from fullspan.store.records import Point
from fullspan.store.runs import Run, find_runs

__all__ = ["Compared", "Reached", "RunComparison", "RunSummary", "chosen_points", "compare_runs", "list_runs"]

#: Scalars of a run that a catalog of measures does not know.
_BETTER = {"loss": "lower", "error": "lower", "perplexity": "lower", "accuracy": "higher", "auc": "higher"}
_BAD = ("fail", "warn")


@dataclass(frozen=True)
class RunSummary:
    """One run of a list.

    Parameters
    ----------
    path, name
        Its directory, and what it is called.
    status
        ``"running"``, ``"finished"``, ``"stopped"``, ``"failed"``, ``"died"``, or ``"unreadable"``; `why` then says
        what is wrong with it.
    created
        Seconds since 1970-01-01 UTC, or None.
    attempts
        How often it was begun or resumed.
    step, epoch
        The last ones with a point, or None.
    tables
        Names of its tables.
    loss, loss_why
        The last loss; None when there is none, or when it has no value: `loss_why` says why then.
    findings
        Severity to how many rules have fired so.
    """

    path: Path
    name: str
    status: str
    created: float | None = None
    attempts: int = 0
    step: int | None = None
    epoch: float | None = None
    tables: tuple[str, ...] = ()
    loss: float | None = None
    loss_why: str | None = None
    findings: dict[str, int] = field(default_factory=dict)
    why: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "path": str(self.path), "tables": list(self.tables)}


@dataclass(frozen=True)
class Reached:
    """A value, and the step it was read at."""

    value: float
    step: int


@dataclass(frozen=True)
class Compared:
    """One measure of one table in two runs; what a run does not have is None.

    Parameters
    ----------
    table, measure
        Names; the table of a scalar of the run itself is ``""``.
    better
        ``"higher"``, ``"lower"``, or None where neither is better: there is no best then.
    final, best, shared
        For both runs, the last value, the best one, and the one at the last step that both have (or at a chosen one).
    """

    table: str
    measure: str
    better: str | None
    final: tuple[Reached | None, Reached | None]
    best: tuple[Reached | None, Reached | None]
    shared: tuple[Reached | None, Reached | None]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with the difference of the second run from the first."""
        pairs = {name: getattr(self, name) for name in ("shared", "final", "best")}
        told = {
            name: {
                "values": [None if each is None else each.value for each in pair],
                "steps": [None if each is None else each.step for each in pair],
                "difference": difference(pair),
            }
            for name, pair in pairs.items()
        }
        return {"table": self.table, "measure": self.measure, "better": self.better, **told}


@dataclass(frozen=True)
class RunComparison:
    """Two runs side by side: `rows` has one entry a table and measure, in the order of the first run."""

    runs: tuple[RunSummary, RunSummary]
    rows: tuple[Compared, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"runs": [each.to_dict() for each in self.runs], "rows": [each.to_dict() for each in self.rows]}


def list_runs(root: str | os.PathLike[str]) -> list[RunSummary]:
    """What each run at and under `root` is and how far it came, sorted by path.

    Parameters
    ----------
    root
        A folder of runs, or a run itself.

    Returns
    -------
    list of RunSummary
        Damaged runs too, with the status ``"unreadable"``.

    Raises
    ------
    MissingFileError
        If `root` does not exist.

    Notes
    -----
    Takes a few milliseconds a run, however long it is.
    """
    return [summary_of(path) for path in find_runs(root)]


def summary_of(path: Path) -> RunSummary:
    """What one run is; what makes it unreadable is told, not raised."""
    try:
        with Run.open(path) as run:
            return _summary(run)
    except FullspanError as error:
        return RunSummary(path, path.name, "unreadable", why=str(error))


def _summary(run: Run) -> RunSummary:
    last = run.last_points()
    levels = [each.level for each in run.events()]
    loss = next((each for each in last if (each.table, each.measure) == ("", "loss")), None)
    return RunSummary(
        run.path,
        run.name,
        run.status,
        run.created,
        len(run.attempts),
        max((each.at.step for each in last), default=None),
        max((each.at.epoch for each in last if each.at.epoch is not None), default=None),
        tuple(run.tables),
        None if loss is None else loss.value,
        None if loss is None else loss.why,
        {level: levels.count(level) for level in _BAD if level in levels},
    )


def compare_runs(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    tables: Sequence[str] | None = None,
    measures: Sequence[str] | None = None,
    step: int | None = None,
) -> RunComparison:
    """Compare two runs: their last values, their best ones, and those at a step that both have.

    Parameters
    ----------
    a, b
        Directories of the runs.
    tables, measures
        Names or globs to compare; ``""`` is the run itself. By default all.
    step
        The step to compare at; by default, for each measure, the last one that both runs have a value at.

    Returns
    -------
    RunComparison
        Differences are the second run less the first.

    Raises
    ------
    MissingFileError, FormatError
        If one of them is no run that can be read.
    UnknownNameError
        If neither run has such a table or measure.
    NothingEvaluatedError
        If there is no table and measure that both have a value of.
    """
    sides = [_curves(path, tables, measures) for path in (a, b)]
    for what, at, wanted in (("table", 0, tables), ("measure", 1, measures)):
        _known(what, wanted, {key[at] for side in sides for key in side[1]} | set(sides[0][2 + at] + sides[1][2 + at]))
    keys = list(dict.fromkeys([*sides[0][1], *sides[1][1]]))
    rows = [_compared(key, [side[1].get(key, []) for side in sides], _better(key[1], sides), step) for key in keys]
    if not any(None not in row.final for row in rows):
        raise NothingEvaluatedError(
            f"compare_runs needs a measure that both runs have a value of; got none in {str(a)!r} and {str(b)!r}."
        )
    return RunComparison((summary_of(sides[0][0].path), summary_of(sides[1][0].path)), tuple(rows))


def difference(pair: tuple[Reached | None, Reached | None]) -> float | None:
    """The second value less the first, or None where one is missing."""
    first, second = pair
    return None if first is None or second is None else second.value - first.value


def chosen_points(run: Run, tables: Sequence[str] | None = None, measures: Sequence[str] | None = None) -> list[Point]:
    """The points of a run whose table and measure match one of the names or globs; None takes all.

    Raises
    ------
    UnknownNameError
        If one of the names matches nothing.
    """
    _known("table", tables, ["", *run.tables])
    _known("measure", measures, run.measures())
    return [each for each in run.points() if _matches(each.table, tables) and _matches(each.measure, measures)]


def _curves(path: str | os.PathLike[str], tables: Sequence[str] | None, measures: Sequence[str] | None) -> Any:
    """The run, its curves as lists of values by step, and the names it knows."""
    run = Run.open(path)
    found: dict[tuple[str, str], list[Reached]] = {}
    for each in run.points():
        if each.value is not None and _matches(each.table, tables) and _matches(each.measure, measures):
            found.setdefault((each.table, each.measure), []).append(Reached(each.value, each.at.step))
    order = {name: at for at, name in enumerate(["", *run.tables])}
    ranks = {name: at for at, name in enumerate(run.measures())}
    keys = sorted(found, key=lambda key: (order[key[0]], ranks[key[1]]))
    return run, {key: found[key] for key in keys}, list(order), list(ranks)


def _compared(key: tuple[str, str], curves: list[list[Reached]], better: str | None, step: int | None) -> Compared:
    common = {each.step for each in curves[0]} & {each.step for each in curves[1]}
    at = step if step is not None else max(common, default=-1)
    choose = {"higher": max, "lower": min}.get(better or "")
    final = [curve[-1] if curve else None for curve in curves]
    best = [choose(curve, key=lambda each: each.value) if curve and choose else None for curve in curves]
    shared = [next((each for each in curve if each.step == at), None) for curve in curves]
    return Compared(*key, better, *((pair[0], pair[1]) for pair in (final, best, shared)))


def _better(measure: str, sides: list[Any]) -> str | None:
    """Which direction is better: as the runs say, as the catalog says, or as a scalar of that name is read."""
    for run, *_ in sides:
        described = run.measures().get(measure)
        if described is not None and described.better:
            return described.better
    from fullspan.measures.catalog import CATALOG

    if measure in CATALOG:
        return CATALOG[measure].direction if CATALOG[measure].direction in ("higher", "lower") else None
    return next((way for word, way in _BETTER.items() if measure == word or measure.endswith(f"_{word}")), None)


def _matches(name: str, wanted: Sequence[str] | None) -> bool:
    return wanted is None or any(name == each or fnmatchcase(name, each) for each in wanted)


def _known(what: str, wanted: Sequence[str] | None, names: Iterable[str]) -> None:
    known = list(dict.fromkeys(names))
    for each in wanted or ():
        if not any(_matches(name, [each]) for name in known):
            some = ", ".join(repr(name) for name in known[:12]) or "none"
            hint = did_you_mean(each, known)
            raise UnknownNameError(f"A run needs a {what} of that name; got {each!r}.{hint} There are {some}.")
