"""The checks and the baseline of a ``fullspan.toml``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from fullspan.diagnose import RulesFile
from fullspan.diagnose.conditions import parse_condition, parse_when
from fullspan.errors import InputError, NothingEvaluatedError
from fullspan.store.records import Moment

CHECK = "[[check]]\nmeasure = 'mean_norm'\n"


def load(tmp_path: Path, text: str, scalars: Sequence[str] = ()) -> RulesFile:
    path = tmp_path / "fullspan.toml"
    path.write_text(text, encoding="utf-8")
    return RulesFile.load(path, scalars)


def test_the_example_of_the_documentation_is_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "check.md").read_text(encoding="utf-8")
    example = page.partition("```toml\n")[2].partition("```")[0]
    rules = load(tmp_path, example)
    (check,) = rules.checks
    assert (check.measure, check.minimum, check.relative_to, check.severity) == (
        "information_abundance",
        0.5,
        "null",
        "fail",
    )
    assert check.limits == "at least 0.5 times its null"
    assert rules.baseline == tmp_path / "good.json"
    assert len(rules.thresholds.waivers) == len(rules.thresholds.overrides) == 1


def test_defaults_and_all_keys_of_a_check(tmp_path: Path) -> None:
    plain, full = load(
        tmp_path,
        """
        [[check]]
        measure = "mean_norm"
        max = 3
        [[check]]
        tables = ["a", "b*"]
        measure = "mean_norm"
        min = 1.0
        max = 2.0
        relative_to = "baseline"
        severity = "note"
        errors = 2
        group = "en"
        """,
    ).checks
    assert (plain.tables, plain.relative_to, plain.severity, plain.errors) == (("*",), "absolute", "fail", 0.0)
    assert (full.tables, full.group, full.errors, full.line) == (("a", "b*"), "en", 2.0, 5)
    assert full.limits == "at least 1 and at most 2 times the baseline"
    assert full.rule == "check:mean_norm"


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("[[check]]\nmin = 1\n", InputError, r"line 1: a \[\[check\]\] needs a measure; got none"),
        ("[[check]]\nmeasure = 'mean_nrm'\nmin = 1\n", NothingEvaluatedError, r'"mean_nrm".*"mean_norm"'),
        ("[[check]]\nmeasure = 3\nmin = 1\n", NothingEvaluatedError, r'no measure is named "3"'),
        ("[[check]]\nmeasure = 'linear_cka'\nmin = 1\n", NothingEvaluatedError, r"needs more than one table"),
        (CHECK, InputError, r"needs min, max or both; got neither"),
        (CHECK + "min = 2\nmax = 1\n", InputError, r"min up to max; got min = 2, max = 1"),
        (CHECK + "min = 'x'\n", InputError, r"min of a \[\[check\]\] needs a finite number; got 'x'"),
        (CHECK + "max = inf\n", InputError, r"max of a \[\[check\]\] needs a finite number; got inf"),
        (CHECK + "min = 1\nrelative_to = 'nul'\n", InputError, r'got "nul"\. Did you mean "null"'),
        (CHECK + "min = 1\nseverity = 'error'\n", InputError, r'note, warn, fail; got "error"'),
        (CHECK + "min = 1\nerrors = -1\n", InputError, r"standard errors, 0 or more; got -1"),
        (CHECK + "min = 1\ngroup = 3\n", InputError, r"needs the name of a group; got 3"),
        (CHECK + "minimum = 1\n", InputError, r'got "minimum"\. Did you mean "min"'),
        (CHECK + "min = 1\nfail = '< 1'\n", InputError, r"needs either min or fail; got both"),
        (CHECK + "fail = '< 1'\nseverity = 'warn'\n", InputError, r"needs either severity or fail; got both"),
        (CHECK + "fail = '<= 1'\n", InputError, r"fail of a \[\[check\]\] needs a condition such as .*; got '<= 1'"),
        (CHECK + "warn = '< 5%'\n", InputError, r"warn of .* needs a condition such as .*; got '< 5%'"),
        (CHECK + "fail = 0.5\n", InputError, r"needs a condition such as .*; got 0\.5"),
        (CHECK + "fail = 'drop > -1'\n", InputError, r"needs a condition such as"),
        (CHECK + "min = 1\nat = 'first'\n", InputError, r'at of .* needs "last", "any" or a range .*; got \'first\''),
        (CHECK + "min = 1\nat = 'step:9..3'\n", InputError, r"a range such as .*; got 'step:9\.\.3'"),
        (CHECK + "min = 1\nwindow = 0\n", InputError, r"window of .* needs a whole number, 1 or more; got 0"),
        (CHECK + "min = 1\nwindow = true\n", InputError, r"window of .* needs a whole number, 1 or more; got True"),
        (CHECK + "min = 1\nmin_rows = 1.5\n", InputError, r"min_rows of .* needs a whole number, 0 or more; got 1\.5"),
        (CHECK + "min = 1\nbaseline = 'x'\n", InputError, r"baseline of .* needs a limit that is relative to it; got"),
        (CHECK + "fail = 'drop > 1'\nbaseline = 3\n", InputError, r"needs the path of a report or a run; got 3"),
        ("[baseline]\nreport = 'a'\nrun = 'b'\n", InputError, r"\[baseline\] needs one of report and run; got both"),
        ("[baseline]\nreport = 3\n", InputError, r"line 1: \[baseline\] needs the path of a report or a run; got 3"),
        ("[baseline]\nfile = 'x'\n", InputError, r'\[\[baseline\]\] needs keys of report, run; got "file"'),
        ("[[waive]]\nrule = 'check:mean_norm'\nreason = 'x'\n", NothingEvaluatedError, r"needs that check in the file"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "section",
    [
        '[[check]]\ntables = "wpe*"\nmeasure = "mean_norm"\nmin = 0\n',
        '[[rule]]\ntables = ["wte", "wpe*"]\nhubness = false\n',
        '[[waive]]\ntables = "wpe*"\nrule = "hubness"\nreason = "x"\n',
    ],
)
def test_a_glob_that_matches_no_table_is_refused(tmp_path: Path, section: str) -> None:
    rules = load(tmp_path, section)
    rules.refuse_unmatched(["wte", "wpe.weight"])
    with pytest.raises(
        NothingEvaluatedError, match=r'line 1: tables of .* got "wpe\*"\..* The tables are: wte, bias\.'
    ):
        rules.refuse_unmatched(["wte", "bias"])


def test_conditions_at_points_of_a_run(tmp_path: Path) -> None:
    failing, warning, noting, plain = load(
        tmp_path,
        """
        [[check]]
        tables = "item*"
        measure = "information_abundance"
        fail = "< 0.1 * dim"
        warn = "< 0.3 * dim"
        note = "> 2 * null"
        at = "epoch:5.."
        window = 3
        min_rows = 1000
        [[check]]
        measure = "loss"
        fail = "rise > 5%"
        baseline = "runs/main"
        """,
        scalars=["loss"],
    ).checks
    assert [(each.severity, each.limits) for each in (failing, warning, noting)] == [
        ("fail", "at least 0.1 times dim"),
        ("warn", "at least 0.3 times dim"),
        ("note", "at most 2 times its null"),
    ]
    assert {(each.entry, each.line, str(each.at), each.window, each.min_rows) for each in (failing, warning)} == {
        (0, 2, "epoch:5..", 3, 1000)
    }
    assert (plain.entry, plain.limits) == (1, "at most 1.05 times the baseline")
    assert plain.baseline == tmp_path / "runs" / "main"


def test_the_example_of_a_run_in_the_documentation_is_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "check.md").read_text(encoding="utf-8")
    example = page.partition("{ #runs }")[2].partition("```toml\n")[2].partition("```")[0]
    rules = load(tmp_path, example, scalars=["test_loss"])
    assert [each.measure for each in rules.checks][:3] == ["information_abundance"] * 2 + ["spectral_entropy"]
    assert rules.checks[-1].measure == "test_loss"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("< 0.3", (0.3, None, "absolute")),
        ("> -0.5", (None, -0.5, "absolute")),
        (">1e3", (None, 1000.0, "absolute")),
        ("< 0.5 * null", (0.5, None, "null")),
        ("< 50% of baseline", (0.5, None, "baseline")),
        ("> 2 times dim", (None, 2.0, "dim")),
        ("drop > 5%", (0.95, None, "baseline")),
        ("rise > 12.5 %", (None, 1.125, "baseline")),
        ("change > .02", (-0.02, 0.02, "difference")),
        ("< nan", None),
        ("0.3", None),
        ("< 0.3 * rows", None),
        ("drop < 5%", None),
        ("drop > 5% of baseline", None),
        ("", None),
        (None, None),
    ],
)
def test_conditions(text: object, expected: object) -> None:
    found = parse_condition(text)
    assert (found and (found.minimum, found.maximum, found.relative_to)) == expected


@pytest.mark.parametrize(
    ("text", "covered", "written"),
    [
        ("last", "0123", "last"),
        ("any", "0123", "any"),
        ("step:100..", "123", "step:100.."),
        ("step:..100", "01", "step:..100"),
        ("step: 100 .. 200", "12", "step:100..200"),
        ("epoch:1", "2", "epoch:1"),
        ("epoch:0.5..1", "12", "epoch:0.5..1"),
        ("samples:1e3..", "", "samples:1000.."),  # nobody counted them
    ],
)
def test_points_that_are_meant(text: str, covered: str, written: str) -> None:
    when = parse_when(text)
    assert when is not None
    points = [Moment(0, 0.0), Moment(100, 0.5), Moment(200, 1.0), Moment(300, None)]
    assert "".join(str(at) for at, moment in enumerate(points) if when.covers(moment)) == covered
    assert str(when) == written
    assert parse_when(written) == when


@pytest.mark.parametrize("text", ["", "step", "step:", "step:..", "step:2..1", "wall:3..", "step:-1..", "step:1 2", 3])
def test_points_that_are_none(text: object) -> None:
    assert parse_when(text) is None
