"""Put the numbers of the study of normalization into its pages, or check that they are there.

``python tools/normalization_pages.py --from studies/normalization/result.json`` renews the stored numbers
and the blocks of the pages; ``--check`` ends with 1 where a block is not what the stored numbers give. A block is what
stands between ``<!-- claims: NAME, NAME -->``, ``<!-- strategies: MODEL -->`` or ``<!-- probes: NAME, NAME -->`` and
``<!-- end -->``.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "docs" / "_gen" / "study-normalization.json"
_BLOCK = re.compile(r"(<!-- (claims|strategies|probes): ([^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    return [ROOT / "docs" / "study-normalization.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]


def reduced(result: Path) -> dict[str, Any]:
    """What the pages need of a result."""
    plain = json.loads(result.read_text(encoding="utf-8"))
    tables = {}
    for name in ("strategies", "probes"):
        with (result.parent / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            tables[name] = list(csv.reader(file))
    run = plain["provenance"]["run"]
    return {"task": plain["extra"]["task"], "seeds": plain["options"]["seeds"], "run_seconds": run["run_seconds"],
            "claims": {each["name"]: each for each in plain["claims"]}, **tables}  # fmt: skip


def filled(text: str, stored: dict[str, Any]) -> str:
    """The page with its blocks made anew."""
    makers = {"claims": _claims, "strategies": _strategies, "probes": _probes}

    def block(found: re.Match[str]) -> str:
        return f"{found[1]}\n{makers[found[2]](found[3], stored)}\n\n{found[4]}"

    return _BLOCK.sub(block, text)


def _claims(names: str, stored: dict[str, Any]) -> str:
    chosen = list(stored["claims"]) if names.strip() == "all" else [name.strip() for name in names.split(",")]
    rows = ["| claim | answer | mean over seeds [95% interval] |", "|---|---|---|"]
    for name in chosen:
        claim = stored["claims"][name]
        parts = "; ".join(f"{part['label']} {_interval(part['estimate'])}" for part in claim["parts"])
        rows.append(f"| {claim['statement']} | **{claim['answer']}** | {parts} |")
    return "\n".join(rows)


def _interval(estimate: dict[str, Any]) -> str:
    return f"{estimate['mean']:+.3f} [{estimate['low']:+.3f}, {estimate['high']:+.3f}]"


def _strategies(model: str, stored: dict[str, Any]) -> str:
    head, *rows = stored["strategies"]
    mine = [row[1:] for row in rows if row[0] == model.strip()]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head[1:], ["---"] * (len(head) - 1), *mine))


def _probes(names: str, stored: dict[str, Any]) -> str:
    values = dict(stored["probes"][1:])
    rows = ["| probe | mean over seeds |", "|---|---|"]
    return "\n".join(
        [*rows, *(f"| `{name}` | {values[name]} |" for name in (each.strip() for each in names.split(",")))]
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="result", type=Path)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args(arguments)
    if asked.result:
        STORED.write_text(json.dumps(reduced(asked.result), indent=1) + "\n", encoding="utf-8")
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    stale = 0
    for page in pages():
        old = page.read_text(encoding="utf-8")
        new = filled(old, stored)
        if new != old:
            stale += 1
            if not asked.check:
                page.write_text(new, encoding="utf-8")
    return int(asked.check and stale > 0)


if __name__ == "__main__":
    raise SystemExit(main())
