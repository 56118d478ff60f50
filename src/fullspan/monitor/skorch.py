"""A watcher as a callback of skorch."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

from fullspan._extras import require
from fullspan.monitor.hosted import Hosted, Tables

if TYPE_CHECKING:
    from skorch.callbacks import Callback

    from fullspan.monitor.watcher import Watcher
else:
    Callback = require("skorch.callbacks", "skorch", "fullspan.SkorchWatcher").Callback

__all__ = ["SkorchWatcher"]


class SkorchWatcher(Callback):
    """Watch the embedding tables of a skorch net: ``NeuralNet(..., callbacks=[SkorchWatcher("runs/mf")])``.

    Parameters
    ----------
    run
        Folder of the run; made if absent.
    tables
        None takes the embedding tables of ``net.module_``; else a function of the module that gives a mapping of names
        to parameters or callables.
    **options
        Any other keyword of :func:`fullspan.watch`: ``every``, ``budget``, ``sinks``, ``stop_on`` and so on. They are
        parameters as scikit-learn has them: cloned with the net, and set by ``net.set_params(callbacks__...)``.

    Raises
    ------
    UnknownNameError
        If a keyword is not one of :func:`fullspan.watch`.

    Notes
    -----
    A step is a training batch, since skorch makes one update a batch: it has no gradient accumulation. Steps and epochs
    are counted in ``net.history``, so that ``partial_fit``, or ``load_params`` with a history, continues the run.
    ``valid_loss`` becomes ``test_loss``. Stopping by a rule ends the training as skorch's own EarlyStopping does.
    """

    def __init__(self, run: str | PathLike[str], tables: Tables = None, **options: Any) -> None:
        Hosted("SkorchWatcher", run, tables, options)
        self.run, self.tables = run, tables
        vars(self).update(options)

    @property
    def watcher(self) -> Watcher | None:
        """The watcher while training runs."""
        hosted = getattr(self, "hosted_", None)
        return None if hosted is None else hosted.watcher

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        options = {name: getattr(self, name) for name in self._get_param_names() if name not in ("run", "tables")}
        self.hosted_ = Hosted("SkorchWatcher", self.run, self.tables, options)
        batches = [batch for epoch in net.history for batch in epoch["batches"] if "train_loss" in batch]
        seen = sum(batch["train_batch_size"] for batch in batches)
        self.hosted_.open(net.module_, len(batches), epoch=len(net.history), samples=seen, optimizers=[net.optimizer_])

    def on_batch_end(self, net: Any, batch: Any = None, training: bool | None = None, **kwargs: Any) -> None:
        if training:
            last = net.history[-1]["batches"][-1]
            self.hosted_.advance(self.hosted_.step + 1, loss=last["train_loss"], samples=last["train_batch_size"])
            self._obey()

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        row = {name: value for name, value in net.history[-1].items() if not name.endswith(("_batch_count", "_best"))}
        self.hosted_.epoch(len(net.history), {name: row[name] for name in row.keys() - {"batches", "dur"}})
        self._obey()

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        self.hosted_.close()

    def _obey(self) -> None:
        if self.hosted_.should_stop:
            raise KeyboardInterrupt

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "hosted_"}
