"""The page of runs in a real browser without a network: what is drawn, and what pointer, keys and buttons do."""

from __future__ import annotations

import csv
import io
import re
import shutil
import time
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from fullspan.report.run_content import content_of
from fullspan.report.run_page import write_run_page
from tests.unit.report import planted_runs as planted

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
playwright = pytest.importorskip("playwright.sync_api", reason="the browser is driven by playwright")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the path: install chromium to test the page"),
    pytest.mark.xdist_group("run-page-browser"),
]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run"]
VIRIDIS_ENDS = ([68, 1, 84, 255], [253, 231, 37, 255])


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages on the disk, by name."""
    folder = tmp_path_factory.mktemp("a page, é")
    small = content_of(planted.write_small(folder / "mf"))
    other = content_of(planted.write_small(folder / "adam", "adam", drift=0.15))
    written = {
        "small": ([small], [planted.frames(), planted.frames("user", n_points=50, seed=2)]),
        "pair": ([small, other], []),
        "wide": ([planted.wide(small)], []),
        "tiny": ([content_of(planted.write_tiny(folder / "tiny"))], [planted.frames(n_frames=1, n_points=1)]),
        "bare": ([content_of(planted.write_bare(folder / "bare"))], []),
        "died": ([content_of(planted.write_died(folder / "died"))], []),
    }
    for name, (runs, maps) in written.items():
        write_run_page(folder / f"{name}.html", runs, maps)
    return folder


@pytest.fixture
def visit(browser, pages):
    """Open a page; nothing may be asked of a network, and no script may fail."""
    contexts, asked, failed = [], [], []

    def go(name: str, part: str = "", width: int = 1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, accept_downloads=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.on("console", lambda message: failed.append(message.text) if message.type == "error" else None)
        page.goto((pages / f"{name}.html").as_uri() + f"#{part}")
        until(page, "document.documentElement.dataset.run === 'true'")
        return page

    yield go
    for context in contexts:
        context.close()
    assert failed == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked)


def until(page, expression: str, seconds: float = 20) -> None:
    """Wait until `expression` holds; playwright's own way needs an eval that the policy of the page refuses."""
    ends = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < ends, f"{expression} within {seconds} s"
        page.wait_for_timeout(50)


def state(page, what: str):
    return page.evaluate(f"window.fullspan.{what}()")


def saved(page, button) -> tuple[str, bytes]:
    """Name and content of the file that a button saves."""
    with page.expect_download() as waiting:
        button.click()
    return waiting.value.suggested_filename, waiting.value.path().read_bytes()


def card(page, key: str):
    return page.locator(f'figure.curve[data-card="{key}"]')


def pixel(page, canvas: str, x: float, y: float) -> list[int]:
    """Color of a canvas at a part of its width and height."""
    return page.evaluate(
        """([id, x, y]) => { const c = document.getElementById(id);
        const at = (part, size) => Math.min(Math.floor(part * size), size - 1);
        return [...c.getContext("2d").getImageData(at(x, c.width), at(y, c.height), 1, 1).data]; }""",
        [canvas, x, y],
    )


# curves


def test_curves_are_drawn_and_the_cursor_is_shared(visit):
    page = visit("small")
    drawn = state(page, "curves")
    assert [each["key"] for each in drawn["cards"]][:2] == ["run:loss", "run:auc"]
    assert drawn["clock"] == "epoch"
    gini = card(page, "table:gini_index")
    assert gini.locator("g.series").count() == 2
    svg = gini.locator("svg.chart")
    svg.scroll_into_view_if_needed()
    box = svg.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.56, box["y"] + box["height"] * 0.4)
    assert state(page, "curves")["cursor"] == pytest.approx(10, abs=0.5)
    readouts = {key: card(page, key).locator(".readout").inner_text() for key in ("table:gini_index", "run:loss")}
    assert re.match(r"epoch [\d.]+ · step [\d,]+: user 0\.3\d+ (full pass|sample of 500)", readouts["table:gini_index"])
    assert readouts["run:loss"].startswith(readouts["table:gini_index"].partition(":")[0])


