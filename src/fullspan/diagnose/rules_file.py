"""A user's ``fullspan.toml``: checks of single measures, changed limits, waivers, and a baseline report."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullspan.diagnose.conditions import LAST, When, parse_condition, parse_when
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
RELATIVE = ("absolute", "null", "dim", "baseline", "difference")
_OF = {
    "absolute": "",
    "null": " times its null",
    "dim": " times dim",
    "baseline": " times the baseline",
    "difference": " from the baseline",
}
_LIMITS = ("min", "max", "relative_to", "severity")
_ALSO = ("group", "errors", "at", "window", "min_rows", "baseline")
_KEYS = ("tables", "measure", *_LIMITS, *GRADES, *_ALSO)


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
        of the table, or the value of the same table in the baseline; ``"difference"`` subtracts that first.
    severity
        What a value outside the limits is: ``"fail"``, ``"warn"`` or ``"note"``.
    group
        Name of the group whose reading is meant, or None for the whole table.
    errors
        Standard errors of leeway.
    at
        Which points of a run are meant.
    window
        How many points in a row must lie outside before the check fails.
    min_rows
        Points of a run that were read from fewer rows do not count.
    baseline
        Path of a report or a run to compare with in place of that of ``[baseline]``.
    line
        Where the file has it.
    entry
        Number of its ``[[check]]``: one with ``fail`` and ``warn`` gives two checks.
    """

    tables: tuple[str, ...]
    measure: str
    minimum: float | None = None
    maximum: float | None = None
    relative_to: str = "absolute"
    severity: str = "fail"
    group: str | None = None
    errors: float = 0.0
    at: When = LAST
    window: int = 1
    min_rows: int = 0
    baseline: Path | None = None
    line: int = 0
    entry: int = 0

    @property
    def of(self) -> str:
        """What a number is relative to, in words: ``" times its null"``; empty for one as it stands."""
        return _OF[self.relative_to]

    @property
    def compares(self) -> bool:
        """Whether it needs a baseline."""
        return self.relative_to in ("baseline", "difference")

    def outside(self, value: float, leeway: float = 0.0) -> bool:
        """Whether a value, relative to what the limits are relative to, is past one by more than `leeway`."""
        low = self.minimum is not None and value + leeway < self.minimum
        return low or (self.maximum is not None and value - leeway > self.maximum)

    @property
    def rule(self) -> str:
        """What findings of this check, and waivers of it, are called."""
        return f"check:{self.measure}"

    @property
    def limits(self) -> str:
        """The limits in words: ``at least 0.5 of its null``."""
        words = [] if self.minimum is None else [f"at least {self.minimum:.6g}"]
        words += [] if self.maximum is None else [f"at most {self.maximum:.6g}"]
        return " and ".join(words) + self.of


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
        Path of the report or run in ``[baseline]``, relative to the file; None without one.
    """

    name: str
    thresholds: Thresholds
    checks: tuple[Check, ...] = ()
    baseline: Path | None = None

    @classmethod
    def load(cls, path: Any, scalars: Collection[str] = ()) -> RulesFile:
        """Parse a file.

        Parameters
        ----------
        path
            Of the file.
        scalars
            Names that a check may have beside those of measures: what a run has logged about itself, such as its loss.

        Raises
        ------
        InputError, MissingFileError
            The file cannot be read or is not well formed; the message names the line.
        NothingEvaluatedError
            It names a rule or measure that does not exist: what it asks for cannot be checked.
        """
        name, entries = read_rules_toml(path)
        thresholds = Thresholds.load().changed(name, entries)
        checks = tuple(
            each
            for number, entry in enumerate(entries["check"])
            for each in _checks(name, entry, number, frozenset(scalars))
        )
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


def _checks(name: str, entry: Entry, number: int, scalars: frozenset[str]) -> list[Check]:
    """The checks of one ``[[check]]``, the gravest first."""
    where = place(name, entry)
    known_keys(name, entry, "check", _KEYS)
    values = entry.values
    measure = _measure(where, values.get("measure"), scalars)
    limits = _limits(where, measure, values)
    baseline = values.get("baseline")
    if baseline is not None and (not isinstance(baseline, str) or not baseline):
        raise InputError(f"{where}: baseline of a [[check]] needs the path of a report or a run; got {baseline!r}.")
    if baseline is not None and not any(unit in ("baseline", "difference") for *_, unit in limits):
        raise InputError(
            f"{where}: baseline of a [[check]] needs a limit that is relative to it; got one of the value itself. "
            'Write it as fail = "drop > 5%", or with relative_to = "baseline".'
        )
    return [
        Check(
            tables_of(name, entry, "check"),
            measure,
            low,
            high,
            unit,
            severity,
            _group(where, values.get("group")),
            _errors(where, values.get("errors", 0.0)),
            _when(where, values.get("at", "last")),
            _whole(where, "window", values.get("window", 1), 1),
            _whole(where, "min_rows", values.get("min_rows", 0), 0),
            None if baseline is None else Path(name).parent / baseline,
            entry.line,
            number,
        )
        for severity, low, high, unit in limits
    ]


def _measure(where: str, measure: Any, scalars: frozenset[str]) -> str:
    if measure is None:
        raise InputError(f"{where}: a [[check]] needs a measure; got none. `fullspan measures` lists all of them.")
    if measure in scalars:
        return measure
    if measure not in catalog.CATALOG:
        logged = f" The run has logged: {', '.join(sorted(scalars)[:20])}." if scalars else ""
        raise NothingEvaluatedError(
            f'{where}: no measure is named "{measure}".{did_you_mean(str(measure), [*catalog.CATALOG, *scalars])} '
            f"`fullspan measures` lists all of them.{logged}"
        )
    if catalog.CATALOG[measure].read is None:
        raise NothingEvaluatedError(f"{where}: {measure} needs more than one table, so it cannot be checked on one.")
    return measure


def _limits(where: str, measure: str, values: Mapping[str, Any]) -> list[tuple[str, float | None, float | None, str]]:
    """Severity, least and largest value, unit: once from min and max, or once from each of fail, warn and note."""
    said = [grade for grade in reversed(GRADES) if grade in values]
    if said:
        mixed = next((key for key in _LIMITS if key in values), None)
        if mixed is not None:
            raise InputError(f"{where}: a [[check]] needs either {mixed} or {said[0]}; got both.")
        return [(grade, *_condition(where, grade, values[grade])) for grade in said]
    low, high = (_limit(where, key, values.get(key)) for key in ("min", "max"))
    if low is None and high is None:
        raise InputError(f"{where}: a [[check]] of {measure} needs min, max or both; got neither.")
    if low is not None and high is not None and low > high:
        raise InputError(f"{where}: a [[check]] of {measure} needs min up to max; got min = {low:g}, max = {high:g}.")
    unit = _one_of(where, "relative_to", values.get("relative_to", "absolute"), RELATIVE)
    return [(_one_of(where, "severity", values.get("severity", "fail"), GRADES), low, high, unit)]


def _condition(where: str, grade: str, text: Any) -> tuple[float | None, float | None, str]:
    found = parse_condition(text)
    if found is None:
        raise InputError(
            f'{where}: {grade} of a [[check]] needs a condition such as "< 0.3", "> 2 * null", "< 0.1 * dim", '
            f'"drop > 5%", "rise > 0.02" or "change > 10%"; got {text!r}.'
        )
    return found.minimum, found.maximum, found.relative_to


def _when(where: str, text: Any) -> When:
    found = parse_when(text)
    if found is None:
        raise InputError(
            f'{where}: at of a [[check]] needs "last", "any" or a range such as "epoch:5..", "step:1000..2000" or '
            f'"samples:..1e6"; got {text!r}.'
        )
    return found


def _whole(where: str, key: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{where}: {key} of a [[check]] needs a whole number, {least} or more; got {value!r}.")
    return value


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
    known_keys(name, entry, "baseline", ("report", "run"))
    if "report" in entry.values and "run" in entry.values:
        raise InputError(f"{place(name, entry)}: [baseline] needs one of report and run; got both.")
    path = entry.values.get("report", entry.values.get("run"))
    if not isinstance(path, str) or not path:
        raise InputError(f"{place(name, entry)}: [baseline] needs the path of a report or a run; got {path!r}.")
    return Path(name).parent / path
