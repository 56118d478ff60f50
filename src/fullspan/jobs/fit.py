"""Fit a chain of normalizers to a table, with the moments that :func:`fullspan.verify` compares stored rows with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fullspan._typing import Block
from fullspan.errors import FormatError, InputError, MissingFileError
from fullspan.io.formats import open_table
from fullspan.normalize.base import Normalizer
from fullspan.normalize.folded import Folded
from fullspan.normalize.pipeline import Pipeline, make_pipeline
from fullspan.normalize.text import parse_strategy

__all__ = ["chain_of", "fit", "strategy_from"]

_STAMP_ROWS = 65_536
_MOST_BYTES = 256 << 20


def fit(
    source: Any,
    strategy: str | Normalizer,
    *,
    table: str | None = None,
    column: str | None = None,
    ids: Any = None,
    frequencies: Any = None,
    dtype: Any = None,
    weighted: bool = False,
    zero_rows: str | None = None,
    nan_rows: str | None = None,
    progress: Callable[[str, str, int, int | None], None] | None = None,
) -> Folded:
    """Fit normalizers to a table of any format.

    Parameters
    ----------
    source
        What :func:`fullspan.open_table` takes, with `table`, `column`, `ids`, `frequencies`, `dtype`.
    strategy
        Text such as ``"center | whiten(power=0.5) | l2"``, or a normalizer.
    weighted
        Whether rows count as often as `frequencies` say.
    zero_rows, nan_rows
        ``"error"``, ``"skip"`` or ``"keep"``; None takes what the steps say.
    progress
        Called with table, phase, rows done and rows in all.

    Returns
    -------
    Folded
        The fitted chain: `transform`, `info`, and what :func:`fullspan.save` writes.

    Raises
    ------
    InputError
        If the strategy, a row or an option is not what the fit needs.

    Notes
    -----
    Reads the table as often as the chain needs, and then once more for a stamp (65,536 rows spread over a long table
    of arrays, all rows of a stream): the mean and the variance of rows before the map, behind it, and behind it twice
    are kept for :func:`fullspan.verify`.

    Examples
    --------
    >>> import numpy as np
    >>> fitted = fit(np.array([[1.0, 2.0], [3.0, 6.0], [2.0, 1.0]]), "center | l2")
    >>> fitted.info["strategy"], fitted.info["n_rows"], fitted.info["passes"]
    ('center | l2', 3, 1)
    """
    chain = chain_of(strategy, zero_rows, nan_rows)
    opened = open_table(
        source,
        table=table,
        column=column,
        ids=ids,
        frequencies=frequencies,
        dtype=dtype,
    )
    if not opened.repeatable:
        raise InputError(
            "fit needs rows that can be read again, for the stamp that verify uses; got an iterator. Give an array "
            "or a path, or fit the normalizer itself."
        )
    chain.fit(_Told(opened, progress), sample_weight="frequencies" if weighted else None)
    folded = Folded.of(chain)
    stamp, n_rows = _stamp(folded, opened)
    return replace(folded, stamp={**stamp, **folded.stamp}, info={**folded.info, "stamp_rows": n_rows})


def chain_of(strategy: str | Normalizer, zero_rows: str | None = None, nan_rows: str | None = None) -> Pipeline:
    """The chain that a strategy means, unfitted, with the policies given."""
    if isinstance(strategy, str):
        chain = parse_strategy(strategy)
    elif isinstance(strategy, Pipeline):
        chain = Pipeline(strategy.steps, zero_rows=strategy.zero_rows, nan_rows=strategy.nan_rows)
    elif isinstance(strategy, Normalizer):
        chain = make_pipeline(strategy)
    else:
        raise InputError(f"fit needs a strategy as text or a normalizer; got {type(strategy).__name__}.")
    chain.zero_rows = zero_rows or chain.zero_rows
    chain.nan_rows = nan_rows or chain.nan_rows
    chain._check_common()
    return chain


def strategy_from(path: Any) -> str:
    """The strategy that a report of a comparison recommends: a JSON file, or a folder that holds ``report.json``."""
    path = Path(path)
    file = path / "report.json" if path.is_dir() else path
    if not file.is_file():
        raise MissingFileError(f"fit --from needs the JSON report of a comparison; got {file}, which does not exist.")
    if file.stat().st_size > _MOST_BYTES:
        raise FormatError(f"fit --from needs a report of at most 256 MiB; got {file.stat().st_size:,} bytes.")
    try:
        text = json.loads(file.read_text(encoding="utf-8"))["recommendation"]["strategy"]
    except (ValueError, KeyError, TypeError, RecursionError):
        text = None
    if not isinstance(text, str):
        raise FormatError(f"fit --from needs a report with recommendation.strategy; got {file.name} without it.")
    return text


class _Told:
    """A table that tells how far its reader has come."""

    repeatable = True

    def __init__(self, table: Any, progress: Any) -> None:
        self._table, self._progress, self._pass = table, progress, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def blocks(self, block_rows: int | None = None) -> Iterator[Block]:
        self._pass += 1
        done = 0
        for block in self._table.blocks(block_rows):
            yield block
            done += len(block)
            if self._progress is not None:
                self._progress(self._table.name, f"pass {self._pass}", done, self._table.n_rows)


def _stamp(folded: Folded, table: Any) -> tuple[dict[str, Any], int]:
    """Means and variances of finite rows as they are, mapped, and mapped twice."""
    sums: dict[str, _Sums] = {}
    n_rows = 0
    for block in _spread(table):
        rows = block.widened().rows.astype(np.float64)
        rows = rows[np.isfinite(rows).all(axis=1) & rows.any(axis=1)]
        n_rows += len(rows)
        for name in ("in", "out", "twice")[: 3 if folded.dim_in == folded.dim_out else 2]:
            sums.setdefault(name, _Sums()).add(rows)
            rows = folded.transform(rows) if name != "twice" and len(rows) else rows
    found: dict[str, Any] = {}
    for name, each in sums.items():
        mean, variance = each.mean_and_variance()
        if np.isfinite(mean).all() and np.isfinite(variance).all():
            found |= {f"{name}_mean": mean, f"{name}_variance": variance}
    return found, n_rows


def _spread(table: Any) -> Iterator[Block]:
    """All blocks of a short table or a stream; of a long one 64 slices from its start to its end."""
    if not hasattr(table, "between") or table.n_rows <= _STAMP_ROWS:
        yield from table.blocks()
        return
    for start in np.linspace(0, table.n_rows - _STAMP_ROWS // 64, 64).astype(int):
        yield table.between(int(start), int(start) + _STAMP_ROWS // 64)


class _Sums:
    """Mean and variance of columns, in float64 around the first block's mean."""

    def __init__(self) -> None:
        self.n, self.around, self.first, self.second = 0, None, 0.0, 0.0

    def add(self, rows: Any) -> None:
        if not len(rows):
            return
        if self.around is None:
            self.around = rows.mean(axis=0)
        apart = rows - self.around
        self.n += len(rows)
        self.first, self.second = self.first + apart.sum(axis=0), self.second + (apart**2).sum(axis=0)

    def mean_and_variance(self) -> tuple[Any, Any]:
        if self.around is None:
            return np.full(1, np.nan), np.full(1, np.nan)
        shift = self.first / self.n
        return self.around + shift, np.maximum(self.second / self.n - shift**2, 0.0)
