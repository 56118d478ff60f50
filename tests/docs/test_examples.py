"""The examples of README.md and docs/ run, and show what they print."""

from __future__ import annotations

import difflib

import pytest

from tools import refresh_readme


@pytest.mark.parametrize("page", refresh_readme.PAGES, ids=lambda page: page.name)
def test_examples_show_their_real_output(page):
    shown = page.read_text(encoding="utf-8")
    fresh = refresh_readme.renewed(shown)
    before, after = (refresh_readme.comparable(text).splitlines() for text in (shown, fresh))
    assert "\n".join(difflib.unified_diff(before, after, "shown", "real", lineterm="", n=1)) == ""


def test_output_blocks_are_renewed():
    page = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n\n```console\n$ echo one; echo two\nthree\n```\n"
    assert refresh_readme.renewed(page) == page.replace("3\n", "2\n").replace("three\n", "one\ntwo\n")


def test_blocks_of_a_page_share_a_folder():
    page = "```console\n$ echo 5 > five\n```\n```python\nprint(open('five').read().strip())\n```\n```text\n?\n```\n"
    assert "```text\n5\n```" in refresh_readme.renewed(page)


def test_an_example_that_fails_is_an_error():
    with pytest.raises(RuntimeError, match="NameError"):
        refresh_readme.renewed("```python\nnothing_here\n```\n")


def test_times_do_not_count():
    assert refresh_readme.comparable("took 0.4 s") == refresh_readme.comparable("took 1.25 s")
    assert refresh_readme.comparable("0.4 of it") != refresh_readme.comparable("0.5 of it")
