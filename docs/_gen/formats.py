"""The table of the formats, from the list that the readers are found by."""

from __future__ import annotations

from typing import Any

EXTRAS = {"keras": "`hdf5`", "gguf": "`gguf` for quantized tensors"}


def table() -> str:
    try:
        from fullspan.io.formats import FORMATS
    except ModuleNotFoundError:
        return ""
    lines = ["| format | suffixes | compressed | extra |", "|---|---|---|---|"]
    for each in FORMATS:
        suffixes = "a folder" if each.folder else ", ".join(f"`{suffix}`" for suffix in each.suffixes) or "by content"
        streams = "yes" if each.streams else ""
        lines.append(f"| {each.name} | {suffixes} | {streams} | {EXTRAS.get(each.name, '')} |")
    return "\n".join(lines)


def pages() -> tuple[dict[str, str], Any]:
    return {}, None
