"""The callback of skorch under a real net. skorch makes one update a batch: it has no gradient accumulation."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

import fullspan as fs
from fullspan.errors import UnknownNameError
from tests.unit.monitor.hosts import (
    Factorization,
    assert_equals_checkpoint,
    collapsed_from,
    opened,
    ratings,
    run_example,
    steps_of,
)

pytestmark = pytest.mark.slow
skorch = pytest.importorskip("skorch")

OPTIONS = {"every": 10, "full": "epoch", "measures": ["gini_index", "effective_rank"], "rules": False}
TABLES = ("users.weight", "items.weight")


class Pairs(Factorization):
    """The module as skorch calls it: one array of pairs."""

    def forward(self, pairs):
        return super().forward(pairs[:, 0], pairs[:, 1])


def data(n_batches):
    users, items, labels = ratings(8 * n_batches)
    return np.stack([users, items], axis=1), labels


def net_of(*callbacks, **settings):
    usual = {"max_epochs": 2, "lr": 0.1, "batch_size": 8, "verbose": 0, "train_split": None, "device": "cpu"}
    return skorch.NeuralNet(
        Pairs, criterion=torch.nn.BCEWithLogitsLoss, callbacks=list(callbacks), **{**usual, **settings}
    )


def tables_of(checkpoint):
    state = torch.load(checkpoint, weights_only=True)
    return {name: state[name].numpy() for name in TABLES}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """200 steps in two epochs, with a split of held-out data."""
    folder = tmp_path_factory.mktemp("skorch")
    saver = skorch.callbacks.Checkpoint(monitor=None, f_params="{last_epoch[epoch]}.pt", dirname=str(folder))
    split = skorch.dataset.ValidSplit(5)
    net = net_of(fs.SkorchWatcher(folder / "run", **OPTIONS), saver, train_split=split)
    net.fit(*data(125))
    return folder, net


def test_values_equal_the_checkpoints_of_skorch(trained):
    folder, _ = trained
    with opened(folder / "run") as run:
        for epoch, step in ((1, 100), (2, 200)):
            assert_equals_checkpoint(run, step, tables_of(folder / f"{epoch}.pt"))
        assert run.status == "finished"


def test_steps_epochs_and_samples_are_right(trained):
    folder, net = trained
    assert sum("train_loss" in batch for epoch in net.history for batch in epoch["batches"]) == 200
    with opened(folder / "run") as run:
        curve = run.curve("users.weight", "gini_index")
    at = {int(step): i for i, step in enumerate(curve.step)}
    assert set(range(10, 201, 10)) <= set(at)
    assert max(at) == 200
    assert (curve.epoch[at[100]], curve.epoch[at[200]]) == (1.0, 2.0)
    assert curve.samples[at[200]] == 200 * 8


def test_losses_are_those_of_the_history(trained):
    folder, net = trained
    batches = [batch["train_loss"] for epoch in net.history for batch in epoch["batches"] if "train_loss" in batch]
    with opened(folder / "run") as run:
        curve = run.curve("", "loss")
        assert curve.value.tolist() == pytest.approx([batches[step - 1] for step in curve.step.tolist()])
        assert run.curve("", "test_loss").value.tolist() == pytest.approx(net.history[:, "valid_loss"])


def test_partial_fit_and_loaded_parameters_continue_the_run_with_one_curve(tmp_path):
    net = net_of(fs.SkorchWatcher(tmp_path / "run", **OPTIONS))
    net.fit(*data(20))
    net.save_params(tmp_path / "params.pt", tmp_path / "optimizer.pt", f_history=tmp_path / "history.json")
    net.partial_fit(*data(20))
    again = net_of(fs.SkorchWatcher(tmp_path / "run", **OPTIONS), max_epochs=3).initialize()
    again.load_params(tmp_path / "params.pt", tmp_path / "optimizer.pt", f_history=tmp_path / "history.json")
    again.partial_fit(*data(20))
    with opened(tmp_path / "run") as run:
        assert len(run.attempts) == 3
        steps = steps_of(run, "users.weight")
        assert steps == sorted(set(steps))
        assert set(range(10, 101, 10)) <= set(steps)
        assert run.curve("users.weight", "gini_index").epoch[steps.index(100)] == 5.0


def test_the_callback_is_cloned_and_set_as_scikit_learn_does(tmp_path):
    from sklearn.base import clone

    net = net_of(("watch", fs.SkorchWatcher(tmp_path / "run", **OPTIONS)), max_epochs=1)
    copy = clone(net)
    copy.set_params(callbacks__watch__every=5, callbacks__watch__tables=only_items)
    copy.fit(*data(10))
    with opened(tmp_path / "run") as run:
        assert set(run.tables) == {"items"}
        assert steps_of(run, "items") == [0, 5, 10]
    pickle.loads(pickle.dumps(copy))


def only_items(module):
    return {"items": module.items.weight}


def test_gradients_are_read_where_they_are_asked_for(tmp_path):
    net_of(fs.SkorchWatcher(tmp_path / "run", gradients=True, **OPTIONS), max_epochs=1).fit(*data(20))
    with opened(tmp_path / "run") as run:
        assert len(run.curve("users.weight", "gradient_norm").value) == 2
        assert run.curve("", "loss").step.tolist() == list(range(1, 21))


def test_a_rule_stops_training(tmp_path):
    options = {**OPTIONS, "measures": None, "rules": None, "stop_on": "fail"}
    net = net_of(fs.SkorchWatcher(tmp_path / "run", tables=collapsed_from(), **options))
    net.fit(*data(40))
    assert len(net.history[-1]["batches"]) in (10, 20)
    with opened(tmp_path / "run") as run:
        assert run.status == "stopped"


def test_an_unknown_option_is_an_error_at_once():
    with pytest.raises(UnknownNameError, match=r"SkorchWatcher needs keywords of fullspan.watch; got 'evry'"):
        fs.SkorchWatcher("run", evry=10)


def test_the_example_of_the_docs_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_example("skorch")
    assert "[" in capsys.readouterr().out
