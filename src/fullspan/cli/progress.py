"""A bar on standard error while rows are read, and only where somebody can see it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

__all__ = ["progress_bar"]

Told = Callable[[str, str, int, "int | None"], None]

#: Shorter runs show nothing.
_PATIENCE = 0.4


@contextlib.contextmanager
def progress_bar(quiet: bool = False) -> Iterator[Told | None]:
    """Yield what a job calls with table, phase, rows done and rows in all; None where no bar is wanted."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    bar = _Bar()
    try:
        yield bar.told
    finally:
        bar.close()


class _Bar:
    """rich's progress bar, imported when the first run turns out to be long."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._bar = self._task = self._key = None

    def told(self, table: str, phase: str, done: int, total: int | None) -> None:
        if self._bar is None:
            if time.monotonic() - self._began < _PATIENCE:
                return
            self._open()
        if self._key != (table, phase):
            self._begin(table, phase, total)
        self._bar.update(self._task, completed=done)  # type: ignore[union-attr]  # started above

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("rows"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()

    def _begin(self, table: str, phase: str, total: int | None) -> None:
        from fullspan.jobs.formats.words import clean

        assert self._bar is not None
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._key = (table, phase)
        self._task = self._bar.add_task(f"{clean(table)[-40:]}  {phase}", total=total)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
