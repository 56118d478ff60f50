"""Run the examples of README.md and docs/, and write their real output below them.

    python tools/refresh_readme.py            # rewrite the output blocks
    python tools/refresh_readme.py --check    # exit 1 if any would change

A ``python`` block is run as one program; what it prints belongs in the ``text`` block that follows it, if one does. In
a ``console`` block each line after ``$`` is run by a shell, and its output is what follows. The blocks of one file run
in order in one empty folder, and each sees the files that the ones before it left. ``sh`` blocks are not run.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?P<gap>\n*)(?:^```text\n(?P<text>.*?)^```\n)?"
    r"|^```console\n(?P<console>.*?)^```\n",
    re.MULTILINE | re.DOTALL,
)
#: How long something took differs from run to run.
_TIMES = re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|min)\b")


def run(command: list[str], folder: Path) -> str:
    """Standard output of a command; a failure is an error unless its exit code is 1, which is a verdict."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "PYTHONWARNINGS": "error",
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or (done.returncode == 1 and "Traceback" in done.stderr):
        raise RuntimeError(f"{command[-1]!r} ended with {done.returncode}: {done.stderr.strip()}")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def console(block: str, folder: Path) -> str:
    """The block with each command's output renewed."""
    parts = []
    for line in block.splitlines():
        if line.startswith("$ "):
            output = run(["bash", "-c", line[2:]], folder)
            parts.append(f"{line}\n{output.strip(chr(10))}\n" if output.strip() else f"{line}\n")
    return "".join(parts)


def renewed(text: str) -> str:
    """The page with every output as it is now."""
    with tempfile.TemporaryDirectory(prefix="fullspan examples ") as name:
        folder = Path(name)

        def block(match: re.Match[str]) -> str:
            if match["console"] is not None:
                return f"```console\n{console(match['console'], folder)}```\n"
            output = run([sys.executable, "-c", match["code"]], folder)
            head = f"```python\n{match['code']}```\n{match['gap']}"
            return head if match["text"] is None else f"{head}```text\n{output}```\n"

        return _FENCE.sub(block, text)


def comparable(text: str) -> str:
    """The page without what differs from run to run."""
    return _TIMES.sub("<time>", text)


def changed(pages: list[Path]) -> Iterator[tuple[Path, str]]:
    for page in pages:
        text = page.read_text(encoding="utf-8")
        fresh = renewed(text)
        if comparable(fresh) != comparable(text):
            yield page, fresh


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES)
    args = parser.parse_args()
    stale = list(changed(args.pages))
    for page, fresh in stale:
        print(page.name)
        if not args.check:
            page.write_text(fresh, encoding="utf-8")
    return int(bool(stale) and args.check)


if __name__ == "__main__":
    sys.exit(main())
