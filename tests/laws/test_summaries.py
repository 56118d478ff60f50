"""The laws of the algebra, for every summary: merging is associative and commutative, empty is neutral, and splitting
a table changes nothing."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from fullspan._typing import Block
from fullspan.errors import InputError
from fullspan.summaries.base import Summary
from fullspan.summaries.fold import fold
from tests.cases import SUMMARIES, SummaryCase
from tests.strategies import split_tables, tables

every_summary = pytest.mark.parametrize("case", SUMMARIES, ids=str)
few = settings(max_examples=25, deadline=None)


def of(case: SummaryCase, block: Block) -> Summary:
    return case.kind.of(block, **case.options(block.dim))


def assert_same(case: SummaryCase, first: Summary, second: Summary, wide: bool) -> None:
    """Equal numbers: within the tolerance of the case, or exactly where they are not floating point."""
    tolerance = case.tolerance[0 if wide else 1]
    one, other = case.numbers(first), case.numbers(second)
    assert one.keys() == other.keys()
    for name, value in one.items():
        _assert_close(str(case), name, value, other[name], tolerance)


def _assert_close(what: str, name: str, value: Any, wanted: Any, tolerance: float) -> None:
    scale = None
    if isinstance(value, tuple):
        (value, scale), wanted = value, wanted[0]
    if isinstance(value, (dict, list, str, int, type(None))):
        assert _rounded(value) == _rounded(wanted), f"{what}.{name}"
        return
    value, wanted = np.asarray(value, dtype=np.float64), np.asarray(wanted, dtype=np.float64)
    assert value.shape == wanted.shape, f"{what}.{name}"
    if scale is None:
        scale = float(np.abs(value).max(initial=0.0))
    apart = float(np.abs(value - wanted).max(initial=0.0))
    assert apart <= tolerance * scale, f"{what}.{name}: {apart} apart at a scale of {scale}"


def _rounded(value: Any) -> Any:
    """Floats within plain values to 8 digits: they come from sums."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(each) for each in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def _bytes(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_bytes(each) for each in value)
    return value.tobytes() if isinstance(value, np.ndarray) else repr(value)


def digits(case: SummaryCase, made: Summary) -> dict[str, Any]:
    return {name: _bytes(value) for name, value in case.numbers(made).items()}


def is_wide(block: Block) -> bool:
    return block.rows.dtype == np.float64


@every_summary
@few
@given(block=tables(max_rows=20))
def test_empty_is_neutral(case, block):
    whole, empty = of(case, block), case.kind.empty(block.dim, **case.options(block.dim))
    assert empty.n_rows == 0
    assert whole.n_rows == len(block)
    assert_same(case, whole, whole.merge(empty), is_wide(block))
    assert_same(case, whole, empty.merge(whole), is_wide(block))
    assert empty.merge(empty).n_rows == 0


@every_summary
@few
@given(split=split_tables())
def test_splitting_changes_nothing(case, split):
    block, parts = split
    merged = sum(of(case, part) for part in parts)
    assert merged.n_rows == len(block)
    assert_same(case, of(case, block), merged, is_wide(block))


@every_summary
@few
@given(split=split_tables(broken=True))
def test_splitting_changes_nothing_about_rows_that_are_not_finite(case, split):
    block, parts = split
    made = fold(parts, case.kind.with_options(**case.options(block.dim)))
    assert_same(case, of(case, block), made, is_wide(block))
    assert made.n_rows == (len(block) if case.kind.wants_raw else int(np.isfinite(block.rows).all(axis=1).sum()))


@every_summary
@few
@given(split=split_tables())
def test_merging_is_commutative_and_associative(case, split):
    block, parts = split
    a, b, c = (of(case, part) for part in (parts * 3)[:3])
    assert_same(case, a.merge(b), b.merge(a), is_wide(block))
    assert_same(case, a.merge(b).merge(c), a.merge(b.merge(c)), is_wide(block))


@every_summary
@settings(max_examples=10, deadline=None)
@given(split=split_tables())
def test_the_same_tree_gives_the_same_digits_and_leaves_its_parts_alone(case, split):
    _, parts = split
    leaves = [of(case, part) for part in parts]
    before = [digits(case, leaf) for leaf in leaves]
    first = functools.reduce(lambda one, other: one.merge(other), leaves)
    again = functools.reduce(lambda one, other: one | other, [of(case, part) for part in parts])
    assert digits(case, first) == digits(case, again)
    assert [digits(case, leaf) for leaf in leaves] == before


@every_summary
@settings(max_examples=5, deadline=None)
@given(block=tables())
def test_summaries_travel_between_processes(case, block):
    if callable(case.options(block.dim).get("by")):
        pytest.skip("a function may not be picklable")
    made = of(case, block)
    assert digits(case, pickle.loads(pickle.dumps(made))) == digits(case, made)


@every_summary
def test_different_dims_do_not_merge(case):
    block = Block(np.ones((3, 4)), 0, None, np.array(["a"] * 3), np.ones(3))
    other = Block(np.ones((3, 6)), 0, None, np.array(["a"] * 3), np.ones(3))
    with pytest.raises(InputError, match=r"merge needs rows of one length; got dim 4 and 6\. Are these"):
        of(case, block).merge(of(case, other))
