"""What Keras 3 does by default: first values of the weights, optimizer constants, the loss's clip.

Keras's Adam adds ε to √v before the bias correction, which it folds into the step size α:
``p -= m * α / (sqrt(v) + ε)`` with ``α = rate * sqrt(1 - β₂ᵗ) / (1 - β₁ᵗ)``. ``torch.optim.Adam(eps=1e-7)`` corrects
v first and is another algorithm: rows whose gradients are small take longer steps there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fullspan._typing import Array

if TYPE_CHECKING:
    from fullspan.trainers.setup import Setup

__all__ = [
    "CLIP",
    "DECAYS",
    "HIGH",
    "LOW",
    "OPTIMIZERS",
    "RATES",
    "carry",
    "draw",
    "glorot_limit",
    "slot_values",
    "step_sizes",
]

OPTIMIZERS = ("sgd", "adam", "adamw", "adagrad")
#: Default learning rates of Keras.
RATES = {"sgd": 0.01, "adam": 0.001, "adamw": 0.001, "adagrad": 0.001}
#: Default weight decays: only AdamW has one.
DECAYS = {"sgd": 0.0, "adam": 0.0, "adamw": 0.004, "adagrad": 0.0}
#: Keras's ``backend.epsilon()``: probabilities are clipped to [CLIP, 1 - CLIP] before the logarithm.
CLIP = 1e-7
LOW, HIGH = np.float32(CLIP), np.float32(1 - CLIP)
#: ``RandomUniform(-0.05, 0.05)`` of an Embedding layer.
EMBEDDING_LIMIT = 0.05
#: Adagrad's accumulators start here.
ACCUMULATOR = 0.1


def glorot_limit(fan_in: int, fan_out: int = 1) -> float:
    """The bound of Glorot's uniform initializer: sqrt(6 / (fan_in + fan_out))."""
    return math.sqrt(6.0 / (fan_in + fan_out))


def draw(seed: int, stream: int, limit: float, shape: tuple[int, ...]) -> Array:
    """Uniform float32 values in [-limit, limit) from NumPy's PCG64, seeded with ``[seed, stream]``."""
    return np.random.default_rng([seed, stream]).uniform(-limit, limit, shape).astype(np.float32)


def slot_values(optimizer: str, momentum: float) -> tuple[float, ...]:
    """First value of each array that the optimizer keeps a parameter: moments, velocity or accumulator."""
    if optimizer in ("adam", "adamw"):
        return (0.0, 0.0)
    if optimizer == "adagrad":
        return (ACCUMULATOR,)
    return (0.0,) if momentum else ()


def step_sizes(rate: float, beta_1: float, beta_2: float, first_step: int, n_steps: int) -> Array:
    """Adam's α of `n_steps` steps from `first_step` (which counts from 1) on, in float32 as Keras computes it."""
    steps = np.arange(first_step, first_step + n_steps).astype(np.float32)
    one = np.float32(1)
    return (
        np.float32(rate)
        * np.sqrt(one - np.power(np.float32(beta_2), steps))
        / (one - np.power(np.float32(beta_1), steps))
    )


def carry(setup: Setup, slots: Array, settled: Array, steps: int) -> None:
    """Let Adam's moments of rows whose slots are as of an earlier step fade up to `steps`, in place."""
    gaps = np.repeat(steps - settled, setup.dim)
    for slot, beta in zip(slots, (setup.beta_1, setup.beta_2), strict=False):
        if gaps.any():
            slot[: len(gaps)] *= np.power(np.float64(np.float32(beta)), gaps).astype(np.float32)
