"""Values as scalars of TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

from fullspan._extras import require
from fullspan.store.records import Moment

__all__ = ["TensorBoardSink"]


class TensorBoardSink:
    """Send what a watcher reads to TensorBoard: ``fs.watch(..., sinks=[fs.TensorBoardSink("logs")])``.

    Parameters
    ----------
    where
        Folder of the event files, or a writer that is open already, such as torch's ``SummaryWriter`` or the
        ``logger.experiment`` of Lightning; it is left open.
    prefix
        Put before every name.

    Notes
    -----
    A folder that holds later steps of an earlier attempt hides them from the first step on that arrives here
    (``purge_step``), so that a resumed run shows one curve.
    """

    def __init__(self, where: str | PathLike[str] | Any, *, prefix: str = "fullspan/") -> None:
        self.prefix = prefix
        self._folder = fspath(where) if isinstance(where, str | PathLike) else None
        self._writer: Any = where if self._folder is None else None

    def __call__(self, values: Mapping[str, float], at: Moment) -> None:
        if self._writer is None:
            tensorboard = require("torch.utils.tensorboard", "tensorboard", "fullspan.TensorBoardSink")
            self._writer = tensorboard.SummaryWriter(self._folder, purge_step=at.step)
        for name, value in values.items():
            self._writer.add_scalar(f"{self.prefix}{name}", value, at.step, walltime=at.wall)
        self._writer.flush()

    def close(self) -> None:
        """Close the event file, if it was opened here."""
        if self._folder is not None and self._writer is not None:
            self._writer.close()
            self._writer = None
