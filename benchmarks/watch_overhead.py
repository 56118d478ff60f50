"""What watching costs: the same training with and without a watcher, ``python -m benchmarks.watch_overhead``.

Two processes train the same model, a 1,000,000 x 64 table with sparse gradients and SGD. They take turns, a block of
steps each, so that both see the same machine; the CPU time of each is its own. The share that the watcher reports of
itself stands beside what is seen from outside: watching is rare, so that its steps stand out from their neighbors. The
difference of the two sums tells less on a busy machine, where two equal programs differ by more than one percent.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROWS, DIM, BATCH = 1_000_000, 64, 4096


def training(dense: bool) -> tuple[Any, Any, Callable[[], Any]]:
    """A model, its optimizer, and a function that takes one step and gives the loss."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    table = torch.nn.Embedding(ROWS, DIM, sparse=not dense)
    head = torch.nn.Sequential(torch.nn.Linear(2 * DIM, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
    model = torch.nn.ModuleDict({"table": table, "head": head})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(1)

    def step() -> Any:
        ids = torch.randint(0, ROWS, (2, BATCH), generator=generator)
        loss = head(table(ids).permute(1, 0, 2).flatten(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def child(pipe: Connection, folder: str | None, settings: dict[str, Any]) -> None:
    """Train blocks of steps on demand; tell the CPU seconds of each."""
    model, optimizer, step = training(settings["dense"])
    for _ in range(5):
        step()
    pipe.send(None)
    watcher = None
    while (steps := pipe.recv()) is not None:
        spent = [time.process_time()]
        if folder is not None and watcher is None:
            from fullspan.monitor.watcher import watch

            watcher = watch(model, folder, budget=settings["budget"]).attach(optimizer)
        spent.append(time.process_time())
        for _ in range(steps):
            loss = step()
            if watcher is not None:
                watcher.step(loss=loss, samples=BATCH)
                if settings["epoch"] and watcher.steps % settings["epoch"] == 0:
                    watcher.epoch()
            spent.append(time.process_time())
        pipe.send([later - earlier for earlier, later in itertools.pairwise(spent)])
    start, told = time.process_time(), {}
    if watcher is not None:
        before = watcher.overhead
        watcher.close()
        told = {"before the end": before, "overhead": watcher.overhead, "seconds": watcher.costs}
    pipe.send((time.process_time() - start, told))


def excess(steps: list[float], around: int = 25) -> float:
    """What steps take above the median of their neighbors, summed: drift of the machine is left out."""
    medians = [statistics.median(steps[max(i - around, 0) : i + around + 1]) for i in range(len(steps))]
    return sum(step - median for step, median in zip(steps, medians, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0, help="CPU seconds of training without a watcher")
    parser.add_argument("--block", type=int, default=10, help="steps of a turn")
    parser.add_argument("--epoch", type=int, default=1000, help="steps of an epoch; 0 for none")
    parser.add_argument("--budget", type=float, default=0.01)
    parser.add_argument("--dense", action="store_true", help="dense gradients")
    chosen = parser.parse_args()
    settings = {"dense": chosen.dense, "budget": chosen.budget, "epoch": chosen.epoch}
    context = get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for place in (None, str(Path(folder) / "run")):
            ours, theirs = context.Pipe()
            process = context.Process(target=child, args=(theirs, place, settings))
            process.start()
            theirs.close()  # so that a child that dies is noticed
            ours.recv()
            pipes.append(ours)
            processes.append(process)
        plain, watched = [], []
        beginning = 0.0
        while sum(plain) < chosen.seconds:
            for pipe, spent in zip(pipes, (plain, watched), strict=True):
                pipe.send(chosen.block)
                made, *steps = pipe.recv()
                spent += steps
                beginning += made
        for pipe in pipes:
            pipe.send(None)
        (end_plain, _), (end, told) = (pipe.recv() for pipe in pipes)
        for process in processes:
            process.join()
    base = sum(plain)
    outside = (beginning + sum(watched) - base) / base
    above = (beginning + excess(watched) - excess(plain)) / base
    ordinary = statistics.median(watched) / statistics.median(plain) - 1
    print(f"{len(plain)} steps of {statistics.median(plain) * 1e3:.1f} ms, {base:.0f} s")
    print(f"self-measured, until the last step   {told['before the end']:.3%}")
    print(f"self-measured, with the last reading {told['overhead']:.3%}")
    print(f"from outside, until the last step    {above:.3%}  beginning, and what steps take above their neighbors")
    print(f"from outside, with the last reading  {above + (end - end_plain) / base:.3%}")
    print(f"difference of the two sums           {outside:.3%}  (ordinary steps differ by {ordinary:+.3%})")
    print("seconds by kind: " + ", ".join(f"{kind} {took:.3f}" for kind, took in told["seconds"].items()))
    return 0 if told["before the end"] <= chosen.budget else 1


if __name__ == "__main__":
    sys.exit(main())
