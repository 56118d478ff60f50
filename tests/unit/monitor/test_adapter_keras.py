"""The callback of Keras 3 under ``model.fit``, on the torch backend."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import fullspan as fs
from fullspan.errors import UnknownNameError
from tests.unit.monitor.hosts import (
    DIM,
    N_ITEMS,
    N_USERS,
    assert_equals_checkpoint,
    collapsed_from,
    opened,
    ratings,
    run_example,
    steps_of,
)

pytestmark = [
    pytest.mark.slow,
    # When Keras saves its own variables.
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"),
]
keras = pytest.importorskip("keras")

OPTIONS = {"every": 10, "full": "epoch", "measures": ["gini_index", "effective_rank"], "rules": False}


def factorization(accumulate=None):
    keras.utils.set_random_seed(0)
    users, items = keras.Input((), dtype="int32"), keras.Input((), dtype="int32")
    tables = [keras.layers.Embedding(n, DIM, name=name) for n, name in ((N_USERS, "users"), (N_ITEMS, "items"))]
    joined = keras.layers.Concatenate()([table(ids) for table, ids in zip(tables, (users, items), strict=True)])
    model = keras.Model([users, items], keras.layers.Dense(1, activation="sigmoid")(joined))
    model.compile(keras.optimizers.Adam(0.01, gradient_accumulation_steps=accumulate), "binary_crossentropy")
    return model


def fit(model, n_batches, *callbacks, **settings):
    users, items, labels = ratings(8 * n_batches)
    return model.fit([users, items], labels, batch_size=8, verbose=0, callbacks=list(callbacks), **settings)


def tables_of(checkpoint):
    model = keras.models.load_model(checkpoint)
    return {name: np.array(model.get_layer(name).get_weights()[0]) for name in ("users", "items")}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """200 steps of four batches each: two epochs of 400 batches."""
    folder = tmp_path_factory.mktemp("keras")
    model = factorization(accumulate=4)
    saver = keras.callbacks.ModelCheckpoint(str(folder / "epoch={epoch}.keras"))
    held_out = [array[:16] for array in ratings(16, seed=1)]
    history = fit(
        model,
        400,
        fs.KerasWatcher(folder / "run", **OPTIONS),
        saver,
        epochs=2,
        validation_data=(held_out[:2], held_out[2]),
    )
    assert int(model.optimizer.iterations) == 200
    return folder, history.history


def test_values_equal_the_checkpoints_of_keras(trained):
    folder, _ = trained
    with opened(folder / "run") as run:
        for epoch, step in ((1, 100), (2, 200)):
            assert_equals_checkpoint(run, step, tables_of(folder / f"epoch={epoch}.keras"))
        assert run.status == "finished"


def test_steps_are_updates_of_the_optimizer_and_epochs_are_right(trained):
    folder, _ = trained
    with opened(folder / "run") as run:
        curve = run.curve("users", "gini_index")
    at = {int(step): i for i, step in enumerate(curve.step)}
    assert set(range(10, 201, 10)) <= set(at)
    assert max(at) == 200
    assert (curve.epoch[at[100]], curve.epoch[at[200]]) == (1.0, 2.0)


def test_losses_of_an_epoch_are_those_that_keras_prints(trained):
    folder, history = trained
    with opened(folder / "run") as run:
        for name, stored in (("loss", "loss"), ("val_loss", "test_loss")):
            curve = run.curve("", stored)
            at = dict(zip(curve.step.tolist(), curve.value.tolist(), strict=True))
            assert [at[100], at[200]] == pytest.approx(history[name])


def test_a_saved_model_continues_the_run_with_one_curve(tmp_path):
    first = factorization()
    saver = keras.callbacks.ModelCheckpoint(str(tmp_path / "epoch={epoch}.keras"))
    fit(first, 20, fs.KerasWatcher(tmp_path / "run", **OPTIONS), saver, epochs=3)
    again = keras.models.load_model(tmp_path / "epoch=2.keras")
    fit(again, 20, fs.KerasWatcher(tmp_path / "run", **OPTIONS), epochs=4, initial_epoch=2)
    with opened(tmp_path / "run") as run:
        assert len(run.attempts) == 2
        steps = steps_of(run, "users")
        assert steps == sorted(set(steps))
        assert set(range(10, 81, 10)) <= set(steps)
        assert run.curve("users", "gini_index").epoch[steps.index(80)] == 4.0


def test_layers_inside_layers_are_found_and_shared_ones_once(tmp_path):
    keras.utils.set_random_seed(0)
    shared = keras.layers.Embedding(N_USERS, DIM, name="shared")
    inner = keras.Sequential([keras.layers.Embedding(N_ITEMS, DIM, name="deep")], name="inner")
    users, items = keras.Input((), dtype="int32"), keras.Input((), dtype="int32")
    joined = keras.layers.Concatenate()([shared(users), shared(items), inner(items)])
    model = keras.Model([users, items], keras.layers.Dense(1)(joined))
    model.compile("sgd", "mse")
    fit(model, 10, fs.KerasWatcher(tmp_path / "run", **OPTIONS))
    with opened(tmp_path / "run") as run:
        assert sorted(name.rpartition("/")[2] for name in run.tables) == ["deep", "shared"]


def test_a_model_that_is_built_by_its_first_batch(tmp_path):
    class Late(keras.Model):
        def __init__(self):
            super().__init__()
            self.users, self.items = keras.layers.Embedding(N_USERS, DIM), keras.layers.Embedding(N_ITEMS, DIM)

        def call(self, inputs):
            return keras.ops.sum(self.users(inputs[0]) * self.items(inputs[1]), axis=-1)

    model = Late()
    model.compile("sgd", "mse")
    fit(model, 10, fs.KerasWatcher(tmp_path / "run", **OPTIONS))
    with opened(tmp_path / "run") as run:
        assert len(run.tables) == 2
        assert {table.n_rows for table in run.tables.values()} == {N_USERS, N_ITEMS}


def test_tables_may_be_chosen_and_the_callback_pickled(tmp_path):
    callback = pickle.loads(pickle.dumps(fs.KerasWatcher(tmp_path / "run", tables=only_items, **OPTIONS)))
    fit(factorization(), 10, callback)
    with opened(tmp_path / "run") as run:
        assert set(run.tables) == {"chosen"}


def only_items(model):
    return {"chosen": lambda: model.get_layer("items").embeddings.value}


def test_a_model_without_embeddings_is_an_error_before_training(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(fs.InputError, match="KerasWatcher needs an Embedding layer"):
        model.fit(np.ones((8, 2)), np.ones(8), verbose=0, callbacks=[fs.KerasWatcher(tmp_path / "run")])


def test_a_rule_stops_training(tmp_path):
    options = {**OPTIONS, "measures": None, "rules": None, "stop_on": "fail"}
    model = factorization()
    fit(model, 40, fs.KerasWatcher(tmp_path / "run", tables=collapsed_from(), **options))
    assert int(model.optimizer.iterations) in (10, 20)
    with opened(tmp_path / "run") as run:
        assert run.status == "stopped"


def test_gradients_are_refused():
    with pytest.raises(fs.InputError, match="KerasWatcher needs gradients=False; got gradients=True"):
        fs.KerasWatcher("run", gradients=True)


def test_an_unknown_option_is_an_error_at_once():
    with pytest.raises(UnknownNameError, match=r"KerasWatcher needs keywords of fullspan.watch; got 'evry'"):
        fs.KerasWatcher("run", evry=10)


def test_the_example_of_the_docs_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_example("Keras 3")
    assert "[" in capsys.readouterr().out
