"""Values as metrics of a trackio run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fullspan._extras import require
from fullspan.store.records import Moment

__all__ = ["TrackioSink"]


class TrackioSink:
    """Send what a watcher reads to trackio: ``fs.watch(..., sinks=[fs.TrackioSink("mf", name="sgd")])``.

    Parameters
    ----------
    project
        Project of a run that is started here, or a run that is open already, which is left open.
    prefix
        Put before every name.
    **settings
        Keywords of ``trackio.init``: ``name``, ``resume="allow"``, ``space_id`` and so on.

    Notes
    -----
    trackio keeps its own SQLite file, in the folder that ``TRACKIO_DIR`` names when it is imported, and writes it from
    a thread of its own: :meth:`close` waits for it. It never replaces a value: a resumed run holds both attempts.
    """

    def __init__(self, project: str | Any, *, prefix: str = "fullspan/", **settings: Any) -> None:
        self.prefix = prefix
        self._settings = settings
        self._project = project if isinstance(project, str) else None
        self._run = None if isinstance(project, str) else project

    def __call__(self, values: Mapping[str, float], at: Moment) -> None:
        if self._run is None:
            trackio = require("trackio", "trackio", "fullspan.TrackioSink")
            self._run = trackio.init(project=self._project, **{"embed": False, **self._settings})
        epoch = {} if at.epoch is None else {f"{self.prefix}epoch": at.epoch}
        self._run.log({**epoch, **{f"{self.prefix}{name}": value for name, value in values.items()}}, step=at.step)

    def close(self) -> None:
        """Write what is left and finish the run, if it was started here."""
        if self._project is not None and self._run is not None:
            self._run.finish()
            self._run = None
