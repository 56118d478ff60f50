"""Limits: how a value is graded, and what a user's file may change."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from fullspan.diagnose import RULES, Thresholds
from fullspan.diagnose.thresholds import Limits
from fullspan.errors import InputError, MissingFileError, NothingEvaluatedError

ABOVE = Limits("above", {"note": 1.0, "warn": 2.0, "fail": 4.0}, 6.0, 2.0)
BELOW = Limits("below", {"warn": 0.5, "fail": 0.25}, 6.0, 2.0)


@pytest.mark.parametrize(
    ("limits", "value", "error", "grade"),
    [
        (ABOVE, 1.0, None, None),
        (ABOVE, 1.5, None, "note"),
        (ABOVE, 5.0, None, "fail"),
        (ABOVE, 5.0, 0.1, "fail"),
        (ABOVE, 5.0, 1.0, "warn"),  # 5 - 2 is past warn only
        (ABOVE, 5.0, 2.4, "warn"),  # 5 - 4.8 is past nothing: one grade lower, not none
        (ABOVE, 1.5, 0.5, None),  # nothing is below note
        (BELOW, 0.6, None, None),
        (BELOW, 0.4, None, "warn"),
        (BELOW, 0.2, 0.01, "fail"),
        (BELOW, 0.24, 0.01, "warn"),
        (BELOW, 0.49, 0.1, None),
    ],
)
def test_grade(limits: Limits, value: float, error: float | None, grade: str | None) -> None:
    assert limits.grade(value, error) == grade


def test_every_rule_has_limits_and_every_limit_a_rule() -> None:
    assert set(Thresholds.load().rules) == {"all", *RULES}
    assert all(Thresholds.load().limits(rule) is not None for rule in RULES)


def load(tmp_path: Path, text: str) -> Thresholds:
    path = tmp_path / "fullspan.toml"
    path.write_text(text, encoding="utf-8")
    return Thresholds.load(path)


def test_an_override_changes_what_it_names_on_the_tables_it_names(tmp_path: Path) -> None:
    changed = load(
        tmp_path,
        """
        [[rule]]
        tables = "*.weight"
        dimensional-collapse = { warn = 0.8, variance = 0.9 }
        [[rule]]
        tables = ["user.weight", "item?weight"]
        dimensional-collapse = { fail = 0.4, errors = 0 }
        mean-shift = { warn = false }
        hubness = false
        """,
    )
    plain = changed.limits("dimensional-collapse", "bias")
    some = changed.limits("dimensional-collapse", "wte.weight")
    both = changed.limits("dimensional-collapse", "user.weight")
    assert plain is not None and plain.grades == {"warn": 0.5, "fail": 0.25}  # noqa: PT018
    assert some is not None and some.grades == {"warn": 0.8, "fail": 0.25}  # noqa: PT018
    assert both is not None and both.grades == {"warn": 0.8, "fail": 0.4}  # noqa: PT018
    assert (some.options["variance"], some.errors, both.errors) == (0.9, 2.0, 0.0)
    assert changed.limits("mean-shift", "item.weight").grades == {"note": 0.01, "fail": 0.5}  # type: ignore[union-attr]
    assert changed.limits("hubness", "user.weight") is None
    assert changed.limits("hubness", "wte.weight") is not None


def test_a_rule_that_is_off_comes_back_with_a_later_override(tmp_path: Path) -> None:
    changed = load(tmp_path, '[[rule]]\nhubness = false\n[[rule]]\ntables = "a"\nhubness = { warn = 3 }\n')
    assert changed.limits("hubness", "b") is None
    assert changed.limits("hubness", "a").grades == {"note": 0.75, "warn": 3.0}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("[[rule]\n", InputError, r"rules file needs to be TOML; got a mistake: .*line 1"),
        ("a = 1\n[[rule]]\nmean-shift = {\n", InputError, r"line 3|line 4"),
        ("[rules]\n", InputError, r'sections of .*; got "rules"\. Did you mean "rule"\?'),
        ("[rule]\nx = 1\n", InputError, r"rule needs to be written as \[\[rule\]\]; got dict"),
        ("[[baseline]]\nreport = 'x'\n", InputError, r"baseline needs to be written as \[baseline\]; got list"),
        ("\n[[rule]]\n", InputError, r"line 2: a \[\[rule\]\] needs at least one rule to change; got none"),
        ("[[rule]]\nmean-shft = { warn = 1 }\n", NothingEvaluatedError, r'line 1: no rule .*"mean-shft".*"mean-shift"'),
        ("[[rule]]\nall = { errors = 1 }\n", NothingEvaluatedError, r'no rule is named "all"'),
        ("[[rule]]\nmean-shift = 3\n", InputError, r"mean-shift needs a table such as .*; got 3"),
        ("[[rule]]\nmean-shift = { wrn = 3 }\n", InputError, r'needs keys of .*got "wrn"\. Did you mean "warn"'),
        ("[[rule]]\nmean-shift = { worse = 'below' }\n", InputError, r'needs keys of .*; got "worse"'),
        ("[[rule]]\nmean-shift = { warn = nan }\n", InputError, r"warn of mean-shift needs a finite number; got nan"),
        ("[[rule]]\nmean-shift = { warn = true }\n", InputError, r"warn of mean-shift needs a finite number; got True"),
        ("[[rule]]\nmean-shift = { warn = 0.9 }\n", InputError, r"limits of mean-shift need to rise .*fail = 0.5"),
        ("[[rule]]\ndimensional-collapse = { fail = 0.9 }\n", InputError, r"need to fall from note over warn to fail"),
        ("[[rule]]\ntables = 3\nhubness = false\n", InputError, r"tables of a \[\[rule\]\] needs a glob .*; got 3"),
        ("[[rule]]\ntables = []\nhubness = false\n", InputError, r"tables of a \[\[rule\]\] needs a glob .*; got \[\]"),
        ("[[waive]]\nrule = 'mean-shift'\n", InputError, r"line 1: a waiver needs a reason; got None"),
        ("[[waive]]\nrule = 'mean-shift'\nreason = '  '\n", InputError, r"a waiver needs a reason; got '  '"),
        ("[[waive]]\nrule = 'nothing'\nreason = 'x'\n", NothingEvaluatedError, r'no rule is named "nothing"'),
        ("[[waive]]\nreason = 'x'\n", NothingEvaluatedError, r'no rule is named "None"'),
        ("[[waive]]\nrule = 'hubness'\nreason = 'x'\nuntil = '2027-01-31'\n", InputError, r"a date such as 2027-01-31"),
        (
            "[[waive]]\nrule = 'hubness'\nreason = 'x'\nuntill = 2027-01-31\n",
            InputError,
            r'got "untill"\. Did you mean',
        ),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == (3 if error is NothingEvaluatedError else 2)  # type: ignore[attr-defined]


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"No rules file at .*Write one with: fullspan check"):
        Thresholds.load(tmp_path / "none.toml")
    with pytest.raises(InputError, match="regular file; got a directory"):
        Thresholds.load(tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="needs to be UTF-8; got other bytes at 0"):
        Thresholds.load(tmp_path / "bytes.toml")
    (tmp_path / "large.toml").write_bytes(b"#" * (1 << 21))
    with pytest.raises(InputError, match="at most 1 MiB; got 2,097,152 bytes"):
        Thresholds.load(tmp_path / "large.toml")
    (tmp_path / "deep.toml").write_text("a = " + "[" * 20000)
    with pytest.raises(InputError, match="needs to be TOML"):
        Thresholds.load(tmp_path / "deep.toml")


def test_waivers_hold_until_their_day_is_over(tmp_path: Path) -> None:
    (waiver,) = load(
        tmp_path, "[[waive]]\ntables = 'wpe*'\nrule = 'hubness'\nreason = ' known '\nuntil = 2027-01-31\n"
    ).waivers
    assert waiver.reason == "known"
    assert waiver.covers("wpe.weight", "hubness")
    assert not waiver.covers("wte.weight", "hubness")
    assert not waiver.covers("wpe.weight", "mean-shift")
    assert not waiver.expired(dt.date(2027, 1, 31))
    assert waiver.expired(dt.date(2027, 2, 1))
