"""Rules about the geometry of the whole table: its spectrum, its mean, its dimensions, its neighborhoods."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from fullspan.diagnose import remedies
from fullspan.diagnose.facts import Facts, Value, largest_shares
from fullspan.diagnose.remedies import Remedy
from fullspan.diagnose.thresholds import GRADES, Limits

__all__ = [
    "Found",
    "anisotropic_spectrum",
    "complete_collapse",
    "dimensional_collapse",
    "dominant_direction",
    "hubness",
    "mean_shift",
    "rogue_dimensions",
    "wide_for_data",
]


class Found(NamedTuple):
    """What a rule says; `diagnose` makes a finding of it."""

    severity: str
    title: str
    evidence: list[dict[str, Any]]
    remedy: Remedy


def complete_collapse(facts: Facts, limits: Limits) -> Iterator[Found]:
    """All rows lie in one point, as seen from the origin."""
    if facts.n_rows < 2 or not len(facts.centered):
        return
    exact = not facts.has_spread
    if not exact and (facts.offset == 0 or (facts.n_rows - 1) * facts.dim < 3):
        return
    value = 0.0 if exact else facts.spread / facts.offset
    severity = limits.grade(value) if math.isfinite(value) else None
    if severity is None:
        return
    where = "the origin" if facts.offset == 0 else "one point"
    title = (
        f"all {facts.n_rows:,} rows are equal: the table is {where}"
        if exact
        else f"the rows lie within {value:.2g} of the length of their mean: nearly one point"
    )
    distance = Value(value, null=math.sqrt(facts.n_rows)).evidence(
        "spread_over_offset", threshold=limits.limit(severity), spread=facts.spread, offset=facts.offset
    )
    yield Found(severity, title, [distance], remedies.one_point(distinct=not exact))


def dimensional_collapse(facts: Facts, limits: Limits) -> Iterator[Found]:
    """The rows lie near a subspace."""
    rank = facts.centered_effective_rank
    if rank is None or facts.span < 2 or not rank.null or not rank.beyond_null(limits.deviations):
        return
    relative = rank.value / rank.null
    severity = limits.grade(relative, rank.error and rank.error / rank.null)
    if severity is None:
        return
    share = limits.options["variance"]
    used = facts.used_dimensions(share)
    evidence = [
        rank.evidence(
            "centered_effective_rank", threshold=limits.limit(severity) * rank.null, relative_to_null=relative
        ),
    ]
    if used:
        evidence.append({"measure": "used_dimensions", "value": used, "of": facts.span, "variance": share})
    abundance = facts.reading("centered_information_abundance")
    if abundance is not None:
        evidence.append(abundance.evidence("centered_information_abundance"))
    title = f"effective rank {rank.value:.3g} where a table of this shape has {rank.null:.3g}"
    if used:
        title = f"{used} of {facts.span} dimensions carry {share:.0%} of the variance: {title}"
    yield Found(severity, title, evidence, remedies.few_dimensions(used or math.ceil(rank.value)))


def dominant_direction(facts: Facts, limits: Limits) -> Iterator[Found]:
    """The first principal axis holds most of the variance."""
    share = facts.top_share
    if share is None or facts.span < 2 or share.null is None or share.null > 0.99:
        return
    if not share.beyond_null(limits.deviations):
        return
    room = 1 - share.null
    severity = limits.grade((share.value - share.null) / room, share.error and share.error / room)
    if severity is None:
        return
    title = f"one direction holds {share.value:.0%} of the variance; {share.null:.0%} would be its part by chance"
    evidence = [share.evidence("top_component_share", threshold=share.null + limits.limit(severity) * room)]
    yield Found(severity, title, evidence, remedies.one_direction())


def mean_shift(facts: Facts, limits: Limits) -> Iterator[Found]:
    """All rows share an offset, so that any two of them look similar."""
    cosine = facts.reading("average_cosine")
    if cosine is None or cosine.null is None or not cosine.beyond_null(limits.deviations):
        return
    severity = limits.grade(cosine.value - cosine.null, cosine.error)
    if severity is None:
        return
    evidence = [cosine.evidence("average_cosine", threshold=cosine.null + limits.limit(severity))]
    ratio = facts.reading("mean_norm_ratio")
    if ratio is not None:
        evidence.append(ratio.evidence("mean_norm_ratio"))
    somewhat = "slightly " if severity == "note" else ""
    title = f"two rows have cosine {cosine.value:.2g} on average: the table is {somewhat}anisotropic"
    if ratio is not None and ratio.null is not None:
        title += (
            f"; its mean is {_percent(ratio.value)} as long as its rows, where chance would give {_percent(ratio.null)}"
        )
    yield Found(severity, title, evidence, remedies.common_offset())


def _percent(part: float) -> str:
    """``34%``, ``0.7%``: whole from one percent on, else one digit."""
    return f"{part:.0%}" if part >= 0.01 else f"{100 * part:.1g}%"


def anisotropic_spectrum(facts: Facts, limits: Limits) -> Iterator[Found]:
    """The variance is spread unevenly over the directions."""
    ratio = facts.participation_ratio
    if ratio is None or facts.span < 2 or not ratio.null or not ratio.beyond_null(limits.deviations):
        return
    relative = ratio.value / ratio.null
    severity = limits.grade(relative, ratio.error and ratio.error / ratio.null)
    if severity is None:
        return
    threshold = limits.limit(severity) * ratio.null
    evidence = [ratio.evidence("participation_ratio", threshold=threshold, relative_to_null=relative)]
    for name in ("iso_score", "isotropy", "top_component_share"):
        reading = facts.reading(name)
        if reading is not None:
            evidence.append(reading.evidence(name))
    title = (
        f"the table is anisotropic: its variance fills {relative:.0%} of the directions it could, {ratio.value:.3g} "
        f"where a table of this shape fills {ratio.null:.3g}"
    )
    yield Found(severity, title, evidence, remedies.uneven_directions())


def rogue_dimensions(facts: Facts, limits: Limits) -> Iterator[Found]:
    """Few dimensions hold most of the mean cosine, or of the variance."""
    if facts.dim < 2 or facts.n_rows < 3:
        return
    count = min(max(1, math.ceil(limits.options["dimensions"] * facts.dim)), 10)
    found = []
    for measure, what, shares, null, deviation in (
        ("mean_cosine_share", "mean cosine", *_cosine_shares(facts, limits, count)),
        ("variance_share", "variance", *_variance_shares(facts, count)),
    ):
        largest = facts.reading("rogue_dimension_share") if measure == "mean_cosine_share" and count == 1 else None
        shares, rest = shares[:count], shares[count:]
        total = Value(sum(share for _, share in shares), largest and largest.error, null, deviation)
        if not shares or null > 0.99 or not total.beyond_null(limits.deviations):
            continue
        if rest and rest[0][1] > 0.5 * shares[0][1]:
            continue  # more than few dimensions are that large: the others are small, and other rules say so
        severity = limits.grade((total.value - null) / (1 - null), total.error and total.error / (1 - null))
        if severity == "fail" and measure == "mean_cosine_share" and not _matters(facts, limits):
            severity = "warn"
        if severity is None:
            continue
        named = [(dim, share) for dim, share in shares if share >= 0.1 * shares[0][1]]
        evidence = total.evidence(
            measure,
            threshold=null + limits.limit(severity) * (1 - null),
            dimensions=[dim for dim, _ in named],
            shares=[share for _, share in named],
        )
        found.append((severity, what, evidence))
    if found:
        severity = max((each[0] for each in found), key=GRADES.index)
        dims = list(dict.fromkeys(dim for _, _, evidence in found for dim in evidence["dimensions"]))
        held = " and ".join(f"{evidence['value']:.0%} of the {what}" for _, what, evidence in found)
        one = len(dims) == 1
        title = f"dimension{'' if one else 's'} {_listed(dims)} {'holds' if one else 'hold'} {held}"
        yield Found(severity, title, [evidence for *_, evidence in found], remedies.few_rogue_dimensions())


def _matters(facts: Facts, limits: Limits) -> bool:
    """Whether the mean cosine is large enough for its shares to be a failure."""
    cosine = facts.reading("average_cosine")
    return cosine is not None and cosine.value >= limits.options["fail_cosine"]


def _listed(dims: list[int]) -> str:
    shown = ", ".join(map(str, dims[:5]))
    return shown if len(dims) <= 5 else f"{shown} and {len(dims) - 5} more"


def _cosine_shares(facts: Facts, limits: Limits, count: int) -> tuple[list[tuple[int, float]], float, float]:
    """The largest shares in the mean cosine and the next; by chance they come from squared normal numbers."""
    cosine = facts.reading("average_cosine")
    null, deviation = largest_shares(facts.dim, count)
    if cosine is None or cosine.value < limits.options["cosine"] or not cosine.beyond_null(limits.deviations):
        return [], null, deviation
    shares = facts.record.profile.get("dimension_shares") or []
    return [(each["dimension"], float(each["share"])) for each in shares[: count + 1]], null, deviation


def _variance_shares(facts: Facts, count: int) -> tuple[list[tuple[int, float]], float, float]:
    """The largest shares in the variance and the next, by the width between the 5th and the 95th percentile."""
    even = count / facts.dim
    n_rows = min(facts.n_rows, facts.record.sample_rows or facts.n_rows)
    deviation = even * (1 - even) * 3.1 / math.sqrt(n_rows)
    curves = facts.record.profile.get("dimension_quantiles") or {}
    squares = np.square(np.asarray(curves.get("q95", []), float) - np.asarray(curves.get("q05", []), float))
    if len(squares) != facts.dim or not squares.sum() > 0:
        return [], even, deviation
    order = np.argsort(squares)[::-1][: count + 1]
    return [(int(j), float(squares[j] / squares.sum())) for j in order], even, deviation


def hubness(facts: Facts, limits: Limits) -> Iterator[Found]:
    """A few rows are the neighbors of very many."""
    skew, sample = facts.reading("hubness_skew"), facts.record.sample_rows
    if skew is None or skew.null is None or not sample:
        return
    # the null is simulated a few times only: never trust it more than the skewness of as many normal numbers
    null, deviation = skew.null, max(skew.deviation or 0.0, math.sqrt(6 / sample))
    if abs(skew.value - null) <= limits.deviations * deviation:
        return
    room = 1 + max(null, 0.0)
    severity = limits.grade((skew.value - null) / room, skew.error and skew.error / room)
    if severity is None:
        return
    evidence = [skew.evidence("hubness_skew", threshold=null + limits.limit(severity) * room, sample_rows=sample)]
    missed = facts.reading("antihub_share")
    if missed is not None:
        evidence.append(missed.evidence("antihub_share", sample_rows=sample))
    title = (
        f"hubs: within a sample of {sample:,} rows, neighbor counts have skewness {skew.value:.2g} "
        f"where a table of this shape has {null:.2g}"
    )
    yield Found(severity, title, evidence, remedies.hubs())


def wide_for_data(facts: Facts, limits: Limits) -> Iterator[Found]:
    """The table has fewer rows than it has dimensions to fill."""
    severity = limits.grade(facts.dim / max(facts.span, 1)) if facts.n_rows else None
    if severity is None:
        return
    title = f"{facts.n_rows:,} rows cannot fill {facts.dim} dimensions: they span {facts.span} at most"
    evidence = [{"measure": "span", "value": facts.span, "threshold": facts.dim, "n_rows": facts.n_rows}]
    yield Found(severity, title, evidence, remedies.too_wide(facts.span))
