"""What can go wrong with a store, in words: SQLite's errors as errors of fullspan."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fullspan.errors import FormatError, FullspanError

__all__ = ["RunBusyError", "StoreError", "said", "translated"]

_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")
_WAITED = ("SQLITE_BUSY", "SQLITE_LOCKED")


class StoreError(FullspanError, OSError):
    """A run cannot be written or read: the disk is full, the directory is read-only, the file is held."""


class RunBusyError(StoreError):
    """Another process is writing the run."""


@contextmanager
def translated(path: Path, call: str) -> Iterator[None]:
    """Raise what SQLite raises inside as an error of fullspan that names `call` and `path`."""
    try:
        yield
    except sqlite3.Error as error:
        raise said(error, path, call) from error


def said(error: Exception, path: Path, call: str) -> FullspanError:
    """The error of fullspan that says what `error` means for the run at `path`."""
    name = getattr(error, "sqlite_errorname", None) or ""
    odd = not isinstance(error, sqlite3.Error) or "malformed" in str(error) or "decode" in str(error)
    if odd or name.startswith(_DAMAGED):
        return FormatError(
            f"{call} needs a run that can be read; got a damaged file in {str(path)!r} ({error}). "
            "`sqlite3 run.sqlite .recover` saves what is left of it."
        )
    if isinstance(error, sqlite3.OperationalError) and "no such" in str(error):
        return FormatError(f"{call} needs a run of fullspan; got another file in {str(path)!r} ({error}).")
    if name.startswith(_WAITED):
        return StoreError(
            f"{call} needs its turn at the file; got {str(error)!r} for 30 s in {str(path)!r}. "
            "Another program holds it: end that, and try again."
        )
    return StoreError(
        f"{call} needs a place that can be read and written; got {str(error)!r} in {str(path)!r}. "
        "Nothing that was acknowledged is lost."
    )
