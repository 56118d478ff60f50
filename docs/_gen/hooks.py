"""MkDocs hook: pages that are made from the package itself, so that they cannot drift from it.

One page a measure and their index from the catalog, one section a rule from the thresholds, the command line from its
own help, the public names from `fullspan.__init__`.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

HERE = Path(__file__).parent


def _load(name: str) -> Any:
    """A module beside this one; MkDocs runs hooks outside any package."""
    spec = importlib.util.spec_from_file_location(f"fullspan_docs_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def generated() -> tuple[dict[str, str], list[Any]]:
    """Every generated page, path to text, and what they add to the navigation."""
    pages: dict[str, str] = {}
    nav: list[Any] = []
    for name in ("measures", "rules", "cli", "api"):
        made, entry = _load(name).pages()
        pages.update(made)
        if made:
            nav.append(entry)
    return pages, nav


def on_config(config: Any) -> Any:
    pages, nav = generated()
    config["extra"]["generated"] = pages
    config["nav"] = [*config["nav"], *nav]
    return config


def on_files(files: Files, config: Any) -> Files:
    for path, text in config["extra"]["generated"].items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    if "<!-- generated: formats -->" in markdown:
        return markdown.replace("<!-- generated: formats -->", _load("formats").table())
    return markdown
