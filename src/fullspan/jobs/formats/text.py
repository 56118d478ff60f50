"""A report as text for a terminal or a log: the verdict first, then the readings; at home in 80 columns."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from typing import Any

from fullspan.jobs.formats import words
from fullspan.jobs.formats.groups import GroupTable, cell_of, group_table
from fullspan.jobs.results import TableReport
from fullspan.store.records import Finding, Reading

__all__ = ["in_ascii", "render_text"]

_STYLES = {"fail": "bold red", "warn": "yellow", "note": "cyan", "ok": "green", "waived": "dim"}
_MARKS = {"fail": "✗", "warn": "▲", "note": "•", "ok": "✓", "waived": "○"}
_TRACK = 12
#: What a console that cannot show the signs gets instead.
_ASCII = str.maketrans(
    {"✗": "x", "▲": "!", "•": "-", "✓": "+", "○": "o", "●": "*", "┆": "|", "─": "-", "×": "x", "±": "~", "–": "-"}
    | {"↑": "^", "↓": "v", "·": ";", "∞": "inf", "…": "~", "μ": "mu", "σ": "sigma", "‖": "|", "—": "-", "∈": "in"}
    | {"ρ": "rho", "κ": "kappa", "ʳ": "^r", "−": "-", "\u0304": "_mean"}
)


def render_text(
    report: Any, *, width: int = 80, color: bool = False, readings: bool = True, ascii_only: bool = False
) -> str:
    """A report as plain text, or with colors for a terminal.

    Parameters
    ----------
    report
        What :func:`fullspan.measure` returns.
    width
        Columns to fill, at least 40.
    color
        Whether to add the escape sequences of colors.
    readings
        False shows the verdicts and leaves out the table of readings.
    ascii_only
        Whether signs outside ASCII are replaced, for consoles that cannot show them.

    Returns
    -------
    str
        Lines of at most `width` columns, each ended by a newline; commands and links are never broken.
    """
    from rich.console import Console

    out = io.StringIO()
    console = Console(
        file=out,
        width=max(width, 40),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    for position, table in enumerate(report):
        if position:
            console.print()
        _table(console, table, readings)
    if len(report) > 1:
        console.print()
        console.print(_beside(report))
    text = "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
    return in_ascii(text) if ascii_only else text


def _beside(report: Any) -> Any:
    """One line a table: information abundance, and its part of what a Gaussian table of the shape has."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, header_style="dim", pad_edge=False)
    for name, right in (("", False), ("table", False), ("shape", False), ("abundance", True), ("of isotropic", True)):
        grid.add_column(name, justify="right" if right else "left", no_wrap=name != "table", overflow="fold")
    for row in report.fields:
        style = _STYLES[row["worst"]]
        cells = [words.clean(row["table"]) or "table", f"{row['n_rows']:,} × {row['dim']:,}", *words.abundance_of(row)]
        grid.add_row(Text(_MARKS[row["worst"]], style), *(Text(cell) for cell in cells))
    return grid


def in_ascii(text: str) -> str:
    """`text` with its signs replaced, for a console that cannot show them."""
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode()


def _table(console: Any, table: TableReport, readings: bool) -> None:
    from rich.padding import Padding
    from rich.text import Text

    record = table.record
    worst = table.worst
    title = Text.assemble((words.clean(record.table) or "table", "bold"), "  ", words.shape_of(record))
    console.print(title, overflow="fold")
    console.print(Text(" · ".join(words.facts(record)), "dim"))
    said = Text.assemble(
        (f"{_MARKS[worst]} ", _STYLES[worst]), (words.verdict(table.findings, len(record.readings)), _STYLES[worst])
    )
    console.print()
    console.print(said)
    for finding in words.by_severity(table.findings):
        console.print()
        _finding(console, finding)
    if readings and record.readings:
        console.print()
        whole = [finding for finding in table.findings if finding.group is None]
        console.print(_readings(record.readings.values(), whole, console.width))
    groups = group_table(table)
    if readings and groups is not None:
        console.print()
        console.print(Text(f"{words.count(len(record.groups), 'group')}. {groups.caption}", "dim"))
        console.print(_groups(groups))
        if groups.rest:
            console.print(Text(f"  {groups.rest}", "dim"))
    undefined = [reading for reading in record.readings.values() if reading.value is None and reading.why]
    if readings and (record.notes or undefined):
        console.print()
        for reading in undefined:
            console.print(
                Padding(Text(f"{reading.measure} is undefined: {words.clean(reading.why)}", "dim"), (0, 0, 0, 2))
            )
        for note in record.notes:
            console.print(Padding(Text(words.clean(note), "dim"), (0, 0, 0, 2)))