def test_keys_move_the_cursor_and_zoom_all_charts(visit):
    page = visit("small")
    svg = card(page, "run:loss").locator("svg.chart")
    svg.focus()
    out = card(page, "run:loss").locator(".readout")
    page.keyboard.press("Home")
    assert out.inner_text().startswith("epoch 0 · step 0: Training loss 0.6900   Test loss 0.7000")
    page.keyboard.press("ArrowRight")
    assert out.inner_text() == "epoch 0.25 · step 50: Training loss 0.6857   Test loss 0.7000 (step 0)"
    page.keyboard.press("End")
    assert out.inner_text().startswith("epoch 20 · step 4,000: ")
    page.keyboard.press("+")
    zoomed = state(page, "curves")
    assert zoomed["zoom"] == [15, 20]
    assert all(each["x"] == [15, 20] for each in zoomed["cards"])
    page.keyboard.press("Escape")
    assert state(page, "curves")["zoom"] is None


def test_dragging_zooms_and_a_double_click_shows_all(visit):
    page = visit("small")
    svg = card(page, "run:loss").locator("svg.chart")
    svg.scroll_into_view_if_needed()
    box = svg.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 90, steps=4)
    page.mouse.up()
    low, high = state(page, "curves")["zoom"]
    assert 4 < low < 9 < high < 14
    assert page.locator("#unzoom").is_enabled()
    svg.dblclick()
    assert state(page, "curves")["zoom"] is None


def test_every_clock_is_an_axis(visit):
    page = visit("small")
    page.locator("#clock-epoch").focus()
    for clock, end in (("step", 4000), ("samples", 128_000), ("time", 48), ("epoch", 20)):
        page.keyboard.press("ArrowRight")
        drawn = state(page, "curves")
        assert drawn["clock"] == clock
        assert drawn["cards"][0]["x"] == [0, pytest.approx(end)]


def test_tables_are_chosen_by_their_names(visit):
    page = visit("small")
    page.locator('#chips button[data-table="user"]').click()
    gini = next(each for each in state(page, "curves")["cards"] if each["key"] == "table:gini_index")
    assert [each["name"] for each in gini["series"]] == ["item"]
    assert page.locator('#chips button[data-table="user"]').get_attribute("aria-pressed") == "false"


def test_gaps_are_gaps_and_named(visit):
    page = visit("small")
    isotropy = card(page, "table:isotropy")
    assert "Undefined at 2 readings of user, left out of the line: every row is zero." in isotropy.inner_text()
    line = isotropy.locator('g.series[data-series="0:user"] path').first.get_attribute("d")
    assert line.count("M") == 2
    isotropy.locator("summary").click()
    assert isotropy.locator("td", has_text="undefined: every row is zero").count() == 2
    assert "NaN" not in page.locator("body").inner_text()


def test_full_passes_are_dots_and_samples_are_rings(visit):
    page = visit("small")
    page.locator('#chips button[data-table="user"]').dblclick()
    paths = card(page, "table:gini_index").locator("g.series path")
    drawn = [(path.get_attribute("stroke-width"), path.get_attribute("d").count("h.01")) for path in paths.all()]
    assert drawn == [("2", 0), ("5", 60), ("2.2", 60), ("6", 21)]


def test_a_chart_saves_its_numbers_and_itself(visit):
    page = visit("small")
    gini = card(page, "table:gini_index")
    name, content = saved(page, gini.locator('[data-save="csv"]'))
    assert name == "gini_index.csv"
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert len(rows) == 2 * 81
    first = rows[0]
    assert (first["run"], first["table"], first["measure"], first["step"]) == ("mf", "user", "gini_index", "0")
    assert float(first["value"]) == pytest.approx(planted.value("gini_index", 0, 0), rel=1e-6)
    assert [each["pass"] for each in rows[:5]] == ["full", "sample", "sample", "sample", "full"]
    assert [each["rows"] for each in rows[:2]] == ["943", "500"]

    name, content = saved(page, gini.locator('[data-save="svg"]'))
    root = ET.fromstring(content.decode())
    words = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert name == "gini_index.svg"
    assert {"Gini index", "user", "item", "epoch"} <= set(words)
    assert b"var(" not in content
    assert b"color-mix" not in content

    name, content = saved(page, gini.locator('[data-save="png"]'))
    assert content.startswith(b"\x89PNG")
    assert page.evaluate("window.fullspan.exported.width") == 880


