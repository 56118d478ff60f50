"""The training that the demo watches: a small matrix factorization in NumPy, on ratings or on pairs of words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fullspan._typing import Array

__all__ = ["Pairs", "Trained", "movielens", "pairs", "train", "word_pairs"]

DIM, BATCH, EPOCHS, RATE = 8, 256, 6, 0.005
_N_WORDS, _N_PAIRS = 1_500, 80_000


@dataclass(frozen=True, eq=False)
class Pairs:
    """What the factorization learns from: a row of each table, and whether they go together.

    Parameters
    ----------
    about
        One line on where the pairs come from.
    names
        Of the two tables.
    left, right, labels
        One entry a pair, ``(n_pairs,)``: rows of the two tables, and 0 or 1.
    sizes
        Rows of the two tables.
    training, test
        Positions of the pairs that are learned from, and of those that are held out.
    """

    about: str
    names: tuple[str, str]
    left: Array
    right: Array
    labels: Array
    sizes: tuple[int, int]
    training: Array
    test: Array


def pairs() -> Pairs:
    """MovieLens where it is on this machine already; nothing is downloaded. Else pairs of the bundled words."""
    return movielens() or word_pairs()


def movielens() -> Pairs | None:
    """Who liked which movie, from ``FULLSPAN_DATA``, the cache or an installed package; None where none has it."""
    from fullspan.datasets.fetch import find
    from fullspan.datasets.movielens import SETS, load_movielens, split

    for name, known in SETS.items():
        if find(known.file, user="demo") is None:
            continue
        read = load_movielens(name)
        training, test = split(len(read))
        about = f"{known.title}; who gave 4 or more"
        sizes = (read.n_users, read.n_items)
        return Pairs(about, ("users", "items"), read.users, read.items, read.liked(), sizes, training, test)
    return None


def word_pairs(seed: int = 0) -> Pairs:
    """Which of two words are nearer to each other than most are, in the bundled table; frequent words come up more."""
    from fullspan.datasets.bundled import load_glove
    from fullspan.datasets.movielens import split

    glove = load_glove(_N_WORDS)
    units = glove.vectors / np.linalg.norm(glove.vectors, axis=1, keepdims=True)
    often = np.sqrt(glove.zipf_frequency.astype(np.float64))
    random = np.random.default_rng(seed)
    left, right = random.choice(_N_WORDS, (2, _N_PAIRS), p=often / often.sum())
    cosines = np.vecdot(units[left], units[right])
    labels = (cosines >= np.median(cosines)).astype(np.float32)
    about = f"{_N_PAIRS:,} pairs of the {_N_WORDS:,} most frequent GloVe words; which are nearer than half of them"
    return Pairs(about, ("left", "right"), left, right, labels, (_N_WORDS, _N_WORDS), *split(_N_PAIRS))


@dataclass(frozen=True)
class Trained:
    """What came of it: the run, its page, losses, and the share of the time that watching took."""

    run: Path
    page: Path
    losses: tuple[float, float]
    test_loss: float
    overhead: float
    findings: tuple[Any, ...]


class _Adam:
    """Adam with dense moments on one array."""

    def __init__(self, weights: Array) -> None:
        self.weights, self.step = weights, 0
        self.first, self.second = np.zeros_like(weights), np.zeros_like(weights)

    def take(self, gradient: Array) -> None:
        self.step += 1
        self.first += 0.1 * (gradient - self.first)
        self.second += 0.001 * (gradient * gradient - self.second)
        rate = RATE * np.sqrt(1 - 0.999**self.step) / (1 - 0.9**self.step)
        self.weights -= rate * self.first / (np.sqrt(self.second) + 1e-8)


class Factorization:
    """Probability that two rows go together: the sigmoid of their dot product and a bias."""

    def __init__(self, sizes: tuple[int, int], seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.left, self.right = (random.normal(0, 0.1, (size, DIM)).astype(np.float32) for size in sizes)
        self.bias = np.zeros(1, dtype=np.float32)
        self._optimizers = [_Adam(each) for each in (self.left, self.right, self.bias)]

    def loss(self, left: Array, right: Array, labels: Array) -> float:
        """Mean log loss of pairs."""
        scores = self._scores(left, right)
        return float(np.mean(np.logaddexp(0, scores) - labels * scores))

    def learn(self, left: Array, right: Array, labels: Array) -> float:
        """One step on a batch; its loss before it."""
        scores = self._scores(left, right)
        slope = ((1 / (1 + np.exp(-scores)) - labels) / len(labels)).astype(np.float32)
        gradients = [np.zeros_like(self.left), np.zeros_like(self.right), slope.sum(keepdims=True)]
        np.add.at(gradients[0], left, slope[:, None] * self.right[right])
        np.add.at(gradients[1], right, slope[:, None] * self.left[left])
        for optimizer, gradient in zip(self._optimizers, gradients, strict=True):
            optimizer.take(gradient)
        return float(np.mean(np.logaddexp(0, scores) - labels * scores))

    def _scores(self, left: Array, right: Array) -> Array:
        return np.vecdot(self.left[left], self.right[right]) + self.bias


def _batches(training: Array, random: np.random.Generator) -> Iterator[Array]:
    shuffled = random.permutation(training)
    for start in range(0, len(shuffled), BATCH):
        yield shuffled[start : start + BATCH]


def train(data: Pairs, folder: Path, epochs: int = EPOCHS, seed: int = 0) -> Trained:
    """Train on the pairs while the tables are watched, and write the page of the run."""
    from fullspan.monitor.watcher import watch

    model, random = Factorization(data.sizes, seed), np.random.default_rng(seed)
    tables = dict(zip(data.names, (model.left, model.right), strict=True))
    counts = dict(zip(data.names, _counts(data), strict=True))
    config = {"data": data.about, "dim": DIM, "batch_size": BATCH, "optimizer": "Adam", "learning_rate": RATE}
    run, means = folder / "run", []
    with watch(tables, run, every=None, full="epoch", frequencies=counts, config=config, seed=seed) as watcher:
        watcher.begin()
        for _ in range(epochs):
            losses = []
            for batch in _batches(data.training, random):
                losses.append(model.learn(data.left[batch], data.right[batch], data.labels[batch]))
                watcher.step(samples=len(batch))
            test_loss = model.loss(data.left[data.test], data.right[data.test], data.labels[data.test])
            means.append(float(np.mean(losses)))
            watcher.epoch(loss=means[-1], test_loss=test_loss)
    page = _page(run, folder / "run.html", counts)
    return Trained(run, page, (means[0], means[-1]), test_loss, watcher.overhead, tuple(watcher.findings))


def _counts(data: Pairs) -> tuple[Array, Array]:
    left, right = (
        np.bincount(rows[data.training], minlength=size)
        for rows, size in zip((data.left, data.right), data.sizes, strict=True)
    )
    return left, right


def _page(run: Path, path: Path, counts: dict[str, Array]) -> Path:
    from fullspan.monitor.projections import project
    from fullspan.report.run_page import write_run_page
    from fullspan.store.runs import open_run

    with open_run(run) as opened:
        maps = [project(opened, table, frequencies=often) for table, often in counts.items()]
        write_run_page(path, [opened], maps=maps, title="fullspan demo")
    return path
