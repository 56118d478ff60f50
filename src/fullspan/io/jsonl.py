"""JSON lines: an object with a column of vectors a line, or a bare array of numbers a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fullspan._typing import Table
from fullspan.errors import FormatError, InputError
from fullspan.io._bounds import one_line, reading
from fullspan.io.base import OpenOptions, TableInfo
from fullspan.io.columns import list_columns, open_columns
from fullspan.io.streams import line_chunks, open_bytes, stem

__all__ = ["JsonLines", "list_tables", "open_tables"]

#: Lines that decide which columns there are.
_SAMPLE = 64


def open_tables(path: Path, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open the table of a file of JSON lines."""
    return open_columns(JsonLines(path), stem(path), names, options)


def list_tables(path: Path) -> list[TableInfo]:
    """The table of a file of JSON lines."""
    return list_columns(JsonLines(path), stem(path))


class JsonLines:
    """Record batches of JSON lines; numbers are float64."""

    format = "jsonl"
    repeatable = True
    n_rows: int | None = None

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self.path = path
        with reading(path, "JSON lines"):
            columns: dict[str, Any] = {}
            for _row, record in zip(range(_SAMPLE), self._records(), strict=False):
                for name, value in record.items():
                    kind = _kind(value)
                    if kind is not None:
                        columns[name] = _common(columns.get(name, kind), kind)
            self.schema = pa.schema(list(columns.items()))

    def _records(self) -> Iterator[dict[str, Any]]:
        row = 0
        with open_bytes(self.path) as stream:
            for lines in line_chunks(stream, self.path.name):
                for line in lines:
                    if line.strip():
                        yield self._record(line, row)
                        row += 1

    def _record(self, line: bytes, row: int) -> dict[str, Any]:
        try:
            value = json.loads(line.removeprefix(b"\xef\xbb\xbf") if row == 0 else line)
        except (ValueError, RecursionError) as error:
            hint = " A file with one array of all rows is no JSON lines: jq -c '.[]' turns it into them."
            hint = hint if row == 0 and line.strip() in (b"[", b"{") else ""
            raise FormatError(
                f"{str(self.path)!r} needs one JSON value a line; got row {row}: {one_line(error, 80)}.{hint}"
            ) from None
        if isinstance(value, list):
            if value and isinstance(value[0], (list, dict)):
                raise FormatError(
                    f"{str(self.path)!r} needs one row a line; got nested rows in line {row}. "
                    "jq -c '.[]' turns them into lines."
                )
            return {"vector": value}
        if not isinstance(value, dict):
            raise FormatError(
                f"{str(self.path)!r} needs an object or an array a line; got {one_line(line[:40])} in row {row}."
            )
        return value

    def batches(self, columns: Sequence[str], block_rows: int) -> Iterator[Any]:
        held: list[dict[str, Any]] = []
        start = 0
        for record in self._records():
            held.append(record)
            if len(held) >= block_rows:
                yield self._batch(held, columns, start)
                start += len(held)
                held = []
        if held:
            yield self._batch(held, columns, start)

    def _batch(self, records: list[dict[str, Any]], columns: Sequence[str], start: int) -> Any:
        import pyarrow as pa

        arrays = [self._array([one.get(name) for one in records], name, start) for name in columns]
        return pa.record_batch(arrays, names=list(columns))

    def _array(self, values: list[Any], name: str, start: int) -> Any:
        import pyarrow as pa

        kind = self.schema.field(name).type
        try:
            return pa.array(values, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
            pass
        for row, value in enumerate(values):
            try:
                pa.array([value], kind)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
                raise InputError(
                    f"Column {name!r} of {str(self.path)!r} needs {kind} in every row; got "
                    f"{one_line(value, 60)} in row {start + row}."
                ) from None
        raise InputError(f"Column {name!r} of {str(self.path)!r} needs {kind} in every row; got other values.")


def _kind(value: Any) -> Any:
    """The Arrow type of a JSON value; None for null and for what is no column of a table."""
    import pyarrow as pa

    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, list):
        is_vector = value and all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in value)
        return pa.list_(pa.float64()) if is_vector else None
    return {int: pa.int64(), float: pa.float64(), str: pa.string()}.get(type(value))


def _common(one: Any, other: Any) -> Any:
    import pyarrow as pa

    return one if one == other else pa.float64() if {one, other} == {pa.int64(), pa.float64()} else other
