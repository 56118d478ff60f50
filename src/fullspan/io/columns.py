"""Tables with columns: which column holds the vectors, and how Arrow arrays become rows.

Parquet, Arrow, csv and data frames meet here; each brings a :class:`Source` of record batches.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from fullspan._typing import Array, Block, Table
from fullspan.errors import FormatError, InputError, UnknownNameError, did_you_mean
from fullspan.io._bounds import MAX_DIM, one_line, reading
from fullspan.io.base import OpenOptions, StreamTable, TableInfo
from fullspan.io.beside import KINDS, attach_arrays, given_values, is_path
from fullspan.io.cells import (
    frequencies_of,
    is_float,
    is_number,
    is_packed,
    is_text,
    is_vector,
    names_of,
    number_name,
    numbers_of_text,
    packed_type,
    plain,
    rows_of_columns,
    rows_of_lists,
)

__all__ = ["Choice", "Source", "choose", "list_columns", "open_columns"]

_IDS = (
    "id", "ids", "_id", "key", "token", "word", "item_id", "user_id", "doc_id", "movie_id", "product_id", "node",
    "entity", "uuid", "index", "name", "unnamed: 0", "", "__index_level_0__",
)  # fmt: skip
_BESIDE = {
    "ids": _IDS,
    "labels": ("label", "labels", "class", "category", "cluster", "group"),
    "frequencies": ("frequency", "frequencies", "freq", "count", "counts"),
}
#: Names of columns that are no dimension of a vector.
BESIDE_NAMES = frozenset(name for names in _BESIDE.values() for name in names)
_VECTOR_NAME = re.compile(r"(?:^|_)(?:emb|vec)", re.IGNORECASE)
_NUMBERED = re.compile(r"(\d+)(?=\D*$)")


class Source(Protocol):
    """Where record batches come from.

    `schema` is an Arrow schema; `n_rows` None where only reading to the end can tell; `batches` yields Arrow record
    batches of the named columns, of about so many rows, from the start; `format` and `path` are for messages.
    """

    @property
    def schema(self) -> Any: ...
    @property
    def n_rows(self) -> int | None: ...
    @property
    def path(self) -> Any: ...
    @property
    def format(self) -> str: ...
    @property
    def repeatable(self) -> bool: ...

    def batches(self, columns: Sequence[str], block_rows: int) -> Iterator[Any]: ...


@dataclass(frozen=True)
class Choice:
    """The columns of one table: one of lists, or one a dimension; and those beside them, or arrays given."""

    name: str
    vectors: tuple[str, ...]
    wide: bool
    beside: dict[str, str] = field(default_factory=dict)
    given: dict[str, Array] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys([*self.vectors, *self.beside.values()]))


def open_columns(source: Source, name: str, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open the tables of a source with columns; `name` is what its only table is called."""
    return [_open(source, choice, options) for choice in choose(source, name, names, options)]


def list_columns(source: Source, name: str) -> list[TableInfo]:
    """Every table of a source with columns: each column of vectors, or the columns of numbers together."""
    found = []
    for column in [one.name for one in source.schema if is_vector(one.type)]:
        [choice] = choose(source, name, None, OpenOptions(column=column, ids=False, labels=False, frequencies=False))
        table = _open(source, choice, OpenOptions(column=column))
        shape = (table.n_rows, table.dim)
        found.append(TableInfo(table.name, shape, table.dtype, True, "a column of vectors", source.format))
    if found:
        return found
    opened = open_columns(source, name, None, OpenOptions())
    return [TableInfo(t.name, (t.n_rows, t.dim), t.dtype, True, "columns of numbers", source.format) for t in opened]


def choose(source: Source, name: str, names: Sequence[str] | None, options: OpenOptions) -> list[Choice]:
    """The columns of each table that the options ask for, or of those that the schema suggests."""
    schema = source.schema
    known = list(schema.names)
    twice = sorted({column for column in known if known.count(column) > 1})
    if twice:
        raise FormatError(f"{str(source.path)!r} needs columns with names of their own; got {twice[0]!r} twice.")
    beside, given = _beside(source, options)
    if options.column is not None:
        columns, wide = _asked(source, options.column, beside)
        label = name if wide else _label(source, name, columns[0])
        if names is not None and list(names) not in ([label], [name], list(columns)):
            raise InputError(
                f"{str(source.path)!r} needs either column= or table=; got both, {options.column!r}, {names[0]!r}."
            )
        return [Choice(label, columns, wide, beside, given)]
    if names is not None and list(names) != [name]:
        found = [(_label(source, name, column), _asked(source, column, beside)[0]) for column in names]
        return [Choice(label, columns, False, beside, given) for label, columns in found]
    return [
        Choice(name if wide else _label(source, name, columns[0]), columns, wide, beside, given)
        for columns, wide in _guess(source, beside)
    ]


