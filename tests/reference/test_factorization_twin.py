"""The fast trainer against a plain PyTorch loop written step by step, and against Keras 3's own layers and optimizers.

The loop is the reference: autograd for the gradients, one tensor a weight, the equations of Keras's documentation in
the order in which they are printed there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fullspan.trainers.factorization import FactorizationTrainer, Setup

N_USERS, N_ITEMS, STEPS = 60, 90, 200

RULES = {
    "sgd": {"optimizer": "sgd"},
    "sgd-momentum": {"optimizer": "sgd", "momentum": 0.9},
    "sgd-nesterov": {"optimizer": "sgd", "momentum": 0.9, "nesterov": True},
    "sgd-decay": {"optimizer": "sgd", "weight_decay": 0.1},
    "adam": {"optimizer": "adam"},
    "adam-beta1-0": {"optimizer": "adam", "beta_1": 0.0},
    "adam-other": {"optimizer": "adam", "learning_rate": 0.003, "beta_1": 0.8, "beta_2": 0.99},
    "adamw": {"optimizer": "adamw", "weight_decay": 0.5},
    "adagrad": {"optimizer": "adagrad", "learning_rate": 0.1},
}


def ratings(n_rows: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Users and items of unequal frequency: some come twice in a batch, some not for hundreds of steps."""
    rng = np.random.default_rng(seed)
    users = (N_USERS * rng.random(n_rows) ** 2).astype(np.int64)
    items = (N_ITEMS * rng.random(n_rows) ** 3).astype(np.int64)
    labels = (rng.random(n_rows) < 0.3 + 0.4 * ((users + items) % 2)).astype(np.float32)
    return users, items, labels


