"""Measure tables: open, fold, read the measures, diagnose."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

import fullspan
from fullspan.diagnose import diagnose
from fullspan.diagnose.thresholds import Thresholds
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.jobs import passes
from fullspan.jobs.by_group import left_out_note
from fullspan.jobs.chosen import open_chosen
from fullspan.jobs.passes import Needs, Settings
from fullspan.jobs.profile import hygiene_of, notes_of, profile_of
from fullspan.jobs.results import Report, TableReport, fresh_key
from fullspan.jobs.threads import one_thread
from fullspan.measures import catalog
from fullspan.measures._check import resolution
from fullspan.measures.evidence import Evidence
from fullspan.store.records import Reading, TableRecord

__all__ = ["default_measures", "measure", "measure_table", "provenance"]

#: Catalog entries that a standard error over rows comes with, and the row measure it is the mean of.
_MEANS_OF_ROWS = {
    "gini_index": "gini_index",
    "vector_entropy": "vector_entropy",
    "hoyer_sparsity": "hoyer_sparsity",
    "mean_norm": "norm",
}
_EPS = 2.0**-52
_FROM_SAMPLE = {"sample", "neighbors", "sample_uniformity"}
_FROM_FREQUENCIES = {"frequency", "weighted_singular_values"}


def measure(
    source: Any,
    *,
    measures: Iterable[str] | None = None,
    table: str | Sequence[str] | None = None,
    column: str | None = None,
    ids: Any = None,
    labels: Any = None,
    frequencies: Any = None,
    dtype: Any = None,
    by: str | None = None,
    sample: int = 4096,
    neighbors: bool = True,
    standard_errors: bool = True,
    hygiene: bool | None = None,
    thresholds: Any = None,
    seed: int = 0,
    block_rows: int | None = None,
    products: str = "float64",
    progress: Callable[[str, str, int, int | None], None] | None = None,
) -> Report:
    """Measure one or more embedding tables, and say what is wrong with them.

    Parameters
    ----------
    source
        A path of any format of :func:`fullspan.open_table`, an array or torch tensor of shape ``(n_rows, dim)``, an
        ``nn.Embedding``, a module (its embedding tables), a mapping of names to arrays (all 2-D ones; of a state dict,
        whose names have dots, those that look like embeddings, and a note names the others), or blocks in a list or an
        iterator.
    measures
        Names from ``fullspan measures``; None takes the default set and the hygiene of the table.
    table
        Name or glob (``"*.weight"``) of the tables to take from a checkpoint, or several of them; None takes those that
        look like embeddings.
    column, ids, labels, frequencies, dtype
        Where the vectors are and what lies beside them: see :func:`fullspan.open_table`.
    by
        ``"label"``, ``"frequency"`` (powers of ten), or the name of a column: measure each group as well, same pass.
    sample
        Rows in the seeded sample that neighbors are searched in.
    neighbors
        False leaves out what needs neighbors.
    standard_errors
        False leaves out the block jackknife (faster at large dims).
    hygiene
        Whether to look for damaged and duplicate rows and columns; None does so with the default measures.
    thresholds
        A :class:`~fullspan.diagnose.thresholds.Thresholds`, or the path of a ``fullspan.toml``.
    seed
        Seed of the sample.
    block_rows
        Rows read at once.
    products
        ``"float64"``, or ``"float32"``: rows are multiplied in float32 (about half the time at large dims). Eigenvalues
        then hold to 4e-6 of the largest; where that does not carry what was asked for (a smallest singular value
        below 5% of the largest, or 30% for what rests on the smallest), the table is read again with float64, and the
        report says so. The source must allow a second reading.
    progress
        Called with table name, phase, rows done and rows in all (None when unknown).

    Returns
    -------
    Report
        ``report["information_abundance"].value``, ``report.findings``, ``report.to_dict()``, ``report.to_text()``.

    Raises
    ------
    UnknownNameError
        If a measure or table has no such name.
    InputError, FormatError, MissingFileError
        If the input cannot be read.
    NothingEvaluatedError
        If a table has no rows.

    Notes
    -----
    One pass over the rows; a second one when a measure needs eigenvectors first (:func:`~fullspan.isotropy`), or when
    the smallest singular values are too small to be had from squares. The report says how many were made.

    Examples
    --------
    >>> import numpy as np
    >>> import fullspan as fs
    >>> report = fs.measure(np.eye(4), measures=["information_abundance"])
    >>> round(report["information_abundance"].value, 6)
    4.0
    """
    names = _names(measures)
    explicit = not default_measures() <= set(names)  # all defaults and more are no demand for what a table lacks
    whole = measures is None if hygiene is None else hygiene
    if by not in (None, "label", "frequency"):  # the name of a column: its values are the labels
        labels, by = (by if labels is None else labels), "label"
    opened = open_chosen(source, table, column=column, ids=ids, labels=labels, frequencies=frequencies, dtype=dtype)
    settings = Settings(sample, neighbors, standard_errors, by, seed, block_rows, products=products)
    if products not in ("float64", "float32"):
        raise InputError(f'measure needs products="float64" or "float32"; got {products!r}.')
    limits = thresholds if isinstance(thresholds, Thresholds) else Thresholds.load(thresholds)
    reports = {}
    for each in opened:
        told = None if progress is None else _told(progress, each)
        mine = dataclasses.replace(settings, progress=told) if told else settings
        with one_thread():
            record = measure_table(each, names, mine, hygiene=whole, explicit=explicit)
        if _is_path(source):
            record = dataclasses.replace(record, source=str(source))
        key = fresh_key(each.name, reports)
        reports[key] = TableReport(record, diagnose(record, limits))
    return Report(reports, provenance(_name_of(source), names, settings))


def measure_table(
    table: Any, names: list[str], settings: Settings, *, hygiene: bool, explicit: bool, profile: bool | None = None
) -> TableRecord:
    """Measure one open table: the passes, then the catalog; `profile` None gives one when the hygiene is looked at."""
    entries = [catalog.get(name) for name in names]
    if not settings.neighbors:
        entries = [entry for entry in entries if not _FROM_SAMPLE & set(entry.needs)]
    table, first = passes.peeked(table)
    served = entries
    if first.frequencies is None:
        served = [e for e in entries if not _FROM_FREQUENCIES & set(e.needs)]
        entries = entries if explicit else served
    needs = Needs.of((need for entry in served for need in entry.needs), hygiene)
    made, evidence, stripes, n_rows, settings, again = _first_reading(table, needs, served, settings)
    excluded = n_rows - evidence.n_rows
    if not evidence.n_rows:
        return _nothing_finite(table, made, entries, n_rows)
    evidence, parts, grouped, offsets, more = passes.second_pass(
        table, made, evidence, needs, stripes, settings, excluded
    )
    left_out = passes.jackknife(evidence, made, grouped, offsets, needs)
    readings = {entry.name: _reading(entry, evidence, left_out, table.name) for entry in entries}
    groups = _group_readings(parts, settings.by, entries, table.name)
    asked = [name for name, reading in readings.items() if reading.value is not None]
    return TableRecord(
        table=table.name,
        source=str(getattr(table, "source", "")),
        dtype=table.dtype,
        n_rows=n_rows,
        dim=table.dim,
        n_excluded=excluded,
        passes=1 + again + more,
        sample_rows=0 if evidence.sample_rows is None else len(evidence.sample_rows),
        error_groups=len(left_out),
        readings=readings,
        groups=groups,
        hygiene=hygiene_of(made),
        profile=profile_of(made, evidence, settings.neighbors) if (hygiene if profile is None else profile) else {},
        notes=notes_of(made, evidence, table, settings.neighbors) + left_out_note(asked, groups) + _told_again(again),
    )


def _first_reading(
    table: Any, needs: Needs, entries: list[Any], settings: Settings
) -> tuple[Any, Evidence, int, int, Settings, bool]:
    """The first pass; again with products in float64 where those in float32 do not carry what was asked for."""
    if settings.products == "float32" and not table.repeatable:
        raise InputError(
            f'products="float32" needs a table that can be read twice; got a stream, {table.name}. '
            "Save it to a file first, or leave products at float64."
        )
    made, stripes, n_rows = passes.first_pass(table, needs, settings)
    evidence = passes.evidence_of(table, made, needs, settings)
    smallest = any(entry.below_resolution is not None for entry in entries)
    if settings.products == "float64" or passes.float32_resolves(evidence, smallest):
        return made, evidence, stripes, n_rows, settings, False
    settings = dataclasses.replace(settings, products="float64")
    made, stripes, n_rows = passes.first_pass(table, needs, settings)
    return made, passes.evidence_of(table, made, needs, settings), stripes, n_rows, settings, True


def _told_again(again: bool) -> tuple[str, ...]:
    if not again:
        return ()
    return (
        "Products in float32 do not resolve the smallest directions of this table: it was read again with float64.",
    )


def _nothing_finite(table: Any, made: Any, entries: list[Any], n_rows: int) -> TableRecord:
    why = f"every one of the {n_rows:,} rows holds NaN or infinity."
    readings = {entry.name: Reading(entry.name, None, why=why, table=table.name) for entry in entries}
    source = str(getattr(table, "source", ""))
    hygiene = hygiene_of(made)
    return TableRecord(table.name, source, table.dtype, n_rows, table.dim, n_rows, readings=readings, hygiene=hygiene)


@functools.cache
def default_measures() -> Set[str]:
    """Names of the measures of a report when none are asked for, in the order of the catalog."""
    return {name: None for name, entry in catalog.CATALOG.items() if entry.default and entry.read is not None}.keys()


def _names(measures: Iterable[str] | None) -> list[str]:
    if measures is None:
        return list(default_measures())
    if isinstance(measures, str):
        measures = [part.strip() for part in measures.split(",") if part.strip()]
    names = list(dict.fromkeys(catalog.get(name).name for name in measures))
    if not names:
        raise InputError(
            "measure needs at least one measure; got an empty list. `fullspan measures` lists all of them."
        )
    unreadable = [name for name in names if catalog.get(name).read is None]
    if unreadable:
        raise InputError(
            f"{unreadable[0]} needs more than one table, so measure cannot take it. Call fullspan.{unreadable[0]}, "
            "or compare two tables with `fullspan drift`."
        )
    return names


def _reading(entry: Any, evidence: Evidence, left_out: list[Evidence], table: str, group: str | None = None) -> Reading:
    """One measure with its standard error and its null; undefined measures carry the reason."""
    if evidence.n_rows < 2 and "centered_singular_values" in entry.needs:
        why = f"{entry.name} needs at least two rows, since one row less its mean is zero; got {evidence.n_rows}."
        return Reading(entry.name, None, why=why, table=table, group=group)
    try:
        with np.errstate(all="ignore"):
            value = float(entry.read(evidence))
            _refuse_lost_digits(entry, evidence)
    except UndefinedMeasureError as error:
        return Reading(entry.name, None, why=str(error), table=table, group=group)
    if not np.isfinite(value):
        return Reading(entry.name, None, why=f"{entry.name} is not finite on this table.", table=table, group=group)
    error, method = _standard_error(entry, evidence, left_out)
    null, deviation = _null(entry, evidence)
    return Reading(
        entry.name,
        value,
        standard_error=error,
        null=null,
        null_deviation=deviation,
        below_resolution=_below_resolution(entry, evidence, value),
        table=table,
        group=group,
        error_method=method,
        detail=_detail(entry, evidence),
    )


def _standard_error(entry: Any, evidence: Evidence, left_out: list[Evidence]) -> tuple[float | None, str | None]:
    try:
        if entry.name in _MEANS_OF_ROWS and evidence.row_profile is not None:
            return evidence.rows.distribution(_MEANS_OF_ROWS[entry.name]).standard_error, "deviation over rows"
        if entry.standard_error is not None:
            return float(entry.standard_error(evidence)), entry.error_method
    except UndefinedMeasureError:
        return None, None
    if _FROM_SAMPLE & set(entry.needs) or not left_out:
        return None, None
    values = []
    for rest in left_out:
        try:
            with np.errstate(all="ignore"):
                values.append(float(entry.read(rest)))
        except UndefinedMeasureError:
            return None, None
    spread = np.asarray(values)
    if not np.isfinite(spread).all():
        return None, None
    scale = float(np.abs(spread).max()) or 1.0  # squares of a table of 1e200 would leave the range
    away = spread / scale - np.mean(spread / scale)
    error = scale * float(np.sqrt((len(spread) - 1) / len(spread) * np.sum(away**2)))
    if not _squares_resolve(entry, evidence, error):
        return None, None
    return error, f"block jackknife, {len(spread)} groups"


def _squares_resolve(entry: Any, evidence: Evidence, error: float) -> bool:
    """Whether the leave-outs, whose spectra come from squares, see the value that the triangle gives."""
    if evidence.moments is None or evidence.spectrum is evidence.moments:
        return True
    with np.errstate(all="ignore"):
        value, coarse = (float(entry.read(each)) for each in (evidence, passes.from_squares(evidence)))
    return abs(coarse - value) <= max(error, 1e-6 * abs(value))


def _null(entry: Any, evidence: Evidence) -> tuple[float | None, float | None]:
    if entry.null is None:
        return None, None
    try:
        rows = len(evidence.sample) if _FROM_SAMPLE & set(entry.needs) else evidence.n_rows
        null = entry.null_for(rows, evidence)
    except UndefinedMeasureError:
        return None, None
    return (float(null.value), float(null.deviation)) if null is not None else (None, None)


def _below_resolution(entry: Any, evidence: Evidence, value: float) -> bool:
    check = getattr(entry, "below_resolution", None)
    return bool(check(evidence, value)) if check is not None else False


def _refuse_lost_digits(entry: Any, evidence: Evidence) -> None:
    """Say so where a measure rests on a smallest singular value that squares alone, with no QR factor, have lost."""
    if entry.below_resolution is None or evidence.moments is None or evidence.spectrum is not evidence.moments:
        return
    values = evidence.singular_values
    lost = np.sqrt(100 * len(values) * _EPS)
    known = resolution(evidence.dtype, evidence.n_rows, evidence.dim)
    if values[-1] < lost * values[0] and not (known > np.sqrt(_EPS) and values[-1] <= known * values[0]):
        raise UndefinedMeasureError(
            f"{entry.name} needs a QR factor where the smallest singular value is below {lost:.1g} of the largest; "
            "got squares of the rows alone. Fold fs.Triangle over the table."
        )


def _detail(entry: Any, evidence: Evidence) -> dict[str, Any]:
    if _FROM_SAMPLE & set(entry.needs):
        return {"sample_rows": len(evidence.sample)}
    return {}


def _group_readings(
    parts: Mapping[Hashable, Evidence], by: Any, entries: list[Any], table: str
) -> dict[str, dict[str, Reading]]:
    readings: dict[str, dict[str, Reading]] = {}
    for key, part in parts.items():
        name = _group_name(by, key)
        readings[name] = {
            entry.name: dataclasses.replace(reading, detail={**reading.detail, "n_rows": part.n_rows})
            for entry in entries
            if (reading := _reading(entry, part, [], table, name)).value is not None
        }
    return readings


def _group_name(by: Any, key: Any) -> str:
    if by != "frequency":
        return "no label" if key is None else str(key)
    return "frequency 0" if key == -1000 else f"frequency 1e{key} to 1e{key + 1}"


def _told(progress: Callable[..., None], table: Any) -> Callable[[str, int], None]:
    return lambda phase, done: progress(table.name, phase, done, table.n_rows)


def provenance(source: Any, names: list[str], settings: Settings) -> dict[str, Any]:
    """What a report was made from, and with what."""
    return {
        "fullspan": fullspan.__version__,
        "numpy": np.__version__,
        "python": sys.version.split()[0],
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "source": [_name_of(each) for each in source] if isinstance(source, list) else _name_of(source),
        "measures": names,
        "sample": settings.sample,
        "seed": settings.seed,
        **({} if settings.products == "float64" else {"products": settings.products}),
    }


def _name_of(source: Any) -> str:
    """The path, or the kind of object."""
    return str(source) if _is_path(source) else type(source).__name__


def _is_path(source: Any) -> bool:
    return isinstance(source, str) or hasattr(source, "__fspath__")
