"""Maps of a table over training time: the same rows in every frame, with how far each frame can be believed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check
from fullspan.measures.projection import (
    chance_preservation,
    map_displacement,
    neighbor_preservation,
    pca_basis,
    pca_map,
    procrustes_align,
)
from fullspan.monitor import layouts
from fullspan.monitor.frames import Frames, choose_rows, gather
from fullspan.store.records import MapFrames

__all__ = ["METHODS", "project"]

METHODS = ("pca", "pca-shared", "pacmap", "tsne", "umap")
#: Neighbors that preservation is read from, and rows that are asked for theirs.
_K, _QUERIES = 10, 1000
#: Positions are float32.
_LARGEST = 1e30


def project(
    run: Any = None,
    table: str | None = None,
    method: str = "pca",
    rows: int = 10_000,
    seed: int = 0,
    progress: Callable[[str, str, int, int | None], None] | None = None,
    *,
    frames: Sequence[Any] | None = None,
    steps: Sequence[int] | None = None,
    row_ids: Any = None,
    labels: Any = None,
    frequencies: Any = None,
    max_frames: int | None = 20,
) -> MapFrames:
    """Draw a table in the plane at several steps of its training.

    The last frame is drawn first and each earlier one starts from the one after it, so that the animation ends in the
    layout of the trained table; each is then turned to lie on the frame after it (orthogonal Procrustes).

    Parameters
    ----------
    run
        A run directory or :class:`~fullspan.Run` with snapshots of the table.
    table
        Name of the table; None takes the only one.
    method
        ``"pca"``: the principal axes of each frame. ``"pca-shared"``: the axes of the last frame for all, as they are,
        so that shifts and growth are seen. ``"pacmap"`` (extra ``maps``), ``"tsne"`` (extra ``tsne``), ``"umap"``
        (extra ``umap``): layouts that keep near neighbors; distances between clusters mean little in them.
    rows
        At most so many rows, the same in all frames. With frequencies half of them are the most frequent rows and half
        are drawn from the rest, else all are drawn.
    seed
        Seed of the choice of rows and of the layouts.
    progress
        Called as ``progress(table, phase, frames_done, n_frames)``.
    frames, steps, row_ids
        Arrays ``(n, dim)`` with the same rows in place of a run, their steps, and the ids of the rows.
    labels, frequencies
        One value for each row of the table, or a file of them, to color by; by default those that the run holds.
    max_frames
        More snapshots than this are thinned evenly; None keeps all.

    Returns
    -------
    MapFrames
        Positions ``(n_frames, n_rows, 2)`` with `displacement` (median move since the frame before, over the spread of
        the map) and `preservation` (share of the 10 nearest neighbors in the vectors that are neighbors on the map,
        from 1,000 rows; NaN for a frame whose rows are all equal) of every frame. Colors: ``norm`` in the last frame,
        ``frequency_decile`` (1 to 10), ``label``. The same seed gives the same digits.

    Raises
    ------
    InputError
        No snapshots, fewer than two rows that all frames share, or fewer than 50 for a non-linear layout.
    UnknownNameError
        No table of that name.
    MissingExtraError
        The package of the layout is not installed.

    Notes
    -----
    For 10,000 rows of 64: PCA 0.3 s a frame, nearly all of it for preservation; PaCMAP 5 to 7 s for the last frame and
    2.5 s for each other; openTSNE 40 to 50 s and 15 to 25 s, UMAP 60 s and 4 s. A warm start forward in time can
    freeze the layout of the untrained table. Rows that are missing or not finite in some frame are left out, and
    counted in `notes`.

    References
    ----------
    Wang et al. 2021, Understanding how dimension reduction tools work (PaCMAP); van der Maaten and Hinton 2008;
    Poličar et al. 2024, openTSNE; McInnes et al. 2018, UMAP; Schönemann 1966 (Procrustes).

    Examples
    --------
    >>> import numpy as np
    >>> E = np.random.default_rng(0).normal(size=(100, 8))
    >>> maps = project(frames=[E, E + 0.1, 2 * E], steps=[0, 10, 20])
    >>> maps.positions.shape, maps.steps.tolist(), round(float(maps.displacement[1]), 6)
    ((3, 100, 2), [0, 10, 20], 0.0)
    """
    call = "project"
    _check.one_of(method, METHODS, call, "method")
    if rows < 2:
        raise InputError(f"{call} needs rows ≥ 2; got {rows}.")
    layout, package = layouts.load(method) if method in layouts.LAYOUTS else (None, "")
    found = gather(
        call,
        run,
        table,
        frames=frames,
        steps=steps,
        row_ids=row_ids,
        labels=labels,
        frequencies=frequencies,
        max_frames=max_frames,
    )
    largest = max(float(np.abs(each).max(initial=0.0)) for each in found.vectors)
    if largest > _LARGEST:
        raise InputError(f"{call} needs values up to {_LARGEST:.0e}; got {largest:.3g}. Has the training diverged?")
    if frequencies is None and found.deciles is not None:
        found = found.only(slice(None), "Tenths of frequency are among the rows of the snapshots, not of the table.")
    found = choose_rows(found, rows, seed)
    if layout is not None and found.n_rows < layouts.FEWEST_ROWS:
        raise InputError(
            f'{call}(method="{method}") needs at least {layouts.FEWEST_ROWS} rows; got {found.n_rows}. '
            'Draw so few with method="pca".'
        )
    told = (lambda done: None) if progress is None else _teller(progress, found, method)
    drawn = _shared_axes(found, told) if method == "pca-shared" else _backward(found, layout, seed, told)
    positions = np.stack(drawn).astype(np.float32)
    return MapFrames(
        table=found.table,
        method=method,
        steps=found.steps,
        epochs=found.epochs,
        row_ids=found.row_ids,
        positions=positions,
        colors=_colors(found),
        displacement=_displacement(positions),
        preservation=_preservation(found, positions, seed),
        notes=_notes(found, method, package, seed),
    )


def _teller(progress: Callable[..., None], found: Frames, method: str) -> Callable[[int], None]:
    return lambda done: progress(found.table, f"map by {method}", done, len(found.steps))


def _shared_axes(found: Frames, told: Callable[[int], None]) -> list[Array]:
    basis = pca_basis(found.vectors[-1])
    drawn = [basis(each) for each in found.vectors]
    told(len(drawn))
    return drawn


def _backward(found: Frames, layout: layouts.Layout | None, seed: int, told: Callable[[int], None]) -> list[Array]:
    """Positions of every frame, the last drawn first, each turned onto the one after it."""
    drawn: list[Array] = []
    for done, vectors in enumerate(reversed(found.vectors), start=1):
        drawn.append(_frame(vectors, drawn[-1] if drawn else None, layout, seed))
        told(done)
    return drawn[::-1]


def _frame(vectors: Array, later: Array | None, layout: layouts.Layout | None, seed: int) -> Array:
    flat = pca_map(vectors if layout is None else layouts.at_unit_size(vectors))
    if not np.ptp(vectors, axis=0).any():  # all rows are equal: one point
        return flat if later is None else flat + later.mean(axis=0)
    if layout is None:
        return flat if later is None else procrustes_align(flat, later)
    start = later if later is not None and np.ptp(later, axis=0).all() else None
    drawn = layout(vectors, start, seed)
    if start is not None:  # sizes of such layouts mean nothing: they would only look like moves
        drawn = drawn * (_spread(start) / max(_spread(drawn), 1e-300))
    return procrustes_align(drawn, flat if later is None else later)


def _spread(positions: Array) -> float:
    away = positions - positions.mean(axis=0)
    return float(np.sqrt(np.vecdot(away, away).mean()))


def _displacement(positions: Array) -> Array:
    moved = np.zeros(len(positions))
    for frame in range(1, len(positions)):
        before, here = positions[frame - 1], positions[frame]
        try:
            moved[frame] = map_displacement(before, here)
        except UndefinedMeasureError:  # all rows on one point here: relative to the frame before, or no move at all
            moved[frame] = map_displacement(here, before) if np.ptp(before, axis=0).any() else 0.0
    return moved


def _preservation(found: Frames, positions: Array, seed: int) -> Array:
    k = min(_K, found.n_rows - 1)
    kept = np.full(len(positions), np.nan)
    for frame, (vectors, here) in enumerate(zip(found.vectors, positions, strict=True)):
        if np.ptp(vectors, axis=0).any() and np.ptp(here, axis=0).any():
            kept[frame] = neighbor_preservation(vectors, here, k, queries=_QUERIES, seed=seed)
    return kept


def _colors(found: Frames) -> dict[str, Array]:
    last = found.vectors[-1].astype(np.float64)
    colors: dict[str, Array] = {"norm": np.sqrt(np.vecdot(last, last))}
    if found.deciles is not None:
        colors["frequency_decile"] = found.deciles
    if found.labels is not None:
        colors["label"] = found.labels
    return colors


def _notes(found: Frames, method: str, package: str, seed: int) -> tuple[str, ...]:
    k = min(_K, found.n_rows - 1)
    how = {
        "pca": "The two principal axes of each frame, turned to lie on the frame after it.",
        "pca-shared": "All frames on the two principal axes of the last one.",
    }.get(
        method,
        f"{package}, seed {seed}: the last frame drawn first, each earlier one started from the one after it.",
    )
    level = chance_preservation(found.n_rows, k)
    return (
        *found.notes,
        how,
        f"Preservation: share of the {k} nearest neighbors that the map keeps; {100 * level:.2g}% by chance.",
    )
