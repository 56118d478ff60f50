"""Which rows are read between full passes, and which are drawn on maps: always the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError

__all__ = ["checked_frequencies", "map_rows", "sample_rows"]


def sample_rows(n_rows: int, size: int, frequencies: Any = None, seed: int = 0) -> Array:
    """Positions of a fixed sample in which every row has the same chance.

    Parameters
    ----------
    n_rows
        Rows of the table.
    size
        Rows of the sample; all of them where the table has no more.
    frequencies
        How often each row occurs, ``(n_rows,)``, or None.
    seed
        Seed of the draw.

    Returns
    -------
    array of int64, increasing
        With frequencies, the rows are ordered by them, cut into `size` strata of equal numbers of rows, and one row is
        drawn from each: rare and frequent rows are in the sample as they are in the table, so that readings of it need
        no weights and have less error than those of a plain draw.

    Examples
    --------
    >>> sample_rows(5, 10)
    array([0, 1, 2, 3, 4])
    >>> len(sample_rows(1000, 10, seed=1))
    10
    """
    if n_rows <= size:
        return np.arange(n_rows)
    rng = np.random.default_rng([seed, n_rows])
    if frequencies is None:
        return np.sort(rng.choice(n_rows, size, replace=False, shuffle=False))
    order = np.lexsort((rng.permutation(n_rows), checked_frequencies(frequencies, n_rows)))
    edges = np.arange(size + 1) * n_rows // size
    return np.sort(order[rng.integers(edges[:-1], edges[1:])])


def map_rows(n_rows: int, size: int, frequencies: Any = None, seed: int = 0) -> Array:
    """Positions of the rows that snapshots hold and maps draw.

    Parameters
    ----------
    n_rows, size, frequencies, seed
        As for :func:`sample_rows`.

    Returns
    -------
    array of int64, increasing
        Without frequencies, :func:`sample_rows`. With them, one half are the most frequent rows and the other half a
        sample of the rest: a map of a plain sample would show hardly any row that people know. Not a sample to measure.

    Examples
    --------
    >>> map_rows(6, 4, [9, 0, 0, 8, 0, 0])[[0, -1]].tolist() in ([0, 3], [0, 4], [0, 5])
    True
    """
    if frequencies is None or n_rows <= size:
        return sample_rows(n_rows, size, None, seed)
    counts = checked_frequencies(frequencies, n_rows)
    order = np.lexsort((np.arange(n_rows), -counts))
    head, tail = order[: size // 2], np.sort(order[size // 2 :])
    return np.sort(np.concatenate([head, tail[sample_rows(len(tail), size - len(head), counts[tail], seed)]]))


def checked_frequencies(frequencies: Any, n_rows: int) -> Array:
    """Frequencies as float64, one a row.

    Raises
    ------
    InputError
        If they are not.
    """
    counts = np.asarray(frequencies, dtype=np.float64)
    if counts.shape != (n_rows,) or not np.isfinite(counts).all() or (counts < 0).any():
        raise InputError(
            f"watch needs frequencies that are finite and 0 or more, one a row, {n_rows} in all; "
            f"got shape {counts.shape}. Is the order that of the rows of the table?"
        )
    return counts
