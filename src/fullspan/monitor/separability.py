"""How well labels separate in a table over training time, with and without a normalizer, side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError, UnknownNameError, did_you_mean
from fullspan.measures import _check
from fullspan.measures.separability import Separation, neighbor_purity_estimate, silhouette_estimate
from fullspan.monitor.frames import Frames, choose_rows, gather
from fullspan.store.records import Moment, Point

__all__ = ["NORMALIZERS", "Separability", "SeparationAt", "normalized", "separability"]

MEASURES = ("neighbor_purity", "silhouette")


def _center(E: Array) -> Array:
    return E - E.mean(axis=0)


def _unit(E: Array) -> Array:
    norms = np.sqrt(np.vecdot(E, E))[:, None]
    return E / np.where(norms > 0, norms, 1.0)


def _standardize(E: Array) -> Array:
    spread = E.std(axis=0)
    return (E - E.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _min_max(E: Array) -> Array:
    low, span = E.min(axis=0), np.ptp(E, axis=0)
    return (E - low) / np.where(span > 0, span, 1.0)


def _whiten(E: Array) -> Array:
    """Unit variance along every principal axis; directions without variance are left out."""
    centered = E - E.mean(axis=0)
    left, values, _ = np.linalg.svd(centered, full_matrices=False)
    kept = values > values.max(initial=0.0) * 1e-6
    return left[:, kept] * np.sqrt(len(E)) if kept.any() else centered


#: Name to what it does to a table; ``+`` joins several. ``none`` is the null: nothing is changed.
NORMALIZERS: dict[str, Callable[[Array], Array]] = {
    "none": lambda E: E,
    "center": _center,
    "l2": _unit,
    "standardize": _standardize,
    "min-max": _min_max,
    "whiten": _whiten,
}


def normalized(E: Any, normalizer: str) -> Array:
    """A table after one or more simple normalizers.

    Parameters
    ----------
    E
        Table ``(n, dim)``.
    normalizer
        ``"none"``, ``"center"`` (mean row out), ``"l2"`` (rows to length 1; zero rows stay), ``"standardize"`` (mean 0
        and variance 1 in each dimension), ``"min-max"`` (each dimension to [0, 1]), ``"whiten"`` (variance 1 along
        each principal axis); or several, joined by ``+`` in the order they are applied: ``"center+l2"``.

    Returns
    -------
    array of shape ``(n, dim)``
        float64. Dimensions without variance become 0; ``whiten`` leaves directions without variance out.

    Raises
    ------
    UnknownNameError
        No normalizer of that name.

    Examples
    --------
    >>> normalized([[0.0, 3.0], [2.0, 3.0]], "standardize").tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    table = _check.table(E, "normalized")
    for name in normalizer.split("+"):
        if name not in NORMALIZERS:
            raise UnknownNameError(
                f'normalized needs a normalizer, or several joined by "+"; got "{name}".'
                f"{did_you_mean(name, NORMALIZERS)} They are: {', '.join(NORMALIZERS)}."
            )
        table = NORMALIZERS[name](table)
    return table


@dataclass(frozen=True)
class SeparationAt:
    """How well labels separate at one moment, after one normalizer.

    Parameters
    ----------
    at, measure, normalizer
        The moment; ``"neighbor_purity"`` or ``"silhouette"``; what was done to the vectors before.
    value, standard_error
        The measure and its standard error over the rows; None where it is undefined, and `why` says why.
    chance, chance_deviation
        Mean and standard deviation of the measure when the labels are permuted.
    gain, gain_error
        How much farther the value is above its chance level than that of the first normalizer on the same rows, and
        the standard error of this: of the paired difference, and of the difference over permutations of the labels.
    n_rows
        Rows that were asked.
    """

    at: Moment
    measure: str
    normalizer: str
    value: float | None
    standard_error: float | None = None
    chance: float | None = None
    chance_deviation: float | None = None
    gain: float | None = None
    gain_error: float | None = None
    n_rows: int | None = None
    why: str | None = None


