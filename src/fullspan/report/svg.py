"""Small figures as inline SVG: scales with ticks, and the marks that a report needs; colors are classes of the page."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

__all__ = ["Chart", "Scale", "spread_of", "thinned", "ticks_of"]

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MOST_POINTS = 320


@dataclass(frozen=True)
class Scale:
    """A map from numbers to pixels, linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self._of(self.low), self._of(self.high)
        if not high > low:
            return (self.start + self.end) / 2
        part = (self._of(max(value, self.low) if self.log else value) - low) / (high - low)
        return self.start + (self.end - self.start) * min(max(part, 0.0), 1.0)

    def _of(self, value: float) -> float:
        return math.log10(value) if self.log else value

    @property
    def ticks(self) -> list[tuple[float, str]]:
        return ticks_of(self.low, self.high, self.log)


def ticks_of(low: float, high: float, log: bool = False, most: int = 6) -> list[tuple[float, str]]:
    """Round places between `low` and `high`, with their labels."""
    if not (math.isfinite(low) and math.isfinite(high)) or not high > low:
        return [(low, _label(low, 0))] if math.isfinite(low) else []
    if log:
        first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
        if last - first >= 2:
            step = max(1, math.ceil((last - first + 1) / most))
            return [(10.0**power, "10" + str(power).translate(_SUPERSCRIPT)) for power in range(first, last + 1, step)]
        steps = [part * 10.0**power for power in range(first - 1, last + 1) for part in (1, 2, 5)]
        inside = [place for place in steps if low * (1 - 1e-9) <= place <= high * (1 + 1e-9)]
        if len(inside) >= 3:
            return [(place, f"{place:,.4g}") for place in inside]
    step = _step((high - low) / (most - 1))
    first = math.ceil(low / step - 1e-9)
    places = [(at * step) for at in range(first, math.floor(high / step + 1e-9) + 1)]
    return [(place, _label(place, step)) for place in places if not log or place > 0]


def _step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * part for part in (1, 2, 5, 10) if power * part >= rough * 0.999)


def _label(value: float, step: float) -> str:
    if value == 0:
        return "0"
    size = max(abs(value), step)
    if not 1e-4 <= size < 1e6:
        return f"{value:.1e}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    places = max(0, -math.floor(math.log10(step))) if step > 0 else 2
    return f"{value:,.{min(places, 8)}f}"


