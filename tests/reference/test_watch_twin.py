"""A training run watched, against the article's own formulas and a plain loop that keeps every weight."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fullspan as fs
from fullspan.store.runs import Run

N_USERS, N_ITEMS, DIM = 60, 90, 8


def gini(x):
    """The article's, for one vector."""
    x = np.abs(x.flatten()) + 1e-12
    n = len(x)
    cumulative = np.cumsum(np.sort(x))
    return (n + 1 - 2 * np.sum(cumulative) / cumulative[-1]) / n


def vector_entropy(x):
    x = np.abs(x.flatten()) + 1e-12
    p = x / np.sum(x)
    return -np.sum(p * np.log(p))


def hoyer_sparsity(x):
    x = np.abs(x.flatten())
    n = len(x)
    return (np.sqrt(n) - np.sum(x) / np.sqrt(np.sum(x**2))) / (np.sqrt(n) - 1)


def spectral_entropy(E):
    eigvals = np.clip(np.linalg.eigvalsh(np.cov(E, rowvar=False)), a_min=1e-12, a_max=None)
    p = eigvals / np.sum(eigvals)
    return -np.sum(p * np.log(p))


def article(E):
    E = E.astype(np.float64)
    return {
        "gini_index": np.mean([gini(row) for row in E]),
        "hoyer_sparsity": np.mean([hoyer_sparsity(row) for row in E]),
        "vector_entropy": np.mean([vector_entropy(row) for row in E]),
        "spectral_entropy": spectral_entropy(E),
    }


class Factorization(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.users = torch.nn.Embedding(N_USERS, DIM)
        self.items = torch.nn.Embedding(N_ITEMS, DIM)
        self.dense = torch.nn.Linear(2 * DIM, 1)

    def forward(self, users, items):
        return self.dense(torch.cat([self.users(users), self.items(items)], dim=1)).squeeze(1)

    def both(self):
        return torch.cat([self.users.weight, self.items.weight])


def train(model, optimizer, watcher, epochs=4, batches=5, accumulate=4):
    """Accumulation of 4; gives both tables as they were after each epoch and after each step."""
    generator = torch.Generator().manual_seed(1)
    ends, each = [], [model.both().detach().numpy().copy()]
    for _ in range(epochs):
        for _ in range(batches):
            optimizer.zero_grad()
            for _ in range(accumulate):
                users = torch.randint(0, N_USERS, (16,), generator=generator)
                items = torch.randint(0, N_ITEMS, (16,), generator=generator)
                labels = ((users + items) % 2).float()
                loss = torch.nn.functional.binary_cross_entropy_with_logits(model(users, items), labels)
                (loss / accumulate).backward()
                if watcher is not None:
                    watcher.step(loss=loss, samples=16)
            optimizer.step()
            each.append(model.both().detach().numpy().copy())
        ends.append(each[-1])
        if watcher is not None:
            watcher.epoch()
    return ends, each


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_the_four_measures_at_every_epoch_are_the_article_s(tmp_path, name):
    model = Factorization()
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.05)
    with fs.watch({"both": model.both}, tmp_path / "run", every=None, full="epoch").attach(optimizer) as watcher:
        ends, _ = train(model, optimizer, watcher)
    run = Run.open(tmp_path / "run")
    for measure in ("gini_index", "hoyer_sparsity", "vector_entropy", "spectral_entropy"):
        curve = run.curve("both", measure)
        found = dict(zip(curve.step.tolist(), curve.value, strict=True))
        for epoch, E in enumerate(ends, 1):
            assert found[5 * epoch] == pytest.approx(article(E)[measure], abs=1e-6)


def test_every_step_is_read_as_measure_reads_a_checkpoint_of_it(tmp_path):
    model = Factorization()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    with fs.watch(model, tmp_path / "run", every=1, full="epoch").attach(optimizer) as watcher:
        _, each = train(model, optimizer, watcher, epochs=2)
    run = Run.open(tmp_path / "run")
    assert run.curve("users.weight", "gini_index").step.tolist() == list(range(11))
    for table, rows in (("users.weight", slice(N_USERS)), ("items.weight", slice(N_USERS, None))):
        for step, E in enumerate(each):
            path = tmp_path / f"{step}.npy"
            np.save(path, E[rows])
            points = [point for point in run.points(table) if point.at.step == step]
            names = [point.measure for point in points if not point.measure.startswith(("gradient", "touched"))]
            report = fs.measure(path, measures=names)
            assert len(points) == (13 if step in (5, 10) else 12)
            for point in points:
                assert point.value == pytest.approx(report[point.measure].value, rel=1e-6, abs=1e-6)


def test_watching_changes_no_weight(tmp_path):
    plain, watched = Factorization(), Factorization()
    _, expected = train(plain, torch.optim.Adam(plain.parameters(), lr=0.05), None, epochs=2)
    optimizer = torch.optim.Adam(watched.parameters(), lr=0.05)
    with fs.watch(watched, tmp_path / "run", every=1, full="epoch", gradients=True).attach(optimizer) as watcher:
        _, found = train(watched, optimizer, watcher, epochs=2)
    assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))
