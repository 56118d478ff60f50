"""Propose a ``fullspan.toml`` from a good training run: limits with room around where its curves came to rest."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fullspan.errors import NothingEvaluatedError
from fullspan.jobs.check import literal, toml_of, waivers_of
from fullspan.jobs.check_run import check_run
from fullspan.jobs.run_points import RUN, RunPoints
from fullspan.store.records import Point

__all__ = ["propose_run_rules"]


@dataclass(frozen=True)
class _Guard:
    """A measure, which side of it is guarded, and the least margin, relative or absolute."""

    measure: str
    side: str
    relative: float
    absolute: float = 0.0


_TABLES = (
    _Guard("information_abundance", "min", 0.2),
    _Guard("effective_rank", "min", 0.1),
    _Guard("spectral_entropy", "min", 0.1),
    _Guard("average_cosine", "max", 0.2, 0.05),
    _Guard("mean_norm_ratio", "max", 0.2, 0.05),
    _Guard("mean_norm", "min", 0.3),
    _Guard("mean_norm", "max", 0.3),
)
_SCALARS = (_Guard("loss", "max", 0.1), _Guard("test_loss", "max", 0.1))
#: Points at the end of a curve that say how much it trembles.
_TAIL = 10
_TREMBLES = 4.0
_WINDOW = 3


def propose_run_rules(path: str | os.PathLike[str], *, today: dt.date | None = None) -> str:
    """Propose a ``fullspan.toml`` from a good training run.

    Parameters
    ----------
    path
        Directory of the run.
    today
        The day from which waivers count; None takes the current one.

    Returns
    -------
    str
        TOML. Each limit lies four deviations of the noise between the last ten points away from the last one, and never
        nearer than a margin that is worth an alarm; a check fails when the last three points are past it. What the
        rules that ship find in the run is waived for 90 days, with the reason said.

    Raises
    ------
    NothingEvaluatedError
        If the run has no point of anything that is worth a guard.
    """
    run = RunPoints.read(path)
    parts = [f"# Proposed from the run {toml_of(run.name)}: see `fullspan check --help`.\n"]
    for key in run.keys:
        glob = None if key == RUN else "*" if len(run.tables) == 1 else literal(key)
        for guard in _SCALARS if key == RUN else _TABLES:
            parts += _proposed(guard, glob, run.series(key, guard.measure))
    if len(parts) == 1:
        known = ", ".join(sorted({guard.measure for guard in (*_TABLES, *_SCALARS)}))
        raise NothingEvaluatedError(f"propose_run_rules needs points of {known}; got a run without any of them.")
    found = check_run(path)
    for key, table in found.report.tables.items():
        parts += waivers_of(literal(key), table, today or dt.date.today())
    return "\n".join(parts)


def _proposed(guard: _Guard, glob: str | None, series: Sequence[Point]) -> list[str]:
    some = [point for point in series if point.value is not None]
    if not some or some[-1] is not series[-1]:
        return []
    values = np.array([point.value for point in some[-_TAIL:]], dtype=np.float64)
    last, room = float(values[-1]), _room(guard, values)
    limit = last - room if guard.side == "min" else last + room
    if guard.side == "min" and limit <= 0 < last:
        limit = 0.5 * last
    window = min(_WINDOW, len(some))
    return [
        f"[[check]]  # this run: {last:.6g} at step {some[-1].at.step}\n"
        + ("" if glob is None else f"tables = {toml_of(glob)}\n")
        + f"measure = {toml_of(guard.measure)}\n{guard.side} = {float(f'{limit:.6g}')!r}\n"
        + (f"window = {window}\n" if window > 1 else "")
    ]


def _room(guard: _Guard, values: Any) -> float:
    """Four deviations of the steps between the last points, by their median, or the least margin."""
    trembling = float(np.median(np.abs(np.diff(values)))) / 0.6745 / np.sqrt(2) if len(values) > 2 else 0.0
    return max(_TREMBLES * trembling, guard.relative * abs(float(values[-1])), guard.absolute)
