"""Pairs of calls, timed alternately in one process: CPU time, one thread, medians, ratios.

A machine that flips between two speeds, or is busy with something else, moves both sides of a pair alike when they are
interleaved; separate benchmarks of the two sides would not be. That is why this is not a pytest-benchmark suite.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Pair", "Result", "one_thread", "run"]


@dataclass(frozen=True)
class Pair:
    """Two calls that do the same work, and the bound on their ratio.

    Parameters
    ----------
    name
        What is compared.
    ours, baseline
        Calls without arguments.
    at_least
        The baseline must take at least this many times as long as ours.
    at_most
        Ours may take at most this many times as long as the baseline.
    units
        Rows in a call, for microseconds a row.
    """

    name: str
    ours: Callable[[], object]
    baseline: Callable[[], object]
    at_least: float | None = None
    at_most: float | None = None
    units: int = 1


@dataclass(frozen=True)
class Result:
    name: str
    ours: float
    baseline: float
    ratio: float
    bound: str
    ok: bool

    def line(self) -> str:
        mark = "ok  " if self.ok else "MISS"
        return f"{mark} {self.name:<44} {self.ours:10.3f} {self.baseline:10.3f} {self.ratio:8.2f}x  {self.bound}"


def one_thread() -> None:
    """Start this program again with one BLAS thread and the kernels that fit the processor, unless it already is so."""
    wanted = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    slowing = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
    if all(os.environ.get(name) == value for name, value in wanted.items()) and not any(
        n in os.environ for n in slowing
    ):
        return
    environment = {name: value for name, value in os.environ.items() if name not in slowing} | wanted
    sys.exit(subprocess.run([sys.executable, *sys.orig_argv[1:]], env=environment, check=False).returncode)


#: The quick side of a pair is called again until it takes about this share of the slow one, before it and after.
_SHARE, _MOST_CALLS = 0.25, 40


def run(pair: Pair, repeats: int = 7) -> Result:
    """Time both sides alternately; the ratio is the median of the ratios of neighbors in time.

    A machine that changes its speed within seconds would catch a quick side in one state and a slow one in both: the
    quick side is called several times before the slow one and as often behind it.
    """
    pair.ours(), pair.baseline()  # warm: imports, caches of null values
    quick, slow = _seconds(pair.ours), _seconds(pair.baseline)
    calls = int(min(max(_SHARE * slow / max(quick, 1e-6), 1), _MOST_CALLS))
    ours, theirs = [], []
    for _ in range(repeats):
        before = _seconds(pair.ours, calls)
        theirs.append(_seconds(pair.baseline))
        ours.append((before + _seconds(pair.ours, calls)) / (2 * calls))
    scale = 1e6 / pair.units
    if pair.at_least is not None:
        ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
        bound, ok = f">= {pair.at_least}x faster", ratio >= pair.at_least
    else:
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        bound, ok = f"<= {pair.at_most}x the baseline", ratio <= (pair.at_most or 0.0)
    return Result(pair.name, statistics.median(ours) * scale, statistics.median(theirs) * scale, ratio, bound, ok)


def _seconds(call: Callable[[], object], times: int = 1) -> float:
    """CPU seconds of the calls, those of the processes that they started and waited for among them."""
    start = _cpu()
    for _ in range(times):
        call()
    return _cpu() - start


def _cpu() -> float:
    children = os.times()
    return time.process_time() + children.children_user + children.children_system
