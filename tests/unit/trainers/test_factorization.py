"""The trainer: first values, order, scores, resuming, engines, and what it refuses."""

from __future__ import annotations

import builtins
import pickle
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from fullspan.errors import InputError, MissingExtraError, UnknownNameError
from fullspan.trainers.factorization import FactorizationTrainer, Setup
from fullspan.trainers.scores import accuracy, binary_cross_entropy, rank_auc, sigmoid

SMALL = Setup(n_users=20, n_items=30, batch_size=8)


@pytest.fixture(params=["numba", "torch"])
def engine(request):
    if request.param == "numba":
        pytest.importorskip("numba")
    return request.param


def ratings(n: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, 20, n), rng.integers(0, 30, n)
    return users, items, (users + items) % 2


class TestFirstValues:
    def test_bounds_are_those_of_keras_and_the_bias_is_zero(self):
        setup = Setup(n_users=943, n_items=1682)
        parts = setup.parts(setup.initial())
        for table in (parts.users, parts.items):
            assert 0.0499 < np.abs(table).max() <= 0.05
            assert table.std() == pytest.approx(0.05 / 3**0.5, rel=0.02)
            assert abs(table.mean()) < 0.001
        wide = Setup(n_users=2, n_items=2, dim=500)
        kernel = wide.parts(wide.initial()).kernel
        assert 0.99 * (6 / 1001) ** 0.5 < np.abs(kernel).max() <= (6 / 1001) ** 0.5
        assert parts.bias.tolist() == [0.0]

    def test_the_stream_is_the_documented_one(self):
        users = np.random.default_rng([7, 0]).uniform(-0.05, 0.05, (20, 8)).astype(np.float32)
        assert np.array_equal(FactorizationTrainer(replace(SMALL, seed=7), "torch").users, users)

    def test_runs_of_one_seed_start_alike_and_others_do_not(self):
        one = FactorizationTrainer(SMALL, "torch")
        other = FactorizationTrainer(replace(SMALL, optimizer="adam", batch_size=1, head="dot"), "torch")
        assert np.array_equal(one.users, other.users)
        assert np.array_equal(one.items, other.items)
        assert not np.array_equal(one.users, FactorizationTrainer(replace(SMALL, seed=1), "torch").users)
        assert not np.array_equal(one.users, one.items[:20])

    def test_the_order_is_a_new_permutation_every_epoch(self):
        orders = [SMALL.order(epoch, 50) for epoch in range(3)]
        assert all(sorted(order) == list(range(50)) for order in orders)
        assert len({tuple(order) for order in orders}) == 3
        assert np.array_equal(orders[1], replace(SMALL, batch_size=1).order(1, 50))

    def test_the_dot_head_has_no_weights_of_its_own(self, engine):
        trainer = FactorizationTrainer(replace(SMALL, head="dot"), engine)
        assert trainer.kernel.size == trainer.bias.size == 0
        trainer.fit_epoch(*ratings())
        users, items, _ = ratings()
        expected = sigmoid((trainer.users[users] * trainer.items[items]).sum(axis=1))
        assert np.array_equal(trainer.predict(users, items), expected)


