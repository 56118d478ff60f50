"""The trainer's steps in torch: gradients by autograd, optimizers as Keras writes them, one step at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from fullspan._extras import require
from fullspan._typing import Array
from fullspan.trainers.keras_rules import CLIP, carry, step_sizes
from fullspan.trainers.setup import Setup

__all__ = ["TorchEngine"]


class TorchEngine:
    """Steps over tensors that share the memory of the trainer's arrays.

    Parameters
    ----------
    setup
        The run.
    parameters
        Flat float32 vector, updated in place.
    slots
        One row an array that the optimizer keeps, each as long as `parameters`; updated in place.
    """

    name = "torch"

    def __init__(self, setup: Setup, parameters: Array, slots: Array) -> None:
        self.torch: Any = require("torch", "train", "FactorizationTrainer(engine='torch')")
        self.setup, self._flat_slots = setup, slots
        tensor = self.torch.from_numpy
        self.weights = [tensor(part).requires_grad_() for part in setup.parts(parameters) if part.size]
        self.slots = [[tensor(part) for part in setup.parts(slot) if part.size] for slot in slots]

    def prepare(self) -> float:
        """Nothing to compile: 0 seconds."""
        return 0.0

    def settled(self, steps: int) -> Array:
        """The step of which the slots of each row are, ``(n_users + n_items,)``: all of `steps`."""
        return np.full(self.setup.n_users + self.setup.n_items, steps, np.int64)

    def settle(self, settled: Array, steps: int) -> None:
        """Take over slots that are as of those steps."""
        carry(self.setup, self._flat_slots, settled, steps)

    def run(self, users: Array, items: Array, labels: Array, steps_before: int) -> float:
        """Train on these rows in their order; the sum of the losses of the rows, each before its batch's step."""
        size = self.setup.batch_size
        alphas = step_sizes(
            self.setup.rate, self.setup.beta_1, self.setup.beta_2, steps_before + 1, -(-len(users) // size)
        )
        columns = [self.torch.from_numpy(column) for column in (users, items, labels)]
        total = 0.0
        for alpha, *batch in zip(alphas.tolist(), *(column.split(size) for column in columns), strict=True):
            loss = self._loss(*batch)
            gradients = self.torch.autograd.grad(loss, self.weights)
            with self.torch.no_grad():
                self._update(gradients, alpha)
            total += loss.item() * len(batch[0])
        return total

    def _loss(self, users: Any, items: Any, labels: Any) -> Any:
        functional, weights = self.torch.nn.functional, self.weights
        pair = [functional.embedding(users, weights[0]), functional.embedding(items, weights[1])]
        if self.setup.head == "concat":
            logits = self.torch.cat(pair, dim=1) @ weights[2] + weights[3]
        else:
            logits = (pair[0] * pair[1]).sum(dim=1)
        clipped = self.torch.sigmoid(logits).clip(CLIP, 1 - CLIP)
        return functional.binary_cross_entropy(clipped, labels)

    def _update(self, gradients: Any, alpha: float) -> None:
        for index, (weight, gradient) in enumerate(zip(self.weights, gradients, strict=True)):
            if self.setup.decay:
                weight.mul_(1 - self.setup.decay * self.setup.rate)
            slots = [slot[index] for slot in self.slots]
            getattr(self, f"_{self.setup.optimizer}")(weight, gradient, slots, alpha)

    def _sgd(self, weight: Any, gradient: Any, slots: list[Any], alpha: float) -> None:
        rate, momentum = self.setup.rate, self.setup.momentum
        if not slots:
            weight.sub_(gradient, alpha=rate)
            return
        velocity = slots[0].mul_(momentum).sub_(gradient, alpha=rate)
        if self.setup.nesterov:
            weight.add_(velocity, alpha=momentum).sub_(gradient, alpha=rate)
        else:
            weight.add_(velocity)

    def _adam(self, weight: Any, gradient: Any, slots: list[Any], alpha: float) -> None:
        setup, (first, second) = self.setup, slots
        first.mul_(setup.beta_1).add_(gradient, alpha=1 - setup.beta_1)
        second.mul_(setup.beta_2).addcmul_(gradient, gradient, value=1 - setup.beta_2)
        weight.addcdiv_(first, second.sqrt().add_(setup.epsilon), value=-alpha)

    _adamw = _adam

    def _adagrad(self, weight: Any, gradient: Any, slots: list[Any], alpha: float) -> None:
        accumulator = slots[0].addcmul_(gradient, gradient)
        weight.addcdiv_(gradient, (accumulator + self.setup.epsilon).sqrt_(), value=-self.setup.rate)
