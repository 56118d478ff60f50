"""Small models that learn at all rates of a grid at once: every weight has a leading axis of rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from fullspan._typing import Array

__all__ = ["BUDGET", "EVERY", "RATES", "Net", "fit", "rates_of"]

#: Learning rates, a factor of four apart.
RATES = {
    "sgd": tuple(4.0**k for k in range(-5, 5)),
    "adam": tuple(4.0**k for k in range(-7, 0)),
    "transformer": tuple(4.0**k for k in range(-4, 2)),
}
#: Steps of a run, rows a step, and steps between two looks at the validation rows.
BUDGET, BATCH, EVERY = 300, 64, 10
HIDDEN = 32
_MOMENTUM = 0.1


def rates_of(model: str, optimizer: str) -> tuple[float, ...]:
    """The rates that a model is tried at."""
    return RATES["transformer" if model == "transformer" else optimizer]


class Net:
    """Linear model or MLP on mean vectors, or one block of a transformer on word vectors.

    Parameters
    ----------
    model
        ``"linear"``, ``"mlp"`` or ``"transformer"``.
    dim, classes, rates
        Sizes; `rates` copies start from the same weights.
    layer
        ``"none"``, or ``"batch-norm"`` behind the embeddings (trained scale and shift, running statistics).
    """

    def __init__(self, model: str, dim: int, classes: int, rates: int, layer: str, seed: int) -> None:
        self.model, self.layer = model, layer
        draw = torch.Generator().manual_seed(seed)
        shapes = {"linear": {"out": (dim, classes)}, "mlp": {"in": (dim, HIDDEN), "out": (HIDDEN, classes)}}.get(
            model, {"q": (dim, dim), "k": (dim, dim), "v": (dim, dim), "in": (dim, HIDDEN), "out": (HIDDEN, classes)}
        )
        self.weights: dict[str, torch.Tensor] = {}
        for name, (a, b) in shapes.items():
            drawn = torch.randn(a, b, generator=draw) / math.sqrt(a)
            self.weights[name] = drawn.repeat(rates, 1, 1)
            if name in ("in", "out"):
                self.weights[f"{name}_bias"] = torch.zeros(rates, 1, b)
        if layer == "batch-norm":
            self.weights |= {"scale": torch.ones(rates, 1, dim), "shift": torch.zeros(rates, 1, dim)}
        self.mean, self.variance = torch.zeros(dim), torch.ones(dim)
        for weight in self.weights.values():
            weight.requires_grad_(True)

    def __call__(self, x: torch.Tensor, mask: torch.Tensor | None, training: bool) -> torch.Tensor:
        w = self.weights
        flat = x.reshape(-1, x.shape[-1]) if mask is None else x[mask]
        if self.layer == "batch-norm":
            x = self._normalized(x, flat, training)
        rates = len(w["out"])
        x = x.expand(rates, *x.shape)
        if self.layer == "batch-norm":
            extra = (1,) * (x.ndim - 3)
            x = x * w["scale"].reshape(rates, 1, *extra, -1) + w["shift"].reshape(rates, 1, *extra, -1)
        if mask is not None:
            x = self._attended(x, mask)
        if "in" in w:
            x = torch.relu(x @ w["in"] + w["in_bias"])
        return x @ w["out"] + w["out_bias"]

    def _normalized(self, x: torch.Tensor, flat: torch.Tensor, training: bool) -> torch.Tensor:
        if training:
            mean, variance = flat.mean(0), flat.var(0, unbiased=False)
            self.mean = (1 - _MOMENTUM) * self.mean + _MOMENTUM * mean
            self.variance = (1 - _MOMENTUM) * self.variance + _MOMENTUM * variance
        else:
            mean, variance = self.mean, self.variance
        return (x - mean) / torch.sqrt(variance + 1e-5)

    def _attended(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """One head of attention, a skip, and the mean over the words that are there."""
        w = self.weights
        rates, n, length, dim = x.shape
        q, k, v = ((x.reshape(rates, n * length, dim) @ w[name]).reshape(x.shape) for name in "qkv")
        heat = (q @ k.transpose(-1, -2)) / math.sqrt(dim)
        heat = torch.softmax(heat.masked_fill(~mask[None, :, None, :], -1e9), -1)
        held = mask[None, :, :, None]
        return ((x + heat @ v) * held).sum(2) / held.sum(2)


def fit(
    net: Net, parts: Mapping[str, tuple[Array, Array | None, Array]], optimizer: str, seed: int, budget: int = BUDGET
) -> dict[str, Any]:
    """Train at every rate; look at the validation rows every few steps.

    Parameters
    ----------
    net
        With as many copies as :func:`rates_of` gives rates.
    parts
        ``train``, ``validation``, ``test``: vectors, mask of the words that are there (or None), labels.

    Returns
    -------
    dict
        ``steps``; ``loss`` and ``accuracy`` of validation, each ``(points, rates)``; ``test``, the accuracy there at
        the end, and ``rough``, the standard deviation of the change of the training loss from step to step over its
        last third, each ``(rates,)``. What diverged is NaN.
    """
    held = {
        name: (torch.from_numpy(x), None if m is None else torch.from_numpy(m), torch.from_numpy(y))
        for name, (x, m, y) in parts.items()
    }
    rates = torch.tensor(rates_of(net.model, optimizer))[:, None, None]
    order = np.random.default_rng([seed, 7])
    state: dict[str, Any] = {name: (torch.zeros_like(w), torch.zeros_like(w)) for name, w in net.weights.items()}
    points: list[tuple[int, Array, Array]] = [(0, *_look(net, held["validation"]))]
    losses = []
    x, mask, y = held["train"]
    for step in range(1, budget + 1):
        rows = torch.from_numpy(order.integers(0, len(x), BATCH if mask is None else BATCH // 2))
        each = _losses(net(x[rows], None if mask is None else mask[rows], True), y[rows])
        losses.append(each.detach().numpy())
        gradients = torch.autograd.grad(each.sum(), list(net.weights.values()))
        with torch.no_grad():
            for (name, weight), gradient in zip(net.weights.items(), gradients, strict=True):
                weight -= rates * _direction(gradient, state[name], optimizer, step)
        if step % (EVERY if mask is None else 2 * EVERY) == 0:
            points.append((step, *_look(net, held["validation"])))
    rough = np.diff(np.array(losses)[-budget // 3 :], axis=0).std(0)
    steps, loss, accuracy = zip(*points, strict=True)
    test = _look(net, held["test"])[1]
    return {"steps": list(steps), "loss": np.array(loss), "accuracy": np.array(accuracy), "test": test, "rough": rough}


def _direction(gradient: torch.Tensor, state: Any, optimizer: str, step: int) -> torch.Tensor:
    if optimizer == "sgd":
        return gradient
    first, second = state
    first.mul_(0.9).add_(gradient, alpha=0.1)
    second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    return (first / (1 - 0.9**step)) / (torch.sqrt(second / (1 - 0.999**step)) + 1e-8)


def _losses(scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy of each rate."""
    logs = torch.log_softmax(scores, -1)
    return -logs[:, torch.arange(len(y)), y].mean(1)


def _look(net: Net, part: Any) -> tuple[Array, Array]:
    x, mask, y = part
    with torch.no_grad():
        scores = net(x, mask, False)
        return _losses(scores, y).numpy(), (scores.argmax(-1) == y).float().mean(1).numpy()