def test_undefined_values_are_empty_cells_with_a_reason(visit):
    page = visit("small")
    _, content = saved(page, card(page, "table:isotropy").locator('[data-save="csv"]'))
    rows = [each for each in csv.DictReader(io.StringIO(content.decode())) if each["undefined"]]
    assert [(each["step"], each["value"], each["undefined"]) for each in rows] == [
        ("400", "", "every row is zero"),
        ("600", "", "every row is zero"),
    ]


def test_one_measure_after_several_normalizers_is_one_chart(visit):
    page = visit("small")
    purity = next(each for each in state(page, "curves")["cards"] if each["key"] == "table:neighbor_purity")
    ends = {each["name"]: each["values"][-1] for each in purity["series"]}
    assert ends == {"item · as it is": 0.5, "item · center+l2": pytest.approx(0.7)}
    figure = card(page, "table:neighbor_purity")
    assert figure.locator("h3").inner_text().startswith("Neighbor purity")
    assert figure.locator(".legend li").all_inner_texts() == ["item · as it is", "item · center+l2"]
    dashes = figure.locator("g.series path:first-child").evaluate_all(
        "all => all.map(e => e.getAttribute('stroke-dasharray'))"
    )
    assert dashes == [None, "7 4"]


def test_a_log_scale_and_a_larger_chart(visit):
    page = visit("small")
    loss = card(page, "run:loss")
    loss.get_by_role("button", name="Logarithmic scale").click()
    assert state(page, "curves")["cards"][0]["log"] is True
    loss.get_by_role("button", name="Larger").click()
    assert loss.locator("svg.chart").get_attribute("viewBox") == "0 0 920 400"


# spectra


def test_the_heat_map_is_drawn_from_the_singular_values(visit):
    page = visit("small", "spectra")
    assert pixel(page, "heat", 0.5, 0.01) == VIRIDIS_ENDS[1]  # the largest over itself
    assert pixel(page, "heat", 0.999, 0.999) == VIRIDIS_ENDS[0]  # the smallest of all
    shown = state(page, "spectra")
    np.testing.assert_allclose(shown["row"], planted.singular_values(8, 1.0), rtol=1e-3)
    page.locator("#heat-slider").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert state(page, "spectra")["at"] == 1
    np.testing.assert_allclose(state(page, "spectra")["row"], planted.singular_values(8, 1 / 20), rtol=1e-3)
    assert page.locator("#heat-when").inner_text() == "epoch 1 · step 200"


def test_the_scale_of_the_heat_map_can_be_changed(visit):
    page = visit("small", "spectra")
    before = pixel(page, "heat", 0.5, 0.5)
    page.locator("#heat-log").click()
    linear = pixel(page, "heat", 0.5, 0.5)
    assert linear != before
    assert state(page, "spectra")["bounds"] == [0, 1]
    page.locator("#heat-relative").click()
    assert state(page, "spectra")["bounds"][1] == pytest.approx(30, rel=1e-3)


def test_the_heat_map_answers_keys_and_pointer(visit):
    page = visit("small", "spectra")
    canvas = page.locator("#heat")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    assert page.locator("#heat-out").inner_text().startswith("epoch 19 · step 3,800, singular value 2: ")
    box = canvas.bounding_box()
    canvas.hover(position={"x": box["width"] * 0.5, "y": box["height"] * 0.95})
    expected = "epoch 10 · step 2,000, singular value 8: "
    until(page, f"document.querySelector('#heat-out').innerText.startsWith({expected!r})")


