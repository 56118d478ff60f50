"""Numbers in the pages about normalization are those of the study."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("normalization_pages", ROOT / "tools" / "normalization_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_block_shows_the_stored_numbers(tool):
    assert tool.main(["--check"]) == 0


def test_a_changed_number_is_seen(tool):
    stored = json.loads(tool.STORED.read_text(encoding="utf-8"))
    page = next(page for page in tool.pages() if page.name == "study-normalization.md").read_text(encoding="utf-8")
    first = next(iter(stored["claims"].values()))
    first["parts"][0]["estimate"]["mean"] += 1.0
    assert tool.filled(page, stored) != page


def test_every_claim_of_the_study_is_on_a_page_of_the_guide(tool):
    stored = json.loads(tool.STORED.read_text(encoding="utf-8"))
    guide = "".join(page.read_text(encoding="utf-8") for page in tool.pages() if page.parent.name == "guide")
    assert [name for name in stored["claims"] if name not in guide] == []
