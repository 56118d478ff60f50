"""The figures of a record: what is drawn, what is left out, and the same numbers as tables."""

from __future__ import annotations

import math
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from fullspan.report import figures
from fullspan.store.records import TableRecord
from tests.unit.report import planted

KEYS = [
    "spectrum",
    "cosines",
    "norm",
    "gini_index",
    "vector_entropy",
    "hoyer_sparsity",
    "shares",
    "dimensions",
    "frequency",
    "hubs",
]


@pytest.fixture(scope="module")
def record():
    return planted.record_of(planted.rows_of())


def test_all_figures_are_drawn_with_words_and_tables(record):
    drawn = figures.figures_of(record)
    assert [figure.key for figure in drawn] == KEYS
    for figure in drawn:
        root = ET.fromstring(str(figure.svg))
        assert root.get("role") == "img"
        assert len(root.get("aria-label")) > 20
        assert figure.rows
        assert {len(row) for row in figure.rows} == {len(figure.head)}
        assert "nan" not in str(figure.svg)


def test_a_record_without_curves_has_no_figures():
    assert figures.figures_of(TableRecord("t", "", "float32", 1, 1)) == []


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.filterwarnings("ignore")
def test_tiny_and_constant_tables_can_be_drawn(rows, dim):
    record = planted.record_of(np.ones((rows, dim), dtype=np.float32))
    for figure in figures.figures_of(record):
        assert ET.fromstring(str(figure.svg)).tag.endswith("svg")


def test_curves_that_are_not_finite_are_left_out(record):
    norm = record.profile["norm"] | {"values": [math.nan] * 54}
    broken = {"norm": norm, "dimension_quantiles": {"q05": [math.inf], "median": [0.0], "q95": [0.0]}}
    keys = [figure.key for figure in figures.figures_of(replace(record, profile=record.profile | broken))]
    assert "norm" not in keys
    assert "dimensions" not in keys


def test_the_spectrum_shades_what_the_type_cannot_resolve(record):
    assert "below what float32 resolves" in figures.spectrum(record).svg
    assert "below what" not in figures.spectrum(replace(record, dtype="float64")).svg


def test_the_isotropic_cosines_are_a_distribution():
    edges = np.linspace(-1, 1, 401).tolist()
    for dim in (3, 8, 300):
        shares = np.array(figures._isotropic_cosines(edges, dim))
        middles = (np.array(edges[1:]) + edges[:-1]) / 2
        assert shares.sum() == pytest.approx(1, rel=2e-3)
        assert (shares * middles**2).sum() == pytest.approx(1 / dim, rel=2e-2)
    assert figures._isotropic_cosines(edges, 2) == []


def test_a_histogram_from_quantiles_has_the_mass_of_the_rows():
    values = np.random.default_rng(0).normal(size=5000)
    curve = planted.distribution(values, list(range(5000)))
    below = figures._rank(curve["q"], curve["values"], 0.5)
    assert below == pytest.approx((values <= 0.5).mean(), abs=0.01)
    assert figures._rank(curve["q"], curve["values"], -9) == 0
    assert figures._rank(curve["q"], curve["values"], 9) == 1


def test_the_tail_of_the_hubs_says_or_more(record):
    profile = record.profile | {"neighbors": {"k": 10, "occurrences": [5] + [0] * 99 + [2]}}
    assert figures.hubs(replace(record, profile=profile)).rows == [["0", "5"], ["100 or more", "2"]]
