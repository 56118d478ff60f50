"""What the tests of the watcher share: tables that change, and a watcher whose clock the test moves."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import fullspan as fs
from fullspan.monitor import observer
from fullspan.monitor.schedule import Schedule
from fullspan.store.runs import Run
from tests.unit.monitor.clocks import Hands

PULSE_SECONDS, FULL_SECONDS = 0.012, 1.0


def table(rows=200, dim=4, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32)


def steps(path, measure="gini_index", name="E"):
    """The steps at which a measure was read."""
    return Run.open(path).curve(name, measure).step.tolist()


class Slow:
    """Reading takes time on a clock that the test moves; training does when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pulse: float = PULSE_SECONDS, full: float = FULL_SECONDS):
        self.hands = Hands()
        self.pulses = self.fulls = 0
        self._times = {"pulse": pulse, "full_pass": full}
        schedule = functools.partial(Schedule, clock=self.hands.clock)
        monkeypatch.setattr("fullspan.monitor.watcher.Schedule", schedule)
        monkeypatch.setattr(observer, "_SECONDS_A_TABLE", full / 3)  # what is guessed before a pass has been made
        for name in self._times:
            monkeypatch.setattr(observer.reading, name, self._slowed(name, getattr(observer.reading, name)))

    def _slowed(self, name, real):
        def read(*args):
            self.hands.pass_(self._times[name])
            self.pulses += name == "pulse"
            self.fulls += name == "full_pass"
            return real(*args)

        return read

    def train(self, watcher, n, seconds=0.02):
        for _ in range(n):
            self.hands.pass_(seconds)
            watcher.step()


def read(E, measure, **options):
    return fs.measure(E, measures=[measure], **options)[measure].value
