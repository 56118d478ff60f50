"""``fullspan report`` as a user runs it."""

from __future__ import annotations

import base64
import json
import webbrowser

import numpy as np
import pytest

from fullspan.store.records import Moment, Point
from fullspan.store.runs import RunWriter
from tests.unit.report.test_run_page import data_of


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run with snapshots of two tables, and one without."""
    folder = tmp_path_factory.mktemp("runs with spaces, é")
    rng = np.random.default_rng(0)
    with RunWriter.open(folder / "mf") as writer:
        for table, n_rows in (("user", 60), ("item", 90)):
            writer.table(table, n_rows, 4, "float32")
            for step in (0, 10, 20):
                writer.add_snapshot(table, Moment(step, step / 10), np.arange(n_rows), rng.normal(size=(n_rows, 4)))
        writer.add(Point("", "loss", Moment(step, step / 10), 1 / (1 + step)) for step in range(21))
        writer.finish()
    with RunWriter.open(folder / "bare") as writer:
        writer.add([Point("", "loss", Moment(0), 2.0)])
        writer.finish("failed")
    return folder


def test_a_page_with_maps_is_written(cli, runs, tmp_path):
    out = tmp_path / "mf.html"
    ended = cli("report", runs / "mf", "--out", out)
    assert ended == (0, "", "")
    maps = data_of(out.read_text("utf-8"))["runs"][0]["maps"]
    assert [(each["table"], each["method"], each["points"], each["frames"]) for each in maps] == [
        ("user", "pca", 60, 3),
        ("item", "pca", 90, 3),
    ]


def test_points_are_shared_among_the_maps_and_tables_chosen(cli, runs, tmp_path):
    out = tmp_path / "mf.html"
    assert cli("report", runs / "mf", "-o", out, "--max-points", "40").code == 0
    assert [each["points"] for each in data_of(out.read_text("utf-8"))["runs"][0]["maps"]] == [40, 40]
    assert cli("report", runs / "mf", "-o", out, "-t", "item", "--maps", "pca-shared").code == 0
    (only,) = data_of(out.read_text("utf-8"))["runs"][0]["maps"]
    assert (only["table"], only["method"]) == ("item", "pca-shared")
    assert cli("report", runs / "mf", "-o", out, "--maps", "none").code == 0
    assert data_of(out.read_text("utf-8"))["runs"][0]["maps"] == []


def test_labels_are_separated_side_by_side(cli, runs, tmp_path):
    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b"], 30)
    with RunWriter.open(tmp_path / "labeled") as writer:
        writer.table("item", 60, 4, "float32")
        for step in (0, 10):
            vectors = rng.normal(size=(60, 4)) + step * (labels == "a")[:, None]
            writer.add_snapshot("item", Moment(step), np.arange(60), vectors, labels)
        writer.finish()
    out = tmp_path / "x.html"
    assert cli("report", tmp_path / "labeled", "-o", out, "--separability").code == 0
    data = data_of(out.read_text("utf-8"))
    read = {each["m"]: np.frombuffer(base64.b64decode(each["v"]), "<f4") for each in data["runs"][0]["curves"]}
    assert {"neighbor_purity", "neighbor_purity|center+l2", "silhouette|standardize"} <= set(read)
    assert read["neighbor_purity"][0] < 0.7 < 0.85 < read["neighbor_purity"][1]
    titles = {each["name"]: each["title"] for each in data["measures"]}
    assert titles["neighbor_purity|center+l2"] == "Neighbor purity (center+l2)"
    ended = cli("report", runs / "mf", "-o", out, "--separability")
    assert ended.code == 2
    assert "report --separability needs snapshots with labels in every run; got none in " in ended.err


def test_runs_are_compared_under_a_title(cli, runs, tmp_path):
    out = tmp_path / "both.html"
    assert cli("report", runs / "bare", runs / "mf", "-o", out, "--title", "<b>Two</b>").code == 0
    text = out.read_text("utf-8")
    assert "<title>&lt;b&gt;Two&lt;/b&gt;: fullspan run report</title>" in text
    data = data_of(text)
    assert [each["name"] for each in data["runs"]] == ["bare", "mf"]
    assert [len(each["maps"]) for each in data["runs"]] == [0, 2]


def test_json_is_for_machines(cli, runs, tmp_path):
    ended = cli("report", runs / "bare", "--json")
    (run,) = json.loads(ended.out)["runs"]
    assert (run["name"], run["status"], run["step"]) == ("bare", "failed", 0)
    assert cli("report", runs / "bare", "-o", tmp_path / "x.json").code == 0
    assert json.loads((tmp_path / "x.json").read_text("utf-8")) == json.loads(ended.out)


def test_the_page_goes_to_standard_output(cli, runs):
    ended = cli("report", runs / "bare", "-o", "-")
    assert ended.out.startswith("<!doctype html>")


def test_figures_for_a_paper(cli, runs, tmp_path):
    pytest.importorskip("matplotlib")
    ended = cli("report", runs / "mf", "--figures", tmp_path / "figures", "-t", "user")
    assert ended.code == 0
    assert ended.err == f"4 files in {tmp_path / 'figures'}\n"
    names = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert names == ["loss.pdf", "loss.svg", "map-user-pca.pdf", "map-user-pca.svg"]


def test_it_opens_the_page(cli, runs, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert cli("report", runs / "bare", "-o", tmp_path / "x.html", "--open").code == 0
    assert opened == [(tmp_path / "x.html").as_uri()]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nope", "-o", "x.html"], "needs the directory of a run; got"),
        (["bare"], "report needs --out FILE for the page, --figures DIR, or --json."),
        (["bare", "--open", "--json"], "--open needs a file to open: give --out FILE."),
        (["bare", "-o", "x.csv"], "asks for"),
        (["bare", "-o", "x.html", "--maps", "pca"], "report --maps needs snapshots of a table in the run; got none."),
        (["mf", "-o", "x.html", "-t", "itm"], "got 'itm'. Did you mean \"item\"? They have: item, user."),
        (["mf", "-o", "x.html", "--maps", "sne"], "'sne' is not one of 'pca'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(cli, runs, tmp_path, monkeypatch, args, said):
    monkeypatch.chdir(tmp_path)
    ended = cli("report", runs / args[0], *args[1:])
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_one_table_that_cannot_be_mapped_is_named_and_the_others_are_drawn(cli, tmp_path):
    with RunWriter.open(tmp_path / "r") as writer:
        for table, n_rows in (("few", 1), ("many", 60)):
            writer.table(table, n_rows, 4, "float32")
            vectors = np.random.default_rng(0).normal(size=(n_rows, 4))
            writer.add_snapshot(table, Moment(0), np.arange(n_rows), vectors)
        writer.finish()
    ended = cli("report", tmp_path / "r", "-o", tmp_path / "x.html")
    assert ended.code == 0
    assert ended.err.startswith("fullspan: no map of 'few': ")
    maps = data_of((tmp_path / "x.html").read_text("utf-8"))["runs"][0]["maps"]
    assert [each["table"] for each in maps] == ["many"]


def test_a_run_whose_tables_cannot_be_mapped_still_has_a_page(cli, tmp_path):
    """Of a table that is NaN, the page is what is wanted most; a map that was asked for is an error."""
    labels = np.repeat(["a", "b"], 30)
    rows = np.random.default_rng(0).normal(size=(60, 4))
    with RunWriter.open(tmp_path / "r") as writer:
        for table, values in (("lost", np.full((60, 4), np.nan)), ("kept", rows)):
            for step, vectors in ((0, values), (10, values)):
                writer.add_snapshot(table, Moment(step), np.arange(60), vectors, labels)
        writer.finish()
    out = tmp_path / "x.html"
    ended = cli("report", tmp_path / "r", "-o", out, "-t", "lost")
    assert ended.code == 0
    assert ended.err.startswith("fullspan: no map of 'lost': ")
    assert data_of(out.read_text("utf-8"))["runs"][0]["maps"] == []
    assert cli("report", tmp_path / "r", "-o", out, "-t", "lost", "--maps", "pca").code == 2
    ended = cli("report", tmp_path / "r", "-o", out, "--separability", "--maps", "none")
    assert ended.code == 0
    assert ended.err.startswith("fullspan: no separability of 'lost': ")
    assert "Neighbor purity" in out.read_text("utf-8")
