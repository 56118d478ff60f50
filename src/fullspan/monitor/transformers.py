"""A watcher as a callback of the Hugging Face Trainer, and of those built on it (sentence-transformers, TRL)."""

from __future__ import annotations

import json
import math
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fullspan._extras import require
from fullspan.monitor.hosted import Hosted, Tables

if TYPE_CHECKING:
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

    from fullspan.monitor.watcher import Watcher
else:
    TrainerCallback = require("transformers", "transformers", "fullspan.TransformersWatcher").TrainerCallback

__all__ = ["TransformersWatcher"]

#: Of what the trainer logs, these are sums over the whole training or speeds.
_NOT_CURVES = ("train_", "total_", "num_input_tokens")
_SPEEDS = ("_runtime", "_per_second", "_time")


class TransformersWatcher(TrainerCallback):
    """Watch the embedding tables of a model: ``Trainer(..., callbacks=[TransformersWatcher("runs/mf")])``.

    Parameters
    ----------
    run
        Folder of the run; made if absent.
    tables
        None takes the embedding tables of the model, tied ones once; else a mapping of names to parameters or
        callables, or a function of the model that gives one.
    **options
        Any other keyword of :func:`fullspan.watch`: ``every``, ``budget``, ``sinks``, ``stop_on`` and so on.

    Raises
    ------
    UnknownNameError
        If a keyword is not one of :func:`fullspan.watch`.

    Notes
    -----
    A step is one of ``state.global_step``: an update, whatever ``gradient_accumulation_steps`` is. The loss, learning
    rate, gradient norm and evaluations are recorded where the trainer logs them (``logging_steps``); ``eval_loss``
    becomes ``test_loss``. Checkpoints hold the state of the watcher in ``fullspan_watcher.json``, and
    ``train(resume_from_checkpoint=...)`` continues the run; samples are not counted after a checkpoint without that
    file. Only the process of rank zero writes.
    """

    def __init__(self, run: str | PathLike[str], tables: Tables = None, **options: Any) -> None:
        self._hosted = Hosted("TransformersWatcher", run, tables, options)
        self._counts_samples = True

    @property
    def watcher(self) -> Watcher | None:
        """The watcher while training runs."""
        return self._hosted.watcher

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ) -> None:
        self._hosted.load_state_dict(_saved_beside(args, state))
        self._counts_samples = state.global_step == 0 or self._hosted.state is not None
        self._hosted.open(
            model,
            state.global_step,
            epoch=state.epoch,
            rank=0 if state.is_world_process_zero else max(1, args.process_index),
            optimizers=[kwargs["optimizer"]] if kwargs.get("optimizer") is not None else [],
        )

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        batch = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        self._hosted.advance(state.global_step, samples=batch if self._counts_samples else None)
        if self._hosted.should_stop:
            control.should_training_stop = True
        return control

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        curves = {name: value for name, value in (logs or {}).items() if _is_curve(name)}
        self._hosted.log(state.global_step, curves)

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if float(state.epoch or 0).is_integer() or not control.should_training_stop:
            self._hosted.epoch(math.ceil(state.epoch or 0), {})
        elif args.load_best_model_at_end:  # other weights will be there at the end
            self._hosted.observe()

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        path = _state_file(args, state)
        if args.should_save and path.parent.is_dir():
            fresh = path.with_suffix(".tmp")
            fresh.write_text(json.dumps(self._hosted.state_dict()), encoding="utf-8")
            fresh.replace(path)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._hosted.close()


def _state_file(args: TrainingArguments, state: TrainerState) -> Path:
    """Where the state of the watcher is kept: in the checkpoint of the trainer."""
    return Path(str(args.output_dir)) / f"checkpoint-{state.global_step}" / "fullspan_watcher.json"


def _saved_beside(args: TrainingArguments, state: TrainerState) -> dict[str, Any]:
    path = _state_file(args, state)
    return json.loads(path.read_text(encoding="utf-8")) if state.global_step and path.is_file() else {}


def _is_curve(name: str) -> bool:
    return not name.startswith(_NOT_CURVES) and not name.endswith(_SPEEDS)
