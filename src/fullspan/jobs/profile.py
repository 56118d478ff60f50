"""The curves and counts behind a report, as plain values: spectra, distributions, hygiene, notes."""

from __future__ import annotations

from typing import Any

import numpy as np

from fullspan._typing import Array, row_norms
from fullspan.errors import UndefinedMeasureError
from fullspan.measures.evidence import Evidence
from fullspan.measures.neighbors import Neighbors
from fullspan.measures.null import gaussian_spectra
from fullspan.summaries.base import Summaries
from fullspan.summaries.duplicates import Duplicates
from fullspan.summaries.extremes import Extremes
from fullspan.summaries.frequency import FrequencyProfile
from fullspan.summaries.reservoir import Reservoir
from fullspan.summaries.rows import ROW_MEASURES, Distribution
from fullspan.summaries.triangle import Triangle

__all__ = ["hygiene_of", "notes_of", "profile_of"]

_LEVELS = np.concatenate([[0.0, 0.001, 0.01], np.linspace(0.02, 0.98, 49), [0.99, 0.999, 1.0]])
_MOST_PAIRS = 500_000
_MOST_NAMED = 20
#: Spacing of the stored numbers around one.
_EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float8_e4m3fn": 2.0**-3, "float8_e5m2": 2.0**-2, "float64": 2.0**-52}


def profile_of(made: Summaries, evidence: Evidence, neighbors: bool = True) -> dict[str, Any]:
    """What figures are drawn from: see :class:`~fullspan.TableRecord`."""
    profile: dict[str, Any] = {}
    if evidence.spectrum is not None:
        profile |= _spectra(evidence)
    if evidence.row_profile is not None:
        profile |= {name: each for name in ROW_MEASURES if (each := _spread(evidence.row_profile, name)) is not None}
    if evidence.unit_rows is not None:
        profile |= _shares(evidence)
    if evidence.sample_rows is not None:
        low, middle, high = np.quantile(evidence.sample.astype(np.float64), (0.05, 0.5, 0.95), axis=0)
        profile["dimension_quantiles"] = {"q05": low.tolist(), "median": middle.tolist(), "q95": high.tolist()}
    if evidence.sample_rows is not None:
        profile |= _sampled(evidence, neighbors, made.get(Reservoir))
    if made.get(FrequencyProfile) is not None:
        profile["frequency"] = _frequency(made[FrequencyProfile])
    return profile


def _spectra(evidence: Evidence) -> dict[str, Any]:
    curves: dict[str, Any] = {
        "singular_values": evidence.singular_values.tolist(),
        "centered_singular_values": evidence.centered_singular_values.tolist(),
    }
    if evidence.n_rows > 1:
        squares = gaussian_spectra(evidence.n_rows, evidence.dim, centered=True).mean(axis=0)
        curves["null_singular_values"] = (np.sqrt(squares) * evidence.root_mean_square).tolist()
        with np.errstate(invalid="ignore"):
            squares = (
                evidence.spectrum.column_squares if evidence.moments is None else evidence.moments.scatter.diagonal()
            )
            deviations = np.sqrt(np.maximum(squares, 0.0) / (evidence.n_rows - 1))
        alive = (deviations > 0) & np.isfinite(deviations)
        offset = float(np.max(np.abs(evidence.mean[alive]) / deviations[alive], initial=0.0))
        curves["precision"] = {"eps": _EPS.get(evidence.dtype, 2.0**-23), "offset_over_spread": offset}
    return curves


def _spread(rows: Any, name: str) -> dict[str, Any] | None:
    try:
        spread: Distribution = rows.distribution(name)
        values = spread.quantile(_LEVELS).tolist()
    except UndefinedMeasureError:  # also where the rows were read without details
        return None
    return {
        "q": _LEVELS.tolist(),
        "values": values,
        "mean": spread.mean,
        "deviation": _deviation(spread),
        "lowest": [_row(row.position, row.id) | {"value": row.value} for row in spread.lowest],
        "highest": [_row(row.position, row.id) | {"value": row.value} for row in spread.highest],
    }


def _deviation(spread: Distribution) -> float | None:
    try:
        return spread.deviation
    except UndefinedMeasureError:
        return None


def _row(position: Any, identity: Any) -> dict[str, Any]:
    return {"position": int(position), "id": identity.item() if hasattr(identity, "item") else identity}


