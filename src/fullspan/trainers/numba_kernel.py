"""The trainer's steps in machine code: float32 throughout, one fused loop a step, the interpreter's lock released.

Two traps, together a factor of eight at batch size 1. A Python float among float32 operands promotes the whole loop to
float64; so every constant comes in as float32. And the moments of rows that have not been seen for long decay into
denormal numbers, on which a processor is a hundred times slower; so what is below 1e-30 becomes zero, a change that no
float32 weight can show.

All compiled functions are in this one file: numba compiles one anew when its own file changes, not when a function that
it calls does. Only `numba_engine` imports this module.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from fullspan.trainers.keras_rules import HIGH, LOW

__all__ = ["ADAGRAD", "ADAM", "MOMENTUM", "NESTEROV", "PLAIN", "run_adam_late", "run_every"]

_ZERO, _ONE = np.float32(0), np.float32(1)
_TINY = np.float32(1e-30)
#: Half the distance to a float32's neighbor below is at least this share of it, halved again to be safe.
_INVISIBLE = np.float32(2.0**-26)
PLAIN, MOMENTUM, NESTEROV, ADAM, ADAGRAD = range(5)


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
    if rule == PLAIN:
        _sgd(p, g, start, stop, rate)
    elif rule == ADAGRAD:
        _adagrad(p, slots[0], g, start, stop, rate, epsilon)
    else:
        _clear(g, start, stop)


@_compiled
def _advance(row, to, p, slots, rows, alphas, before, constants, m, v):
    """Take the weights of a row to step `to`: its moments die out, and what they push the weights by with them.

    Stops where a push is too small to change the float32 weight: all that follow are smaller still. The moments that
    are kept stay those of the row's last batch, so that looking at the weights in between changes nothing.
    """
    touched, shown, live = rows
    beta_1, beta_2, epsilon = constants[2], constants[4], constants[6]
    if live[row]:
        dim = m.size
        place = row * dim
        weights = p[place : place + dim]
        first, second = slots[0, place : place + dim], slots[1, place : place + dim]
        for k in range(dim):
            m[k] = first[k]
            v[k] = second[k]
        for _ in range(touched[row], shown[row]):
            _fade(m, v, beta_1, beta_2)
        step = shown[row]
        while step < to and live[row]:
            stop = min(step + 16, to)
            _push(weights, m, v, alphas[step - before : stop - before], beta_1, beta_2, epsilon)
            step = stop
            live[row] = _visible(weights, m, v, alphas[step - before - 1], epsilon)
    shown[row] = to


@_compiled
def _push(weights, m, v, alphas, beta_1, beta_2, epsilon):
    for alpha in alphas:
        for k in range(m.size):
            faded = m[k] * beta_1
            faded = faded if abs(faded) >= _TINY else _ZERO
            m[k] = faded
            v[k] *= beta_2
            weights[k] -= faded * alpha / (np.sqrt(v[k]) + epsilon)


@_compiled
def _fade(m, v, beta_1, beta_2):
    for k in range(m.size):
        faded = m[k] * beta_1
        m[k] = faded if abs(faded) >= _TINY else _ZERO
        v[k] *= beta_2


@_compiled
def _visible(weights, m, v, alpha, epsilon):
    """Whether a push changes any of the weights."""
    count = 0
    for k in range(m.size):
        count += abs(m[k]) * alpha > abs(weights[k]) * _INVISIBLE * (np.sqrt(v[k]) + epsilon)
    return count > 0


@_compiled
def _touch(row, step, alpha, p, slots, g, rows, dim, constants):
    """Step of a row in the batch: its moments fade over the steps since it was last in one, then Adam's step."""
    touched, shown, live = rows
    if touched[row] == step:
        return
    gap = step - 1 - touched[row]
    _, _, beta_1, rest_1, beta_2, rest_2, epsilon, _ = constants
    fade_1 = np.float32(np.float64(beta_1) ** gap)
    fade_2 = np.float32(np.float64(beta_2) ** gap)
    this = slice(row * dim, row * dim + dim)
    first, second = slots[0, this], slots[1, this]
    for k in range(dim):
        m, v = first[k] * fade_1, second[k] * fade_2
        first[k] = m if abs(m) >= _TINY else _ZERO
        second[k] = v if v >= _TINY else _ZERO
    _adam(p[this], first, second, g[this], alpha, beta_1, rest_1, beta_2, rest_2, epsilon)
    _clear(g, this.start, this.stop)
    touched[row] = step
    shown[row] = step
    live[row] = True


@_compiled
def run_adam_late(concat, p, slots, g, users, items, labels, alphas, n_users, dim, size, constants, before, rows):
    """Dense Adam without weight decay, the steps of a row made up for when it is next read, or at the end.

    The weights are those of `run_every`, at a fraction of its work where a batch names few of the rows. `rows` says of
    each the step of its last batch, of which its `slots` are; the step of which its weights are; and whether its
    moments can still change them.
    """
    _, _, beta_1, rest_1, beta_2, rest_2, epsilon, _ = constants
    m, v = np.empty(dim, np.float32), np.empty(dim, np.float32)
    tables = rows[0].size * dim
    first, second = slots[0, tables:], slots[1, tables:]
    total = 0.0
    for index in range(alphas.size):
        start = index * size
        stop = min(start + size, users.size)
        step = before + index + 1
        for k in range(start, stop):
            _advance(users[k], step - 1, p, slots, rows, alphas, before, constants, m, v)
            _advance(n_users + items[k], step - 1, p, slots, rows, alphas, before, constants, m, v)
        total += _gradients(p, g, users[start:stop], items[start:stop], labels[start:stop], n_users, dim, concat)
        for k in range(start, stop):
            _touch(users[k], step, alphas[index], p, slots, g, rows, dim, constants)
            _touch(n_users + items[k], step, alphas[index], p, slots, g, rows, dim, constants)
        _adam(p[tables:], first, second, g[tables:], alphas[index], beta_1, rest_1, beta_2, rest_2, epsilon)
        _clear(g, tables, p.size)
    for row in range(rows[0].size):
        _advance(row, before + alphas.size, p, slots, rows, alphas, before, constants, m, v)
    return total


@_compiled
def run_every(rule, concat, p, slots, g, users, items, labels, alphas, n_users, dim, size, constants):
    """Steps of any rule, over all parameters where the rule moves them all; the sum of the rows' losses."""
    rate, momentum, beta_1, rest_1, beta_2, rest_2, epsilon, keep = constants
    total = 0.0
    tables = p.size - 2 * dim - 1 if concat else p.size
    for step in range(alphas.size):
        start = step * size
        stop = min(start + size, users.size)
        total += _gradients(p, g, users[start:stop], items[start:stop], labels[start:stop], n_users, dim, concat)
        if keep != _ONE:
            _scale(p, keep)
        if rule in (MOMENTUM, NESTEROV):
            _momentum(p, slots[0], g, rate, momentum, rule == NESTEROV)
        elif rule == ADAM:
            _adam(p, slots[0], slots[1], g, alphas[step], beta_1, rest_1, beta_2, rest_2, epsilon)
        for row in range(start, stop):
            user, item = users[row] * dim, (n_users + items[row]) * dim
            _touched(rule, p, slots, g, user, user + dim, rate, epsilon)
            _touched(rule, p, slots, g, item, item + dim, rate, epsilon)
        _touched(rule, p, slots, g, tables, p.size, rate, epsilon)
    return total