class PlainLoop:
    """The reference twin."""

    def __init__(self, setup: Setup, trainer: FactorizationTrainer) -> None:
        self.setup, self.t = setup, 0
        start = [trainer.users, trainer.items, trainer.kernel, trainer.bias]
        self.weights = [torch.tensor(w, requires_grad=True) for w in start if w.size]
        first = 0.1 if setup.optimizer == "adagrad" else 0.0
        self.a = [torch.full_like(w, first) for w in self.weights]
        self.b = [torch.zeros_like(w) for w in self.weights]

    def loss(self, users: torch.Tensor, items: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        user, item = self.weights[0][users], self.weights[1][items]
        if self.setup.head == "dot":
            z = (user * item).sum(1)
        else:
            z = torch.cat([user, item], 1) @ self.weights[2] + self.weights[3]
        p = torch.clip(torch.sigmoid(z), 1e-7, 1 - 1e-7)
        return -(labels * torch.log(p) + (1 - labels) * torch.log(1 - p)).mean()

    def step(self, *batch: np.ndarray) -> float:
        loss = self.loss(*(torch.from_numpy(column) for column in batch))
        loss.backward()
        self.t += 1
        with torch.no_grad():
            for p, a, b in zip(self.weights, self.a, self.b, strict=True):
                self.update(p, p.grad, a, b)
                p.grad = None
        return loss.item()

    def update(self, p: torch.Tensor, g: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        s, lr = self.setup, self.setup.rate
        if s.decay:
            p -= p * s.decay * lr
        if s.optimizer == "sgd" and not s.momentum:
            p -= lr * g
        elif s.optimizer == "sgd":
            a.copy_(s.momentum * a - lr * g)
            p += s.momentum * a - lr * g if s.nesterov else a
        elif s.optimizer == "adagrad":
            a += g * g
            p -= lr * g / torch.sqrt(a + s.epsilon)
        else:
            a += (g - a) * (1 - s.beta_1)
            b += (g * g - b) * (1 - s.beta_2)
            alpha = lr * (1 - s.beta_2**self.t) ** 0.5 / (1 - s.beta_1**self.t)
            p -= alpha * a / (torch.sqrt(b) + s.epsilon)


def check_trajectory(setup: Setup, engine: str, steps: int = STEPS) -> None:
    """Both run for `steps` steps over two epochs; tables, head and loss are compared every tenth step."""
    per_epoch = steps // 2
    n_rows = (per_epoch - 1) * setup.batch_size + max(1, setup.batch_size // 2)  # the last batch is a partial one
    users, items, labels = ratings(n_rows)
    trainer = FactorizationTrainer(setup, engine)
    assert trainer.engine == engine
    twin = PlainLoop(setup, trainer)
    start = trainer.users.copy()
    worst = []
    for epoch in range(2):
        order = setup.order(epoch, n_rows)
        batches = [order[k : k + setup.batch_size] for k in range(0, n_rows, setup.batch_size)]
        losses = []

        def compare(trainer: FactorizationTrainer, batches=batches, losses=losses) -> None:
            while twin.t < trainer.steps:
                rows = batches[twin.t % per_epoch]
                losses.append(twin.step(users[rows], items[rows], labels[rows]) * len(rows))
            ours = [trainer.users, trainer.items, trainer.kernel, trainer.bias][: len(twin.weights)]
            worst.append(max(np.abs(w.detach().numpy() - o).max() for w, o in zip(twin.weights, ours, strict=True)))

        printed = trainer.fit_epoch(users, items, labels, every=10, on_steps=compare)
        assert printed == pytest.approx(sum(losses) / n_rows, abs=1e-6)
    assert trainer.steps == twin.t == steps
    assert len(worst) == steps // 10
    assert max(worst) < 1e-5
    assert np.abs(trainer.users - start).max() > 20 * max(worst)


@pytest.mark.parametrize("batch_size", [1, 8, 16, 32])
@pytest.mark.parametrize("rule", RULES)
def test_compiled_steps_equal_the_plain_loop(rule, batch_size):
    pytest.importorskip("numba")
    check_trajectory(Setup(N_USERS, N_ITEMS, batch_size=batch_size, **RULES[rule]), "numba")


@pytest.fixture(params=["late", "dense"])
def way(request, monkeypatch):
    """Adam's steps of the rows outside the batch made up for later, or each in its turn, whatever the sizes."""
    pytest.importorskip("numba")
    from fullspan.trainers.numba_engine import NumbaEngine

    monkeypatch.setattr(NumbaEngine, "late_from", 0.0 if request.param == "late" else float("inf"))
    return request.param


@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("head", ["concat", "dot"])
@pytest.mark.parametrize("rule", ["adam", "adam-beta1-0", "adam-other"])
def test_both_ways_of_adam_equal_the_plain_loop(way, rule, head, batch_size):
    check_trajectory(Setup(N_USERS, N_ITEMS, head=head, batch_size=batch_size, **RULES[rule]), "numba")


@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_tables_of_many_rows_equal_the_plain_loop(rule):
    """Of the sizes of MovieLens, where Adam at batch size 1 makes up for steps late without being told."""
    pytest.importorskip("numba")
    check_trajectory(Setup(943, 1682, batch_size=1, **RULES[rule]), "numba")


@pytest.mark.parametrize("batch_size", [1, 32])
@pytest.mark.parametrize("rule", RULES)
def test_torch_steps_equal_the_plain_loop(rule, batch_size):
    check_trajectory(Setup(N_USERS, N_ITEMS, batch_size=batch_size, **RULES[rule]), "torch", steps=60)


@pytest.mark.parametrize("engine", ["numba", "torch"])
@pytest.mark.parametrize("rule", ["sgd", "sgd-momentum", "adam", "adamw", "adagrad"])
@pytest.mark.parametrize("batch_size", [1, 8])
def test_the_dot_head_equals_the_plain_loop(rule, batch_size, engine):
    if engine == "numba":
        pytest.importorskip("numba")
    setup = Setup(N_USERS, N_ITEMS, head="dot", batch_size=batch_size, **RULES[rule])
    check_trajectory(setup, engine, steps=STEPS if engine == "numba" else 60)


@pytest.mark.parametrize("dim", [1, 4, 64])
@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_other_widths_equal_the_plain_loop(rule, dim):
    pytest.importorskip("numba")
    check_trajectory(Setup(N_USERS, N_ITEMS, dim=dim, batch_size=8, **RULES[rule]), "numba")


def test_the_twin_tells_adam_of_torch_from_adam_of_keras():
    """ε before or after the bias correction shows: the comparison above is sharp enough to see it."""
    from torch.optim.adam import adam

    constants = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-7}
    constants |= {"weight_decay": 0.0, "amsgrad": False, "maximize": False}
    users, items, labels = ratings(200 * 8)
    setup = Setup(N_USERS, N_ITEMS, head="dot", optimizer="adam", batch_size=8)
    twin = PlainLoop(setup, FactorizationTrainer(setup, "torch"))
    other = PlainLoop(setup, FactorizationTrainer(setup, "torch"))
    steps = [torch.tensor(0.0) for _ in other.weights]
    for k in range(0, len(users), 8):
        batch = users[k : k + 8], items[k : k + 8], labels[k : k + 8]
        twin.step(*batch)
        loss = other.loss(*(torch.from_numpy(column) for column in batch))
        gradients = list(torch.autograd.grad(loss, other.weights))
        with torch.no_grad():  # the function behind torch.optim.Adam, without the seconds that importing Dynamo takes
            adam(other.weights, gradients, other.a, other.b, [], steps, foreach=False, **constants)
    assert (twin.weights[0] - other.weights[0]).abs().max() > 1e-4


KERAS = """
    import json, sys
    import numpy as np
    import keras

    data, rules, results = np.load(sys.argv[1]), json.loads(sys.argv[3]), {}
    n_users, n_items, dim = len(data["start_users"]), len(data["start_items"]), data["start_users"].shape[1]
    for name, rule in rules.items():
        columns = [data[f"{name}/users"][:, None], data[f"{name}/items"][:, None]]
        labels = data[f"{name}/labels"]
        users, items = keras.Input((1,), dtype="int64"), keras.Input((1,), dtype="int64")
        layers = keras.layers.Embedding(n_users, dim), keras.layers.Embedding(n_items, dim)
        side_by_side = keras.layers.Concatenate()([layers[0](users), layers[1](items)])
        dense = keras.layers.Dense(1, activation="sigmoid")
        model = keras.Model([users, items], keras.layers.Reshape((1,))(dense(side_by_side)))
        results[f"{name}/limits"] = [abs(layer.get_weights()[0]).max() for layer in (*layers, dense)]
        layers[0].set_weights([data["start_users"]])
        layers[1].set_weights([data["start_items"]])
        dense.set_weights([data["start_kernel"][:, None], data["start_bias"]])
        model.compile(optimizer=keras.optimizers.get(rule), loss="binary_crossentropy", metrics=["accuracy"])
        history = model.fit(columns, labels, batch_size=32, epochs=1, shuffle=False, verbose=0)
        results[f"{name}/rate"] = float(model.optimizer.learning_rate)
        scores = model.evaluate(columns, labels, batch_size=len(labels), verbose=0)
        results[f"{name}/scores"] = [history.history["loss"][0], *scores]
        results[f"{name}/users"], results[f"{name}/items"] = layers[0].get_weights()[0], layers[1].get_weights()[0]
        results[f"{name}/kernel"], results[f"{name}/bias"] = dense.get_weights()[0][:, 0], dense.get_weights()[1]
    np.savez(sys.argv[2], **results)
"""

KERAS_RULES = {
    "sgd": ({"optimizer": "sgd"}, {"class_name": "SGD", "config": {}}),
    "adam": ({"optimizer": "adam"}, {"class_name": "Adam", "config": {}}),
    "nesterov": (
        {"optimizer": "sgd", "momentum": 0.9, "nesterov": True},
        {"class_name": "SGD", "config": {"momentum": 0.9, "nesterov": True}},
    ),
    "adamw": ({"optimizer": "adamw"}, {"class_name": "AdamW", "config": {}}),
    "adagrad": ({"optimizer": "adagrad"}, {"class_name": "Adagrad", "config": {}}),
}


def rows_of(name: str, columns: list[np.ndarray]) -> list[np.ndarray]:
    """All rows for the two optimizers that the article compares, a fifth for the others: Keras takes 5 ms a step."""
    return columns if name in ("sgd", "adam") else [column[: len(column) // 5] for column in columns]


def keras_epochs(folder: Path, setup: Setup, columns: list[np.ndarray]) -> dict[str, np.ndarray]:
    """One epoch of every rule in Keras 3 on the torch backend, in a process of its own; what each ended with."""
    ordered = {}
    for name in KERAS_RULES:
        rows = rows_of(name, columns)
        order = setup.order(0, len(rows[0]))
        parts = zip(("users", "items", "labels"), rows, strict=True)
        ordered |= {f"{name}/{part}": column[order] for part, column in parts}
    start = setup.parts(setup.initial())._asdict()
    np.savez(folder / "in.npz", **ordered, **{f"start_{name}": part for name, part in start.items()})
    command = [sys.executable, "-c", textwrap.dedent(KERAS), folder / "in.npz", folder / "out.npz"]
    rules = json.dumps({name: keras for name, (_, keras) in KERAS_RULES.items()})
    environment = os.environ | {"KERAS_BACKEND": "torch", "KERAS_HOME": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, rules], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with np.load(folder / "out.npz") as out:
        return dict(out)


def check_against_keras(folder: Path, setup: Setup, columns: list[np.ndarray]) -> dict[str, float]:
    """One epoch of every rule in both; the largest difference of a weight."""
    theirs, worst = keras_epochs(folder, setup, columns), {}
    for name, (ours, _) in KERAS_RULES.items():
        trainer = FactorizationTrainer(replace(setup, **ours))
        start = trainer.users.copy()
        loss = trainer.fit_epoch(*rows_of(name, columns))
        scores = trainer.evaluate(*rows_of(name, columns))
        parts = ("users", "items", "kernel", "bias")
        worst[name] = max(float(np.abs(getattr(trainer, part) - theirs[f"{name}/{part}"]).max()) for part in parts)
        assert worst[name] < 1e-4 < np.abs(trainer.users - start).max()
        assert [loss, scores["loss"], scores["accuracy"]] == pytest.approx(list(theirs[f"{name}/scores"]), abs=1e-4)
        assert theirs[f"{name}/rate"] == pytest.approx(trainer.setup.rate)
        for seen, limit in zip(theirs[f"{name}/limits"], (0.05, 0.05, (6 / (2 * setup.dim + 1)) ** 0.5), strict=True):
            assert 0.5 * limit < seen <= limit
    return worst


@pytest.mark.slow
def test_an_epoch_equals_keras(tmp_path):
    if importlib.util.find_spec("keras") is None:
        pytest.skip("Keras is not installed")
    check_against_keras(tmp_path, Setup(N_USERS, N_ITEMS, batch_size=32), list(ratings(10_007)))
