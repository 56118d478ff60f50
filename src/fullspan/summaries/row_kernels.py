"""Gini index, entropy and Hoyer sparsity of many rows at once: one sort and one logarithm for each entry.

Most rows take the short way: sums over ``|x|``, whose order of size is that of their differences. Rows whose entries
hardly differ (a large common offset) would lose their digits there and are taken from ``z = |x| - m``, m the mean of
``|x|``: sorting z and adding its squares keeps what ``|x|`` itself loses. What float32 cannot hold goes to float64.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from fullspan._typing import Array, dots

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["row_values"]

#: Bytes of a chunk of short and of long rows: two such buffers and the rows lie in the cache.
_CHUNK_BYTES = {False: 1 << 18, True: 1 << 19}
_LONG = 96
#: Up to this dim, rows are laid out as columns and sorted by a network: one call an exchange, on all rows at once.
_NARROW = 12
#: Below this Gini index, sums over |x| have lost too many digits: at the offset of 5 (50) deviations and more.
_CAREFUL = {"float32": 0.1, "float64": 0.01}
#: Below this one, differences of float32 have too; and norms between which its squares are safe.
_TOO_FLAT, _SAFE_NORMS = 1e-3, {"float32": (1e-18, 1e18), "float64": (1e-140, 1e140)}
#: Means of |x| between which a logarithm keeps its digits without dividing the row by its mean first.
_NEAR_ONE = {"float32": (1e-3, 1e3), "float64": (1e-60, 1e60)}


def row_values(rows: Float[Array, "n dim"], norms: Float[Array, " n"]) -> Float[Array, "3 n"]:
    """Gini index, entropy and Hoyer sparsity of rows that are not zero.

    Parameters
    ----------
    rows
        ``(n, dim)`` float32 or float64.
    norms
        ``(n,)`` Euclidean norms, all positive.

    Returns
    -------
    array of shape ``(3, n)``, float64
        NaN in the last row when dim is 1.
    """
    dim, kind = rows.shape[1], rows.dtype.name
    values, lengths = np.empty((3, len(rows))), norms.astype(np.float64)
    step = max(2, _CHUNK_BYTES[dim >= _LONG] // (rows.itemsize * dim))
    kernel = _kernel(_Narrow if dim <= _NARROW else _Wide, dim, min(step, _at_least(len(rows))), rows.dtype)
    for start in range(0, len(rows), kernel.step):
        some = slice(start, start + kernel.step)
        kernel(rows[some], lengths[some], values[:, some])
    _finish(dim, values, lengths)
    low, high = _SAFE_NORMS[kind]
    extreme = ~((norms > low) & (norms < high))
    flat = ~(values[0] > _CAREFUL[kind]) & ~extreme
    if flat.any():
        _again(rows, np.flatnonzero(flat), values, rows.dtype)
        if kind == "float32":
            extreme |= flat & ~(values[0] > _TOO_FLAT)
    if extreme.any():
        _again(rows, np.flatnonzero(extreme), values, np.dtype(np.float64))
    np.clip(values[1], 0.0, np.log(dim), out=values[1])
    return values


_local = threading.local()


def _at_least(n_rows: int) -> int:
    """The power of two that holds as many rows, two at least, so that blocks of a table share one size of buffers."""
    return 1 << max(n_rows - 1, 1).bit_length()


def _kernel(kind: type[_Wide] | type[_Narrow], dim: int, step: int, dtype: np.dtype[Any]) -> _Wide | _Narrow:
    """Buffers of this thread, kept from block to block: fresh memory costs more than the work on a small block."""
    key = (kind, dim, step, dtype)
    kept = getattr(_local, "kernel", None)
    if kept is None or kept[0] != key:
        kept = _local.kernel = (key, kind(dim, step, dtype))
    return kept[1]


def _again(rows: Array, which: Array, values: Array, kind: np.dtype[Any]) -> None:
    """Take some rows from their differences, in float64 after dividing by their largest entry."""
    dim = rows.shape[1]
    step = max(1, min(_CHUNK_BYTES[True] // (kind.itemsize * dim), len(which)))
    kernel = _Careful(dim, step, kind)
    for start in range(0, len(which), step):
        some = which[start : start + step]
        chosen = rows[some].astype(kind)
        if kind.itemsize > rows.itemsize or kind == np.float64:
            chosen /= np.abs(chosen).max(axis=1, keepdims=True)
        found = np.empty((3, len(some)))
        kernel(chosen, found)
        values[:, some] = found


class _Wide:
    """Buffers and constants for chunks of rows of one length.

    A call writes the sum of ``(2i - d - 1) |x|`` over the sorted entries, the sum of ``|x| ln |x|`` and the sum of
    ``|x|``, of rows that were divided by their means where these lie far from one; `lengths` are divided as well.
    """

    def __init__(self, dim: int, step: int, dtype: Any) -> None:
        self.step = step
        self.sizes, self.logs = np.empty((step, dim), dtype), np.empty((step, dim), dtype)
        self.ones = np.ones(dim, dtype)
        self.ranks = np.arange(1 - dim, dim, 2).astype(dtype)  # 2i - d - 1
        self.near_one = _NEAR_ONE[np.dtype(dtype).name]

    def __call__(self, rows: Array, lengths: Array, out: Array) -> None:
        n, dim = rows.shape
        sizes, logs = self.sizes[:n], self.logs[:n]
        with np.errstate(all="ignore"):
            np.abs(rows, out=sizes)
            total = dots(sizes, self.ones)
            unit = _unit(total, dim, self.near_one)
            if unit is not None:
                sizes *= unit.astype(sizes.dtype)[:, None]
                lengths *= unit
                total = dots(sizes, self.ones)
            np.log(sizes, out=logs)
            plain = dots(sizes, logs)
            holes = np.isnan(plain)
            if holes.any():  # zero entries: their share of the entropy is zero
                plain[holes] = dots(sizes[holes], np.log(np.maximum(sizes[holes], 1e-30)))
            sizes.sort(axis=1)
            out[0], out[1], out[2] = dots(sizes, self.ranks), plain, total


class _Narrow:
    """The same for short rows, one dimension after the other: calls work along the rows, not within them."""

    def __init__(self, dim: int, step: int, dtype: Any) -> None:
        self.dim, self.step = dim, step
        self.sizes, self.logs = np.empty((dim, step), dtype), np.empty((dim, step), dtype)
        self.spare = np.empty(step, dtype)
        self.exchanges = _network(dim)
        self.near_one = _NEAR_ONE[np.dtype(dtype).name]

    def __call__(self, rows: Array, lengths: Array, out: Array) -> None:
        n, dim = rows.shape
        if n == 1:  # sums of a single column would be added in another order
            twice = np.empty((3, 2))
            self(np.repeat(rows, 2, axis=0), both := np.repeat(lengths, 2), twice)
            out[:], lengths[:] = twice[:, :1], both[:1]
            return
        sizes, logs = self.sizes[:, :n], self.logs[:, :n]
        with np.errstate(all="ignore"):
            np.abs(rows.T, out=sizes)
            total = sizes.sum(axis=0)
            unit = _unit(total, dim, self.near_one)
            if unit is not None:
                sizes *= unit.astype(sizes.dtype)
                lengths *= unit
                total = sizes.sum(axis=0)
            np.log(sizes, out=logs)
            logs *= sizes
            plain = logs.sum(axis=0)
            holes = np.isnan(plain)
            if holes.any():
                some = sizes[:, holes]
                plain[holes] = (some * np.log(np.maximum(some, 1e-30))).sum(axis=0)
            out[0], out[1], out[2] = self._ranked(sizes, n), plain, total

    def _ranked(self, sizes: Array, n: int) -> Array:
        """The sum of (2i - d - 1) |x| over the sorted entries of every row."""
        columns, spare = list(sizes), self.spare[:n]
        for low, high in self.exchanges:
            a, b = columns[low], columns[high]
            np.minimum(a, b, out=spare)
            np.maximum(a, b, out=b)
            columns[low], spare = spare, a
        total = np.zeros(n, sizes.dtype)
        for low in range(self.dim // 2):  # ranks come in pairs of opposite sign
            total += (self.dim - 1 - 2 * low) * (columns[self.dim - 1 - low] - columns[low])
        return total


@functools.cache
def _network(size: int) -> tuple[tuple[int, int], ...]:
    """The exchanges of Batcher's odd-even merge sort of `size` values (Knuth, TAOCP vol. 3, algorithm 5.2.2 M)."""
    exchanges: list[tuple[int, int]] = []
    top = 1 << max(size - 1, 1).bit_length() >> 1
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while True:
            exchanges += [(i, i + d) for i in range(size - d) if i & p == r]
            if q == p:
                break
            d, q, r = q - p, q >> 1, p
        p >>= 1
    return tuple(exchanges)


