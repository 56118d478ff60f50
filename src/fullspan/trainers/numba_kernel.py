"""The trainer's steps compiled: float32 throughout, one fused loop a step, the interpreter's lock released.

Two traps, together a factor of eight at batch size 1. A Python float among float32 operands promotes the whole loop to
float64; so every constant comes in as float32. And the moments of rows that have not been seen for long decay into
denormal numbers, on which a processor is a hundred times slower; so what is below 1e-30 becomes zero, a change that no
float32 weight can show. Only this module imports numba, and only the trainer imports this module.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from fullspan._typing import Array
from fullspan.trainers.keras_rules import HIGH, LOW, step_sizes
from fullspan.trainers.setup import Setup

__all__ = ["NumbaEngine"]

_ZERO, _ONE = np.float32(0), np.float32(1)
_TINY = np.float32(1e-30)
_PLAIN, _MOMENTUM, _NESTEROV, _ADAM, _ADAGRAD = range(5)


def _compiled(function: Callable[..., Any]) -> Any:
    """Compile on first use; keep the machine code between processes where there is a folder to keep it in."""
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError as error:
        warnings.warn(
            f"The trainer is compiled anew in this process, some seconds: {error}. "
            "Set NUMBA_CACHE_DIR to a folder that can be written to.",
            stacklevel=2,
        )
        return numba.njit(**options)(function)


@_compiled
def _gradients(parameters, gradient, users, items, labels, n_users, dim, concat):
    """Add the gradient of the batch's mean loss to `gradient`; the sum of the losses."""
    head = parameters.size - 2 * dim - 1
    share = _ONE / np.float32(users.size)
    total = 0.0
    for row in range(users.size):
        user, item = users[row] * dim, (n_users + items[row]) * dim
        logit = _ZERO
        if concat:
            for j in range(dim):
                logit += parameters[user + j] * parameters[head + j]
            for j in range(dim):
                logit += parameters[item + j] * parameters[head + dim + j]
            logit += parameters[head + 2 * dim]
        else:
            for j in range(dim):
                logit += parameters[user + j] * parameters[item + j]
        probability = _ONE / (_ONE + np.exp(-logit))
        clipped = min(max(probability, LOW), HIGH)
        total -= np.log(clipped if labels[row] > _ZERO else _ONE - clipped)
        if clipped != probability:
            continue
        slope = (probability - labels[row]) * share
        if concat:
            for j in range(dim):
                gradient[head + j] += slope * parameters[user + j]
                gradient[head + dim + j] += slope * parameters[item + j]
                gradient[user + j] += slope * parameters[head + j]
                gradient[item + j] += slope * parameters[head + dim + j]
            gradient[head + 2 * dim] += slope
        else:
            for j in range(dim):
                gradient[user + j] += slope * parameters[item + j]
                gradient[item + j] += slope * parameters[user + j]
    return total


@_compiled
def _sgd(p, g, start, stop, rate):
    for k in range(start, stop):
        p[k] -= rate * g[k]
        g[k] = _ZERO


@_compiled
def _adagrad(p, accumulator, g, start, stop, rate, epsilon):
    for k in range(start, stop):
        accumulator[k] += g[k] * g[k]
        p[k] -= rate * g[k] / np.sqrt(accumulator[k] + epsilon)
        g[k] = _ZERO


@_compiled
def _momentum(p, velocity, g, rate, momentum, nesterov):
    for k in range(p.size):
        push = rate * g[k]
        v = momentum * velocity[k] - push
        v = v if abs(v) >= _TINY else _ZERO
        velocity[k] = v
        p[k] += momentum * v - push if nesterov else v


@_compiled
def _adam(p, first, second, g, alpha, beta_1, rest_1, beta_2, rest_2, epsilon):
    for k in range(p.size):
        m = first[k] * beta_1 + g[k] * rest_1
        m = m if abs(m) >= _TINY else _ZERO
        v = second[k] * beta_2 + g[k] * g[k] * rest_2
        v = v if v >= _TINY else _ZERO
        first[k] = m
        second[k] = v
        p[k] -= m * alpha / (np.sqrt(v) + epsilon)


@_compiled
def _scale(p, factor):
    for k in range(p.size):
        p[k] *= factor


@_compiled
def _clear(g, start, stop):
    for k in range(start, stop):
        g[k] = _ZERO


@_compiled
def _touched(rule, p, slots, g, start, stop, rate, epsilon):
    """Update, where untouched parameters stay, and clear the gradient, so that a row named twice is updated once."""
    if rule == _PLAIN:
        _sgd(p, g, start, stop, rate)
    elif rule == _ADAGRAD:
        _adagrad(p, slots[0], g, start, stop, rate, epsilon)
    else:
        _clear(g, start, stop)


@_compiled
def _run(rule, concat, p, slots, g, users, items, labels, alphas, n_users, dim, size, constants):
    rate, momentum, beta_1, rest_1, beta_2, rest_2, epsilon, keep = constants
    total = 0.0
    tables = p.size - 2 * dim - 1 if concat else p.size
    for step in range(alphas.size):
        start = step * size
        stop = min(start + size, users.size)
        total += _gradients(p, g, users[start:stop], items[start:stop], labels[start:stop], n_users, dim, concat)
        if keep != _ONE:
            _scale(p, keep)
        if rule in (_MOMENTUM, _NESTEROV):
            _momentum(p, slots[0], g, rate, momentum, rule == _NESTEROV)
        elif rule == _ADAM:
            _adam(p, slots[0], slots[1], g, alphas[step], beta_1, rest_1, beta_2, rest_2, epsilon)
        for row in range(start, stop):
            user, item = users[row] * dim, (n_users + items[row]) * dim
            _touched(rule, p, slots, g, user, user + dim, rate, epsilon)
            _touched(rule, p, slots, g, item, item + dim, rate, epsilon)
        _touched(rule, p, slots, g, tables, p.size, rate, epsilon)
    return total


class NumbaEngine:
    """Steps in machine code over the trainer's arrays; one thread.

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

    def __init__(self, setup: Setup, parameters: Array, slots: Array) -> None:
        self.setup, self.parameters, self.slots = setup, parameters, slots
        self.gradient = np.zeros_like(parameters)
        self.rule = {"adam": _ADAM, "adamw": _ADAM, "adagrad": _ADAGRAD}.get(setup.optimizer, _PLAIN)
        if setup.momentum:
            self.rule = _NESTEROV if setup.nesterov else _MOMENTUM
        values = (setup.rate, setup.momentum, setup.beta_1, 1 - setup.beta_1, setup.beta_2, 1 - setup.beta_2)
        values += (setup.epsilon, 1 - setup.decay * setup.rate)
        self.constants = tuple(np.float32(value) for value in values)

    def prepare(self) -> float:
        """Compile, or load what an earlier process compiled; the seconds that took."""
        start = time.perf_counter()
        self.run(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32), 0)
        return time.perf_counter() - start

    def run(self, users: Array, items: Array, labels: Array, steps_before: int) -> float:
        """Train on these rows in their order; the sum of the losses of the rows, each before its batch's step."""
        setup = self.setup
        steps = -(-len(users) // setup.batch_size)
        alphas = step_sizes(setup.rate, setup.beta_1, setup.beta_2, steps_before + 1, steps)
        sizes = setup.n_users, setup.dim, setup.batch_size, self.constants
        concat = setup.head == "concat"
        return _run(self.rule, concat, self.parameters, self.slots, self.gradient, users, items, labels, alphas, *sizes)
