"""Open the tables that names and globs choose."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from typing import Any

from fullspan._typing import Table
from fullspan.errors import UnknownNameError, did_you_mean
from fullspan.io.formats import list_tables, open_tables

__all__ = ["open_chosen"]


def open_chosen(source: Any, table: str | Iterable[str] | None, **options: Any) -> list[Table]:
    """Open the tables of a source: all that look like embeddings, or those that names and globs choose, each once.

    Raises
    ------
    UnknownNameError
        If a glob matches no table, or there is no table of a name.
    """
    wanted = [table] if isinstance(table, str) else None if table is None else list(table)
    if not wanted:
        return open_tables(source, table=None, **options)
    if len(wanted) == 1 and not set(wanted[0]) & set("*?["):
        return open_tables(source, table=wanted[0], **options)
    known = [info.name for info in list_tables(source)]
    names = [name for each in wanted for name in _matching(each, known)]
    return [opened for name in dict.fromkeys(names) for opened in open_tables(source, table=name, **options)]


def _matching(wanted: str, known: list[str]) -> list[str]:
    found = [wanted] if wanted in known else fnmatch.filter(known, wanted)
    if not found:
        names = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
        raise UnknownNameError(f'No table is named "{wanted}".{did_you_mean(wanted, known)} There are: {names}.')
    return found
