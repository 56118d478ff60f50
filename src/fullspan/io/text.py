"""Comma- and tab-separated text, streamed by pyarrow; with a header or without one, decided by the first two lines."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fullspan._typing import Table
from fullspan.errors import FormatError
from fullspan.io._bounds import MAX_DIM, MAX_LINE, reading
from fullspan.io.base import OpenOptions, TableInfo
from fullspan.io.columns import list_columns, open_columns
from fullspan.io.streams import line_chunks, open_bytes, stem
from fullspan.io.vectors import text_dtype

__all__ = ["TextColumns", "list_tables", "open_tables"]

_MIN_BLOCK = 2**20


def open_tables(path: Path, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open the table of a csv or tsv file."""
    return open_columns(TextColumns(path, options.dtype), stem(path), names, options)


def list_tables(path: Path) -> list[TableInfo]:
    """The table of a csv or tsv file."""
    return list_columns(TextColumns(path), stem(path))


class TextColumns:
    """Record batches of delimited text; every column of numbers is read as one floating type."""

    repeatable = True
    n_rows: int | None = None

    def __init__(self, path: Path, dtype: Any = None) -> None:
        self.path = path
        self._dtype = text_dtype(dtype, "float64")
        with reading(path, "delimited text"):
            lines, sample = _first_lines(path)
            self._delimiter = _delimiter(path, lines[0])
            self.format = "tsv" if self._delimiter == "\t" else "csv"
            self._quotes = '"' in sample and self.format == "csv"
            rows = [self._fields(line) for line in lines]
            if len(rows[0]) > MAX_DIM:
                raise FormatError(f"{str(path)!r} needs at most {MAX_DIM} columns; got {len(rows[0])}.")
            self._names = None if _is_header(*rows) else _numbered(rows[0])
            self._sample = rows[1] if self._names is None and len(rows) > 1 else rows[0]
            self._block = min(MAX_LINE, max(_MIN_BLOCK, 4 * max(len(line) for line in lines)))
            self.schema = self._schema()

    def _fields(self, line: str) -> list[str]:
        quoting = csv.QUOTE_MINIMAL if self._quotes else csv.QUOTE_NONE
        before = csv.field_size_limit(MAX_LINE)
        try:
            return next(csv.reader([line], delimiter=self._delimiter, quoting=quoting), [])
        finally:
            csv.field_size_limit(before)

    def _schema(self) -> Any:
        import pyarrow as pa

        number = pa.type_for_alias(self._dtype)
        with self._open({}, None) as reader:
            fields = [
                one.with_type(number) if pa.types.is_floating(one.type) or pa.types.is_null(one.type) else one
                for one in reader.schema
            ]
        if any(pa.types.is_floating(one.type) for one in fields) and len(fields) == len(self._sample):
            seen = zip(fields, self._sample, strict=True)
            fields = [one.with_type(number) if _may_be_dimension(one, value) else one for one, value in seen]
        return pa.schema(fields)

    @contextmanager
    def _open(self, types: dict[str, Any], columns: Sequence[str] | None) -> Iterator[Any]:
        import pyarrow.csv as pc

        quote = '"' if self._quotes else False
        with open_bytes(self.path) as stream:
            reader = pc.open_csv(
                stream,
                read_options=pc.ReadOptions(use_threads=False, block_size=self._block, column_names=self._names),
                parse_options=pc.ParseOptions(
                    delimiter=self._delimiter, quote_char=quote, newlines_in_values=self._quotes
                ),
                convert_options=pc.ConvertOptions(
                    column_types=types, include_columns=columns, null_values=[""], strings_can_be_null=False
                ),
            )
            with reader:
                yield reader

    def batches(self, columns: Sequence[str], block_rows: int) -> Iterator[Any]:
        types = {name: self.schema.field(name).type for name in columns}
        with self._open(types, list(columns)) as reader:
            for batch in reader:
                for start in range(0, batch.num_rows, block_rows):
                    yield batch.slice(start, block_rows)


def _may_be_dimension(field: Any, value: str) -> bool:
    """Whether a column among fractions is one of numbers: whole ones so far, or text that starts with a number.

    The latter names the row where the text is, once the column is read, and never drops a dimension unsaid.
    """
    import pyarrow as pa

    from fullspan.io.columns import BESIDE_NAMES

    is_numeric = pa.types.is_integer(field.type) or (pa.types.is_string(field.type) and _is_number(value))
    return is_numeric and field.name.lower() not in BESIDE_NAMES


def _numbered(fields: list[str]) -> list[str]:
    """Names of the columns of a file without a header: text in front of numbers is an id."""
    names = [f"f{place}" for place in range(len(fields))]
    if not _is_number(fields[0]) and all(map(_is_number, fields[1:])):
        names[0] = "id"
    return names


def _first_lines(path: Path) -> tuple[list[str], str]:
    """The first two lines that are not blank, and a sample of the text."""
    found: list[bytes] = []
    sample = b""
    with open_bytes(path) as stream:
        for lines in line_chunks(stream, path.name, 2**16):
            sample = sample or b"\n".join(lines)
            found += [line for line in lines if line.strip()]
            if len(found) > 1:
                break
    if not found:
        raise FormatError(f"{str(path)!r} needs a line of text; got blank lines only.")
    return [line.decode("utf-8-sig", "replace").rstrip("\r") for line in found[:2]], sample.decode("utf-8", "replace")


def _delimiter(path: Path, line: str) -> str:
    if ".tsv" in path.suffixes or ".tab" in path.suffixes:
        return "\t"
    return max((",", "\t", ";", "|"), key=lambda sign: (line.count(sign), sign == ","))


def _is_header(first: list[str], second: Sequence[str] = ()) -> bool:
    """Whether the first line names columns: fewer numbers in it than in the next, or the numbers 0, 1, 2, …"""
    numbers = [field for field in first if _is_number(field)]
    is_vector = any(field.startswith("[") for field in first)
    if len(numbers) < sum(map(_is_number, second)) or not (numbers or is_vector):
        return True
    if not second:
        return len(numbers) < len(first)
    counted = [str(place) for place in range(len(numbers))]
    return len(numbers) > 1 and numbers == counted and list(second[-len(numbers) :]) != counted


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
