"""Diagnosis of records made by hand: grades, waivers, silence, and evidence that JSON can hold."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fullspan as fs
from fullspan.diagnose import RULES, Thresholds, diagnose
from fullspan.diagnose import remedies as remedies_module
from fullspan.diagnose.remedies import Remedy
from fullspan.diagnose.thresholds import Waiver
from fullspan.errors import FullspanError
from fullspan.store.records import Finding, Reading, TableRecord


def record(**parts: Any) -> TableRecord:
    return TableRecord(**{"table": "items", "source": "", "dtype": "float32", "n_rows": 400, "dim": 16, **parts})


def shifted(value: float, error: float | None = None) -> TableRecord:
    reading = Reading("average_cosine", value, standard_error=error, null=0.0, null_deviation=1e-3)
    return record(readings={"average_cosine": reading})


def only(table: TableRecord, **options: Any) -> Finding:
    (finding,) = diagnose(table, **options)
    return finding


def test_an_empty_record_has_no_findings() -> None:
    assert diagnose(record()) == ()
    assert [finding.rule for finding in diagnose(record(n_rows=10))] == ["wide-for-data"]


def test_a_finding_says_value_null_and_threshold() -> None:
    finding = only(shifted(0.8, 0.01))
    assert (finding.rule, finding.severity, finding.table) == ("mean-shift", "fail", "items")
    assert finding.evidence[0] == {
        "measure": "average_cosine",
        "value": 0.8,
        "standard_error": 0.01,
        "null": 0.0,
        "null_deviation": 1e-3,
        "threshold": 0.5,
    }


def test_a_value_within_its_error_of_a_limit_is_graded_lower() -> None:
    assert only(shifted(0.52, 0.001)).severity == "fail"
    assert only(shifted(0.52, 0.02)).severity == "warn"


def test_a_value_within_the_deviations_of_its_null_is_no_finding() -> None:
    reading = Reading("average_cosine", 0.5, null=0.0, null_deviation=0.1)
    assert diagnose(record(readings={"average_cosine": reading})) == ()


def test_undefined_and_missing_nulls_are_no_findings() -> None:
    for reading in (
        Reading("average_cosine", None, why="no rows"),
        Reading("average_cosine", 0.9),
        Reading("hubness_skew", 9.0, null=0.1, null_deviation=0.1),  # no sample is known
        Reading("length_frequency_correlation", -100.0),
    ):
        assert diagnose(record(readings={reading.measure: reading})) == ()


def test_waivers() -> None:
    until = dt.date(2027, 1, 31)
    limits = Thresholds(Thresholds.load().rules, waivers=(Waiver(("items",), "mean-shift", "by design", until),))
    assert only(shifted(0.8), thresholds=limits, today=until).waived == "by design"
    late = only(shifted(0.8), thresholds=limits, today=until + dt.timedelta(days=1))
    assert late.waived is None
    assert 'the waiver "by design" expired on 2027-01-31' in late.title


def test_a_rule_that_is_off_says_nothing() -> None:
    from fullspan.diagnose.thresholds import Override

    limits = Thresholds(Thresholds.load().rules, (Override(("items",), {"mean-shift": None}),))
    assert diagnose(shifted(0.8), limits) == ()
    assert diagnose(dataclasses.replace(shifted(0.8), table="users"), limits)


def test_one_zero_row_is_a_note_for_padding() -> None:
    rows = [{"position": 0, "id": "<pad>"}]
    finding = only(record(n_rows=20, hygiene={"zero_rows": {"count": 1, "rows": rows}}))
    assert finding.severity == "note"
    assert "row 0, as for padding" in finding.title
    assert finding.evidence[0]["rows"] == rows


def test_rows_that_rounding_makes_equal_are_not_duplicates() -> None:
    """At dim 1 float16 has few numbers: the count expected by chance grows with the pairs of rows."""
    found = {"count": 60, "exact": True, "n_distinct": 940, "groups": []}
    narrow = record(
        dtype="float16", dim=1, n_rows=1000, hygiene={"duplicate_rows": found}, profile={"precision": {"eps": 2.0**-10}}
    )
    assert diagnose(narrow) == ()
    assert only(dataclasses.replace(narrow, dim=4)).rule == "duplicate-rows"


def test_an_estimated_number_of_duplicates_must_be_past_its_error() -> None:
    found = {"count": 10, "exact": False, "n_distinct": 990, "relative_error": 0.01, "groups": []}
    assert diagnose(record(n_rows=1000, hygiene={"duplicate_rows": found})) == ()
    finding = only(record(n_rows=1000, hygiene={"duplicate_rows": {**found, "count": 300}}))
    assert finding.title.startswith("about 300 of 1,000 rows repeat")


def test_rules_say_what_they_lack() -> None:
    empty = record()
    assert RULES["hubness"].lacks(empty) == "it needs the reading hubness_skew, which the report leaves out"
    assert RULES["norm-tied-to-frequency"].lacks(empty) == "it needs frequencies of the rows: give --frequencies"
    assert RULES["wide-for-data"].judges(empty)


HOSTILE = [
    np.zeros((1, 1)),
    np.zeros((5, 3)),
    np.ones((40, 1)),
    np.full((30, 4), 1e140),
    np.eye(30) * 1e-140,
    np.full((30, 4), np.nan),
    np.r_[np.zeros((29, 4)), np.full((1, 4), 1e-310)],
    np.c_[np.arange(30.0), np.full(30, 1e18)],
]


def findings_of(E: np.ndarray, **options: Any) -> tuple[Finding, ...]:
    """Findings of a table; none where it cannot be measured, which the tests of `measure` are about."""
    try:
        return fs.measure(E, standard_errors=False, **options).findings
    except FullspanError:
        return ()


def assert_plain(findings: tuple[Finding, ...]) -> None:
    for finding in findings:
        json.dumps(dataclasses.asdict(finding), allow_nan=False)
        assert finding.rule in RULES
        assert finding.severity in ("note", "warn", "fail")
        assert not re.search(r"\b(nan|inf)\b", finding.title)


@pytest.mark.parametrize("E", HOSTILE, ids=range(len(HOSTILE)))
def test_findings_on_hostile_tables_are_plain(E: np.ndarray) -> None:
    assert_plain(findings_of(E))


numbers = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 1e-3, 1e4, math.nan, math.inf]), st.floats(-1e6, 1e6, width=32))


@settings(max_examples=20, deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(1, 25), st.integers(1, 5)), elements=numbers))
def test_no_finding_has_nan_in_its_evidence(E: np.ndarray) -> None:
    assert_plain(findings_of(E, neighbors=False))


values = st.one_of(st.none(), st.floats(allow_nan=False))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_record_makes_a_finding_with_nan(data: st.DataObject) -> None:
    measures = ["average_cosine", "centered_effective_rank", "top_component_share", "hubness_skew", "mean_vector_norm"]
    readings = {
        name: Reading(name, *(data.draw(values) for _ in range(4)))
        for name in (*measures, "length_frequency_correlation")
    }
    curve = st.lists(st.floats(0, 1e300), max_size=4).map(lambda each: sorted(each, reverse=True))
    profile = {"singular_values": data.draw(curve), "centered_singular_values": data.draw(curve)}
    profile["precision"] = {"eps": 1e-7, "offset_over_spread": data.draw(st.floats(0, allow_nan=False))}
    counted = {
        "count": data.draw(st.integers(0, 50)),
        "rows": [],
        "columns": [],
        "entries": data.draw(st.integers(0, 9)),
    }
    hygiene = dict.fromkeys(("zero_rows", "saturated_rows", "denormal_rows", "constant_columns"), counted)
    n_rows = data.draw(st.integers(0, 60))
    made = record(n_rows=n_rows, dim=data.draw(st.integers(1, 6)), readings=readings, profile=profile, hygiene=hygiene)
    assert_plain(diagnose(dataclasses.replace(made, sample_rows=data.draw(st.integers(0, 60)))))


def test_commands_in_remedies_exist() -> None:
    from fullspan.cli.main import PLACES

    made = [
        remedies_module.one_point(distinct=True),
        remedies_module.one_point(distinct=False),
        remedies_module.few_dimensions(3),
        remedies_module.one_direction(),
        remedies_module.common_offset(),
        remedies_module.few_rogue_dimensions(),
        remedies_module.length_by_frequency(negative=True),
        remedies_module.length_by_frequency(negative=False),
        remedies_module.never_updated(None),
        remedies_module.never_updated(0.5),
        remedies_module.zero_rows(),
        remedies_module.repeated_rows(),
        remedies_module.near_copies(),
        remedies_module.idle_columns(),
        remedies_module.not_finite(),
        remedies_module.long_rows(2.0),
        remedies_module.large_entry(2.0),
        remedies_module.hubs(),
        remedies_module.too_wide(4),
        remedies_module.coarse_spacing(),
        remedies_module.full_range(),
        remedies_module.tiny_numbers(),
        remedies_module.below_resolution(),
    ]
    assert all(isinstance(each, Remedy) and each.cause and each.advice and each.watch for each in made)
    commands = {found for each in made for found in re.findall(r"fullspan ([a-z]+)", f"{each.text} {each.verify}")}
    assert commands
    assert commands <= set(PLACES)


def test_torch_names_in_remedies_exist() -> None:
    torch = pytest.importorskip("torch")
    for name in (
        "nn.init.normal_",
        "optim.AdamW",
        "nn.utils.clip_grad_norm_",
        "amp.GradScaler",
        "nn.Embedding",
    ):
        found: Any = torch
        for part in name.split("."):
            found = getattr(found, part)
    assert torch.nn.Embedding(4, 2, max_norm=1.5).max_norm == 1.5


def test_dimensions_that_are_all_the_table_has_are_not_rogue() -> None:
    """Three equal dimensions and thirteen small ones: a collapse, and no dimension stands out."""
    E = np.random.default_rng(2).standard_normal((400, 16))
    E[:, 3:] *= 1e-3
    rules = [finding.rule for finding in findings_of(E, neighbors=False)]
    assert "dimensional-collapse" in rules
    assert "rogue-dimensions" not in rules


def test_directions_below_the_rounding_of_the_stored_type_are_a_note() -> None:
    """Half the directions are so small that float16 rounding decides them; the rest is sound."""
    E = np.random.default_rng(2).standard_normal((400, 16))
    E[:, 8:] = E[:, :8] + 1e-5 * E[:, 8:]
    (finding,) = (each for each in findings_of(E.astype(np.float16), neighbors=False) if each.rule == "precision-loss")
    assert finding.severity == "note"
    assert finding.evidence[0]["of"] == 16
    assert "directions are smaller than the rounding of float16" in finding.title


def test_shares_of_a_small_mean_cosine_warn_at_most() -> None:
    E = np.random.default_rng(2).standard_normal((4000, 16))
    E[:, 3] += 1.5
    (finding,) = (each for each in findings_of(E, neighbors=False) if each.rule == "rogue-dimensions")
    assert finding.severity == "warn"
    assert finding.evidence[0]["dimensions"] == [3]


def test_short_rows_are_no_cluster_without_a_gap() -> None:
    """Lengths spread evenly over three powers of ten: many short rows, none set apart."""
    random = np.random.default_rng(2)
    E = random.standard_normal((2000, 32)) * 10 ** random.uniform(-3, 0, (2000, 1))
    assert "untrained-rows" not in [finding.rule for finding in findings_of(E, neighbors=False)]


def test_rows_of_one_length_are_not_blamed_for_rounding() -> None:
    E = np.random.default_rng(2).standard_normal((2000, 32))
    E /= np.linalg.norm(E, axis=1, keepdims=True)
    frequencies = np.arange(1.0, 2001.0)
    assert findings_of(E.astype(np.float32), neighbors=False, frequencies=frequencies) == ()


def test_equal_rows_are_no_hubs() -> None:
    rules = [finding.rule for finding in findings_of(np.ones((200, 8)))]
    assert rules == ["complete-collapse"]
