"""Matrix factorization trained step by step as Keras does, on one core, in compiled code where numba is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fullspan._extras import require
from fullspan._typing import Array
from fullspan.errors import InputError, MissingExtraError, UnknownNameError, did_you_mean
from fullspan.trainers.keras_rules import slot_values
from fullspan.trainers.scores import accuracy, binary_cross_entropy, rank_auc, sigmoid
from fullspan.trainers.setup import Setup

__all__ = ["FactorizationTrainer", "Setup"]

ENGINES = ("auto", "numba", "torch")


class FactorizationTrainer:
    """Trains user and item embeddings on binary labels, exactly as the Keras model of the same setup would be.

    The model is ``sigmoid([user, item] @ kernel + bias)``, or ``sigmoid(user @ item)`` with the dot head; the loss is
    Keras's binary cross-entropy from probabilities clipped to [1e-7, 1 - 1e-7]; the optimizers are those of Keras with
    dense moments, so that rows outside the batch move too. Rows are reshuffled every epoch, the last partial batch
    counts, and the optimizer's state is kept from epoch to epoch.

    Parameters
    ----------
    setup
        Sizes, head, optimizer, batch size and seed.
    engine
        ``"numba"`` (extra ``numba``) or ``"torch"`` (extra ``train``), which give the same weights up to rounding;
        ``"auto"`` takes numba where it can be imported, else torch. `engine` of the trainer says which it is, and
        `engine_reason` why.

    Attributes
    ----------
    users, items
        The embedding tables, float32 ``(n_users, dim)`` and ``(n_items, dim)``: live views, not copies, so that
        ``fs.watch({"user": lambda: trainer.users}, …)`` reads what is being trained.
    kernel, bias
        The dense layer, ``(2 * dim,)`` and ``(1,)``; empty with the dot head.
    epoch, steps
        Finished epochs and optimizer steps so far.

    Raises
    ------
    UnknownNameError
        No such engine.
    MissingExtraError
        The engine's package is not installed.

    Notes
    -----
    CPU time a step at 2,625 rows of 8 and batch size 1: 0.5 to 1 µs for SGD and 3 to 4 µs for Adam with numba, 200 to
    450 µs with torch. The first numba run on a machine compiles for some seconds; `prepare` does that ahead.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> users, items = rng.integers(0, 30, 500), rng.integers(0, 40, 500)
    >>> trainer = FactorizationTrainer(Setup(n_users=30, n_items=40, batch_size=8), engine="torch")
    >>> losses = [trainer.fit_epoch(users, items, items % 2) for _ in range(3)]
    >>> losses[-1] < losses[0], trainer.steps, trainer.users.shape
    (True, 189, (30, 8))
    """

    def __init__(self, setup: Setup, engine: str = "auto") -> None:
        self.setup = setup
        self._parameters = setup.initial()
        values = slot_values(setup.optimizer, setup.momentum)
        self._slots = np.repeat(np.array(values, np.float32)[:, None], len(self._parameters), axis=1)
        self.users, self.items, self.kernel, self.bias = setup.parts(self._parameters)
        self._engine, self.engine_reason = _engine(engine, setup, self._parameters, self._slots)
        self.epoch, self.steps = 0, 0
        self._position, self._loss_sum, self._rows = 0, 0.0, 0

    @property
    def engine(self) -> str:
        """``"numba"`` or ``"torch"``."""
        return self._engine.name

    def prepare(self) -> float:
        """Compile now, or load what was compiled before; the seconds that took (0 with torch)."""
        return self._engine.prepare()

    def fit_epoch(
        self,
        users: Any,
        items: Any,
        labels: Any,
        *,
        every: int | None = None,
        on_steps: Callable[[FactorizationTrainer], object] | None = None,
    ) -> float:
        """Train one epoch; the mean loss over its rows while it ran, as Keras prints it.

        Parameters
        ----------
        users, items
            Ids, whole numbers from 0, ``(n,)``.
        labels
            0 or 1 (or booleans), ``(n,)``.
        every
            Call `on_steps` after these many optimizer steps, again and again, and at the end of the epoch.
        on_steps
            Takes the trainer. An epoch that it ends by an exception, or that is resumed from a `state_dict` taken in
            it, goes on after the last finished step at the next call, with the same rows.

        Returns
        -------
        float
            Nats, above 0: the average of the batches' losses, each before its step, weighted by their rows.

        Raises
        ------
        InputError
            No rows, unequal lengths, ids out of range, labels other than 0 and 1, or other rows than those of the
            epoch that is to go on.

        Notes
        -----
        The order of the rows is ``setup.order(epoch, n)``. The numba engine releases the interpreter's lock.
        """
        columns = _columns("fit_epoch", self.setup, users, items, labels)
        n_rows = len(columns[0])
        if self._position and n_rows != self._rows:
            raise InputError(
                f"fit_epoch needs the {self._rows} rows of the epoch that it is in the middle of; got {n_rows}."
            )
        if every is not None and (isinstance(every, bool) or not isinstance(every, int | np.integer) or every < 1):
            raise InputError(f"fit_epoch needs every to be a whole number of at least 1; got {every!r}.")
        self._rows = n_rows
        order = self.setup.order(self.epoch, n_rows)
        return self._train([column[order] for column in columns], every, on_steps)

    def _train(self, columns: list[Array], every: int | None, on_steps: Callable[[Any], object] | None) -> float:
        size, n_rows = self.setup.batch_size, self._rows
        piece = n_rows if every is None else every * size
        loss = None
        while loss is None:
            rows = slice(self._position, min(self._position + piece, n_rows))
            self._loss_sum += self._engine.run(*(column[rows] for column in columns), self.steps)
            self.steps += -(-(rows.stop - rows.start) // size)
            self._position = rows.stop
            if rows.stop == n_rows:
                loss = self._loss_sum / n_rows
                self.epoch, self._position, self._loss_sum = self.epoch + 1, 0, 0.0
            if on_steps is not None:
                on_steps(self)
        return loss

    def predict(self, users: Any, items: Any) -> Array:
        """Probability of label 1, float32 ``(n,)``, for pairs of ids ``(n,)``."""
        users, items = _ids("predict", self.setup, users, items)
        left, right = self.users[users], self.items[items]
        if self.setup.head == "dot":
            return sigmoid((left * right).sum(axis=1))
        dim = self.setup.dim
        return sigmoid(left @ self.kernel[:dim] + right @ self.kernel[dim:] + self.bias)

    def evaluate(self, users: Any, items: Any, labels: Any) -> dict[str, float | None]:
        """Loss, accuracy and AUC on these rows, with the weights as they are.

        Parameters
        ----------
        users, items, labels
            As for `fit_epoch`.

        Returns
        -------
        dict
            ``"loss"``: mean binary cross-entropy in nats, clipped as in training, at least 1e-7. ``"accuracy"``: share
            of rows in [0, 1] whose probability is above 0.5 where the label is 1, and not where it is 0. ``"auc"``:
            exact area under the ROC curve in [0, 1], ties counted half, 0.5 by chance; None if all labels are equal.

        Raises
        ------
        InputError
            No rows, unequal lengths, ids out of range, labels other than 0 and 1.
        """
        users, items, labels = _columns("evaluate", self.setup, users, items, labels)
        probabilities = self.predict(users, items)
        return {
            "loss": binary_cross_entropy(labels, probabilities),
            "accuracy": accuracy(labels, probabilities),
            "auc": rank_auc(labels, probabilities),
        }

    def state_dict(self) -> dict[str, Any]:
        """All that training goes on from, copied: the setup, numbers, and three arrays.

        ``"parameters"`` holds the weights, ``"slots"`` what the optimizer keeps of each, and ``"settled"`` the step of
        which the slots of each row are: with Adam at small batches, they are brought up to date when the row is next
        seen.
        """
        return {
            "setup": self.setup.resolved(),
            "epoch": self.epoch,
            "steps": self.steps,
            "position": self._position,
            "rows": self._rows,
            "loss_sum": self._loss_sum,
            "parameters": self._parameters.copy(),
            "slots": self._slots.copy(),
            "settled": self._engine.settled(self.steps),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state_dict` of the same setup: with the same engine, bit for bit as if never interrupted.

        Raises
        ------
        InputError
            The state is of another setup, or incomplete.
        """
        missing = [key for key in self.state_dict() if key not in state]
        if missing:
            raise InputError(f"load_state_dict needs the keys of state_dict; got none named {', '.join(missing)}.")
        ours = self.setup.resolved()
        other = [f"{name}={value!r}" for name, value in state["setup"].items() if ours.get(name) != value]
        if other:
            raise InputError(f"load_state_dict needs the state of this trainer's setup; got {', '.join(other)}.")
        self._parameters[...] = state["parameters"]
        self._slots[...] = state["slots"]
        self.epoch, self.steps = int(state["epoch"]), int(state["steps"])
        self._position, self._rows = int(state["position"]), int(state["rows"])
        self._loss_sum = float(state["loss_sum"])
        self._engine.settle(np.asarray(state["settled"]), self.steps)


