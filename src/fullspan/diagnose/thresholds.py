"""The limits of the rules: the file that ships with the package, and what a user's file changes in them."""

from __future__ import annotations

import datetime as dt
import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from fullspan.errors import InputError, MissingFileError, NothingEvaluatedError, did_you_mean

__all__ = ["GRADES", "Entry", "Limits", "Override", "Thresholds", "Waiver", "read_rules_toml"]

#: From the least to the gravest.
GRADES = ("note", "warn", "fail")
_MOST_BYTES = 1 << 20
_SECTIONS = ("rule", "check", "waive", "baseline")
_SHIPPED = Path(__file__).with_name("thresholds.toml")


@dataclass(frozen=True)
class Limits:
    """The limits of one rule on one table.

    Parameters
    ----------
    worse
        ``"above"`` when high values are bad, ``"below"`` when low ones are.
    grades
        Grade to limit; a grade that is missing is never given.
    deviations, errors
        How far from the null, and how far past a limit, a value must lie: see ``thresholds.toml``.
    options
        Other numbers of the rule.
    """

    worse: str
    grades: Mapping[str, float]
    deviations: float
    errors: float
    options: Mapping[str, float] = field(default_factory=dict)

    def grade(self, value: float, error: float | None = None) -> str | None:
        """The gravest grade whose limit `value` is past by `errors` standard errors, or one below it if only just."""
        plain = self._reached(value)
        if plain is None or not error:
            return plain
        shift = self.errors * error
        sure = self._reached(value - shift if self.worse == "above" else value + shift)
        if sure == plain:
            return plain
        lower = next((grade for grade in reversed(GRADES[: GRADES.index(plain)]) if grade in self.grades), None)
        return lower if sure is None else max(sure, lower or sure, key=GRADES.index)

    def limit(self, grade: str) -> float:
        """The limit of a grade; of the nearest grade that has one, for a grade that was lowered."""
        if grade in self.grades:
            return self.grades[grade]
        return self.grades[next(each for each in GRADES if each in self.grades)]

    def _reached(self, value: float) -> str | None:
        past = [
            grade for grade, limit in self.grades.items() if (value > limit if self.worse == "above" else value < limit)
        ]
        return max(past, key=GRADES.index, default=None)


@dataclass(frozen=True)
class Override:
    """One ``[[rule]]`` of a user's file: rule name to changed numbers, or to None where the rule is off."""

    tables: tuple[str, ...]
    limits: Mapping[str, Mapping[str, float | None] | None]
    line: int = 0


@dataclass(frozen=True)
class Waiver:
    """One ``[[waive]]`` of a user's file: findings of `rule` on `tables` that are known and accepted until a date."""

    tables: tuple[str, ...]
    rule: str
    reason: str
    until: dt.date | None = None
    line: int = 0

    def covers(self, table: str, rule: str) -> bool:
        return self.rule == rule and matches(table, self.tables)

    def expired(self, today: dt.date) -> bool:
        """Whether the last day of the waiver is over."""
        return self.until is not None and today > self.until


@dataclass(frozen=True)
class Thresholds:
    """Limits of all rules, with a user's changes and waivers.

    Parameters
    ----------
    rules
        Rule name to its section of ``thresholds.toml``.
    overrides, waivers
        Changes for tables whose name matches, later ones first in rank; and accepted findings.
    """

    rules: Mapping[str, Mapping[str, Any]]
    overrides: tuple[Override, ...] = ()
    waivers: tuple[Waiver, ...] = ()

    @classmethod
    def load(cls, path: Any = None) -> Thresholds:
        """The limits that ship with the package, changed by the ``[[rule]]`` and ``[[waive]]`` of a file.

        Parameters
        ----------
        path
            A ``fullspan.toml``, or None for the limits as they ship.

        Raises
        ------
        InputError, MissingFileError
            The file cannot be read, or is not what ``docs/check.md`` describes; the message names the line.
        NothingEvaluatedError
            It names a rule that does not exist.
        """
        if path is None:
            return _shipped()
        return _shipped().changed(*read_rules_toml(path))

    def changed(self, name: str, entries: Mapping[str, list[Entry]]) -> Thresholds:
        """These limits with the entries of a parsed file."""
        overrides = tuple(_override(name, entry, self.rules) for entry in entries["rule"])
        waivers = tuple(_waiver(name, entry, self.rules) for entry in entries["waive"])
        return Thresholds(self.rules, self.overrides + overrides, self.waivers + waivers)

    def limits(self, rule: str, table: str = "") -> Limits | None:
        """The limits of a rule on a table; None where the user turned the rule off."""
        if not self.overrides:
            return self._plain[rule]
        numbers: dict[str, Any] = {**self.rules["all"], **self.rules[rule]}
        for override in self.overrides:
            if rule not in override.limits or not matches(table, override.tables):
                continue
            change = override.limits[rule]
            numbers = {} if change is None else {**self.rules["all"], **self.rules[rule], **numbers, **change}
        return _limits(numbers)

    @cached_property
    def _plain(self) -> dict[str, Limits | None]:
        return {rule: _limits({**self.rules["all"], **own}) for rule, own in self.rules.items() if rule != "all"}


