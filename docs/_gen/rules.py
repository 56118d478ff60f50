"""The page of the rules: the limits that ship, rule by rule, with the comments of their file."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Any

#: What is written by hand about each rule; the page that is made from it takes its place.
_PROSE = re.compile(r"^## ([\w-]+)\n+(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_HEAD = re.compile(r"^\[(?P<name>[\w-]+)\]\s*(?:#\s*(?P<what>.*))?$")


def sections(text: str) -> list[tuple[str, str, str]]:
    """Rule, what it reads, and its limits as TOML, in the order of the file."""
    found: list[tuple[str, str, list[str]]] = []
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head:
            found.append((head["name"], head["what"] or "", []))
        elif found and line.strip():
            found[-1][2].append(line)
    return [(name, what, "\n".join(lines)) for name, what, lines in found]


def catalog() -> dict[str, Any]:
    """The rules by name; empty while the package has none."""
    try:
        from fullspan.diagnose.rules import RULES
    except ModuleNotFoundError:
        return {}
    return dict(RULES)


def pages() -> tuple[dict[str, str], Any]:
    known = catalog()
    path = Path(str(resources.files("fullspan.diagnose"))) / "thresholds.toml"
    if not path.is_file():
        return {}, None
    prose = dict(_PROSE.findall(path.with_name("rules.md").read_text(encoding="utf-8")))
    lines = [
        "# Rules",
        "",
        "A rule reads measures and says what is wrong: with what evidence, what the likely cause is, what to do, and",
        "how to see that it helped. Each value is set against what an isotropic Gaussian table of the same shape",
        "reads, so a small table is not blamed for being small. These are the limits that ship;",
        "[Gates and rules](check.md) says how to change them.",
    ]
    for name, what, toml in sections(path.read_text(encoding="utf-8")):
        title = "Limits for every rule" if name == "all" else name
        lines += ["", f"## {title} {{ #{name} }}", ""]
        rule = known.get(name)
        if rule is not None:
            lines += [f"Looks for {rule.about}.", ""]
        if what:
            lines += [f"Reads: {what}.", ""]
        if rule is not None and rule.silent_after:
            after = ", ".join(f"[{each}](#{each})" for each in rule.silent_after)
            lines += [f"Silent after {after}, which explains it.", ""]
        lines += [prose.get(name, "").strip(), "", "```toml", f"[{name}]", toml, "```"]
    return {"rules.md": "\n".join([*lines, ""])}, {"Rules": "rules.md"}
