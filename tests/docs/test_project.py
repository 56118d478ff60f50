"""The files around the package: fragments, versions, pins."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import fullspan
from fullspan import errors

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
KINDS = {kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"]}
FRAGMENTS = sorted(path for path in (ROOT / "changelog.d").glob("*.md") if path.name != "README.md")


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_is_one_full_sentence(path):
    assert re.fullmatch(rf"[\w-]+\.({'|'.join(sorted(KINDS))})\.md", path.name)
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert re.search(r"[.!)]$", text.strip())


def test_the_version_is_written_once_and_once_more():
    assert fullspan.__version__ == PROJECT["project"]["version"]


def test_every_requirement_is_pinned():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {canonicalize_name(line.partition("==")[0]): line.partition("==")[2] for line in lines if "==" in line}
    extras = PROJECT["project"]["optional-dependencies"].values()
    for requirement in map(Requirement, itertools.chain(PROJECT["project"]["dependencies"], *extras)):
        if requirement.name != "fullspan":
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement


def test_pins_have_no_local_label():
    assert "+" not in (ROOT / "constraints.txt").read_text(encoding="utf-8").replace("# ", "")


def test_the_exit_codes_of_errors_are_documented():
    text = (ROOT / "docs/check.md").read_text(encoding="utf-8")
    codes = {getattr(errors, name).exit_code for name in errors.__all__ if hasattr(getattr(errors, name), "exit_code")}
    assert all(f"| {code} |" in text for code in codes)
