"""When to look at the tables, so that watching takes no more than its share of the time.

Two clocks count: the CPU time of the process and the time on the wall. Training is all that passes between the first
step and now, less what the watcher itself took; the overhead is the larger of the two shares. Nothing here knows what a
table is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from fullspan.errors import InputError

__all__ = ["Clock", "Schedule", "Seconds"]

#: Part of the budget that pulses may take; the rest is saved for full passes and snapshots.
PULSE_SHARE = 0.5
#: The longest time between two looks at the clock, which is also how long scalars wait to be written.
LOOK_SECONDS = 5.0
#: The longest time that scalars wait where writing them would break the budget.
LONGEST_SECONDS = 60.0
#: What counting one step costs, charged without being measured: two reads of a clock would cost more.
STEP_SECONDS = 1e-6
#: What taking the scalars of one call costs, until a call has been timed: one of so many is. A prime, so that in a loop
#: of several calls a step each of them has its turn: the first one after a step finds cold caches, the others do not.
CALL_SECONDS, TIMED_CALLS = 3e-6, 61
#: Part of the budget that scalars of single steps may take before they are averaged.
_SCALAR_SHARE = 0.25
_NEWEST = 0.5
_LONGEST_WAIT = 1 << 40
_LONGEST_WINDOW = 1 << 20


class Seconds(NamedTuple):
    """An amount of time on both clocks."""

    wall: float
    cpu: float

    def plus(self, other: Seconds) -> Seconds:
        return Seconds(self.wall + other.wall, self.cpu + other.cpu)

    def minus(self, other: Seconds) -> Seconds:
        return Seconds(self.wall - other.wall, self.cpu - other.cpu)

    def times(self, factor: float) -> Seconds:
        return Seconds(self.wall * factor, self.cpu * factor)

    def within(self, other: Seconds) -> bool:
        """Whether neither clock is above the other's."""
        return self.wall <= other.wall and self.cpu <= other.cpu


_ZERO = Seconds(0.0, 0.0)


@dataclass(frozen=True)
class Clock:
    """Where the time comes from; tests put their own hands on it."""

    wall: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.process_time

    def now(self) -> Seconds:
        return Seconds(self.wall(), self.cpu())


