"""The callback of Lightning under a real trainer."""

from __future__ import annotations

import importlib
import pickle
import sys

import numpy as np
import pytest
import torch

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

pytestmark = [
    pytest.mark.slow,
    # Lightning's advice to a user: workers of the loader, logging intervals, folders that exist already.
    pytest.mark.filterwarnings("ignore::lightning.fabric.utilities.warnings.PossibleUserWarning"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists:UserWarning"),
    # Its own use of a pytree class that torch has renamed.
    pytest.mark.filterwarnings("ignore:.*LeafSpec.* is deprecated:FutureWarning"),
]
L = pytest.importorskip("lightning.pytorch")

import fullspan as fs  # noqa: E402 - after the framework, whose absence skips this file

QUIET = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "accelerator": "cpu"}
OPTIONS = {"every": 10, "full": "epoch", "measures": ["gini_index", "effective_rank"], "rules": False}


class Model(L.LightningModule):
    def __init__(self, optimizers=1):
        super().__init__()
        self.model = Factorization()
        self.n_optimizers = optimizers
        self.automatic_optimization = optimizers == 1
        self.losses = []

    def loss(self, batch):
        users, items, labels = batch
        return torch.nn.functional.binary_cross_entropy_with_logits(self.model(users, items), labels)

    def training_step(self, batch, index):
        loss = self.loss(batch)
        self.losses.append(float(loss.detach()))
        if self.automatic_optimization:
            return loss
        for optimizer in self.optimizers():
            optimizer.zero_grad()
        self.manual_backward(loss)
        for optimizer in self.optimizers():
            optimizer.step()
        return None

    def validation_step(self, batch, index):
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        if self.automatic_optimization:
            return torch.optim.Adam(self.parameters(), lr=0.01)
        return [torch.optim.SGD(table.parameters(), lr=0.1) for table in (self.model.users, self.model.items)]


def loader(n_batches):
    users, items, labels = map(torch.from_numpy, ratings(8 * n_batches))
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(users, items, labels), batch_size=8)


def trainer_of(tmp_path, *callbacks, **settings):
    return L.Trainer(default_root_dir=tmp_path, callbacks=list(callbacks), **{**QUIET, **settings})


def saver(tmp_path, every):
    return L.callbacks.ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=every, save_top_k=-1)


def tables_of(checkpoint):
    state = torch.load(checkpoint, weights_only=True)["state_dict"]
    return {name: state[name].numpy() for name in ("model.users.weight", "model.items.weight")}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """200 steps of four batches each: two epochs of 400 batches."""
    folder = tmp_path_factory.mktemp("lightning")
    model = Model()
    trainer = trainer_of(
        folder,
        fs.LightningWatcher(folder / "run", **OPTIONS),
        saver(folder, 50),
        max_epochs=2,
        accumulate_grad_batches=4,
    )
    trainer.fit(model, loader(400), loader(3))
    assert trainer.global_step == 200
    return folder, trainer, model


def test_values_equal_the_checkpoints_of_lightning(trained):
    folder, _, _ = trained
    with opened(folder / "run") as run:
        for step in (50, 100, 150, 200):
            assert_equals_checkpoint(run, step, tables_of(folder / f"step={step}.ckpt"))
        assert run.status == "finished"


def test_steps_are_optimizer_steps_and_epochs_and_samples_are_right(trained):
    folder, trainer, _ = trained
    with opened(folder / "run") as run:
        curve = run.curve("model.users.weight", "gini_index")
        assert set(range(10, 201, 10)) <= set(curve.step.tolist())
        assert curve.step[-1] == trainer.global_step
        at = {int(step): i for i, step in enumerate(curve.step)}
        assert (curve.epoch[at[100]], curve.epoch[at[200]]) == (1.0, 2.0)
        assert curve.samples[at[200]] == 200 * 4 * 8


def test_the_loss_is_the_mean_over_the_batches_of_a_step(trained):
    folder, _, model = trained
    with opened(folder / "run") as run:
        losses = run.curve("", "loss")
        held_out = run.curve("", "test_loss")
    assert losses.step.tolist()[-1] == 200
    means = np.reshape(model.losses, (-1, 4)).mean(1)
    for step, value in zip(losses.step, losses.value, strict=True):
        assert value == pytest.approx(means[int(step) - 1], rel=1e-5)
    assert held_out.step.tolist() == [100, 200]


def test_a_checkpoint_continues_the_run_with_one_curve(tmp_path):
    whole = trainer_of(tmp_path, fs.LightningWatcher(tmp_path / "run", **OPTIONS), saver(tmp_path, 20), max_epochs=2)
    whole.fit(Model(), loader(30))
    again = trainer_of(tmp_path, fs.LightningWatcher(tmp_path / "run", **OPTIONS), saver(tmp_path, 20), max_epochs=3)
    again.fit(Model(), loader(30), ckpt_path=tmp_path / "step=40.ckpt", weights_only=True)
    with opened(tmp_path / "run") as run:
        assert len(run.attempts) == 2
        steps = steps_of(run, "model.users.weight")
        assert steps == sorted(set(steps))
        assert set(range(10, 91, 10)) <= set(steps)
        curve = run.curve("model.users.weight", "gini_index")
        at = {int(step): i for i, step in enumerate(curve.step)}
        assert curve.samples[at[90]] == 90 * 8
        assert curve.epoch[at[90]] == 3.0
        assert_equals_checkpoint(run, 80, tables_of(tmp_path / "step=80.ckpt"))


