"""Scales, ticks and marks of the small figures."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullspan.report.svg import Chart, Scale, spread_of, thinned, ticks_of

HOSTILE = "</text><script>alert(1)</script>\"'&"


def test_a_scale_maps_its_ends_and_clips_beyond_them():
    scale = Scale(10, 20, 0, 100)
    assert [scale(value) for value in (10, 15, 20, 5, 99)] == [0, 50, 100, 0, 100]
    falling = Scale(0, 1, 100, 0)
    assert falling(0.25) == 75


def test_a_log_scale_maps_ratios():
    scale = Scale(1e-4, 1, 0, 100, log=True)
    assert scale(1e-2) == pytest.approx(50)
    assert scale(0) == 0


def test_a_scale_of_no_width_is_its_middle():
    assert Scale(3, 3, 0, 100)(3) == 50


@pytest.mark.parametrize(
    ("low", "high", "log", "labels"),
    [
        (0, 1, False, ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (-3, 12, False, ["0", "5", "10"]),
        (0, 20_000, False, ["0", "5,000", "10,000", "15,000", "20,000"]),
        (1e-3, 10, True, ["10⁻³", "10⁻²", "10⁻¹", "10⁰", "10¹"]),
        (1.5, 45, True, ["2", "5", "10", "20"]),
        (0.03, 0.3, True, ["0.05", "0.1", "0.2"]),
        (2, 3, True, ["2.0", "2.2", "2.4", "2.6", "2.8", "3.0"]),
        (0, 3e-7, False, ["0", "1.0e-7", "2.0e-7", "3.0e-7"]),
    ],
)
def test_ticks(low, high, log, labels):
    assert [label for _, label in ticks_of(low, high, log)] == labels


@given(st.floats(-1e12, 1e12), st.floats(1e-9, 1e12))
def test_ticks_lie_inside_and_are_few(low, width):
    high = low + width
    places = [place for place, _ in ticks_of(low, high)]
    if not high > low:
        return
    assert len(places) <= 12
    assert all(low - width * 1e-6 <= place <= high + width * 1e-6 for place in places)


def test_thinning_keeps_the_ends_and_the_start():
    kept = thinned(10_000, 100)
    assert (kept[0], kept[-1]) == (0, 9_999)
    assert kept[:25] == list(range(25))
    assert len(kept) <= 126
    assert thinned(3) == [0, 1, 2]


def test_a_spread_is_never_of_no_width():
    for values in ([], [2.0], [0.0, 0.0], [math.nan], [1.0, 5.0]):
        low, high = spread_of(values)
        assert low < high


def test_every_mark_is_well_formed_and_every_word_escaped():
    chart = Chart((0, 10), (1e-3, 1), HOSTILE, HOSTILE, log_y=True)
    chart.line([0, 1, 2, 3, 4], [0.1, math.nan, 0.2, 0.0, 0.5], "line-a")
    chart.bars([0, 1, 2], [0.5, 0.25], "fill-a")
    chart.columns([1, 2], [0.1, 0.2], "fill-a")
    chart.band([0, 1], [0.1, 0.1], [0.2, 0.3], "fill-a")
    chart.dots([1], [0.5], "line-a")
    chart.shade_below(0.1, HOSTILE)
    chart.rule(9, HOSTILE)
    chart.rule(99, "outside")
    chart.hover(1, HOSTILE)
    text = str(chart.svg(HOSTILE))
    root = ET.fromstring(text)
    assert not list(root.iter("script"))
    assert root.get("aria-label") == HOSTILE
    assert "nan" not in text
    assert "outside" not in text
    assert len(re.findall('class="line-a dot"', text)) == 4  # three lone points of the broken line, and one dot
