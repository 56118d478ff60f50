"""Plain records: what was read from a table, and what was found wrong with it. No arithmetic lives here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Finding", "Reading"]


@dataclass(frozen=True)
class Reading:
    """One measure of one table.

    Parameters
    ----------
    measure
        Catalog name, such as ``"information_abundance"``.
    value
        The number, or None when the measure is undefined on this table; `why` then says why.
    standard_error
        Standard error of the value over the rows (block jackknife unless `error_method` says otherwise), or None.
    null
        Value expected of an isotropic Gaussian table of the same shape, or None where no such value exists.
    null_deviation
        Standard deviation of the measure over such Gaussian tables, or None.
    below_resolution
        True when the value is smaller than what the stored precision can resolve: read it as "at most this".
    table, group
        Table name, and the group within it (``None`` for the whole table).
    detail
        More about the number: the dimension or row it comes from, the sample it was taken on.
    """

    measure: str
    value: float | None
    standard_error: float | None = None
    null: float | None = None
    null_deviation: float | None = None
    below_resolution: bool = False
    why: str | None = None
    table: str = ""
    group: str | None = None
    error_method: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """Something wrong with a table, with its evidence and what to do.

    Parameters
    ----------
    rule
        Name of the rule that fired, such as ``"dimensional-collapse"``.
    severity
        ``"note"``, ``"warn"`` or ``"fail"``.
    title
        One line in plain words.
    evidence
        The readings it rests on, each as ``{"measure", "value", "null", "threshold", ...}``, and rows or dimensions.
    cause, remedy, verify
        The likely cause; the exact command or code to run; how to see that it helped.
    docs
        Where the documentation explains it.
    table, group
        Table name, and the group within it.
    waived
        Reason of the waiver when the user's rules waive this finding, else None.
    """

    rule: str
    severity: str
    title: str
    evidence: tuple[dict[str, Any], ...] = ()
    cause: str = ""
    remedy: str = ""
    verify: str = ""
    docs: str = ""
    table: str = ""
    group: str | None = None
    waived: str | None = None