def _label(source: Source, name: str, column: str) -> str:
    """What a table is called: as its file where that has one column of vectors, as its column among several."""
    return column if sum(is_vector(one.type) for one in source.schema) > 1 else name


def _beside(source: Source, options: OpenOptions) -> tuple[dict[str, str], dict[str, Array]]:
    """Columns of ids, labels and frequencies, and arrays given for them."""
    columns: dict[str, str] = {}
    given: dict[str, Array] = {}
    for what in KINDS:
        value = getattr(options, what)
        if value is None:
            default = _default_beside(source, what)
            columns.update({} if default is None else {what: default})
        elif isinstance(value, str) and value in source.schema.names:
            columns[what] = value
        elif value is not False:
            _check_names_file(source, what, value)
            values = given_values(value, what)
            assert values is not None
            given[what] = values
    return columns, given


def _check_names_file(source: Source, what: str, value: Any) -> None:
    from pathlib import Path

    if is_path(value) and "://" not in str(value) and not Path(value).exists():
        raise UnknownNameError(
            f"{what} need a column, or a file with one value a row; {str(source.path)!r} has no column "
            f"{str(value)!r}.{did_you_mean(str(value), source.schema.names)} "
            f"It has: {one_line(', '.join(source.schema.names))}."
        )


def _default_beside(source: Source, what: str) -> str | None:
    import pyarrow as pa

    by_name = {name.lower(): name for name in source.schema.names}
    for candidate in _BESIDE[what]:
        if candidate in by_name:
            kind = source.schema.field(by_name[candidate]).type
            is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
            if is_number if what == "frequencies" else not (pa.types.is_nested(kind) or pa.types.is_floating(kind)):
                return by_name[candidate]
    return None


def _asked(source: Source, column: str, beside: dict[str, str]) -> tuple[tuple[str, ...], bool]:
    """The column of that name; or the columns of numbers that a glob, a /regex/ or a prefix matches."""
    schema = source.schema
    if column in schema.names:
        kind = schema.field(column).type
        if is_vector(kind) or is_text(kind) or is_packed(kind):
            return (column,), False
        raise InputError(
            f"Column {column!r} of {str(source.path)!r} needs vectors; got {kind}. "
            'For one column a dimension give a pattern, as "emb_*".'
        )
    columns = [name for name in _matching(schema.names, column) if name not in beside.values()]
    numbers = tuple(name for name in columns if is_number(schema.field(name).type))
    if not numbers:
        raise UnknownNameError(
            f"{str(source.path)!r} has no column of vectors named {column!r}, and no columns of numbers that match it."
            f"{did_you_mean(column, schema.names)} It has: {one_line(', '.join(schema.names))}."
        )
    return _in_order(numbers), True


