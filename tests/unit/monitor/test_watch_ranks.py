"""Several processes: one writes, all enter what may be a collective, at the same steps."""

from __future__ import annotations

import os
import socket

import numpy as np
import pytest

import fullspan as fs
from fullspan.errors import InputError
from fullspan.monitor.ranks import Ranks
from fullspan.store.runs import Run
from tests.unit.monitor.watching import steps, table

FEW = ["gini_index", "effective_rank"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run"


def test_other_ranks_write_nothing_and_enter_the_callables(path):
    calls = []

    def gathered():
        calls.append(1)
        return table()

    heard = []
    options = {"every": 2, "full": "epoch", "measures": FEW, "sinks": [lambda *told: heard.append(told)]}
    with fs.watch({"E": gathered, "F": table()}, path, rank=1, **options) as watcher:
        for _ in range(4):
            watcher.step(loss=1.0)
        watcher.epoch()
    assert not path.exists()
    assert not heard


def test_the_environment_says_which_process_this_is(path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with fs.watch({"E": table()}, path, measures=FEW) as watcher:
        watcher.step()
    assert not path.exists()
    with fs.watch({"E": table()}, path, rank=0, measures=FEW) as watcher:
        watcher.step()
    assert steps(path) == [1]


def test_clocks_of_several_processes_need_a_way_to_agree(path, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(
        InputError, match=r"watch needs torch.distributed to be initialized before every=\"auto\" or full"
    ):
        fs.watch({"E": table}, path)
    assert Ranks().several
    assert not Ranks().agreeing


_PROGRAM = """
import os, sys
import numpy as np, torch, torch.distributed as dist
import fullspan as fs
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
shard = torch.nn.Parameter(torch.randn(100, 4, generator=torch.Generator().manual_seed(rank)))
calls = 0

def gathered():
    global calls
    calls += 1
    parts = [torch.empty(100, 4) for _ in range(world)]
    dist.all_gather(parts, shard.data)
    return torch.cat(parts)

optimizer = torch.optim.SGD([shard], lr=0.1)
watcher = fs.watch({"E": gathered}, sys.argv[1], stop_on="warn", strict=True).attach(optimizer)
schedule = watcher._looks.schedule  # by their own clocks these two would never read at the same step
schedule.affords = lambda *kinds: rank == 0
schedule.pulse_due = lambda step: rank == 0
stopped = None
for step in range(400):
    shard.grad = -torch.full_like(shard, 10.0) if step >= 300 else torch.zeros_like(shard)
    optimizer.step()
    watcher.step(loss=float(rank))
    if step % 100 == 99:
        watcher.epoch()
    if watcher.should_stop:
        stopped = step + 1
        break
watcher.close()
told = [None] * world
dist.all_gather_object(told, (calls, stopped))
assert len(set(told)) == 1, told
if rank == 0:
    print(told[0])
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_collectives_meet_under_the_clock_of_rank_0(tmp_path):
    import subprocess
    import sys

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
        "OMP_NUM_THREADS": "1",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(tmp_path / "run")],
            env={**environment, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    told = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], told
    calls, stopped = eval(told[0][0])
    run = Run.open(tmp_path / "run")
    assert run.tables["E"].n_rows == 200
    assert calls >= 4
    assert stopped is not None
    loss = run.curve("", "loss")
    assert set(loss.value) == {0.0}  # those of rank 0 alone
    assert loss.step[-1] == stopped
    assert len(np.unique([point.at.step for point in run.points("E", "mean_norm")])) >= 3
