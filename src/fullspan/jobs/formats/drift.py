"""The comparison of two versions as text and as Markdown."""

from __future__ import annotations

import io
from typing import Any

from fullspan.jobs.formats import words
from fullspan.jobs.formats.text import in_ascii
from fullspan.store.records import Reading

__all__ = ["render_markdown", "render_text"]


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
        console.print(Text(f"{words.clean(table.table)}  {_shapes(table)}", "bold"))
        console.print(Text(_rows(table), "dim"))
        console.print()
        console.print(Text(_verdict(table), "yellow" if table.significant() else "green"))
        console.print()
        if table.readings:
            console.print(_table("distance", ["value", "p by chance", "aims at"], _distances(table)))
            console.print()
        console.print(_table("measure", ["old", "new", "change", "z"], _changes(table)))
        for row in table.moved[:5]:
            name = row["position"] if row["id"] is None else row["id"]
            console.print(Text(f"  turned furthest: {words.clean(name)}, cosine {words.number(row['cosine'])}", "dim"))
        for note in table.notes:
            console.print(Text(f"  {words.clean(note)}", "dim"))
        console.print()
    text = "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
    return in_ascii(text) if ascii_only else text


def render_markdown(report: Any) -> str:
    """A :class:`~fullspan.jobs.drift.DriftReport` as Markdown."""
    lines = []
    for table in report:
        lines += [
            f"## {words.clean(table.table)}: {_shapes(table)}",
            "",
            _rows(table),
            "",
            f"**{_verdict(table)}**",
            "",
        ]
        if table.readings:
            lines += _markdown(["distance", "value", "p by chance", "aims at"], _distances(table))
        lines += _markdown(["measure", "old", "new", "change", "z"], _changes(table))
        lines += [f"- {words.clean(note)}" for note in table.notes]
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
        z = "" if change.z is None else f"{change.z:+.1f}"
        values = [words.number(change.old), words.number(change.new), words.number(change.difference)]
        lines.append([change.measure, *values, z])
    return lines


def _table(first: str, others: list[str], lines: list[list[str]]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="left" if name == "aims at" else "right", no_wrap=True)
    for line in lines:
        table.add_row(*line)
    return table


def _markdown(heads: list[str], lines: list[list[str]]) -> list[str]:
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in (heads, rule, *lines)] + [""]
