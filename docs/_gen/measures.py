"""Pages of the measures, from their catalog."""

from __future__ import annotations

from typing import Any

ORDER = ("sparsity", "spectrum", "isotropy", "norms", "frequency", "neighbors", "drift", "similarity")
ABOUT = {
    "sparsity": "How unevenly a row spreads over its coordinates.",
    "spectrum": "How many directions the table really uses.",
    "isotropy": "Whether the table looks the same in every direction.",
    "norms": "How long the rows are, and how much they share.",
    "frequency": "What the rows have to do with how often they are used.",
    "neighbors": "What nearest-neighbor search will see.",
    "drift": "How far apart two tables are.",
    "similarity": "How well distances agree with human judgments.",
}
DIRECTION = {"higher": "higher is better", "lower": "lower is better", "neither": "neither end is better as such"}


def catalog() -> dict[str, Any]:
    """The catalog by name; empty while the package has none."""
    try:
        from fullspan.measures.catalog import CATALOG
    except ModuleNotFoundError:
        return {}
    return dict(CATALOG)


def families(entries: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    found: dict[str, list[Any]] = {}
    for entry in entries.values():
        found.setdefault(entry.family, []).append(entry)
    return sorted(found.items(), key=lambda item: ORDER.index(item[0]) if item[0] in ORDER else len(ORDER))


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def code(text: str) -> str:
    """Inline code; a formula may hold bars."""
    return f"`{text}`" if "`" not in text else f"`` {text} ``"


def facts(entry: Any) -> list[tuple[str, str]]:
    """What the head of the page says, as rows of a table."""
    invariances = ", ".join(sorted(each.replace("_", " ") for each in entry.invariances)) or "none"
    centered = {True: "yes", False: "no", None: "has no meaning here"}[entry.centered]
    passes = "computed between two tables" if entry.read is None else ", ".join(entry.needs) or "nothing"
    rows = [
        ("Symbol", entry.symbol),
        ("Family", entry.family),
        ("Range", entry.range),
        ("Unit", entry.unit),
        ("Direction", DIRECTION[entry.direction]),
        ("Unchanged by", invariances),
        ("Mean row taken out first", centered),
        ("Value on Gaussian noise of the same shape", "printed beside it" if entry.null is not None else "none"),
        ("In the default report", "yes" if entry.default else "no"),
        ("Needs", passes),
        ("Call", code(entry.usage)),
        ("Same number elsewhere", entry.equivalent),
        ("Source", entry.source),
    ]
    return [(name, value) for name, value in rows if value]


def page(entry: Any) -> str:
    lines = [f"# {entry.name}", "", f"{entry.title}.", "", "```text", entry.formula, "```", "", "| | |", "|---|---|"]
    lines += [f"| **{name}** | {cell(value)} |" for name, value in facts(entry)]
    if entry.traps:
        lines += ["", "## Traps", "", *(f"- {trap}" for trap in entry.traps)]
    function = entry.function
    lines += ["", "## Function", "", f"::: {function.__module__}.{function.__qualname__}", "    options:"]
    lines += ["      heading_level: 3", ""]
    return "\n".join(lines)


def index(entries: dict[str, Any]) -> str:
    lines = [
        "# Measures",
        "",
        "Every measure is a plain function, `fullspan.NAME`, and an entry in the catalog, so that a report can print",
        "its number beside what an isotropic Gaussian table of the same shape reads. `fullspan measures` prints this",
        "list, `fullspan measures NAME` explains one. **●** marks the default report.",
    ]
    for family, members in families(entries):
        lines += ["", f"## {family.capitalize()}", "", ABOUT.get(family, ""), "", "| | measure | what it is | better |"]
        lines += ["|---|---|---|---|"]
        for entry in members:
            mark = "●" if entry.default else ""
            link = f"[{entry.name}]({entry.name}.md)"
            lines.append(f"| {mark} | {link} | {cell(entry.title)} | {entry.direction} |")
    return "\n".join([*lines, ""])


def pages() -> tuple[dict[str, str], Any]:
    entries = catalog()
    if not entries:
        return {}, None
    made = {"measures/index.md": index(entries)}
    made |= {f"measures/{name}.md": page(entry) for name, entry in entries.items()}
    nav = [{"All measures": "measures/index.md"}]
    for family, members in families(entries):
        nav.append({family.capitalize(): [{entry.name: f"measures/{entry.name}.md"} for entry in members]})
    return made, {"Measures": nav}