class TestSetup:
    def test_defaults_are_those_of_keras(self):
        rates = {name: Setup(2, 2, optimizer=name).rate for name in ("sgd", "adam", "adamw", "adagrad")}
        assert rates == {"sgd": 0.01, "adam": 0.001, "adamw": 0.001, "adagrad": 0.001}
        assert Setup(2, 2, optimizer="adamw").decay == 0.004
        assert Setup(2, 2, optimizer="adam").decay == 0
        assert Setup(2, 2, optimizer="adam", weight_decay=0.1).resolved()["weight_decay"] == 0.1

    def test_replacing_the_optimizer_brings_its_own_defaults(self):
        assert replace(Setup(2, 2), optimizer="adam").rate == 0.001

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"dim": 0}, r"^Setup needs dim to be a whole number of at least 1; got 0\.$"),
            ({"n_users": 2.5}, r"^Setup needs n_users to be a whole number of at least 1; got 2\.5\.$"),
            ({"n_items": True}, r"needs n_items to be a whole number"),
            ({"batch_size": 0}, r"needs batch_size to be a whole number of at least 1; got 0"),
            ({"seed": -1}, r"needs seed to be a whole number of at least 0; got -1"),
            ({"learning_rate": 0.0}, r"^Setup needs learning_rate to be a number above 0; got 0\.0\.$"),
            ({"learning_rate": float("nan")}, r"needs learning_rate to be a number above 0; got nan"),
            ({"learning_rate": "fast"}, r"needs learning_rate to be a number above 0; got 'fast'"),
            ({"momentum": 1.0}, r"needs momentum to be a number in \[0, 1\); got 1\.0"),
            ({"beta_2": -0.1}, r"needs beta_2 to be a number in \[0, 1\); got -0\.1"),
            ({"epsilon": 0.0}, r"needs epsilon to be a number above 0; got 0\.0"),
            ({"weight_decay": -1.0}, r"needs weight_decay to be a number of at least 0; got -1\.0"),
            ({"optimizer": "adam", "momentum": 0.9}, r"needs optimizer='sgd' for momentum; got 'adam'"),
            ({"nesterov": True}, r"needs a momentum above 0 for nesterov; got 0"),
            ({"dtype": "float16"}, r"needs dtype 'float32'; got 'float16'"),
        ],
    )
    def test_what_it_refuses(self, change, message):
        with pytest.raises(InputError, match=message):
            Setup(**({"n_users": 2, "n_items": 2} | change))

    def test_names_that_do_not_exist(self):
        with pytest.raises(UnknownNameError, match=r"got 'adamax'\. Did you mean \"adam"):
            Setup(2, 2, optimizer="adamax")
        with pytest.raises(UnknownNameError, match=r"needs head to be one of concat, dot; got 'mlp'\."):
            Setup(2, 2, head="mlp")
        with pytest.raises(UnknownNameError, match=r"engine to be one of auto, numba, torch; got 'jax'\."):
            FactorizationTrainer(SMALL, "jax")


