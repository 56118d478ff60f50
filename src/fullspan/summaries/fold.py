"""The engine of one thread: a fold over the blocks of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from fullspan._typing import Block
from fullspan.errors import InputError, NothingEvaluatedError
from fullspan.summaries.base import Plan, Recipe, Summaries, Summary, SummaryType

__all__ = ["fold"]

_BLOCK_BYTES = 8 << 20


def fold(
    table: Any,
    plan: Any,
    *,
    block_rows: int | None = None,
    clean: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Any:
    """Make summaries of a table in one pass over its rows.

    Parameters
    ----------
    table
        Anything with ``blocks()`` (what :func:`fullspan.open_table` returns), an iterable of :class:`Block`, or an
        array of shape ``(n, dim)``.
    plan
        A summary class, a recipe (``Reservoir.with_options(size=100)``), or several joined by ``|``.
    block_rows
        Rows read at once; None lets the table choose (about 8 MiB).
    clean
        True skips the search for rows that are not finite: an earlier pass has found none.
    progress
        Called after every block with the number of rows done so far.

    Returns
    -------
    Summary or Summaries
        The summary itself when the plan is one class or recipe; else a mapping from class to summary.

    Raises
    ------
    InputError
        If blocks differ in dimension, or the plan is not one.
    NothingEvaluatedError
        If there is no row at all.

    Notes
    -----
    Rows that hold NaN or infinity are left out of every summary but those with ``wants_raw`` (:class:`Extremes`), which
    count and name them.

    Examples
    --------
    >>> import numpy as np
    >>> from fullspan.summaries.moments import Moments
    >>> fold(np.eye(3), Moments).mean.tolist()
    [0.3333333333333333, 0.3333333333333333, 0.3333333333333333]
    """
    wanted = Plan.of(plan)
    builders: dict[Any, Any] = {}
    done = 0
    for block in _blocks(table, block_rows):
        block = block.widened()
        if not builders:
            builders = {recipe.summary: recipe.accumulator(block.dim) for recipe in wanted}
            dim = block.dim
        if block.dim != dim:
            raise InputError(f"A table needs rows of one length; got dim {dim}, then dim {block.dim} at row {done}.")
        finite = block if clean or block.finite is None else block.take(block.finite)
        for kind, builder in builders.items():
            builder.add(block if kind.wants_raw else finite)
        done += len(block)
        if progress is not None:
            progress(done)
    if not done:
        raise NothingEvaluatedError("A table needs at least one row; got none. Is the file empty?")
    made: dict[SummaryType, Summary] = {kind: builder.summary() for kind, builder in builders.items()}
    if isinstance(plan, (SummaryType, Recipe)):
        return next(iter(made.values()))
    return Summaries(made)


def _blocks(table: Any, block_rows: int | None) -> Iterator[Block]:
    if hasattr(table, "blocks"):
        yield from table.blocks(block_rows)
        return
    if hasattr(table, "__array__"):
        rows = np.asarray(table)
        if rows.ndim != 2:
            raise InputError(f"A table needs shape (rows, dim); got shape {rows.shape}.")
        step = block_rows or max(1, _BLOCK_BYTES // max(1, rows.shape[1] * rows.itemsize))
        for start in range(0, len(rows), step):
            yield Block(rows[start : start + step], start)
        return
    if not isinstance(table, Iterable):
        raise InputError(f"fold needs a table, an array or an iterable of blocks; got {type(table).__name__}.")
    start = 0
    for each in table:
        block = each if isinstance(each, Block) else _block(each, start)
        start += len(block)
        yield block


def _block(rows: Any, start: int) -> Block:
    array = np.asarray(rows)
    if array.ndim != 2:
        raise InputError(
            f"An iterable of blocks needs arrays of shape (n, dim); got shape {array.shape} at row {start}."
        )
    return Block(array, start)
