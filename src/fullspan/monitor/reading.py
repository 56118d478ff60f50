"""What is read from a table at one moment: a pulse of its sampled rows, or a full pass over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError
from fullspan.io.arrays import open_tables
from fullspan.io.base import ArrayTable, OpenOptions, with_beside
from fullspan.jobs.measure import measure_table
from fullspan.jobs.passes import Settings
from fullspan.jobs.threads import one_thread
from fullspan.measures import catalog
from fullspan.measures.evidence import SECOND_PASS
from fullspan.monitor.tables import Watched, dtype_of, take_rows
from fullspan.store.records import Moment, Point, TableRecord

__all__ = ["DEFAULT_MEASURES", "Measures", "Rows", "full_pass", "points_of", "pulse", "rows_of"]

DEFAULT_MEASURES = (
    "gini_index",
    "hoyer_sparsity",
    "vector_entropy",
    "spectral_entropy",
    "information_abundance",
    "effective_rank",
    "stable_rank",
    "participation_ratio",
    "inverse_condition_number",
    "mean_norm",
    "mean_norm_ratio",
    "average_cosine",
    "isotropy",
)
_WITH_FREQUENCIES = ("length_frequency_correlation",)
_FROM_SAMPLE = {"sample", "neighbors", "sample_uniformity"}


@dataclass(frozen=True)
class Measures:
    """Which measures are read, and how.

    Parameters
    ----------
    names
        Catalog names, for full passes.
    pulse
        Those that a sample of rows can tell: not those that need eigenvectors first.
    asked
        Whether the user chose them, so that one that cannot be read says why.
    neighbors
        Whether one of them needs neighbors.
    hygiene
        Whether full passes look for damaged rows as well, for the rules.
    seed
        Seed of the samples within a reading.
    """

    names: tuple[str, ...]
    pulse: tuple[str, ...]
    asked: bool
    neighbors: bool
    hygiene: bool
    seed: int

    @classmethod
    def of(cls, names: Iterable[str] | str | None, *, frequencies: bool, hygiene: bool, seed: int) -> Measures:
        """The measures of these names or aliases; None takes those of :data:`DEFAULT_MEASURES`."""
        asked = names is not None
        if names is None:
            names = (*DEFAULT_MEASURES, *(_WITH_FREQUENCIES if frequencies else ()))
        elif isinstance(names, str):
            names = [part.strip() for part in names.split(",") if part.strip()]
        entries = {entry.name: entry for entry in map(catalog.get, names)}
        unreadable = next((entry.name for entry in entries.values() if entry.read is None), None)
        if unreadable is not None:
            raise InputError(f"watch needs measures of one table; got {unreadable}, which compares two.")
        if not entries:
            raise InputError("watch needs at least one measure; got an empty list. `fullspan measures` lists all.")
        needs = {need for entry in entries.values() for need in entry.needs}
        on_pulses = tuple(name for name, entry in entries.items() if not SECOND_PASS.keys() & set(entry.needs))
        return cls(tuple(entries), on_pulses, asked, bool(_FROM_SAMPLE & needs), hygiene, seed)

    @property
    def settings(self) -> Settings:
        return Settings(neighbors=self.neighbors, standard_errors=False, seed=self.seed)


@dataclass(frozen=True)
class Rows:
    """Rows of a table on the host, copied at one moment.

    Parameters
    ----------
    values, positions
        ``(n, dim)`` and ``(n,)``.
    dtype
        The type that the table is stored in.
    frequencies, labels
        One value a row, or None.
    """

    values: Array
    positions: Array
    dtype: str
    frequencies: Array | None = None
    labels: Array | None = None


def rows_of(watched: Watched, value: Any, positions: Array) -> Rows:
    """A copy of some rows of a table."""
    values = take_rows(value, positions)
    beside = (watched.beside(what, positions) for what in ("frequencies", "labels"))
    return Rows(values, positions, dtype_of(value), *beside)


def pulse(watched: Watched, rows: Rows, measures: Measures) -> TableRecord:
    """The record of a sample of rows: as `measure` would read these rows alone."""
    table = ArrayTable(watched.name, rows.values, dtype=rows.dtype)
    return _record(table, rows.frequencies, measures, full=False)


def full_pass(watched: Watched, value: Any, measures: Measures) -> TableRecord:
    """The record of the whole table, streamed to the host in blocks: as `measure` would read it."""
    if callable(getattr(value, "blocks", None)):
        table = value
    else:
        [table] = open_tables({watched.name: value}, [watched.name], OpenOptions())
    return _record(table, watched.beside("frequencies"), measures, full=True)


def _record(table: Any, frequencies: Array | None, measures: Measures, *, full: bool) -> TableRecord:
    names = list(measures.names if full else measures.pulse)
    if frequencies is not None:
        table = with_beside(table, frequencies=frequencies)
    hygiene = full and measures.hygiene
    with one_thread():
        return measure_table(table, names, measures.settings, hygiene=hygiene, explicit=measures.asked, profile=True)


def points_of(table: str, record: TableRecord, at: Moment) -> Iterator[Point]:
    """The readings of a record as points."""
    n_rows = record.n_rows - record.n_excluded
    for name, reading in record.readings.items():
        yield Point(table, name, at, reading.value, n_rows, reading.why)


def singular_values(record: TableRecord) -> Array | None:
    """Singular values of the table as it is, largest first, or None where they were not read."""
    values = record.profile.get("singular_values")
    return None if not values else np.asarray(values, dtype=np.float64)
