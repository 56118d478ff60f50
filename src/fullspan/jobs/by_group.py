"""The groups of ``by``: what the measures read of each, as they do of the whole table."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from fullspan.jobs.wide import with_row_space
from fullspan.measures.evidence import Evidence
from fullspan.summaries.base import Summaries
from fullspan.summaries.groups import Grouped
from fullspan.summaries.moments import Moments
from fullspan.summaries.reservoir import Reservoir
from fullspan.summaries.rows import RowProfile
from fullspan.summaries.triangle import Triangle
from fullspan.summaries.unit_mean import UnitMean
from fullspan.summaries.units import UnitMoments

__all__ = ["evidence_of_groups", "factors_fit", "left_out_note", "with_factors"]

#: Memory that the QR factors of all groups, with the rows waiting for them, may take.
_FACTOR_BYTES = 512 << 20


def evidence_of_groups(made: Summaries, whole: Evidence, second: frozenset[str]) -> dict[Hashable, Evidence]:
    """The evidence of every group; the reservoir of a group, where there is one, holds all its rows."""
    found = {}
    for key, part in (made[Grouped].parts if Grouped in made else {}).items():
        moments = part.get(Moments)
        one = Evidence(
            n_rows=next(iter(part.values())).n_rows,
            dim=whole.dim,
            dtype=whole.dtype,
            moments=moments,
            spectrum=moments,
            unit_rows=part.get(UnitMoments) or part.get(UnitMean),
            row_profile=part.get(RowProfile),
        )
        found[key] = with_row_space(one, part[Reservoir].rows, second) if Reservoir in part else one
    return found


def factors_fit(groups: Mapping[Hashable, Evidence], dim: int) -> bool:
    """Whether a QR factor of each group fits in memory."""
    return len(groups) * 8 * (dim + 1) * (dim + 1 + max(8 * dim, 512)) <= _FACTOR_BYTES


def with_factors(groups: Mapping[Hashable, Evidence], factors: Any) -> dict[Hashable, Evidence]:
    """The same groups with the spectrum of each from its QR factor."""
    return {key: one.but(spectrum=factors.parts[key][Triangle]) for key, one in groups.items()}


def left_out_note(asked: Sequence[str], groups: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """A sentence on the measures that the whole table has and no group."""
    missing = [name for name in asked if not any(name in readings for readings in groups.values())]
    if not groups or not missing:
        return ()
    why = "They need a sample, axes or frequencies of each group: measure a group as a table of its own."
    return (f"Not measured in groups: {', '.join(missing)}. {why}",)
