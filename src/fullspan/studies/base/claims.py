"""Statements that a study tests, and the rule that answers them: holds, does not hold, undecided, not testable here.

A claim is a conjunction of parts. A part says that a number, had once a seed, lies above (or below) a resolution δ: the
smallest change that the source could have shown. Its 95% interval over seeds answers it:

- *supported*: the whole interval lies beyond δ on the claimed side;
- *contradicted*: no point of the interval does. With k parts this interval has the level 1 - 0.05/k, since one false
  contradiction out of k would refute the claim;
- *undecided*: the interval reaches to both sides of δ, or there is one seed only.

The claim holds when all parts are supported (no correction is needed for that), does not hold when one is contradicted,
and is undecided otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fullspan.errors import InputError
from fullspan.studies.base.statistics import Interval, interval

__all__ = ["ANSWERS", "Claim", "Part", "answer", "part", "untestable"]

ANSWERS = ("holds", "does not hold", "undecided", "not testable here")
LEVEL = 0.95
#: Parts that the sentence under a claim names.
_MOST = 3
_SIDES = ("rises", "falls")


@dataclass(frozen=True)
class Part:
    """One number of a claim, with what was claimed about it and what its interval says.

    Parameters
    ----------
    label
        What was looked at, such as ``"Gini index, SGD, batch 8"``.
    claimed
        ``"rises"`` (above `resolution`) or ``"falls"`` (below -`resolution`).
    resolution
        The smallest change that counts, in the unit of the number.
    estimate
        Mean over seeds with its 95% interval.
    found
        ``"supported"``, ``"contradicted"`` or ``"undecided"``.
    """

    label: str
    claimed: str
    resolution: float
    estimate: Interval
    found: str


@dataclass(frozen=True)
class Claim:
    """A statement of a source in our own words, and its answer.

    Parameters
    ----------
    name, statement
        Short name, and the statement.
    where
        Where the source makes it.
    test
        What was computed, in words.
    answer
        One of :data:`ANSWERS`.
    parts
        The evidence.
    why
        One sentence: what decided it, or why it cannot be tested.
    detail
        More numbers, as plain values.
    """

    name: str
    statement: str
    where: str
    test: str
    answer: str
    parts: tuple[Part, ...] = ()
    why: str = ""
    detail: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def part(label: str, values: Sequence[float], claimed: str, *, resolution: float, n_parts: int = 1) -> Part:
    """Hold one number a seed against what was claimed about it.

    Parameters
    ----------
    label, claimed, resolution
        See :class:`Part`.
    values
        One number a seed.
    n_parts
        Parts of the claim: the level of a contradiction is 1 - 0.05/n_parts.

    Raises
    ------
    InputError
        Another direction than ``"rises"`` and ``"falls"``, or values that are not finite.

    Examples
    --------
    >>> part("Gini index", [0.10, 0.11, 0.12], "rises", resolution=1e-4).found
    'supported'
    """
    if claimed not in _SIDES:
        raise InputError(f'part needs "rises" or "falls" as what is claimed; got {claimed!r}.')
    sign = 1.0 if claimed == "rises" else -1.0
    shown = interval(values, LEVEL)
    strict = interval([sign * value for value in values], 1 - (1 - LEVEL) / n_parts)
    return Part(label, claimed, resolution, shown, _found(shown, strict, sign, resolution))


def _found(shown: Interval, strict: Interval, sign: float, resolution: float) -> str:
    if shown.low is None or shown.high is None or strict.high is None:
        return "undecided"
    if min(sign * shown.low, sign * shown.high) > resolution:
        return "supported"
    return "contradicted" if strict.high < resolution else "undecided"


def answer(
    name: str,
    statement: str,
    where: str,
    test: str,
    looked: Sequence[tuple[str, Sequence[float], str]],
    *,
    resolution: float,
    detail: dict[str, Any] | None = None,
) -> Claim:
    """Answer a claim by the rule of this module.

    Parameters
    ----------
    name, statement, where, test, detail
        See :class:`Claim`.
    looked
        Label, one number a seed, and direction claimed, a part.
    resolution
        The smallest change that counts.

    Examples
    --------
    >>> looked = [("Gini index", [0.10, 0.11, 0.12], "rises")]
    >>> answer("up", "It rises.", "figure 1", "slope", looked, resolution=1e-4).answer
    'holds'
    """
    if not looked:
        return untestable(name, statement, where, test, "Nothing was measured that it speaks of.")
    parts = tuple(part(*each, resolution=resolution, n_parts=len(looked)) for each in looked)
    found = [each.found for each in parts]
    said = "holds" if set(found) == {"supported"} else "does not hold" if "contradicted" in found else "undecided"
    return Claim(name, statement, where, test, said, parts, _why(parts), detail or {})


def _why(parts: Sequence[Part]) -> str:
    n = len(parts)
    seeds = min(each.estimate.n for each in parts)
    if seeds == 1:
        pointing = sum(each.estimate.mean * (1 if each.claimed == "rises" else -1) > each.resolution for each in parts)
        return f"One seed has no interval over seeds; {pointing} of {n} point as claimed. Run at least two, better ten."
    counts = {name: sum(each.found == name for each in parts) for name in ("supported", "contradicted", "undecided")}
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    found = f"{n} part{'s' * (n > 1)}: {told}."
    for name, lead in (("contradicted", "Against it"), ("undecided", "Open")):
        those = [_told(each) for each in parts if each.found == name]
        more = f"; and {len(those) - _MOST} more" if len(those) > _MOST else ""
        found += f" {lead}: {'; '.join(those[:_MOST])}{more}." if those else ""
    return found


def _told(part: Part) -> str:
    estimate = part.estimate
    return f"{part.label} {estimate.mean:+.4f} [{estimate.low:+.4f}, {estimate.high:+.4f}]"


def untestable(name: str, statement: str, where: str, test: str, why: str) -> Claim:
    """A claim that this run, or this study, cannot test."""
    return Claim(name, statement, where, test, "not testable here", why=why)