def test_two_optimizers_make_two_steps_a_batch(tmp_path):
    trainer = trainer_of(tmp_path, fs.LightningWatcher(tmp_path / "run", **OPTIONS), max_epochs=1)
    trainer.fit(Model(optimizers=2), loader(10))
    with opened(tmp_path / "run") as run:
        assert trainer.global_step == 20
        assert steps_of(run, "model.users.weight")[-1] == 20


def test_an_epoch_cut_short_is_not_an_epoch(tmp_path):
    trainer = trainer_of(tmp_path, fs.LightningWatcher(tmp_path / "run", **OPTIONS), max_steps=15)
    trainer.fit(Model(), loader(10))
    with opened(tmp_path / "run") as run:
        epochs = run.curve("model.users.weight", "gini_index").epoch
        assert np.nanmax(epochs) < 2.0


def test_training_that_fails_is_a_failed_run(tmp_path):
    class Broken(Model):
        def training_step(self, batch, index):
            if index == 12:
                raise RuntimeError("out of memory")
            return super().training_step(batch, index)

    trainer = trainer_of(tmp_path, fs.LightningWatcher(tmp_path / "run", **OPTIONS), max_epochs=1)
    with pytest.raises(RuntimeError, match="out of memory"):
        trainer.fit(Broken(), loader(20))
    with opened(tmp_path / "run") as run:
        assert run.status == "failed"
        assert steps_of(run, "model.users.weight")[-1] == 10


def test_two_processes_write_one_run(tmp_path):
    callback = fs.LightningWatcher(tmp_path / "run", **OPTIONS)
    trainer = trainer_of(tmp_path, callback, max_epochs=1, devices=2, strategy="ddp_fork")
    trainer.fit(Model(), loader(40))
    with opened(tmp_path / "run") as run:
        assert len(run.attempts) == 1
        assert run.status == "finished"
        curve = run.curve("model.users.weight", "gini_index")
        assert curve.step.tolist()[-1] == 20
        assert curve.samples[-1] == 20 * 8 * 2


def test_gradients_are_read_where_they_are_asked_for(tmp_path):
    callback = fs.LightningWatcher(tmp_path / "run", gradients=True, **OPTIONS)
    trainer_of(tmp_path, callback, max_epochs=1, accumulate_grad_batches=2).fit(Model(), loader(40))
    with opened(tmp_path / "run") as run:
        assert len(run.curve("model.users.weight", "gradient_norm").value) == 2
        assert steps_of(run, "model.users.weight")[-1] == 20
        assert run.curve("", "loss").step.tolist() == list(range(1, 21))


@pytest.mark.parametrize("processes", [1, 2])
def test_a_rule_stops_training_on_all_processes(tmp_path, processes):
    options = {**OPTIONS, "measures": None, "rules": None, "stop_on": "fail"}
    callback = fs.LightningWatcher(tmp_path / "run", tables=collapsed_from(), **options)
    several = {"devices": 2, "strategy": "ddp_fork"} if processes == 2 else {}
    trainer_of(tmp_path, callback, max_epochs=1, **several).fit(Model(), loader(100))
    with opened(tmp_path / "run") as run:
        assert run.status == "stopped"
        assert run.curve("", "loss").step[-1] in (10, 20)


def test_tables_may_be_chosen_and_the_callback_pickled(tmp_path):
    callback = fs.LightningWatcher(tmp_path / "run", tables=only_items, **OPTIONS)
    trainer = trainer_of(tmp_path, pickle.loads(pickle.dumps(callback)), max_epochs=1)
    trainer.fit(Model(), loader(10))
    with opened(tmp_path / "run") as run:
        assert set(run.tables) == {"items"}


def only_items(module):
    return {"items": module.model.items.weight}


def test_an_unknown_option_is_an_error_at_once():
    with pytest.raises(UnknownNameError, match=r"LightningWatcher needs keywords of fullspan.watch; got 'evry'. Did"):
        fs.LightningWatcher("run", evry=10)


def test_the_old_name_of_lightning_serves_too(tmp_path, monkeypatch):
    old = pytest.importorskip("pytorch_lightning")
    assert issubclass(fs.LightningWatcher, L.Callback)
    for name in [name for name in sys.modules if name.partition(".")[0] == "lightning"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "lightning", None)
    monkeypatch.delitem(sys.modules, "fullspan.monitor.lightning")
    watcher = importlib.import_module("fullspan.monitor.lightning").LightningWatcher
    assert issubclass(watcher, old.Callback)

    class Old(old.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Factorization()

        def training_step(self, batch, index):
            return self.model(*batch[:2]).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    callback = watcher(tmp_path / "run", **OPTIONS)
    trainer = old.Trainer(default_root_dir=tmp_path, callbacks=[callback], max_epochs=1, **QUIET)
    trainer.fit(Old(), loader(20))
    with opened(tmp_path / "run") as run:
        assert steps_of(run, "model.users.weight")[-1] == 20


def test_the_example_of_the_docs_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_example("Lightning")
    assert "[" in capsys.readouterr().out
