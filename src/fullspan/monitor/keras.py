"""A watcher as a callback of Keras 3, on any of its backends."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.util import find_spec
from os import PathLike
from typing import TYPE_CHECKING, Any

from fullspan._extras import require
from fullspan.errors import InputError, MissingExtraError
from fullspan.monitor.hosted import Hosted, Tables

if TYPE_CHECKING:
    import keras
    from keras.callbacks import Callback

    from fullspan.monitor.watcher import Watcher
else:
    try:
        keras = require("keras", "keras", "fullspan.KerasWatcher")
    except MissingExtraError as error:
        if find_spec("keras") is None:
            raise
        raise MissingExtraError(
            f"fullspan.KerasWatcher needs the backend of Keras; got the error {str(error.__cause__)!r} from Keras. "
            "Set the environment variable KERAS_BACKEND=torch before Keras is imported."
        ) from error
    Callback = keras.callbacks.Callback

__all__ = ["KerasWatcher"]


class KerasWatcher(Callback):
    """Watch the embedding layers of a Keras model: ``model.fit(..., callbacks=[KerasWatcher("runs/mf")])``.

    Parameters
    ----------
    run
        Folder of the run; made if absent.
    tables
        None takes the ``Embedding`` layers of the model, under the paths of the layers; else a mapping of names to
        arrays or callables, or a function of the model that gives one.
    **options
        Any other keyword of :func:`fullspan.watch`: ``every``, ``budget``, ``sinks``, ``stop_on`` and so on.

    Raises
    ------
    UnknownNameError
        If a keyword is not one of :func:`fullspan.watch`.
    InputError
        If gradients are asked for; when training begins, if there is no ``Embedding`` layer and `tables` names none.

    Notes
    -----
    A step is one of ``optimizer.iterations``: an update, whatever ``gradient_accumulation_steps`` is. As Keras reports
    it, the loss is the running mean since the epoch began; ``val_loss`` becomes ``test_loss``. A model that was loaded
    with its optimizer continues the run at the step of its optimizer: pass ``initial_epoch`` to ``fit`` as usual.
    Tables are read through ``self.model`` each time, since some backends keep the weights elsewhere while they train.
    """

    def __init__(self, run: str | PathLike[str], tables: Tables = None, **options: Any) -> None:
        super().__init__()
        if options.get("gradients"):
            raise InputError(
                "KerasWatcher needs gradients=False; got gradients=True. Keras shows its callbacks no gradients."
            )
        self._hosted = Hosted("KerasWatcher", run, tables, options)

    @property
    def watcher(self) -> Watcher | None:
        """The watcher while training runs."""
        return self._hosted.watcher

    @property
    def _trained(self) -> Any:
        """The model, through the property of Keras that brings its weights up to date."""
        return self.model

    def _step(self) -> int:
        steps: Any = keras.ops.convert_to_tensor(self._trained.optimizer.iterations)
        return int(steps)

    def _own_tables(self) -> dict[str, Any]:
        paths = list(_embedding_layers(self._trained))
        if not paths:
            raise InputError(
                f"KerasWatcher needs an Embedding layer in the model; got {self._trained.name!r} without one. "
                "Name the weights: tables={'items': lambda: layer.kernel}."
            )
        return {path: functools.partial(self._read, path) for path in paths}

    def _read(self, path: str) -> Any:
        table = keras.ops.convert_to_tensor(_embedding_layers(self._trained)[path].embeddings)
        return table if keras.backend.backend() == "torch" else keras.ops.convert_to_numpy(table)

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        if self.watcher is None:  # here, and not when training begins, the epoch that it begins with is known
            tables = self._own_tables() if self._hosted.tables is None else self._trained
            self._hosted.open(tables, self._step(), epoch=epoch)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._hosted.advance(self._step(), loss=(logs or {}).get("loss"))
        self._obey()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._hosted.epoch(epoch + 1, logs or {})
        self._obey()

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        self._hosted.close()

    def _obey(self) -> None:
        if self._hosted.should_stop:
            self._trained.stop_training = True


def _embedding_layers(model: Any) -> dict[str, Any]:
    """The embedding layers by path, each once; a path that two layers share gets a number."""
    found: dict[str, Any] = {}
    for layer in model._flatten_layers(include_self=False, recursive=True):
        if isinstance(layer, keras.layers.Embedding) and not any(layer is each for each in found.values()):
            path = layer.path or layer.name
            found[path if path not in found else f"{path}_{len(found)}"] = layer
    return found
