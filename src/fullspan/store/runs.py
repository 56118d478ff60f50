"""The store of runs: one directory and one SQLite file a run, appended to by one writer, read by anyone meanwhile."""

from __future__ import annotations

from fullspan.store.failures import RunBusyError, StoreError
from fullspan.store.places import find_runs, is_run
from fullspan.store.reader import Run, open_run
from fullspan.store.snapshots import Snapshot
from fullspan.store.writer import RunWriter

__all__ = ["Run", "RunBusyError", "RunWriter", "Snapshot", "StoreError", "find_runs", "is_run", "open_run"]
