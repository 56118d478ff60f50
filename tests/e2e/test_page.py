"""The page in a real browser: its script runs under its own policy, and answers keys, pointers and clicks."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess

import pytest

from fullspan.report.page import render_page
from tests.unit.report import planted

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the path: install chromium to test the page"),
]

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--virtual-time-budget=3000",
    "--dump-dom",
)
#: What a user does, and what is then to be seen.
ACTIONS = """
const options = { bubbles: true, cancelable: true };
const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", { key, ...options }));
const values = (table) => [...table.querySelectorAll("tbody tr")].map((row) => row.querySelector("code").textContent);
const seen = { narrow: document.documentElement.scrollWidth <= innerWidth + 1 };
seen.shown = [...document.querySelectorAll("section.table")].map((section) => !section.hidden);
const drawing = document.querySelector("figure.spectrum > svg");
const readout = drawing.parentElement.querySelector(".readout");
press(drawing, "Home");
seen.first = readout.textContent;
press(drawing, "ArrowRight");
seen.second = readout.textContent;
press(drawing, "End");
seen.last = readout.textContent;
const box = drawing.getBoundingClientRect();
drawing.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width / 2, ...options }));
seen.middle = readout.textContent;
const table = document.querySelector("table.readings");
const [measure, value] = table.querySelectorAll("thead button");
value.click();
seen.rising = values(table);
value.click();
seen.falling = values(table);
seen.sorted = value.closest("th").getAttribute("aria-sort");
measure.click();
seen.original = values(table);
document.getElementById("theme").click();
seen.theme = document.documentElement.dataset.theme;
seen.paper = getComputedStyle(document.body).backgroundColor;
location.hash = "table-2";
setTimeout(() => {
  seen.switched = [...document.querySelectorAll("section.table")].map((section) => !section.hidden);
  const out = document.createElement("pre");
  out.id = "seen";
  out.textContent = JSON.stringify(seen);
  document.body.append(out);
}, 100);
"""


def dump(tmp_path, text: str) -> str:
    """The document as the browser holds it after the scripts ran."""
    path = tmp_path / "a report, é.html"
    path.write_text(text, "utf-8")
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--window-size=500,900", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def with_script(text: str, script: str) -> str:
    """The page with one more script, allowed by its policy."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = text.replace("script-src 'sha256-", f"script-src 'sha256-{digest}' 'sha256-", 1)
    return text.replace("</body>", f"<script>{script}</script></body>")


def test_the_script_runs_and_no_other_does(tmp_path):
    intruder = "<script>document.documentElement.dataset.hacked = 1</script><img src=x onerror=document.title=1></body>"
    text = render_page(planted.hostile()).replace("</body>", intruder)
    dom = dump(tmp_path, text)
    assert 'data-ready="true"' in dom
    assert "data-hacked" not in dom
    assert "<title>1</title>" not in dom
    assert re.search(r'<button[^>]*class="copy quiet">Copy', dom)


def test_it_answers_keys_pointer_and_clicks(tmp_path):
    dom = dump(tmp_path, with_script(render_page(planted.several()), ACTIONS))
    seen = json.loads(html.unescape(re.search(r'<pre id="seen">(.*?)</pre>', dom, re.S)[1]))
    assert seen["narrow"], "the page must not scroll sideways on a phone"
    assert seen["shown"] == [True, False]
    assert seen["switched"] == [False, True]
    assert seen["first"].startswith("rank 1: as stored ")
    assert seen["second"].startswith("rank 2: ")
    assert seen["last"].startswith("rank 24: ")
    assert re.match(r"rank 1[0-4]: ", seen["middle"])
    assert seen["rising"][0] == "inverse_condition_number"
    assert seen["falling"][0] == "effective_rank"
    assert seen["rising"][-1] == seen["falling"][-1] == "length_frequency_correlation"
    assert seen["sorted"] == "descending"
    assert seen["original"][0] == "information_abundance"
    assert (seen["theme"], seen["paper"]) == ("dark", "rgb(20, 22, 24)")
