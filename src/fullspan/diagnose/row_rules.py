"""Rules about single rows, columns and stored numbers: what is dead, doubled, damaged or out of scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fullspan.diagnose import remedies
from fullspan.diagnose.facts import Facts
from fullspan.diagnose.spectrum_rules import Found
from fullspan.diagnose.thresholds import Limits

__all__ = [
    "dead_columns",
    "dead_rows",
    "duplicate_rows",
    "near_duplicate_rows",
    "non_finite",
    "norm_tied_to_frequency",
    "precision_loss",
    "scale_outliers",
    "untrained_rows",
]

#: Below this, no rule reads the shape of a distribution over rows.
_FEWEST_ROWS = 20
_FEWEST_SHORT = 5


def norm_tied_to_frequency(facts: Facts, limits: Limits) -> Iterator[Found]:
    """The length of a row tells its frequency."""
    reading = facts.reading("length_frequency_correlation")
    lengths = facts.spread_of("norm")
    if reading is None or reading.null is None or not reading.beyond_null(limits.deviations):
        return
    if lengths is not None and lengths["deviation"] <= 1e-6 * lengths["mean"]:
        return  # equal lengths: what is left of their differences is rounding
    severity = limits.grade(abs(reading.value) / 100, reading.error and reading.error / 100)
    if severity is None:
        return
    limit = math.copysign(100 * limits.limit(severity), reading.value)
    evidence = [reading.evidence("length_frequency_correlation", threshold=limit)]
    deciles = (facts.record.profile.get("frequency") or {}).get("deciles") or []
    if len(deciles) > 1:
        evidence.append({"measure": "mean_norm_of_rarest_decile", "value": deciles[0]["mean_norm"]})
        evidence.append({"measure": "mean_norm_of_most_frequent_decile", "value": deciles[-1]["mean_norm"]})
    error = "" if reading.error is None else f" ± {reading.error / 100:.1g}"
    title = f"the length of a row is tied to its frequency: their correlation is {reading.value / 100:.2f}{error}"
    yield Found(severity, title, evidence, remedies.length_by_frequency(reading.value < 0))


def untrained_rows(facts: Facts, limits: Limits) -> Iterator[Found]:
    """Rows of frequency zero, or a separate cluster of short rows."""
    unused = int((facts.record.profile.get("frequency") or {}).get("zero_count") or 0)
    if unused and facts.n_rows:
        share = unused / facts.n_rows
        severity = limits.grade(share)
        if severity is not None:
            evidence = {
                "measure": "zero_frequency_rows",
                "value": share,
                "count": unused,
                "threshold": limits.limit(severity),
            }
            title = f"{unused:,} of {facts.n_rows:,} rows have frequency zero: training never met them"
            yield Found(severity, title, [evidence], remedies.never_updated(None))
            return
    yield from _short_cluster(facts, limits)


def _short_cluster(facts: Facts, limits: Limits) -> Iterator[Found]:
    lengths = facts.spread_of("norm")
    # the logarithm of the length of a Gaussian row varies by 1/√(2·dim)
    least = math.log(limits.options["gap"]) + 2 / math.sqrt(2 * facts.dim)
    gap = _gap_below(lengths, facts.n_rows, facts.dim, least) if lengths else None
    if gap is None or lengths is None:
        return
    share, below, above = gap
    severity = limits.grade(share)
    if severity is None:
        return
    severity = "warn" if severity == "fail" else severity  # short rows are a sign, not a proof
    rows = [row for row in lengths["lowest"] if 0 < row["value"] <= below]
    evidence = {
        "measure": "short_rows",
        "value": share,
        "threshold": limits.limit(severity),
        "longest_of_them": below,
        "shortest_of_the_others": above,
        "rows": rows,
    }
    title = (
        f"about {share:.2%} of the rows form a cluster of short rows, of length {below:.3g} at most where the others "
        f"start "
        f"at {above:.3g}: they look untrained"
    )
    yield Found(severity, title, [evidence], remedies.never_updated(math.sqrt(below * above)))


def _gap_below(lengths: Mapping[str, Any], n_rows: int, dim: int, least: float) -> tuple[float, float, float] | None:
    """Share, upper end and the start of the rest of a cluster of short rows that a gap sets apart; None without one.

    In logarithms the gap is wider than the cluster itself (between its 10th and 90th percentile), and wider
    by `least` than between the same quantiles of Gaussian rows (short ones grow like q^(1/dim)); both sides have at
    least five rows.
    """
    levels, values = (np.asarray(lengths[key], float) for key in ("q", "values"))
    alive = values > 0
    levels, values = levels[alive], np.log(values[alive])
    fewest = _FEWEST_SHORT / n_rows
    if n_rows < _FEWEST_ROWS or len(levels) < 4:
        return None
    best = None
    for i in range(1, len(levels) - 2):
        share = levels[i] - levels[0]
        if share < fewest or 1 - levels[i + 2] < fewest:
            continue
        low, high = np.interp([levels[0] + 0.1 * share, levels[0] + 0.9 * share], levels, values)
        gap = values[i + 2] - values[i]
        by_chance = math.log(levels[i + 2] / levels[i]) / dim
        if gap > max(least + by_chance, 1.5 * (high - low)) and (best is None or gap > best[0]):
            best = gap, float(levels[i + 1]), float(np.exp(values[i])), float(np.exp(values[i + 2]))
    return None if best is None else best[1:]


def dead_rows(facts: Facts, limits: Limits) -> Iterator[Found]:
    """Zero rows."""
    count = facts.count("zero_rows")
    if not count or not facts.n_rows:
        return
    share = count / facts.n_rows
    severity = limits.grade(share)
    if severity is None:
        return
    rows = facts.named("zero_rows")
    first = count == 1 and rows and rows[0].get("position") == 0
    if first or (count == 1 and severity == "warn"):
        severity = "note"
    evidence = _counted("zero_rows", count, share, limits.limit(severity), rows)
    title = f"{count:,} of {facts.n_rows:,} rows {'is' if count == 1 else 'are'} zero"
    yield Found(severity, title + (": row 0, as for padding" if first else ""), [evidence], remedies.zero_rows())


def _counted(measure: str, count: int, share: float, threshold: float, rows: list[Any]) -> dict[str, Any]:
    return {"measure": measure, "value": share, "count": count, "threshold": threshold, "rows": rows[:20]}


def duplicate_rows(facts: Facts, limits: Limits) -> Iterator[Found]:
    """Rows that repeat an earlier one, more than rounding to the stored type makes by chance."""
    found = facts.record.hygiene.get("duplicate_rows") or {}
    count = int(found.get("count") or 0) - max(facts.count("zero_rows") - 1, 0)
    if count <= 0 or facts.n_rows < 2:
        return
    chance = facts.chance_of_a_tie**facts.dim * facts.n_rows * (facts.n_rows - 1) / 2
    exact = bool(found.get("exact", True))
    error = 0.0 if exact else 3 * float(found.get("relative_error") or 0.0) * facts.n_rows
    beyond = count - chance - limits.deviations * math.sqrt(chance) - error
    severity = limits.grade(count / facts.n_rows) if beyond > 0 else None
    if severity is None:
        return
    evidence = {
        "measure": "duplicate_rows",
        "value": count / facts.n_rows,
        "count": count,
        "null": chance / facts.n_rows,
        "threshold": limits.limit(severity),
        "n_distinct": found.get("n_distinct"),
        "exact": exact,
        "groups": list(found.get("groups") or [])[:5],
    }
    about = "" if exact else "about "
    title = f"{about}{count:,} of {facts.n_rows:,} rows repeat{'s' if count == 1 else ''} an earlier row"
    yield Found(severity, title, [evidence], remedies.repeated_rows())


def near_duplicate_rows(facts: Facts, limits: Limits) -> Iterator[Found]:
    """Rows of a sample that point almost the way of another one, beyond those that repeat one exactly."""
    share, sample = facts.reading("near_duplicate_share"), facts.record.sample_rows
    if share is None or share.null is None or not sample:
        return
    near = facts.record.profile.get("neighbors") or {}
    repeated = (facts.record.hygiene.get("duplicate_rows") or {}).get("count") or 0
    # a row that repeats another has a copy, and so has the other
    exact = min(2 * repeated / max(facts.n_rows, 1), int(near.get("copies") or 0) / sample)
    chance = max(share.deviation or 0.0, math.sqrt(share.null * (1 - share.null) / sample), 1 / sample)
    beyond = share.value - exact - share.null
    severity = limits.grade(beyond, share.error) if beyond > limits.deviations * chance else None
    if severity is None:
        return
    evidence = share.evidence(
        "near_duplicate_share",
        threshold=share.null + exact + limits.limit(severity),
        exact_copies=exact,
        sample_rows=sample,
        rows=list(near.get("near_copies") or []),
    )
    title = f"{beyond:.1%} of a sample of {sample:,} rows nearly repeat another row"
    yield Found(severity, title, [evidence], remedies.near_copies())


def dead_columns(facts: Facts, limits: Limits) -> Iterator[Found]:
    """Columns that are constant, or equal to another one."""
    if facts.n_rows < 2 or not facts.dim:
        return
    constant = facts.named("constant_columns", "columns")
    groups = [list(group) for group in facts.named("duplicate_columns", "groups")]
    extra = sorted({column for group in groups for column in group[1:]} - set(constant))
    n_constant = facts.count("constant_columns")
    count = n_constant + len(extra)
    tie = facts.chance_of_a_tie
    chance = facts.dim * tie ** (facts.n_rows - 1) + facts.dim * (facts.dim - 1) / 2 * tie**facts.n_rows
    if count <= chance + limits.deviations * math.sqrt(chance):
        return
    severity = limits.grade(count / facts.dim)
    if severity is None:
        return
    evidence = {
        "measure": "dead_columns",
        "value": count / facts.dim,
        "count": count,
        "threshold": limits.limit(severity),
        "constant": constant[:50],
        "zero": facts.named("zero_columns", "columns")[:50],
        "equal": [group for group in groups if not set(group) <= set(constant)][:20],
    }
    parts = [f"{n_constant} constant"] * bool(n_constant) + [f"{len(extra)} equal to another"] * bool(extra)
    title = f"{count} of {facts.dim} columns say nothing: {' and '.join(parts)}"
    yield Found(severity, title, [evidence], remedies.idle_columns())


def non_finite(facts: Facts, limits: Limits) -> Iterator[Found]:
    """Rows with NaN or infinity."""
    count, total = facts.record.n_excluded, facts.record.n_rows
    severity = limits.grade(count / total) if count and total else None
    if severity is None:
        return
    nan, infinite = facts.count("nan_rows"), facts.count("inf_rows")
    rows = (facts.named("nan_rows") + facts.named("inf_rows"))[:20]
    evidence = _counted("non_finite_rows", count, count / total, limits.limit(severity), rows)
    if nan or infinite:  # a reading of sampled rows does not tell them apart
        columns = facts.named("non_finite_columns", "columns")[:50]
        evidence |= {"nan_rows": nan, "inf_rows": infinite, "columns": columns}
    hold, are = ("holds", "is") if count == 1 else ("hold", "are")
    title = f"{count:,} of {total:,} rows {hold} NaN or infinity and {are} left out of every reading"
    yield Found(severity, title, [evidence], remedies.not_finite())


def scale_outliers(facts: Facts, limits: Limits) -> Iterator[Found]:
    """A few rows, or one entry, far out of the scale of the others."""
    lengths = facts.spread_of("norm")
    if facts.n_rows < _FEWEST_ROWS:
        return
    found = _long_rows(facts, lengths, limits) if lengths is not None else None
    found = found or _large_entry(facts, limits)
    if found is not None:
        yield found


def _long_rows(facts: Facts, lengths: Mapping[str, Any], limits: Limits) -> Found | None:
    median, upper = np.interp([0.5, 0.75], lengths["q"], lengths["values"])
    if not median > 0:
        return None
    # never tighter than the lengths of Gaussian rows of this dim, nor than 5%
    scale = max((upper - median) / 0.6745, median / math.sqrt(2 * facts.dim), 0.05 * median)
    longest = float(lengths["values"][-1])
    severity = limits.grade((longest - median) / scale)
    if severity is None:
        return None
    cut = median + scale * limits.limit(min(limits.grades, key=lambda grade: limits.grades[grade]))
    rows = [row for row in lengths["highest"] if row["value"] > cut]
    beyond = 1 - float(np.interp(cut, lengths["values"], lengths["q"]))
    evidence = {
        "measure": "longest_row",
        "value": longest,
        "robust_deviations": float((longest - median) / scale),
        "median": float(median),
        "threshold": float(median + scale * limits.limit(severity)),
        "rows": rows,
    }
    many = len(rows) == len(lengths["highest"]) and beyond * facts.n_rows > len(rows)
    who = f"about {beyond:.2%} of the rows" if many else "one row" if len(rows) == 1 else f"{len(rows)} rows"
    title = f"{who} far longer than the others: up to {longest:.3g} where the median is {median:.3g}"
    return Found(severity, title, [evidence], remedies.long_rows(float(median + 0.9 * (cut - median))))


def _large_entry(facts: Facts, limits: Limits) -> Found | None:
    entry = facts.record.hygiene.get("largest_entry") or {}
    curves = facts.record.profile.get("dimension_quantiles") or {}
    dimension, value = entry.get("dimension"), entry.get("value")
    if value is None or dimension is None or len(curves.get("median", [])) != facts.dim:
        return None
    low, median, high = (curves[key][dimension] for key in ("q05", "median", "q95"))
    others = float(np.median(np.subtract(curves["q95"], curves["q05"])))
    scale = max(high - low, others) / 3.29
    if not scale > 0 or not math.isfinite(scale):
        return None
    if median in (low, high):  # a sparse dimension: quantiles do not see its entries
        scale = max(scale, _entry_of_a_usual_row(facts))
    distance = abs(value - median) / scale
    severity = limits.grade(distance / limits.options["entry"])
    if severity is None:
        return None
    reach = max(abs(high), abs(low)) + 5 * scale
    evidence = {
        "measure": "largest_entry",
        "value": value,
        "robust_deviations": distance,
        "threshold": reach,
        "dimensions": [dimension],
        "rows": [{"position": entry.get("position"), "id": entry.get("id"), "value": value}],
    }
    title = f"one entry is {value:.3g} where its dimension {dimension} lies between {low:.3g} and {high:.3g}"
    return Found(severity, title, [evidence], remedies.large_entry(reach))


def _entry_of_a_usual_row(facts: Facts) -> float:
    """Root mean square of the entries of a row of median length, without the offset that all rows share."""
    lengths = facts.spread_of("norm")
    if lengths is None:
        return 0.0
    median = float(np.interp(0.5, lengths["q"], lengths["values"]))
    around = max(median - facts.offset, 0.0) * (median + facts.offset)
    return math.sqrt(around / facts.dim) if math.isfinite(around) else 0.0


def precision_loss(facts: Facts, limits: Limits) -> Iterator[Found]:
    """The stored type cannot hold the table: offset, end of range, denormal numbers, directions below rounding."""
    for read in (_coarse_offset, _saturated, _denormal, _below_resolution):
        found = read(facts, limits)
        if found is not None:
            yield found


def _coarse_offset(facts: Facts, limits: Limits) -> Found | None:
    ratio = float((facts.record.profile.get("precision") or {}).get("offset_over_spread") or 0.0)
    if facts.n_rows < 2:
        return None
    # offset over spread of the worst of dim Gaussian columns: the tail of Student's t
    by_chance = 10 * (100 * facts.dim) ** (1 / (facts.n_rows - 1)) / math.sqrt(facts.n_rows)
    value = ratio * facts.spacing
    severity = limits.grade(value) if ratio > by_chance and math.isfinite(value) else None
    if severity is None:
        return None
    evidence = {
        "measure": "spacing_over_spread",
        "value": value,
        "threshold": limits.limit(severity),
        "offset_over_spread": ratio,
        "spacing": facts.spacing,
        "dtype": facts.record.dtype,
    }
    dtype = facts.record.dtype
    title = f"a column with an offset of {ratio:.2g} times its spread: {dtype} rounds by {value:.2g} of the spread"
    return Found(severity, title, [evidence], remedies.coarse_spacing())


def _saturated(facts: Facts, limits: Limits) -> Found | None:
    count = facts.count("saturated_rows")
    share = count / facts.n_rows if facts.n_rows else 0.0
    if share <= limits.options["saturated"] or "warn" not in limits.grades:
        return None
    evidence = _counted("saturated_rows", count, share, limits.options["saturated"], facts.named("saturated_rows"))
    title = f"{count:,} rows have entries at the end of the range of {facts.record.dtype}"
    return Found("warn", title, [evidence], remedies.full_range())


def _denormal(facts: Facts, limits: Limits) -> Found | None:
    found = facts.record.hygiene.get("denormal_rows") or {}
    entries = found.get("entries")
    if not entries or not facts.n_rows or "warn" not in limits.grades:
        return None
    limit, total = limits.options["denormal"], facts.n_rows * facts.dim
    share = entries / total
    if share <= limit + limits.deviations * math.sqrt(limit / total):
        return None
    count = facts.count("denormal_rows")
    evidence = _counted("denormal_entries", count, share, limit, facts.named("denormal_rows"))
    title = f"{share:.1%} of the entries are below the smallest normal {facts.record.dtype}"
    return Found("warn", title, [evidence], remedies.tiny_numbers())


def _below_resolution(facts: Facts, limits: Limits) -> Found | None:
    """Directions whose singular value is smaller than what rounding of the entries alone would make."""
    if facts.span < 2 or not facts.has_spread or "note" not in limits.grades:
        return None
    rounding = 0.29 * facts.spacing * facts.entry_size * math.sqrt(max(facts.n_rows, facts.dim))
    dead = facts.count("constant_columns") + sum(len(g) - 1 for g in facts.named("duplicate_columns", "groups"))
    count = int(np.sum(facts.centered < rounding)) - dead
    share = count / facts.span
    if share <= limits.options["resolution"]:
        return None
    evidence = {
        "measure": "directions_below_resolution",
        "value": share,
        "count": count,
        "of": facts.span,
        "threshold": limits.options["resolution"],
        "resolution": rounding,
    }
    title = f"{count} of {facts.span} directions are smaller than the rounding of {facts.record.dtype}"
    return Found("note", title, [evidence], remedies.below_resolution())