def test_singular_values_can_be_saved(visit):
    page = visit("small", "spectra")
    _, content = saved(page, page.locator('#heat-tools [data-save="csv"]'))
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert len(rows) == 21 * 8
    assert float(rows[-1]["singular_value"]) == pytest.approx(planted.singular_values(8, 1.0)[-1], rel=1e-3)
    _, content = saved(page, page.locator('#heat-tools [data-save="svg"]'))
    assert ET.fromstring(content.decode()).tag.endswith("svg")
    assert b"data:image/png;base64" in content
    _, content = saved(page, page.locator('#heat-tools [data-save="png"]'))
    assert content.startswith(b"\x89PNG")


def test_the_spectrum_has_its_numbers(visit):
    page = visit("small", "spectra")
    page.locator("#spectrum-numbers summary").click()
    last = [each.split("\t") for each in page.locator("#spectrum-numbers tbody tr").all_inner_texts()]
    expected = planted.singular_values(8, 1.0) / planted.singular_values(8, 1.0)[0]
    np.testing.assert_allclose([float(row[-1]) for row in last], expected, rtol=1e-3)
    _, content = saved(page, page.locator('#spectrum-tools [data-save="csv"]'))
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    np.testing.assert_allclose([float(row["at the cursor"]) for row in rows], expected, rtol=1e-3)


def test_all_tables_are_seen_at_one_moment(visit):
    page = visit("wide", "spectra")
    page.select_option("#heat-choice", "all:0")
    assert state(page, "spectra")["readings"] == 40
    top, bottom = pixel(page, "heat", 0.9, 0.01), pixel(page, "heat", 0.9, 0.99)
    assert sum(top[:3]) > sum(bottom[:3])  # the last table has collapsed furthest


# maps


def expected_places(frame: int, side: int) -> np.ndarray:
    positions = planted.frames().positions.astype(float)
    low = positions.reshape(-1, 2).min(0)
    span = positions.reshape(-1, 2).max(0) - low
    parts = 0.5 + (span / span.max()) * ((positions[frame] - low) / span - 0.5)
    return np.column_stack([0.04 + 0.92 * parts[:, 0], 0.04 + 0.92 * (1 - parts[:, 1])]) * side


def test_the_slider_moves_the_points(visit):
    page = visit("small", "maps")
    slider = page.locator("#map-slider")
    slider.focus()
    page.keyboard.press("Home")
    for frame in (0, 1, 19):
        if frame:
            page.keyboard.press("ArrowRight" if frame == 1 else "End")
        shown = state(page, "map")
        assert shown["frame"] == frame
        np.testing.assert_allclose(shown["places"], expected_places(frame, shown["side"]), atol=0.05)
        lone = shown["places"][int(np.argmax(np.abs(np.array(shown["places"]) - shown["side"] / 2).max(1)))]
        assert pixel(page, "map", lone[0] / shown["side"], lone[1] / shown["side"])[:3] != [255, 255, 255]
    assert page.locator("#map-when").inner_text() == "epoch 19 · step 3,800"
    assert "40% of nearest neighbors kept" in page.locator("#map-facts").inner_text()


def test_colors_are_chosen_and_explained(visit):
    page = visit("small", "maps")
    assert state(page, "map")["color"] == "norm"
    page.select_option("#map-color", label="label")
    shown = state(page, "map")
    assert shown["color"] == "label"
    legend = page.locator("#map-legend li").all_inner_texts()
    assert sorted(re.sub(r"\s+\d+$", "", each) for each in legend) == ["comedy", "crime", "drama", "film, noir", "war"]
    labels = planted.frames().colors["label"]
    first = re.sub(r"\s+\d+$", "", legend[0])
    inside = [place for place, name in zip(shown["places"], labels, strict=True) if name == first]
    colors = {tuple(pixel(page, "map", x / shown["side"], y / shown["side"])[:3]) for x, y in inside[:40]}
    assert len([color for color in colors if color[2] > color[0]]) >= 1  # the first label is blue


def test_space_plays_and_pauses(visit):
    page = visit("small", "maps")
    page.select_option("#map-speed", "4")
    page.locator("#map").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    assert state(page, "map")["playing"] is True
    until(page, "window.fullspan.map().frame >= 2")
    page.keyboard.press("Space")
    stopped = state(page, "map")
    assert stopped["playing"] is False
    assert stopped["at"] == stopped["frame"]
    page.locator("#map-play").click()
    until(page, "window.fullspan.map().frame === 19 && !window.fullspan.map().playing")
    assert page.locator("#map-play").inner_text() == "▶ Play"


