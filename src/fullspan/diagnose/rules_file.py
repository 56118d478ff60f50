"""A user's ``fullspan.toml``: checks of single measures, changed limits, waivers, and a baseline report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullspan.diagnose.thresholds import (
    GRADES,
    Entry,
    Override,
    Thresholds,
    Waiver,
    known_keys,
    matches,
    number_of,
    place,
    read_rules_toml,
    tables_of,
)
from fullspan.errors import InputError, NothingEvaluatedError, did_you_mean
from fullspan.measures import catalog

__all__ = ["RELATIVE", "Check", "RulesFile"]

#: What a limit may be relative to.
RELATIVE = ("absolute", "null", "dim", "baseline")
_KEYS = ("tables", "measure", "min", "max", "relative_to", "severity", "group", "errors")


@dataclass(frozen=True)
class Check:
    """One ``[[check]]``: a measure that has to stay within limits.

    Parameters
    ----------
    tables
        Globs over table names.
    measure
        Catalog name.
    minimum, maximum
        Limits, both inclusive; at least one of them.
    relative_to
        ``"absolute"`` compares the value; ``"null"``, ``"dim"`` and ``"baseline"`` divide it first by its null, the dim
        of the table, or the value of the same table in the baseline report.
    severity
        What a value outside the limits is: ``"fail"``, ``"warn"`` or ``"note"``.
    group
        Name of the group whose reading is meant, or None for the whole table.
    errors
        Standard errors of leeway.
    line
        Where the file has it.
    """

    tables: tuple[str, ...]
    measure: str
    minimum: float | None = None
    maximum: float | None = None
    relative_to: str = "absolute"
    severity: str = "fail"
    group: str | None = None
    errors: float = 0.0
    line: int = 0

    @property
    def rule(self) -> str:
        """What findings of this check, and waivers of it, are called."""
        return f"check:{self.measure}"

    @property
    def limits(self) -> str:
        """The limits in words: ``at least 0.5 of its null``."""
        of = {"absolute": "", "null": " times its null", "dim": " times dim", "baseline": " times the baseline"}
        words = [] if self.minimum is None else [f"at least {self.minimum:.6g}"]
        words += [] if self.maximum is None else [f"at most {self.maximum:.6g}"]
        return " and ".join(words) + of[self.relative_to]


@dataclass(frozen=True)
class RulesFile:
    """A parsed ``fullspan.toml``.

    Parameters
    ----------
    name
        Its path, for messages.
    thresholds
        Limits of the rules with the ``[[rule]]`` and ``[[waive]]`` of the file.
    checks
        Its ``[[check]]`` entries.
    baseline
        Path of the report in ``[baseline]``, relative to the file; None without one.
    """

    name: str
    thresholds: Thresholds
    checks: tuple[Check, ...] = ()
    baseline: Path | None = None

    @classmethod
    def load(cls, path: Any) -> RulesFile:
        """Parse a file.

        Raises
        ------
        InputError, MissingFileError
            The file cannot be read or is not well formed; the message names the line.
        NothingEvaluatedError
            It names a rule or measure that does not exist: what it asks for cannot be checked.
        """
        name, entries = read_rules_toml(path)
        thresholds = Thresholds.load().changed(name, entries)
        checks = tuple(_check(name, entry) for entry in entries["check"])
        known = [each.rule for each in checks]
        for waiver in thresholds.waivers:
            if waiver.rule.startswith("check:") and waiver.rule not in known:
                raise NothingEvaluatedError(
                    f'{place(name, waiver)}: a waiver of a check needs that check in the file; got "{waiver.rule}".'
                    f"{did_you_mean(waiver.rule, known)}"
                )
        return cls(name, thresholds, checks, _baseline(name, entries["baseline"]))

    def refuse_unmatched(self, tables: Iterable[str]) -> None:
        """Raise NothingEvaluatedError for an entry whose globs match none of the tables."""
        known = list(tables)
        sections: Mapping[str, tuple[Override | Check | Waiver, ...]] = {
            "rule": self.thresholds.overrides,
            "check": self.checks,
            "waive": self.thresholds.waivers,
        }
        for section, entries in sections.items():
            for entry in entries:
                for glob in entry.tables:
                    if not any(matches(table, (glob,)) for table in known):
                        raise NothingEvaluatedError(
                            f'{place(self.name, entry)}: tables of a [[{section}]] need to match a table; got "{glob}".'
                            f"{did_you_mean(glob, known)} The tables are: {', '.join(known[:20]) or 'none'}."
                        )


def _check(name: str, entry: Entry) -> Check:
    where = place(name, entry)
    known_keys(name, entry, "check", _KEYS)
    values = entry.values
    measure = values.get("measure")
    if measure is None:
        raise InputError(f"{where}: a [[check]] needs a measure; got none. `fullspan measures` lists all of them.")
    if measure not in catalog.CATALOG:
        raise NothingEvaluatedError(
            f'{where}: no measure is named "{measure}".{did_you_mean(str(measure), catalog.CATALOG)} '
            "`fullspan measures` lists all of them."
        )
    if catalog.CATALOG[measure].read is None:
        raise NothingEvaluatedError(f"{where}: {measure} needs more than one table, so it cannot be checked on one.")
    low, high = (_limit(where, key, values.get(key)) for key in ("min", "max"))
    if low is None and high is None:
        raise InputError(f"{where}: a [[check]] of {measure} needs min, max or both; got neither.")
    if low is not None and high is not None and low > high:
        raise InputError(f"{where}: a [[check]] of {measure} needs min up to max; got min = {low:g}, max = {high:g}.")
    return Check(
        tables_of(name, entry, "check"),
        measure,
        low,
        high,
        _one_of(where, "relative_to", values.get("relative_to", "absolute"), RELATIVE),
        _one_of(where, "severity", values.get("severity", "fail"), GRADES),
        _group(where, values.get("group")),
        _errors(where, values.get("errors", 0.0)),
        entry.line,
    )


def _limit(where: str, key: str, value: Any) -> float | None:
    if value is None:
        return None
    number = number_of(value)
    if number is None:
        raise InputError(f"{where}: {key} of a [[check]] needs a finite number; got {value!r}.")
    return number


def _errors(where: str, value: Any) -> float:
    number = number_of(value)
    if number is None or number < 0:
        raise InputError(f"{where}: errors of a [[check]] needs a number of standard errors, 0 or more; got {value!r}.")
    return number


def _one_of(where: str, key: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        raise InputError(
            f'{where}: {key} of a [[check]] needs one of {", ".join(known)}; got "{value}".'
            f"{did_you_mean(str(value), known)}"
        )
    return value


def _group(where: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InputError(f"{where}: group of a [[check]] needs the name of a group; got {value!r}.")
    return value


def _baseline(name: str, entries: list[Entry]) -> Path | None:
    if not entries:
        return None
    entry = entries[0]
    known_keys(name, entry, "baseline", ("report",))
    report = entry.values.get("report")
    if not isinstance(report, str) or not report:
        raise InputError(f"{place(name, entry)}: [baseline] needs the path of a report; got {report!r}.")
    return Path(name).parent / report
