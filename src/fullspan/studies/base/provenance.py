"""What a result was made with: versions, commit, hardware, data, command."""

from __future__ import annotations

import datetime as dt
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import fullspan

__all__ = ["code_hash", "provenance"]


def code_hash(modules: Iterable[str]) -> str:
    """Version of fullspan and hash of the source of the modules that make a result.

    Parameters
    ----------
    modules
        Dotted names: what a stored result depends on, so that a change there runs it anew.

    Examples
    --------
    >>> code_hash(["fullspan.measures.sparsity"]).startswith(fullspan.__version__)
    True
    """
    digest = hashlib.sha256()
    for name in sorted(modules):
        found = importlib.util.find_spec(name)  # found, not imported: an engine may need what is not installed
        assert found is not None
        assert found.origin is not None
        digest.update(Path(found.origin).read_bytes())
    return f"{fullspan.__version__}-{digest.hexdigest()[:16]}"


def provenance(packages: Iterable[str], *, data: dict[str, Any], code: str, command: str | None = None) -> dict:
    """What a result was made with.

    Parameters
    ----------
    packages
        Distributions whose versions matter; those that are not installed are left out.
    data
        Where the data came from, and its hash.
    code
        What :func:`code_hash` gave.
    command
        The command that was given; the arguments of this process by default.

    Returns
    -------
    dict
        Plain values. ``commit`` is None outside a git checkout of fullspan; ``dirty`` says that the checkout had
        changes.
    """
    commit, dirty = _commit()
    return {
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "command": command if command is not None else _command(),
        "fullspan": fullspan.__version__,
        "code": code,
        "commit": commit,
        "dirty": dirty,
        "python": sys.version.split()[0],
        "packages": {name: version for name in packages if (version := _version(name)) is not None},
        "hardware": {
            "system": platform.platform(terse=True),
            "machine": platform.machine(),
            "processor": _processor(),
            "cores": _cores(),
        },
        "data": data,
    }


def _command() -> str:
    import shlex

    return shlex.join([Path(sys.argv[0]).name or "python", *sys.argv[1:]])


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _commit() -> tuple[str | None, bool | None]:
    """Commit of the checkout that fullspan is imported from, and whether its sources have changes."""
    here = Path(fullspan.__file__).resolve().parent
    root = next((each for each in here.parents if (each / ".git").exists()), None)
    git = shutil.which("git")
    if root is None or git is None or not (root / "src/fullspan").is_dir():
        return None, None
    told = []
    for asked in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", "src"]):
        done = subprocess.run([git, "-C", str(root), *asked], capture_output=True, text=True, check=False)  # noqa: S603 (git, with fixed arguments)
        if done.returncode:
            return None, None
        told.append(done.stdout.strip())
    return told[0], bool(told[1])