def test_reduced_motion_jumps_from_frame_to_frame(visit):
    page = visit("small", "maps", reduced_motion="reduce")
    page.select_option("#map-speed", "4")
    page.locator("#map").focus()
    page.keyboard.press("Home")
    page.evaluate(
        "window.seen = []; (function look() { seen.push(fullspan.map().at); requestAnimationFrame(look); })()"
    )
    page.keyboard.press("Space")
    until(page, "window.fullspan.map().frame === 19")
    assert all(at == int(at) for at in page.evaluate("seen"))


def test_a_row_is_named_under_the_pointer_and_the_frame_is_saved(visit):
    page = visit("small", "maps")
    shown = state(page, "map")
    far = int(np.argmax(np.abs(np.array(shown["places"]) - shown["side"] / 2).max(1)))
    canvas = page.locator("#map")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    x, y = (np.array(shown["places"][far]) / shown["side"]).tolist()
    page.mouse.move(box["x"] + box["width"] * x, box["y"] + box["height"] * y)
    label = planted.frames().colors["label"][far]
    assert page.locator("#map-out").inner_text().startswith(f"row {3 * far} · norm ")
    assert page.locator("#map-out").inner_text().endswith(f"label {label}")
    name, content = saved(page, page.locator('#map-tools [data-save="csv"]'))
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert name == "map-item-pca-step-3800.csv"
    places = np.array([[float(each["x"]), float(each["y"])] for each in rows])
    np.testing.assert_allclose(places, planted.frames().positions[-1], atol=3e-4)
    _, content = saved(page, page.locator('#map-tools [data-save="svg"]'))
    assert len(list(ET.fromstring(content.decode()).iter("{http://www.w3.org/2000/svg}circle"))) == 400
    _, content = saved(page, page.locator('#map-tools [data-save="png"]'))
    assert content.startswith(b"\x89PNG")


def test_another_map_is_chosen(visit):
    page = visit("small", "maps")
    page.select_option("#map-choice", "1")
    assert state(page, "map")["points"] == 50
    page.locator("#map-numbers summary").click()
    assert page.locator("#map-numbers tbody tr").count() == 20


# the page as a whole


def test_tabs_are_moved_through_by_arrows(visit):
    page = visit("small")
    page.locator("#tab-curves").focus()
    seen = []
    for _ in range(5):
        page.keyboard.press("ArrowRight")
        seen.append(page.evaluate("document.querySelector('section.panel:not([hidden])').id"))
    assert seen == ["spectra", "maps", "findings", "numbers", "curves"]
    assert page.evaluate("document.activeElement.id") == "tab-curves"


def test_the_findings_are_linked_from_the_top_and_the_remedy_copied(visit):
    page = visit("small")
    page.get_by_role("link", name="1 warning, 1 error").click()
    until(page, "!document.getElementById('findings').hidden")
    page.locator("button.copy").click()
    until(page, "document.querySelector('button.copy').textContent === 'Copied'")


def test_several_runs_lie_over_one_another(visit):
    page = visit("pair")
    auc = next(each for each in state(page, "curves")["cards"] if each["key"] == "run:auc")
    assert [each["name"] for each in auc["series"]] == ["mf", "adam"]
    assert auc["series"][1]["values"][-1] == pytest.approx(0.85, rel=1e-6)
    inks = (
        card(page, "run:auc").locator("g.series path:first-child").evaluate_all("all => all.map(e => e.style.stroke)")
    )
    assert len(set(inks)) == 2
    page.locator("#run-chips button", has_text="mf").click()
    auc = next(each for each in state(page, "curves")["cards"] if each["key"] == "run:auc")
    assert [each["name"] for each in auc["series"]] == ["adam"]
    page.locator("#tab-numbers").click()
    row = page.locator("table.summary tr", has_text="auc")
    assert row.locator("td").last.inner_text() == "+0.1500"


