"""The same summaries for every group of rows, in one pass: by position, label or frequency."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fullspan._typing import Array, Block
from fullspan.errors import InputError
from fullspan.summaries.base import Plan, Summaries, Summary

__all__ = ["Grouped", "Stripes", "frequency_band"]

_MOST_GROUPS = 1000
#: Memory that the matrices of all groups together may take: two a group while it is summed up.
_MOST_BYTES = 2 << 30


@dataclass(frozen=True, eq=False)
class Grouped(Summary):
    """A summary for every group of rows.

    Parameters
    ----------
    dim, n_rows
        Row length and number of rows.
    plan, by
        What was made for each group, and what the groups are.
    parts
        Mapping from the group's key to its :class:`Summaries`, in sorted order.

    Notes
    -----
    Options of the recipe: ``plan`` (a plan, such as ``Moments | UnitMoments``) and ``by``: an integer G puts row i into
    group ``i mod G`` (the groups of a block jackknife); ``"label"`` takes the table's labels; ``"frequency"`` takes
    powers of ten of the frequency; a function takes a block and returns one key for each row.

    The groups add up to the whole table: `total` merges them, so that the whole costs no second product.
    """

    dim: int
    n_rows: int
    plan: Plan
    by: Any
    parts: dict[Hashable, Summaries]

    @classmethod
    def accumulator(cls, dim: int, **options: Any) -> _Builder:
        return _Builder(cls, dim, **options)

    def merge(self, other: Grouped) -> Grouped:
        self._check_mergeable(other)
        if self.plan != other.plan or self.by != other.by:
            raise InputError("merge needs the same plan and grouping on both sides; got different ones.")
        parts = dict(self.parts)
        for key, part in other.parts.items():
            parts[key] = parts[key].merge(part) if key in parts else part
        return type(self)(self.dim, self.n_rows + other.n_rows, self.plan, self.by, _ordered(parts))

    @property
    def total(self) -> Summaries:
        """The summaries of all rows together."""
        return _merged(self.parts.values(), self.plan, self.dim)

    def without(self) -> Iterator[tuple[Hashable, Summaries]]:
        """Each key with the summaries of all rows *but* that group, by merging from both ends."""
        keys = list(self.parts)
        empty = _merged((), self.plan, self.dim)
        behind = [empty]
        for key in reversed(keys[1:]):
            behind.append(self.parts[key].merge(behind[-1]))
        before = empty
        for key in keys:
            yield key, before.merge(behind.pop())
            before = before.merge(self.parts[key])


def _merged(parts: Any, plan: Plan, dim: int) -> Summaries:
    total = Summaries({recipe.summary: recipe.accumulator(dim).summary() for recipe in plan})
    for part in parts:
        total = total.merge(part)
    return total


def _ordered(parts: dict[Hashable, Summaries]) -> dict[Hashable, Summaries]:
    return dict(sorted(parts.items(), key=lambda pair: (str(type(pair[0])), pair[0])))  # type: ignore[return-value]  # keys of one type compare


def frequency_band(block: Block) -> Array:
    """``(n,)`` key of every row: the power of ten of its frequency, -1000 for frequency zero."""
    if block.frequencies is None:
        raise InputError(
            "Grouping by frequency needs a frequency for every row; got none. Name them with frequencies=."
        )
    frequencies = np.asarray(block.frequencies, dtype=np.float64)
    with np.errstate(divide="ignore"):
        bands = np.floor(np.log10(frequencies) + 1e-12)
    return np.where(frequencies > 0, bands, -1000).astype(np.int64)


def _labels(block: Block) -> Array:
    if block.labels is None:
        raise InputError("Grouping by label needs a label for every row; got none. Name them with labels=.")
    return np.asarray(block.labels)


def _numbered(keys: Array) -> tuple[list[Hashable], Array]:
    """The distinct keys as plain values, and which of them every row has; None and NaN are one key, None."""
    if keys.dtype.kind == "O":
        plain = [None if key is None or key != key else _plain(key) for key in keys.tolist()]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(plain))}
        return list(numbers), np.fromiter((numbers[key] for key in plain), np.int64, len(plain))
    distinct, inverse = np.unique(keys, return_inverse=True)
    return [None if key != key else key for key in distinct.tolist()], inverse


def _plain(key: Any) -> Hashable:
    """The key as it can be looked up: what cannot be, such as a list, by its text."""
    return key if isinstance(key, Hashable) else str(key)


class _Builder:
    def __init__(self, kind: type[Grouped], dim: int, plan: Any, by: int | str | Callable[[Block], Array]) -> None:
        self.kind = kind
        self.dim, self.plan, self.by = dim, Plan.of(plan), by
        self.n_rows = 0
        self.groups: dict[Hashable, dict[Any, Any]] = {}
        named: dict[Any, Callable[[Block], Array]] = {"label": _labels, "frequency": frequency_band}
        if isinstance(by, str) and by not in named:
            raise InputError(f'Groups need by="label", by="frequency", a number or a function; got by={by!r}.')
        self.key_of = named.get(by) or (by if callable(by) else None)

    def add(self, block: Block) -> None:
        self.n_rows += len(block)
        if not len(block):
            return
        for key, part in self._split(block):
            for builder in self._builders(key).values():
                builder.add(part)

    def _split(self, block: Block) -> Iterator[tuple[Hashable, Block]]:
        if self.key_of is None:
            yield from self._stripes(block, int(self.by))  # type: ignore[arg-type]  # a number where there is no function
            return
        keys, inverse = _numbered(np.asarray(self.key_of(block)))
        if len(keys) == 1:
            yield keys[0], block
            return
        order = np.argsort(inverse, kind="stable")
        for key, where in zip(keys, np.split(order, np.cumsum(np.bincount(inverse))[:-1]), strict=True):
            yield key, block.take(where)

    @staticmethod
    def _stripes(block: Block, count: int) -> Iterator[tuple[int, Block]]:
        if count == 1:
            yield 0, block
        elif block.positions is None:
            for offset in range(min(count, len(block))):
                yield (block.start + offset) % count, block.take(slice(offset, None, count))
        else:
            group = block.index % count
            for key in np.unique(group):
                yield int(key), block.take(np.flatnonzero(group == key))

    def _builders(self, key: Hashable) -> dict[Any, Any]:
        if key not in self.groups:
            most = min(_MOST_GROUPS, max(2, _MOST_BYTES // (16 * self.dim**2)))
            if len(self.groups) >= most:
                raise InputError(
                    f"Groups need at most {most} different keys at dim {self.dim}; got more. "
                    "Group by a coarser label, or by frequency."
                )
            self.groups[key] = {recipe.summary: recipe.accumulator(self.dim) for recipe in self.plan}
        return self.groups[key]

    def summary(self) -> Grouped:
        parts = {
            key: Summaries({kind: builder.summary() for kind, builder in builders.items()})
            for key, builders in self.groups.items()
        }
        return self.kind(self.dim, self.n_rows, self.plan, self.by, _ordered(parts))


class Stripes(Grouped):
    """The groups of a block jackknife: row i in group ``i mod by``. Stands in a plan beside a :class:`Grouped`."""
