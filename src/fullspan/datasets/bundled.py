"""The table that ships with fullspan: the 20,000 most frequent words of GloVe 6B, 50 dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError

__all__ = ["GloVe", "glove_path", "load_glove"]

#: Size of the bundled table.
N_ROWS, DIM = 20_000, 50


def glove_path() -> Path:
    """Path of the bundled table, a parquet file that every command and :func:`fullspan.measure` can read.

    Returns
    -------
    pathlib.Path
        File of 20,000 rows with the columns ``word``, ``vector`` (50 × float32), ``rank`` and ``zipf_frequency``.

    Notes
    -----
    The vectors are the first 20,000 of ``glove.6B.50d``, bit for bit. GloVe publishes no counts: ``rank`` is the place
    in its file, which falls with frequency, and ``zipf_frequency`` is 1 / rank, an estimate by Zipf's law.

    References
    ----------
    Pennington, Socher and Manning, "GloVe: Global Vectors for Word Representation", EMNLP 2014. PDDL 1.0.

    Examples
    --------
    >>> glove_path().name
    'glove_6b_50d_20k.parquet'
    """
    return Path(__file__).parent / "glove" / "glove_6b_50d_20k.parquet"


@dataclass(frozen=True)
class GloVe:
    """The bundled word vectors in memory.

    Parameters
    ----------
    vectors
        ``(n_rows, 50)`` float32, read-only.
    words
        ``(n_rows,)`` str, from the most frequent word down.
    rank
        ``(n_rows,)`` int32, from 1.
    zipf_frequency
        ``(n_rows,)`` float32: 1 / rank, an estimate of the relative frequency by Zipf's law, not a count.
    """

    vectors: Array
    words: Array
    rank: Array
    zipf_frequency: Array

    def __len__(self) -> int:
        return len(self.vectors)


def load_glove(n_rows: int | None = None) -> GloVe:
    """Load the bundled word vectors, or the `n_rows` most frequent of them.

    Parameters
    ----------
    n_rows
        How many rows to keep, from the most frequent word down; None keeps all 20,000.

    Returns
    -------
    GloVe
        Vectors with their words, ranks and estimated frequencies.

    Raises
    ------
    InputError
        If `n_rows` is not between 1 and 20,000.

    Notes
    -----
    Reads the file once: about 30 ms and 9 MB.

    Examples
    --------
    >>> glove = load_glove(1000)
    >>> glove.vectors.shape, str(glove.words[0])
    ((1000, 50), 'the')
    """
    if n_rows is not None and not 1 <= n_rows <= N_ROWS:
        raise InputError(
            f"load_glove needs n_rows between 1 and {N_ROWS}; got {n_rows}. The bundled table has no more rows."
        )
    import pyarrow.parquet as pq

    table = pq.read_table(glove_path()).slice(0, n_rows)
    vectors = table["vector"].combine_chunks().flatten().to_numpy().reshape(-1, DIM)
    words = np.array(table["word"].to_pylist())
    return GloVe(_read_only(vectors), words, table["rank"].to_numpy(), table["zipf_frequency"].to_numpy())


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array