def test_the_comparison_can_be_sorted(visit):
    page = visit("pair", "numbers")
    page.locator("table.summary tr.heads th").last.get_by_role("button").click()
    found = page.locator("table.summary tbody td:last-child").evaluate_all(
        "all => all.map(e => Number(e.dataset.sort))"
    )
    assert found == sorted(found)


def test_forty_tables_can_be_searched_and_one_be_followed(visit):
    page = visit("wide")
    gini = next(each for each in state(page, "curves")["cards"] if each["key"] == "table:gini_index")
    assert len(gini["series"]) == 40
    _, content = saved(page, card(page, "table:gini_index").locator('[data-save="svg"]'))
    assert b"var(" not in content
    assert b"color-mix" not in content
    page.locator("#find").fill("_17")
    assert page.locator("#chips button").all_inner_texts() == ["field_17"]
    page.locator("#chips button").hover()
    near = page.locator("g.series.near")
    assert {each.get_attribute("data-series") for each in near.all()} == {"0:field_17"}
    assert near.count() == 13
    page.locator("#chips button").dblclick()
    assert state(page, "curves")["tables"] == ["field_17"]


def test_a_run_that_died_says_so(visit):
    page = visit("died")
    assert "Died before it finished: the last reading is at step 1,450" in page.locator(".verdict").inner_text()
    assert state(page, "curves")["cards"][0]["x"] == [0, 7.25]


def test_one_reading_and_no_reading_are_pages(visit):
    page = visit("tiny")
    for part in ("curves", "spectra", "maps", "findings", "numbers"):
        page.locator(f"#tab-{part}").click()
    drawn = state(page, "curves")
    assert drawn["clock"] == "step"
    assert drawn["cards"][0]["series"][0]["values"] == [0.5]
    assert state(page, "spectra")["row"] == [0, 0]
    for toggle in ("heat-log", "heat-relative"):
        page.locator(f"#{toggle}").evaluate("button => button.click()")
    page.locator('[aria-label="Logarithmic scale"]').first.evaluate("button => button.click()")
    assert state(page, "map")["frame"] == 0
    assert page.locator("#map-play").is_disabled()
    assert "NaN" not in page.locator("main").inner_html()
    page = visit("bare")
    assert page.locator('[role="tab"]').count() == 2
    page.locator("#tab-numbers").click()
    assert page.locator("#numbers").inner_text() == "Nothing was recorded."


def test_a_phone_needs_no_scrolling_sideways(visit):
    page = visit("small", width=390)
    for part in ("curves", "spectra", "maps", "findings", "numbers"):
        page.locator(f"#tab-{part}").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, part


def test_dark_mode_redraws_what_is_on_canvas(visit):
    page = visit("small", "maps", color_scheme="dark")
    assert pixel(page, "map", 0.5, 0.001)[:3] == [27, 30, 33]
    page.locator("#theme").click()
    assert pixel(page, "map", 0.5, 0.001)[:3] == [255, 255, 255]


def test_all_parts_are_on_paper(visit):
    page = visit("small")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("section.panel:visible").count() == 5
    assert not page.locator(".controls:visible").count()
    assert state(page, "map")["frame"] == 19
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.locator("section.panel:visible").count() == 1


def test_without_scripts_the_findings_and_numbers_are_there(browser, pages):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((pages / "small.html").as_uri())
    assert page.locator("article.finding:visible").count() == 2
    assert page.locator("table.summary:visible").count() == 1
    assert page.locator("noscript p").is_visible()
    context.close()


def test_a_foreign_script_does_not_run(browser, pages, tmp_path):
    text = (pages / "small.html").read_text("utf-8")
    intruder = "<script>document.documentElement.dataset.hacked = 1</script><img src=x onerror=document.title=1></body>"
    (tmp_path / "x.html").write_text(text.replace("</body>", intruder), "utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "x.html").as_uri())
    until(page, "document.documentElement.dataset.run === 'true'")
    assert page.evaluate("document.documentElement.dataset.hacked === undefined && document.title !== '1'")
    page.close()
