"""Groups beside each other."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fullspan
from fullspan.jobs.formats import words
from fullspan.jobs.formats.groups import MOST_GROUPS, cell_of, group_table
from fullspan.store.records import Reading


@pytest.fixture(scope="module")
def report():
    """25 groups, of which the last one is flat: its rows lie along one axis."""
    rows = np.random.default_rng(0).normal(size=(25, 60, 8))
    rows[-1, :, 1:] *= 0.01
    names = np.repeat([f"group {key}" for key in range(25)], 60)
    return fullspan.measure(rows.reshape(-1, 8), labels=names, by="label", neighbors=False)


def test_the_worst_group_comes_first_and_the_rest_is_counted(report):
    table = group_table(next(iter(report)))
    assert table is not None
    assert (table.rows[0].name, table.rows[0].n_rows, len(table.rows), table.more) == ("group 24", 60, MOST_GROUPS, 5)
    assert table.rows[0].severity in words.SEVERITIES
    parts = [row.readings["information_abundance"].value or 0.0 for row in table.rows]
    assert parts[0] == min(parts)
    assert table.measures == (
        "information_abundance",
        "centered_effective_rank",
        "average_cosine",
        "mean_norm",
        "gini_index",
    )
    assert re.fullmatch(r"\d\.\d\d \(\d+%\)", cell_of(table.rows[0], "information_abundance"))


def test_text_has_a_line_a_group(report):
    text = report.to_text()
    assert re.search(r"^[✗▲•] group 24 +60 +\d\.\d\d \(\d+%\)", text, re.M)
    assert len(re.findall(r"^. group \d+ +60 ", text, re.M)) == MOST_GROUPS
    assert "and 5 more; --json has every measure of all groups" in text
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("gini_index") == 1


def test_markdown_has_a_row_a_group(report):
    text = report.to_markdown()
    assert len(re.findall(r"^\|.*group \d+ \| 60 \|", text, re.M)) == MOST_GROUPS
    assert "| group | rows | `information_abundance` |" in text
    assert "and 5 more" in text


def test_json_has_every_measure_of_all_groups(report):
    groups = report.to_dict()["tables"][0]["groups"]
    assert len(groups) == 25
    assert "participation_ratio" in groups["group 3"]


def test_chosen_measures_are_shown_as_chosen():
    rows = np.random.default_rng(0).normal(size=(90, 4))
    report = fullspan.measure(rows, labels=["a"] * 60 + ["b"] * 30, by="label", measures=["stable_rank", "gini_index"])
    table = group_table(next(iter(report)))
    assert table is not None
    assert (table.measures, table.more, table.rest) == (("stable_rank", "gini_index"), 0, "")
    assert table.caption == "The worst first."


def test_percentages_bear_their_sign():
    reading = Reading("length_frequency_correlation", 0.43, standard_error=2.2)
    assert (words.value_of(reading), words.error_of(reading)) == ("0.4300%", "± 2.2%")
    said = words.evidence_line({"measure": reading.measure, "value": 0.43, "standard_error": 2.2})
    assert said == "length_frequency_correlation 0.4300% ± 2.2%"
    assert words.value_of(Reading("gini_index", 0.43)) == "0.4300"


@pytest.mark.parametrize(
    ("measure", "value", "shown"),
    [
        ("inverse_condition_number", 2e-9, "< 2.000e-09"),
        ("inverse_condition_number", 0.0, "0"),
        ("condition_number", 5e8, "> 5.000e+08"),
    ],
)
def test_a_value_below_resolution_is_a_bound(measure, value, shown):
    assert words.value_of(Reading(measure, value, below_resolution=True)) == shown