def _engine(name: str, setup: Setup, parameters: Array, slots: Array) -> tuple[Any, str]:
    """The engine over these arrays, and why this one."""
    if name not in ENGINES:
        raise UnknownNameError(
            f"FactorizationTrainer needs engine to be one of {', '.join(ENGINES)}; got {name!r}."
            f"{did_you_mean(str(name), ENGINES)}"
        )
    if name == "torch":
        return _torch(setup, parameters, slots), "asked for"
    try:
        require("numba", "numba", "FactorizationTrainer(engine='numba')")
    except MissingExtraError as error:
        if name == "numba":
            raise
        return _torch_instead(setup, parameters, slots), f"numba cannot be imported ({error.__cause__})"
    from fullspan.trainers.numba_engine import NumbaEngine

    return NumbaEngine(setup, parameters, slots), "asked for" if name == "numba" else "numba is installed"


def _torch(setup: Setup, parameters: Array, slots: Array) -> Any:
    from fullspan.trainers.torch_path import TorchEngine

    return TorchEngine(setup, parameters, slots)


def _torch_instead(setup: Setup, parameters: Array, slots: Array) -> Any:
    try:
        return _torch(setup, parameters, slots)
    except MissingExtraError as error:
        raise MissingExtraError(
            "FactorizationTrainer needs numba or torch; got neither. "
            'Install one with: pip install "fullspan[numba]" (fast) or pip install "fullspan[train]"'
        ) from error


