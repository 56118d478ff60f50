"""Every form of a report: what it says, that it escapes, and that no NaN looks like a number."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from importlib import resources
from xml.etree import ElementTree as ET

import pytest

from fullspan.errors import UnknownNameError
from fullspan.jobs.formats import FORMATS, format_of, render, words
from fullspan.store.records import Finding, Reading
from tests.unit.formats.schema import problems
from tests.unit.report import planted

TEXTS = ("text", "markdown", "junit", "github")


@pytest.fixture(scope="module")
def sick():
    return planted.sick()


@pytest.fixture(scope="module")
def hostile():
    return planted.hostile()


def test_the_verdict_comes_first_and_the_gravest_finding_before_the_others(sick):
    text = sick.to_text()
    assert text.index("1 failure, 1 warning and 1 note. 1 waived.") < text.index("dimensional-collapse")
    places = [
        text.index(rule) for rule in ("dimensional-collapse", "mean-shift", "non-finite-values", "scale-outliers")
    ]
    assert places == sorted(places)
    for part in (
        "information_abundance 3.412 ± 0.020, isotropic 20.31, threshold 8",
        "rows item-17, item-40",
        "known since spring",
    ):
        assert part in text
    assert text.index("scale-outliers") < text.index("length_frequency_correlation")


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_text_fits_its_width_but_for_commands_and_links(sick, width):
    for line in sick.to_text(width=width).splitlines():
        assert len(line) <= width or line.startswith(("  remedy", "  see", "           "))


def test_text_has_colors_only_when_asked_and_the_same_words(sick):
    plain, colored = sick.to_text(), sick.to_text(color=True)
    assert "\x1b" not in plain
    assert "\x1b[1;31m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored).split() == plain.split()


def test_text_without_readings_is_the_verdicts(sick):
    text = sick.to_text(readings=False)
    assert "dimensional-collapse" in text
    assert "gini_index" not in text


def test_text_in_ascii(sick):
    assert sick.to_text(ascii_only=True).isascii()


def test_text_marks_resolution_reasons_and_groups():
    record = planted.record_of(planted.rows_of(60, 4), groups={"rare": {"gini_index": Reading("gini_index", 0.5)}})
    from fullspan.jobs.results import Report, TableReport

    text = Report({"t": TableReport(record)}).to_text()
    assert "< 1.200e-08" in text
    assert "undefined: This measure needs frequencies of the rows" in " ".join(text.split())
    assert re.search(r"^ +rare +0\.5000?$", text, re.M)
    assert "Nothing wrong was found." in text


@pytest.mark.parametrize("form", TEXTS)
def test_no_form_lets_a_stranger_steer_the_terminal(hostile, form):
    text = render(hostile, form)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\x9b\u202e]", text)
    assert form in ("markdown", "junit") or not any(line.startswith("::error::") for line in text.splitlines())


def test_markdown_escapes_what_markdown_reads(hostile):
    text = hostile.to_markdown()
    outside = re.sub(r"(`+).*?\1", "", text, flags=re.S)
    assert "<script>" not in outside.replace("\\<script\\>", "")
    assert "| `gini_index` |" in text


def test_markdown_tables_keep_their_columns(sick):
    lines = [line for line in sick.to_markdown().splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 7
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {6}


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)


@pytest.mark.parametrize("make", [planted.sick, planted.hostile, planted.healthy])
def test_notebook_has_no_scripts(make):
    parser = _Tags()
    parser.feed(make()._repr_html_())
    assert "table" in parser.tags
    assert not {"script", "style", "link", "img", "iframe"} & set(parser.tags)


def test_junit_counts_and_kinds(sick):
    root = ET.fromstring(render(sick, "junit"))
    assert (root.tag, root.get("tests"), root.get("failures"), root.get("skipped")) == ("testsuites", "4", "1", "1")
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert cases["dimensional-collapse"].find("failure").get("message") == "The rows fill 3.4 of 24 dimensions"
    assert cases["scale-outliers"].find("skipped").get("message").startswith("waived: known since spring")
    assert cases["mean-shift"].find("failure") is None
    passed = ET.fromstring(render(planted.healthy(), "junit"))
    assert (passed.get("tests"), passed.get("failures")) == ("1", "0")


def test_junit_holds_what_xml_cannot(hostile):
    root = ET.fromstring(render(hostile, "junit"))
    assert "<script>" in root.find("testsuite").get("name")


def test_github_annotations(sick):
    lines = render(sick, "github").splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::error", "::warning", "::notice", "::notice"]
    assert lines[0].startswith(
        "::error title=fullspan%3A item_embedding.weight%3A dimensional-collapse::The rows fill 3.4 of 24 dimensions%0A"
    )
    assert render(planted.healthy(), "github").startswith(
        "::notice title=fullspan%3A healthy::500 × 16 float32. Nothing wrong"
    )


def test_github_escapes_properties_and_messages(hostile):
    (line,) = render(hostile, "github").splitlines()
    title, message = re.fullmatch(r"::error title=([^:]*)::(.*)", line).groups()
    assert "," not in title
    assert "\n" not in message


@pytest.fixture(scope="module")
def schema():
    return json.loads(resources.files("fullspan.jobs.formats").joinpath("report.schema.json").read_text("utf-8"))


@pytest.mark.parametrize("make", [planted.sick, planted.hostile, planted.healthy, planted.several])
def test_json_follows_the_schema(make, schema):
    assert problems(json.loads(make().to_json()), schema, schema) == []


def test_the_schema_refuses_what_is_wrong(schema):
    plain = json.loads(planted.healthy().to_json())
    plain["schema"] = "fullspan-report/2.0"
    plain["tables"][0]["dim"] = -1
    plain["tables"][0]["surprise"] = 1
    del plain["tables"][0]["readings"]["gini_index"]["value"]
    found = problems(plain, schema, schema)
    assert len(found) == 4, found


def test_the_schema_has_the_version_of_the_code(schema):
    from fullspan.jobs.results import SCHEMA_VERSION

    assert schema["$id"].endswith(f"report-{SCHEMA_VERSION}.json")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (12345.678, "12,346"),
        (0.012345, "0.01235"),
        (1.2e-8, "1.200e-08"),
        (3e9, "3.000e+09"),
        (2.0, "2"),
        (-0.5, "-0.5000"),
        (float("nan"), "undefined"),
        (float("inf"), "∞"),
        (9.9999, "10.000"),
        ("x\x1b", "x\\x1b"),
        (True, "True"),
    ],
)
def test_numbers(value, text):
    assert words.number(value) == text


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_reading_that_is_not_finite_is_undefined_in_every_form(bad):
    reading = Reading("gini_index", bad, bad, bad)
    assert (words.value_of(reading), words.error_of(reading), words.null_of(reading)) == ("undefined", "", "")


def test_verdicts():
    warn = Finding("r", "warn", "t")
    assert words.verdict([warn, warn]) == "2 warnings."
    assert words.verdict([]) == "Nothing wrong was found."
    assert words.verdict([], 0) == "Nothing was measured."
    assert words.verdict([Finding("r", "fail", "t", waived="why")]) == "Nothing wrong was found. 1 waived."


def test_places_are_few():
    assert words.places(range(7)) == "0, 1, 2, 3, 4, and 2 more"
    assert words.places([{"id": None, "position": 3, "value": 0.5}]) == "3 (0.5000)"


def test_formats_by_suffix():
    assert [format_of(each) for each in (None, "a.JSON", "b.html", "c.md", "d.xml", "e", "f.txt")] == [
        "text",
        "json",
        "html",
        "markdown",
        "junit",
        "text",
        "text",
    ]


def test_an_unknown_format_is_named(sick):
    with pytest.raises(UnknownNameError, match='No format is named "jsn". Did you mean "json"'):
        render(sick, "jsn")
    assert all(render(sick, form) for form in FORMATS if form != "html")
