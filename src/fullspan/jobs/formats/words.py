"""The words and numbers that all forms of a report share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from fullspan.store.records import Finding, Reading

__all__ = [
    "SEVERITIES",
    "arrow",
    "blamed",
    "by_severity",
    "clean",
    "clean_lines",
    "count",
    "entry",
    "error_of",
    "evidence_line",
    "facts",
    "graver",
    "link_of",
    "null_of",
    "number",
    "places",
    "percent_sign",
    "remedy_parts",
    "shape_of",
    "title_of",
    "titled",
    "value_of",
    "verdict",
]

#: From the gravest to the mildest.
SEVERITIES = ("fail", "warn", "note")
_NAMES = {"fail": ("failure", "failures"), "warn": ("warning", "warnings"), "note": ("note", "notes")}
#: Control characters, escape sequences and direction marks: what a name from a stranger may not do to a terminal.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ufeff\ud800-\udfff]")


def clean(text: object) -> str:
    """`text` on one line and without characters that steer a terminal; each becomes a visible escape."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", str(text))


def clean_lines(text: object) -> str:
    """As :func:`clean`, but lines stay lines."""
    return "\n".join(clean(line) for line in str(text).splitlines())


def number(value: float | None, digits: int = 4) -> str:
    """A number with `digits` significant digits: ``0.01235``, ``12,350``, ``1.235e-08``; a dash for None."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return clean(value)
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞" if value < 0 else "undefined"
    if float(value).is_integer() and abs(value) < 1e6:
        return f"{int(value):,}"
    if not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def count(quantity: int, one: str, many: str | None = None) -> str:
    """``1 row``, ``2,000 rows``."""
    return f"{quantity:,} {one if quantity == 1 else many or one + 's'}"


def value_of(reading: Reading) -> str:
    """The value as a cell: a number, ``< 1e-8`` or ``> 1e8`` below the resolution of the type, ``undefined``."""
    if reading.value is None or not math.isfinite(reading.value):
        return "undefined"
    value = number(reading.value) + percent_sign(reading.measure)
    if not reading.below_resolution or reading.value == 0.0:
        return value
    return f"{'>' if getattr(entry(reading.measure), 'direction', '') == 'lower' else '<'} {value}"


def error_of(reading: Reading) -> str:
    """``± 0.01``, or nothing where there is no standard error."""
    error = reading.standard_error
    return "" if error is None or not math.isfinite(error) else f"± {number(error, 2)}{percent_sign(reading.measure)}"


def null_of(reading: Reading) -> str:
    return "" if reading.null is None or not math.isfinite(reading.null) else number(reading.null)


def entry(measure: str) -> Any:
    """The catalog's entry of a measure, or None: a report of another version may name others."""
    from fullspan.measures import catalog

    return catalog.CATALOG.get(measure)


def titled(measure: str) -> str:
    """The title of a measure, in plain words."""
    found = entry(measure)
    return clean(getattr(found, "title", None) or measure.replace("_", " "))


def percent_sign(measure: str) -> str:
    """``%`` where the values of a measure are in percent: a correlation of 0.43% is none of 0.43."""
    return "%" if getattr(entry(measure), "unit", "") == "%" else ""


def arrow(measure: str) -> str:
    """``↑`` where higher is healthier, ``↓`` where lower is, else nothing."""
    direction = str(getattr(entry(measure), "direction", "") or "")
    return "↑" if direction.startswith(("high", "up")) else "↓" if direction.startswith(("low", "down")) else ""


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """The gravest first; waived ones last."""
    return sorted(findings, key=lambda finding: (finding.waived is not None, _rank(finding.severity)))


def graver(one: str, other: str) -> str:
    return min(one, other, key=_rank)


def _rank(severity: str) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def blamed(findings: Iterable[Finding]) -> dict[str, str]:
    """Measure to the gravest severity of the findings that rest on it."""
    blamed: dict[str, str] = {}
    for finding in findings:
        if finding.waived is not None:
            continue
        for evidence in finding.evidence:
            name = evidence.get("measure")
            if isinstance(name, str):
                blamed[name] = graver(blamed.get(name, "note"), finding.severity)
    return blamed


def verdict(findings: Iterable[Finding], n_readings: int | None = None) -> str:
    """One sentence on a table: ``1 failure and 2 warnings.``, or that nothing was found."""
    findings = list(findings)
    active = [finding for finding in findings if finding.waived is None]
    counts = [count(len(some), *_NAMES[grade]) for grade in SEVERITIES if (some := _graded(active, grade))]
    waived = len(findings) - len(active)
    tail = f" {waived:,} waived." if waived else ""
    if counts:
        return _listed(counts) + "." + tail
    if n_readings == 0:
        return "Nothing was measured."
    return "Nothing wrong was found." + tail


