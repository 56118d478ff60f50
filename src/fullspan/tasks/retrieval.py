"""Retrieval of rows by queries, and recommendation of rows to users: exact search over the whole table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError
from fullspan.tasks.base import Cell, Folds, Task, View, check_positions, check_vectors, positions
from fullspan.tasks.nearest import alike, best
from fullspan.tasks.statistics import Mean, Statistic

__all__ = ["Recommendation", "Retrieval"]

_QUERIES = 256


class _Ranked(Task):
    """What the two share: vectors that look for rows; the rows may be fitted to, the vectors never are."""

    def __init__(self, vectors: Any, relevant: Sequence[Mapping[int, float]], k: int, name: str) -> None:
        kind = type(self).__name__
        self.name, self.k = name, k
        self.vectors = check_vectors(vectors, kind)
        if len(self.vectors) != len(relevant):
            raise InputError(
                f"{kind} needs the wanted rows of every one of its {self.unit}; got {len(relevant)} for "
                f"{len(self.vectors)}."
            )
        if k < 1:
            raise InputError(f"{kind} needs k of at least 1; got {k}.")
        asked = [at for at, each in enumerate(relevant) if any(gain > 0 for gain in each.values())]
        if not asked:
            raise InputError(f"{kind} needs {self.unit} with a wanted row; got none.")
        left = len(relevant) - len(asked)
        self.notes = (f"{left:,} {self.unit} want no row, and are left out.",) if left else ()
        self.asked = np.array(asked)
        self.wanted = [positions([at for at, gain in relevant[i].items() if gain > 0], kind) for i in asked]
        self.gains = [np.array([gain for gain in relevant[i].values() if gain > 0], float) for i in asked]

    def _prepare(self, n_rows: int, dim: int) -> None:
        if self.vectors.shape[1] != dim:
            raise InputError(
                f"{type(self).__name__} {self.name!r} needs vectors of length {dim}, as the table has; got "
                f"{self.vectors.shape[1]}."
            )
        check_positions(np.concatenate(self.wanted), n_rows, f"{type(self).__name__} {self.name!r}")
        self.n_rows = n_rows

    @property
    def n_units(self) -> int:
        return len(self.asked)

    def cells(self, folds: Folds) -> list[Cell]:
        order = np.random.default_rng([self.seed, 2]).permutation(self.n_units)
        parts = [np.sort(order[at :: folds.k]) for at in range(folds.k)]
        return [Cell((at,), frozenset(), part) for at, part in enumerate(parts) if len(part)]

    def inner(self, folds: Folds, cell: Cell) -> list[Cell]:
        return [each for each in self.cells(folds) if each.key != cell.key]

    def evaluate(self, view: View, cell: Cell, folds: Folds) -> Array:
        rows = view.at(np.arange(self.n_rows))
        vectors = view.of(self.vectors[self.asked[cell.units]])
        places, ranks = np.empty((len(vectors), min(self.k, len(rows))), np.int64), np.empty(len(vectors))
        for start in range(0, len(vectors), _QUERIES):
            units = cell.units[start : start + _QUERIES]
            some = vectors[start : start + _QUERIES]
            places[start : start + len(units)], ranks[start : start + len(units)] = self._search(
                some, rows, units, view.metric
            )
        return np.array([self._outcome(*each) for each in zip(cell.units, places, ranks, strict=True)])

    def _search(self, vectors: Array, rows: Array, units: Array, metric: str) -> tuple[Array, Array]:
        """The first k rows, and the rank of the best wanted row among all (ties in the middle)."""

        def leave_out(block: Array, start: int) -> None:
            for at, unit in enumerate(units[start : start + len(block)]):
                hidden = self._hidden(int(unit))
                if hidden is not None:
                    block[at, hidden] = -np.inf

        places, _ = best(vectors, rows, self.k, metric, leave_out)
        ranks = np.empty(len(units))
        for at, unit in enumerate(units):
            scores = alike(vectors[at : at + 1], rows, metric)
            leave_out(scores, at)
            top = scores[0, self.wanted[unit]].max()
            ranks[at] = 1.0 + np.count_nonzero(scores > top) + (np.count_nonzero(scores == top) - 1) / 2.0
        return places, ranks

    def _hidden(self, unit: int) -> Array | None:
        return None

    def _outcome(self, unit: int, places: Array, rank: float) -> tuple[float, ...]:
        wanted, gains = self.wanted[unit], self.gains[unit]
        gain = dict(zip(wanted.tolist(), gains.tolist(), strict=True))
        found = np.array([gain.get(int(each), 0.0) for each in places])
        discount = 1.0 / np.log2(np.arange(len(found)) + 2.0)
        ideal = np.sort(gains)[::-1][: len(found)]
        hits = int(np.count_nonzero(found))
        return (
            float(found @ discount / (ideal @ discount[: len(ideal)])),
            hits / len(wanted),
            1.0 / rank,
            float(hits > 0),
        )


class Retrieval(_Ranked):
    """Find the rows (documents) that queries want.

    Parameters
    ----------
    queries
        ``(q, dim)`` vectors of the queries, of the space of the table.
    relevant
        For each query a mapping from the position of a row to its gain; rows of gain 0 are as rows that are not named.
    k
        How many rows count.
    groups
        ``(q,)`` key of each query: queries of one group are drawn together in the bootstrap.
    name
        What the task is called.

    Notes
    -----
    Strategies are fitted to the documents: queries are what comes later. Gains are linear in nDCG, as trec_eval has
    them; the reciprocal rank is that of the best row wanted, whatever its rank.

    Examples
    --------
    >>> Retrieval([[1.0, 0.0]], [{0: 1.0, 4: 2.0}]).n_units
    1
    """

    primary: ClassVar = "nDCG@k"
    unit: ClassVar = "queries"

    def __init__(
        self,
        queries: Any,
        relevant: Sequence[Mapping[int, float]],
        *,
        k: int = 10,
        groups: Any = None,
        name: str = "retrieval",
    ) -> None:
        super().__init__(queries, relevant, k, name)
        self._query_groups = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
        if self._query_groups is not None and len(self._query_groups) != len(relevant):
            raise InputError(f"Retrieval needs one group a query; got {len(self._query_groups)} for {len(relevant)}.")

    def clusters(self, groups: Array) -> Array:
        return np.arange(self.n_units) if self._query_groups is None else self._query_groups[self.asked]

    def statistics(self, outcomes: Array, units: Array) -> dict[str, Statistic]:
        return {"nDCG@k": Mean(outcomes[:, 0]), "recall@k": Mean(outcomes[:, 1]), "MRR": Mean(outcomes[:, 2])}


class Recommendation(_Ranked):
    """Recommend rows (items) to users.

    Parameters
    ----------
    users
        ``(u, dim)`` vectors of the users, of the space of the items.
    held_out
        For each user the positions of the items that should be found.
    seen
        For each user the positions of items known already, which are not recommended; None for no such items.
    k
        How many items are recommended.
    name
        What the task is called.

    Notes
    -----
    Users go through the map of the items. A comparison scores the task twice: by cosine, behind a unit norm, and by dot
    product, without one.

    Examples
    --------
    >>> Recommendation([[1.0, 0.0]], [[3]], [[1, 2]]).unit
    'users'
    """

    primary: ClassVar = "nDCG@k"
    unit: ClassVar = "users"

    def __init__(
        self,
        users: Any,
        held_out: Sequence[Sequence[int]],
        seen: Sequence[Sequence[int]] | None = None,
        *,
        k: int = 10,
        name: str = "recommendation",
    ) -> None:
        super().__init__(users, [dict.fromkeys(map(int, each), 1.0) for each in held_out], k, name)
        if seen is not None and len(seen) != len(held_out):
            raise InputError(f"Recommendation needs seen items of every user; got {len(seen)} for {len(held_out)}.")
        self._seen = [
            positions([] if seen is None else np.asarray(seen[at], int), "Recommendation") for at in self.asked
        ]
        for at, wanted, known in zip(self.asked, self.wanted, self._seen, strict=True):
            if np.isin(wanted, known).any():
                raise InputError(f"Recommendation needs held-out items that are not seen; got both of user {at}.")

    def _prepare(self, n_rows: int, dim: int) -> None:
        super()._prepare(n_rows, dim)
        check_positions(np.concatenate(self._seen), n_rows, f"Recommendation {self.name!r}")

    def _hidden(self, unit: int) -> Array | None:
        return self._seen[unit] if len(self._seen[unit]) else None

    def statistics(self, outcomes: Array, units: Array) -> dict[str, Statistic]:
        return {"nDCG@k": Mean(outcomes[:, 0]), "HR@k": Mean(outcomes[:, 3])}