def _finding(console: Any, finding: Finding) -> None:
    from rich.table import Table
    from rich.text import Text

    kind = "waived" if finding.waived is not None else finding.severity
    style = _STYLES.get(kind, "")
    group = f" [{words.clean(finding.group)}]" if finding.group is not None else ""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    title = Text.assemble((words.title_of(finding), "bold"), group, ("  " + words.clean(finding.rule), "dim"))
    grid.add_row(Text(_MARKS.get(kind, "•"), style), title)
    console.print(grid)
    for label, text, looks in _parts(finding):
        if looks:  # a command or a link: wrapped, it could not be copied
            console.print(Text.assemble((f"  {label:<8} ", "dim"), (text, looks)), soft_wrap=True)
            continue
        body = Table.grid(padding=(0, 1))
        body.add_column(width=1)
        body.add_column(width=8, style="dim")
        body.add_column(overflow="fold")
        body.add_row("", label, text)
        console.print(body)


def _parts(finding: Finding) -> Iterable[tuple[str, str, str]]:
    """Label, text and style of each line under the title."""
    for position, evidence in enumerate(finding.evidence):
        yield ("evidence" if not position else "", words.evidence_line(evidence), "")
    if finding.waived is not None:
        yield "waived", words.clean(finding.waived), ""
        return
    if finding.cause:
        yield "cause", words.clean(finding.cause), ""
    for position, (kind, text) in enumerate(words.remedy_parts(finding.remedy)):
        for more, line in enumerate(text.splitlines()):
            yield "remedy" if position == more == 0 else "", line, "cyan" if kind == "code" else ""
    if finding.verify:
        yield "verify", words.clean(finding.verify), ""
    if finding.docs:
        yield "see", words.link_of(finding.docs), "blue"


def _readings(readings: Iterable[Reading], findings: Iterable[Finding], width: int) -> Any:
    from rich.table import Table
    from rich.text import Text

    blamed = words.blamed(findings)
    grid = Table(box=None, padding=(0, 1, 0, 0), show_edge=False, header_style="dim", pad_edge=False)
    for name in ("", "measure", "", "value", "± error", "isotropic"):
        right = name in ("value", "isotropic")
        grid.add_column(name, justify="right" if right else "left", no_wrap=name not in ("measure",), overflow="fold")
    if width >= 78:
        grid.add_column("", no_wrap=True, width=_TRACK)
    for reading in readings:
        kind = blamed.get(reading.measure)
        style = _STYLES.get(kind or "", "")
        dull = "dim" if reading.value is None else style
        cells = [
            Text(_MARKS[kind] if kind else " ", style),
            Text(words.clean(reading.measure), dull),
            Text(words.arrow(reading.measure), "dim"),
            Text(words.value_of(reading), dull or "bold"),
            Text(words.error_of(reading), "dim"),
            Text(words.null_of(reading), "dim"),
        ]
        if width >= 78:
            cells.append(track(reading, style or "green"))
        grid.add_row(*cells)
    return grid


def _groups(groups: GroupTable) -> Any:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, padding=(0, 1, 0, 0), show_edge=False, header_style="dim", pad_edge=False)
    grid.add_column("", no_wrap=True)
    grid.add_column("group", overflow="fold")
    for name in ("rows", *groups.measures):
        grid.add_column(Text("\n".join(name.split("_"))), justify="right", no_wrap=True)
    for row in groups.rows:
        mark = Text(_MARKS.get(row.severity or "", " "), _STYLES.get(row.severity or "", ""))
        cells = [Text(cell_of(row, name), _STYLES.get(row.blamed.get(name, ""), "")) for name in groups.measures]
        n_rows = "" if row.n_rows is None else f"{row.n_rows:,}"
        grid.add_row(mark, Text(words.clean(row.name)), n_rows, *cells)
    return grid


def track(reading: Reading, style: str = "", cells: int = _TRACK) -> Any:
    """Where the value (●) stands beside the isotropic one (┆), from 0 or the smaller of the two on."""
    from rich.text import Text

    value, null = reading.value, reading.null
    if value is None or null is None or not (math.isfinite(value) and math.isfinite(null)):
        return Text("")
    low, high = min(0.0, value, null), max(value, null, 0.0)
    if not high > low:
        return Text("")

    def place(x: float) -> int:
        return round((x - low) / (high - low) * (cells - 1))

    line = Text("─" * cells, "dim")
    line.plain = "".join("●" if at == place(value) else "┆" if at == place(null) else "─" for at in range(cells))
    line.stylize(style, place(value), place(value) + 1)
    return line
