"""Compare two versions of a table: what changed in its numbers, and how far its rows moved."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fullspan._typing import Array, Block
from fullspan.errors import InputError, NothingEvaluatedError, UndefinedMeasureError, UnknownNameError, did_you_mean
from fullspan.jobs.chosen import open_chosen
from fullspan.jobs.measure import default_measures, measure_table, provenance
from fullspan.jobs.passes import Settings
from fullspan.jobs.results import SCHEMA_VERSION
from fullspan.jobs.threads import one_thread
from fullspan.measures import catalog
from fullspan.measures import drift as formulas
from fullspan.store.records import Reading, TableRecord
from fullspan.summaries.cross import CrossMoments
from fullspan.summaries.fold import fold
from fullspan.summaries.reservoir import Reservoir

__all__ = ["Change", "DriftReport", "TableDrift", "drift"]

#: Rows of another order are picked from memory: at most this much of it.
_REORDER_BYTES = 4 << 30
_ALIGNMENTS = ("auto", "id", "position", "none")


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

    def __getitem__(self, name: str) -> Reading | Change:
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
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, default=str)

    def to_text(self, **options: Any) -> str:
        from fullspan.jobs.formats.drift import render_text

        return render_text(self, **options)

    def to_markdown(self) -> str:
        from fullspan.jobs.formats.drift import render_markdown

        return render_markdown(self)


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
        What :func:`fullspan.measure` takes. Several tables are matched by name, single tables with each other.
    table, column, ids, frequencies, dtype
        As for :func:`fullspan.measure`, for both sides.
    align
        ``"id"`` matches rows by id, ``"position"`` by position, ``"none"`` compares distributions only; ``"auto"``
        takes ids where both sides have them, else positions where both have as many rows, else none.
    measures
        Measures to be compared side by side; None takes the default set.
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
        If rows cannot be aligned as asked, or an id occurs twice.
    NothingEvaluatedError
        If the two sides share no table, or the tables no row.

    Notes
    -----
    The standard error of a change takes both versions as independent samples of rows; where the rows are the same
    things, that is on the safe side.

    Examples
    --------
    >>> import numpy as np
    >>> import fullspan as fs
    >>> E = np.random.default_rng(0).normal(size=(500, 8))
    >>> report = fs.drift(E, E @ np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))[0])
    >>> round(report["linear_cka"].value, 6)  # a rotation changes no distance
    1.0
    """
    if align not in _ALIGNMENTS:
        raise InputError(f"align needs one of {', '.join(_ALIGNMENTS)}; got {align!r}.")
    options: dict[str, Any] = {"column": column, "ids": ids, "frequencies": frequencies, "dtype": dtype}
    names = list(default_measures()) if measures is None else [catalog.get(name).name for name in measures]
    pairs = _pairs(open_chosen(old, table, **options), open_chosen(new, table, **options))
    with one_thread():
        compared = {
            name: _compare(one, other, names, align, sample, seed, progress) for name, (one, other) in pairs.items()
        }
    return DriftReport(compared, provenance([old, new], names, Settings(sample=sample, seed=seed)))


def _pairs(old: list[Any], new: list[Any]) -> dict[str, tuple[Any, Any]]:
    if len(old) == len(new) == 1:
        return {new[0].name: (old[0], new[0])}
    before, after = {each.name: each for each in old}, {each.name: each for each in new}
    shared = {name: (before[name], after[name]) for name in after if name in before}
    if not shared:
        raise NothingEvaluatedError(
            f"drift needs tables of the same name on both sides; got {', '.join(before)} and {', '.join(after)}. "
            "Choose one with --table."
        )
    return shared