class Schedule:
    """Counts what training and watching take, and says what is affordable.

    Parameters
    ----------
    every
        ``"auto"`` keeps to the budget; a number of steps reads at its multiples whatever it costs; None reads at the
        ends of epochs only.
    budget
        Largest share of the training time that watching may take, in (0, 1].
    clock
        Where the time comes from.
    """

    def __init__(self, every: str | int | None, budget: float, clock: Clock | None = None) -> None:
        self.every, self.budget = _checked_every(every), _checked_budget(budget)
        self._clock = clock or Clock()
        self._began: Seconds | None = None
        self._ended: Seconds | None = None
        self._spent = self._spent_since = _ZERO  # in all; since training began in this process
        self._before = _ZERO  # trained by earlier processes of the run
        self._by_kind: dict[str, Seconds] = {}
        self._costs: dict[str, Seconds] = {}
        self._guesses: dict[str, Seconds] = {}
        self._depth = 0
        self.call_seconds = CALL_SECONDS
        self._pulse_at, self._pulse_step = _ZERO, 0
        self._look: tuple[int, Seconds] | None = None
        self._step_time: Seconds | None = None
        self._written_at = 0.0

    # -- what was spent

    def begin(self, step: int) -> None:
        """Training starts now: what passed before does not count as training."""
        if self._began is None:
            self._began, self._spent_since = self._clock.now(), _ZERO
            self._look = (step, _ZERO)
            self._written_at = self._began.wall

    def end(self) -> None:
        """Training has ended: what passes from now on does not count as training."""
        if self._began is not None and self._ended is None:
            self._ended = self._clock.now()

    @contextmanager
    def spending(self, kind: str) -> Iterator[None]:
        """Count the time inside as the watcher's; within another one it counts once, as that of the outer one."""
        if self._depth:
            yield
            return
        start, self._depth = self._clock.now(), 1
        try:
            yield
        finally:
            self._depth = 0
            self._add(kind, self._clock.now().minus(start))

    @contextmanager
    def timing_a_call(self) -> Iterator[None]:
        """Learn what a call with scalars takes of the processor, without the readings that it may have made."""
        before, start, spent = self._clock.cpu(), self._clock.cpu(), self._spent.cpu
        yield
        took = self._clock.cpu() - start - (self._spent.cpu - spent) - (start - before)  # less a look at the clock
        self.call_seconds = (1 - _NEWEST) * self.call_seconds + _NEWEST * min(max(took, 0.0), 10 * self.call_seconds)

    def charge(self, kind: str, seconds: float) -> None:
        """Count time that was not measured."""
        self._add(kind, Seconds(seconds, seconds))

    def _add(self, kind: str, took: Seconds) -> None:
        self._spent, self._by_kind[kind] = self._spent.plus(took), self.spent_on(kind).plus(took)
        if self._ended is None:
            self._spent_since = self._spent_since.plus(took)

    def spent_on(self, kind: str) -> Seconds:
        """Time that one kind of work took so far."""
        return self._by_kind.get(kind, _ZERO)

    @property
    def by_kind(self) -> Mapping[str, Seconds]:
        """Time that each kind of work took so far."""
        return self._by_kind

    @property
    def spent(self) -> Seconds:
        """Time that watching took so far, that before the first step included."""
        return self._spent

    @property
    def trained(self) -> Seconds:
        """Time that training took so far, without the watcher's."""
        if self._began is None:
            return self._before
        here = (self._ended or self._clock.now()).minus(self._began).minus(self._spent_since)
        return self._before.plus(Seconds(max(here.wall, 0.0), max(here.cpu, 0.0)))

    @property
    def shares(self) -> Seconds:
        """Time of watching over time of training, on each clock; 0 before training."""
        trained = self.trained
        return Seconds(*(s / t if t > 0 else 0.0 for s, t in zip(self._spent, trained, strict=True)))

    @property
    def overhead(self) -> float:
        """The larger of the two shares."""
        return max(self.shares)

    # -- what things cost

    def learn(self, kind: str, took: Seconds) -> None:
        """Remember what one reading of a kind took: a moving average."""
        before = self._costs.get(kind)
        self._costs[kind] = took if before is None else before.times(1 - _NEWEST).plus(took.times(_NEWEST))

    def guess(self, kind: str, seconds: float) -> None:
        """What a kind of reading will take, until one has been made."""
        self._guesses[kind] = Seconds(seconds, seconds)

    def cost(self, kind: str) -> Seconds:
        """What a reading of a kind is expected to take."""
        return self._costs.get(kind) or self._guesses.get(kind, _ZERO)

    @contextmanager
    def reading(self, kind: str) -> Iterator[None]:
        """Count the time inside, and learn from it what such a reading takes."""
        start = self._spent
        with self.spending(kind):
            yield
        if not self._depth:
            self.learn(kind, self._spent.minus(start))

    # -- what is due

    def affords(self, *kinds: str) -> bool:
        """Whether readings of these kinds, and writing them, would keep the whole run within the budget."""
        spent = self._spent if self.every == "auto" else self._unasked()
        for kind in (*kinds, "write"):
            spent = spent.plus(self.cost(kind))
        return spent.within(self.trained.times(self.budget))

    def _unasked(self) -> Seconds:
        """What was spent without what `every` demanded."""
        return self._spent.minus(self.spent_on("pulse"))

    def pulse_due(self, step: int) -> bool:
        """Whether a pulse is due after `step` steps."""
        if self.every is None or self._began is None:
            return False
        if self.every != "auto":
            return step >= self._next_multiple()
        since = self.trained.minus(self._pulse_at)
        return self.cost("pulse").within(since.times(self.budget * PULSE_SHARE)) and self.affords("pulse")

    def pulsed(self, step: int) -> None:
        """A pulse, or more than one, has been made after `step` steps."""
        self._pulse_at, self._pulse_step = self.trained, step

    def _next_multiple(self) -> int:
        assert isinstance(self.every, int)
        return (self._pulse_step // self.every + 1) * self.every

    def next_look(self, step: int) -> int:
        """The step count at which to look again; learns how long steps take."""
        trained = self.trained
        last, then = self._look or (step, trained)
        self._look = (step, trained)
        if step > last:
            took = trained.minus(then).times(1 / (step - last))
            self._step_time = took if self._step_time is None else self._step_time.plus(took).times(0.5)
        wait = self._steps_until(trained)
        wait = min(wait, max(2 * (step - last), 1))  # feel the way: a wait may double, not more
        if isinstance(self.every, int):
            return min(step + wait, max(self._next_multiple(), step + 1))
        return step + wait

    def _steps_until(self, trained: Seconds) -> int:
        """Steps until a pulse is affordable, or until scalars have waited long enough."""
        each = self._step_time
        if each is None or each.wall <= 0:
            return 1
        most = max(int(LOOK_SECONDS / each.wall), 1)
        if self.every != "auto":
            return most
        wait = 1.0
        costs = self.cost("pulse").plus(self.cost("write"))
        for took, of, spent, cost, at in zip(each, trained, self._spent, costs, self._pulse_at, strict=True):
            if took > 0:
                needed = max((spent + cost) / self.budget, at + cost / (self.budget * PULSE_SHARE)) - of
                wait = max(wait, needed / took)
        return min(int(min(wait, _LONGEST_WAIT)) + 1, most)

    def window(self, scalars_a_step: float) -> int:
        """Over how many steps scalars are averaged so that they stay within their part of the budget."""
        if self.every != "auto" or self._step_time is None:
            return 1
        costs = zip(self.cost("scalar"), self._step_time, strict=True)
        shares = [scalars_a_step * cost / (_SCALAR_SHARE * self.budget * each) for cost, each in costs if each > 0]
        return max(1, min(math.ceil(max(shares, default=0.0)), _LONGEST_WINDOW))

    def write_due(self) -> bool:
        """Whether scalars have waited long enough to be written: longer where that would break the budget."""
        waited = self._clock.wall() - self._written_at
        return waited >= LONGEST_SECONDS or (waited >= LOOK_SECONDS and self.affords())

    def wrote(self) -> None:
        self._written_at = self._clock.wall()

    # -- across processes

    def state_dict(self) -> dict[str, Any]:
        """What a later process of the run needs to go on within the same budget."""
        return {
            "spent": list(self._spent),
            "trained": list(self.trained),
            "by_kind": {kind: list(took) for kind, took in self._by_kind.items()},
            "costs": {kind: list(took) for kind, took in self._costs.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken: what this process spent so far is added to it."""
        self._before = Seconds(*state["trained"])
        self._spent = self._spent.plus(Seconds(*state["spent"]))
        for kind, took in state["by_kind"].items():
            self._by_kind[kind] = self.spent_on(kind).plus(Seconds(*took))
        self._costs = {kind: Seconds(*took) for kind, took in state["costs"].items()}
        self._pulse_at = self.trained

    def moved(self, step: int) -> None:
        """The count of steps was set to `step` from outside."""
        self._look, self._pulse_step = (step, self.trained), step


def _checked_every(every: Any) -> str | int | None:
    if every is None or every == "auto" or (isinstance(every, int) and not isinstance(every, bool) and every > 0):
        return every
    raise InputError(f'watch needs every="auto", a number of steps, or None for ends of epochs only; got {every!r}.')


def _checked_budget(budget: Any) -> float:
    number = isinstance(budget, int | float) and not isinstance(budget, bool)
    if number and 0 < budget <= 1:
        return float(budget)
    raise InputError(f"watch needs a budget in (0, 1], a share of the training time; got {budget!r}.")
