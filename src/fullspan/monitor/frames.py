"""The same rows of a table at several steps, from the snapshots of a run or from arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UnknownNameError, did_you_mean
from fullspan.io.beside import checked_frequencies, given_values, is_path
from fullspan.measures import _check
from fullspan.monitor.sample import map_rows
from fullspan.store.records import Moment

__all__ = ["Frames", "by_row", "choose_rows", "decile", "gather", "spread_out"]


@dataclass(frozen=True, eq=False)
class Frames:
    """A table at several steps, aligned row by row.

    Parameters
    ----------
    table
        Its name.
    moments
        When each frame was copied.
    row_ids
        ``(n_rows,)`` what the rows are, in ascending order: positions in the table, or names.
    vectors
        One array ``(n_rows, dim)`` a frame, without NaN or infinity.
    labels
        ``(n_rows,)`` label of each row, or None.
    frequencies, deciles
        ``(n_rows,)`` how often each row occurs, and the tenth of the rows it belongs to by that, from 1; or None.
    notes
        Plain sentences on rows and frames that were left out.
    """

    table: str
    moments: tuple[Moment, ...]
    row_ids: Array
    vectors: tuple[Array, ...]
    labels: Array | None = None
    frequencies: Array | None = None
    deciles: Array | None = None
    notes: tuple[str, ...] = ()

    @property
    def steps(self) -> Array:
        return np.array([each.step for each in self.moments], dtype=np.int64)

    @property
    def epochs(self) -> Array:
        """NaN where nobody counted them."""
        return np.array([np.nan if each.epoch is None else each.epoch for each in self.moments], dtype=np.float64)

    @property
    def n_rows(self) -> int:
        return len(self.row_ids)

    def only(self, chosen: Array | slice, *notes: str) -> Frames:
        """Some of the rows, in every frame."""
        beside = {
            name: None if values is None else values[chosen]
            for name, values in (("labels", self.labels), ("frequencies", self.frequencies), ("deciles", self.deciles))
        }
        vectors = tuple(each[chosen] for each in self.vectors)
        return replace(self, row_ids=self.row_ids[chosen], vectors=vectors, notes=(*self.notes, *notes), **beside)


def gather(
    call: str,
    run: Any = None,
    table: str | None = None,
    *,
    frames: Sequence[Any] | None = None,
    steps: Sequence[int] | None = None,
    row_ids: Any = None,
    labels: Any = None,
    frequencies: Any = None,
    max_frames: int | None = None,
) -> Frames:
    """The rows that all snapshots of a table share and that are finite in all of them.

    Parameters
    ----------
    call
        Who asks, for the messages.
    run, table
        A run directory or :class:`~fullspan.store.runs.Run`, and the name of the table; None takes the only one.
    frames, steps, row_ids
        Arrays ``(n, dim)`` with the same rows in place of a run; their steps (0, 1, …), and their ids (0 to n - 1).
    labels, frequencies
        One value for each row of the table, found by the row's position, or a file of them; in place of those that
        the run holds.
    max_frames
        More frames than this are thinned evenly, the first and the last kept.
    """
    if (run is None) == (frames is None):
        raise InputError(f"{call} needs a run or frames=, one of the two; got {'neither' if run is None else 'both'}.")
    if frames is not None:
        found = _of_arrays(call, table or "", frames, steps, row_ids, max_frames)
    else:
        found = _of_run(call, run, table, max_frames)
    if labels is not None:
        of_table = given_values(labels, "labels") if is_path(labels) else labels
        found = replace(found, labels=by_row(call, of_table, found.row_ids, "labels"))
    if frequencies is not None:
        counts = checked_frequencies(given_values(frequencies, "frequencies"))
        of_rows = [by_row(call, values, found.row_ids, "frequencies") for values in (counts, decile(counts))]
        found = replace(found, frequencies=of_rows[0], deciles=of_rows[1])
    return _finite(found, call)


def spread_out(n: int, at_most: int | None) -> Array:
    """Positions of at most so many of n frames, evenly spaced, the first and the last among them."""
    if at_most is None or n <= at_most:
        return np.arange(n)
    return np.unique(np.linspace(0, n - 1, max(at_most, 1)).round().astype(int)) if at_most > 1 else np.array([n - 1])


def _thinned(call: str, n: int, max_frames: int | None) -> tuple[Array, tuple[str, ...]]:
    if max_frames is not None and max_frames < 1:
        raise InputError(f"{call} needs max_frames ≥ 1; got {max_frames}.")
    kept = spread_out(n, max_frames)
    return kept, (f"{len(kept)} of {n} frames, evenly spaced.",) if len(kept) < n else ()


def _of_arrays(
    call: str, table: str, frames: Sequence[Any], steps: Sequence[int] | None, row_ids: Any, max_frames: int | None
) -> Frames:
    arrays = [_check.to_numpy(each, call) for each in frames]
    if not arrays:
        raise InputError(f"{call} needs at least one frame; got none.")
    shapes = {each.shape for each in arrays}
    if len(shapes) > 1 or arrays[0].ndim != 2:
        raise InputError(f"{call} needs frames of one shape (rows, dim); got {sorted(map(str, shapes))}.")
    ids = np.arange(len(arrays[0])) if row_ids is None else np.asarray(row_ids)
    when = np.arange(len(arrays)) if steps is None else np.asarray(steps, dtype=np.int64)
    if len(when) != len(arrays) or (np.diff(when) <= 0).any():
        raise InputError(f"{call} needs one step a frame, increasing; got {when.tolist()} for {len(arrays)} frames.")
    if ids.shape != (len(arrays[0]),) or len(np.unique(ids)) < len(ids):
        raise InputError(f"{call} needs one id a row, each once; got {len(np.unique(ids))} for {len(arrays[0])} rows.")
    kept, notes = _thinned(call, len(arrays), max_frames)
    order = np.argsort(ids, kind="stable")
    vectors = tuple(arrays[each][order] for each in kept)
    return Frames(table, tuple(Moment(int(when[each])) for each in kept), ids[order], vectors, notes=notes)


def _of_run(call: str, run: Any, table: str | None, max_frames: int | None) -> Frames:
    if isinstance(run, (str, os.PathLike)):
        from fullspan.store.runs import Run

        with Run.open(run) as opened:
            return _of_run(call, opened, table, max_frames)
    name = _table_name(call, run, table)
    shots = run.snapshots(name)
    if not shots:
        raise InputError(
            f"{call} needs a table with snapshots; got none of {name!r}. Watch it with snapshots=True, or pass frames=."
        )
    kept, notes = _thinned(call, len(shots), max_frames)
    shots = [shots[each] for each in kept]
    read = [each.read() for each in shots]
    ids, where, notes_of_rows = _shared(call, [each.row_ids for each in read])
    vectors = tuple(each.vectors[at] for each, at in zip(read, where, strict=True))
    if len({each.shape[1] for each in vectors}) > 1:
        dims = sorted({each.shape[1] for each in vectors})
        raise InputError(
            f"{call} needs snapshots of one dim; got {dims} of {name!r}. Was the model changed in between?"
        )
    labels = read[-1].labels
    counts = _frequencies(run, name, shots[0].at.step, where[0])
    return Frames(
        table=name,
        moments=tuple(each.at for each in shots),
        row_ids=ids,
        vectors=vectors,
        labels=None if labels is None else labels[where[-1]],
        frequencies=counts,
        deciles=None if counts is None else decile(counts),
        notes=(*notes, *notes_of_rows),
    )


def _frequencies(run: Any, table: str, step: int, where: Array) -> Array | None:
    """What the run holds on how often the rows of its first snapshot occur."""
    held = [values for at, values in run.vectors(table, "frequencies") if at.step == step]
    return held[0][where] if held and len(held[0]) > int(where.max(initial=-1)) else None


def _table_name(call: str, run: Any, table: str | None) -> str:
    known = list(run.tables)
    if table is None:
        if len(known) == 1:
            return known[0]
        raise InputError(f"{call} needs table= to name one of the tables of the run; got None. They are: {known}.")
    if table not in known:
        raise UnknownNameError(f'{call} needs a table of the run; got "{table}".{did_you_mean(table, known)}')
    return table


def _shared(call: str, ids: list[Array]) -> tuple[Array, list[Array], tuple[str, ...]]:
    """Ids in all of the lists, where they stand in each, and a note on those that are not in all."""
    shared = ids[0]
    for each in ids:
        if len(np.unique(each)) < len(each):
            raise InputError(f"{call} needs snapshots with each row once; got {len(each)} rows with repeated ids.")
        shared = np.intersect1d(shared, each)
    where = []
    for each in ids:
        order = np.argsort(each, kind="stable")
        where.append(order[np.searchsorted(each, shared, sorter=order)])
    everywhere = ids[0]
    for each in ids[1:]:
        everywhere = np.union1d(everywhere, each)
    lost = len(everywhere) - len(shared)
    notes = (f"{lost:,} rows left out that are missing from some frames.",) if lost else ()
    return shared, where, notes


def by_row(call: str, values: Any, row_ids: Array, what: str) -> Array:
    """Values for the rows of the frames, from one value for each row of the table."""
    found = np.asarray(values)
    if found.ndim != 1:
        raise InputError(f"{call} needs {what} as a 1-D array; got shape {found.shape}.")
    if row_ids.dtype.kind in "iu" and len(row_ids) and len(found) > int(row_ids.max()):
        return found[row_ids]
    last = row_ids.max() if row_ids.dtype.kind in "iu" else f"named {str(row_ids[0])!r}"
    raise InputError(
        f"{call} needs {what} for each row of the table, found by its position; got {len(found)} and a row {last}."
    )


def _readable(found: Frames) -> Frames:
    """Without the frames that have next to no finite rows, so that one broken moment does not hide the others."""
    finite = [int(np.isfinite(each).all(axis=1).sum()) for each in found.vectors]
    kept = [place for place, rows in enumerate(finite) if rows >= 2]
    if len(kept) == len(finite) or not kept:
        return found
    steps = ", ".join(f"{found.moments[place].step:,}" for place in range(len(finite)) if place not in kept)
    lost = len(finite) - len(kept)
    frames = "One frame" if lost == 1 else f"{lost} frames"
    note = f"{frames} left out, with NaN or infinity in every row or all but one: step {steps}."
    return replace(
        found,
        moments=tuple(found.moments[place] for place in kept),
        vectors=tuple(found.vectors[place] for place in kept),
        notes=(*found.notes, note),
    )


def _finite(found: Frames, call: str) -> Frames:
    found = _readable(found)
    good = np.ones(found.n_rows, dtype=bool)
    for each in found.vectors:
        good &= np.isfinite(each).all(axis=1)
    lost = int((~good).sum())
    if lost:
        found = found.only(np.flatnonzero(good), f"{lost:,} rows left out that hold NaN or infinity in some frames.")
    if found.n_rows < 2:
        raise InputError(f"{call} needs at least two finite rows that all frames share; got {found.n_rows}.")
    return found


def choose_rows(found: Frames, rows: int, seed: int, *, head: bool = True) -> Frames:
    """At most `rows` rows, drawn; with frequencies and `head`, half of them are the most frequent."""
    n = found.n_rows
    if n <= rows:
        return found
    frequencies = found.frequencies if head else None
    chosen = map_rows(n, rows, frequencies, seed)
    how = f"{rows:,} of {n:,} rows, drawn with seed {seed}."
    if frequencies is not None:
        how = f"{rows:,} of {n:,} rows: the {rows // 2:,} most frequent, the others drawn with seed {seed}."
    return found.only(chosen, how)


def decile(values: Array) -> Array:
    """Tenth of the values that each belongs to, from 1 (lowest) to 10."""
    edges = np.quantile(values, np.linspace(0.1, 0.9, 9))
    return 1 + np.searchsorted(edges, values, side="right")
