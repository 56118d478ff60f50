"""How far training has come: optimizer steps, epochs, samples."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from fullspan.errors import InputError
from fullspan.monitor.attach import Hooks
from fullspan.store.records import Moment

__all__ = ["Progress"]


class Progress:
    """The counts of a run, as they are now.

    Parameters
    ----------
    hooks
        What counts the steps of attached optimizers; without one, :meth:`advance` does.
    step
        Where the count begins.
    """

    def __init__(self, hooks: Hooks, step: int = 0) -> None:
        self._hooks, self._base = hooks, step
        self._finished = 0.0
        self._epoch_from, self._epoch_length = step, 0
        self._told: float | None = None
        self.by_epochs = False
        self.samples: int | None = None

    @property
    def step(self) -> int:
        """Optimizer steps so far, skipped ones left out."""
        return self._base + self._hooks.count()

    @property
    def step_so_far(self) -> int:
        """The same without a look at which of the last steps were skipped: that may wait for a device."""
        return self._base + self._hooks.taken

    def advance(self, n: int) -> int:
        """Count `n` steps by hand; gives the count."""
        self._base += n
        return self._base

    def move(self, step: int) -> None:
        """The count is `step` now."""
        self._base = step - self._hooks.count()

    def saw(self, samples: int) -> None:
        """Count samples."""
        self.samples = (self.samples or 0) + int(samples)

    @property
    def epoch(self) -> float | None:
        """Epochs finished, with the fraction of the current one where the last one told how long they are."""
        if self._told is not None:
            return self._told
        step = self.step_so_far
        if not self.by_epochs:
            return 0.0 if step == 0 else None
        if not self._epoch_length:
            return self._finished
        return self._finished + min((step - self._epoch_from) / self._epoch_length, 1.0)

    def end_epoch(self, number: float | None = None) -> None:
        """An epoch has ended: the one of this number, counted from 1, or the next one."""
        step = self.step
        number = self._finished + 1 if number is None else checked_epoch(number)
        passed = number - self._finished
        if passed > 0 and step > self._epoch_from:
            self._epoch_length = round((step - self._epoch_from) / passed)
        self._finished, self._epoch_from, self._told, self.by_epochs = float(number), step, None, True

    def tell_epoch(self, epoch: float) -> None:
        """The caller counts epochs: it is `epoch` now."""
        self._told, self.by_epochs = checked_epoch(epoch), True

    def now(self) -> Moment:
        """The moment for what is recorded now; steps that may have been skipped are not looked into."""
        return Moment(*self.instant())

    def instant(self) -> tuple[int, float | None, int | None, float]:
        """The fields of :meth:`now`, which are had sooner."""
        return self.step_so_far, self.epoch, self.samples, time.time()

    def state_dict(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "samples": self.samples,
            "epochs": self._finished,
            "epoch_from": self._epoch_from,
            "epoch_length": self._epoch_length,
            "by_epochs": self.by_epochs,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.move(int(state["step"]))
        self.samples = state["samples"]
        self._finished, self._told = float(state["epochs"]), None
        self._epoch_from, self._epoch_length = int(state["epoch_from"]), int(state["epoch_length"])
        self.by_epochs = bool(state["by_epochs"])


def checked_epoch(epoch: Any) -> float:
    if isinstance(epoch, bool) or not isinstance(epoch, int | float) or not 0 <= epoch < float("inf"):
        raise InputError(f"watcher needs an epoch of 0 or more; got {epoch!r}.")
    return float(epoch)


def checked_step(step: Any, call: str, least: int = 0) -> int:
    """A whole number of steps, also one of NumPy or a tensor.

    Raises
    ------
    InputError
        If it is none.
    """
    try:
        whole = int(step)
    except (TypeError, ValueError):
        whole = -1
    if isinstance(step, bool) or whole != step or whole < least:
        raise InputError(f"{call} needs a whole number of steps, {least} or more; got {step!r}.")
    return whole
