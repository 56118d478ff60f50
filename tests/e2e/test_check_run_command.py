"""``fullspan check`` on a training run: exit codes, forms, proposals."""

from __future__ import annotations

import json
import tomllib
from xml.etree import ElementTree as ET

import pytest

from fullspan.store.records import Moment, Point
from fullspan.store.runs import RunWriter


def write_run(path, ranks, status="finished"):
    with RunWriter.open(path) as writer:
        for name in ("user", "item"):
            writer.table(name, n_rows=400, dim=8, dtype="float32")
            for at, rank in enumerate(ranks, 1):
                moment = Moment(10 * at, float(at))
                writer.add([Point(name, "effective_rank", moment, rank, 400), Point(name, "average_cosine", moment, 0)])
        writer.add([Point("", "loss", Moment(10 * at, float(at)), 1 / at) for at in range(1, len(ranks) + 1)])
        writer.finish(status)
    return path


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "runs with spaces, é" / "mf", [7.0, 6.0, 5.0, 2.0])


def test_the_gate_passes_fails_and_cannot_tell(cli, run, tmp_path):
    assert cli("check", run).code == 0
    rules = tmp_path / "fullspan.toml"
    rules.write_text('[[check]]\nmeasure = "effective_rank"\nfail = "< 0.5 * dim"\n')
    bad = cli("check", run, "--rules", rules)
    assert bad.code == 1
    assert "The run mf finished; its last point is at step 40 (epoch 4)." in bad.out
    assert "effective_rank is 0.25 times dim at the last point" in " ".join(bad.out.split())
    assert "Traceback" not in bad.out + bad.err
    rules.write_text('[[check]]\nmeasure = "effective_rank"\nfail = "< 0.5 * dim"\nwindow = 2\n')
    assert cli("check", run, "--rules", rules).code == 0
    rules.write_text('[[check]]\nmeasure = "mean_norm"\nmin = 0\n')
    blind = cli("check", run, "--rules", rules)
    assert (blind.code, "the run has not read it" in blind.out) == (3, True)
    rules.write_text('[[check]]\ntables = "usr"\nmeasure = "effective_rank"\nmin = 0\n')
    none = cli("check", run, "--rules", rules)
    assert (none.code, none.err.count("\n")) == (3, 1)
    rules.write_text('[[check]]\nmeasure = "effective_rank"\nfail = "falls"\n')
    assert cli("check", run, "--rules", rules).code == 2
    usage = cli("check", run, "--column", "vector")
    assert (usage.code, "is a run: it was measured before" in usage.err) == (2, True)


def test_against_a_baseline_run(cli, run, tmp_path):
    base = write_run(tmp_path / "main", [7.0, 6.0, 5.0, 5.0])
    rules = tmp_path / "fullspan.toml"
    rules.write_text('[[check]]\nmeasure = "effective_rank"\nfail = "drop > 5%"\n')
    assert cli("check", run, "--rules", rules).code == 3  # no baseline is named
    assert cli("check", run, "--rules", rules, "--baseline", base).code == 1
    assert cli("check", base, "--rules", rules, "--baseline", base).code == 0


def test_the_forms_of_a_pipeline(cli, run, tmp_path):
    rules = tmp_path / "fullspan.toml"
    rules.write_text('[[check]]\nmeasure = "effective_rank"\nmin = 4\n[[check]]\nmeasure = "mean_norm"\nmin = 0\n')
    ended = cli("check", run, "--rules", rules, "--json")
    plain = json.loads(ended.out)
    assert (ended.code, plain["exit_code"], plain["run"]["status"]) == (1, 1, "finished")
    assert [each["table"] for each in plain["unevaluated"]] == ["user", "item"]
    github = cli("check", run, "--rules", rules, "--format", "github").out
    assert github.count("::error title=fullspan%3A item%3A check%3Aeffective_rank::") == 1
    assert "mean_norm of item could not be checked" in github
    assert cli("check", run, "--rules", rules, "--out", tmp_path / "r.xml").code == 1
    suites = ET.parse(tmp_path / "r.xml").getroot()
    assert [(each.get("name"), each.get("failures")) for each in suites] == [
        ("user", "2"),
        ("item", "2"),
        ("(run)", "0"),
    ]


@pytest.mark.parametrize("form", ["text", "json", "junit", "github", "markdown"])
def test_a_run_that_failed_says_so_in_every_form(cli, tmp_path, form):
    run = write_run(tmp_path / "mf", [7.0, 6.0], status="failed")
    ended = cli("check", run, "--format", form)
    assert ended.code == 0
    assert "ended with an error" in ended.out


def test_rules_proposed_from_a_good_run_hold_it(cli, run, tmp_path):
    good = write_run(tmp_path / "good", [5.0, 6.0, 6.1, 6.0])
    rules = tmp_path / "fullspan.toml"
    assert cli("check", good, "--init", "--out", rules).code == 0
    assert {each["measure"] for each in tomllib.loads(rules.read_text())["check"]} >= {"effective_rank", "loss"}
    assert cli("check", good, "--rules", rules).code == 0
    slipped = cli("check", write_run(tmp_path / "slipped", [5.0, 2.0, 2.0, 2.0]), "--rules", rules)
    assert slipped.code == 1
