"""Figures of studies: what is drawn, and that it is written whole."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from fullspan.errors import MissingExtraError
from fullspan.studies.base.figures import COLORS, Curve, Dot, Panel, forest, panels, save

X = np.arange(1.0, 6.0)


def test_a_panel_shows_the_mean_and_each_seed_in_a_band_from_least_to_greatest():
    values = np.array([[1.0, 2, 3, 4, 5], [3.0, 4, 5, 6, 7], [2.0, 3, 4, 5, 9]])
    axes = panels([[Panel((Curve(X, values, label="training"),), "Loss", "batch 1", "epoch")]]).axes[0]
    *seeds, mean = (line.get_ydata().tolist() for line in axes.lines)
    assert (seeds, mean) == (values.tolist(), values.mean(axis=0).tolist())
    band = axes.collections[0].get_paths()[0].vertices
    for place, low, high in zip(X, values.min(axis=0), values.max(axis=0), strict=True):
        assert {low, high} <= set(band[band[:, 0] == place, 1])
    assert (axes.get_title(), axes.get_ylabel(), axes.get_xlabel()) == ("Loss", "batch 1", "epoch")


def test_one_seed_has_no_band():
    assert not panels([[Panel((Curve(X, X[None]),))]]).axes[0].collections


def test_a_forest_shows_each_interval_on_an_axis_around_zero():
    dots = [Dot("a", 1.0, 0.5, 1.5), Dot("b", -2.0, None, None, group="other")]
    axes = forest([("Gini index", dots)]).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    low, high = axes.get_xlim()
    assert low == -high
    assert high > 2
    drawn = [line.get_xdata() for line in axes.lines]
    assert [0.5, 1.5] in [list(each) for each in drawn]


def test_a_forest_of_nothing_that_moves_still_has_an_axis():
    assert forest([("m", [Dot("a", 0.0, None, None)])]).axes[0].get_xlim() == (-1.08, 1.08)


def test_both_files_are_written_and_given(tmp_path):
    made = save(panels([[Panel((Curve(X, X[None]),))]], title="a < b"), tmp_path / "figures" / "one.two")
    assert made["png"].startswith(b"\x89PNG")
    assert ET.fromstring(made["svg"]).tag.endswith("svg")
    written = {path.name: path.read_bytes() for path in (tmp_path / "figures").iterdir()}
    assert written == {"one.two.svg": made["svg"], "one.two.png": made["png"]}


def test_a_figure_is_the_same_each_time(tmp_path):
    once, again = (save(panels([[Panel((Curve(X, X[None]),))]]), tmp_path / name)["svg"] for name in "ab")
    assert once == again


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"Drawing the figures of a study needs the extra 'figures'"):
        panels([[Panel((Curve(X, X[None]),))]])


def test_colors_are_told_apart():
    assert len(set(COLORS)) == len(COLORS) == 6
