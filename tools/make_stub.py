"""Write src/fullspan/__init__.pyi: the public names for type checkers and editors, which lazy loading hides from them.

python tools/make_stub.py
"""

from __future__ import annotations

from pathlib import Path

import fullspan

OUT = Path(fullspan.__file__).with_suffix(".pyi")


def stub() -> str:
    """The text of the stub, from the list of names in the package."""
    homes: dict[str, list[str]] = {}
    for name, home in fullspan._HOMES.items():
        homes.setdefault(home, []).append(name)
    lines = ['"""The public names; made by tools/make_stub.py."""', ""]
    for home in sorted(homes):
        lines += [f"from fullspan.{home} import {name} as {name}" for name in sorted(homes[home])]
    return "\n".join([*lines, "", "__version__: str", "__all__: list[str]", ""])


if __name__ == "__main__":
    OUT.write_text(stub(), encoding="utf-8")
    print(f"{OUT.name}: {len(fullspan._HOMES)} names")
