"""A watcher as a callback of Lightning."""

from __future__ import annotations

from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fullspan._backend import loaded
from fullspan._extras import require
from fullspan.monitor.hosted import Hosted, Tables

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer

    from fullspan.monitor.watcher import Watcher
else:
    #: The same framework has two names on PyPI: what is loaded goes first, then what is installed.
    _old = loaded("pytorch_lightning") if loaded("lightning.pytorch") is None else None
    _old = _old or (find_spec("lightning") is None and find_spec("pytorch_lightning"))
    _home = "pytorch_lightning" if _old else "lightning.pytorch"
    Callback = require(_home, "lightning", "fullspan.LightningWatcher").Callback

__all__ = ["LightningWatcher"]


class LightningWatcher(Callback):
    """Watch the embedding tables of a LightningModule: ``Trainer(callbacks=[LightningWatcher("runs/mf")])``.

    Parameters
    ----------
    run
        Folder of the run; made if absent.
    tables
        None takes the embedding tables of the module; else a mapping of names to parameters or callables, or a function
        of the module that gives one.
    **options
        Any other keyword of :func:`fullspan.watch`: ``every``, ``budget``, ``sinks``, ``stop_on`` and so on.

    Raises
    ------
    UnknownNameError
        If a keyword is not one of :func:`fullspan.watch`.

    Notes
    -----
    A step is one of ``trainer.global_step``: an optimizer step, not a batch; with two optimizers a batch makes two. The
    loss of a step is the mean over its accumulated batches. What the module logs is recorded at the end of an epoch.
    Checkpoints of the trainer hold the state of the watcher, and ``fit(ckpt_path=...)`` continues the run. Only the
    process of rank zero writes. With ``gradients=True`` hooks on the optimizers count the steps: several optimizers
    then make one step together.
    """

    def __init__(self, run: str | PathLike[str], tables: Tables = None, **options: Any) -> None:
        super().__init__()
        self._hosted = Hosted("LightningWatcher", run, tables, options)
        self._losses: list[Any] = []
        self._samples = 0

    @property
    def watcher(self) -> Watcher | None:
        """The watcher while training runs."""
        return self._hosted.watcher

    @property
    def state_key(self) -> str:
        return self._generate_state_key(run=Path(self._hosted.run).name)

    def state_dict(self) -> dict[str, Any]:
        return self._hosted.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._hosted.load_state_dict(state_dict)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._hosted.open(
            pl_module,
            trainer.global_step,
            epoch=trainer.current_epoch,
            rank=trainer.global_rank,
            optimizers=trainer.optimizers,
        )

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:
            # Lightning divides the loss of every accumulated batch by their number.
            self._losses.append(loss.detach() * trainer.accumulate_grad_batches)
        self._samples += _rows_of(batch) * trainer.world_size
        if trainer.global_step > self._hosted.step:
            mean = sum(self._losses) / len(self._losses) if self._losses else None
            self._hosted.advance(trainer.global_step, loss=mean, samples=self._samples or None)
            self._losses, self._samples = [], 0
        if self._hosted.should_stop:
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            logged = {name: value for name, value in trainer.callback_metrics.items() if name != "loss"}
            self._hosted.epoch(trainer.current_epoch + 1, logged)
        if self._hosted.should_stop:
            trainer.should_stop = True

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._hosted.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._hosted.close("stopped" if isinstance(exception, KeyboardInterrupt) else "failed")


def _rows_of(batch: Any) -> int:
    """Rows of the first array of a batch; 0 where it has none."""
    parts: list[Any] = list(batch.values()) if isinstance(batch, dict) else []
    parts = list(batch) if isinstance(batch, list | tuple) else parts
    if parts:
        return _rows_of(parts[0])
    shape: Any = getattr(batch, "shape", ())
    return int(shape[0]) if len(shape) else 0
