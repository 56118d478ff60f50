"""The gate: what passes, what fails, and what is never a pass."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fullspan as fs
from fullspan.errors import FormatError, InputError, MissingFileError, NothingEvaluatedError, UnknownNameError
from fullspan.jobs.check import check, propose_rules
from fullspan.jobs.saved import is_saved_report, load_report

WriteRules = Callable[[str], Path]


def table(n: int = 400, d: int = 12) -> np.ndarray:
    return np.random.default_rng(5).standard_normal((n, d))


def collapsed(E: np.ndarray) -> np.ndarray:
    return E * np.r_[np.ones(2), np.full(E.shape[1] - 2, 1e-3)]


@pytest.fixture(scope="module")
def good() -> fs.Report:
    return fs.measure({"items": table(), "users": table(300, 8)}, neighbors=False)


@pytest.fixture
def write(tmp_path: Path) -> WriteRules:
    def rules(text: str) -> Path:
        path = tmp_path / "fullspan.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return rules


def test_a_sound_table_passes() -> None:
    result = check(table(), neighbors=False)
    assert result.passed
    assert result.exit_code == 0
    assert result.n_evaluated > 5
    assert result.findings == ()


def test_a_collapsed_table_fails() -> None:
    result = check(collapsed(table()), neighbors=False)
    assert not result.passed
    assert result.exit_code == 1
    assert "dimensional-collapse" in [finding.rule for finding in result.failures]


def test_warnings_and_notes_pass() -> None:
    result = check(table() + 0.2 * np.ones(12) * 2.2, neighbors=False)
    assert [finding.rule for finding in result.warnings] == ["mean-shift"]
    assert result.exit_code == 0


def test_a_check_keeps_a_measure_within_limits(good: fs.Report, write: WriteRules) -> None:
    text = '[[check]]\ntables = "items"\nmeasure = "mean_norm"\n{} = {}\nseverity = "{}"\n'
    assert check(good, write(text.format("min", 3, "fail"))).passed
    assert check(good, write(text.format("max", 4, "fail"))).passed
    low = check(good, write(text.format("min", 4, "fail")))
    (finding,) = low.failures
    assert (finding.rule, finding.table, finding.evidence[0]["threshold"]) == ("check:mean_norm", "items", 4.0)
    assert finding.title.endswith("it has to be at least 4")
    assert low.exit_code == 1
    high = check(good, write(text.format("max", 3, "warn")))
    assert [finding.rule for finding in high.warnings] == ["check:mean_norm"]
    assert high.exit_code == 0


def test_relative_limits(good: fs.Report, write: WriteRules) -> None:
    text = '[[check]]\nmeasure = "information_abundance"\nmin = {}\nrelative_to = "{}"\n'
    for unit, passes, fails in (("null", 0.9, 1.2), ("dim", 0.5, 1.01), ("baseline", 1.0, 1.01)):
        assert check(good, write(text.format(passes, unit)), baseline=good).passed
        failed = check(good, write(text.format(fails, unit)), baseline=good)
        assert len(failed.failures) == 2
        assert f"relative_to_{unit}" in failed.failures[0].evidence[0]


def test_the_leeway_of_a_check_is_in_standard_errors(good: fs.Report, write: WriteRules) -> None:
    reading = good["items"]["mean_norm"]
    limit = reading.value + reading.standard_error
    text = f'[[check]]\ntables = "items"\nmeasure = "mean_norm"\nmin = {limit}\nerrors = '
    assert not check(good, write(text + "0")).passed
    assert check(good, write(text + "2")).passed


def test_a_check_of_a_measure_that_is_not_shown_by_default_is_measured(write: WriteRules) -> None:
    result = check(table(), write('[[check]]\nmeasure = "rankme"\nmin = 11\n'), neighbors=False)
    assert result.passed
    assert result.report["rankme"].value > 11
    assert result.report["information_abundance"].value > 10


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('measure = "hubness_skew"\nmax = 3', "hubness_skew was not measured"),
        ('measure = "length_frequency_correlation"\nmax = 3', "needs frequencies of the rows: give --frequencies"),
        ('measure = "average_cosine"\nmax = 3\nrelative_to = "null"', "has a null of 0"),
        ('measure = "mean_norm"\nmax = 3\nrelative_to = "null"', "has no null"),
        ('measure = "mean_norm"\nmax = 9\ngroup = "en"', r'no group is named "en" \(there are: none; ask for them'),
    ],
)
def test_what_cannot_be_evaluated_is_not_a_pass(good: fs.Report, write: WriteRules, text: str, why: str) -> None:
    one = dataclasses.replace(good, tables={"items": good["items"]})
    result = check(one, write(f"[[check]]\n{text}\n"))
    assert result.exit_code == 3
    assert not result.passed
    assert re.search(why, result.unevaluated[0].title)


def test_an_undefined_measure_is_not_a_pass(write: WriteRules) -> None:
    result = check(np.ones((1, 4)), write('[[check]]\nmeasure = "average_cosine"\nmax = 1\n'))
    assert result.exit_code == 3
    assert "average_cosine of" in result.unevaluated[0].title


def test_a_rule_that_the_file_sets_and_that_cannot_be_judged_is_not_a_pass(good: fs.Report, write: WriteRules) -> None:
    result = check(good, write("[[rule]]\nhubness = { warn = 2 }\nmean-shift = { warn = 0.2 }\n"))
    assert result.exit_code == 3
    assert [finding.rule for finding in result.unevaluated] == ["hubness", "hubness"]
    assert "line 1: hubness could not be judged on items" in result.unevaluated[0].title
    assert check(good, write("[[rule]]\nhubness = false\n")).passed


def test_a_failure_outranks_what_could_not_be_evaluated(good: fs.Report, write: WriteRules) -> None:
    text = '[[check]]\nmeasure = "mean_norm"\nmax = 1\n[[check]]\nmeasure = "hubness_skew"\nmax = 1\n'
    result = check(good, write(text))
    assert (result.exit_code, len(result.failures), len(result.unevaluated)) == (1, 2, 2)


def test_nothing_to_check_is_an_error(good: fs.Report, write: WriteRules) -> None:
    with pytest.raises(NothingEvaluatedError, match="check needs a table with rows; got none"):
        check(fs.Report({}))
    with pytest.raises(NothingEvaluatedError, match='got "wpe"'):
        check(good, write('[[check]]\ntables = "wpe"\nmeasure = "mean_norm"\nmin = 0\n'))
    with pytest.raises(NothingEvaluatedError, match="relative to a baseline needs a baseline report; got none"):
        check(good, write('[[check]]\nmeasure = "mean_norm"\nmin = 0\nrelative_to = "baseline"\n'))


def test_a_baseline_without_the_table_is_not_a_pass(good: fs.Report, write: WriteRules) -> None:
    rules = write('[[check]]\nmeasure = "mean_norm"\nmin = 0.5\nrelative_to = "baseline"\n')
    other = fs.Report({"items": good["items"]})
    result = check(good, rules, baseline=other)
    assert result.exit_code == 3
    assert check(fs.Report({"renamed": good["items"]}), rules, baseline=other).passed  # one against one
    assert "no table of this name" in result.unevaluated[0].title


def test_waivers_of_rules_and_checks(good: fs.Report, write: WriteRules) -> None:
    rules = write(
        """
        [[check]]
        tables = "items"
        measure = "mean_norm"
        max = 1
        [[waive]]
        tables = "items"
        rule = "check:mean_norm"
        reason = "not normalized yet"
        until = 2027-01-31
        """
    )
    during = check(good, rules, today=dt.date(2027, 1, 31))
    assert during.exit_code == 0
    assert [finding.waived for finding in during.waived] == ["not normalized yet"]
    after = check(good, rules, today=dt.date(2027, 2, 1))
    assert after.exit_code == 1
    assert "expired on 2027-01-31" in after.failures[0].title


def test_a_saved_report_is_checked_like_the_run_it_came_from(
    good: fs.Report, tmp_path: Path, write: WriteRules
) -> None:
    path = tmp_path / "good.json"
    path.write_text(good.to_json(), encoding="utf-8")
    assert is_saved_report(path)
    assert not is_saved_report(tmp_path / "none.json")
    assert not is_saved_report(table())
    loaded = load_report(path)
    assert json.loads(loaded.to_json()) == json.loads(good.to_json())
    rules = write(
        '[[check]]\nmeasure = "mean_norm"\nmin = 1\nrelative_to = "baseline"\n[baseline]\nreport = "good.json"\n'
    )
    for source in (path, str(path), loaded.to_dict()):
        assert check(source, rules).passed
    bad = fs.measure(collapsed(table()), neighbors=False)
    path.write_text(bad.to_json(), encoding="utf-8")
    again = check(path)
    assert [finding.rule for finding in again.failures] == [f.rule for f in bad.findings if f.severity == "fail"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "fullspan-report/2.0"}, r"this build reads reports of schema fullspan-report/1\.\d; got .*2\.0"),
        ({"schema": None}, "needs the schema fullspan-report/"),
        ({"tables": {}}, "needs a list of tables; got {}"),
        ({"tables": [3]}, "table 0 of the report is not as a report has it"),
        ({"tables": [{"table": "a"}]}, "source needs to be text; got None"),
        (
            {"tables": [{"table": "a", "source": "", "dtype": "f", "n_rows": -1, "dim": 3}]},
            "n_rows needs to be a whole",
        ),
        (
            {"tables": [{"table": "a", "source": "", "dtype": "f", "n_rows": 1, "dim": 3, "hygiene": 3}]},
            "hygiene needs to be an object; got 3",
        ),
        (
            {
                "tables": [
                    {
                        "table": "a",
                        "source": "",
                        "dtype": "f",
                        "n_rows": 1,
                        "dim": 3,
                        "readings": {"x": {"measure": "x", "value": "1"}},
                    }
                ]
            },
            "value of a reading needs to be a number or null; got '1'",
        ),
    ],
)
def test_reports_that_are_none(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({"schema": "fullspan-report/1.0", "tables": [], **change}))
    with pytest.raises(FormatError, match=message) as caught:
        load_report(path)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_reports(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="No report or training run at"):
        load_report(tmp_path / "none.json")
    with pytest.raises(InputError, match="regular file; got a directory"):
        load_report(tmp_path)
    for text in ("{", '{"a": NaN}', "[" * 100_000):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(FormatError, match="a report needs to be JSON; got a mistake"):
            load_report(tmp_path / "bad.json")


def test_proposed_rules_pass_on_the_run_they_came_from_and_fail_on_a_collapsed_one(
    good: fs.Report, write: WriteRules
) -> None:
    text = propose_rules(good)
    assert len(tomllib.loads(text)["check"]) >= 10
    rules = write(text)
    assert check(good, rules).passed
    fresh = {"items": np.random.default_rng(6).standard_normal((400, 12)), "users": table(300, 8)}
    assert check(fresh, rules, neighbors=False).passed
    fresh["items"] = collapsed(fresh["items"])
    result = check(fresh, rules, neighbors=False)
    assert result.exit_code == 1
    assert {"check:information_abundance", "check:centered_effective_rank", "dimensional-collapse"} <= {
        finding.rule for finding in result.failures
    }


def test_limits_of_one_table_hold_for_one_table_of_any_name(good: fs.Report, write: WriteRules) -> None:
    rules = write(propose_rules(fs.Report({"items": good["items"]})))
    assert check(fs.Report({"renamed": good["items"]}), rules).passed


def test_what_fails_already_is_waived_for_a_while(write: WriteRules) -> None:
    shifted = {'it[e]ms "*"': table() + 3, "itemss": table()}
    report = fs.measure(shifted, neighbors=False)
    text = propose_rules(report, today=dt.date(2026, 12, 1))
    (waiver,) = tomllib.loads(text)["waive"]
    assert (waiver["rule"], waiver["until"]) == ("mean-shift", dt.date(2027, 3, 1))
    rules = write(text)
    assert check(report, rules, today=dt.date(2027, 3, 1)).passed
    assert check(report, rules, today=dt.date(2027, 3, 2)).exit_code == 1


def test_proposing_from_nothing_is_an_error(good: fs.Report) -> None:
    with pytest.raises(NothingEvaluatedError, match="needs readings to guard"):
        propose_rules(fs.measure(table(), measures=["gini_index"], hygiene=False))
    with pytest.raises(UnknownNameError, match=r'names of tables; got "itmes"\. Did you mean "items"'):
        propose_rules(good, tables=["itmes"])


def test_the_result_as_plain_values() -> None:
    result = check(collapsed(table()), neighbors=False)
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False, default=lambda each: each.item()))
    assert plain["passed"] is False
    assert plain["exit_code"] == 1
    assert plain["report"]["schema"].startswith("fullspan-report/")


def with_reading(report: fs.Report, measure: str, **changes: Any) -> dict[str, Any]:
    """The saved form of a report of one table with one reading changed."""
    saved = json.loads(report.to_json())
    saved["tables"][0]["readings"][measure] |= changes
    return saved


def test_a_limit_relative_to_a_negative_baseline_is_never_a_pass(write: WriteRules) -> None:
    E = table()
    baseline = load_report(with_reading(fs.measure(E, neighbors=False), "average_cosine", value=-0.002))
    rules = write(
        '[[rule]]\nmean-shift = false\n[[check]]\nmeasure = "average_cosine"\nmax = 1.5\nrelative_to = "baseline"\n'
    )
    result = check(E + 10, rules, baseline=baseline, neighbors=False)  # 1.0 is -500 times the baseline
    assert result.exit_code == 3
    assert "needs average_cosine above 0" in result.unevaluated[0].title


def test_rules_that_are_all_off_are_never_a_pass(write: WriteRules) -> None:
    from fullspan.diagnose.rules import RULES

    rules = write("[[rule]]\n" + "".join(f"{name} = false\n" for name in RULES))
    with pytest.raises(NothingEvaluatedError, match="rules that are all off"):
        check(collapsed(table()), rules, neighbors=False)


def test_a_value_below_resolution_never_passes_a_minimum(write: WriteRules) -> None:
    measure = "inverse_condition_number"
    low = load_report(with_reading(fs.measure(table(), neighbors=False), measure, value=1e-8, below_resolution=True))
    result = check(low, write(f'[[check]]\nmeasure = "{measure}"\nmin = 1e-9\n'))
    assert result.exit_code == 3
    assert "below what float64 resolves" in result.unevaluated[0].title
    assert check(low, write(f'[[check]]\nmeasure = "{measure}"\nmin = 1e-7\n')).exit_code == 1
    assert check(low, write(f'[[check]]\nmeasure = "{measure}"\nmax = 1e-7\n')).exit_code == 0


def test_a_condition_number_below_resolution_never_passes_a_maximum(write: WriteRules) -> None:
    measure = "condition_number"
    report = fs.measure(table(), measures=[measure], neighbors=False)
    high = load_report(with_reading(report, measure, value=1e8, below_resolution=True))
    result = check(high, write(f'[[check]]\nmeasure = "{measure}"\nmax = 1e9\n'))
    assert result.exit_code == 3
    assert "at least 1e+08 is below what float64 resolves, so max says nothing" in result.unevaluated[0].title
    assert check(high, write(f'[[check]]\nmeasure = "{measure}"\nmax = 1e7\n')).exit_code == 1
    assert check(high, write(f'[[check]]\nmeasure = "{measure}"\nmin = 1e7\n')).exit_code == 0


def test_a_saved_report_with_a_negative_error_is_refused() -> None:
    saved = with_reading(fs.measure(table(), neighbors=False), "average_cosine", standard_error=-5.0)
    with pytest.raises(FormatError, match="needs to be 0 or more"):
        load_report(saved)