def thinned(count: int, most: int = _MOST_POINTS) -> list[int]:
    """At most about `most` of the positions 0 … count - 1, denser at the start, both ends included."""
    if count <= most:
        return list(range(count))
    near = set(range(most // 4))
    far = {round(at * (count - 1) / (most - 1)) for at in range(most)}
    return sorted(near | far)


@dataclass
class Chart:
    """One figure under construction: marks are added in the order in which they are painted.

    Parameters
    ----------
    x, y
        Lowest and highest number along each axis.
    log_x, log_y
        Whether the axis is logarithmic; its lowest number must then be positive.
    x_title, y_title
        What the axes show, with units.
    """

    x: tuple[float, float]
    y: tuple[float, float]
    x_title: str = ""
    y_title: str = ""
    log_x: bool = False
    log_y: bool = False
    width: int = 400
    height: int = 244
    x_ticks: list[tuple[float, str]] | None = None
    marks: list[Markup] = field(default_factory=list)
    hovers: list[tuple[float, str]] = field(default_factory=list)
    left: int = 50
    right: int = 10
    top: int = 24
    bottom: int = 42

    @property
    def across(self) -> Scale:
        return Scale(*self.x, self.left, self.width - self.right, self.log_x)

    @property
    def up(self) -> Scale:
        return Scale(*self.y, self.height - self.bottom, self.top, self.log_y)

    def line(self, xs: Sequence[float], ys: Sequence[float], kind: str) -> None:
        """A line through the points; numbers that are not finite, and those a log axis cannot hold, break it."""
        runs: list[list[str]] = [[]]
        for x, y in zip(xs, ys, strict=True):
            if math.isfinite(x) and math.isfinite(y) and not (self.log_y and y <= 0) and not (self.log_x and x <= 0):
                runs[-1].append(f"{self.across(x):.1f},{self.up(y):.1f}")
            elif runs[-1]:
                runs.append([])
        for run in runs:
            if len(run) == 1:
                x, _, y = run[0].partition(",")
                self._add('<circle class="{} dot" cx="{}" cy="{}" r="2.5"/>', kind, x, y)
            elif run:
                self._add('<polyline class="{}" points="{}"/>', kind, " ".join(run))

    def bars(self, edges: Sequence[float], heights: Sequence[float], kind: str) -> None:
        """A histogram: one filled outline."""
        base = self.up(self.y[0])
        path = [f"M{self.across(edges[0]):.1f},{base:.1f}"]
        for left, right, height in zip(edges[:-1], edges[1:], heights, strict=True):
            path.append(f"V{self.up(height):.1f}H{self.across(right):.1f}" if left < right else "")
        self._add('<path class="{}" d="{}V{}Z"/>', kind, "".join(path), f"{base:.1f}")

    def columns(self, places: Sequence[float], heights: Sequence[float], kind: str, share: float = 0.7) -> None:
        """One bar a place, `share` of a unit wide."""
        base = self.up(self.y[0])
        wide = max(abs(self.across(self.x[0] + 1) - self.across(self.x[0])) * share, 1.0)
        for place, height in zip(places, heights, strict=True):
            at, top = self.across(place) - wide / 2, self.up(height)
            self._add(
                '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>',
                kind,
                at,
                top,
                wide,
                max(base - top, 0),
            )

    def band(self, xs: Sequence[float], lows: Sequence[float], highs: Sequence[float], kind: str) -> None:
        """The area between two lines."""
        there = [f"{self.across(x):.1f},{self.up(y):.1f}" for x, y in zip(xs, highs, strict=True)]
        back = [f"{self.across(x):.1f},{self.up(y):.1f}" for x, y in zip(xs, lows, strict=True)]
        self._add('<polygon class="{}" points="{}"/>', kind, " ".join(there + back[::-1]))

    def shade_below(self, y: float, label: str) -> None:
        """Gray out what lies under `y`, and say why."""
        top, base = self.up(y), self.up(self.y[0])
        if base - top < 1:
            return
        wide = self.width - self.left - self.right
        self._add(
            '<rect class="shade" x="{}" y="{:.1f}" width="{}" height="{:.1f}"/>', self.left, top, wide, base - top
        )
        self._add(
            '<text class="label" x="{}" y="{:.1f}" text-anchor="end">{}</text>',
            self.width - self.right - 6,
            base - 6,
            label,
        )

    def rule(self, x: float, label: str, kind: str = "null", level: int = 0) -> None:
        """A vertical line with its label on top."""
        if not self.x[0] <= x <= self.x[1]:
            return
        at = self.across(x)
        self._add(
            '<line class="{}" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>',
            kind,
            at,
            at,
            self.top,
            self.height - self.bottom,
        )
        late = at > (self.left + self.width - self.right) / 2
        anchor, shift = ("end", -5) if late else ("start", 5)
        self._add(
            '<text class="label {}" x="{:.1f}" y="{}" text-anchor="{}">{}</text>',
            kind,
            at + shift,
            self.top + 10 + 13 * level,
            anchor,
            label,
        )

    def dots(self, xs: Sequence[float], ys: Sequence[float], kind: str) -> None:
        for x, y in zip(xs, ys, strict=True):
            self._add('<circle class="{} dot" cx="{:.1f}" cy="{:.1f}" r="3.5"/>', kind, self.across(x), self.up(y))

    def hover(self, x: float, text: str) -> None:
        """What is read out when the pointer, or the arrow keys, are at `x`."""
        self.hovers.append((round(self.across(x), 1), text))

    def svg(self, label: str) -> Markup:
        """The figure; `label` is what a screen reader says."""
        box = f"0 0 {self.width} {self.height}"
        cursor = Markup('<line class="cursor" y1="{}" y2="{}" x1="0" x2="0" hidden=""/>').format(
            self.top, self.height - self.bottom
        )
        return Markup('<svg viewBox="{}" role="img" aria-label="{}" tabindex="0" data-hover="{}">{}{}{}</svg>').format(
            box, label, json.dumps(self.hovers, ensure_ascii=False), self._axes(), Markup("").join(self.marks), cursor
        )

    def _axes(self) -> Markup:
        base, end = self.height - self.bottom, self.width - self.right
        parts: list[Markup] = []
        for value, text in self.up.ticks:
            y = self.up(value)
            parts.append(_format('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>', self.left, end, y, y))
            parts.append(
                _format('<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>', self.left - 7, y + 4, text)
            )
        for value, text in self.across.ticks if self.x_ticks is None else self.x_ticks:
            x = self.across(value)
            parts.append(_format('<line class="axis" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>', x, x, base, base + 4))
            parts.append(
                _format('<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">{}</text>', x, base + 17, text)
            )
        parts.append(_format('<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>', self.left, end, base, base))
        middle = (self.left + end) / 2
        parts.append(
            _format(
                '<text class="title" x="{:.1f}" y="{}" text-anchor="middle">{}</text>',
                middle,
                self.height - 6,
                self.x_title,
            )
        )
        parts.append(_format('<text class="title" x="4" y="12">{}</text>', self.y_title))
        return Markup("").join(parts)

    def _add(self, template: str, *values: object) -> None:
        self.marks.append(_format(template, *values))


def _format(template: str, *values: object) -> Markup:
    """Fill `template`; strings are escaped, numbers keep their format."""
    return Markup(template.format(*(escape(value) if isinstance(value, str) else value for value in values)))  # noqa: S704 (values are escaped)


def spread_of(values: Iterable[float], room: float = 0.05) -> tuple[float, float]:
    """Lowest and highest of the finite `values` with a little room, never of zero width."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    margin = room * (high - low) or max(abs(low) * 0.1, 1e-12)
    return low - margin, high + margin
