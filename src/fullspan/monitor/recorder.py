"""Where a watcher puts what it read: the store of the run and the sinks. Nothing that fails here ends the training."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fullspan.errors import InputError
from fullspan.monitor.scalars import Scalars
from fullspan.store.failures import StoreError
from fullspan.store.places import FILE
from fullspan.store.records import Event, Moment, Point
from fullspan.store.writer import RunWriter

__all__ = ["LOGGER", "Recorder", "Sink", "checked_calls"]

#: What a sink is: called with the values of one moment, ``"table/measure"`` to number, and that moment.
Sink = Callable[[dict[str, float], Moment], object]

LOGGER = logging.getLogger("fullspan.monitor")
#: What waits for a disk that is full; older points are dropped first.
_MOST_WAITING = 200_000
_MOST_ERRORS = 1000
#: A sink that fails so many times in a row is left alone.
_MOST_FAILURES = 3


class _Store:
    """The writer of a run, and what waits to be written."""

    def __init__(self, writer: RunWriter) -> None:
        self.writer: RunWriter | None = writer
        self.path = writer.path
        self.points: list[Point] = []
        self.events: list[Event] = []
        self.scalars = Scalars()
        self._owner = os.getpid()

    def flush(self) -> None:
        writer = self.writer
        if writer is None or self._owner != os.getpid():
            return
        self._check_place(writer)
        if self.points:
            writer.add(self.points)
            self.points = []
        while self.events:
            writer.add_event(self.events[0])
            del self.events[0]
        writer.beat()

    def _check_place(self, writer: RunWriter) -> None:
        """A file that was deleted can still be written to, and nobody would ever read it."""
        if not (writer.path / FILE).exists():
            self.abandon()
            raise StoreError(
                f"watch needs the directory of its run; got {str(writer.path)!r}, which is gone. "
                "What was not written is lost; training goes on unrecorded."
            )

    def abandon(self) -> None:
        """Let go of the file without a word; a run that nobody finished counts as stopped."""
        if self.writer is not None and self._owner == os.getpid():
            writer, self.writer = self.writer, None
            self.points, self.events = [], []
            writer.close()

    def leave(self) -> None:
        """When the program ends, or forgets the watcher: write what waits, and let go."""
        try:
            self.points += self.scalars.drain()
            self.flush()
        except Exception:  # a program that ends has nobody left to raise to
            LOGGER.warning("what fullspan.watch had not written yet is lost", exc_info=True)
        self.abandon()


class Recorder:
    """Writes points, vectors, snapshots and events, and tells the sinks.

    Parameters
    ----------
    writer
        The store, or None on processes that do not write.
    sinks
        Called with the values of each moment.
    strict
        Whether errors are raised. Otherwise each kind is logged once and kept as an event, and training goes on.
    """

    def __init__(self, writer: RunWriter | None, sinks: Iterable[Sink] = (), *, strict: bool = False) -> None:
        self.errors: list[Event] = []
        self._store = None if writer is None else _Store(writer)
        self.scalars = Scalars() if self._store is None else self._store.scalars
        self._sinks = dict.fromkeys(sinks, 0)
        self._untold: list[Point] = []
        self._strict = strict
        self._known: set[tuple[str, str, str]] = set()
        if self._store is not None:
            weakref.finalize(self, self._store.leave)

    @property
    def writer(self) -> RunWriter | None:
        """The store while it can be written to."""
        return None if self._store is None else self._store.writer

    def add(self, points: Iterable[Point]) -> None:
        """Take points, to be written by the next :meth:`flush`."""
        found = list(points)
        if self._sinks:
            self._untold += found
        if self.writer is not None and self._store is not None:
            self._store.points += found
            del self._store.points[:-_MOST_WAITING]

    def event(self, event: Event) -> None:
        """Take an event, to be written by the next :meth:`flush`."""
        if self.writer is not None and self._store is not None and len(self._store.events) < _MOST_ERRORS:
            self._store.events.append(event)

    def now(self, at: Moment, what: str, table: str, call: Callable[[RunWriter], object]) -> None:
        """Write something at once."""
        writer = self.writer
        if writer is None:
            return
        try:
            call(writer)
        except Exception as error:
            self.trouble(error, at, what, table)

    def flush(self, at: Moment) -> None:
        """Write what was taken, in one transaction, and tell the sinks."""
        if self._store is not None:
            try:
                self._store.flush()
            except Exception as error:
                self.trouble(error, at, "writing the run")
        self._tell(at)

    def _tell(self, at: Moment) -> None:
        values: dict[Moment, dict[str, float]] = {}
        for point in self._untold:
            if point.value is not None:
                name = f"{point.table}/{point.measure}" if point.table else point.measure
                values.setdefault(point.at, {})[name] = point.value
        self._untold = []
        for moment in sorted(values, key=lambda each: each.step):
            for sink in list(self._sinks):
                self._call(sink, values[moment], moment, at)

    def _call(self, sink: Sink, values: dict[str, float], moment: Moment, at: Moment) -> None:
        try:
            sink(dict(values), moment)
            self._sinks[sink] = 0
        except Exception as error:
            self._sinks[sink] += 1
            if self._sinks[sink] >= _MOST_FAILURES:
                del self._sinks[sink]
            self.trouble(error, at, f"the sink {_name_of(sink)}")

    def trouble(self, error: Exception, at: Moment, what: str, table: str = "") -> None:
        """Record what went wrong with the watching, and say so once; raise it when the watcher is strict."""
        if self._strict:
            raise error
        kind = (what, table, type(error).__name__)
        if kind in self._known:
            return
        self._known.add(kind)
        of = f" of {table}" if table else ""
        message = f"{what}{of} failed: {type(error).__name__}: {' '.join(str(error).split())}"
        LOGGER.warning("%s (step %d; training goes on, and this is said once)", message, at.step)
        event = Event(at, "error", "", table, message, {"error": type(error).__name__, "while": what})
        if len(self.errors) < _MOST_ERRORS:
            self.errors.append(event)
        self.event(event)

    def restart(self, at: Moment) -> None:
        """Training begins from scratch: what earlier attempts wrote is superseded."""
        writer = self.writer
        if writer is not None and writer.attempt > 1:
            self.now(at, "beginning the run", "", lambda to: to.rewind(-1))

    def rewind(self, at: Moment) -> None:
        """Training goes on after this moment: what was written of later steps is superseded."""
        self.scalars.clear()
        self._untold = [each for each in self._untold if each.at.step <= at.step]
        if self._store is not None:
            self._store.points = [each for each in self._store.points if each.at.step <= at.step]
            self._store.events = [each for each in self._store.events if each.at.step <= at.step]
        self.now(at, "going on with the run", "", lambda to: to.rewind(at.step))

    def finish(self, at: Moment, status: str) -> None:
        """Write what waits, say how the run ended, and let go of the store and the sinks."""
        self.flush(at)
        self.now(at, "ending the run", "", lambda writer: writer.finish(status))
        if self._store is not None:
            try:
                self._store.abandon()
            except Exception as error:
                self.trouble(error, at, "closing the run")
        sinks, self._sinks = self._sinks, {}
        for sink in sinks:
            close = getattr(sink, "close", None)
            if callable(close):
                try:
                    close()
                except Exception as error:
                    self.trouble(error, at, f"closing the sink {_name_of(sink)}")


def checked_calls(sinks: Any, on_finding: Any) -> list[Sink]:
    """The sinks, once it is known that they and the listener can be called.

    Raises
    ------
    InputError
        If one cannot.
    """
    found = [sinks] if callable(sinks) else list(sinks) if isinstance(sinks, Iterable) else None
    if found is None or not all(callable(each) for each in found):
        raise InputError(f"watch needs sinks that can be called; got {sinks!r}.")
    if on_finding is not None and not callable(on_finding):
        raise InputError(f"watch needs on_finding to be callable; got {on_finding!r}.")
    return found


def _name_of(sink: Any) -> str:
    return getattr(sink, "__name__", None) or type(sink).__name__


def described(writer: RunWriter, entries: Mapping[str, tuple[str, str | None, str | None]]) -> None:
    """Tell the store what measures are: name to title, unit and the better direction."""
    for name, (title, unit, better) in entries.items():
        writer.describe(name, title, unit, better)