@dataclass(frozen=True)
class Separability:
    """Separability of the labels of a table over training time.

    Parameters
    ----------
    table, metric, k
        Name of the table, how rows are compared, and neighbors behind the purity.
    n_rows, n_labels
        Rows that were read, and labels among them.
    normalizers
        What was done to the vectors; gains are against the first of them.
    records
        One for each moment, measure and normalizer.
    notes
        Plain sentences on rows and frames that were left out.
    """

    table: str
    metric: str
    k: int
    n_rows: int
    n_labels: int
    normalizers: tuple[str, ...]
    records: tuple[SeparationAt, ...]
    notes: tuple[str, ...] = ()

    def of(self, measure: str, normalizer: str) -> list[SeparationAt]:
        """The records of one measure after one normalizer, by step."""
        return [each for each in self.records if (each.measure, each.normalizer) == (measure, normalizer)]

    def points(self) -> list[Point]:
        """The values as points that a run can hold: ``neighbor_purity``, ``neighbor_purity|center+l2``, and so on."""
        return [
            Point(self.table, _name(each, self.metric), each.at, each.value, each.n_rows, each.why)
            for each in self.records
        ]

    def to_dict(self) -> dict[str, Any]:
        """All of it as values that JSON can hold."""
        return asdict(self)

    def to_json(self) -> str:
        """All of it as a line of JSON."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def text(self) -> str:
        """A table for each measure: a row for each step, a column for each normalizer, gains with standard errors."""
        parts = [line for measure in MEASURES for line in (*self._table(measure), "")]
        return "\n".join([*parts, *self.notes]).rstrip()

    def _table(self, measure: str) -> Iterator[str]:
        columns = [self.of(measure, each) for each in self.normalizers]
        about = f"{self.metric}, {self.n_rows:,} rows, {self.n_labels} labels"
        yield f"{measure} ({about})" if measure == "silhouette" else f"{measure} ({self.k} neighbors, {about})"
        heads = ["step", "by chance", self.normalizers[0]]
        heads += [head for each in self.normalizers[1:] for head in (each, "gain")]
        lines = [heads]
        for row in zip(*columns, strict=True):
            cells = [str(row[0].at.step), _number(row[0].chance), _with_error(row[0].value, row[0].standard_error)]
            for each in row[1:]:
                cells += [_number(each.value), _with_error(each.gain, each.gain_error, "+")]
            lines.append(cells)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            yield "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _name(record: SeparationAt, metric: str) -> str:
    tags = [record.normalizer] if record.normalizer != "none" else []
    tags += [metric] if metric != "cosine" else []
    return "|".join([record.measure, *tags])


def _number(value: float | None, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.4f}"


def _with_error(value: float | None, error: float | None, sign: str = "") -> str:
    return _number(value, sign) if value is None or error is None else f"{value:{sign}.4f} ± {error:.4f}"


def separability(
    run: Any = None,
    table: str | None = None,
    labels: Any = None,
    normalizers: Sequence[str] = ("none", "center+l2", "standardize"),
    *,
    metric: str = "cosine",
    k: int = 10,
    rows: int = 4096,
    seed: int = 0,
    frames: Sequence[Any] | None = None,
    steps: Sequence[int] | None = None,
    row_ids: Any = None,
    max_frames: int | None = 20,
    progress: Callable[[str, str, int, int | None], None] | None = None,
) -> Separability:
    """Read how well labels separate in a table at several steps, with and without normalizers.

    Neighbor purity and silhouette of the vectors, not of a map of them, each with its standard error and its value for
    permuted labels; and the gain of each normalizer over the first one on the same rows, so that a normalizer that
    does nothing reads as nothing. The silhouette of labels that mean nothing is not 0 and moves with the normalizer, so
    that gains are of the distance from chance.

    Parameters
    ----------
    run
        A run directory or :class:`~fullspan.Run` with snapshots of the table.
    table
        Name of the table; None takes the only one.
    labels
        One label for each row of the table, found by its position, or the path of a file with one a line; None takes
        those in the snapshots. Rows whose label is None, NaN or empty are left out.
    normalizers
        Names as in :func:`normalized`; the first is what the others are compared with.
    metric
        ``"cosine"`` or ``"euclidean"``. Lengths of rows mean nothing to the cosine: ``"l2"`` alone changes nothing.
    k
        Neighbors behind the purity.
    rows, seed
        At most so many rows, the same in all frames, drawn with the seed. Normalizers are fitted to these rows.
    frames, steps, row_ids
        Arrays ``(n, dim)`` with the same rows in place of a run, their steps, and the ids of the rows.
    max_frames
        More snapshots than this are thinned evenly; None keeps all.
    progress
        Called as ``progress(table, phase, frames_done, n_frames)``.

    Returns
    -------
    Separability
        `records`, `points()` that a run can hold, `text()` and `to_json()`.

    Raises
    ------
    InputError
        No labels, no snapshots, or fewer than two rows with a label.
    UnknownNameError
        No such table or normalizer.

    Notes
    -----
    4,096 rows of 64 take about 0.5 s a frame and normalizer. Values depend on the number of rows and on k.

    References
    ----------
    Rousseeuw 1987 (silhouette); Cover and Hart 1967 (nearest neighbors).

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.repeat(["a", "b"], 50)
    >>> E = np.random.default_rng(0).normal(size=(100, 4))
    >>> found = separability(
    ...     frames=[E, E + 3 * (labels == "a")[:, None]], labels=labels, normalizers=["none", "center"]
    ... )
    >>> [each.value > 0.9 for each in found.of("neighbor_purity", "center")]
    [False, True]
    """
    call = "separability"
    names = _names(normalizers, call)
    found = gather(call, run, table, frames=frames, steps=steps, row_ids=row_ids, labels=labels, max_frames=max_frames)
    found = choose_rows(_with_labels(found, call), rows, seed, head=False)
    labels = np.asarray(found.labels).astype(str)
    kinds = len(np.unique(labels))
    records: list[SeparationAt] = []
    for done, (at, vectors) in enumerate(zip(found.moments, found.vectors, strict=True), start=1):
        records += _at(at, vectors, labels, names, metric, k, seed)
        if progress is not None:
            progress(found.table, "separability", done, len(found.moments))
    return Separability(found.table, metric, k, found.n_rows, kinds, names, tuple(records), found.notes)


def _names(normalizers: Sequence[str], call: str) -> tuple[str, ...]:
    names = (normalizers,) if isinstance(normalizers, str) else tuple(normalizers)
    if not names or len(set(names)) < len(names):
        raise InputError(f"{call} needs one normalizer or more, each once; got {list(names)}.")
    for each in names:
        normalized([[1.0]], each)
    return names


def _with_labels(found: Frames, call: str) -> Frames:
    if found.labels is None:
        raise InputError(f"{call} needs a label for each row; got none, nor do the snapshots hold any. Pass labels=.")
    has = np.array([not _missing(each) for each in found.labels.tolist()], dtype=bool)
    lost = int((~has).sum())
    if len(has) - lost < 2:
        raise InputError(f"{call} needs at least two rows with a label; got {len(has) - lost}.")
    return found.only(np.flatnonzero(has), f"{lost:,} rows left out that have no label.") if lost else found


def _missing(label: Any) -> bool:
    return label is None or label == "" or label != label


def _at(
    at: Moment, vectors: Array, labels: Array, names: tuple[str, ...], metric: str, k: int, seed: int
) -> Iterator[SeparationAt]:
    first: dict[str, Separation] = {}
    for name in names:
        table = normalized(vectors, name)
        for measure in MEASURES:
            try:
                read = _read(measure, table, labels, metric, k, seed)
            except UndefinedMeasureError as error:
                yield SeparationAt(at, measure, name, None, why=str(error))
                continue
            if name == names[0]:
                first[measure] = read
            yield _record(at, measure, name, read, first.get(measure) if name != names[0] else None)


def _read(measure: str, table: Array, labels: Any, metric: str, k: int, seed: int) -> Separation:
    if measure == "silhouette":
        return silhouette_estimate(table, labels, metric=metric, seed=seed)
    return neighbor_purity_estimate(table, labels, k, metric=metric, seed=seed)


def _record(at: Moment, measure: str, name: str, read: Separation, base: Separation | None) -> SeparationAt:
    gain, error = (None, None) if base is None else _gain(read, base)
    return SeparationAt(
        at,
        measure,
        name,
        read.value,
        read.standard_error,
        read.chance,
        read.chance_deviation,
        gain,
        error,
        read.n_rows,
    )


def _gain(read: Separation, base: Separation) -> tuple[float | None, float | None]:
    """Difference of two values above their chance levels on the rows of both, and its standard error."""
    _, here, there = np.intersect1d(read.rows, base.rows, assume_unique=True, return_indices=True)
    if len(here) < 2:
        return None, None
    change = read.samples[here] - base.samples[there]
    gain = float(change.mean()) - (read.chance - base.chance)
    paired = float(change.std(ddof=1) / np.sqrt(len(change)))
    if len(read.rows) == len(base.rows):  # the same permutations: what they change in both is no error of the gain
        return gain, float(np.hypot(paired, (read.permuted - base.permuted).std(ddof=1)))
    return gain, float(np.hypot(paired, np.hypot(read.chance_deviation, base.chance_deviation)))
