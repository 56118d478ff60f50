"""What a watcher does when it looks at the clock: what is due, what is written, and when to look again."""

from __future__ import annotations

from collections.abc import Callable

from fullspan.monitor.attach import Hooks
from fullspan.monitor.observer import Observer
from fullspan.monitor.progress import Progress
from fullspan.monitor.ranks import Ranks
from fullspan.monitor.recorder import LOGGER, Recorder
from fullspan.monitor.schedule import STEP_SECONDS, Schedule
from fullspan.store.records import Event, Moment, Point

__all__ = ["Looks"]

_NEVER = 1 << 62
#: What is done: nothing, measure the rows that are held, read sampled rows, read whole tables.
_NOTHING, _RELEASE, _PULSE, _FULL_PASS = range(4)
#: Rows are kept at the ends of so many epochs; then of every second one, every fourth one, and so on.
_EPOCHS_KEPT = 32
#: From so many points on, a transaction tells what one of them costs.
_ENOUGH_POINTS = 16


class Looks:
    """The looks of one run.

    Parameters
    ----------
    observer, recorder, schedule, ranks, progress
        What reads, what writes, what counts the cost, which process this is, and how far training has come.
    hooks
        What counts the steps of attached optimizers.
    full, gradients
        As :func:`fullspan.watch` has them.
    """

    def __init__(
        self,
        observer: Observer,
        recorder: Recorder,
        schedule: Schedule,
        ranks: Ranks,
        progress: Progress,
        hooks: Hooks,
        *,
        full: str,
        gradients: bool,
    ) -> None:
        self.observer, self.recorder, self.schedule, self.progress = observer, recorder, schedule, progress
        self.next_step = 0
        self.stop = False
        self.gradients = gradients
        self._ranks, self._hooks, self._full = ranks, hooks, full
        self.scalars = recorder.scalars
        self._charged_to = 0
        self._read_at = -1
        self._keep_from = 1
        self._wrote_at = 0
        self._odd: set[str] = set()

    # -- what the watcher asks for

    def begin(self, *, anew: bool) -> None:
        """Copy the rows as they are before training, and start the clock."""
        at = self.progress.now()
        with self.schedule.spending("start-up"):
            if anew:
                self.recorder.restart(at)
            self.observer.describe(at)
            self.observer.hold(at)
        self._start(self.progress.step)
        if self.schedule.every != "auto":
            self._release()
            self._write(at)
        self.next_step = self._following(self.progress.step)

    def _start(self, step: int) -> None:
        self.schedule.begin(step)
        self._charged_to = self._wrote_at = step

    def after_step(self) -> None:
        """A step was taken at which a look was due."""
        self._act(self._step_action, kept=False, whole=False)

    def after_epoch(self) -> None:
        """An epoch has ended."""
        self._act(self._epoch_action, kept=self._keeps_epoch(), whole=True)

    def at_will(self, *, full: bool) -> None:
        """The caller wants a reading now."""
        if not self.observer.described:
            self.observer.describe(self.progress.now())
            self._start(self.progress.step)
        self._act(lambda: _FULL_PASS if full else _PULSE, kept=full, whole=True)

    def at_end(self, *, read: bool) -> None:
        """Training has ended: read the tables once more, and write what has waited."""
        self.schedule.end()
        if read and not (self._ranks.agreeing and self.stop):
            self._act(self._last_action, kept=True, whole=True)
        at = self.progress.now()
        self._write(at)
        self._say_overhead(at)

    def take_gradients(self, scale: float) -> None:
        """A step is about to be taken: if its weights will be read, read its gradients."""
        held_first = self.observer.holds and self.schedule.every == "auto"
        if not held_first and self.schedule.pulse_due(self.progress.step_so_far + 1):
            self.observer.take_gradients(self.progress.now(), scale)

    def write_if_due(self) -> None:
        """Write what has waited long enough."""
        if self.schedule.write_due():
            self._write(self.progress.now())

    def go_on(self) -> None:
        """The counts were set to those of a checkpoint."""
        step = self.progress.step
        self.schedule.moved(step)
        self._charged_to = self._wrote_at = step
        self._read_at, self._keep_from = -1, max(step, 1)
        self.next_step = step
        self.recorder.rewind(self.progress.now())

    # -- one look

    def _act(self, choose: Callable[[], int], *, kept: bool, whole: bool) -> None:
        """Do what is due, write what has waited, and settle when to look again: alike on all processes."""
        step = self.progress.step
        self._charge(step)
        [action, keep] = self._ranks.agreed(self._decision(choose, kept))
        at = self.progress.now()
        if action != _NOTHING:
            self._release()
        if action in (_PULSE, _FULL_PASS):
            if (
                self.gradients and not self._hooks.attached
            ):  # those of the step that was taken, unless they were cleared
                self.observer.take_gradients(at, 1.0)
            self.observer.read(at, full=action == _FULL_PASS, snapshot=bool(keep))
            self._read_at = step
            self.schedule.pulsed(step)
        self.observer.forget_gradients()
        if action != _NOTHING or whole or self.schedule.write_due():
            self._write(at, whole=whole)
        [self.next_step, stop] = self._ranks.agreed([self._following(step), int(self.observer.stop)])
        self.stop = self.stop or bool(stop)

    def _decision(self, choose: Callable[[], int], kept: bool) -> list[int]:
        """What to do, and whether to keep the rows; other processes than that of rank 0 are told."""
        if not self._ranks.writes:
            return [_NOTHING, 0]
        action = choose()
        if action not in (_PULSE, _FULL_PASS):
            return [action, 0]
        step = self.progress.step
        if not kept and not self.progress.by_epochs and step >= self._keep_from:
            kept = self._affords("pulse", "snapshot")
        if kept:
            self._keep_from = 2 * max(step, 1)
        return [action, int(kept)]

    def _step_action(self) -> int:
        """What is due after a step."""
        if self.observer.holds and self.schedule.every == "auto":
            return _RELEASE if self._affords() else _NOTHING
        if not self.schedule.pulse_due(self.progress.step):
            return _NOTHING
        by_steps = self._full == "auto" and not self.progress.by_epochs
        return _FULL_PASS if by_steps and self._affords("full") else _PULSE

    def _epoch_action(self) -> int:
        """What is due at the end of an epoch."""
        if self._full == "epoch" or (self._full == "auto" and self._affords("full", "snapshot")):
            return _FULL_PASS
        if self.schedule.every == "auto" and not self._affords("pulse", "snapshot"):
            return _NOTHING
        return _PULSE

    def _last_action(self) -> int:
        """What is due at the end: the last weights are read, whatever that costs."""
        if self._full == "epoch" or (self._full == "auto" and self._affords("full", "snapshot")):
            return _FULL_PASS if self._read_at != self.progress.step else _RELEASE
        return _PULSE if self._read_at != self.progress.step else _RELEASE

    def _affords(self, *kinds: str) -> bool:
        """Whether readings are affordable together with the one that is still held."""
        return self.schedule.affords(*kinds, *(("pulse", "snapshot") if self.observer.holds else ()))

    def _keeps_epoch(self) -> bool:
        """Whether the rows are kept at the end of this epoch."""
        number = int(self.progress.epoch or 0)
        return number % (1 << max((number - 1).bit_length() - _EPOCHS_KEPT.bit_length() + 1, 0)) == 0

    def _release(self) -> None:
        if self.observer.holds:
            self.observer.release()
            self.schedule.pulsed(self.progress.step)

    def _following(self, step: int) -> int:
        """The step of the next look: never, on processes that have nothing to do."""
        if not (self._ranks.writes or self._ranks.agreeing):
            return _NEVER
        return self.schedule.next_look(step)

    # -- writing

    def _charge(self, step: int) -> None:
        """Count what was too short to be measured."""
        steps, self._charged_to = max(step - self._charged_to, 0), step
        self.schedule.charge("step", STEP_SECONDS * steps + self.schedule.call_seconds * self.scalars.puts())

    def _write(self, at: Moment, *, whole: bool = True) -> None:
        """Write what has waited; of the current step, micro-batches may still bring more unless `whole`."""
        before = at.step if self._hooks.attached and not whole else None
        start = self.schedule.spent
        with self.schedule.reading("write"):
            steps, self._wrote_at = max(at.step - self._wrote_at, 1), at.step
            points = list(self.scalars.drain(self.schedule.window(self.scalars.count / steps), before=before))
            self._tell_odd(points)
            self.recorder.add(points)
            self.recorder.add([Point("", "monitor_overhead", at, self.schedule.overhead)])
            self.recorder.flush(at)
        self.schedule.wrote()
        if len(points) >= _ENOUGH_POINTS:
            self.schedule.learn("scalar", self.schedule.spent.minus(start).times(1 / len(points)))

    def _tell_odd(self, points: list[Point]) -> None:
        """Say once that a scalar is no longer finite."""
        for point in points:
            if point.value is not None:
                self._odd.discard(point.measure)
            elif point.measure not in self._odd:
                self._odd.add(point.measure)
                LOGGER.warning("%s", point.why)
                self.recorder.event(Event(point.at, "warn", "", "", str(point.why), {"measure": point.measure}))

    def _say_overhead(self, at: Moment) -> None:
        """Keep the cost of watching with the run, and say so when it was above the budget."""
        shares, budget = self.schedule.shares, self.schedule.budget
        detail = {
            "cpu_share": shares.cpu,
            "wall_share": shares.wall,
            "budget": budget,
            "cpu_seconds": {kind: took.cpu for kind, took in self.schedule.by_kind.items()},
        }
        spent, trained = self.schedule.spent, self.schedule.trained
        message = f"Watching took {spent.cpu:.2f} s of CPU time beside {trained.cpu:.2f} s of training"
        message += f": {max(shares):.2%} of its time." if max(shares) <= 1 else "."
        if max(shares) > budget and self.schedule.every == "auto":
            message += (
                f" Its budget was {budget:.2%}."
                " Starting, and reading the first and the last weights, costs the same in short runs as in long ones."
            )
        self.recorder.event(Event(at, "note", "", "", message, detail))
