"""Where a watcher also sends its values: one thin file a tracker, imported when the first value arrives.

A sink is any ``sink(values, at)``, with an optional ``close()``: `values` maps ``"table/measure"`` to numbers, or the
bare name for those of the run itself, and `at` is the :class:`~fullspan.store.records.Moment`.
"""

from __future__ import annotations