def _limits(numbers: Mapping[str, Any]) -> Limits | None:
    if not numbers:
        return None
    grades = {grade: numbers[grade] for grade in GRADES if numbers.get(grade) is not None}
    rest = {key: value for key, value in numbers.items() if key not in (*GRADES, "worse", "deviations", "errors")}
    return Limits(numbers["worse"], grades, numbers["deviations"], numbers["errors"], rest) if grades else None


@dataclass(frozen=True)
class Entry:
    """One ``[[section]]`` of a user's file and the line it starts on."""

    values: Mapping[str, Any]
    line: int


def matches(table: str, globs: Iterable[str]) -> bool:
    """Whether the name of a table matches one of the globs (upper and lower case differ)."""
    return any(table == glob or fnmatchcase(table, glob) for glob in globs)


@lru_cache(maxsize=1)
def _shipped() -> Thresholds:
    return Thresholds(tomllib.loads(_SHIPPED.read_text(encoding="utf-8")))


def read_rules_toml(path: Any) -> tuple[str, dict[str, list[Entry]]]:
    """The name of a ``fullspan.toml`` and its sections, each entry with its line.

    Raises
    ------
    MissingFileError, InputError
        No such file; too large, not UTF-8, not TOML, or with sections that are not known.
    """
    name = os.fspath(path)
    text = _text_of(Path(name))
    try:
        parsed = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{name}: a rules file needs to be TOML; got a mistake: {error}.") from None
    lines = _lines_of_sections(text)
    for section in parsed:
        if section not in _SECTIONS:
            raise InputError(
                f"{name}: a rules file needs sections of [[rule]], [[check]], [[waive]] and [baseline]; "
                f'got "{section}".'
                f"{did_you_mean(section, _SECTIONS)}"
            )
    return name, {section: _entries(name, section, parsed.get(section), lines) for section in _SECTIONS}


def _text_of(path: Path) -> str:
    if not path.exists():
        raise MissingFileError(f"No rules file at {path}. Write one with: fullspan check TABLE --init > {path}")
    if not path.is_file():
        raise InputError(f"{path}: a rules file needs to be a regular file; got a directory or a device.")
    if path.stat().st_size > _MOST_BYTES:
        raise InputError(f"{path}: a rules file needs to be at most 1 MiB; got {path.stat().st_size:,} bytes.")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: a rules file needs to be UTF-8; got other bytes at {error.start}.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None


def _lines_of_sections(text: str) -> dict[str, list[int]]:
    lines: dict[str, list[int]] = {section: [] for section in _SECTIONS}
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\[?\s*(\w+)\s*\]\]?", line)
        if header and header[1] in lines:
            lines[header[1]].append(number)
    return lines


def _entries(name: str, section: str, found: Any, lines: Mapping[str, list[int]]) -> list[Entry]:
    if found is None:
        return []
    many = found if isinstance(found, list) else [found]
    if isinstance(found, list) == (section == "baseline") or not all(isinstance(each, dict) for each in many):
        shape = "[baseline]" if section == "baseline" else f"[[{section}]]"
        raise InputError(f"{name}: {section} needs to be written as {shape}; got {type(found).__name__}.")
    known = lines[section] if len(lines[section]) == len(many) else [0] * len(many)
    return [Entry(values, line) for values, line in zip(many, known, strict=True)]


def place(name: str, entry: Any) -> str:
    """``file, line n`` of an entry, for messages."""
    return f"{name}, line {entry.line}" if entry.line else name