def _graded(findings: list[Finding], severity: str) -> list[Finding]:
    return [finding for finding in findings if finding.severity == severity]


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def abundance_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """Information abundance of a table and its part of the isotropic one, where they were read."""
    value, relative = row.get("information_abundance"), row.get("relative_to_null")
    return ("" if value is None else number(value), "" if relative is None else f"{relative:.0%}")


def shape_of(record: Any) -> str:
    if not record.dim:  # a training run itself: its loss and other scalars
        return count(len(record.readings), "scalar")
    return f"{record.n_rows:,} × {record.dim:,} {clean(record.dtype)}"


def facts(record: Any) -> list[str]:
    """How the numbers were had: passes, rows left out, samples."""
    if not record.passes:  # a table of a training run: its first note says when it was read
        return list(record.notes[:1])
    lines = [count(record.passes, "pass", "passes")]
    if record.n_excluded:
        lines.append(f"{count(record.n_excluded, 'row')} with NaN or infinity left out")
    if record.sample_rows and record.sample_rows < record.n_rows:
        lines.append(f"neighbors in a sample of {record.sample_rows:,}")
    if record.error_groups:
        lines.append(f"standard errors from {record.error_groups} groups of rows")
    return lines


def title_of(finding: Finding) -> str:
    """The title as a sentence starts: with a capital, unless its first word is a name in code."""
    text = clean(finding.title)
    first = text.split(" ", 1)[0].rstrip(":,")
    return text if not first.isalpha() or not first.islower() else text[:1].upper() + text[1:]


def remedy_parts(remedy: str) -> list[tuple[str, str]]:
    """The remedy as runs of ``("prose", text)`` and ``("code", lines)``: prose is what reads as sentences."""
    parts: list[tuple[str, str]] = []
    for line in clean_lines(remedy).splitlines():
        kind = "prose" if line[:1].isupper() and line.rstrip().endswith((".", ":")) else "code"
        if parts and parts[-1][0] == kind:
            parts[-1] = (kind, f"{parts[-1][1]}\n{line}")
        else:
            parts.append((kind, line))
    return parts


def link_of(docs: str) -> str:
    """Where the documentation explains a finding: an address or a command as it is, else a page of ``docs/``."""
    as_it_is = not docs or docs.startswith(("http://", "https://", "docs/", "fullspan "))
    return clean(docs) if as_it_is else f"docs/{clean(docs)}"


def evidence_line(evidence: Mapping[str, Any]) -> str:
    """``average_cosine 0.81, isotropic 0, threshold 0.2``; rows and dimensions are named at the end."""
    known = {
        "measure",
        "value",
        "null",
        "threshold",
        "standard_error",
        "null_deviation",
        "rows",
        "dimensions",
        "columns",
        "groups",
        "n_rows",
    }
    parts = []
    if "measure" in evidence:
        error = evidence.get("standard_error")
        sign = percent_sign(evidence["measure"])
        value = f"{number(evidence.get('value'))}{sign}" + (f" ± {number(error, 2)}{sign}" if error else "")
        parts.append(f"{clean(evidence['measure'])} {value}")
    elif "value" in evidence:
        parts.append(number(evidence["value"]))
    if evidence.get("null") is not None:
        parts.append(f"isotropic {number(evidence['null'])}")
    if evidence.get("threshold") is not None:
        parts.append(f"threshold {_plain(evidence['threshold'])}")
    parts += [
        f"{clean(key).replace('_', ' ')} {_plain(value)}"
        for key, value in evidence.items()
        if key not in known and value is not None
    ]
    parts += [f"{key} {places(evidence[key])}" for key in ("rows", "dimensions", "columns") if evidence.get(key)]
    return ", ".join(parts)


def _plain(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(_plain(each) for each in value[:6])
    if isinstance(value, Mapping):
        return " ".join(f"{clean(key)} {_plain(each)}" for key, each in list(value.items())[:6])
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.4g}" if isinstance(value, float) else number(value) if type(value) is int else clean(value)


def places(rows: Iterable[Any], most: int = 5) -> str:
    """Names of rows or dimensions: ids where there are any, else positions, at most `most` of them."""
    some = list(rows)
    names = [_place(each) for each in some[:most]]
    return ", ".join(names) + (f", and {len(some) - most:,} more" if len(some) > most else "")


def _place(row: Any) -> str:
    if not isinstance(row, Mapping):
        return _short(row)
    name = row.get("id")
    if name is None:
        name = row.get("position", row.get("dimension", "?"))
    value = row.get("value", row.get("share"))
    return _short(name) + (f" ({number(value)})" if isinstance(value, (int, float)) else "")


def _short(name: object, most: int = 40) -> str:
    text = clean(name)
    return text if len(text) <= most else text[: most - 1] + "…"
