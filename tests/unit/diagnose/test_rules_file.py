"""The checks and the baseline of a ``fullspan.toml``."""

from __future__ import annotations

from pathlib import Path

import pytest

from fullspan.diagnose import RulesFile
from fullspan.errors import InputError, NothingEvaluatedError

CHECK = "[[check]]\nmeasure = 'mean_norm'\n"


def load(tmp_path: Path, text: str) -> RulesFile:
    path = tmp_path / "fullspan.toml"
    path.write_text(text, encoding="utf-8")
    return RulesFile.load(path)


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
        ("[baseline]\nreport = 3\n", InputError, r"line 1: \[baseline\] needs the path of a report; got 3"),
        ("[baseline]\nfile = 'x'\n", InputError, r'\[\[baseline\]\] needs keys of report; got "file"'),
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
