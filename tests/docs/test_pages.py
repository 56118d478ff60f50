"""The documentation is complete: every measure, rule, command, option, extra, format and public name is in it."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import click
import pytest

import fullspan
from fullspan.cli.main import PLACES, app
from fullspan.diagnose.rules import RULES
from fullspan.io.formats import FORMATS
from fullspan.jobs.formats import FORMATS as REPORTS
from fullspan.measures.catalog import CATALOG

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DEVELOPER_EXTRAS = {"test", "lint", "docs", "bench"}
EXTRAS = sorted(set(PROJECT["project"]["optional-dependencies"]) - DEVELOPER_EXTRAS)


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("fullspan_docs_hooks", ROOT / "docs/_gen/hooks.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generated(hooks):
    return hooks.generated()[0]


@pytest.mark.parametrize("name", CATALOG)
def test_every_measure_has_a_page(generated, name):
    page = generated[f"measures/{name}.md"]
    entry = CATALOG[name]
    for part in (entry.title, entry.formula, *entry.traps):
        assert part in page
    assert f"({name}.md)" in generated["measures/index.md"]


@pytest.mark.parametrize("name", CATALOG)
def test_every_measure_says_all_a_reader_needs(name):
    entry = CATALOG[name]
    missing = [key for key in ("title", "symbol", "formula", "range", "source", "usage") if not getattr(entry, key)]
    assert not missing
    assert entry.function.__doc__


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_a_section_with_what_it_looks_for_and_reads(generated, rule):
    section = generated["rules.md"].partition(f"{{ #{rule} }}")[2].partition("\n## ")[0]
    assert f"Looks for {RULES[rule].about}.\n\nReads: " in section


@pytest.mark.parametrize("command", PLACES)
def test_every_command_is_in_the_reference_and_in_the_readme(generated, command):
    assert f"## fullspan {command}\n" in generated["reference/cli.md"]
    assert f"fullspan {command}" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", PLACES)
def test_every_option_has_a_help_text(command):
    context = click.Context(app, info_name="fullspan")
    options = [each for each in app.get_command(context, command).params if isinstance(each, click.Option)]
    silent = [each.name for each in options if not each.help]
    assert not silent


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_extra_is_in_the_readme_and_in_the_docs(extra):
    for page in ("README.md", "docs/index.md"):
        assert f"`{extra}`" in (ROOT / page).read_text(encoding="utf-8")


def test_the_package_asks_only_for_extras_that_exist():
    asked = set()
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        asked |= set(re.findall(r"require\(\s*[\"'][\w.]+[\"'],\s*[\"'](\w+)[\"']", text))
        asked |= set(re.findall(r"fullspan\[(\w+)\]", text))
    assert asked <= {*EXTRAS}


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_every_format_is_in_the_docs(hooks, form):
    assert f"| {form.name} |" in hooks.on_page_markdown("<!-- generated: formats -->")


@pytest.mark.parametrize("form", REPORTS)
def test_every_form_of_a_report_is_in_the_docs(form):
    assert f"| `{form}` |" in (ROOT / "docs/reports.md").read_text(encoding="utf-8")


def test_every_public_name_is_in_the_reference(generated):
    pages = "\n".join(generated.values())
    missing = [name for name, home in fullspan._HOMES.items() if f"::: fullspan.{home}.{name}\n" not in pages]
    assert not [name for name in missing if name not in CATALOG and not fullspan._HOMES[name].startswith("measures.")]


def test_links_between_pages_lead_somewhere():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (ROOT / target).exists(), f"{page.name}: {target}"


def test_pages_load_nothing_from_elsewhere():
    for page in [ROOT / "mkdocs.yml", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.svg")]:
        assert not re.search(r"<(script|link|img)[^>]+https?:", page.read_text(encoding="utf-8"))
    assert "font: false" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
