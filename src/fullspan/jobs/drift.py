"""Compare two versions of a table: what changed in its numbers, and how far its rows moved."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, NothingEvaluatedError, UndefinedMeasureError, UnknownNameError, did_you_mean
from fullspan.jobs.aligned import ALIGNMENTS, Aligned, alignment, ids_of
from fullspan.jobs.chosen import open_chosen
from fullspan.jobs.measure import default_measures, measure_table, provenance
from fullspan.jobs.passes import Settings
from fullspan.jobs.results import SCHEMA_VERSION, fresh_key
from fullspan.jobs.threads import one_thread
from fullspan.measures import catalog
from fullspan.measures import drift as formulas
from fullspan.measures._student import student_tail
from fullspan.store.records import Reading, TableRecord
from fullspan.summaries.cross import CrossMoments
from fullspan.summaries.fold import fold
from fullspan.summaries.reservoir import Reservoir

__all__ = ["Change", "DriftReport", "TableDrift", "drift"]

#: How many of the changed measures or lost tables a line names.
_SHOWN = 5


@dataclass(frozen=True)
class Change:
    """One measure before and after, with the probability of a difference at least as large by chance."""

    measure: str
    old: float
    new: float
    standard_error: float | None = None
    z: float | None = None
    p: float | None = None

    @property
    def difference(self) -> float:
        return self.new - self.old


@dataclass(frozen=True)
class TableDrift:
    """What changed between two versions of one table.

    Parameters
    ----------
    old, new
        The records of both versions.
    aligned_by
        ``"id"``, ``"position"`` or ``"none"``.
    n_common, n_added, n_removed
        Rows in both versions, only in the new one, only in the old one; without alignment all None.
    readings
        Distances between the versions: CKA, Procrustes, mean shift, …; tests carry their p in ``detail["p"]``.
    changes
        The measures of both versions side by side.
    moved
        The rows that turned the furthest: ``{"position", "id", "cosine"}``.
    notes
        Plain sentences on how the numbers were had.
    """

    old: TableRecord
    new: TableRecord
    aligned_by: str
    n_common: int | None
    n_added: int | None
    n_removed: int | None
    readings: dict[str, Reading] = field(default_factory=dict)
    changes: dict[str, Change] = field(default_factory=dict)
    moved: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Any:
        if name in self.readings:
            return self.readings[name]
        if name in self.changes:
            return self.changes[name]
        known = [*self.readings, *self.changes]
        raise UnknownNameError(f'No reading is named "{name}" in this comparison.{did_you_mean(name, known)}')

    @property
    def table(self) -> str:
        return self.new.table

    def significant(self, level: float = 0.01) -> list[Change]:
        """Changes unlikely to be chance, after Holm's correction for the number of measures."""
        tested = sorted((c for c in self.changes.values() if c.p is not None), key=lambda c: c.p or 0.0)
        kept = []
        for rank, change in enumerate(tested):
            if change.p is None or change.p > level / (len(tested) - rank):
                break
            kept.append(change)
        return kept


@dataclass(frozen=True)
class DriftReport:
    """The comparison of all tables that two sources share."""

    tables: Mapping[str, TableDrift]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        if name in self.tables:
            return self.tables[name]
        if len(self.tables) == 1:
            return next(iter(self.tables.values()))[name]
        raise UnknownNameError(f'No table is named "{name}" in this comparison.{did_you_mean(name, self.tables)}')

    def __iter__(self) -> Iterator[TableDrift]:
        return iter(self.tables.values())

    def __len__(self) -> int:
        return len(self.tables)

    def to_dict(self) -> dict[str, Any]:
        """Plain values under a versioned schema: ``schema``, ``provenance``, ``tables``."""
        return {
            "schema": f"fullspan-drift/{SCHEMA_VERSION}",
            "provenance": dict(self.provenance),
            "tables": [dataclasses.asdict(table) for table in self],
        }

    def to_json(self, indent: int | None = 2) -> str:
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, default=_plain)

    def to_text(self, **options: Any) -> str:
        from fullspan.jobs.formats.drift import render_text

        return render_text(self, **options)

    def to_markdown(self) -> str:
        from fullspan.jobs.formats.drift import render_markdown

        return render_markdown(self)

    def __repr__(self) -> str:
        lines = [
            f"{name}: {each.old.n_rows:,} x {each.old.dim} -> {each.new.n_rows:,} x {each.new.dim}, "
            f"{len(each.significant())} of {len(each.changes)} measures changed"
            for name, each in self.tables.items()
        ]
        return "DriftReport(" + "; ".join(lines) + ")"


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


