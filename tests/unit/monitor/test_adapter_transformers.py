"""The callback of the Hugging Face Trainer under a real trainer, and under the one of sentence-transformers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from fullspan.errors import UnknownNameError
from tests.unit.monitor.hosts import assert_equals_checkpoint, collapsed_from, opened, run_example, steps_of

pytestmark = pytest.mark.slow
transformers = pytest.importorskip("transformers")

import fullspan as fs  # noqa: E402 - after the framework, whose absence skips this file

OPTIONS = {"every": 10, "full": "epoch", "measures": ["gini_index", "effective_rank"], "rules": False}
VOCABULARY, LENGTH = 50, 6


def texts(n):
    ids = torch.randint(0, VOCABULARY, (n, LENGTH), generator=torch.Generator().manual_seed(0))
    return [{"input_ids": row, "labels": row} for row in ids]


def language_model():
    torch.manual_seed(0)
    shape = {"vocab_size": VOCABULARY, "n_positions": LENGTH, "n_embd": 8, "n_layer": 1, "n_head": 1}
    tokens = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape, **tokens))


def arguments(folder, **settings):
    quiet = {"report_to": [], "use_cpu": True, "disable_tqdm": True, "save_strategy": "steps", "save_steps": 50}
    usual = {"per_device_train_batch_size": 4, "learning_rate": 1e-2, "logging_steps": 10, "num_train_epochs": 2}
    return transformers.TrainingArguments(str(folder), **{**quiet, **usual, **settings})


def trainer_of(folder, n, *callbacks, **settings):
    held_out = {"eval_dataset": texts(8)} if settings.get("eval_strategy") else {}
    return transformers.Trainer(
        language_model(), arguments(folder, **settings), train_dataset=texts(n), callbacks=list(callbacks), **held_out
    )


def tables_of(checkpoint, names=("transformer.wte.weight", "transformer.wpe.weight")):
    from safetensors.numpy import load_file

    state = load_file(checkpoint / "model.safetensors")
    return {name: state[name] for name in names}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """200 steps of four batches each, in two epochs."""
    folder = tmp_path_factory.mktemp("transformers")
    trainer = trainer_of(
        folder,
        1600,
        fs.TransformersWatcher(folder / "run", **OPTIONS),
        gradient_accumulation_steps=4,
        eval_strategy="epoch",
    )
    trainer.train()
    assert trainer.state.global_step == 200
    return folder, trainer


def test_values_equal_the_checkpoints_of_the_trainer(trained):
    folder, _ = trained
    with opened(folder / "run") as run:
        for step in (50, 100, 150, 200):
            assert_equals_checkpoint(run, step, tables_of(folder / f"checkpoint-{step}"))
        assert run.status == "finished"


def test_steps_are_updates_and_epochs_and_samples_are_right(trained):
    folder, trainer = trained
    with opened(folder / "run") as run:
        curve = run.curve("transformer.wte.weight", "gini_index")
    at = {int(step): i for i, step in enumerate(curve.step)}
    assert set(range(10, 201, 10)) <= set(at)
    assert max(at) == trainer.state.global_step
    assert (curve.epoch[at[100]], curve.epoch[at[200]]) == (1.0, 2.0)
    assert curve.samples[at[200]] == 1600 * 2


def test_what_the_trainer_logs_is_recorded_where_it_logs_it(trained):
    folder, trainer = trained
    with opened(folder / "run") as run:
        for name, stored in (("loss", "loss"), ("learning_rate", "learning_rate"), ("eval_loss", "test_loss")):
            logged = {row["step"]: row[name] for row in trainer.state.log_history if name in row}
            curve = run.curve("", stored)
            assert dict(zip(curve.step.tolist(), curve.value.tolist(), strict=True)) == pytest.approx(logged)
        assert not {"train_loss", "eval_runtime", "total_flos", "epoch"} & set(run.measures(""))


def test_a_checkpoint_continues_the_run_with_one_curve(tmp_path):
    settings = {"save_steps": 20, "logging_steps": 5}
    trainer_of(tmp_path, 120, fs.TransformersWatcher(tmp_path / "run", **OPTIONS), **settings).train()
    settings["num_train_epochs"] = 3
    again = trainer_of(tmp_path, 120, fs.TransformersWatcher(tmp_path / "run", **OPTIONS), **settings)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-40"))
    with opened(tmp_path / "run") as run:
        assert len(run.attempts) == 2
        steps = steps_of(run, "transformer.wte.weight")
        assert steps == sorted(set(steps))
        assert set(range(10, 91, 10)) <= set(steps)
        assert run.curve("", "loss").step.tolist() == list(range(5, 91, 5))
        curve = run.curve("transformer.wte.weight", "gini_index")
        assert curve.epoch[steps.index(90)] == 3.0
        assert curve.samples[steps.index(90)] == 90 * 4
        assert_equals_checkpoint(run, 80, tables_of(tmp_path / "checkpoint-80"))


def test_training_cut_short_has_no_last_epoch(tmp_path):
    trainer_of(tmp_path, 120, fs.TransformersWatcher(tmp_path / "run", **OPTIONS), max_steps=45).train()
    with opened(tmp_path / "run") as run:
        assert np.nanmax(run.curve("transformer.wte.weight", "gini_index").epoch) < 2.0
        assert run.status == "finished"


def test_the_last_reading_is_not_of_the_best_model_that_is_loaded_after_it(tmp_path):
    evaluated = {"eval_strategy": "steps", "eval_steps": 15, "save_steps": 15, "learning_rate": 1e-3}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "eval_loss", "greater_is_better": True}
    callback = fs.TransformersWatcher(tmp_path / "run", **{**OPTIONS, "every": 100})
    trainer = trainer_of(tmp_path, 120, callback, max_steps=45, **evaluated, **best)
    trainer.train()
    assert trainer.state.best_model_checkpoint.endswith("-15")
    with opened(tmp_path / "run") as run:
        assert_equals_checkpoint(run, 45, tables_of(tmp_path / "checkpoint-45"))


def test_only_the_first_process_writes(tmp_path):
    args = arguments(tmp_path)
    state = transformers.TrainerState(is_world_process_zero=False, is_local_process_zero=True)
    control, model = transformers.TrainerControl(), language_model()
    callback = fs.TransformersWatcher(tmp_path / "run", **OPTIONS)
    callback.on_train_begin(args, state, control, model=model)
    for state.global_step in range(1, 11):
        callback.on_step_end(args, state, control)
    callback.on_log(args, state, control, logs={"loss": 1.0})
    state.epoch = 1.0
    callback.on_epoch_end(args, state, control)
    callback.on_train_end(args, state, control)
    assert not (tmp_path / "run").exists()


def test_gradients_are_read_where_they_are_asked_for(tmp_path):
    callback = fs.TransformersWatcher(tmp_path / "run", gradients=True, **OPTIONS)
    trainer_of(tmp_path, 160, callback, gradient_accumulation_steps=2, num_train_epochs=1).train()
    with opened(tmp_path / "run") as run:
        assert len(run.curve("transformer.wte.weight", "gradient_norm").value) == 2
        assert steps_of(run, "transformer.wte.weight")[-1] == 20
        assert run.curve("", "loss").step.tolist() == [10, 20]


def test_a_rule_stops_training(tmp_path):
    options = {**OPTIONS, "measures": None, "rules": None, "stop_on": "fail"}
    callback = fs.TransformersWatcher(tmp_path / "run", tables=collapsed_from(), **options)
    trainer = trainer_of(tmp_path, 120, callback)
    trainer.train()
    assert trainer.state.global_step in (10, 20)
    with opened(tmp_path / "run") as run:
        assert run.status == "stopped"


def test_tables_may_be_chosen_and_the_callback_pickled(tmp_path):
    callback = fs.TransformersWatcher(tmp_path / "run", tables=only_tokens, **OPTIONS)
    trainer_of(tmp_path, 40, pickle.loads(pickle.dumps(callback)), num_train_epochs=1).train()
    with opened(tmp_path / "run") as run:
        assert set(run.tables) == {"tokens"}


def only_tokens(model):
    return {"tokens": model.get_input_embeddings().weight}


def test_an_unknown_option_is_an_error_at_once():
    with pytest.raises(UnknownNameError, match=r"TransformersWatcher needs keywords of fullspan.watch; got 'evry'"):
        fs.TransformersWatcher("run", evry=10)


def test_sentence_transformers(tmp_path):
    """Its trainer, on a bag of static embeddings."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    from datasets import Dataset
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = [f"w{i}" for i in range(VOCABULARY)]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    static = StaticEmbedding(tokenizer, embedding_dim=8)
    model = sentence_transformers.SentenceTransformer(modules=[static], device="cpu")
    rng = np.random.default_rng(0)
    pairs = {name: [" ".join(rng.choice(words, 4)) for _ in range(320)] for name in ("sentence1", "sentence2")}
    data = Dataset.from_dict({**pairs, "score": rng.random(320).tolist()})
    args = sentence_transformers.SentenceTransformerTrainingArguments(
        str(tmp_path),
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_steps=20,
        num_train_epochs=2,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=4,
        logging_steps=10,
    )
    loss = CosineSimilarityLoss(model)
    callback = fs.TransformersWatcher(tmp_path / "run", **OPTIONS)
    trainer = sentence_transformers.SentenceTransformerTrainer(model, args, data, loss=loss, callbacks=[callback])
    trainer.train()
    assert trainer.state.global_step == 40
    with opened(tmp_path / "run") as run:
        (name,) = run.tables
        assert steps_of(run, name)[-1] == 40
        for step in (20, 40):
            (path,) = (tmp_path / f"checkpoint-{step}").rglob("model.safetensors")
            table = tables_of(path.parent, ("embedding.weight",))["embedding.weight"]
            assert_equals_checkpoint(run, step, {name: table})
        logged = {row["step"]: row["loss"] for row in trainer.state.log_history if "loss" in row}
        curve = run.curve("", "loss")
        assert dict(zip(curve.step.tolist(), curve.value.tolist(), strict=True)) == pytest.approx(logged)


def test_the_example_of_the_docs_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_example("Hugging Face Trainer")
    assert "[" in capsys.readouterr().out
