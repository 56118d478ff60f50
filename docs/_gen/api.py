"""The reference of the public names, from where `fullspan.__init__` finds them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import fullspan

GROUPS = {
    "jobs": ("Jobs", "One function a command: open, fold, result."),
    "report": ("Jobs", ""),
    "io": ("Tables", "A table is a shape, a dtype and blocks of rows."),
    "_typing": ("Tables", ""),
    "summaries": ("Summaries", "Small frozen objects that add up: what one pass over a table leaves."),
    "store": ("Records", "What a report and a run are made of, and the store of runs."),
    "monitor": ("Watching", "Tables while they are trained."),
    "errors": ("Errors", "All that fullspan raises on purpose."),
}


def homes() -> dict[str, str]:
    """Public name to its full path, the measures left out: they have pages of their own."""
    found = {name: f"fullspan.{home}.{name}" for name, home in fullspan._HOMES.items()}
    found = {name: path for name, path in found.items() if not path.startswith("fullspan.measures.")}
    return {name: path for name, path in found.items() if find_spec(path.rpartition(".")[0]) is not None}


def pages() -> tuple[dict[str, str], Any]:
    groups: dict[str, list[str]] = {}
    about: dict[str, str] = {}
    for path in homes().values():
        title, text = GROUPS.get(path.split(".")[1], ("Other", ""))
        groups.setdefault(title, []).append(path)
        about[title] = about.get(title) or text
    groups["Datasets"] = [f"fullspan.datasets.bundled.{name}" for name in ("load_glove", "glove_path", "GloVe")]
    about["Datasets"] = "The table that ships with the package."
    made, nav = {}, []
    for title, paths in groups.items():
        page = f"reference/{title.lower()}.md"
        lines = [f"# {title}", "", about.get(title, "")]
        for path in paths:
            lines += ["", f"::: {path}"]
        made[page] = "\n".join([*lines, ""])
        nav.append({title: page})
    return made, {"Python": nav}
