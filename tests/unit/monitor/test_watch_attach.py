"""Steps as the optimizer takes them: accumulation, loss scaling, several optimizers; and gradients before the step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fullspan as fs
from fullspan.errors import InputError
from fullspan.monitor.attach import Hooks
from fullspan.monitor.gradients import read_gradient
from fullspan.store.runs import Run
from tests.unit.monitor.watching import Slow, read, steps, table

FEW = ["gini_index", "effective_rank"]


class Model(torch.nn.Module):
    def __init__(self, sparse=False):
        super().__init__()
        torch.manual_seed(0)
        self.items = torch.nn.Embedding(50, 4, sparse=sparse)
        self.head = torch.nn.Linear(4, 1)

    def forward(self, ids):
        return self.head(self.items(ids)).square().mean()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def model():
    return Model()


def one_step(model, optimizer, seed=0, scaler=None):
    loss = model(torch.randint(0, 50, (8,), generator=torch.Generator().manual_seed(seed)))
    optimizer.zero_grad()
    (loss if scaler is None else scaler.scale(loss)).backward()
    if scaler is None:
        optimizer.step()
    else:
        scaler.step(optimizer)
        scaler.update()
    return loss


def test_readings_are_of_the_weights_after_each_step(path, model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    seen = [model.items.weight.detach().numpy().copy()]
    with fs.watch(model, path, every=1, measures=FEW).attach(optimizer) as watcher:
        for step in range(5):
            one_step(model, optimizer, step)
            seen.append(model.items.weight.detach().numpy().copy())
        assert watcher.steps == 5
    curve = Run.open(path).curve("items.weight", "effective_rank")
    assert curve.step.tolist() == [0, 1, 2, 3, 4, 5]
    assert curve.value == pytest.approx([read(E, "effective_rank") for E in seen], abs=1e-6)


def test_accumulated_batches_make_one_step(path, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with fs.watch(model, path, every=1, measures=FEW).attach(optimizer) as watcher:
        for batch in range(12):
            loss = model(torch.arange(8))
            loss.backward()
            watcher.step(loss=batch, samples=8)
            if batch % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
    assert steps(path, name="items.weight") == [0, 1, 2, 3]
    loss = Run.open(path).curve("", "loss")
    assert loss.step.tolist() == [0, 1, 2]  # the losses of the weights after 0, 1 and 2 steps
    assert loss.value == pytest.approx([1.5, 5.5, 9.5])
    assert Run.open(path).points("items.weight")[-1].at.samples == 96


def test_telling_steps_of_an_attached_optimizer_counts_none_twice(path, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with fs.watch(model, path, every=1, measures=FEW).attach(optimizer) as watcher:
        watcher.attach(optimizer)  # a second time is no second count
        for step in range(4):
            watcher.step(loss=one_step(model, optimizer, step))
        assert watcher.steps == 4
    assert Run.open(path).curve("", "loss").step.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("fused", [False, True])
def test_steps_that_a_scaler_skips_do_not_count(path, model, fused):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    watcher = fs.watch(model, path, every=1, measures=FEW).attach(optimizer)
    for step in range(6):
        if step in (2, 3):
            with torch.no_grad():
                model.head.bias += float("inf")
        one_step(model, optimizer, step, scaler)
        if step in (2, 3):
            with torch.no_grad():
                model.head.bias.zero_()
    assert watcher.steps == 4
    watcher.close()
    assert steps(path, name="items.weight") == [0, 1, 2, 3, 4]


def test_two_optimizers_count_as_one_and_are_read_when_both_have_stepped(path, model):
    first = torch.optim.SGD([model.head.weight, model.head.bias], lr=0.1)
    second = torch.optim.SGD([model.items.weight], lr=0.1)
    seen = []
    with fs.watch(model, path, every=1, measures=FEW).attach(first, second) as watcher:
        for step in range(3):
            model(torch.arange(8 + step)).backward()
            first.step()
            second.step()
            first.zero_grad()
            second.zero_grad()
            seen.append(read(model.items.weight.detach().numpy(), "effective_rank"))
        assert watcher.steps == 3
    curve = Run.open(path).curve("items.weight", "effective_rank")
    assert curve.step.tolist() == [0, 1, 2, 3]
    assert curve.value[1:] == pytest.approx(seen, abs=1e-6)


def test_optimizers_that_take_turns(path, model):
    often = torch.optim.SGD([model.items.weight], lr=0.1)
    rarely = torch.optim.SGD([model.head.weight], lr=0.1)
    seen = []
    with fs.watch(model, path, every=1, measures=FEW).attach(often, rarely) as watcher:
        for step in range(6):
            model(torch.arange(8 + step)).backward()
            often.step()
            seen.append(read(model.items.weight.detach().numpy(), "effective_rank"))
            if step % 3 == 2:
                rarely.step()
            often.zero_grad()
        assert watcher.steps == 6
    curve = Run.open(path).curve("items.weight", "effective_rank")
    assert curve.step.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert curve.value[1:] == pytest.approx(seen, abs=1e-6)


def test_hooks_come_off(path, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watcher = fs.watch(model, path, every=1, measures=FEW).attach(optimizer)
    one_step(model, optimizer)
    watcher.detach()
    one_step(model, optimizer)
    assert watcher.steps == 1
    watcher.step()
    assert watcher.steps == 2
    watcher.attach(optimizer)
    one_step(model, optimizer)
    assert watcher.steps == 3
    watcher.close()
    assert not optimizer._optimizer_step_post_hooks
    assert not optimizer._optimizer_step_pre_hooks
    assert steps(path, name="items.weight") == [0, 1, 2, 3]


def test_wrapped_optimizers_are_found(path, model):
    class Wrapper:
        def __init__(self, optimizer):
            self.optimizer = optimizer

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with fs.watch(model, path, measures=FEW).attach(Wrapper(Wrapper(optimizer))) as watcher:
        one_step(model, optimizer)
        assert watcher.steps == 1


def test_what_is_no_optimizer_is_refused(path, model):
    with (
        fs.watch(model, path, measures=FEW) as watcher,
        pytest.raises(
            InputError, match=r"watcher.attach needs an optimizer of torch; got Linear. Of other loops, call"
        ),
    ):
        watcher.attach(model.head)


def test_hooks_without_a_watcher_do_nothing(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hooks = Hooks()
    hooks.add(optimizer)
    one_step(model, optimizer)
    assert hooks.count() == hooks.taken == 1
    hooks.remove()
    assert hooks.count() == 1
    assert not hooks.attached


def test_losses_keep_no_graph(path, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watcher = fs.watch(model, path, measures=FEW).attach(optimizer)
    watcher.step(loss=one_step(model, optimizer))
    [given] = watcher._looks.scalars._given["loss"]
    assert given[1].grad_fn is None
    watcher.close()


@pytest.mark.parametrize("sparse", [False, True])
def test_gradients_are_those_before_the_step(path, sparse):
    model = Model(sparse)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected = []
    with fs.watch(model, path, every=2, gradients=True, measures=FEW).attach(optimizer):
        for step in range(6):
            loss = model(torch.tensor([1, 2, 3, step]))
            optimizer.zero_grad()
            loss.backward()
            G = model.items.weight.grad
            G = (G.to_dense() if sparse else G).numpy().astype(np.float64)
            lengths = np.linalg.norm(G, axis=1)
            expected.append((np.linalg.norm(G), np.linalg.norm(G.sum(0)) / lengths.sum(), (lengths > 0).mean()))
            optimizer.step()
            optimizer.zero_grad()
    run = Run.open(path)
    for name, column in zip(("gradient_norm", "gradient_zero_sum_ratio", "touched_row_share"), range(3), strict=True):
        curve = run.curve("items.weight", name)
        assert curve.step.tolist() == [2, 4, 6]
        assert curve.value == pytest.approx([expected[step - 1][column] for step in curve.step], rel=1e-5)


def test_gradients_of_a_loop_that_tells_its_steps(path, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with fs.watch(model, path, every=1, gradients=True, measures=FEW) as watcher:
        for step in range(3):
            one_step(model, optimizer, step)
            watcher.step()
    assert steps(path, "gradient_norm", "items.weight") == [2, 3]  # the first step begins the watch


def test_scaled_gradients_are_told_unscaled(path, model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    with fs.watch(model, path, every=1, gradients=True, measures=FEW).attach(optimizer):
        loss = model(torch.arange(8))
        scaler.scale(loss).backward()
        expected = float(model.items.weight.grad.norm()) / 2**10
        scaler.step(optimizer)
        scaler.update()
    assert Run.open(path).curve("items.weight", "gradient_norm").value == pytest.approx([expected], rel=1e-5)


def test_odd_gradients():
    cancels = torch.tensor([[1.0, 2.0], [-1.0, -2.0], [0.0, 0.0]])
    reading = read_gradient(cancels)
    assert reading.zero_sum_ratio == pytest.approx(0.0, abs=1e-7)
    assert reading.touched == pytest.approx(2 / 3)
    assert read_gradient(torch.ones(5, 2)).zero_sum_ratio == pytest.approx(1.0)
    assert read_gradient(torch.zeros(5, 2)) == (0.0, None, 0.0, "no row has a gradient")
    assert read_gradient(torch.full((5, 2), torch.nan)).why == "the gradient is not finite"
    huge = read_gradient(torch.full((100, 64), 300.0, dtype=torch.float16))
    assert huge.norm == pytest.approx(300 * 80, rel=1e-3)
    repeated = torch.sparse_coo_tensor(torch.tensor([[1, 1, 4]]), torch.ones(3, 2), (10, 2), check_invariants=True)
    assert read_gradient(repeated).norm == pytest.approx(np.sqrt(8 + 2))
    assert read_gradient(repeated).touched == pytest.approx(0.2)
    empty = torch.sparse_coo_tensor(
        torch.zeros(1, 0, dtype=torch.long), torch.zeros(0, 2), (10, 2), check_invariants=True
    )
    assert read_gradient(empty).touched == 0.0


def test_gradients_belong_to_the_step_they_are_told_of(path, monkeypatch):
    slow = Slow(monkeypatch, pulse=0.05, full=0.1)
    weight = torch.nn.Parameter(torch.from_numpy(table()))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    watcher = fs.watch({"E": weight}, path, gradients=True, measures=FEW).attach(optimizer)
    for step in range(1, 1000):
        slow.hands.pass_(0.1)
        weight.grad = torch.full_like(weight, float(step))
        optimizer.step()
        if step % 300 == 0:
            watcher.epoch()
    watcher.close()
    norms = Run.open(path).curve("E", "gradient_norm")
    assert len(norms.step) > 3
    assert norms.value == pytest.approx(norms.step * np.sqrt(800))


def test_arrays_have_no_gradients(path):
    E = table()
    with fs.watch({"E": E}, path, every=1, gradients=True, measures=FEW) as watcher:
        watcher.step()
        assert watcher.errors == ()
    assert steps(path, "gradient_norm") == []