def tables_of(name: str, entry: Entry, section: str) -> tuple[str, ...]:
    """The globs of an entry; all tables when it names none."""
    found = entry.values.get("tables", "*")
    globs = (found,) if isinstance(found, str) else tuple(found) if isinstance(found, list) else ()
    if not globs or not all(isinstance(glob, str) and glob for glob in globs):
        raise InputError(
            f"{place(name, entry)}: tables of a [[{section}]] needs a glob or a list of globs; got {found!r}."
        )
    return globs


def known_keys(name: str, entry: Entry, section: str, known: Iterable[str]) -> None:
    """Refuse a key that the section does not have."""
    allowed = list(known)
    for key in entry.values:
        if key not in allowed:
            raise InputError(
                f'{place(name, entry)}: a [[{section}]] needs keys of {", ".join(allowed)}; got "{key}".'
                f"{did_you_mean(key, allowed)}"
            )


def number_of(value: Any) -> float | None:
    """The value as a finite float, or None when it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def unknown_rule(where: str, rule: Any, rules: Mapping[str, Any]) -> NothingEvaluatedError:
    known = [each for each in rules if each != "all"]
    return NothingEvaluatedError(
        f'{where}: no rule is named "{rule}".{did_you_mean(str(rule), known)} The rules are: {", ".join(known)}.'
    )


def _override(name: str, entry: Entry, rules: Mapping[str, Mapping[str, Any]]) -> Override:
    where = place(name, entry)
    limits: dict[str, Mapping[str, float | None] | None] = {}
    for rule, change in entry.values.items():
        if rule == "tables":
            continue
        if rule not in rules or rule == "all":
            raise unknown_rule(where, rule, rules)
        limits[rule] = _change(where, rule, change, rules)
    if not limits:
        raise InputError(f"{where}: a [[rule]] needs at least one rule to change; got none.")
    return Override(tables_of(name, entry, "rule"), limits, entry.line)


def _change(
    where: str, rule: str, change: Any, rules: Mapping[str, Mapping[str, Any]]
) -> dict[str, float | None] | None:
    if change is False:
        return None
    if not isinstance(change, dict) or not change:
        raise InputError(
            f"{where}: {rule} needs a table such as {{ warn = 0.5, fail = 0.25 }}, or false to turn it off; "
            f"got {change!r}."
        )
    allowed = dict.fromkeys([*GRADES, *rules["all"], *rules[rule]])
    allowed.pop("worse", None)
    numbers: dict[str, float | None] = {}
    for key, value in change.items():
        if key not in allowed:
            raise InputError(
                f'{where}: {rule} needs keys of {", ".join(allowed)}; got "{key}".{did_you_mean(key, allowed)}'
            )
        numbers[key] = None if value is False and key in GRADES else number_of(value)
        if numbers[key] is None and not (value is False and key in GRADES):
            raise InputError(f"{where}: {key} of {rule} needs a finite number; got {value!r}.")
    _refuse_disorder(where, rule, {**rules[rule], **numbers})
    return numbers


def _refuse_disorder(where: str, rule: str, numbers: Mapping[str, Any]) -> None:
    limits = [numbers[grade] for grade in GRADES if numbers.get(grade) is not None]
    if limits != sorted(limits, reverse=numbers["worse"] == "below"):
        order = "rise" if numbers["worse"] == "above" else "fall"
        raise InputError(
            f"{where}: the limits of {rule} need to {order} from note over warn to fail; got "
            f"{', '.join(f'{grade} = {numbers[grade]:g}' for grade in GRADES if numbers.get(grade) is not None)}. "
            "Give the others too, or turn one off with false."
        )


def _waiver(name: str, entry: Entry, rules: Mapping[str, Any]) -> Waiver:
    where = place(name, entry)
    known_keys(name, entry, "waive", ("tables", "rule", "reason", "until"))
    rule, reason, until = (entry.values.get(key) for key in ("rule", "reason", "until"))
    if not isinstance(rule, str) or ((rule not in rules or rule == "all") and not rule.startswith("check:")):
        raise unknown_rule(where, rule, rules)
    if not isinstance(reason, str) or not reason.strip():
        raise InputError(f"{where}: a waiver needs a reason; got {reason!r}. Say why {rule} is accepted on this table.")
    if isinstance(until, dt.datetime):
        until = until.date()
    if until is not None and not isinstance(until, dt.date):
        raise InputError(f"{where}: until of a waiver needs a date such as 2027-01-31, without quotes; got {until!r}.")
    return Waiver(tables_of(name, entry, "waive"), rule, reason.strip(), until, entry.line)
