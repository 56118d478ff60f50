"""Rows of two versions of a table side by side: which row of the one is which row of the other."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from typing import Any

import numpy as np

from fullspan._typing import Array, Block
from fullspan.errors import InputError, NothingEvaluatedError

__all__ = ["ALIGNMENTS", "Aligned", "alignment", "ids_of"]

ALIGNMENTS = ("auto", "id", "position", "none")
#: Rows of another order are picked from memory: at most this much of it.
_REORDER_BYTES = 4 << 30

Ids = tuple[Array | None, Array | None]


def ids_of(table: Any) -> Array | None:
    """All ids of a table in order, or None where it has none."""
    if getattr(table, "has_ids", None) is False:
        return None
    parts = []
    for block in table.blocks():
        if block.ids is None:
            return None
        parts.append(np.asarray(block.ids))
    return np.concatenate(parts) if parts else None


def alignment(align: str, ids: Ids, n_old: int, n_new: int) -> tuple[str, tuple[str, ...]]:
    """``"id"``, ``"position"`` or ``"none"``, and a note where it was chosen for want of ids."""
    have_ids = ids[0] is not None and ids[1] is not None
    if align == "id" and not have_ids:
        raise InputError(
            f"Aligning by id needs ids on both sides; got {_which(ids)}. Name them with --ids, or use --align position."
        )
    if align == "position" and n_old != n_new:
        raise InputError(
            f"Aligning by position needs as many rows on both sides; got {n_old} and {n_new}. "
            "Name the rows with --ids, or compare the distributions with --align none."
        )
    if align != "auto":
        return align, ()
    if have_ids:
        return "id", ()
    lack = "the tables have no ids" if _which(ids) == "none" else "only one table has ids"
    if n_old == n_new:
        return "position", (f"Rows were aligned by position, since {lack}.",)
    counts = f"{n_old:,} and {n_new:,} rows"
    return "none", (f"Rows were not aligned: {lack}, and {counts}. Only distributions are compared.",)


def _which(ids: Ids) -> str:
    if ids[0] is None and ids[1] is None:
        return "none"
    return f"them in the {'new' if ids[0] is None else 'old'} table only"


class Aligned:
    """Both versions as one table, with the columns of the old and then those of the new."""

    def __init__(self, old: Any, new: Any, ids: Ids, n_rows: int) -> None:
        self.old, self.new, self.name = old, new, new.name
        self.n_old = self.n_new = self.n_common = n_rows
        self.places: Array | None = None
        if ids[0] is None or ids[1] is None:
            return
        first, second = _comparable(ids[0], ids[1])
        places = _places(first, second)
        self.n_old, self.n_new, self.n_common = len(first), len(second), int((places >= 0).sum())
        if not self.n_common:
            raise NothingEvaluatedError(
                f"drift needs rows with the same id on both sides; got none in common ({self.n_old} and {self.n_new} "
                f"ids, the first of them {first[:1].tolist()[0]!r} and {second[:1].tolist()[0]!r}). "
                "Compare the distributions with --align none."
            )
        if len(first) != len(second) or not np.array_equal(places, np.arange(len(places))):
            self.places = places

    def blocks(self, block_rows: int | None = None) -> Iterator[Block]:
        if self.places is None:
            yield from self._side_by_side(block_rows)
            return
        new, done = _all_rows(self.new, self.n_new), 0
        for block in self.old.blocks(block_rows):
            places = self.places[done : done + len(block)]
            done += len(block)
            if len(places) < len(block):
                raise _changed(self.old)
            known = places >= 0
            if known.any():
                yield _joined(block.take(known), new[places[known]])

    def _side_by_side(self, block_rows: int | None) -> Iterator[Block]:
        rest = _Rows(self.new, block_rows)
        for block in self.old.blocks(block_rows):
            if len(block):
                yield _joined(block, rest.take(len(block)))
        if rest.any_left():
            raise _changed(self.new)


class _Rows:
    """The rows of a table in portions of any size, whatever its blocks are."""

    def __init__(self, table: Any, block_rows: int | None) -> None:
        self.table, self.blocks = table, table.blocks(block_rows)
        self.rest: Array = np.empty((0, table.dim), dtype=np.float32)

    def any_left(self) -> bool:
        while not len(self.rest):
            block = next(self.blocks, None)
            if block is None:
                return False
            self.rest = block.widened().rows
        return True

    def take(self, count: int) -> Array:
        parts = []
        while count:
            if not self.any_left():
                raise _changed(self.table)
            parts.append(self.rest[:count])
            self.rest = self.rest[count:]
            count -= len(parts[-1])
        return np.concatenate(parts) if len(parts) > 1 else parts[0]


def _changed(table: Any) -> InputError:
    return InputError(
        f"drift needs {table.name} to have as many rows at every reading; got another number at the second. "
        "Is the file still being written?"
    )


def _joined(block: Block, rows: Array) -> Block:
    block = block.widened()
    both = np.hstack([block.rows, rows.astype(np.result_type(block.rows, rows), copy=False)])
    return Block(both, block.start, block.ids, None, None, block.positions)


def _all_rows(table: Any, n_rows: int) -> Array:
    itemsize = 8 if table.dtype in ("float64", "int32", "uint32", "int64", "uint64") else 4
    needed = n_rows * table.dim * itemsize
    if needed > _REORDER_BYTES:
        raise InputError(
            f"Rows in another order need the new table in memory, {needed / 2**30:.1f} GiB; the bound is "
            f"{_REORDER_BYTES >> 30} GiB. Sort both files by id."
        )
    rows = np.concatenate([block.widened().rows for block in table.blocks()])
    if len(rows) != n_rows:
        raise _changed(table)
    return rows


def _comparable(old: Array, new: Array) -> tuple[Array, Array]:
    """Both arrays of ids, which must be of one kind, in types that compare without rounding."""
    kinds = _kind(old, "old"), _kind(new, "new")
    if kinds[0] != kinds[1]:
        raise InputError(
            f"Aligning by id needs ids of one kind on both sides; got {kinds[0]} in the old table and {kinds[1]} in "
            "the new one. Convert one of the columns, or use --align position."
        )
    if old.dtype.kind in "iu" and new.dtype.kind in "iu" and np.result_type(old, new).kind == "f":
        return old.astype(object), new.astype(object)  # int64 with uint64 would be compared as float64
    return old, new


def _kind(ids: Array, which: str) -> str:
    if ids.dtype.kind != "O":
        return "strings" if ids.dtype.kind in "UT" else "bytes" if ids.dtype.kind == "S" else "numbers"
    types = set(map(type, ids))
    for base, kind in ((str, "strings"), (numbers.Real, "numbers"), (bytes, "bytes")):
        if all(issubclass(each, base) for each in types):
            return kind
    raise InputError(
        f"Aligning by id needs ids that are all numbers or all strings; got {_listed(types)} in the {which} table. "
        "Fill in what is missing, or use --align position."
    )


def _listed(types: set[type]) -> str:
    names = sorted("None" if each is type(None) else each.__name__ for each in types)
    return " and ".join(names)


def _places(old: Array, new: Array) -> Array:
    """For every old row, the position of its id in the new table, or -1."""
    for which, names in (("old", old), ("new", new)):
        values, counts = np.unique(names, return_counts=True)
        if counts.max(initial=1) > 1:
            worst = int(np.argmax(counts))
            raise InputError(
                f"Aligning by id needs every id once; got {values[worst : worst + 1].tolist()[0]!r} {counts[worst]} "
                f"times in the {which} table. Use --align position, or --ids with another column."
            )
    order = np.argsort(new)
    spots = np.searchsorted(new, old, sorter=order)
    spots = order[np.minimum(spots, len(new) - 1)]
    return np.where(new[spots] == old, spots, -1)
