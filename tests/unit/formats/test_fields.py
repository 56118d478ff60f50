"""Reports of several tables end with one line a table, and carry the numbers of the heat map of fields."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fullspan as fs
from fullspan.report.page import render_page


@pytest.fixture(scope="module")
def report() -> fs.Report:
    wide = np.random.default_rng(0).standard_normal((300, 8))
    tables = {"user|id.weight": wide, "city.weight": wide[:, :1] * np.ones(8) + 0.01 * wide}
    return fs.measure(tables, neighbors=False)


def test_a_line_a_table(report):
    *_, first, second = report.to_text().rstrip().splitlines()
    assert "user|id.weight" in first
    assert "city.weight" in second
    assert (
        second.split()[-1] == f"{report['city.weight']['information_abundance'].value / report.fields[1]['null']:.0%}"
    )


def test_a_row_a_table_in_markdown(report):
    tail = report.to_markdown().split("## Tables")[1]
    assert tail.count("\n| ") == 4
    assert "user\\|id.weight" in tail


def test_one_table_has_no_summary():
    one = fs.measure(np.eye(4))
    assert "## Tables" not in one.to_markdown()
    assert "fields" not in one.to_dict()


def test_relative_singular_values_of_every_table(report):
    fields = json.loads(report.to_json())["fields"]
    assert [row["table"] for row in fields] == ["user|id.weight", "city.weight"]
    expected = np.array(report["city.weight"].record.profile["singular_values"])
    np.testing.assert_allclose(fields[1]["relative_singular_values"], expected / expected[0])
    assert fields[1]["relative_to_null"] < 0.3 < 0.9 < fields[0]["relative_to_null"]


def test_the_page_has_a_heat_map(report):
    page = render_page(report)
    assert page.count('class="heat"') == 16
    assert ">user|id.weight</text>" in page
    assert 'class="heat"' not in render_page(fs.measure(np.eye(4)))


def test_names_in_the_heat_map_are_escaped():
    tables = {"<b>x.weight": np.eye(4), "y.weight": np.eye(4)}
    assert "<b>x" not in render_page(fs.measure(tables, neighbors=False))
