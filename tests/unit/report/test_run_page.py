"""The page of training runs: what it holds, that it holds it exactly, and that nothing from the data runs."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from fullspan.errors import InputError
from fullspan.report.run_content import content_of
from fullspan.report.run_data import run_data
from fullspan.report.run_json import run_report
from fullspan.report.run_page import render_run_page, write_run_page
from fullspan.store.records import Event, MapFrames, Moment, Point
from fullspan.store.runs import Run, RunWriter
from tests.unit.report import planted_runs as planted
from tests.unit.report.planted import HOSTILE
from tests.unit.report.test_page import Page


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return content_of(planted.write_small(tmp_path_factory.mktemp("runs") / "mf"))


@pytest.fixture(scope="module")
def text(small):
    return render_run_page([small], [planted.frames()])


def data_of(text: str) -> dict:
    """What the script of the page reads; constants that are not JSON are refused."""
    found = re.search(r'<script type="application/json" id="run-data">(.*?)</script>', text, re.S)
    return json.loads(found[1], parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def unpacked(packed: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed), dtype=kind)


def curve_of(data: dict, measure: str, table: int = -1, run: int = 0) -> dict:
    return next(each for each in data["runs"][run]["curves"] if (each["m"], each["t"]) == (measure, table))


def unrolled(coded: list) -> list:
    return [value for value, count in coded for _ in range(count)]


def visible(text: str) -> str:
    return re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.S)


def written(path, points=(), tables=(), events=(), name="run", **config) -> Run:
    with RunWriter.open(path, name=name, config=config or None) as writer:
        for table, n_rows, dim in tables:
            writer.table(table, n_rows, dim, "float32")
        writer.add(points)
        for event in events:
            writer.add_event(event)
        writer.finish()
    return Run.open(path)


# nothing from outside, nothing from the data that runs


def test_nothing_comes_from_outside_and_only_our_scripts_run(text):
    page = Page(text)
    policy = next(meta["content"] for meta in page.all("meta") if "http-equiv" in meta)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    scripts = page.texts["script"]
    kinds = [each.get("type") for each in page.all("script")]
    assert kinds == ["application/json", None, None]
    for script in scripts[1:]:
        assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy
    assert policy.count("sha256-") == 2
    for _, attributes in page.elements:
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "#").startswith(("#", "https://"))
    for part in ("@import", "eval(", "new Function", "fetch(", "XMLHttpRequest", "import("):
        assert part not in text
    assert not re.search(r"url\((?!#)", text)
    outside = set(re.findall(r"https?://[\w.]+", re.sub(r'href="[^"]*"', "", text)))
    assert outside <= {"http://www.w3.org"}


def test_names_of_strangers_are_text_only(tmp_path):
    hostile = HOSTILE + "</script><!--"
    at = Moment(1, 0.5, 32, planted.START)
    points = [
        Point(hostile, "gini_index", at, 0.5, 10),
        Point("", hostile, at, 1.0),
        Point("", "x", at, None, why=hostile),
    ]
    event = Event(at, "warn", hostile, hostile, hostile, {"remedy": hostile, "evidence": [{"measure": hostile}]})
    run = written(tmp_path / "r", points, [(hostile, 10, 4)], [event], name=hostile, key=hostile)
    frames = MapFrames(
        hostile,
        hostile,
        np.array([1]),
        np.array([np.nan]),
        np.array([hostile]),
        np.zeros((1, 1, 2), np.float32),
        {"label": np.array([hostile])},
        notes=(hostile,),
    )
    text = render_run_page([run, run], [frames], title=hostile)
    page = Page(text)
    assert len(page.all("script")) == 3
    assert not page.all("alert")
    assert "<script>alert" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "<!--" not in text
    assert "<script>alert" in "".join(page.texts["h1"])
    assert "<script>alert" in data_of(text)["runs"][0]["tables"][0]["name"]


def test_it_can_be_read_without_eyes_mouse_or_scripts(text):
    page = Page(text)
    panels = {each["id"] for each in page.all("section")}
    assert panels == {"curves", "spectra", "maps", "findings", "numbers"}
    tabs = [each for each in page.all("button") if each.get("role") == "tab"]
    assert {each["aria-controls"] for each in tabs} == panels
    assert not any("hidden" in each for each in page.all("section"))
    ids = [each["id"] for _, each in page.elements if "id" in each]
    assert len(ids) == len(set(ids))
    for _, each in page.elements:
        assert each.get("aria-labelledby", "main") in ids
    assert all("scope" in each for each in page.all("th"))
    for each in page.all("input") + page.all("select"):
        assert "aria-label" in each or each["id"] in ("heat-choice", "map-choice", "map-color", "map-speed")
    assert page.all("noscript")


# what the page holds


def test_curves_are_what_was_written(small, text):
    data = data_of(text)
    run = data["runs"][0]
    for series in small.series:
        table = small.tables and ([*small.tables].index(series.table) if series.table else -1)
        curve = curve_of(data, series.measure, table)
        expected = [math.nan if point.value is None else point.value for point in series.points]
        np.testing.assert_array_equal(unpacked(curve["v"], "<f4"), np.array(expected, "<f4"))
        moments = run["axes"][curve["x"]]
        assert [run["moments"]["step"][place] for place in moments] == [point.at.step for point in series.points]
        assert "of" not in curve


def test_full_passes_are_told_apart_from_samples(text):
    curve = curve_of(data_of(text), "gini_index", 0)
    assert unrolled(curve["f"]) == [int(tick % 4 == 0) for tick in range(81)]
    assert unrolled(curve["n"]) == [943 if tick % 4 == 0 else 500 for tick in range(81)]
    assert "n" not in curve_of(data_of(text), "loss")


def test_all_four_clocks_are_there(text):
    moments = data_of(text)["runs"][0]["moments"]
    assert moments["epoch"][4] == 1
    assert moments["step"][4] == 200
    assert moments["samples"][4] == 6400
    assert moments["time"][4] == pytest.approx(2.4)


def test_clocks_that_nobody_read_lie_between_those_that_somebody_did(tmp_path):
    clocks = {1: (None, None), 10: (1.0, 320), 15: (None, None), 20: (1.999, 640), 25: (None, None)}
    points = [Point("", "loss", Moment(step, *clock), 1.0) for step, clock in clocks.items()]
    points.append(Point("", "test_loss", Moment(20, 2.0), 1.0))
    moments = run_data(written(tmp_path / "r", points))["moments"]
    assert moments["step"] == [1, 10, 15, 20, 25]
    assert moments["epoch"] == [0.1, 1.0, 1.5, 2.0, None]
    assert moments["samples"] == [32, 320, 480, 640, None]


def test_undefined_values_are_gaps_with_their_reason(text):
    curve = curve_of(data_of(text), "isotropy", 0)
    assert curve["gaps"] == [[2, "every row is zero"], [3, "every row is zero"]]
    assert np.flatnonzero(np.isnan(unpacked(curve["v"], "<f4"))).tolist() == [2, 3]
    assert "21, 2 undefined" in text
    assert not re.search(r"\b(nan|inf|NaN|Infinity)\b", visible(text))


def test_events_are_marked_where_they_happened(text):
    marks = data_of(text)["runs"][0]["marks"]
    moments = data_of(text)["runs"][0]["moments"]["step"]
    assert [(moments[each["x"]], each["level"]) for each in marks] == [(1000, "error"), (2400, "warn"), (3000, "warn")]


def test_of_very_many_events_the_first_of_each_kind_is_marked(small):
    events = [Event(planted.at(k), "warn", f"rule {k // 1000}", "item", "x" * 1000) for k in range(4000)]
    marks = run_data(replace(small, events=events))["marks"]
    assert len(marks) <= 504
    assert {0, 1000, 2000, 3000, 3999} <= {each["step"] for each in marks}
    assert {len(each["text"]) for each in marks} == {160}


def test_a_long_curve_keeps_its_extremes_and_its_full_passes(tmp_path):
    values = np.sin(np.arange(6000) / 300.0)
    values[1234] = 9.0
    points = [Point("t", "x", Moment(k), float(values[k]), 10 if k % 100 == 0 else 5) for k in range(6000)]
    points[77] = replace(points[77], value=None, why="one row")
    run = written(tmp_path / "r", points, [("t", 10, 4)])
    curve = curve_of(data_of(render_run_page([run])), "x", 0)
    kept = unpacked(curve["v"], "<f4")
    data = run_data(run)
    steps = [data["moments"]["step"][place] for place in data["axes"][curve["x"]]]
    assert curve["of"] == 6000
    assert len(kept) <= 2200
    assert 9.0 in kept
    assert (steps[0], steps[-1]) == (0, 5999)
    assert {*range(0, 6000, 100), 77} <= {*steps}
    assert [steps[place] for place, _ in curve["gaps"]] == [77]
    assert sum(unrolled(curve["f"])) == 60


def test_singular_values_are_kept_to_a_tenth_of_a_percent(small, text):
    packed = data_of(text)["runs"][0]["spectra"][0]
    codes = unpacked(packed["v"], "<u2").reshape(21, 8).astype(float)
    values = np.exp(packed["low"] + (packed["high"] - packed["low"]) * codes / 65534)
    np.testing.assert_allclose(values, np.stack([each for _, each in small.spectra["user"]]), rtol=1e-3)


def test_zeros_and_missing_singular_values_are_told_apart(tmp_path):
    with RunWriter.open(tmp_path / "r") as writer:
        writer.table("t", 5, 3, "float32")
        writer.add_vector("t", "singular_values", Moment(0), np.array([2.0, 1.0, 0.0]))
        writer.add_vector("t", "singular_values", Moment(1), np.array([2.0]))
        writer.finish()
    packed = run_data(Run.open(tmp_path / "r"))["spectra"][0]
    assert packed["zeros"] == [[0, 2]]
    assert (unpacked(packed["v"], "<u2") == 65535).tolist() == [False, False, True, False, True, True]


def test_maps_are_kept_on_one_grid_for_all_frames(text):
    frames = planted.frames()
    packed = data_of(text)["runs"][0]["maps"][0]
    codes = unpacked(packed["at"]["v"], "<u2").reshape(frames.positions.shape)
    places = np.array(packed["at"]["low"]) + np.array(packed["at"]["span"]) * codes / 65534
    np.testing.assert_allclose(places, frames.positions, atol=max(packed["at"]["span"]) / 65534)
    np.testing.assert_array_equal(unpacked(packed["ids"]["v"], "<u4"), frames.row_ids)
    assert packed["steps"] == frames.steps.tolist()
    norm, decile, label = packed["colors"]
    codes = unpacked(norm["v"], "u1") / 254
    inside = (frames.colors["norm"] > norm["low"]) & (frames.colors["norm"] < norm["high"])
    shades = norm["low"] + (norm["high"] - norm["low"]) * codes
    np.testing.assert_allclose(shades[inside], frames.colors["norm"][inside], atol=(norm["high"] - norm["low"]) / 254)
    assert (decile["kind"], decile["low"], decile["high"]) == ("shade", 1, 10)
    named = [label["labels"][code][0] for code in unpacked(label["v"], "u1")]
    assert named == frames.colors["label"].tolist()


def test_points_without_a_place_and_rare_labels_have_codes_of_their_own(tmp_path):
    frames = planted.frames(n_points=60, n_frames=2)
    positions = frames.positions.copy()
    positions[1, 7] = np.nan
    labels = np.array([f"label {k if k < 30 else k % 5}" for k in range(60)])
    run = written(tmp_path / "r", [Point("", "loss", Moment(1), 1.0)], [("item", 60, 2)])
    odd = replace(frames, positions=positions, colors={"label": labels, "frequency": np.arange(60.0)})
    packed = run_data(run, [odd])["maps"][0]
    assert np.argwhere((unpacked(packed["at"]["v"], "<u2").reshape(2, 60, 2) == 65535).all(2)).tolist() == [[1, 7]]
    label, frequency = packed["colors"]
    assert len(label["labels"]) == 20
    assert label["labels"][0][1] == 7
    assert label["rest"] == 10 == (unpacked(label["v"], "u1") == 255).sum()
    assert (frequency["name"], frequency["low"], frequency["high"]) == ("frequency (tenths)", 1, 10)


def test_twenty_frames_of_ten_thousand_points_fit_in_two_megabytes(small):
    text = render_run_page([small], [planted.frames(n_points=10_000)])
    assert len(text.encode()) < 2_000_000


@pytest.mark.slow
def test_forty_tables_and_two_hundred_steps_fit_in_two_megabytes(small):
    text = render_run_page([planted.wide(small)])
    assert len(text.encode()) < 2_000_000
    assert len(data_of(text)["runs"][0]["curves"]) == 40 * 13 + 2
    assert "39 other tables alike" in text


# how it ended, and what was found


@pytest.mark.parametrize(
    ("status", "said", "grade"),
    [
        ("finished", "Finished.", "ok"),
        ("stopped", "Stopped early: the last reading is at step 4,000 (epoch 20).", "warn"),
        ("failed", "Failed with an error: the last reading is at step 4,000 (epoch 20).", "fail"),
        ("running", "Still running when this page was made: the last reading is at step 4,000 (epoch 20).", "note"),
        ("died", "Died before it finished: the last reading is at step 4,000 (epoch 20).", "fail"),
    ],
)
def test_it_says_how_the_run_ended(small, status, said, grade):
    text = render_run_page([replace(small, status=status, events=())])
    assert re.search(rf'<p class="verdict {grade}"><b[^>]*>.</b> {re.escape(said)}', text)


def test_a_run_whose_process_died_says_so_and_shows_what_it_had(tmp_path):
    run = planted.write_died(tmp_path / "died")
    text = render_run_page([run])
    assert "Died before it finished: the last reading is at step 1,450 (epoch 7.25)." in text
    assert len(unpacked(curve_of(data_of(text), "loss")["v"], "<f4")) == 30


def test_events_of_one_rule_are_one_finding_with_its_remedy(text):
    page = Page(text)
    assert [each["class"] for each in page.all("article")] == ["finding error", "finding warn"]
    for part in ("2 times from step 2,400 (epoch 12) to step 3,000 (epoch 15)", "E = E - E.mean(0)", "threshold 0.2"):
        assert part in text
    assert "CUDA is out of memory" in text


def collapsed(path, n_tables: int = 1) -> Run:
    """Tables whose last reading lies in one direction, with an event of the same rule before."""
    at = planted.at(200)
    tables = [(f"t{k}", 1000, 16) for k in range(n_tables)]
    measures = {"information_abundance": 1.1, "effective_rank": 1.2, "average_cosine": 0.97, "mean_norm_ratio": 0.98}
    with RunWriter.open(path) as writer:
        for name, n_rows, dim in tables:
            writer.table(name, n_rows, dim, "float32")
            writer.add(Point(name, measure, at, value, n_rows) for measure, value in measures.items())
            writer.add_event(Event(planted.at(100), "warn", "mean-shift", name, "a shift was seen"))
        writer.finish()
    return Run.open(path)


def test_the_rules_judge_the_last_reading_and_join_their_events(tmp_path):
    report = run_report([collapsed(tmp_path / "r")])
    (finding,) = [each for each in report["runs"][0]["findings"] if each["rule"] == "mean-shift"]
    assert finding["steps"] == [100]
    assert finding["at_last_reading"]["table"] == "t0"
    assert finding["remedy"]
    text = render_run_page([Run.open(tmp_path / "r")])
    assert "at step 100 (epoch 0.5); still so at the last reading" in text


def test_what_is_over_is_no_further_time_and_a_value_that_was_lost_is_not_judged(tmp_path):
    with RunWriter.open(tmp_path / "r") as writer:
        writer.table("t", 1000, 16, "float32")
        for step, value, n_rows in ((100, 0.97, 1000), (200, None, 0)):
            writer.add([Point("t", "average_cosine", planted.at(step), value, n_rows, None if value else "lost")])
        writer.add_event(Event(planted.at(100), "warn", "mean-shift", "t", "a shift was seen"))
        writer.add_event(Event(planted.at(200), "note", "mean-shift", "t", "Cleared: a shift", {"cleared": True}))
        writer.finish()
    (finding,) = run_report([Run.open(tmp_path / "r")])["runs"][0]["findings"]
    assert (finding["steps"], finding["at_last_reading"]) == ([100], None)
    text = render_run_page([Run.open(tmp_path / "r")])
    assert "a shift was seen" in text
    assert "at step 100 (epoch 0.5); gone at step 200 (epoch 1)" in text


def test_the_same_finding_on_many_tables_is_one_card(tmp_path):
    text = render_run_page([collapsed(tmp_path / "r", 5)])
    assert text.count("<code>mean-shift</code>") == 1
    assert "4 other tables alike" in text
    few = render_run_page([collapsed(tmp_path / "s", 3)])
    assert few.count("<code>mean-shift</code>") == 3


# numbers, and runs side by side


def rows_of(text: str, css: str = "summary") -> dict[str, list[str]]:
    table = re.search(rf'<table class="{css}.*?</table>', text, re.S)[0]
    plain = {}
    for row in re.findall(r"<tr>(.*?)</tr>", table, re.S):
        cells = [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)]
        plain[" ".join(cells[0].split())] = cells[1:]
    return plain


def test_the_numbers_of_one_run(tmp_path):
    points = [Point("", "loss", Moment(k), value) for k, value in enumerate((3.0, 1.0, 2.0))]
    points += [Point("", "auc", Moment(0), 0.5), Point("", "auc", Moment(1), None, why="one class only")]
    rows = rows_of(render_run_page([written(tmp_path / "r", points)]))
    assert rows["loss ↓ lower is better the run"] == ["3", "2", "-1", "1", "3", "3"]
    assert rows["auc ↑ higher is better the run"] == ["0.5000", "undefined", "0", "0.5000", "0.5000", "2, 1 undefined"]


def test_runs_are_compared_with_the_first(tmp_path):
    runs = []
    for name, losses in (("a", (3.0, 1.0, 2.0)), ("b", (3.0, 2.5, 1.5))):
        points = [Point("", "loss", Moment(k), value) for k, value in enumerate(losses)]
        runs.append(written(tmp_path / name, points, name=name))
    text = render_run_page(runs)
    assert rows_of(text)["loss ↓ lower is better the run"] == ["2", "1 at 1", "1.500", "1.500 at 2", "-0.5000"]
    assert re.findall(r'class="num best"[^>]*>([^<]*)', text) == ["1.500"]
    assert [run["name"] for run in data_of(text)["runs"]] == ["a", "b"]
    assert "<title>a, b: fullspan run report</title>" in text


def test_a_measure_that_one_run_lacks_is_a_dash(tmp_path):
    one = written(tmp_path / "a", [Point("", "loss", Moment(0), 1.0)], name="a")
    other = written(tmp_path / "b", [Point("", "auc", Moment(0), 0.5)], name="b")
    rows = rows_of(render_run_page([one, other]))
    assert rows["loss ↓ lower is better the run"] == ["1", "1 at 0", "–", "–", "–"]
    assert rows["auc ↑ higher is better the run"] == ["–", "–", "0.5000", "0.5000 at 0", "–"]


def test_runs_of_one_name_get_names_of_their_own(tmp_path):
    points = [Point("", "loss", Moment(0), 1.0)]
    runs = [written(tmp_path / folder, points, name="same") for folder in ("a", "b")]
    assert [each["name"] for each in data_of(render_run_page(runs))["runs"]] == ["a", "b"]
    assert [each["name"] for each in data_of(render_run_page([runs[0]] * 3))["runs"]] == ["a", "a (2)", "a (3)"]


# little, nothing, and wrong


def test_a_run_of_nothing_says_so(tmp_path):
    text = render_run_page([written(tmp_path / "r")])
    assert "Nothing was recorded." in text
    assert 'id="curves"' not in text
    assert 'id="spectra"' not in text


def test_a_run_of_one_reading_is_a_page(tmp_path):
    at = Moment(0)
    run = written(tmp_path / "r", [Point("t", "gini_index", at, 0.5, 1)], [("t", 1, 1)])
    assert len(data_of(render_run_page([run]))["runs"][0]["curves"]) == 1


def test_a_table_that_nobody_described_is_drawn_all_the_same(tmp_path):
    run = written(tmp_path / "r", [Point("t", "gini_index", Moment(k), 0.5) for k in range(3)])
    curve = curve_of(data_of(render_run_page([run])), "gini_index", 0)
    assert unrolled(curve["f"]) == [0, 0, 0]
    assert run_report([run])["runs"][0]["tables"] == {"t": {"n_rows": None, "dim": None}}


def test_values_that_are_too_large_for_the_page_are_no_numbers(tmp_path):
    run = written(tmp_path / "r", [Point("", "loss", Moment(k), value) for k, value in enumerate((1e39, 1.0))])
    values = unpacked(curve_of(data_of(render_run_page([run])), "loss")["v"], "<f4")
    assert np.isnan(values[0])
    assert not np.isinf(values).any()


def test_a_page_needs_a_run_and_a_map_needs_its_run(small):
    with pytest.raises(InputError, match=r"A run page needs at least one run; got none\."):
        render_run_page([])
    with pytest.raises(InputError, match=r"A run report needs at least one run; got none\."):
        run_report([])
    with pytest.raises(InputError, match=r"A map needs the position of one of the 1 runs; got 1\."):
        render_run_page([small], [(1, planted.frames())])


def test_maps_belong_to_the_run_they_are_paired_with(small):
    text = render_run_page([small, small], [planted.frames(), (1, planted.frames("user"))])
    assert [[each["table"] for each in run["maps"]] for run in data_of(text)["runs"]] == [["item"], ["user"]]


def test_the_page_is_written_whole(small, tmp_path):
    path = tmp_path / "run.html"
    write_run_page(path, [small], title="A & B")
    text = path.read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert text.rstrip().endswith("</html>")
    assert "<title>A &amp; B: fullspan run report</title>" in text
    assert [each.name for each in tmp_path.iterdir()] == ["run.html"]


def test_the_json_report_has_the_ends_of_the_curves(small):
    report = run_report([small])
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    (run,) = report["runs"]
    assert (run["status"], run["step"], run["epoch"], run["samples"]) == ("finished", 4000, 20.0, 128_000)
    (loss,) = [each for each in run["curves"] if each["measure"] == "loss"]
    assert loss["first"] == 0.69
    assert loss["readings"] == 81
    (isotropy,) = [each for each in run["curves"] if (each["table"], each["measure"]) == ("user", "isotropy")]
    assert isotropy["undefined"] == 2