class TestTraining:
    def test_the_tables_are_live_arrays(self, engine):
        trainer = FactorizationTrainer(SMALL, engine)
        users, before = trainer.users, trainer.users.copy()
        trainer.fit_epoch(*ratings())
        assert users is trainer.users
        assert isinstance(users, np.ndarray)
        assert not np.array_equal(users, before)

    @pytest.mark.parametrize("size", [1, 8, 149, 150, 1000])
    def test_the_last_partial_batch_counts(self, engine, size):
        trainer = FactorizationTrainer(replace(SMALL, batch_size=size), engine)
        trainer.fit_epoch(*ratings())
        assert (trainer.steps, trainer.epoch) == (-(-150 // size), 1)

    def test_it_learns(self, engine):
        trainer = FactorizationTrainer(replace(SMALL, optimizer="adam", learning_rate=0.05, head="dot"), engine)
        users, items, _ = ratings(600)
        labels = (users % 2) ^ (items % 2)
        losses = [trainer.fit_epoch(users, items, labels) for _ in range(20)]
        scores = trainer.evaluate(users, items, labels)
        assert losses[-1] < losses[0] < np.log(2)
        assert scores["loss"] < 0.1
        assert scores["accuracy"] == scores["auc"] == 1.0

    def test_labels_may_be_booleans_floats_and_narrow_integers(self, engine):
        users, items, labels = ratings()
        seen = set()
        for kind in (bool, np.float64, np.int8, list):
            trainer = FactorizationTrainer(SMALL, engine)
            given = labels.tolist() if kind is list else labels.astype(kind)
            seen.add(trainer.fit_epoch(users.astype(np.uint16), items.tolist(), given))
        assert len(seen) == 1

    def test_a_saturated_model_has_finite_loss_and_no_gradient(self, engine):
        trainer = FactorizationTrainer(replace(SMALL, weight_decay=None), engine)
        trainer.bias[...] = 100.0
        before = trainer.users.copy()
        loss = trainer.fit_epoch([0, 1], [0, 1], [0, 1])
        assert loss == pytest.approx((-np.log(1.1920929e-07) - np.log1p(-1.1920929e-07)) / 2, rel=1e-5)
        assert np.array_equal(trainer.users, before)
        assert trainer.evaluate([0, 1], [0, 1], [0, 1])["loss"] == pytest.approx(loss, rel=1e-6)

    def test_callbacks_come_every_so_many_steps_and_at_the_end(self, engine):
        seen = []
        trainer = FactorizationTrainer(SMALL, engine)
        loss = trainer.fit_epoch(*ratings(), every=4, on_steps=lambda t: seen.append((t.steps, t.epoch)))
        assert seen == [(4, 0), (8, 0), (12, 0), (16, 0), (19, 1)]
        whole = FactorizationTrainer(SMALL, engine)
        assert whole.fit_epoch(*ratings()) == pytest.approx(loss, abs=1e-12)
        assert np.array_equal(whole.users, trainer.users)

    @pytest.mark.parametrize("every", [0, -1, 1.5, True])
    def test_a_senseless_interval_is_refused(self, every):
        with pytest.raises(InputError, match=r"fit_epoch needs every to be a whole number of at least 1; got"):
            FactorizationTrainer(SMALL, "torch").fit_epoch(*ratings(), every=every)

    def test_threads_train_side_by_side_without_changing_the_result(self, engine):
        trainers = [FactorizationTrainer(replace(SMALL, seed=seed, optimizer="adam"), engine) for seed in range(3)]
        threads = [threading.Thread(target=trainer.fit_epoch, args=ratings()) for trainer in trainers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for seed, trainer in enumerate(trainers):
            alone = FactorizationTrainer(replace(SMALL, seed=seed, optimizer="adam"), engine)
            alone.fit_epoch(*ratings())
            assert np.array_equal(alone.items, trainer.items)


class TestScores:
    def test_evaluate_equals_scikit_learn(self, engine):
        users, items, labels = ratings(400)
        trainer = FactorizationTrainer(replace(SMALL, optimizer="adam", learning_rate=0.02), engine)
        trainer.fit_epoch(users, items, labels)
        scores, probabilities = trainer.evaluate(users, items, labels), trainer.predict(users, items)
        assert scores["loss"] == pytest.approx(log_loss(labels, probabilities.astype(np.float64)), abs=1e-6)
        assert scores["auc"] == pytest.approx(roc_auc_score(labels, probabilities), abs=1e-12)
        assert scores["accuracy"] == ((probabilities > 0.5) == labels).mean()

    def test_auc_with_ties_equals_all_pairs(self):
        rng = np.random.default_rng(0)
        labels, scores = rng.integers(0, 2, 200), rng.integers(0, 6, 200) / 4
        above = np.sign(scores[labels == 1][:, None] - scores[labels == 0]) / 2 + 0.5
        assert rank_auc(labels, scores) == pytest.approx(above.mean(), abs=1e-12)
        assert rank_auc(labels, np.ones(200)) == 0.5

    def test_auc_of_one_kind_is_none_and_not_nan(self):
        assert rank_auc(np.ones(3), np.arange(3)) is None
        assert FactorizationTrainer(SMALL, "torch").evaluate([0, 1], [0, 1], [1, 1])["auc"] is None

    def test_a_half_says_no(self):
        assert accuracy(np.array([0, 1]), np.array([0.5, 0.5], np.float32)) == 0.5

    def test_sure_and_wrong_costs_the_clip(self):
        wrong, right = np.array([1.0], np.float32), np.array([0.0], np.float32)
        assert binary_cross_entropy(np.array([0]), wrong) == pytest.approx(15.942385, abs=1e-5)
        assert binary_cross_entropy(np.array([1]), right) == pytest.approx(-np.log(1e-7), abs=1e-5)

    def test_sigmoid_of_large_logits(self):
        logits = np.array([-1000, -90, 0, 90, 1000], np.float32)
        assert sigmoid(logits).dtype == np.float32
        assert sigmoid(logits) == pytest.approx([0, 0, 0.5, 1, 1], abs=1e-30)


RESUMED = [
    {},
    {"momentum": 0.9},
    {"optimizer": "adam"},
    {"optimizer": "adamw"},
    {"optimizer": "adagrad", "head": "dot"},
]


class TestResuming:
    @pytest.mark.parametrize("change", RESUMED, ids=str)
    def test_it_goes_on_bit_for_bit(self, engine, change):
        setup = replace(SMALL, **change)
        whole = FactorizationTrainer(setup, engine)
        losses = [whole.fit_epoch(*ratings()) for _ in range(4)]
        first = FactorizationTrainer(setup, engine)
        first.fit_epoch(*ratings())
        state = pickle.loads(pickle.dumps(first.state_dict()))
        first.fit_epoch(*ratings())
        second = FactorizationTrainer(setup, engine)
        second.load_state_dict(state)
        assert [second.fit_epoch(*ratings()) for _ in range(3)] == losses[1:]
        for key, value in whole.state_dict().items():
            assert np.array_equal(value, second.state_dict()[key]), key

    @pytest.mark.parametrize("change", RESUMED, ids=str)
    def test_in_the_middle_of_an_epoch_too(self, engine, change):
        setup = replace(SMALL, **change)
        states = []
        whole = FactorizationTrainer(setup, engine)
        loss = whole.fit_epoch(*ratings(), every=5, on_steps=lambda t: states.append(t.state_dict()))
        for state in states[:-1]:
            other = FactorizationTrainer(setup, engine)
            other.load_state_dict(state)
            assert other.fit_epoch(*ratings(), every=5) == loss
            assert np.array_equal(other.items, whole.items)
            assert other.steps == whole.steps

    def test_an_interrupted_epoch_goes_on_where_it_stood(self, engine):
        def interrupt(trainer: FactorizationTrainer) -> None:
            if trainer.steps == 10:
                raise KeyboardInterrupt

        trainer, whole = FactorizationTrainer(SMALL, engine), FactorizationTrainer(SMALL, engine)
        with pytest.raises(KeyboardInterrupt):
            trainer.fit_epoch(*ratings(), every=5, on_steps=interrupt)
        with pytest.raises(InputError, match=r"needs the 150 rows of the epoch that it is in the middle of; got 20\."):
            trainer.fit_epoch(*ratings(20))
        trainer.fit_epoch(*ratings())
        whole.fit_epoch(*ratings())
        assert np.array_equal(trainer.users, whole.users)
        assert trainer.steps == whole.steps == 19

    def test_a_state_is_a_copy(self):
        trainer = FactorizationTrainer(SMALL, "torch")
        state = trainer.state_dict()
        trainer.fit_epoch(*ratings())
        assert np.array_equal(SMALL.parts(state["parameters"]).users, SMALL.parts(SMALL.initial()).users)

    def test_the_state_of_another_setup_is_refused(self):
        state = FactorizationTrainer(replace(SMALL, batch_size=4), "torch").state_dict()
        trainer = FactorizationTrainer(SMALL, "torch")
        with pytest.raises(InputError, match=r"needs the state of this trainer's setup; got batch_size=4\."):
            trainer.load_state_dict(state)
        with pytest.raises(InputError, match=r"needs the keys of state_dict; got none named setup, epoch"):
            trainer.load_state_dict({"steps": 3})


class TestLateSteps:
    """Adam at small batches: the steps of rows outside the batch are made up for later."""

    LARGE = Setup(n_users=400, n_items=300, optimizer="adam", batch_size=1)

    @pytest.fixture
    def kind(self):
        pytest.importorskip("numba")
        from fullspan.trainers.numba_engine import NumbaEngine

        return NumbaEngine

    def trainers(self, kind, monkeypatch, setup: Setup) -> tuple[FactorizationTrainer, FactorizationTrainer]:
        late = FactorizationTrainer(setup, "numba")
        monkeypatch.setattr(kind, "late_from", float("inf"))
        return late, FactorizationTrainer(setup, "numba")

    @pytest.mark.parametrize(
        ("change", "late"),
        [
            ({}, True),
            ({"batch_size": 2}, False),
            ({"optimizer": "adamw"}, False),
            ({"weight_decay": 0.1}, False),
            ({"beta_1": 0.99, "beta_2": 0.9}, False),
            ({"beta_1": 0.0}, True),
        ],
    )
    def test_where_they_are_used(self, kind, change, late):
        assert FactorizationTrainer(replace(self.LARGE, **change), "numba")._engine.late is late

    @pytest.mark.parametrize("beta_1", [0.0, 0.5, 0.9])
    @pytest.mark.parametrize("beta_2", [0.9, 0.999])
    def test_a_row_that_is_not_seen_again_moves_bit_for_bit_as_if_each_step_were_taken(
        self, kind, monkeypatch, beta_1, beta_2
    ):
        late, dense = self.trainers(kind, monkeypatch, replace(self.LARGE, beta_1=beta_1, beta_2=beta_2))
        assert late._engine.late
        assert not dense._engine.late
        for trainer in (late, dense):
            trainer.users[3, :3] = 0.0, 1e-6, -1e-30
            trainer.fit_epoch([3], [5], [1])
            for _ in range(3):
                trainer.fit_epoch([0] * 200, [0] * 200, [1] * 200)
        for name, row in (("users", 3), ("items", 5), ("users", 7)):
            assert np.array_equal(getattr(late, name)[row], getattr(dense, name)[row])

    def test_looking_changes_nothing(self, kind):
        rng = np.random.default_rng(0)
        rows = rng.integers(0, 400, 3000), rng.integers(0, 300, 3000), rng.integers(0, 2, 3000)
        alone, watched = (FactorizationTrainer(self.LARGE, "numba") for _ in range(2))
        seen = []
        for _ in range(2):
            alone.fit_epoch(*rows)
            watched.fit_epoch(*rows, every=7, on_steps=lambda trainer: seen.append(trainer.users.sum()))
        assert len(set(seen)) == len(seen)
        assert np.array_equal(alone.users, watched.users)
        assert np.array_equal(alone.items, watched.items)

    def test_resuming_is_bit_for_bit(self, kind):
        rng = np.random.default_rng(1)
        rows = rng.integers(0, 400, 2000), rng.integers(0, 300, 2000), rng.integers(0, 2, 2000)
        states = []
        whole = FactorizationTrainer(self.LARGE, "numba")
        for _ in range(2):
            whole.fit_epoch(*rows, every=450, on_steps=lambda trainer: states.append(trainer.state_dict()))
        for state in states[:-1]:
            other = FactorizationTrainer(self.LARGE, "numba")
            other.load_state_dict(state)
            while other.epoch < 2:
                other.fit_epoch(*rows)
            for key, value in whole.state_dict().items():
                assert np.array_equal(value, other.state_dict()[key]), key

    def test_another_engine_takes_the_state_over(self, kind):
        rng = np.random.default_rng(2)
        rows = rng.integers(0, 400, 600), rng.integers(0, 300, 600), rng.integers(0, 2, 600)
        late = FactorizationTrainer(self.LARGE, "numba")
        late.fit_epoch(*rows)
        other = FactorizationTrainer(self.LARGE, "torch")
        other.load_state_dict(late.state_dict())
        late.load_state_dict(other.state_dict())
        more = [column[:100] for column in rows]
        assert other.fit_epoch(*more) == pytest.approx(late.fit_epoch(*more), abs=1e-6)
        assert np.abs(other.users - late.users).max() < 1e-5
        assert np.abs(other.items - late.items).max() < 1e-5


class TestInput:
    @pytest.mark.parametrize("call", ["fit_epoch", "evaluate"])
    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            (([0, 20], [0, 1], [0, 1]), r"needs user ids from 0 to 19; got 0 to 20\. Were they encoded\?"),
            (([0, 1], [-1, 1], [0, 1]), r"needs item ids from 0 to 29; got -1 to 1"),
            (([], [], []), r"needs at least one row; got none\."),
            (([0.0, 1.0], [0, 1], [0, 1]), r"needs user ids that are whole numbers; got float64"),
            (([0, 1], [0, 1, 2], [0, 1]), r"needs two columns of ids of one length; got \(2,\) and \(3,\)\."),
            (([[0], [1]], [[0], [1]], [0, 1]), r"needs two columns of ids of one length; got \(2, 1\)"),
            (([0, 1], [0, 1], [0]), r"needs one label a row; got \(1,\) labels for 2 rows\."),
            (([0, 1], [0, 1], [3, 5]), r"needs labels 0 and 1; got 3\. Ratings become labels by: >= 4\."),
            (([0, 1], [0, 1], [0.0, float("nan")]), r"needs labels 0 and 1; got nan"),
            (([0, 1], [0, 1], ["a", "b"]), r"needs labels 0 and 1; got values of type <U1"),
        ],
    )
    def test_what_is_refused_leaves_the_weights(self, call, rows, message):
        trainer = FactorizationTrainer(SMALL, "torch")
        before = trainer.state_dict()
        with pytest.raises(InputError, match=f"^{call} {message}"):
            getattr(trainer, call)(*rows)
        assert np.array_equal(before["parameters"], trainer.state_dict()["parameters"])
        assert trainer.steps == 0


class TestEngines:
    @pytest.fixture
    def without(self, monkeypatch):
        """Make packages look as if they were not installed."""

        def hide(*names: str) -> None:
            real = builtins.__import__

            def importing(name, *arguments, **keywords):
                if name.split(".")[0] in names:
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)
                return real(name, *arguments, **keywords)

            for name in names:
                monkeypatch.setitem(sys.modules, name, None)
            for name in ("numba_kernel", "numba_engine"):
                monkeypatch.delitem(sys.modules, f"fullspan.trainers.{name}", raising=False)
            monkeypatch.setattr(builtins, "__import__", importing)

        return hide

    def test_auto_takes_numba_and_says_so(self):
        pytest.importorskip("numba")
        trainer = FactorizationTrainer(SMALL)
        assert (trainer.engine, trainer.engine_reason) == ("numba", "numba is installed")
        assert trainer.prepare() >= 0

    def test_auto_without_numba_takes_torch_and_says_so(self, without):
        without("numba")
        trainer = FactorizationTrainer(SMALL)
        assert trainer.engine == "torch"
        assert trainer.engine_reason.startswith("numba cannot be imported (")
        assert trainer.prepare() == 0

    def test_an_engine_that_was_asked_for_is_never_replaced(self, without):
        without("numba")
        with pytest.raises(MissingExtraError, match=r"FactorizationTrainer\(engine='numba'\) needs the extra 'numba'"):
            FactorizationTrainer(SMALL, "numba")

    def test_with_neither_the_message_names_both(self, without):
        without("numba", "torch")
        with pytest.raises(MissingExtraError, match=r'fullspan\[numba\]" \(fast\) or pip install "fullspan\[train\]"'):
            FactorizationTrainer(SMALL)
        with pytest.raises(MissingExtraError, match=r"engine='torch'\) needs the extra 'train'"):
            FactorizationTrainer(SMALL, "torch")

    def test_a_place_without_a_folder_for_compiled_code_is_announced(self, python):
        pytest.importorskip("numba")
        said = python(
            "import warnings\n"
            "from numba.core.caching import CacheImpl\n"
            "CacheImpl._locator_classes = []\n"
            "with warnings.catch_warnings(record=True) as seen:\n"
            "    warnings.simplefilter('default')\n"
            "    from fullspan.trainers import numba_kernel\n"
            "print(len(seen), seen[0].message)"
        )
        assert "compiled anew in this process" in said
        assert "Set NUMBA_CACHE_DIR" in said

    def test_the_module_loads_neither_numba_nor_torch(self, python):
        code = "import sys, fullspan.trainers.factorization; print([m for m in ('numba', 'torch') if m in sys.modules])"
        assert python(code).strip() == "[]"

    @pytest.mark.parametrize("change", RESUMED, ids=str)
    def test_both_give_the_same_epochs(self, change):
        pytest.importorskip("numba")
        one, other = (FactorizationTrainer(replace(SMALL, **change), engine) for engine in ("numba", "torch"))
        losses = [[trainer.fit_epoch(*ratings()) for _ in range(3)] for trainer in (one, other)]
        assert losses[0] == pytest.approx(losses[1], abs=1e-6)
        assert np.abs(one.users - other.users).max() < 2e-6

    def test_moments_that_have_died_out_are_zero_and_never_denormal(self):
        pytest.importorskip("numba")
        setup = Setup(n_users=2, n_items=2, optimizer="adam", beta_1=0.5, beta_2=0.5, batch_size=1)
        trainer = FactorizationTrainer(setup, "numba")
        trainer.fit_epoch([1], [1], [1])
        trainer.fit_epoch([0] * 400, [0] * 400, [1] * 400)
        first, second = (setup.parts(slot) for slot in trainer.state_dict()["slots"])
        assert not first.users[1].any()
        assert not second.users[1].any()
        assert first.users[0].all()
