"""Every command as a user runs it: what it prints, where, and what it ends with."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import click
import numpy as np
import pytest

import fullspan
from fullspan.cli.lazy import Command, Group
from fullspan.cli.main import PLACES, app

EMBEDDED = ("--measures", "effective_rank,average_cosine", "--no-errors")


@pytest.mark.parametrize("name", ["", *PLACES])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_has_help_with_examples_in_80_columns(cli, name, flag):
    ended = cli(*([name] if name else []), flag)
    assert (ended.code, ended.err) == (0, "")
    assert "Examples:" in ended.out
    assert re.search(rf"^  fullspan {name}", ended.out, re.M)
    assert max(map(len, ended.out.splitlines())) <= 80


@pytest.mark.parametrize("name", PLACES)
def test_every_option_has_a_help_and_every_command_its_line(name):
    command = app.get_command(click.Context(app), name)
    assert command.name == name
    for parameter in command.params:
        assert isinstance(parameter, click.Argument) or parameter.help, parameter
    assert len(PLACES[name][1]) <= 66


def test_version(cli):
    import fullspan

    assert cli("--version").out == f"fullspan {fullspan.__version__}\n"


def test_no_command_is_help_and_wrong_usage(cli):
    ended = cli()
    assert ended.code == 2
    assert "Commands:" in ended.err


def test_measure_says_the_verdict_and_the_readings(cli, tables):
    ended = cli("measure", tables / "shifted.npy", "--no-neighbors")
    assert (ended.code, ended.err) == (0, "")
    assert "shifted  300 × 8 float32" in ended.out
    assert "mean-shift" in ended.out
    assert "effective_rank" in ended.out
    assert "\x1b" not in ended.out
    assert "nan" not in ended.out.lower().replace("nan or infinity", "")


def test_json_is_pure(cli, tables):
    ended = cli("measure", tables / "good.npy", "--json", *EMBEDDED)
    plain = json.loads(ended.out)
    assert (ended.code, ended.err) == (0, "")
    assert list(plain["tables"][0]["readings"]) == ["effective_rank", "average_cosine"]


def test_quiet_leaves_out_the_readings(cli, tables):
    ended = cli("measure", tables / "good.npy", "-q", *EMBEDDED)
    assert "Nothing wrong was found." in ended.out
    assert "effective_rank" not in ended.out


@pytest.mark.parametrize("form", ["markdown", "html", "junit", "github"])
def test_other_forms_go_to_standard_output(cli, tables, form):
    ended = cli("measure", tables / "shifted.npy", "--format", form, *EMBEDDED)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith({"markdown": "## ", "html": "<!doctype html>", "junit": "<?xml", "github": "::"}[form])


@pytest.mark.parametrize("suffix", ["json", "html", "md", "xml", "txt"])
def test_the_suffix_of_out_chooses_the_form(cli, tables, tmp_path, suffix):
    path = tmp_path / f"a report.{suffix}"
    ended = cli("measure", tables / "good.npy", "--out", path, *EMBEDDED)
    assert ended == (0, "", "")
    start = {"json": "{", "html": "<!doctype", "md": "## ", "xml": "<?xml", "txt": "good  300"}[suffix]
    assert path.read_text("utf-8").startswith(start)
    assert list(tmp_path.iterdir()) == [path]


def test_out_dash_is_standard_output(cli, tables):
    assert cli("measure", tables / "good.npy", "--out", "-", "--json", *EMBEDDED).out.startswith("{")


def test_the_input_is_not_overwritten(cli, tables):
    before = (tables / "good.npy").read_bytes()
    ended = cli("measure", tables / "good.npy", "--json", "--out", tables / "good.npy")
    assert ended.code == 2
    assert "--out needs a path other than its input" in ended.err
    assert (tables / "good.npy").read_bytes() == before


def test_tables_of_a_file_can_be_chosen(cli, tables):
    both = json.loads(cli("measure", tables / "model.npz", "--json", *EMBEDDED).out)
    assert [each["table"] for each in both["tables"]] == ["user_embedding", "item_embedding"]
    one = json.loads(cli("measure", tables / "model.npz", "--table", "item_*", "--json", *EMBEDDED).out)
    assert [each["n_rows"] for each in one["tables"]] == [200]
    ended = cli("measure", tables / "model.npz", "--table", "itm_embedding")
    assert ended.code == 2
    assert 'Did you mean "item_embedding"' in ended.err.replace("'", '"')


def test_all_measures(cli, tables):
    plain = json.loads(cli("measure", tables / "good.npy", "--all-measures", "--json").out)
    assert len(plain["tables"][0]["readings"]) > 35


def test_tables_lists_without_measuring(cli, tables):
    ended = cli("tables", tables / "model.npz")
    assert ended.code == 0
    assert re.search(r"user_embedding +100 × 8 +float32", ended.out)
    assert "Next, for those marked: fullspan measure '" in ended.out
    plain = json.loads(cli("tables", tables / "model.npz", "--json").out)
    assert [each["shape"] for each in plain] == [[100, 8], [200, 8]]


def test_check_passes_fails_and_cannot_tell(cli, tables, tmp_path):
    good = cli("check", tables / "good.npy")
    assert good.code == 0
    assert good.out.splitlines()[-1].startswith("passed: Nothing wrong was found.")
    bad = cli("check", tables / "shifted.npy")
    assert bad.code == 1
    assert "mean-shift" in bad.out
    assert bad.out.splitlines()[-1].startswith("FAILED: 1 failure")
    rules = tmp_path / "fullspan.toml"
    rules.write_text('[[check]]\ntables = "nothing*"\nmeasure = "effective_rank"\nmin = 1\n')
    none = cli("check", tables / "good.npy", "--rules", rules)
    assert (none.code, none.out, none.err.count("\n")) == (3, "", 1)
    rules.write_text('[[check]]\ntables = "*"\nmeasure = "length_frequency_correlation"\nmax = 50\n')
    blind = cli("check", tables / "good.npy", "--rules", rules)
    assert blind.code == 3
    assert "--frequencies" in blind.out
    assert blind.out.splitlines()[-1].startswith("NOT EVALUATED: 1 rule could not be judged")
    missing = cli("check", tables / "model.npz", "--table", "user_embeding")
    assert (missing.code, missing.out, missing.err.count("\n")) == (3, "", 1)
    assert "user_embedding" in missing.err


def test_check_takes_a_saved_report_and_proposes_rules(cli, tables, tmp_path):
    report, rules = tmp_path / "good.json", tmp_path / "fullspan.toml"
    assert cli("measure", tables / "good.npy", "--out", report).code == 0
    assert cli("check", report, "--init", "--out", rules).code == 0
    assert "[[check]]" in rules.read_text()
    assert cli("check", report, "--rules", rules).code == 0
    assert cli("check", tables / "shifted.npy", "--rules", rules, "--json").code in (1, 3)
    plain = json.loads(cli("check", report, "--json").out)
    assert (plain["passed"], plain["exit_code"]) == (True, 0)
    ended = cli("check", report, "--column", "vector")
    assert ended.code == 2
    assert "is a report: it was measured before" in ended.err


def test_check_in_the_forms_of_a_pipeline(cli, tables, tmp_path):
    ended = cli("check", tables / "shifted.npy", "--format", "github")
    assert ended.code == 1
    assert ended.out.startswith("::error title=fullspan%3A shifted%3A mean-shift::")
    assert cli("check", tables / "shifted.npy", "--out", tmp_path / "r.xml").code == 1
    assert int(ET.parse(tmp_path / "r.xml").getroot().get("failures")) >= 1


def test_check_has_a_last_line_only(cli, tables):
    assert cli("check", tables / "shifted.npy", "--quiet").out.count("\n") == 1


def test_drift(cli, tables, tmp_path):
    ended = cli("drift", tables / "good.npy", tables / "newer.npy", "--measures", "effective_rank")
    assert (ended.code, ended.err) == (0, "")
    assert "linear_cka" in ended.out
    several = cli(
        "drift", tables / "good.npy", tables / "newer.npy", tables / "shifted.npy", "-m", "mean_norm", "--json"
    )
    assert list(json.loads(several.out)) == [str(tables / "newer.npy"), str(tables / "shifted.npy")]
    assert cli("drift", tables / "good.npy", tables / "newer.npy", "--out", tmp_path / "d.html").code == 2
    assert cli("drift", tables / "good.npy").code == 2


def test_measures_lists_all_of_the_catalog(cli):
    from fullspan.measures import catalog

    ended = cli("measures")
    assert ended.code == 0
    assert all(re.search(rf"^  {name} ", ended.out, re.M) for name in catalog.CATALOG)
    assert max(map(len, ended.out.splitlines())) <= 80
    plain = json.loads(cli("measures", "--json").out)
    assert [each["name"] for each in plain] == list(catalog.CATALOG)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("iso", "isotropy"),
        ("effective rank", "effective_rank"),
        ("Effective-Rank", "effective_rank"),
        ("hoyer", "hoyer_sparsity"),
        ("gini", "gini_index"),
        ("efective_rank", "effective_rank"),
        ("kappa", "inverse_condition_number"),
    ],
)
def test_measures_finds_one(cli, asked, name):
    ended = cli("measures", asked)
    assert (ended.code, ended.out.split()[0]) == (0, name)
    for label in ("range", "direction", "source", "traps"):
        assert re.search(rf"^{label} ", ended.out, re.M)
    assert json.loads(cli("measures", asked, "--json").out)["name"] == name


@pytest.mark.parametrize("asked", ["xyzzy", "", "  "])
def test_measures_does_not_find_nonsense(cli, asked):
    ended = cli("measures", asked)
    assert (ended.code, ended.out) == (2, "")
    assert "No measure is named" in ended.err


def test_words(cli, tmp_path):
    vectors, pairs, poor = tmp_path / "v.txt", tmp_path / "pairs.csv", tmp_path / "poor.txt"
    vectors.write_text("4 2\ncat 1.0 0.0\ndog 0.9 0.1\nsky 0.0 1.0\nsea 0.1 0.9\n")
    pairs.write_text("cat,dog,9\ncat,sky,1\ndog,sky,3\nsea,sky,8\ncow,sky,2\n")
    poor.write_text("a b 1\nc d 2\ne f 3\n")
    ended = cli("words", vectors, "--pairs", pairs, "--pairs", poor)
    assert ended.code == 0
    assert re.search(r"pairs.csv +pearson ×100 .* 5 +4 +1$", ended.out, re.M)
    assert re.search(r"poor.txt +pearson ×100 +undefined", ended.out)
    none = cli("words", vectors, "--pairs", poor, "--json")
    assert none.code == 3
    assert json.loads(none.out)[0]["value"] is None
    assert none.err.startswith("fullspan: words needs a file of judgements that can be scored")


def test_words_with_the_set_of_coupled_adam(cli, tmp_path):
    vectors = np.random.default_rng(0).normal(size=(40, 4)) + 1
    names = [f"w{row}" for row in range(40)]
    np.save(tmp_path / "v.npy", vectors)
    np.save(tmp_path / "counts.npy", np.arange(1, 41))
    (tmp_path / "words.txt").write_text("\n".join(names))
    for name in ("simlex.txt", "men.txt", "wordsim353.csv", "rw.txt"):
        (tmp_path / name).write_text("".join(f"w{row} w{row + 1} {row % 7}\n" for row in range(20)))
    told = (tmp_path / "v.npy", "--coupled-adam", "--frequencies", tmp_path / "counts.npy")
    plain = cli("words", *told)
    assert (plain.code, plain.err) == (0, "")
    symbols = ["Iso(E)", "Iso(E−μ)", "‖μ‖", "‖μ‖ʳ", "mean ‖e‖", "ρ ×100", "κ"]
    assert [re.split(r"  +", line)[0] for line in plain.out.splitlines()] == symbols
    judged = ("--ids", tmp_path / "words.txt", "--pairs", tmp_path, "--sets", "article")
    assert re.search(r"r̄ ×100 .*judgements, 4 sets", cli("words", *told, *judged).out)
    read = json.loads(cli("words", *told, *judged, "--json").out)
    expected = fullspan.coupled_adam_set(vectors, frequencies=np.arange(1, 41), words=names, files=tmp_path)
    values = {each["name"]: each["value"] for each in read["coupled_adam"]}
    assert values["isotropy"] == expected.isotropy
    assert values["length_frequency_correlation"] == expected.rho
    assert values["kappa"] == expected.kappa
    assert expected.mean_similarity is not None
    assert values["mean_word_similarity"] == expected.mean_similarity.value
    assert len(read["pairs"]) == 4


def test_words_says_why_a_number_of_the_set_is_undefined(cli, tmp_path):
    np.save(tmp_path / "v.npy", np.vstack([np.eye(3), -np.eye(3)]))
    np.save(tmp_path / "counts.npy", np.arange(6))
    ended = cli("words", tmp_path / "v.npy", "--coupled-adam", "--frequencies", tmp_path / "counts.npy")
    assert ended.code == 0
    assert "length_frequency_correlation is undefined: length_frequency_correlation needs norms that vary" in ended.out


def test_demo_measures_the_bundled_table(cli, tmp_path):
    ended = cli("demo", "--no-training", "--out", tmp_path / "glove.html")
    assert ended.code == 0
    assert "fullspan measures average_cosine" in ended.out
    assert "non-families" in (tmp_path / "glove.html").read_text("utf-8")


def test_the_short_help_works_whatever_context_came_first():
    """Click keeps the help option that the first context asked for; one that was made by hand asks for --help only."""
    for kind, options in ((Command, {}), (Group, {"places": {}})):
        command = kind(name="fresh", **options)
        option = command.get_help_option(click.Context(command))
        assert option is not None
        assert option.opts == ["-h", "--help"]
