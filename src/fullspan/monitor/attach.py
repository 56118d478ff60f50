"""Hooks on optimizers of torch: they count the steps that were really taken, whatever the loop accumulates or skips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fullspan.errors import InputError

__all__ = ["Hooks"]


class Hooks:
    """Counts the steps of the optimizers it is attached to.

    Notes
    -----
    Accumulated micro-batches make one step, since the optimizer makes one. A step that a ``GradScaler`` skips because
    of infinite gradients is not counted: most optimizers are not called then, and those that skip by themselves
    (``fused=True``) say so in ``found_inf``, which is looked at when the count is asked for, since looking makes the
    host wait for the device. With several optimizers the count is that of the one with the most steps.
    """

    def __init__(self) -> None:
        self._before: Callable[[Any], None] = _nothing
        self._after: Callable[[int], None] = _nothing
        self._handles: list[Any] = []
        self._counts: list[int] = []
        self._waiting: list[tuple[int, Any]] = []
        self._done = self._complete = 0
        self.optimizers: list[Any] = []

    def call(self, before: Callable[[Any], None], after: Callable[[int], None]) -> None:
        """Call `before` with an optimizer that is about to step, and `after` with the count of a complete step.

        A step is complete when all optimizers have taken it, or one of them goes on to the next.
        """
        self._before, self._after = before, after

    def add(self, optimizer: Any) -> None:
        """Count the steps of one more optimizer."""
        optimizer = unwrapped(optimizer)
        if any(optimizer is each for each in self.optimizers):
            return
        slot = len(self._counts)
        self.optimizers.append(optimizer)
        self._counts.append(self.taken)
        self._handles.append(optimizer.register_step_pre_hook(lambda *call: self._going(slot, call[0])))
        self._handles.append(optimizer.register_step_post_hook(lambda *call: self._went(slot, call[0])))

    def remove(self) -> None:
        """Take the hooks off; the optimizers are as they were."""
        for handle in self._handles:
            handle.remove()
        self._done = self.count()
        self._handles, self._counts, self.optimizers = [], [], []

    @property
    def attached(self) -> bool:
        return bool(self._handles)

    @property
    def taken(self) -> int:
        """Steps so far, those among them that may turn out to have been skipped."""
        return max(self._counts, default=self._done)

    def count(self) -> int:
        """Steps taken since the hooks were put on."""
        waiting, self._waiting = self._waiting, []
        for slot, found_inf in waiting:
            if float(found_inf) > 0:
                self._counts[slot] -= 1
        self._complete = min(self._complete, self.taken)
        return self.taken

    def _going(self, slot: int, optimizer: Any) -> None:
        if self._counts[slot] > self._complete:  # the others have not come, and the weights are about to change
            self._completed()
        self._before(optimizer)

    def _went(self, slot: int, optimizer: Any) -> None:
        found_inf = getattr(optimizer, "found_inf", None)
        self._counts[slot] += 1
        if found_inf is not None:
            self._waiting.append((slot, found_inf))
        if len(self._counts) == 1 or min(self._counts) > self._complete:
            self._completed()

    def _completed(self) -> None:
        self._complete = self.taken
        self._after(self._complete)


def _nothing(_: Any) -> None:
    pass


def unwrapped(optimizer: Any) -> Any:
    """The optimizer of torch inside the wrappers of Accelerate, Lightning and others.

    Raises
    ------
    InputError
        If there is none.
    """
    inner = optimizer
    while inner is not None:
        if hasattr(inner, "_optimizer_step_post_hooks"):
            return inner
        inner = getattr(inner, "optimizer", None)
    raise InputError(
        f"watcher.attach needs an optimizer of torch; got {type(optimizer).__name__}. "
        "Of other loops, call watcher.step() after each step."
    )