def drift(
    old: Any,
    new: Any,
    *,
    table: str | Sequence[str] | None = None,
    column: str | None = None,
    ids: Any = None,
    frequencies: Any = None,
    dtype: Any = None,
    align: str = "auto",
    measures: Any = None,
    sample: int = 2000,
    seed: int = 0,
    progress: Callable[[str, str, int, int | None], None] | None = None,
) -> DriftReport:
    """Compare two versions of one or more tables.

    Parameters
    ----------
    old, new
        What :func:`fullspan.measure` takes, but no iterator, since rows are read more than once. Several tables are
        matched by name (``report.provenance["only_old"]`` and ``["only_new"]`` name the rest), single tables with each
        other.
    table, column, ids, frequencies, dtype
        As for :func:`fullspan.measure`, for both sides.
    align
        ``"id"`` matches rows by id, ``"position"`` by position, ``"none"`` compares distributions only; ``"auto"``
        takes ids where both sides have them, else positions where both have as many rows, else none.
    measures
        Measures to be compared side by side, names or one comma-separated string; None takes the default set.
    sample
        Aligned rows in the seeded sample behind neighbor overlap and the two tests.
    seed
        Seed of the sample and of the permutations.
    progress
        As for :func:`fullspan.measure`.

    Returns
    -------
    DriftReport
        ``report["linear_cka"].value``; ``report["mean_norm_ratio"].p``; ``report.to_dict()``, ``report.to_text()``.

    Raises
    ------
    InputError
        If rows cannot be aligned as asked, an id occurs twice, or ids are numbers on one side and strings on the other.
    NothingEvaluatedError
        If the two sides share no table, or the tables no row.

    Notes
    -----
    The standard error of a change takes both versions as independent samples of rows; where the rows are the same
    things, that is on the safe side. p is that of Student's t where an error comes from few groups of rows. A change
    within the rounding of the entries (relative 1e-6, 1e-14 where both are float64) is none: z = 0, p = 1.

    Examples
    --------
    >>> import numpy as np
    >>> import fullspan as fs
    >>> E = np.random.default_rng(0).normal(size=(500, 8))
    >>> report = fs.drift(E, E @ np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))[0])
    >>> round(report["linear_cka"].value, 6)  # a rotation changes no distance
    1.0
    """
    if align not in ALIGNMENTS:
        raise InputError(f"align needs one of {', '.join(ALIGNMENTS)}; got {align!r}.")
    names = _names(measures)
    options: dict[str, Any] = {"column": column, "ids": ids, "frequencies": frequencies, "dtype": dtype}
    before, after = (_named(open_chosen(each, table, **options)) for each in (old, new))
    pairs = _pairs(before, after)
    with one_thread():
        compared = {
            name: _compare(one, other, names, align, sample, seed, progress) for name, (one, other) in pairs.items()
        }
    made = provenance([old, new], names, Settings(sample=sample, seed=seed))
    if len(before) > 1 or len(after) > 1:
        made["only_old"], made["only_new"] = ([n for n in each if n not in pairs] for each in (before, after))
    return DriftReport(compared, made)


def _names(measures: Any) -> list[str]:
    """The names of the measures set side by side."""
    if measures is None:
        return list(default_measures())
    if isinstance(measures, str):
        measures = [part.strip() for part in measures.split(",") if part.strip()]
    names = list(dict.fromkeys(catalog.get(name).name for name in measures))
    if not names:
        raise InputError("drift needs at least one measure; got an empty list. `fullspan measures` lists all of them.")
    unreadable = [name for name in names if catalog.get(name).read is None]
    if unreadable:
        raise InputError(
            f"drift needs measures of one table to set side by side; got {unreadable[0]}, which compares two. "
            "The distances between the tables are part of every comparison."
        )
    return names


