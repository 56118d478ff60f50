"""Values as metrics of an MLflow run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fullspan._extras import require
from fullspan.store.records import Moment

__all__ = ["MlflowSink"]

_FORBIDDEN = re.compile(r"[^\w\-. :/]")
#: The most metrics that MLflow takes in one call.
_BATCH = 1000


class MlflowSink:
    """Send what a watcher reads to MLflow: ``fs.watch(..., sinks=[fs.MlflowSink("sqlite:///mlflow.db")])``.

    Parameters
    ----------
    tracking_uri
        Where MLflow keeps its runs; None takes what ``mlflow.get_tracking_uri()`` says.
    run_id
        A run that exists, which is left open; None takes the active run, or starts one that :meth:`close` ends.
    experiment
        Name of the experiment of a run that is started here; made if absent.
    prefix
        Put before every name.

    Notes
    -----
    One call of ``log_batch`` for all values of a step; works with ``mlflow`` and with ``mlflow-skinny``. Signs that
    MLflow forbids in a name become ``_``. MLflow never replaces a value: after a resume its history of a run holds both
    attempts.
    """

    def __init__(
        self,
        tracking_uri: str | None = None,
        *,
        run_id: str | None = None,
        experiment: str = "Default",
        prefix: str = "fullspan/",
    ) -> None:
        self.prefix, self.run_id = prefix, run_id
        self._uri, self._experiment = tracking_uri, experiment
        self._client: Any = None
        self._own = False

    def __call__(self, values: Mapping[str, float], at: Moment) -> None:
        mlflow = require("mlflow", "mlflow", "fullspan.MlflowSink")
        client = self._client or self._open(mlflow)
        stamp = int(at.wall * 1000)
        metrics = [
            mlflow.entities.Metric(_FORBIDDEN.sub("_", f"{self.prefix}{name}"), value, stamp, at.step)
            for name, value in values.items()
        ]
        for start in range(0, len(metrics), _BATCH):
            client.log_batch(self.run_id, metrics=metrics[start : start + _BATCH])

    def _open(self, mlflow: Any) -> Any:
        self._client = client = mlflow.MlflowClient(self._uri)
        active = mlflow.active_run() if self.run_id is None else None
        if active is not None:
            self.run_id = active.info.run_id
        if self.run_id is None:
            found = client.get_experiment_by_name(self._experiment)
            home = found.experiment_id if found else client.create_experiment(self._experiment)
            self.run_id = client.create_run(home).info.run_id
            self._own = True
        return client

    def close(self) -> None:
        """End the run, if it was started here."""
        if self._own and self._client is not None:
            self._client.set_terminated(self.run_id)
        self._client, self._own = None, False
