"""What the adapters share: a watcher inside the training loop of a framework, which tells it its own step count."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any

from fullspan._backend import is_torch_module
from fullspan.errors import UnknownNameError, did_you_mean
from fullspan.monitor.watcher import Watcher, watch

__all__ = ["Hosted", "Tables"]

#: What an adapter takes as `tables`: None for the embedding tables of the model, a mapping as :func:`fullspan.watch`
#: takes it, or a function of the model that gives one, for models that are built later.
Tables = Mapping[str, Any] | Callable[[Any], Mapping[str, Any]] | None

#: How frameworks call the loss on held-out data.
_HELD_OUT = {"val_loss": "test_loss", "valid_loss": "test_loss", "eval_loss": "test_loss"}


class Hosted:
    """A watcher that opens when training begins, follows the host's step count and closes when training ends.

    Parameters
    ----------
    user
        Name of the adapter, for messages.
    run, tables, options
        As the adapter was given them; `options` are keywords of :func:`fullspan.watch`.
    """

    def __init__(self, user: str, run: str | PathLike[str], tables: Tables, options: Mapping[str, Any]) -> None:
        _check_options(user, options)
        self.run, self.tables, self.options = run, tables, dict(options)
        self.watcher: Watcher | None = None
        self.step = 0
        self.state: dict[str, Any] | None = None

    def open(
        self,
        model: Any,
        step: int,
        *,
        epoch: float | None = None,
        samples: int | None = None,
        rank: int | None = None,
        optimizers: Iterable[Any] = (),
    ) -> None:
        """Begin at `step`: 0, or where a checkpoint left off; later points of earlier attempts are superseded.

        Parameters
        ----------
        model
            What the host trains.
        step, epoch, samples
            What the host has counted so far; the state of a checkpoint goes before `epoch` and `samples`.
        rank
            Number of this process; None leaves it to :func:`fullspan.watch`.
        optimizers
            Those whose gradients are read where ``gradients=True`` asks for it; they count the steps then.
        """
        self.close("stopped")
        told = {"resume_step": step or None, "rank": rank, **self.options}
        self.step, self.watcher = step, watch(self._tables_of(model), self.run, **told)
        if self.options.get("gradients"):
            self.watcher.attach(*optimizers)
        state, self.state = self.state, None
        if state is None and step:
            state = {**self.watcher.state_dict(), **_counts(step, epoch or 0.0, samples)}
        if state is not None:
            self.watcher.load_state_dict(state)
        self.watcher.begin()

    def _tables_of(self, model: Any) -> Any:
        tables = self.tables
        if callable(tables) and not is_torch_module(tables):
            return tables(model)
        return model if tables is None else tables

    def advance(self, step: int, **told: Any) -> None:
        """Tell the watcher of the optimizer steps since the last call, if there were any."""
        if self.watcher is not None and step > self.step:
            n, self.step = step - self.step, step
            self.watcher.step(n, **told)

    def epoch(self, number: float, metrics: Mapping[str, Any]) -> None:
        """Tell the watcher that epoch `number`, counted from 1, has ended."""
        if self.watcher is not None:
            self.watcher.epoch(number, **scalars_of(metrics))

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Record the numbers among `metrics` at `step`."""
        numbers = scalars_of(metrics)
        if self.watcher is not None and numbers:
            self.watcher.log(step, **numbers)

    def observe(self) -> None:
        """Read the tables now, wholly unless ``full="never"``."""
        if self.watcher is not None:
            self.watcher.observe(full=self.options.get("full") != "never")

    @property
    def should_stop(self) -> bool:
        """Whether a rule named in `stop_on` has fired."""
        return self.watcher is not None and self.watcher.should_stop

    def state_dict(self) -> dict[str, Any]:
        """What belongs into a checkpoint of the host."""
        return {} if self.watcher is None else {"watcher": self.watcher.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Keep the state of a checkpoint until training begins."""
        self.state = state.get("watcher")

    def close(self, status: str | None = None) -> None:
        """End the run; without a status, it has finished, or was stopped by a rule."""
        if self.watcher is not None:
            self.watcher.finish(status or ("stopped" if self.should_stop else "finished"))
            self.watcher.close()
            self.watcher = None


def _counts(step: int, epoch: float, samples: int | None) -> dict[str, Any]:
    """The counts of a watcher's state after `step` steps and `epoch` epochs, the last one perhaps not whole."""
    length = round(step / epoch) if epoch else 0
    begun = step - round(epoch % 1 * length)
    counts = {"epochs": int(epoch), "epoch_from": begun, "epoch_length": length, "by_epochs": epoch > 0}
    return {"step": step, "samples": samples, **counts}


def scalars_of(metrics: Mapping[str, Any], drop: Iterable[str] = ()) -> dict[str, float]:
    """The single numbers among `metrics` as floats; the loss on held-out data is ``test_loss`` under every host."""
    left_out = {*drop, "epoch"}
    return {
        _HELD_OUT.get(name, name): float(value)
        for name, value in metrics.items()
        if name not in left_out and not isinstance(value, bool) and _is_number(value)
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or getattr(value, "shape", None) == ()


def _check_options(user: str, options: Mapping[str, Any]) -> None:
    known = [name for name in inspect.signature(watch).parameters if name not in ("tables", "run")]
    for name in options:
        if name not in known:
            raise UnknownNameError(f"{user} needs keywords of fullspan.watch; got {name!r}.{did_you_mean(name, known)}")
