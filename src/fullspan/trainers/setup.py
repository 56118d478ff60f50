"""What a factorization run is made of: sizes, head, optimizer, batch size, seed."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UnknownNameError, did_you_mean
from fullspan.trainers.keras_rules import DECAYS, EMBEDDING_LIMIT, OPTIMIZERS, RATES, draw, glorot_limit

__all__ = ["Parts", "Setup"]

HEADS = ("concat", "dot")


class Parts(NamedTuple):
    """Views of the flat parameter vector."""

    users: Array
    items: Array
    kernel: Array
    bias: Array


@dataclass(frozen=True)
class Setup:
    """A matrix factorization with a sigmoid output, and how it is trained. Defaults are those of Keras 3.

    Parameters
    ----------
    n_users, n_items
        Rows of the two embedding tables; ids run from 0.
    dim
        Width of both tables.
    head
        ``"concat"``: a dense layer of 2 * dim weights and a bias over the user's and the item's vector, side by side.
        ``"dot"``: their dot product, without weights of its own.
    optimizer
        ``"sgd"``, ``"adam"``, ``"adamw"`` or ``"adagrad"``, each by the equations of Keras.
    learning_rate
        None for Keras's default: 0.01 for SGD, 0.001 for the others.
    momentum, nesterov
        Of SGD only.
    beta_1, beta_2
        Decay of Adam's two moments.
    epsilon
        Added to sqrt(v) by Adam, to the accumulator by Adagrad.
    weight_decay
        Decoupled: every parameter is multiplied by ``1 - weight_decay * learning_rate`` before each step. None for
        Keras's default: 0.004 for AdamW, none for the others.
    batch_size
        Rows a step; the last batch of an epoch may be smaller.
    seed
        Of the first values and of the order of rows. It draws from NumPy's PCG64, seeded with ``[seed, stream]``:
        stream 0 the users' table, 1 the items', 2 the dense weights, and ``[seed, 3, epoch]`` the order of an epoch.
        Runs that differ in optimizer, batch size or head alone thus start from the same tables and see the same order.
    dtype
        ``"float32"``, as in Keras.

    Raises
    ------
    InputError
        A value is out of range, or has no effect on the chosen optimizer.
    UnknownNameError
        No such optimizer or head.

    Examples
    --------
    >>> setup = Setup(n_users=943, n_items=1682, optimizer="adam", batch_size=32)
    >>> setup.rate, setup.n_parameters
    (0.001, 21017)
    """

    n_users: int
    n_items: int
    dim: int = 8
    head: str = "concat"
    optimizer: str = "sgd"
    learning_rate: float | None = None
    momentum: float = 0.0
    nesterov: bool = False
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7
    weight_decay: float | None = None
    batch_size: int = 32
    seed: int = 0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        _known("head", self.head, HEADS)
        _known("optimizer", self.optimizer, OPTIMIZERS)
        for name in ("n_users", "n_items", "dim", "batch_size"):
            _whole(name, getattr(self, name), 1)
        _whole("seed", self.seed, 0)
        for name in ("momentum", "beta_1", "beta_2"):
            _number(name, getattr(self, name), "in [0, 1)", lambda value: 0 <= value < 1)
        _number("learning_rate", self.rate, "above 0", lambda value: value > 0)
        _number("epsilon", self.epsilon, "above 0", lambda value: value > 0)
        _number("weight_decay", self.decay, "of at least 0", lambda value: value >= 0)
        if self.momentum and self.optimizer != "sgd":
            raise InputError(
                f"Setup needs optimizer='sgd' for momentum; got {self.optimizer!r}. Adam's momentum is beta_1."
            )
        if self.nesterov and not self.momentum:
            raise InputError("Setup needs a momentum above 0 for nesterov; got 0. Without it both are plain SGD.")
        if self.dtype != "float32":
            raise InputError(f"Setup needs dtype 'float32'; got {self.dtype!r}. Keras trains in float32 by default.")

    @property
    def rate(self) -> float:
        """The learning rate, Keras's default where none was given."""
        return RATES[self.optimizer] if self.learning_rate is None else self.learning_rate

    @property
    def decay(self) -> float:
        """The weight decay, Keras's default where none was given."""
        return DECAYS[self.optimizer] if self.weight_decay is None else self.weight_decay

    @property
    def n_parameters(self) -> int:
        """Length of the flat parameter vector: both tables row by row, then the dense weights, then the bias."""
        return (self.n_users + self.n_items) * self.dim + (2 * self.dim + 1 if self.head == "concat" else 0)

    def resolved(self) -> dict[str, Any]:
        """All values as a plain dictionary, defaults filled in."""
        return dataclasses.asdict(self) | {"learning_rate": self.rate, "weight_decay": self.decay}

    def parts(self, flat: Array) -> Parts:
        """Views of a flat vector ``(n_parameters,)``: tables ``(n, dim)``, kernel ``(2 dim,)``, bias ``(1,)``.

        With the dot head, kernel and bias are empty.
        """
        users, both = self.n_users * self.dim, (self.n_users + self.n_items) * self.dim
        return Parts(
            flat[:users].reshape(self.n_users, self.dim),
            flat[users:both].reshape(self.n_items, self.dim),
            flat[both : both + 2 * self.dim],
            flat[both + 2 * self.dim :],
        )

    def initial(self) -> Array:
        """The first parameters: U(-0.05, 0.05) for the tables, Glorot's uniform for the kernel, zero for the bias."""
        flat = np.zeros(self.n_parameters, np.float32)
        parts = self.parts(flat)
        limits = (EMBEDDING_LIMIT, EMBEDDING_LIMIT, glorot_limit(2 * self.dim))
        for stream, (part, limit) in enumerate(zip(parts[:3], limits, strict=True)):
            part[...] = draw(self.seed, stream, limit, part.shape)
        return flat

    def order(self, epoch: int, n_rows: int) -> Array:
        """The order of the rows in an epoch (which counts from 0): a permutation of 0 … n_rows - 1."""
        return np.random.default_rng([self.seed, 3, epoch]).permutation(n_rows)


def _known(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise UnknownNameError(
            f"Setup needs {what} to be one of {', '.join(known)}; got {name!r}.{did_you_mean(str(name), known)}"
        )


def _whole(what: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"Setup needs {what} to be a whole number of at least {least}; got {value!r}.")


def _number(what: str, value: Any, wanted: str, fits: Any) -> None:
    if not isinstance(value, int | float | np.floating) or not math.isfinite(value) or not fits(value):
        raise InputError(f"Setup needs {what} to be a number {wanted}; got {value!r}.")
