"""``fullspan rules``: every rule is explained from the installed package alone."""

from __future__ import annotations

import json

import pytest

from fullspan.cli.main import run
from fullspan.diagnose.rules import RULES


@pytest.mark.parametrize("name", RULES)
def test_every_rule_is_explained_with_its_limits(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", name, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["name"] == name
    assert told["limits"].startswith(f"[{name}]")
    assert len(told["text"]) > 60


def test_the_list_names_all_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in RULES)


def test_an_unknown_rule_ends_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "mean-shft"]) != 0
    assert "rules needs the name of a rule; got 'mean-shft'. Did you mean \"mean-shift\"?" in capsys.readouterr().err
