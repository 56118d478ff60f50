"""Every error that fullspan raises on purpose.

One base class, so that a caller can catch them all; each child also inherits the built-in error that a careful
reader would expect. A message says what is needed, what was found, and the next step.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "FormatError",
    "FullspanError",
    "InputError",
    "MissingExtraError",
    "MissingFileError",
    "NothingEvaluatedError",
    "UndefinedMeasureError",
    "UnknownNameError",
    "did_you_mean",
]


class FullspanError(Exception):
    """Base of all errors raised by fullspan; `exit_code` is what the command line ends with."""

    exit_code = 2


class InputError(FullspanError, ValueError):
    """An argument, an option or the data itself is not what the call needs."""


class FormatError(InputError):
    """A file is truncated, lies about its contents, or is of no known format."""


class MissingFileError(FullspanError, FileNotFoundError):
    """A path does not exist."""


class UnknownNameError(FullspanError, LookupError):
    """A measure, table, column, rule or option has no such name."""


class MissingExtraError(FullspanError, ImportError):
    """An optional dependency is not installed."""


class UndefinedMeasureError(FullspanError, ValueError):
    """The measure has no value on this input (zero over zero, one dimension, one row)."""


class NothingEvaluatedError(FullspanError, ValueError):
    """A check had nothing to check: never a pass."""

    exit_code = 3


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The sentence that suggests the nearest known name, or an empty string."""
    names = list(known)
    begun = [each for each in names if len(name) >= 3 and each.startswith(name)]
    close = begun[:1] or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f' Did you mean "{close[0]}"?' if close else ""