def _compare(old: Any, new: Any, names: list[str], align: str, sample: int, seed: int, progress: Any) -> TableDrift:
    for each in (old, new):
        if not each.repeatable:
            raise InputError(
                f"drift reads both tables more than once; got a stream for {each.name}. Save it to a file first."
            )
    before, after = (_record(each, which, names, seed, progress) for each, which in ((old, "old"), (new, "new")))
    ids = _ids(old), _ids(new)
    how, notes = _alignment(align, *ids, before, after)
    changes = {name: change for name in names if (change := _change(name, before, after)) is not None}
    if how == "none":
        x, y = (fold(each, Reservoir.with_options(size=sample, seed=seed)).rows for each in (old, new))
        readings = _unaligned(x, y, seed) if old.dim == new.dim else {}
        return TableDrift(before, after, how, None, None, None, readings, changes, (), notes)
    pairs = _Aligned(old, new, ids if how == "id" else (None, None))
    if not pairs.n_common:
        raise NothingEvaluatedError(
            f"drift needs rows with the same id on both sides; got none in common "
            f"({pairs.n_old} and {pairs.n_new} ids). Compare the distributions with --align none."
        )
    plan = CrossMoments.with_options(split=old.dim) | Reservoir.with_options(size=sample, seed=seed)
    made = fold(pairs, plan, progress=None if progress is None else _told(progress, pairs))
    rows = made[Reservoir].rows
    readings = _aligned(made[CrossMoments], rows[:, : old.dim], rows[:, old.dim :], seed)
    moved = tuple({"position": r.position, "id": r.id, "cosine": r.value} for r in made[CrossMoments].least_cosine)
    removed, added = pairs.n_old - pairs.n_common, pairs.n_new - pairs.n_common
    return TableDrift(before, after, how, pairs.n_common, added, removed, readings, changes, moved, notes)


def _record(table: Any, which: str, names: list[str], seed: int, progress: Any) -> TableRecord:
    told = None
    if progress is not None:
        told = lambda phase, done: progress(f"{table.name} ({which})", phase, done, table.n_rows)  # noqa: E731
    return measure_table(table, names, Settings(seed=seed, progress=told), hygiene=False, explicit=False)


def _told(progress: Any, pairs: _Aligned) -> Callable[[int], None]:
    return lambda done: progress(pairs.name, "comparing", done, pairs.n_common)


def _ids(table: Any) -> Array | None:
    """All ids of a table in order, or None where it has none."""
    if getattr(table, "has_ids", None) is False:
        return None
    parts = []
    for block in table.blocks():
        if block.ids is None:
            return None
        parts.append(np.asarray(block.ids))
    return np.concatenate(parts) if parts else None


def _alignment(
    align: str, old_ids: Any, new_ids: Any, old: TableRecord, new: TableRecord
) -> tuple[str, tuple[str, ...]]:
    have_ids = old_ids is not None and new_ids is not None
    if align == "id" and not have_ids:
        raise InputError(
            "Aligning by id needs ids on both sides; got none. Name them with --ids, or use --align position."
        )
    if align == "position" and old.n_rows != new.n_rows:
        raise InputError(
            f"Aligning by position needs as many rows on both sides; got {old.n_rows} and {new.n_rows}. "
            "Name the rows with --ids, or compare the distributions with --align none."
        )
    if align != "auto":
        return align, ()
    if have_ids:
        return "id", ()
    if old.n_rows == new.n_rows:
        return "position", ("Rows were aligned by position, since the tables have no ids.",)
    note = f"Rows were not aligned: the tables have no ids, and {old.n_rows:,} and {new.n_rows:,} rows."
    return "none", (f"{note} Only distributions are compared.",)