def _unit(total: Array, dim: int, near_one: tuple[float, float]) -> Array | None:
    """One over the mean of |x| of rows whose mean lies far from one, so that logarithms are small, and one for others.

    None where all are near. A row is scaled for its own sake only, so that it gives the same digits in any block.
    """
    low, high = near_one
    if total.min() > low * dim and total.max() < high * dim:
        return None
    far = ~((total > low * dim) & (total < high * dim))
    return np.where(far, dim / total.astype(np.float64), 1.0)


def _finish(dim: int, values: Array, l2: Array) -> None:
    """In place, from the sum over ranks, the sum of x ln x and the sum of |x| to the three values."""
    with np.errstate(all="ignore"):
        gini, entropy, l1 = values
        gini /= l1
        gini /= dim
        entropy /= l1
        np.subtract(np.log(l1), entropy, out=entropy)
        if dim == 1:
            l1.fill(np.nan)
            return
        root = np.sqrt(dim)
        l1 /= l2
        l1 *= -1.0 / (root - 1.0)
        l1 += root / (root - 1.0)


class _Careful:
    """The same from the differences ``z = |x| - m``, which keep their digits when |x| has a large common offset."""

    def __init__(self, dim: int, step: int, dtype: Any) -> None:
        self.dim = dim
        self.z, self.q = np.empty((step, dim), dtype), np.empty((step, dim), dtype)
        self.logs = np.empty((step, dim), dtype)
        self.ones = np.ones(dim, dtype)
        self.ranks = np.arange(1 - dim, dim, 2).astype(dtype)

    def __call__(self, rows: Array, out: Array) -> None:
        n, dim = rows.shape
        z, q, logs = self.z[:n], self.q[:n], self.logs[:n]
        with np.errstate(all="ignore"):
            np.abs(rows, out=q)
            mean = dots(q, self.ones)
            mean /= dim
            np.subtract(q, mean[:, None], out=z)  # exact where |x| is near its mean
            q *= (1.0 / mean)[:, None]
            np.log(q, out=logs)
            plain = dots(q, logs)
            holes = np.isnan(plain)
            if holes.any():
                plain[holes] = dots(q[holes], np.log(np.maximum(q[holes], 1e-30)))
            inverse = 1.0 / mean.astype(np.float64)
            squares = dots(z, z) * inverse**2
            rest = (dots(z, self.ones)) * inverse  # zero but for rounding
            z.sort(axis=1)
            l1 = dim + rest
            np.divide((dots(z, self.ranks)) * inverse, dim * l1, out=out[0])
            out[1] = np.log(l1) - plain / l1
            if dim == 1:
                out[2] = np.nan
                return
            l2, root = np.sqrt(dim + 2.0 * rest + squares), np.sqrt(dim)
            spread = squares - rest * rest / dim
            out[2] = dim * spread / (l2 * (root * l2 + l1) * (root - 1.0))
