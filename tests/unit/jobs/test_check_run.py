"""The gate of a training run: which points it reads, what it compares them with, and what is never a pass."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import re
import tomllib
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

import fullspan as fs
from fullspan.errors import FormatError, InputError, MissingFileError, NothingEvaluatedError
from fullspan.jobs.check import check
from fullspan.jobs.propose_run import propose_run_rules
from fullspan.store.records import Event, Moment, Point
from fullspan.store.runs import RunWriter
from tests.unit.formats.schema import problems

ROWS, DIM = 500, 16


def write_run(path, curves, *, tables=("item",), loss=None, events=(), status="finished", n_rows=ROWS, every=100):
    """A run whose curves are given as measure to values, one every 100 steps and half an epoch."""
    with RunWriter.open(path) as writer:
        for name in tables:
            writer.table(name, n_rows=ROWS, dim=DIM, dtype="float32")
        for name in tables:
            for measure, values in curves.items():
                points = [
                    Point(name, measure, Moment(every * (at + 1), (at + 1) / 2), value, n_rows, None)
                    for at, value in enumerate(values)
                ]
                writer.add(points)
        for measure, values in ({} if loss is None else {"loss": loss}).items():
            writer.add(Point("", measure, Moment(every * (at + 1), (at + 1) / 2), v) for at, v in enumerate(values))
        for event in events:
            writer.add_event(event)
        if status is not None:
            writer.finish(status)
    return path


@pytest.fixture
def rules(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "fullspan.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def falling(tmp_path):
    """Effective rank 10, 8, 3, 7, 6, 5 at steps 100 … 600, epochs 0.5 … 3."""
    return write_run(tmp_path / "mf", {"effective_rank": [10, 8, 3, 7, 6, 5]}, loss=[1.0, 0.8, 0.7, 0.6, 0.9, 0.5])


CHECK = '[[check]]\nmeasure = "effective_rank"\n'


@pytest.mark.parametrize(
    ("more", "code", "title"),
    [
        ("min = 5", 0, ""),
        ("min = 5.5", 1, r"effective_rank is 5 at the last point, step 600 \(epoch 3\); it has to be at least 5\.5$"),
        ('min = 4\nat = "last"', 0, ""),
        ('min = 4\nat = "any"', 1, r"was 3 at step 300 \(epoch 1\.5\); 1 of 6 points are outside; it has to be"),
        ('min = 6.5\nat = "any"', 1, r"was 3 at step 300 .*; 3 of 6 points are outside, the first at step 300 "),
        ('min = 4\nat = "step:400.."', 0, ""),
        ('min = 4\nat = "step:300..400"', 1, "1 of 2 points"),
        ('min = 4\nat = "epoch:1.5"', 1, "1 of 1 points"),
        ('min = 4\nat = "epoch:2.."', 0, ""),
        ("min = 5.5\nwindow = 2", 0, ""),  # 6, 5: only the last one is past it
        ("min = 6.5\nwindow = 2", 1, r"is 5 at the last point, .*, as at the 1 before; it has to be at least 6\.5"),
        ('min = 4\nat = "any"\nwindow = 2', 0, ""),  # 3 alone
        ('min = 7.5\nat = "any"\nwindow = 4', 1, "4 of 6 points"),
        ('min = 7.5\nat = "any"\nwindow = 5', 0, ""),
        ('fail = "< 0.3 * dim"', 0, ""),
        ('fail = "< 0.35 * dim"', 1, r"is 0\.3125 times dim at the last point"),
        ('fail = "> 4"', 1, "it has to be at most 4"),
        ('fail = "< 0.3 * null"', 0, ""),
        ('fail = "< 0.5 * null"', 1, "times its null"),
        ('max = 9\nat = "any"', 1, r"was 10 at step 100"),
        ('min = 4\nmax = 9\nat = "any"', 1, r"2 of 6 points"),
    ],
)
def test_limits_at_the_points_that_are_meant(falling, rules, more, code, title):
    result = check(falling, rules(CHECK + more))
    assert result.exit_code == code
    assert [finding.rule for finding in result.failures] == ["check:effective_rank"] * code
    if code:
        assert re.search(title, result.failures[0].title)


def test_the_evidence_of_a_failure(falling, rules):
    result = check(falling, rules(CHECK + 'fail = "< 0.25 * dim"\nat = "any"'))
    (finding,) = result.failures
    assert finding.evidence == (
        {
            "measure": "effective_rank",
            "value": 3.0,
            "threshold": 4.0,
            "relative_to_dim": 3 / 16,
            "unit": 16.0,
            "step": 300,
            "epoch": 1.5,
            "points_outside": 1,
            "points_checked": 6,
            "n_rows": 500,
        },
    )
    assert (finding.table, finding.severity) == ("item", "fail")


def test_of_fail_and_warn_the_gravest_counts(falling, rules):
    text = CHECK + 'fail = "< {}"\nwarn = "< 6"\nnote = "< 9"'
    failed, warned = (check(falling, rules(text.format(limit))) for limit in (5.5, 4))
    assert [finding.severity for finding in failed.findings] == ["fail"]
    assert [finding.severity for finding in warned.findings] == ["warn"]
    assert (failed.exit_code, warned.exit_code) == (1, 0)


def test_the_run_itself_has_its_loss(falling, rules):
    text = '[[check]]\nmeasure = "loss"\nmax = {}\nat = "{}"\n'
    assert check(falling, rules(text.format(0.6, "last"))).passed
    result = check(falling, rules(text.format(0.8, "epoch:2..")))
    assert [(finding.table, finding.rule) for finding in result.failures] == [("(run)", "check:loss")]
    assert check(falling, rules('[[check]]\ntables = "(run)"\nmeasure = "loss"\nmax = 1\n')).passed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[check]]\ntables = "usr*"\nmeasure = "effective_rank"\nmin = 0\n', r'needs? to match a table; got "usr\*"'),
        ('[[check]]\nmeasure = "acuracy"\nmin = 0\n', r'no measure is named "acuracy".* The run has logged: loss\.'),
        ('[[check]]\nmeasure = "los"\nmin = 0\n', r'no measure is named "los"\. Did you mean "loss"\?'),
        ('[[check]]\ntables = "item"\nmeasure = "loss"\nmin = 0\n', r"loss is of the run itself; got tables = 'item'"),
        ('[[check]]\ntables = "(run)"\nmeasure = "effective_rank"\nmin = 0\n', "effective_rank is of a table; got"),
        ("[[rule]]\nmean-shft = { warn = 0.1 }\n", 'no rule is named "mean-shft"'),
        (CHECK + 'fail = "drop > 5%"\n', "relative to a baseline needs a baseline report; got none"),
    ],
)
def test_what_does_not_exist_is_never_a_pass(falling, rules, text, message):
    with pytest.raises(NothingEvaluatedError, match=message) as caught:
        check(falling, rules(text))
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ('measure = "mean_norm"\nmin = 0', r"the run has not read it \(it has: effective_rank\)"),
        ('measure = "effective_rank"\nmin = 0\nat = "epoch:9.."', r'no point lies in at = "epoch:9\.\."; they go from'),
        ('measure = "effective_rank"\nmin = 0\nat = "samples:1.."', r"no point lies in"),
        ('measure = "effective_rank"\nmin = 0\nwindow = 7', r"window = 7 needs as many points; it has 6"),
        (
            'measure = "effective_rank"\nmin = 0\nmin_rows = 501',
            r"no point was read from min_rows = 501 rows; the most",
        ),
        ('measure = "effective_rank"\nmin = 0\nerrors = 2', r"errors needs a report; the points of a run have none"),
        ('measure = "effective_rank"\nmin = 0\ngroup = "en"', r"group needs a report"),
        ('measure = "loss"\nfail = "< 1 * dim"', r"the run does not say its dim"),
        ('measure = "loss"\nfail = "< 1 * null"', r"loss has no null, so it cannot be relative to it"),
    ],
)
def test_what_cannot_be_evaluated_is_never_a_pass(falling, rules, more, why):
    result = check(falling, rules(f"[[check]]\n{more}\n"))
    assert (result.exit_code, result.passed) == (3, False)
    assert re.search(why, result.unevaluated[0].title)


def test_a_point_without_a_value_is_never_a_pass(tmp_path, rules):
    values = [10.0, None, 9.0]
    run = write_run(tmp_path / "holes", {"effective_rank": values})
    result = check(run, rules(CHECK + 'min = 5\nat = "any"'))
    assert result.exit_code == 3
    assert "it is undefined at 1 of 3 points, first at step 200" in result.unevaluated[0].title
    assert check(run, rules(CHECK + 'min = 9.5\nat = "any"')).exit_code == 1  # another point is past it anyway
    assert check(run, rules(CHECK + "min = 5")).passed
    last = write_run(tmp_path / "end", {"effective_rank": [10.0, None]})
    assert check(last, rules(CHECK + "min = 5")).exit_code == 3


def test_points_read_from_fewer_rows_do_not_count(tmp_path, rules):
    run = write_run(tmp_path / "mf", {"effective_rank": [9.0, 8.0]})
    with RunWriter.open(run, resume_step=200) as writer:
        writer.add([Point("item", "effective_rank", Moment(300, 1.5), 2.0, n_rows=50)])
    assert check(run, rules(CHECK + "min = 5")).exit_code == 1
    assert check(run, rules(CHECK + "min = 5\nmin_rows = 100")).passed


def test_what_a_later_attempt_superseded_is_not_checked(tmp_path, rules):
    run = write_run(tmp_path / "mf", {"effective_rank": [9.0, 1.0, 1.0]}, status="failed")
    with RunWriter.open(run, resume_step=100) as writer:
        writer.add([Point("item", "effective_rank", Moment(step, step / 200), 9.0, ROWS) for step in (200, 300)])
    result = check(run, rules(CHECK + 'min = 5\nat = "any"'))
    assert result.passed
    assert result.run["attempts"] == 2


# Against a baseline -----------------------------------------------------------------------------------------------


@pytest.fixture
def base(tmp_path):
    return write_run(tmp_path / "main", {"effective_rank": [10, 8, 6, 6, 6, 6]}, loss=[1, 0.9, 0.8, 0.7, 0.6, 0.5])


@pytest.mark.parametrize(
    ("more", "code", "title"),
    [
        ('fail = "drop > 20%"', 0, ""),  # 5 of 6
        ('fail = "drop > 10%"', 1, r"is 0\.8333 times the baseline at the last point"),
        ('fail = "drop > 10%"\nwindow = 2', 0, ""),  # 6 of 6 before
        ('fail = "drop > 0.5"', 1, r"is -1 from the baseline at the last point.* at least -0\.5 from the baseline"),
        ('fail = "drop > 1.5"', 0, ""),
        ('fail = "rise > 5%"', 0, ""),
        ('fail = "change > 5%"', 1, ""),
        ('fail = "drop > 40%"\nat = "any"', 1, r"was 0\.5 times the baseline at step 300"),
        ('fail = "drop > 60%"\nat = "any"', 0, ""),
        ('fail = "rise > 10%"\nat = "any"', 1, r"was 1\.167 times the baseline at step 400"),
        ('min = 0.9\nrelative_to = "baseline"', 1, "times the baseline"),
    ],
)
def test_a_regression_against_another_run(falling, base, rules, more, code, title):
    for text, baseline in (
        (CHECK + more + '\n[baseline]\nrun = "main"\n', None),
        (CHECK + more + '\nbaseline = "main"\n', None),  # of this check alone
        (CHECK + more, base),
    ):
        result = check(falling, rules(text), baseline=baseline)
        assert result.exit_code == code
        if code:
            assert re.search(title, result.failures[0].title)


def test_a_baseline_read_at_other_steps_is_interpolated_and_ends_at_its_ends(tmp_path, falling, rules):
    sparse = write_run(tmp_path / "sparse", {"effective_rank": [9.0, 6.0]}, every=200)  # epochs 0.5 and 1
    result = check(falling, rules(CHECK + 'fail = "drop > 0"\nat = "any"'), baseline=sparse)
    assert result.failures[0].evidence[0]["baseline"] == 6.0  # at epoch 1.5, after its end
    assert result.failures[0].evidence[0]["points_outside"] == 2  # 3 and 5; 10, 8, 7 and 6 are not below 9, 6, 6, 6


def test_one_table_against_one_of_another_name(tmp_path, falling, rules):
    renamed = write_run(tmp_path / "renamed", {"effective_rank": [6.0]}, tables=("embedding",))
    assert check(falling, rules(CHECK + 'fail = "drop > 10%"'), baseline=renamed).exit_code == 1
    several = write_run(tmp_path / "several", {"effective_rank": [6.0]}, tables=("a", "b"))
    result = check(falling, rules(CHECK + 'fail = "drop > 10%"'), baseline=several)
    assert result.exit_code == 3
    assert "the baseline run several has no effective_rank of item" in result.unevaluated[0].title


def test_a_report_as_the_baseline_of_a_run(tmp_path, falling, rules):
    E = np.random.default_rng(0).normal(size=(300, 6))
    report = fs.measure(E, neighbors=False)
    text = CHECK + 'fail = "drop > 10%"'
    result = check(falling, rules(text), baseline=report)
    assert result.failures[0].evidence[0]["unit"] == report["effective_rank"].value
    other = fs.measure(E, measures=["gini_index"])
    assert check(falling, rules(text), baseline=other).exit_code == 3
    two = fs.measure({"a": E, "b": 2 * E}, measures=["effective_rank"])
    assert "has no table of this name" in check(falling, rules(text), baseline=two).unevaluated[0].title


def test_a_baseline_that_is_not_above_zero(tmp_path, rules):
    run = write_run(tmp_path / "mf", {"average_cosine": [0.02]})
    base = write_run(tmp_path / "main", {"average_cosine": [-0.01]})
    text = '[[check]]\nmeasure = "average_cosine"\nfail = "rise > {}"\n'
    result = check(run, rules(text.format("5%")), baseline=base)
    assert result.exit_code == 3
    assert 'needs average_cosine above 0 there; the baseline has -0.01: take a difference such as "drop > 0.02"' in (
        result.unevaluated[0].title
    )
    assert check(run, rules(text.format("0.02")), baseline=base).exit_code == 1
    assert check(run, rules(text.format("0.05")), baseline=base).passed


def test_a_table_cannot_be_compared_with_a_run_and_a_missing_baseline_is_told(falling, base, rules):
    E = np.random.default_rng(0).normal(size=(300, 6))
    with pytest.raises(InputError, match="A table needs a report as its baseline; got the run"):
        check(E, rules(CHECK + 'fail = "drop > 5%"'), baseline=base)
    with pytest.raises(MissingFileError, match="No report or training run at"):
        check(falling, rules(CHECK + 'fail = "drop > 5%"'), baseline="not-there")


# The rules that ship, and how the run stands ----------------------------------------------------------------------


def test_the_rules_that_ship_judge_the_last_readings(tmp_path):
    run = write_run(tmp_path / "mf", {"average_cosine": [0.0, 0.8], "mean_norm_ratio": [0.0, 0.9]})
    result = check(run)
    assert [finding.rule for finding in result.failures] == ["mean-shift"]
    healthy = check(write_run(tmp_path / "ok", {"average_cosine": [0.8, 0.0], "mean_norm_ratio": [0.9, 0.05]}))
    assert healthy.passed
    assert healthy.n_evaluated > 0


def test_findings_of_the_watcher_stand_until_they_are_cleared(tmp_path, rules):
    def told(level, step, message, **detail):
        return Event(Moment(step, step / 200), level, "dead-rows", "item", message, detail)

    came = told("fail", 200, "40 zero rows", evidence=[{"value": 40.0}], remedy="Drop them.", cleared=False)
    curves = {"average_cosine": [0.0, 0.0]}
    run = write_run(tmp_path / "mf", curves, events=[came])
    (finding,) = check(run).failures
    assert finding.title == "40 zero rows (since step 200)"
    assert (finding.rule, finding.table, finding.remedy) == ("dead-rows", "item", "Drop them.")
    assert finding.evidence == ({"value": 40.0},)
    assert check(run, rules("[[rule]]\ndead-rows = false\n")).passed
    waiver = '[[waive]]\nrule = "dead-rows"\nreason = "padding"\nuntil = 2027-01-31\n'
    assert check(run, rules(waiver), today=dt.date(2027, 1, 1)).passed
    gone = told("note", 300, "Cleared: 40 zero rows", cleared=True)
    result = check(write_run(tmp_path / "cleared", curves, events=[came, gone]))
    assert result.passed
    assert [finding.title for finding in result.notes] == ["Cleared: 40 zero rows (from step 200 to step 300)"]


def test_errors_of_the_watcher_are_a_warning(tmp_path):
    errors = [Event(Moment(step), "error", "", "item", "svd did not converge", {}) for step in (100, 200)]
    result = check(write_run(tmp_path / "mf", {"average_cosine": [0.0]}, events=errors))
    assert [finding.title for finding in result.warnings] == ["svd did not converge (2 times, last at step 200)"]
    assert result.warnings[0].rule == "watcher-error"


def test_a_run_that_died_or_still_runs_is_told(tmp_path, python):
    path = tmp_path / "mf"
    python(
        "import os\n"
        "from fullspan.store.runs import RunWriter\n"
        "from fullspan.store.records import Moment, Point\n"
        f"writer = RunWriter.open({str(path)!r})\n"
        "writer.table('item', n_rows=9, dim=3, dtype='float32')\n"
        "writer.add([Point('item', 'average_cosine', Moment(70, 2.0), 0.0, 9)])\n"
        "print('written', flush=True)\n"
        "os._exit(0)\n"
    )
    result = check(path)
    assert result.exit_code == 0
    assert result.run["status"] == "died"
    (finding,) = result.warnings
    assert finding.title == "The run mf died without a word; its last point is at step 70 (epoch 2)"
    with RunWriter.open(path, resume_step=70) as writer:
        result = check(path)
        assert [finding.rule for finding in result.notes] == ["run-running"]
        writer.finish("stopped")
    assert [finding.rule for finding in check(path).notes] == ["run-stopped"]


def test_a_rule_that_the_file_sets_and_that_a_run_cannot_judge_is_not_a_pass(falling, rules):
    result = check(falling, rules("[[rule]]\nhubness = { warn = 2 }\n"))
    assert result.exit_code == 3
    assert "hubness could not be judged on item" in result.unevaluated[0].title


def test_a_check_can_be_waived(falling, rules):
    text = CHECK + 'min = 9\n[[waive]]\nrule = "check:effective_rank"\nreason = "known"\nuntil = 2027-01-31\n'
    assert [each.waived for each in check(falling, rules(text), today=dt.date(2027, 1, 31)).waived] == ["known"]
    assert check(falling, rules(text), today=dt.date(2027, 2, 1)).exit_code == 1


# Ends -------------------------------------------------------------------------------------------------------------


def test_a_run_without_points_and_damaged_runs(tmp_path):
    with RunWriter.open(tmp_path / "empty") as writer:
        writer.table("item", n_rows=9, dim=3, dtype="float32")
    with pytest.raises(NothingEvaluatedError, match="check needs a run with points; got none in .*, which finished"):
        check(tmp_path / "empty")
    only_loss = write_run(tmp_path / "loss", {}, tables=(), loss=[1.0])
    with pytest.raises(NothingEvaluatedError, match="a run without readings of a table and no check"):
        check(only_loss)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "run.sqlite").write_bytes(b"SQLite format 3\x00" + b"\xff" * 4096)
    with pytest.raises(FormatError):
        check(broken)


def test_options_of_measuring_are_refused(falling):
    with pytest.raises(InputError, match="check of a run takes no column: a run was measured while it was written"):
        check(falling, column="vector")


def test_a_table_does_not_take_what_is_about_a_run(rules):
    E = np.random.default_rng(0).normal(size=(300, 16))
    for more, why in (
        ("window = 2", "window = 2 is about the points of a run; a table is a single one"),
        ('at = "epoch:5.."', 'at = "epoch:5.." is about the points of a run'),
        ("min_rows = 301", "it has 300 rows, and the check asks for min_rows = 301"),
    ):
        result = check(E, rules(CHECK + "min = 1\n" + more), neighbors=False)
        assert result.exit_code == 3
        assert why in result.unevaluated[0].title
    assert check(E, rules(CHECK + 'fail = "< 0.5 * dim"\nat = "any"\nmin_rows = 300'), neighbors=False).passed
    assert check(E, rules(CHECK + 'fail = "< 17"\nwarn = "< 18"'), neighbors=False).exit_code == 1
    baseline = fs.measure(E, neighbors=False)
    for text, code in (('"drop > 0.5"', 0), ('"rise > 1%"', 0), ('"change > 0"', 0)):
        assert check(E, rules(CHECK + f"fail = {text}"), baseline=baseline, neighbors=False).exit_code == code
    rank = baseline["effective_rank"].value
    less = dataclasses.replace(baseline["effective_rank"], value=rank + 1)
    table = next(iter(baseline))
    changed = dataclasses.replace(table, record=dataclasses.replace(table.record, readings={"effective_rank": less}))
    result = check(E, rules(CHECK + 'fail = "drop > 0.5"'), baseline=fs.Report({"x": changed}), neighbors=False)
    assert result.failures[0].evidence[0]["difference"] == pytest.approx(-1)
    assert result.failures[0].evidence[0]["threshold"] == pytest.approx(rank + 0.5)


def test_the_result_as_plain_values_and_in_every_form(falling, rules):
    from fullspan.jobs.formats import render
    from fullspan.jobs.formats.check import render_check

    result = check(falling, rules(CHECK + "min = 9"))
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert plain["run"] == {
        "name": "mf",
        "path": str(falling),
        "status": "finished",
        "attempts": 1,
        "step": 600,
        "epoch": 3.0,
        "told": "The run mf finished; its last point is at step 600 (epoch 3).",
    }
    schema = json.loads(resources.files("fullspan.jobs.formats").joinpath("report.schema.json").read_text())
    assert problems(plain["report"], schema, schema) == []
    text = render_check(result)
    assert text.startswith("The run mf finished; its last point is at step 600 (epoch 3).\n\nitem  500 × 16 float32\n")
    assert "last read at step 600, epoch 3" in text
    assert "(run)  1 scalar" in text
    assert text.rstrip().endswith("on 2 tables.")
    for form in ("markdown", "junit", "github"):
        assert "it has to be at least 9" in render(result.report, form)
    page = fs.render_page(result.report)
    assert "it has to be at least 9" in page


# Proposing --------------------------------------------------------------------------------------------------------


def noisy(start, end, n=40, seed=0):
    rng = np.random.default_rng(seed)
    return (np.linspace(start, end, n) + 0.01 * rng.normal(size=n)).tolist()


def test_proposed_rules_pass_on_the_run_they_came_from_and_fail_on_a_collapsed_one(tmp_path, rules):
    curves = {
        "effective_rank": noisy(12, 14),
        "information_abundance": noisy(9, 10),
        "average_cosine": noisy(0.01, 0.02),
        "mean_norm": noisy(1, 2),
    }
    good = write_run(tmp_path / "good", curves, loss=noisy(1, 0.4))
    text = propose_run_rules(good)
    parsed = tomllib.loads(text)
    assert {(each["measure"], "min" in each) for each in parsed["check"]} == {
        ("effective_rank", True),
        ("information_abundance", True),
        ("average_cosine", False),
        ("mean_norm", True),
        ("mean_norm", False),
        ("loss", False),
    }
    assert all(each["window"] == 3 for each in parsed["check"])
    path = rules(text)
    assert check(good, path).passed
    again = {name: noisy(values[0], values[-1], seed=1) for name, values in curves.items()}
    assert check(write_run(tmp_path / "again", again, loss=noisy(1, 0.4, seed=1)), path).passed
    collapsed = {**again, "effective_rank": noisy(12, 2)}
    result = check(write_run(tmp_path / "collapsed", collapsed, loss=noisy(1, 0.9)), path)
    assert {finding.rule for finding in result.failures} == {"check:effective_rank", "check:loss"}


def test_what_fails_already_in_the_good_run_is_waived_for_a_while(tmp_path, rules):
    run = write_run(tmp_path / "mf", {"average_cosine": [0.8], "mean_norm_ratio": [0.9]})
    text = propose_run_rules(run, today=dt.date(2026, 12, 1))
    (waiver,) = tomllib.loads(text)["waive"]
    assert (waiver["rule"], waiver["tables"], waiver["until"]) == ("mean-shift", "item", dt.date(2027, 3, 1))
    assert check(run, rules(text), today=dt.date(2027, 3, 1)).passed
    assert check(run, rules(text), today=dt.date(2027, 3, 2)).exit_code == 1


def test_proposing_from_a_run_without_anything_to_guard(tmp_path):
    run = write_run(tmp_path / "mf", {"gini_index": [0.4]})
    with pytest.raises(NothingEvaluatedError, match="propose_run_rules needs points of average_cosine, "):
        propose_run_rules(run)
