"""The figures of one table, drawn from the curves in its record."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from fullspan.jobs.formats import words
from fullspan.report.svg import Chart, spread_of, thinned
from fullspan.store.records import TableRecord

__all__ = ["Figure", "figures_of", "heat_map"]

_BINS = 44
_LABEL = Markup('<text class="label" x="{}" y="{}" text-anchor="end">{}</text>')
_HEAT = Markup('<rect class="heat" x="{:.1f}" y="{}" width="{:.2f}" height="{}" fill-opacity="{:.3f}"/>')
_MOST_TABLE_ROWS = 60
_ROW_MEASURES = {
    "gini_index": ("Gini index of a row", "0: all entries equally large; near 1: one entry holds everything."),
    "vector_entropy": ("Entropy of a row", "High: the entries share the weight evenly; 0: one entry holds everything."),
    "hoyer_sparsity": ("Hoyer sparsity of a row", "0: all entries equally large; 1: one entry holds everything."),
}


@dataclass(frozen=True)
class Figure:
    """A drawing, what it says, its legend, and the same numbers as a table."""

    key: str
    title: str
    caption: str
    svg: Markup
    head: tuple[str, ...] = ()
    rows: Sequence[Sequence[str]] = ()
    legend: Sequence[tuple[str, str]] = field(default_factory=tuple)


def figures_of(record: TableRecord) -> list[Figure]:
    """Every figure whose curves the record holds; a curve that cannot be drawn is left out."""
    makers: list[Callable[[TableRecord], Figure | None]] = [spectrum, cosines, norms]
    makers += [lambda record, name=name: row_measure(record, name) for name in _ROW_MEASURES]
    makers += [shares, dimensions, norm_by_frequency, hubs]
    return [figure for maker in makers if (figure := maker(record)) is not None]


def spectrum(record: TableRecord) -> Figure | None:
    """Singular values on a log axis, with those of a Gaussian table, and the part that rounding hides."""
    curves = {
        "line-a": ("as stored", record.profile.get("singular_values")),
        "line-b": ("centered", record.profile.get("centered_singular_values")),
        "line-null": ("isotropic Gaussian", record.profile.get("null_singular_values")),
    }
    drawn = {kind: (name, list(values)) for kind, (name, values) in curves.items() if values}
    positive = [value for _, values in drawn.values() for value in values if value > 0]
    if "line-a" not in drawn or not positive:
        return None
    values = drawn["line-a"][1]
    floor = values[0] * _resolution(record)
    low = max(min(positive), floor / 30) if floor > 0 else min(positive)
    chart = Chart((1, max(len(values), 2)), (low / 1.5, max(positive) * 1.5), "rank", "singular value", log_y=True)
    if floor > chart.y[0]:
        chart.shade_below(floor, f"below what {words.clean(record.dtype)} resolves")
    for kind in ("line-null", "line-b", "line-a"):
        if kind in drawn:
            some = drawn[kind][1]
            at = thinned(len(some))
            chart.line([place + 1 for place in at], [some[place] for place in at], kind)
    for place in thinned(len(values), 200):
        read = "  ".join(f"{name} {words.number(some[place])}" for name, some in drawn.values() if place < len(some))
        chart.hover(place + 1, f"rank {place + 1}: {read}")
    rows = [
        [str(place + 1), *(_cell(some, place) for _, some in drawn.values())]
        for place in thinned(len(values), _MOST_TABLE_ROWS)
    ]
    return Figure(
        "spectrum",
        "Spectrum",
        "A flat curve uses every dimension; a steep one has collapsed onto the first few.",
        chart.svg(f"Singular values from {words.number(values[0])} down to {words.number(values[-1])}."),
        ("rank", *(name for name, _ in drawn.values())),
        rows,
        [(kind, name) for kind, (name, _) in drawn.items()],
    )


def _resolution(record: TableRecord) -> float:
    """Smallest ratio to the largest singular value that the stored type can tell from rounding."""
    from fullspan.measures._check import resolution

    return resolution(record.dtype, max(record.n_rows, 1), max(record.dim, 1))


def _cell(values: Sequence[float], place: int) -> str:
    return words.number(values[place]) if place < len(values) else ""


def cosines(record: TableRecord) -> Figure | None:
    """Cosines of pairs of rows beside those of isotropic rows of the same length."""
    curve = record.profile.get("cosine") or {}
    edges, counts = curve.get("edges") or [], curve.get("counts") or []
    total = sum(counts)
    if len(edges) != len(counts) + 1 or not total:
        return None
    expected = _isotropic_cosines(edges, record.dim)
    shares = [count / total for count in counts]
    top = max(*shares, min(max(expected, default=0.0), 2.2 * max(shares))) * 1.08
    chart = Chart(_cosine_window(edges), (0, top), "cosine of two rows", "share of pairs")
    chart.bars(edges, shares, "fill-a")
    if expected:
        middles = [(left + right) / 2 for left, right in itertools.pairwise(edges)]
        chart.line(middles, [share if share <= top else math.nan for share in expected], "line-null")
    mean = sum((a + b) / 2 * share for a, b, share in zip(edges[:-1], edges[1:], shares, strict=True))
    chart.rule(mean, f"mean {words.number(mean, 3)}", "rule")
    rows = []
    for position, share in enumerate(shares):
        where = f"{words.number(edges[position], 3)} to {words.number(edges[position + 1], 3)}"
        beside = f", isotropic {expected[position]:.2%}" if expected else ""
        chart.hover((edges[position] + edges[position + 1]) / 2, f"{where}: {share:.2%} of pairs{beside}")
        rows.append([where, f"{share:.3%}", f"{expected[position]:.3%}" if expected else ""])
    legend = [("fill-a", "pairs in the sample")] + ([("line-null", "isotropic rows")] if expected else [])
    return Figure(
        "cosines",
        "Cosines",
        "Isotropic rows lie around 0; a heap away from 0 means that the rows share a direction.",
        chart.svg(f"Histogram of cosines of pairs of rows, mean {words.number(mean, 3)}."),
        ("cosine", "share of pairs", "isotropic"),
        rows,
        legend,
    )


def _cosine_window(edges: Sequence[float]) -> tuple[float, float]:
    """The histogram, and zero, where isotropic rows would be."""
    low, high = min(edges[0], -0.05), max(edges[-1], 0.05)
    return max(low, -1.0), min(high, 1.0)


def _isotropic_cosines(edges: Sequence[float], dim: int) -> list[float]:
    """Share of each bin under the density (1 - t²)^((dim - 3) / 2); nothing below three dimensions."""
    if dim < 3:
        return []
    log_constant = math.lgamma(dim / 2) - math.lgamma((dim - 1) / 2) - 0.5 * math.log(math.pi)
    shares = []
    for left, right in itertools.pairwise(edges):
        points = [left + (right - left) * (part + 0.5) / 8 for part in range(8)]
        inside = [1 - t * t for t in points]
        density = [math.exp(log_constant + (dim - 3) / 2 * math.log(square)) for square in inside if square > 0]
        shares.append(sum(density) / 8 * (right - left))
    return shares


def norms(record: TableRecord) -> Figure | None:
    """Lengths of the rows."""
    return _distribution(
        record,
        "norm",
        "Lengths of rows",
        "Two heaps, or a tail, often mark rows that were never trained.",
        "norm of a row",
    )


def row_measure(record: TableRecord, name: str) -> Figure | None:
    """How evenly the entries within a row are spread."""
    title, caption = _ROW_MEASURES[name]
    return _distribution(record, name, title, caption, name)


def _distribution(record: TableRecord, name: str, title: str, caption: str, axis: str) -> Figure | None:
    curve = record.profile.get(name) or {}
    levels, values = curve.get("q") or [], curve.get("values") or []
    if len(levels) < 2 or len(levels) != len(values) or not all(map(math.isfinite, values)):
        return None
    low, high = values[0], values[-1]
    reading = record.readings.get("mean_norm" if name == "norm" else name)
    null = reading.null if reading is not None else None
    if not high > low:
        low, high = spread_of([low, high])
    left, right = _quantile(levels, values, 0.001), _quantile(levels, values, 0.999)
    left, right = (left, right) if right > left else (low, high)
    if null is not None and math.isfinite(null) and abs(null - (left + right) / 2) < 3 * (right - left):
        left, right = min(left, null), max(right, null)
    edges = [left + (right - left) * part / _BINS for part in range(_BINS + 1)]
    cumulated = [_rank(levels, values, edge) for edge in edges]
    shares = [after - before for before, after in itertools.pairwise(cumulated)]
    chart = Chart(spread_of([left, right], 0.03), (0, max(*shares, 1e-09) * 1.15), axis, "share of rows")
    chart.bars(edges, shares, "fill-a")
    middle = _quantile(levels, values, 0.5)
    chart.rule(middle, f"median {words.number(middle, 3)}", "rule")
    if null is not None and math.isfinite(null):
        chart.rule(null, f"isotropic mean {words.number(null, 3)}", "null", level=1)
    for position, share in enumerate(shares):
        chart.hover(
            (edges[position] + edges[position + 1]) / 2,
            f"{words.number(edges[position])} to {words.number(edges[position + 1])}: {share:.2%} of rows",
        )
    rows = [[f"{level:.1%} of rows below", words.number(value)] for level, value in zip(levels, values, strict=True)]
    rows = [rows[at] for at in sorted({round(part * (len(rows) - 1) / 14) for part in range(15)})]
    for what in ("lowest", "highest"):
        rows += [[f"{what}: {_name(row)}", words.number(row.get("value"))] for row in (curve.get(what) or [])[:5]]
    return Figure(
        name,
        title,
        caption,
        chart.svg(f"{axis}: {words.number(values[0])} to {words.number(values[-1])}, median {words.number(middle)}."),
        ("rows", axis),
        rows,
    )


def _name(row: dict[str, Any]) -> str:
    return words.places([{"id": row.get("id"), "position": row.get("position")}])


def _quantile(levels: Sequence[float], values: Sequence[float], level: float) -> float:
    return _interpolated(levels, values, level)


def _rank(levels: Sequence[float], values: Sequence[float], value: float) -> float:
    """Share of rows at or below `value`."""
    if value >= values[-1]:
        return 1.0
    return 0.0 if value < values[0] else _interpolated(values, levels, value)


def _interpolated(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    last = len(xs) - 1
    after = next((at for at in range(1, last + 1) if xs[at] >= x), last)
    left, right = xs[after - 1], xs[after]
    if not right > left:
        return ys[after]
    part = min(max((x - left) / (right - left), 0.0), 1.0)
    return ys[after - 1] + part * (ys[after] - ys[after - 1])


def shares(record: TableRecord) -> Figure | None:
    """How much of the mean cosine each dimension carries."""
    found = [each for each in record.profile.get("dimension_shares") or [] if math.isfinite(each["share"])][:20]
    if not found:
        return None
    heights = [each["share"] for each in found]
    names = [str(each["dimension"]) for each in found]
    most = max(*heights, 2 / max(record.dim, 1))
    ticks = [(float(place), name) for place, name in enumerate(names)]
    chart = Chart(
        (-0.6, len(found) - 0.4),
        (min(0.0, *heights), most * 1.12),
        "dimension",
        "share of the mean cosine",
        x_ticks=ticks,
    )
    chart.columns(range(len(found)), heights, "fill-a")
    even = 1 / max(record.dim, 1)
    chart.line(list(chart.x), [even, even], "line-null")
    for place, (name, share) in enumerate(zip(names, heights, strict=True)):
        chart.hover(place, f"dimension {name}: {share:.1%}")
    return Figure(
        "shares",
        "Dimensions behind the cosines",
        "One tall bar is a rogue dimension: it alone decides which rows look alike.",
        chart.svg(f"The largest share, {heights[0]:.1%}, is that of dimension {names[0]}."),
        ("dimension", "share of the mean cosine"),
        [[name, f"{share:.2%}"] for name, share in zip(names, heights, strict=True)],
        [("fill-a", "share"), ("line-null", "an even share")],
    )


def dimensions(record: TableRecord) -> Figure | None:
    """Where the entries of each dimension lie."""
    curve = record.profile.get("dimension_quantiles") or {}
    low, middle, high = (curve.get(key) or [] for key in ("q05", "median", "q95"))
    if not middle or not len(low) == len(middle) == len(high) or not all(map(math.isfinite, [*low, *middle, *high])):
        return None
    at = thinned(len(middle), 400)
    chart = Chart((0, max(len(middle) - 1, 1)), spread_of([*low, *high]), "dimension", "entries, 5% to 95%")
    chart.band(at, [low[place] for place in at], [high[place] for place in at], "fill-a soft")
    chart.line(at, [middle[place] for place in at], "line-a")
    for place in at:
        chart.hover(
            place,
            f"dimension {place}: "
            + ", ".join(words.number(each[place]) for each in (low, middle, high))
            + " (5%, 50%, 95%)",
        )
    wide = sorted(range(len(middle)), key=lambda place: low[place] - high[place])[:_MOST_TABLE_ROWS]
    return Figure(
        "dimensions",
        "Entries by dimension",
        "A dimension that stands out in place or width is on another scale than the rest.",
        chart.svg(
            f"Median and 5% to 95% range of the entries in {len(middle)} dimensions; dimension {wide[0]} is the widest."
        ),
        ("dimension", "5%", "median", "95%"),
        [
            [str(place), words.number(low[place]), words.number(middle[place]), words.number(high[place])]
            for place in wide
        ],
        [("line-a", "median"), ("fill-a soft", "5% to 95%")],
    )


def norm_by_frequency(record: TableRecord) -> Figure | None:
    """Mean length of the rows from the rarest tenth to the most frequent."""
    deciles = [each for each in (record.profile.get("frequency") or {}).get("deciles") or [] if _drawable(each)]
    if len(deciles) < 2:
        return None
    heights = [each["mean_norm"] for each in deciles]
    places = list(range(1, len(deciles) + 1))
    ticks = [(float(place), str(place)) for place in places]
    chart = Chart(
        (0.5, len(deciles) + 0.5),
        (0, max(heights) * 1.12 or 1.0),
        "tenth of the rows, rarest first",
        "mean norm",
        x_ticks=ticks,
    )
    chart.line(places, heights, "line-a")
    chart.dots(places, heights, "line-a")
    rows = []
    for place, each in zip(places, deciles, strict=True):
        span = f"{words.number(each['low'])} to {words.number(each['high'])}"
        chart.hover(place, f"frequency {span}: mean norm {words.number(each['mean_norm'])} over {each['count']:,} rows")
        rows.append([str(place), span, words.number(each["mean_norm"]), f"{each['count']:,}"])
    return Figure(
        "frequency",
        "Length by frequency",
        "A slope ties the length of a row to how often it occurs, and rankings by inner product with it.",
        chart.svg(
            f"Mean norm: rarest rows {words.number(heights[0])}, most frequent rows {words.number(heights[-1])}."
        ),
        ("tenth", "frequency", "mean norm", "rows"),
        rows,
    )


def _drawable(decile: dict[str, Any]) -> bool:
    value = decile.get("mean_norm")
    return isinstance(value, (int, float)) and math.isfinite(value)


def hubs(record: TableRecord) -> Figure | None:
    """How often each sampled row is among the nearest neighbors of others."""
    curve = record.profile.get("neighbors") or {}
    counts, k = list(curve.get("occurrences") or []), curve.get("k", 0)
    total = sum(counts)
    if not total:
        return None
    last = max(place for place, count in enumerate(counts) if count)
    chart = Chart(
        (-0.5, max(last, 2 * k) + 0.5),
        (0, max(counts) / total * 1.15),
        f"times among the {k} nearest neighbors",
        "share of rows",
    )
    chart.columns(range(len(counts)), [count / total for count in counts], "fill-a", share=0.8)
    chart.rule(float(k), f"even: {k}", "null")
    for place, count in enumerate(counts):
        over = " or more" if place == 100 else ""
        chart.hover(place, f"{place}{over} times: {words.count(count, 'row')}")
    rows = [
        [f"{place}{' or more' if place == 100 else ''}", f"{count:,}"] for place, count in enumerate(counts) if count
    ][:_MOST_TABLE_ROWS]
    return Figure(
        "hubs",
        "Hubs",
        "A long tail to the right are hubs: rows that are neighbors of everything. Those at 0 are never found.",
        chart.svg(
            f"{counts[0] / total:.1%} of the sampled rows are nobody's neighbor; the greatest hub occurs {last} times."
        ),
        ("times a neighbor", "rows"),
        rows,
    )


def heat_map(fields: Sequence[dict[str, Any]]) -> Markup | None:
    """The singular values of several tables over their largest: a row a table, a column a direction."""
    rows = [(row["table"], row["relative_singular_values"]) for row in fields if row.get("relative_singular_values")]
    if len(rows) < 2:
        return None
    columns, height, left, width = max(len(values) for _, values in rows), 18, 170, 640
    shown = thinned(columns)
    step = (width - left) / len(shown)
    svg = [
        Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
            width, height * len(rows) + 4, "Singular values of each table relative to its largest"
        )
    ]
    for at, (name, values) in enumerate(rows):
        label = words.clean(name) or "table"
        label = label if len(label) <= 26 else label[:25] + "…"
        svg.append(_LABEL.format(left - 6, height * at + 13, label))
        for place, column in enumerate(shown):
            if column < len(values):
                value = min(max(float(values[column]), 0.0), 1.0)
                svg.append(_HEAT.format(left + step * place, height * at + 1, step + 0.2, height - 2, value))
    return Markup("").join([*svg, Markup("</svg>")])
