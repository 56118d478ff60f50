"""The algebra: a summary adds up.

A summary is a small frozen object that stands for a multiset of rows. Laws, tested for every summary:

- ``S.empty(dim)`` is neutral: ``a.merge(S.empty(dim))`` equals ``a``;
- merging is associative and commutative (up to rounding, or up to the stated error of a sketch);
- splitting changes nothing: ``S.of(rows)`` equals the merge of ``S.of`` over any partition of the rows.

Adding rows one block at a time to a frozen object would copy it each time, so each summary has an *accumulator*: a
mutable builder that lives inside one fold and is frozen at its end.
"""

from __future__ import annotations

import functools
from abc import ABCMeta, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from fullspan._typing import Array, Block
from fullspan.errors import InputError

__all__ = ["Accumulator", "Plan", "Recipe", "Summaries", "Summary", "SummaryType", "frozen"]


class Accumulator(Protocol):
    """Adds blocks in place; `summary` freezes what was added so far."""

    def add(self, block: Block) -> None: ...

    def summary(self) -> Summary: ...


class SummaryType(ABCMeta):
    """Lets summary classes be combined: ``Moments | RowProfile`` is a plan for one pass."""

    def __or__(cls, other: Any) -> Plan:
        return Plan.of(cls) | other

    def __ror__(cls, other: Any) -> Plan:
        return Plan.of(other) | cls


class Summary(metaclass=SummaryType):
    """A mergeable, frozen description of a multiset of rows.

    Subclasses are frozen dataclasses with the fields ``dim`` (row length) and ``n_rows`` (rows added).
    """

    #: Whether the accumulator wants rows that hold NaN or infinity too; the others never see them.
    wants_raw: ClassVar[bool] = False

    dim: int
    n_rows: int

    @classmethod
    @abstractmethod
    def accumulator(cls, dim: int, **options: Any) -> Accumulator:
        """A new builder for rows of length `dim`."""

    @abstractmethod
    def merge(self, other: Self) -> Self:
        """The summary of both multisets together."""

    @classmethod
    def with_options(cls, **options: Any) -> Recipe:
        """This summary with options bound, for use in a plan: ``Reservoir.with_options(size=1000) | Moments``."""
        return Recipe(cls, options)

    @classmethod
    def empty(cls, dim: int, **options: Any) -> Self:
        """The summary of no rows: the neutral element of `merge`."""
        return cls.accumulator(dim, **options).summary()  # type: ignore[return-value]  # a builder makes its own kind

    @classmethod
    def of(
        cls,
        rows: Array | Block,
        *,
        ids: Array | None = None,
        labels: Array | None = None,
        frequencies: Array | None = None,
        start: int = 0,
        **options: Any,
    ) -> Self:
        """The summary of one block of rows, array of shape ``(n, dim)``; rows that are not finite are left out."""
        block = rows if isinstance(rows, Block) else Block(np.asarray(rows), start, ids, labels, frequencies)
        block = block.widened()
        builder = cls.accumulator(block.dim, **options)
        if not cls.wants_raw and block.finite is not None:
            block = block.take(block.finite)
        builder.add(block)
        return builder.summary()  # type: ignore[return-value]  # a builder makes its own kind

    def __or__(self, other: Self) -> Self:
        return self.merge(other)

    __add__ = __or__

    def __radd__(self, other: object) -> Self:
        if other == 0:  # what sum() starts from
            return self
        return NotImplemented

    def _check_mergeable(self, other: Summary) -> None:
        if type(other) is not type(self):
            raise InputError(
                f"merge needs two summaries of one kind; got {type(self).__name__} and {type(other).__name__}."
            )
        if other.dim != self.dim:
            raise InputError(
                f"merge needs rows of one length; got dim {self.dim} and {other.dim}. Are these two different tables?"
            )


def frozen(array: Array) -> Array:
    """The array, made read-only."""
    array.flags.writeable = False
    return array


@dataclass(frozen=True)
class Recipe:
    """A summary class with its options."""

    summary: type[Summary]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __or__(self, other: Any) -> Plan:
        return Plan.of(self) | other

    def __ror__(self, other: Any) -> Plan:
        return Plan.of(other) | self

    def accumulator(self, dim: int) -> Accumulator:
        return self.summary.accumulator(dim, **self.options)


def _same_options(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    def same(a: Any, b: Any) -> bool:
        return np.array_equal(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else bool(a == b)

    return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())


@dataclass(frozen=True)
class Plan:
    """Several summaries to be made in one pass; a summary class may stand in it once."""

    recipes: tuple[Recipe, ...]

    @classmethod
    def of(cls, what: Any) -> Plan:
        if isinstance(what, Plan):
            return what
        if isinstance(what, Recipe):
            return cls((what,))
        if isinstance(what, SummaryType):
            return cls((Recipe(what),))  # type: ignore[arg-type]  # a kind of summary by now
        if isinstance(what, Iterable) and not isinstance(what, (str, bytes)):
            return functools.reduce(lambda plan, each: plan | each, what, cls(()))
        raise InputError(f"A plan needs summary classes, such as fs.Moments | fs.RowProfile; got {what!r}.")

    def __or__(self, other: Any) -> Plan:
        return self.also(other)

    def also(self, other: Any) -> Plan:
        """This plan with what another one asks for."""
        mine = {recipe.summary: recipe for recipe in self.recipes}
        for recipe in Plan.of(other).recipes:
            known = mine.setdefault(recipe.summary, recipe)
            if not _same_options(known.options, recipe.options):
                raise InputError(
                    f"A plan needs one set of options for each summary; got {recipe.summary.__name__} "
                    f"with {dict(known.options)} and with {dict(recipe.options)}."
                )
        return Plan(tuple(mine.values()))

    def __iter__(self) -> Iterator[Recipe]:
        return iter(self.recipes)


@dataclass(frozen=True, repr=False)
class Summaries(Mapping[SummaryType, Summary]):
    """What one pass with a plan of several summaries gives: each by its class. Merges part by part."""

    parts: Mapping[SummaryType, Summary]

    def __getitem__(self, kind: SummaryType) -> Any:
        try:
            return self.parts[kind]
        except KeyError:
            names = ", ".join(each.__name__ for each in self.parts)
            raise InputError(f"This pass did not make {getattr(kind, '__name__', kind)}; it made {names}.") from None

    def get(self, kind: Any, default: Any = None) -> Any:
        return self.parts.get(kind, default)

    def __contains__(self, kind: object) -> bool:
        return kind in self.parts

    def __iter__(self) -> Iterator[SummaryType]:
        return iter(self.parts)

    def __repr__(self) -> str:
        return f"Summaries({', '.join(map(repr, self.parts.values()))})"

    def __len__(self) -> int:
        return len(self.parts)

    def merge(self, other: Summaries) -> Summaries:
        if set(self.parts) != set(other.parts):
            raise InputError("merge needs two results of the same plan; got different sets of summaries.")
        return Summaries({kind: part.merge(other.parts[kind]) for kind, part in self.parts.items()})

    def __or__(self, other: Summaries) -> Summaries:  # type: ignore[override]  # a mapping, joined with its like only
        return self.merge(other)

    __add__ = __or__

    def __radd__(self, other: object) -> Summaries:
        if other == 0:
            return self
        return NotImplemented
