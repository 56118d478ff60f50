"""64-bit hashes of rows and of positions, vectorized, the same on every machine."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from fullspan._typing import Array

if TYPE_CHECKING:
    from jaxtyping import Float, UInt

__all__ = ["mixed", "row_hashes"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_CHUNK_BYTES = 256 << 10


def mixed(values: Array, seed: int = 0) -> Array:
    """A pseudo-random 64-bit number for every integer: splitmix64, a bijection for each seed."""
    mix = np.asarray(values).astype(np.uint64) + np.uint64(seed * int(_GOLDEN) & 0xFFFFFFFFFFFFFFFF)
    mix *= _GOLDEN
    mix ^= mix >> np.uint64(30)
    mix *= _FIRST
    mix ^= mix >> np.uint64(27)
    mix *= _SECOND
    mix ^= mix >> np.uint64(31)
    return mix


@functools.lru_cache(maxsize=8)
def _multipliers(n_words: int) -> Array:
    return mixed(np.arange(1, n_words + 1)) | np.uint64(1)


def row_hashes(rows: Float[Array, "n dim"]) -> UInt[Array, " n"]:
    """One 64-bit hash for each row of ``(n, dim)`` float32 or float64; equal rows have equal hashes, -0.0 equals 0.0.

    Every 64-bit word is multiplied by an odd constant, its high half is folded onto the low half, and the words are
    summed with odd multipliers of their own: two different rows collide with a probability of about 2⁻⁵⁸.
    """
    n_rows, dim = rows.shape
    n_words = -(-dim * rows.itemsize // 8)
    weights = _multipliers(n_words)
    step = max(1, _CHUNK_BYTES // (8 * n_words))
    words = np.zeros((min(step, n_rows), n_words), dtype=np.uint64)
    high = np.empty_like(words)
    out = np.empty(n_rows, dtype=np.uint64)
    for start in range(0, n_rows, step):
        some = rows[start : start + step]
        word, fold = words[: len(some)], high[: len(some)]
        np.add(some, rows.dtype.type(0.0), out=word.view(rows.dtype)[:, :dim])  # -0.0 + 0.0 is 0.0
        word *= _FIRST
        np.right_shift(word, np.uint64(32), out=fold)
        word ^= fold
        np.einsum("ij,j->i", word, weights, out=out[start : start + step])
    return mixed(out)
