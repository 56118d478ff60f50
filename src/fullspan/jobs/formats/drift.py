"""The comparison of two versions as text and as Markdown."""

from __future__ import annotations

import io
from typing import Any

from fullspan.jobs.formats import words
from fullspan.jobs.formats.markdown import escape
from fullspan.jobs.formats.text import in_ascii
from fullspan.store.records import Reading

__all__ = ["render_markdown", "render_text"]

#: From this width on there is room for what each distance aims at.
_WIDE = 78


def render_text(report: Any, *, width: int = 80, color: bool = False, ascii_only: bool = False) -> str:
    """A :class:`~fullspan.jobs.drift.DriftReport` as plain text, or with colors for a terminal."""
    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out, width=max(width, 40), force_terminal=color, color_system="standard" if color else None,
        no_color=not color, highlight=False, markup=False, emoji=False, legacy_windows=False,
    )  # fmt: skip
    for table in report:
        _print(console, table)
        console.print()
    for line in _unmatched(report):
        console.print(Text(line, "dim"))
    text = "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines()) + "\n"
    return in_ascii(text.replace("→", "->")) if ascii_only else text


def _print(console: Any, table: Any) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(Text(f"{words.clean(table.table)}  {_shapes(table)}", "bold"), overflow="fold")
    console.print(Text(_rows(table), "dim"))
    console.print()
    console.print(Text(_verdict(table), "yellow" if table.significant() else "green"))
    if table.readings:
        aims = ["aims at"] if console.width >= _WIDE else []
        console.print()
        console.print(_table("distance", ["value", "p by chance", *aims], _distances(table)))
    if table.changes:
        console.print()
        lines, heads = _changes(table), ["old", "new", "change", "z"]
        if console.width < _WIDE:  # what can be had from the others goes first
            lines, heads = [[*line[:3], line[4]] for line in lines], ["old", "new", "z"]
        console.print(_table("measure", heads, lines))
    beside = [*_turned(table), *table.notes]
    if beside:
        console.print()
    for line in beside:
        console.print(Padding(Text(words.clean(line), "dim"), (0, 0, 0, 1)))


def _turned(table: Any) -> list[str]:
    """The rows that turned the furthest, as far as they turned at all."""
    turned = [row for row in table.moved[:5] if row["cosine"] < 1.0 - 1e-6]
    names = [row["position"] if row["id"] is None else row["id"] for row in turned]
    return [
        f"turned furthest: {name}, cosine {words.number(row['cosine'])}"
        for name, row in zip(names, turned, strict=True)
    ]


def _unmatched(report: Any) -> list[str]:
    """The tables that only one side has."""
    lines = []
    for which in ("old", "new"):
        names = report.provenance.get(f"only_{which}", ())
        if names:
            shown = ", ".join(words.clean(name) for name in names[:5]) + (", …" if len(names) > 5 else "")
            lines.append(f"{words.count(len(names), 'table')} only in the {which} version: {shown}")
    return lines


def render_markdown(report: Any) -> str:
    """A :class:`~fullspan.jobs.drift.DriftReport` as Markdown."""
    lines = []
    for table in report:
        title = f"## {escape(table.table)}: {_shapes(table)}"
        lines += [title, "", _rows(table), "", f"**{escape(_verdict(table))}**", ""]
        if table.readings:
            lines += _markdown(["distance", "value", "p by chance", "aims at"], _distances(table))
        if table.changes:
            lines += _markdown(["measure", "old", "new", "change", "z"], _changes(table))
        beside = [f"- {escape(line)}" for line in [*_turned(table), *table.notes]]
        lines += [*beside, ""] if beside else []
    lines += [escape(line) for line in _unmatched(report)]
    return "\n".join(lines).rstrip() + "\n"


def _shapes(table: Any) -> str:
    return f"{table.old.n_rows:,} × {table.old.dim} → {table.new.n_rows:,} × {table.new.dim}"


def _rows(table: Any) -> str:
    if table.n_common is None:
        return "rows not aligned: distributions only"
    return (
        f"{table.n_common:,} rows in both, aligned by {table.aligned_by} · "
        f"{table.n_added:,} new · {table.n_removed:,} gone"
    )


def _verdict(table: Any) -> str:
    changed = table.significant()
    if not changed:
        return "No measure changed by more than chance (Holm-corrected, 1%)."
    names = ", ".join(f"{change.measure} {'up' if change.difference > 0 else 'down'}" for change in changed[:4])
    more = f" and {len(changed) - 4} more" if len(changed) > 4 else ""
    return f"{words.count(len(changed), 'measure')} changed by more than chance (Holm-corrected, 1%): {names}{more}."


_AIMS = {
    "linear_cka": "1: same geometry",
    "linear_cka_debiased": "1: same geometry",
    "procrustes_distance": "0: same up to rotation",
    "largest_principal_angle": "0: same subspace (rad)",
    "row_cosine": "1: rows did not turn",
    "row_displacement": "0: rows did not move",
    "neighbor_overlap": "1: same neighbors",
    "mean_shift": "0: same mean",
    "frechet_distance": "0: same mean and spread",
    "spectrum_difference": "0: same spectrum",
    "mmd": "0: same distribution",
    "classifier_drift": "0.5: cannot be told apart",
}


def _distances(table: Any) -> list[list[str]]:
    return [[name, _value(r), _chance(r.detail.get("p")), _AIMS.get(name, "")] for name, r in table.readings.items()]


def _chance(p: float | None) -> str:
    return "< 1e-300" if p == 0.0 else words.number(p)


def _value(reading: Reading) -> str:
    return "undefined" if reading.value is None else words.number(reading.value)


def _changes(table: Any) -> list[list[str]]:
    lines = []
    for change in table.changes.values():
        z = "" if change.z is None else _deviations(change.z)
        values = [words.number(change.old), words.number(change.new), words.number(change.difference)]
        lines.append([change.measure, *values, z])
    return lines


def _deviations(z: float) -> str:
    if abs(z) < 0.05:
        return "0.0"
    return f"{z:+.1f}" if abs(z) < 1000 else f"{z:+.0e}"


def _table(first: str, heads: list[str], lines: list[list[str]]) -> Any:
    """A grid whose numbers are never cut: where the width is short, the names are."""
    from rich import box
    from rich.padding import Padding
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    table.add_column(first, no_wrap=True)
    for place, name in enumerate(heads, 1):
        widest = max([len(name), *(len(line[place]) for line in lines)])
        left = name == "aims at"
        table.add_column(name, justify="left" if left else "right", no_wrap=True, min_width=0 if left else widest)
    for line in lines:
        table.add_row(*line[: len(heads) + 1])
    return Padding(table, (0, 0, 0, 1))


def _markdown(heads: list[str], lines: list[list[str]]) -> list[str]:
    rule = ["---" if head in (heads[0], "aims at") else "---:" for head in heads]
    return [f"| {' | '.join(cells)} |" for cells in (heads, rule, *lines)] + [""]