def _shares(evidence: Evidence) -> dict[str, Any]:
    try:
        shares = evidence.units.dimension_shares
    except UndefinedMeasureError:
        return {}
    order = np.argsort(shares)[::-1][:10]
    return {"dimension_shares": [{"dimension": int(d), "share": float(shares[d])} for d in order]}


def _sampled(evidence: Evidence, neighbors: bool, sampled: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    sample = evidence.sample
    norms = row_norms(sample.astype(np.float64))
    alive = norms > 0
    if alive.sum() > 1:
        some = min(int(np.sqrt(2 * _MOST_PAIRS)), int(alive.sum()))
        even = np.flatnonzero(alive)[
            np.linspace(0, alive.sum() - 1, some).astype(np.int64)
        ]  # the sample is in table order
        units = sample[even] / norms[even, None]
        cosines = (units @ units.T)[np.triu_indices(some, 1)]
        counts, edges = np.histogram(np.clip(cosines, -1.0, 1.0), bins=80, range=_window(cosines))
        found["cosine"] = {"edges": edges.tolist(), "counts": counts.tolist(), "n_pairs": len(cosines)}
    if not neighbors:
        return found
    try:
        near = evidence.neighbors
    except UndefinedMeasureError:
        return found
    occurrences = np.bincount(near.indices.ravel(), minlength=near.n_rows)
    found["neighbors"] = {
        "k": near.k,
        "sample_rows": near.n_rows,
        "occurrences": np.bincount(np.minimum(occurrences, 100)).tolist(),
        "copies": near.n_copies,
        "near_copies": [] if sampled is None else _near_copies(near, sampled),
    }
    return found


def _near_copies(near: Neighbors, sampled: Any) -> list[dict[str, Any]]:
    """Some rows with a near copy that is no exact one, the nearest first."""
    nearest = near.euclidean[:, 0]
    rows = np.flatnonzero((nearest > near.copy_distance) & (nearest <= 0.01 * near.mean_distance))
    rows = near.kept[rows[np.argsort(nearest[rows], kind="stable")][:_MOST_NAMED]]
    return [_row(sampled.positions[row], None if sampled.ids is None else sampled.ids[row]) for row in rows]


def _window(cosines: Array) -> tuple[float, float]:
    """Where the cosines lie, with room on both sides, within [-1, 1]."""
    low, high = float(cosines.min()), float(cosines.max())
    room = max(0.05 * (high - low), 1e-6)
    return max(low - room, -1.0), min(high + room, 1.0)


def _frequency(profile: Any) -> dict[str, Any]:
    return {"deciles": profile.deciles(), "zero_count": profile.n_zero_frequency}


def hygiene_of(made: Summaries) -> dict[str, Any]:
    """Damaged rows and columns, as counts and names: see :class:`~fullspan.TableRecord`."""
    found: dict[str, Any] = {}
    if made.get(Extremes) is not None:
        found |= made[Extremes].to_dict()
    if made.get(Duplicates) is not None:
        found["duplicate_rows"] = _duplicates(made[Duplicates])
    return found


def _duplicates(rows: Duplicates) -> dict[str, Any]:
    return {
        "count": int(rows.n_duplicates),
        "exact": rows.exact,
        "n_distinct": int(rows.n_distinct),
        "relative_error": rows.relative_error,
        "groups": rows.groups(5) if rows.exact else [],
    }


def notes_of(made: Summaries, evidence: Evidence, table: Any, neighbors: bool = True) -> tuple[str, ...]:
    """Plain sentences on how the numbers were had."""
    notes = [table.note] if getattr(table, "note", None) else []
    if made.get(Duplicates) is not None and not made[Duplicates].exact:
        notes.append(
            f"Duplicate rows were estimated by a sketch within {made[Duplicates].relative_error:.1%}: "
            "the table is past the memory bound of exact counting."
        )
    if evidence.sample_rows is not None:
        what = "Neighbors, the cosine histogram" if neighbors else "The cosine histogram"
        rows = f"{len(evidence.sample_rows):,} rows"
        notes.append(f"{what} and the quantiles of dimensions were taken on a seeded sample of {rows}.")
    if isinstance(evidence.spectrum, Triangle):
        why = "were too small for them" if table.repeatable else "could have been too small for them"
        notes.append(f"The spectrum was taken from a QR factor, without squares: its smallest values {why}.")
    if not table.repeatable:
        notes.append("The rows came as a stream and were read once: what needs a second pass (isotropy) is missing.")
    return tuple(notes)