def _named(tables: list[Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for each in tables:
        named[fresh_key(each.name, named)] = each
    return named


def _pairs(old: dict[str, Any], new: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    if len(old) == len(new) == 1:
        return {name: (next(iter(old.values())), each) for name, each in new.items()}
    shared = {name: (old[name], each) for name, each in new.items() if name in old}
    if not shared:
        raise NothingEvaluatedError(
            f"drift needs tables of the same name on both sides; got {_few(old)} and {_few(new)}. "
            "Choose one with --table."
        )
    return shared


def _few(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def _compare(old: Any, new: Any, names: list[str], align: str, sample: int, seed: int, progress: Any) -> TableDrift:
    for each in (old, new):
        if not each.repeatable:
            raise InputError(
                f"drift reads both tables more than once; got a stream for {each.name}. Save it to a file first."
            )
    before, after = (_record(each, which, names, seed, progress) for each, which in ((old, "old"), (new, "new")))
    ids = (ids_of(old), ids_of(new)) if align in ("auto", "id") else (None, None)
    how, notes = alignment(align, ids, before.n_rows, after.n_rows)
    notes += _notes(before, after)
    changes = {name: change for name in names if (change := _change(name, before, after)) is not None}
    if how == "none":
        x, y = (fold(each, Reservoir.with_options(size=sample, seed=seed)).rows for each in (old, new))
        readings = _unaligned(x, y, seed) if old.dim == new.dim else {}
        return TableDrift(before, after, how, None, None, None, readings, changes, (), notes)
    pairs = Aligned(old, new, ids if how == "id" else (None, None), before.n_rows)
    plan = CrossMoments.with_options(split=old.dim) | Reservoir.with_options(size=sample, seed=seed)
    with np.errstate(all="ignore"):  # what is not finite then is said to be undefined
        made = fold(pairs, plan, progress=None if progress is None else _told(progress, pairs))
    rows = made[Reservoir].rows
    readings = _aligned(made[CrossMoments], rows[:, : old.dim], rows[:, old.dim :], seed)
    moved = tuple({"position": r.position, "id": r.id, "cosine": r.value} for r in made[CrossMoments].least_cosine)
    removed, added = pairs.n_old - pairs.n_common, pairs.n_new - pairs.n_common
    return TableDrift(before, after, how, pairs.n_common, added, removed, readings, changes, moved, notes)


def _notes(old: TableRecord, new: TableRecord) -> tuple[str, ...]:
    notes = []
    if old.dim != new.dim:
        notes.append(f"The rows have {old.dim} and {new.dim} dimensions: what needs one length is left out.")
    if old.n_excluded or new.n_excluded:
        notes.append(
            f"Rows with NaN or infinity, {old.n_excluded:,} in the old table and {new.n_excluded:,} in the new one, "
            "were left out."
        )
    return tuple(notes)


def _record(table: Any, which: str, names: list[str], seed: int, progress: Any) -> TableRecord:
    def told(phase: str, done: int) -> None:
        progress(f"{table.name} ({which})", phase, done, table.n_rows)

    settings = Settings(seed=seed, progress=None if progress is None else told)
    return measure_table(table, names, settings, hygiene=False, explicit=False)


def _told(progress: Any, pairs: Aligned) -> Callable[[int], None]:
    return lambda done: progress(pairs.name, "comparing", done, pairs.n_common)


def _change(name: str, old: TableRecord, new: TableRecord) -> Change | None:
    one, other = old.readings.get(name), new.readings.get(name)
    if one is None or other is None or one.value is None or other.value is None:
        return None
    if one.standard_error is None or other.standard_error is None:
        return Change(name, one.value, other.value)
    error = math.hypot(one.standard_error, other.standard_error)
    within = _rounding(old, new) * max(abs(one.value), abs(other.value))
    if abs(other.value - one.value) <= within and one.value != other.value:
        return Change(name, one.value, other.value, error, 0.0, 1.0)
    if error == 0.0:
        return Change(name, one.value, other.value, 0.0)
    z = (other.value - one.value) / error
    p = student_tail(z, _degrees((one, old), (other, new)))
    return Change(name, one.value, other.value, error, z, p)


def _degrees(*sides: tuple[Reading, TableRecord]) -> float:
    """Degrees of freedom of a difference (Welch and Satterthwaite): a jackknife of few groups knows its error badly."""
    error = math.hypot(*(reading.standard_error or 0.0 for reading, _ in sides))
    below = sum(
        ((reading.standard_error or 0.0) / error) ** 4 / (record.error_groups - 1)
        for reading, record in sides
        if (reading.error_method or "").startswith("block jackknife")
    )
    return 1.0 / below if below > 0.0 else math.inf


def _rounding(old: TableRecord, new: TableRecord) -> float:
    """Relative difference that the rounding of entries explains: rows of length 1 have no other spread."""
    return 2.0**-46 if old.dtype == new.dtype == "float64" else 2.0**-20


def _aligned(cross: CrossMoments, x: Array, y: Array, seed: int) -> dict[str, Reading]:
    sampled = f"{len(x):,} aligned rows, seed {seed}"
    wanted: dict[str, Callable[[], Any]] = {
        "linear_cka": lambda: cross.linear_cka,
        "linear_cka_debiased": lambda: cross.debiased_cka,
        "procrustes_distance": lambda: cross.procrustes_distance,
    }
    if x.shape[1] == y.shape[1]:
        wanted["largest_principal_angle"] = lambda: np.max(cross.principal_angles(min(10, cross.split)))
        wanted["row_cosine"] = lambda: cross.mean_row_cosine
        wanted["row_displacement"] = lambda: cross.mean_row_displacement / _usual_length(cross)
    readings = _read(wanted, {})
    readings |= _read({"neighbor_overlap": lambda: formulas.neighbor_overlap(x, y)}, {"sample": sampled})
    if x.shape[1] == y.shape[1]:
        readings |= _unaligned(x, y, seed)
    return readings


def _usual_length(cross: CrossMoments) -> float:
    """Root of the mean squared length of the old rows."""
    squares = float(np.trace(cross.scatter_xx)) / cross.n_rows + float(cross.mean_x @ cross.mean_x)
    if squares == 0.0:
        raise UndefinedMeasureError("row_displacement needs old rows that are not all zero; got zeros only.")
    return math.sqrt(squares)


def _unaligned(x: Array, y: Array, seed: int) -> dict[str, Reading]:
    sampled = f"{len(x):,} and {len(y):,} rows, seed {seed}"
    return _read(
        {
            "mean_shift": lambda: formulas.mean_shift(x, y),
            "frechet_distance": lambda: formulas.frechet_distance(x, y),
            "spectrum_difference": lambda: formulas.spectrum_difference(x, y),
            "mmd": lambda: formulas.mmd(x, y, seed=seed),
            "classifier_drift": lambda: formulas.classifier_drift(x, y, seed=seed),
        },
        {"sample": sampled},
    )


def _read(wanted: dict[str, Callable[[], Any]], detail: dict[str, Any]) -> dict[str, Reading]:
    readings = {}
    for name, call in wanted.items():
        try:
            with np.errstate(all="ignore"):
                value = call()
        except UndefinedMeasureError as error:
            readings[name] = Reading(name, None, why=str(error), detail=dict(detail))
            continue
        except (InputError, np.linalg.LinAlgError):  # squares that leave the range of float64
            value = np.nan
        number, more = (value[0], {"p": float(value[1])}) if isinstance(value, tuple) else (value, {})
        if np.isfinite(number):
            readings[name] = Reading(name, float(number), detail={**detail, **more})
        else:
            readings[name] = Reading(name, None, why=f"{name} is not finite on these tables.", detail=dict(detail))
    return readings