def _columns(call: str, setup: Setup, users: Any, items: Any, labels: Any) -> tuple[Array, Array, Array]:
    """The three columns, checked, in the types of the engines."""
    users, items = _ids(call, setup, users, items)
    labels = np.asarray(labels)
    if labels.shape != users.shape:
        raise InputError(f"{call} needs one label a row; got {labels.shape} labels for {len(users)} rows.")
    if labels.dtype.kind not in "biuf" or not np.isin(labels, (0, 1)).all():
        raise InputError(f"{call} needs labels 0 and 1; got {_some_other(labels)}. Ratings become labels by: >= 4.")
    return users, items, labels.astype(np.float32)


def _some_other(labels: Array) -> str:
    if labels.dtype.kind not in "biuf":
        return f"values of type {labels.dtype}"
    return f"{labels[~np.isin(labels, (0, 1))][0]}"


def _ids(call: str, setup: Setup, users: Any, items: Any) -> tuple[Array, Array]:
    users, items = np.asarray(users), np.asarray(items)
    if users.ndim != 1 or users.shape != items.shape:
        raise InputError(f"{call} needs two columns of ids of one length; got {users.shape} and {items.shape}.")
    if not len(users):
        raise InputError(f"{call} needs at least one row; got none.")
    for what, ids, n in (("user", users, setup.n_users), ("item", items, setup.n_items)):
        if ids.dtype.kind not in "iu":
            raise InputError(
                f"{call} needs {what} ids that are whole numbers; got {ids.dtype}. Encode them as 0 … n-1."
            )
        if ids.min() < 0 or ids.max() >= n:
            raise InputError(
                f"{call} needs {what} ids from 0 to {n - 1}; got {ids.min()} to {ids.max()}. Were they encoded?"
            )
    return users.astype(np.int64), items.astype(np.int64)
