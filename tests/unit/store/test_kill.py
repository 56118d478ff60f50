"""A writer that is killed at any moment loses nothing it acknowledged; readers see whole steps meanwhile."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from fullspan.store.records import Moment, Point
from fullspan.store.runs import Run, RunWriter

MEASURES = 20

#: Writes 20 points a step from a step on; says each step once it is acknowledged.
WRITE = """
import sys
from fullspan.store.records import Moment, Point
from fullspan.store.runs import RunWriter
path, resume, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
writer = RunWriter.open(path, resume_step=resume)
print("open", writer.attempt, flush=True)
for step in range(resume + 1, last + 1):
    writer.add([Point("item", f"m{n}", Moment(step), writer.attempt + step / 1e6) for n in range(20)])
    print(step, flush=True)
writer.finish()
"""

#: Reads until the run is finished; every step must be whole, and none may go.
READ = """
import sys
from collections import Counter
from fullspan.store.runs import Run
run, seen, reads, over = Run.open(sys.argv[1]), 0, 0, False
while not over:
    over = run.status == "finished"
    counts = Counter(each.at.step for each in run.points())
    assert set(counts.values()) <= {20}, counts
    assert list(counts) == list(range(len(counts))), "steps are missing"
    assert len(counts) >= seen, "steps went"
    if counts:
        assert len(run.curve("item", "m7")) >= len(counts)
    seen, reads = len(counts), reads + 1
    if reads == 1:
        print("ready", flush=True)
print(reads, seen)
"""


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts an interpreter on some code; none is left when the test ends."""
    children = []

    def start(code: str, *args: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, *map(str, args)]
        children.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return children[-1]

    yield start
    for each in children:
        each.kill()
        each.wait()
        each.stdout.close()


@pytest.mark.slow
def test_twenty_kills_lose_nothing(tmp_path: Path, started) -> None:
    home = tmp_path / "run"
    chance = random.Random()
    held: dict[int, int] = {}  # step to the attempt that acknowledged it last
    for kill in range(20):
        resume = -1 if not held else chance.choice([max(held), chance.randint(0, max(held))])
        child = started(WRITE, home, resume, 10**9)
        assert child.stdout is not None
        if kill % 5 == 4:  # at any moment of its start
            time.sleep(chance.uniform(0.05, 0.4))
            child.send_signal(signal.SIGKILL)
        else:
            first = child.stdout.readline()
            assert first.startswith("open")
            time.sleep(chance.uniform(0.0, 0.06))
            child.send_signal(signal.SIGKILL)
            held = {step: attempt for step, attempt in held.items() if step <= resume}
        told = child.stdout.read().split("\n")
        child.wait()
        lines = [line for line in told[:-1] if line]  # the last one may be half a line
        if kill % 5 == 4 and not lines:
            if not (home / "run.sqlite").exists():
                continue
            if Run.open(home).attempts[-1].resume_step == resume:
                held = {step: attempt for step, attempt in held.items() if step <= resume}
        run = Run.open(home)
        attempt = run.attempts[-1].number
        if lines and lines[0].startswith("open"):
            held = {step: attempt for step, attempt in held.items() if step <= resume}
        acknowledged = [int(line) for line in lines if line.isdecimal()]
        held |= dict.fromkeys(acknowledged, attempt)
        check(run, held, attempt)
        held = {step: int(value) for step, value in found(run, "m0").items()}
    assert len(held) > 20


def found(run: Run, measure: str) -> dict[int, float]:
    if measure not in run.measures():  # killed before its first step
        return {}
    curve = run.curve("item", measure)
    assert (np.diff(curve.step) > 0).all()
    return dict(zip(curve.step.tolist(), curve.value.tolist(), strict=True))


def check(run: Run, held: dict[int, int], attempt: int) -> None:
    """All that was acknowledged is there, whole; at most the step under way is there beside it."""
    assert run.status == "died"
    steps: dict[int, int] = defaultdict(int)
    for each in run.points():
        assert each.value is not None
        assert each.value == int(each.value) + each.at.step / 1e6
        assert int(each.value) == held.get(each.at.step, attempt)
        steps[each.at.step] += 1
    assert set(steps.values()) <= {MEASURES}
    assert set(held) <= set(steps)
    assert len(set(steps) - set(held)) <= 1
    assert sorted(steps) == list(range(len(steps)))  # one clean curve, with no step missing
    assert list(found(run, "m3")) == list(steps)
    connection = sqlite3.connect(run.path / "run.sqlite")
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


@pytest.mark.slow
def test_two_read_while_one_writes(tmp_path: Path, started) -> None:
    home = tmp_path / "run"
    RunWriter.open(home).close()
    readers = [started(READ, home) for _ in range(2)]
    for each in readers:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    writer = started(WRITE, home, -1, 400)
    out, _ = writer.communicate()
    assert out.split()[-1] == "400"
    for each in readers:
        out, _ = each.communicate()
        assert each.returncode == 0
        reads, seen = map(int, out.split())
        assert reads > 5
        assert seen == 401
    assert Run.open(home).status == "finished"


def test_a_reader_that_stays_does_not_stop_the_writer(tmp_path: Path) -> None:
    with RunWriter.open(tmp_path / "run") as writer:
        writer.add([Point("item", "m", Moment(0), 0.0)])
        reader = sqlite3.connect(f"file:{tmp_path / 'run/run.sqlite'}?mode=ro", uri=True, isolation_level=None)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM point").fetchone() == (1,)
        for step in range(1, 30):
            writer.add([Point("item", "m", Moment(step), 0.0)])
        assert reader.execute("SELECT count(*) FROM point").fetchone() == (1,)
        reader.execute("COMMIT")
        assert reader.execute("SELECT count(*) FROM point").fetchone() == (30,)
        reader.close()