def _matching(names: Sequence[str], pattern: str) -> list[str]:
    if len(pattern) > 2 and pattern.startswith("/") and pattern.endswith("/"):
        try:
            regex = re.compile(pattern[1:-1])
        except re.error as error:
            raise InputError(f"A /pattern/ of columns needs a regular expression; got {pattern!r}: {error}.") from None
        return [name for name in names if regex.search(name)]
    if any(sign in pattern for sign in "*?["):
        return [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    return [name for name in names if name.startswith(pattern)]


def _in_order(names: tuple[str, ...]) -> tuple[str, ...]:
    """Columns of one prefix by their numbers (2 before 10); otherwise as they stand in the file."""
    numbers = [int(found[1]) for name in names if (found := _NUMBERED.search(name))]
    if len(numbers) == len(names) and len({_NUMBERED.sub("", name) for name in names}) == 1:
        return tuple(names[at] for at in sorted(range(len(names)), key=numbers.__getitem__))
    return names


def _guess(source: Source, beside: dict[str, str]) -> list[tuple[tuple[str, ...], bool]]:
    """The only column of vectors, or those named like one, or all columns of numbers."""
    fields = [one for one in source.schema if one.name not in beside.values()]
    vectors = [one.name for one in fields if is_vector(one.type)]
    named = [name for name in vectors if _VECTOR_NAME.search(name)]
    if len(vectors) == 1 or named:
        return [((name,), False) for name in (named or vectors)]
    if vectors:
        raise InputError(
            f"{str(source.path)!r} has {len(vectors)} columns of vectors; got no choice among "
            f"{one_line(', '.join(vectors))}. Choose one with column=."
        )
    texts = [one.name for one in fields if (is_text(one.type) or is_packed(one.type)) and _VECTOR_NAME.search(one.name)]
    if len(texts) == 1:
        return [((texts[0],), False)]
    floats = tuple(one.name for one in fields if is_float(one.type))
    numbers = floats or tuple(one.name for one in fields if is_number(one.type))
    if not numbers:
        raise InputError(
            f"{str(source.path)!r} needs a column of vectors, or one column of numbers a dimension; got "
            f"{one_line(', '.join(f'{one.name} ({one.type})' for one in source.schema) or 'no columns')}."
        )
    return [(_in_order(numbers), True)]


def _open(source: Source, choice: Choice, options: OpenOptions) -> Table:
    dim, dtype = _shape(source, choice, options)
    if not 1 <= dim <= MAX_DIM:
        raise FormatError(f"{choice.name!r} needs from 1 to {MAX_DIM} dimensions; got {dim}.")

    def read(block_rows: int) -> Iterator[Block]:
        start = 0
        with reading(source.path, f"a file of format {source.format}"):
            for batch in source.batches(choice.columns, block_rows):
                if batch.num_rows:
                    yield _block(batch, choice, dim, options.dtype, start)
                    start += batch.num_rows

    wide_type = np.dtype(dtype).itemsize > 4 if dtype != "bool" else False
    table = StreamTable(
        choice.name, dim, source.n_rows, dtype, read, repeatable=source.repeatable, itemsize=8 if wide_type else 4
    )
    return attach_arrays(table, choice.given)


def _shape(source: Source, choice: Choice, options: OpenOptions) -> tuple[int, str]:
    """The dim and the stored type; lists of free length, and text, take the first row to tell."""
    kinds = [plain(source.schema.field(name).type) for name in choice.vectors]
    if choice.wide:
        names = {number_name(kind) for kind in kinds}
        return len(kinds), names.pop() if len(names) == 1 else "float64"
    kind = kinds[0]
    if is_packed(kind):
        return packed_type(choice.vectors[0], kind.byte_width, options.dtype)
    if hasattr(kind, "list_size"):
        return kind.list_size, number_name(kind.value_type)
    dtype = "float64" if is_text(kind) else number_name(kind.value_type)
    with reading(source.path, f"a file of format {source.format}"):
        batches = source.batches(choice.vectors, 1)
        try:
            first = next((batch for batch in batches if batch.num_rows), None)
        finally:
            if hasattr(batches, "close"):
                batches.close()  # type: ignore[attr-defined]  # readers have it, iterators not
    if first is None:
        raise InputError(f"A table needs at least one row and one dimension; got 0 rows in {str(source.path)!r}.")
    cell = first.column(0)[0]
    if not cell.is_valid:
        raise InputError(
            f"Column {choice.vectors[0]!r} needs a vector in every row; got null in row 0. Drop or fill those rows."
        )
    return len(numbers_of_text(cell.as_py(), choice.vectors[0], 0)) if is_text(kind) else len(cell), dtype


def _block(batch: Any, choice: Choice, dim: int, dtype: Any, start: int) -> Block:
    arrays = {name: batch.column(batch.schema.get_field_index(name)) for name in choice.columns}
    for name, column in arrays.items():
        if column.type.__class__.__name__ == "DictionaryType":
            arrays[name] = column.dictionary_decode()
    if choice.wide:
        rows = rows_of_columns([(name, arrays[name]) for name in choice.vectors], start)
    else:
        rows = rows_of_lists(arrays[choice.vectors[0]], choice.vectors[0], dim, dtype, start)
    beside: dict[str, Array] = {}
    for what, column in choice.beside.items():
        beside[what] = (
            frequencies_of(arrays[column], column, start) if what == "frequencies" else names_of(arrays[column])
        )
    return Block(rows, start, **beside)
