"""What a check of a run may say in words: at which points it looks, and when it fails."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fullspan.store.records import Moment

__all__ = ["CLOCKS", "LAST", "Condition", "When", "parse_condition", "parse_when"]

#: The clocks of a run that a range may be of.
CLOCKS = ("epoch", "step", "samples")

_NUMBER = r"([+-]?\d*\.?\d+(?:[eE][+-]?\d+)?)"
_COMPARED = re.compile(rf"([<>])\s*{_NUMBER}\s*(%)?(?:\s*(?:\*|×|times|of)\s*(dim|null|baseline))?")
_CHANGED = re.compile(rf"(drop|rise|change)\s*>\s*{_NUMBER}\s*(%)?")
_AT = r"(\d+(?:\.\d+)?(?:[eE]\+?\d+)?)"
_RANGE = re.compile(rf"(\w+)\s*:\s*{_AT}?\s*(\.\.)?\s*{_AT}?")


@dataclass(frozen=True)
class When:
    """Which points of a run a check reads.

    Parameters
    ----------
    clock
        ``"last"`` for the last one, ``"any"`` for all, or one of :data:`CLOCKS` for those in a range.
    start, stop
        Ends of the range, both inclusive; None leaves an end open.
    """

    clock: str = "last"
    start: float | None = None
    stop: float | None = None

    def covers(self, at: Moment) -> bool:
        """Whether a point read at a moment counts; one without the clock does not."""
        if self.clock in ("last", "any"):
            return True
        value = getattr(at, self.clock)
        if value is None:
            return False
        return (self.start is None or value >= self.start) and (self.stop is None or value <= self.stop)

    def __str__(self) -> str:
        if self.clock in ("last", "any"):
            return self.clock
        start, stop = ("" if each is None else f"{each:.12g}" for each in (self.start, self.stop))
        return f"{self.clock}:{start}" if self.start == self.stop else f"{self.clock}:{start}..{stop}"


LAST = When()


@dataclass(frozen=True)
class Condition:
    """When a check fails, as limits.

    Parameters
    ----------
    minimum, maximum
        Limits that a value must keep, both inclusive.
    relative_to
        What the limits are relative to.
    """

    minimum: float | None
    maximum: float | None
    relative_to: str


def parse_when(text: Any) -> When | None:
    """``"last"``, ``"any"``, ``"epoch:5.."``, ``"step:1000..2000"``, ``"samples:..1e6"``, ``"epoch:5"``; None if none.

    Examples
    --------
    >>> parse_when("epoch:5..")
    When(clock='epoch', start=5.0, stop=None)
    """
    if text in ("last", "any"):
        return When(text)
    found = _RANGE.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or found[1] not in CLOCKS or (found[2] is None and found[4] is None):
        return None
    start, stop = (None if each is None else float(each) for each in (found[2], found[4]))
    if found[3] is None:
        return When(found[1], start, start) if stop is None else None
    return None if start is not None and stop is not None and start > stop else When(found[1], start, stop)


def parse_condition(text: Any) -> Condition | None:
    """``"< 0.3"``, ``"> 2 * null"``, ``"< 0.1 * dim"``, ``"drop > 5%"``, ``"change > 0.2"``; None if it is none.

    Examples
    --------
    >>> parse_condition("< 0.1 * dim")
    Condition(minimum=0.1, maximum=None, relative_to='dim')
    >>> parse_condition("drop > 5%")
    Condition(minimum=0.95, maximum=None, relative_to='baseline')
    """
    plain = text.strip() if isinstance(text, str) else ""
    compared, changed = _COMPARED.fullmatch(plain), _CHANGED.fullmatch(plain)
    if compared is not None:
        limit = float(compared[2]) / (100 if compared[3] else 1)
        if compared[3] and not compared[4]:
            return None  # per cent of what?
        low, high = (limit, None) if compared[1] == "<" else (None, limit)
        return Condition(low, high, compared[4] or "absolute")
    if changed is None or float(changed[2]) < 0:
        return None
    kind, size = changed[1], float(changed[2])
    middle, room, unit = (1.0, size / 100, "baseline") if changed[3] else (0.0, size, "difference")
    low = None if kind == "rise" else round(middle - room, 12)
    high = None if kind == "drop" else round(middle + room, 12)
    return Condition(low, high, unit)
