"""The compiled engine of the trainer: which kernel runs, and its arrays."""

from __future__ import annotations

import math
import time

import numpy as np

from fullspan._typing import Array
from fullspan.trainers.keras_rules import carry, step_sizes
from fullspan.trainers.numba_kernel import ADAGRAD, ADAM, MOMENTUM, NESTEROV, PLAIN, run_adam_late, run_every
from fullspan.trainers.setup import Setup

__all__ = ["NumbaEngine"]


class NumbaEngine:
    """Steps in machine code over the trainer's arrays; one thread.

    Adam moves every row at every step. Where a batch names few of the rows, the steps of the others are made up for
    when they are next read: bit for bit the same pushes, and none once they are too small to change a float32 weight.

    Parameters
    ----------
    setup
        The run.
    parameters
        Flat float32 vector, updated in place.
    slots
        One row an array that the optimizer keeps, each as long as `parameters`; updated in place.
    """

    name = "numba"
    #: Rows of the tables for each row of a batch from which on making up for steps late is faster: measured.
    late_from = 500.0

    def __init__(self, setup: Setup, parameters: Array, slots: Array) -> None:
        self.setup, self.parameters, self.slots = setup, parameters, slots
        self.gradient = np.zeros_like(parameters)
        self.rule = {"adam": ADAM, "adamw": ADAM, "adagrad": ADAGRAD}.get(setup.optimizer, PLAIN)
        if setup.momentum:
            self.rule = NESTEROV if setup.nesterov else MOMENTUM
        values = (setup.rate, setup.momentum, setup.beta_1, 1 - setup.beta_1, setup.beta_2, 1 - setup.beta_2)
        values += (setup.epsilon, 1 - setup.decay * setup.rate)
        self.constants = tuple(np.float32(value) for value in values)
        # The pushes of a row that is not seen must shrink from step to step: m has to fade faster than sqrt(v).
        fades = setup.beta_1 <= 0.95 * math.sqrt(setup.beta_2)
        many = setup.n_users + setup.n_items >= self.late_from * setup.batch_size
        self.late = self.rule == ADAM and not setup.decay and fades and many
        n_rows = setup.n_users + setup.n_items
        self._touched, self._shown, self._live = (
            np.zeros(n_rows, np.int64),
            np.zeros(n_rows, np.int64),
            np.ones(n_rows, bool),
        )

    def prepare(self) -> float:
        """Compile, or load what an earlier process compiled; the seconds that took."""
        start = time.perf_counter()
        self.run(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32), 0)
        return time.perf_counter() - start

    def settled(self, steps: int) -> Array:
        """The step of which the slots of each row are, ``(n_users + n_items,)``; `steps` have been done."""
        return self._touched.copy() if self.late else np.full_like(self._touched, steps)

    def settle(self, settled: Array, steps: int) -> None:
        """Take over slots that are as of those steps."""
        if self.late:
            self._touched[...], self._shown[...], self._live[...] = settled, steps, True
        else:
            carry(self.setup, self.slots, settled, steps)

    def run(self, users: Array, items: Array, labels: Array, steps_before: int) -> float:
        """Train on these rows in their order; the sum of the losses of the rows, each before its batch's step."""
        setup, concat = self.setup, self.setup.head == "concat"
        steps = -(-len(users) // setup.batch_size)
        alphas = step_sizes(setup.rate, setup.beta_1, setup.beta_2, steps_before + 1, steps)
        arrays = self.parameters, self.slots, self.gradient, users, items, labels, alphas
        sizes = setup.n_users, setup.dim, setup.batch_size, self.constants
        if self.late:
            return run_adam_late(concat, *arrays, *sizes, steps_before, (self._touched, self._shown, self._live))
        return run_every(self.rule, concat, *arrays, *sizes)
