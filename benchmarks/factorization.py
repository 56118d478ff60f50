"""Steps of the factorization trainer against a plain PyTorch loop: ``python -m benchmarks.factorization [--grid]``.

Both sides train the same model on the same rows at batch size 1, alternately in one process on one thread; the table
gives CPU microseconds a step and the median of the ratios. The plain loop is what one would write: ``nn.Embedding``
twice, ``nn.Linear``, ``BCELoss`` and ``torch.optim`` (Adam fused, the faster of its forms). ``--grid`` trains the eight
cells of the MovieLens study for 20 epochs each on 80,000 rows of the same sizes and prints the CPU seconds of each.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from itertools import product

import numpy as np

from benchmarks.paired import Pair, one_thread, run
from fullspan.trainers.factorization import FactorizationTrainer, Setup

N_USERS, N_ITEMS, N_TRAIN, N_TEST = 943, 1682, 80_000, 20_000
STEPS = 1000


def ratings(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the sizes of MovieLens 100K, users and items of unequal frequency as there."""
    rng = np.random.default_rng(seed)
    users = (N_USERS * rng.random(n_rows) ** 1.7).astype(np.int64)
    items = (N_ITEMS * rng.random(n_rows) ** 2.5).astype(np.int64)
    return users, items, (rng.random(n_rows) < 0.55).astype(np.float32)


def plain_loop(optimizer: str, dim: int) -> Callable[[], None]:
    """Train `STEPS` steps of one row in plain PyTorch; goes on where the last call ended."""
    import torch
    from torch import nn

    users, items, labels = (torch.from_numpy(column) for column in ratings(STEPS))
    tables, dense = (nn.Embedding(N_USERS, dim), nn.Embedding(N_ITEMS, dim)), nn.Linear(2 * dim, 1)
    weights = [*tables[0].parameters(), *tables[1].parameters(), *dense.parameters()]
    form = torch.optim.SGD(weights, lr=0.01) if optimizer == "sgd" else torch.optim.Adam(weights, fused=True)
    loss_of = nn.BCELoss()

    def train() -> None:
        for k in range(STEPS):
            form.zero_grad()
            pair = torch.cat([tables[0](users[k : k + 1]), tables[1](items[k : k + 1])], dim=1)
            loss_of(torch.sigmoid(dense(pair))[:, 0], labels[k : k + 1]).backward()
            form.step()

    return train


def pairs() -> list[Pair]:
    """One pair an optimizer and width; the trainer compiles before the clock starts."""
    found = []
    for dim, optimizer in product((8, 64), ("sgd", "adam")):
        trainer = FactorizationTrainer(Setup(N_USERS, N_ITEMS, dim=dim, optimizer=optimizer, batch_size=1))
        print(f"dim {dim}, {optimizer}: engine {trainer.engine}, compiled or loaded in {trainer.prepare():.2f} s")
        rows = ratings(STEPS)
        found.append(
            Pair(
                f"{optimizer}, dim {dim}: step of one row (us)",
                lambda trainer=trainer, rows=rows: trainer.fit_epoch(*rows),
                plain_loop(optimizer, dim),
                at_least=15,
                units=STEPS,
            )
        )
    return found


def grid(dim: int) -> None:
    """CPU seconds of 20 epochs in each cell, evaluation and the article's four measures after every epoch included."""
    import fullspan as fs

    four = ["gini_index", "hoyer_sparsity", "vector_entropy", "spectral_entropy"]
    train, test = ratings(N_TRAIN), ratings(N_TEST, seed=1)
    print(f"{'cell':<16}{'steps':>9}{'us/step':>9}{'train s':>9}{'test s':>8}{'measures s':>11}")
    sums = np.zeros(3)
    for optimizer, size in product(("sgd", "adam"), (1, 8, 16, 32)):
        trainer, spent = FactorizationTrainer(Setup(N_USERS, N_ITEMS, dim, optimizer=optimizer, batch_size=size)), []
        trainer.prepare()
        for _ in range(20):
            marks = [time.process_time()]
            for work in (
                lambda trainer=trainer: trainer.fit_epoch(*train),
                lambda trainer=trainer: trainer.evaluate(*test),
                lambda trainer=trainer: fs.measure(
                    np.concatenate([trainer.users, trainer.items]), measures=four, standard_errors=False
                ),
            ):
                work()
                marks.append(time.process_time())
            spent.append(np.diff(marks))
        seconds = np.sum(spent, axis=0)
        sums += seconds
        micro = seconds[0] / trainer.steps * 1e6
        print(f"{optimizer:>5} batch {size:<4}{trainer.steps:>9}{micro:>9.2f}{seconds[0]:>9.2f}", end="")
        print(f"{seconds[1]:>8.2f}{seconds[2]:>11.2f}", flush=True)
    print(f"all cells: {sums[0]:.1f} s of training, {sums[1]:.1f} s of evaluation, {sums[2]:.1f} s of measures")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--grid", action="store_true", help="CPU seconds of the study's eight cells instead")
    parser.add_argument("--dim", type=int, default=8, help="width of the tables of --grid")
    options = parser.parse_args()
    one_thread()
    if options.grid:
        grid(options.dim)
        return 0
    results = [run(pair, options.repeats) for pair in pairs()]
    print(f"     {'CPU time a step':<44} {'ours':>10} {'torch':>10} {'ratio':>9}")
    for result in results:
        print(result.line())
    return 0 if all(result.ok for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
