"""The page: one file, nothing from outside, nothing from the data that runs, and usable without a mouse."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from fullspan.errors import InputError
from fullspan.jobs.results import Report, TableReport
from fullspan.report.page import render_page, write_page
from fullspan.store.records import Reading, TableRecord
from tests.unit.report import planted

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Elements with their attributes, and the text of each kind of element; refuses what is not nested."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def sick():
    return render_page(planted.sick())


def test_nothing_comes_from_outside_and_only_our_script_runs(sick):
    page = Page(sick)
    policy = next(meta["content"] for meta in page.all("meta") if "http-equiv" in meta)
    assert "default-src 'none'" in policy
    (script,) = page.texts["script"]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    for _, attributes in page.elements:
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "#").startswith(("#", "https://"))
    assert "@import" not in sick
    assert "url(" not in sick


def test_names_of_strangers_are_text_only():
    text = render_page(planted.hostile())
    page = Page(text)
    assert len(page.all("script")) == 1
    assert "<script>alert" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "<script>alert" in "".join(page.texts["h1"])


def test_findings_are_sorted_and_complete(sick):
    page = Page(sick)
    kinds = [each["class"].split()[-1] for each in page.all("article")]
    assert kinds == ["fail", "warn", "note", "waived"]
    for part in ("Cause", "Remedy", "Verify", "fs.measure(E - E.mean(0))", "known since spring"):
        assert part in sick
    assert all("hidden" in button for button in page.all("button") if "copy" in button.get("class", ""))


def test_it_can_be_read_without_eyes_or_mouse(sick):
    page = Page(sick)
    figures = page.all("figure")
    drawings = [each for each in page.all("svg") if each.get("role") == "img"]
    assert len(figures) == len(drawings) == 10
    assert all(each["aria-label"] and each["tabindex"] == "0" for each in drawings)
    assert all(each.get("aria-hidden") == "true" for each in page.all("svg") if each.get("role") != "img")
    assert page.all("html") == [{"lang": "en"}]
    assert all("scope" in each for each in page.all("th"))
    assert any(each.get("class") == "skip" for each in page.all("a"))
    labels = {each["id"] for _, each in page.elements if "id" in each}
    for _, each in page.elements:
        assert each.get("aria-labelledby", next(iter(labels))) in labels
    ids = [each["id"] for _, each in page.elements if "id" in each]
    assert len(ids) == len(set(ids))


def test_several_tables_can_be_switched():
    page = Page(render_page(planted.several()))
    links = [each for each in page.all("a") if "data-table" in each]
    assert [each["data-table"] for each in links] == ["all", "table-1", "table-2"]
    assert [each["id"] for each in page.all("section")] == ["table-1", "table-2"]


def test_what_is_missing_is_left_out():
    record = TableRecord("", "", "float32", 1, 3, readings={"gini_index": Reading("gini_index", None, why="one <row>")})
    text = render_page(Report({"t": TableReport(record)}))
    assert "one &lt;row&gt;" in text
    assert "<h2>Figures</h2>" not in text
    assert "<h2>Damage</h2>" not in text


def test_groups_and_damage_are_tables():
    groups = {"rare": {"gini_index": Reading("gini_index", 0.5)}, "often": {"mean_norm": Reading("mean_norm", 2.5)}}
    record = planted.record_of(planted.rows_of(60, 4), groups=groups)
    text = " ".join(render_page(Report({"t": TableReport(record)})).split())
    assert '<th scope="col" class="num">rare</th><th scope="col" class="num">often</th>' in text
    assert '<th scope="row">nan rows</th><td class="num">3</td><td>item-17</td>' in text


def test_never_a_nan_as_a_number(sick):
    bad = float("nan")
    record = planted.record_of(
        planted.rows_of(60, 4),
        readings={"gini_index": Reading("gini_index", bad, bad, bad), "rankme": Reading("rankme", 1.0, bad, bad)},
    )
    text = render_page(Report({"t": TableReport(record)}))
    for page in (sick, text):
        visible = re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.S)
        assert not re.search(r"\b(nan|inf)\b(?! rows| or )", visible, flags=re.I)


def test_a_page_needs_a_report():
    with pytest.raises(InputError, match=r"A page needs a report with at least one table; got dict\."):
        render_page({})
    with pytest.raises(InputError, match="at least one table"):
        render_page(Report({}))


def test_the_page_is_written_whole(tmp_path):
    write_page(planted.healthy(), tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert text.rstrip().endswith("</html>")
    assert len(text) < 200_000
