"""The public names: all measures are among them, and type checkers see the same ones as programs."""

from __future__ import annotations

import pytest

import fullspan
from fullspan.measures.catalog import CATALOG
from tools import make_stub


@pytest.mark.parametrize("function", sorted({entry.function.__name__ for entry in CATALOG.values()}))
def test_every_measure_is_a_public_function(function):
    assert function in fullspan.__all__


def test_type_checkers_see_the_same_names():
    assert make_stub.OUT.read_text(encoding="utf-8") == make_stub.stub()


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'fullspan' has no attribute 'gini'"):
        _ = fullspan.gini  # type: ignore[attr-defined]


def test_dir_lists_the_public_names():
    assert set(fullspan.__all__) <= set(dir(fullspan))
