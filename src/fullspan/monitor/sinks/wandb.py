"""Values as metrics of a Weights & Biases run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fullspan._extras import require
from fullspan.store.records import Moment

__all__ = ["WandbSink"]


class WandbSink:
    """Send what a watcher reads to Weights & Biases: ``fs.watch(..., sinks=[fs.WandbSink(project="mf")])``.

    Parameters
    ----------
    run
        A run that is open already; it is left open. None starts one with `settings`.
    prefix
        Put before every name.
    **settings
        Keywords of ``wandb.init``: ``project``, ``mode="offline"``, ``dir`` and so on.

    Notes
    -----
    The step counter of W&B only increases, and other loggers of the same run move it. So the values have an axis of
    their own, ``fullspan/step``, to which ``define_metric`` ties them: nothing is dropped after a resume, and nothing
    else in the run is disturbed.
    """

    def __init__(self, run: Any = None, *, prefix: str = "fullspan/", **settings: Any) -> None:
        self.prefix = prefix
        self._settings = settings
        self._run = run
        self._own = run is None
        self._defined = False

    def __call__(self, values: Mapping[str, float], at: Moment) -> None:
        if self._run is None:
            self._run = require("wandb", "wandb", "fullspan.WandbSink").init(**self._settings)
        axis = f"{self.prefix}step"
        if not self._defined:
            self._run.define_metric(axis, hidden=True)
            self._run.define_metric(f"{self.prefix}*", step_metric=axis)
            self._defined = True
        epoch = {} if at.epoch is None else {f"{self.prefix}epoch": at.epoch}
        self._run.log({axis: at.step, **epoch, **{f"{self.prefix}{name}": value for name, value in values.items()}})

    def close(self) -> None:
        """Finish the run, if it was started here."""
        if self._own and self._run is not None:
            self._run.finish()
            self._run, self._defined = None, False
