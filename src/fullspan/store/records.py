"""Plain records: what was read from a table, when, and what was found wrong with it. No arithmetic lives here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "Attempt",
    "Curve",
    "Event",
    "Finding",
    "MapFrames",
    "Moment",
    "Point",
    "Reading",
    "TableRecord",
    "WatchedMeasure",
    "WatchedTable",
]


@dataclass(frozen=True)
class Reading:
    """One measure of one table.

    Parameters
    ----------
    measure
        Catalog name, such as ``"information_abundance"``.
    value
        The number, or None when the measure is undefined on this table; `why` then says why.
    standard_error
        Standard error of the value over the rows (block jackknife unless `error_method` says otherwise), or None.
    null
        Value expected of an isotropic Gaussian table of the same shape, or None where no such value exists.
    null_deviation
        Standard deviation of the measure over such Gaussian tables, or None.
    below_resolution
        True when the value is smaller than what the stored precision can resolve: read it as "at most this".
    table, group
        Table name, and the group within it (``None`` for the whole table).
    detail
        More about the number: the dimension or row it comes from, the sample it was taken on.
    """

    measure: str
    value: float | None
    standard_error: float | None = None
    null: float | None = None
    null_deviation: float | None = None
    below_resolution: bool = False
    why: str | None = None
    table: str = ""
    group: str | None = None
    error_method: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """Something wrong with a table, with its evidence and what to do.

    Parameters
    ----------
    rule
        Name of the rule that fired, such as ``"dimensional-collapse"``.
    severity
        ``"note"``, ``"warn"`` or ``"fail"``.
    title
        One line in plain words.
    evidence
        The readings it rests on, each as ``{"measure", "value", "null", "threshold", ...}``, and rows or dimensions.
    cause, remedy, verify
        The likely cause; the exact command or code to run; how to see that it helped.
    docs
        Where the documentation explains it.
    table, group
        Table name, and the group within it.
    waived
        Reason of the waiver when the user's rules waive this finding, else None.
    """

    rule: str
    severity: str
    title: str
    evidence: tuple[dict[str, Any], ...] = ()
    cause: str = ""
    remedy: str = ""
    verify: str = ""
    docs: str = ""
    table: str = ""
    group: str | None = None
    waived: str | None = None


@dataclass(frozen=True)
class TableRecord:
    """All that was read from one table, as plain values.

    Parameters
    ----------
    table, source, dtype
        Name of the table, where it was read from, and the type it is stored in.
    n_rows, dim
        Rows read (all of them, also the excluded ones) and row length.
    n_excluded
        Rows with NaN or infinity: named in `hygiene`, left out of every reading.
    passes
        How many times the rows were read.
    sample_rows
        Rows in the sample that neighbors were searched in; 0 when none were.
    error_groups
        Groups of the block jackknife behind the standard errors; 0 when there was none.
    readings
        Measure name to :class:`Reading`, in the order of the catalog.
    groups
        Group name to its readings, when groups were asked for.
    hygiene
        Counts of damaged rows and columns, each ``{"count": int, "rows": [{"position": int, "id": ...}]}`` or
        ``{"count": int, "columns": [int]}``: ``nan_rows``, ``inf_rows``, ``zero_rows``, ``constant_rows``,
        ``denormal_rows``, ``saturated_rows``, ``constant_columns``, ``zero_columns``, ``non_finite_columns``;
        ``duplicate_columns`` with ``groups``; ``duplicate_rows`` with ``exact``, ``n_distinct``, ``relative_error`` and
        ``groups`` of ``{"size", "rows"}``; ``largest_entry`` with ``value``, ``position``, ``dimension``, ``id``.
    profile
        Curves behind the numbers: ``singular_values``, ``centered_singular_values``, ``null_singular_values`` (lists);
        ``norm``, ``gini_index``, ``vector_entropy``, ``hoyer_sparsity`` with ``q``, ``values``, ``mean``,
        ``deviation``, ``lowest`` and ``highest`` rows ``{"position", "id", "value"}``;
        ``dimension_shares`` ``[{"dimension", "share"}]``;
        ``dimension_quantiles`` with ``q05``, ``median``, ``q95``; ``cosine`` with ``edges`` and ``counts``;
        ``frequency`` with ``deciles`` ``[{"low", "high", "mean_norm", "count"}]`` and ``zero_count``;
        ``neighbors`` with ``k``, ``occurrences``, ``copies`` and ``near_copies`` (rows); ``precision`` with ``eps`` and
        ``offset_over_spread``.
        A key is missing when its source was not read.
    notes
        Plain sentences on how the numbers were had: samples, sketches, precision.
    """

    table: str
    source: str
    dtype: str
    n_rows: int
    dim: int
    n_excluded: int = 0
    passes: int = 1
    sample_rows: int = 0
    error_groups: int = 0
    readings: dict[str, Reading] = field(default_factory=dict)
    groups: dict[str, dict[str, Reading]] = field(default_factory=dict)
    hygiene: dict[str, Any] = field(default_factory=dict)
    profile: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Moment:
    """When something was read: the same instant on the four clocks of a training run.

    Parameters
    ----------
    step
        Optimizer steps taken so far: accumulated micro-batches count once.
    epoch
        Epochs finished so far, fractional within an epoch, or None when nobody counts them.
    samples
        Training samples seen so far, or None.
    wall
        Seconds since 1970-01-01 UTC, as ``time.time()`` gives them.
    """

    step: int
    epoch: float | None = None
    samples: int | None = None
    wall: float = 0.0


@dataclass(frozen=True)
class Point:
    """One measure of one table at one moment.

    Parameters
    ----------
    table
        Name of the table; ``""`` is the run itself: its loss, its learning rate, the cost of watching it.
    measure
        Catalog name, or the name of a scalar of the run.
    at
        The moment it was read at.
    value
        The number, or None when it is undefined or not finite; `why` then says why.
    n_rows
        Rows it was read from: fewer than the table has when it is a sample. None for scalars of the run.
    """

    table: str
    measure: str
    at: Moment
    value: float | None
    n_rows: int | None = None
    why: str | None = None


@dataclass(frozen=True)
class Event:
    """Something that happened in a run: a rule that fired, an error of the watcher, a note.

    Parameters
    ----------
    at
        The moment it happened at.
    level
        ``"note"``, ``"warn"``, ``"fail"``, or ``"error"`` for what went wrong with the watching itself.
    rule
        Name of the rule that fired, or ``""``.
    table
        The table it is about; ``""`` is the run itself.
    message
        One line in plain words.
    detail
        Evidence and remedy, as values that JSON can hold.
    """

    at: Moment
    level: str
    rule: str
    table: str
    message: str
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MapFrames:
    """A table drawn in the plane at several steps: the same rows in every frame.

    Parameters
    ----------
    table, method
        Name of the table, and what drew it: ``"pca"``, ``"pacmap"``, ``"tsne"``, ``"umap"``.
    steps
        Shape (n_frames,), integers, increasing.
    epochs
        Shape (n_frames,), NaN where nobody counted epochs.
    row_ids
        Shape (n_points,): positions of the rows in the table.
    positions
        Shape (n_frames, n_points, 2), float32.
    colors
        Name to one value a row, shape (n_points,): numbers, or words for a legend.
    displacement
        Shape (n_frames,): median move of a row since the frame before, over the spread of the map; 0 for the first.
    preservation
        Shape (n_frames,): share of nearest neighbors in the table that are neighbors on the map, in [0, 1].
    notes
        Plain sentences on how the map was drawn.
    """

    table: str
    method: str
    steps: np.ndarray
    epochs: np.ndarray
    row_ids: np.ndarray
    positions: np.ndarray
    colors: dict[str, np.ndarray] = field(default_factory=dict)
    displacement: np.ndarray | None = None
    preservation: np.ndarray | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class WatchedTable:
    """A table of a run: the shape is of the whole table, also where only a sample of its rows is read.

    Parameters
    ----------
    name
        Name of the table.
    n_rows, dim
        Its shape, or None when nobody has said it.
    dtype
        Name of its type in memory.
    also
        Other names of the same (tied) weights.
    note
        One line on how it is watched, or None.
    """

    name: str
    n_rows: int | None = None
    dim: int | None = None
    dtype: str | None = None
    also: tuple[str, ...] = ()
    note: str | None = None


@dataclass(frozen=True)
class WatchedMeasure:
    """A measure of a run, with what a reader of its curve needs.

    Parameters
    ----------
    name, title
        Name, and the name in plain words, or None.
    unit
        Unit of its values, or None.
    better
        ``"higher"`` or ``"lower"`` where one of them is healthier, else None.
    """

    name: str
    title: str | None = None
    unit: str | None = None
    better: str | None = None


@dataclass(frozen=True)
class Attempt:
    """One writing of a run: the first, or one that resumed it.

    Parameters
    ----------
    number
        1 for the first.
    started, ended
        Seconds since 1970-01-01 UTC; `ended` is None while it runs, and when it was killed.
    resume_step
        It goes on after this step: what older attempts wrote later is superseded. None for a first attempt.
    status
        ``"finished"``, ``"stopped"`` or ``"failed"``, or None where nobody has said it.
    host, pid
        Where it was written.
    version
        The fullspan that wrote it.
    journal
        ``"wal"`` or ``"delete"``: how SQLite kept it whole.
    config
        What the user said about it.
    """

    number: int
    started: float
    ended: float | None
    resume_step: int | None
    status: str | None
    host: str
    pid: int
    version: str
    journal: str
    config: dict[str, Any] | None = None


@dataclass(frozen=True)
class Curve:
    """One measure of one table over time: arrays of shape (n_points,), by increasing step.

    Parameters
    ----------
    table, measure
        What it is the curve of.
    step
        Integers, strictly increasing.
    epoch, samples, wall
        The other clocks, float64; NaN where nobody counted.
    value
        Finite float64.
    n_rows
        Rows each value was read from; 0 where that has no meaning.
    undefined
        How many points were left out because they have no value.
    """

    table: str
    measure: str
    step: np.ndarray
    epoch: np.ndarray
    samples: np.ndarray
    wall: np.ndarray
    value: np.ndarray
    n_rows: np.ndarray
    undefined: int = 0

    def __len__(self) -> int:
        return len(self.step)
