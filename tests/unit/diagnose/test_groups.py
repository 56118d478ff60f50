"""Groups are judged by their own readings, named where they are worse than the whole table, and shown."""

from __future__ import annotations

import numpy as np
import pytest

import fullspan as fs
from fullspan.jobs.formats.github import render_github
from fullspan.jobs.formats.junit import render_junit
from fullspan.report.page import render_page


def gaussian(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([n, d, seed]).standard_normal((n, d))


@pytest.fixture(scope="module")
def report() -> fs.Report:
    flat = gaussian(400, 2, 1) @ gaussian(2, 16, 2)
    E = np.vstack([gaussian(2000, 16), flat, gaussian(400, 16, 3) + 1.5, gaussian(20, 16, 4) + 9])
    labels = ["plain"] * 2000 + ["flat"] * 400 + ["aside"] * 400 + ["few"] * 20
    return fs.measure(E.astype(np.float32), by="label", labels=labels, neighbors=False)


def test_a_group_that_is_worse_than_the_table_is_named(report):
    found = {(each.group, each.rule): each.severity for each in report.findings if each.group is not None}
    assert found["flat", "dimensional-collapse"] == "fail"
    assert not {group for group, _ in found} & {"plain", "few"}


def test_an_offset_that_rows_of_a_label_share_is_a_note_at_most(report):
    by_group = [each for each in report.findings if each.group is not None and each.rule == "mean-shift"]
    assert all(each.severity == "note" for each in by_group)


def test_an_offset_of_rare_rows_counts_in_full():
    frequencies = np.r_[np.full(3000, 500.0), np.full(300, 3.0)]
    E = np.vstack([gaussian(3000, 16), gaussian(300, 16, 1) + 2]).astype(np.float32)
    findings = fs.measure(E, by="frequency", frequencies=frequencies, neighbors=False).findings
    assert ("frequency 1e0 to 1e1", "fail") in {(f.group, f.severity) for f in findings if f.rule == "mean-shift"}


def test_gaussian_groups_are_not_blamed():
    for seed in range(40):
        labels = np.random.default_rng(seed).integers(0, 12, 600).astype(str)
        findings = fs.measure(gaussian(600, 24, seed), by="label", labels=labels, neighbors=False).findings
        assert not findings


def test_most_findings_of_groups_are_twenty():
    E = np.vstack([gaussian(40, 1, seed) @ gaussian(1, 8, 100 + seed) for seed in range(30)])
    labels = np.repeat(np.arange(30), 40).astype(str)
    findings = [each for each in fs.measure(E, by="label", labels=labels, neighbors=False).findings if each.group]
    assert len(findings) == 20
    grades = [["fail", "warn", "note"].index(each.severity) for each in findings]
    assert grades == sorted(grades)


@pytest.mark.parametrize(
    ("render", "shown"),
    [
        (fs.Report.to_text, "[flat]"),
        (fs.Report.to_markdown, "(flat)"),
        (fs.Report._repr_html_, "[flat]"),
        (render_page, "<small>flat</small>"),
    ],
)
def test_formats_show_the_group(report, render, shown):
    assert shown in render(report)


def test_gates_show_the_group(report):
    assert "[flat]" in render_github(report)
    assert "dimensional-collapse [flat]" in render_junit(report)