class _Aligned:
    """Both versions side by side, as one table with the columns of the old and then those of the new."""

    def __init__(self, old: Any, new: Any, ids: tuple[Array | None, Array | None]) -> None:
        self.old, self.new, self.name = old, new, new.name
        self.places: Array | None = None
        self.same_order = ids[0] is None or (len(ids[0]) == len(ids[1]) and bool(np.all(ids[0] == ids[1])))  # type: ignore[arg-type]
        if ids[0] is None:
            self.n_old = self.n_new = self.n_common = sum(len(block) for block in old.blocks())
            return
        self.n_old, self.n_new = len(ids[0]), len(ids[1])  # type: ignore[arg-type]
        self.places = _places(ids[0], ids[1])  # type: ignore[arg-type]
        self.n_common = int((self.places >= 0).sum())

    def blocks(self, block_rows: int | None = None) -> Iterator[Block]:
        if self.same_order:
            yield from self._side_by_side(block_rows)
            return
        assert self.places is not None
        new = _all_rows(self.new)
        for block in self.old.blocks(block_rows):
            places = self.places[block.index]
            known = places >= 0
            if known.any():
                yield _joined(block.take(known), new[places[known]])

    def _side_by_side(self, block_rows: int | None) -> Iterator[Block]:
        other = self.new.blocks(block_rows)
        rest: Array = np.empty((0, self.new.dim), dtype=np.float32)
        for block in self.old.blocks(block_rows):
            parts, missing = [], len(block)
            while missing:
                if not len(rest):
                    rest = next(other).widened().rows
                parts.append(rest[:missing])
                rest = rest[missing:]
                missing -= len(parts[-1])
            yield _joined(block, np.concatenate(parts) if len(parts) > 1 else parts[0])


def _joined(block: Block, rows: Array) -> Block:
    block = block.widened()
    both = np.hstack([block.rows, rows.astype(np.result_type(block.rows, rows), copy=False)])
    return Block(both, block.start, block.ids, None, None, block.positions)


def _all_rows(table: Any) -> Array:
    needed = (table.n_rows or 0) * table.dim * 4
    if needed > _REORDER_BYTES:
        raise InputError(
            f"Rows in another order need the new table in memory, {needed / 2**30:.1f} GiB; the bound is "
            f"{_REORDER_BYTES >> 30} GiB. Sort both files by id."
        )
    return np.concatenate([block.widened().rows for block in table.blocks()])


def _places(old: Array, new: Array) -> Array:
    """For every old row, the position of its id in the new table, or -1."""
    for which, names in (("old", old), ("new", new)):
        values, counts = np.unique(names, return_counts=True)
        if counts.max(initial=1) > 1:
            twice = values[np.argmax(counts)]
            raise InputError(
                f"Aligning by id needs every id once; got {twice!r} {counts.max()} times in the {which} table. "
                "Use --align position, or --ids with another column."
            )
    order = np.argsort(new)
    spots = np.searchsorted(new, old, sorter=order)
    spots = order[np.minimum(spots, len(new) - 1)]
    return np.where(new[spots] == old, spots, -1)


def _change(name: str, old: TableRecord, new: TableRecord) -> Change | None:
    one, other = old.readings.get(name), new.readings.get(name)
    if one is None or other is None or one.value is None or other.value is None:
        return None
    if one.standard_error is None or other.standard_error is None:
        return Change(name, one.value, other.value)
    error = math.hypot(one.standard_error, other.standard_error)
    if error == 0.0:
        return Change(name, one.value, other.value, 0.0)
    z = (other.value - one.value) / error
    return Change(name, one.value, other.value, error, z, math.erfc(abs(z) / math.sqrt(2.0)))


def _aligned(cross: CrossMoments, x: Array, y: Array, seed: int) -> dict[str, Reading]:
    sampled = f"{len(x):,} aligned rows, seed {seed}"
    wanted: dict[str, Callable[[], Any]] = {
        "linear_cka": lambda: cross.linear_cka,
        "linear_cka_debiased": lambda: cross.debiased_cka,
        "procrustes_distance": lambda: cross.procrustes_distance,
        "largest_principal_angle": lambda: float(
            np.max(cross.principal_angles(min(10, cross.split, cross.dim - cross.split)))
        ),
    }
    if x.shape[1] == y.shape[1]:
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
            value = call()
        except UndefinedMeasureError as error:
            readings[name] = Reading(name, None, why=str(error), detail=dict(detail))
            continue
        if isinstance(value, tuple):
            readings[name] = Reading(name, float(value[0]), detail={**detail, "p": float(value[1])})
        else:
            readings[name] = Reading(name, float(value), detail=dict(detail))
    return readings
