"""Hypothesis strategies of the domain: tables, kind and hostile, and ways to split them.

Hypothesis draws the shape, the kind and a seed; NumPy draws the entries, so that examples stay cheap.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from fullspan._typing import Array, Block

#: How the entries of a table come about; each takes a generator and the shape.
TABLE_KINDS = {
    "gaussian": lambda rng, shape: rng.normal(size=shape),
    "skewed": lambda rng, shape: rng.lognormal(size=shape),
    "offset": lambda rng, shape: rng.normal(size=shape) + 1e4 * rng.normal(size=shape[1]),
    "zero rows": lambda rng, shape: rng.normal(size=shape) * (rng.random((shape[0], 1)) < 0.6),
    "constant columns": lambda rng, shape: np.where(rng.random(shape[1]) < 0.5, 0.1, rng.normal(size=shape)),
    "all constant": lambda rng, shape: np.full(shape, rng.normal()),
    "zeros": lambda rng, shape: np.zeros(shape),
    "copies": lambda rng, shape: rng.normal(size=shape)[rng.integers(0, max(1, shape[0] // 3), size=shape[0])],
    "ties": lambda rng, shape: rng.integers(-2, 3, size=shape) * np.where(rng.random(shape) < 0.1, -1.0, 1.0),
    "rank one": lambda rng, shape: np.multiply.outer(rng.normal(size=shape[0]), rng.normal(size=shape[1])),
    "one long row": lambda rng, shape: rng.normal(size=shape) * np.where(np.arange(shape[0]) == 0, 300.0, 1.0)[:, None],
    "tiny": lambda rng, shape: rng.normal(size=shape) * 1e-30,
    "huge": lambda rng, shape: rng.normal(size=shape) * 1e30,
}
DTYPES = (np.float16, np.float32, np.float64)


def table(kind: str, n_rows: int, dim: int, dtype: type = np.float64, seed: int = 0) -> Array:
    """One table of a kind; float16 clips what it cannot hold."""
    rows = TABLE_KINDS[kind](np.random.default_rng(seed), (n_rows, dim))
    if dtype == np.float16:
        rows = np.clip(rows, -6e4, 6e4)
    with np.errstate(under="ignore"):
        return rows.astype(dtype)


@st.composite
def tables(
    draw: st.DrawFn,
    max_rows: int = 40,
    min_dim: int = 2,
    max_dim: int = 8,
    kinds: tuple[str, ...] = tuple(TABLE_KINDS),
    dtypes: tuple[type, ...] = DTYPES,
    broken: bool = False,
) -> Block:
    """A table as one block, with ids, labels and frequencies; `broken` scatters NaN and infinity over it."""
    n_rows, dim = draw(st.integers(1, max_rows)), draw(st.integers(min_dim, max_dim))
    seed = draw(st.integers(0, 2**16))
    rows = table(draw(st.sampled_from(kinds)), n_rows, dim, draw(st.sampled_from(dtypes)), seed)
    rng = np.random.default_rng(seed + 1)
    if broken:
        rows[rng.random(rows.shape) < 0.05] = rng.choice([np.nan, np.inf, -np.inf])
    labels = rng.choice(np.array(["a", "b", "c"]), size=n_rows)
    return Block(rows, 0, np.arange(n_rows) * 10 + 7, labels, rng.integers(0, 40, size=n_rows).astype(np.float64))


@st.composite
def partitions(draw: st.DrawFn, n_rows: int, most: int = 5) -> list[Array]:
    """Disjoint sets of positions that cover all rows: consecutive or interleaved, in any order, some empty."""
    count = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    if draw(st.booleans()):
        cuts = np.sort(rng.integers(0, n_rows + 1, size=count - 1))
        parts = np.split(np.arange(n_rows), cuts)
    else:
        owner = rng.integers(0, count, size=n_rows)
        parts = [np.flatnonzero(owner == number) for number in range(count)]
    return [parts[place] for place in rng.permutation(len(parts))]


@st.composite
def split_tables(draw: st.DrawFn, **options: object) -> tuple[Block, list[Block]]:
    """A table, and the same rows as the blocks of a partition."""
    whole = draw(tables(**options))  # type: ignore[arg-type]
    parts = draw(partitions(len(whole)))
    return whole, [whole.take(part) for part in parts]
