"""Fixtures for all tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest


@pytest.fixture
def python() -> Callable[[str], str]:
    """Run code in a new interpreter with warnings as errors; gives its standard output."""

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
