"""Arrow arrays as rows, names and frequencies: views without copies where the layout allows; nulls are refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError
from fullspan.io._bounds import one_line
from fullspan.io.base import float_rows
from fullspan.io.beside import checked_frequencies

__all__ = [
    "as_numpy",
    "frequencies_of",
    "is_float",
    "is_number",
    "is_packed",
    "is_text",
    "is_vector",
    "names_of",
    "number_name",
    "numbers_of_text",
    "packed_type",
    "plain",
    "rows_of_columns",
    "rows_of_lists",
]

#: Arrow's names of types that NumPy calls otherwise.
_NUMPY_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}


def plain(kind: Any) -> Any:
    """The stored type under an extension type, such as a tensor of fixed shape."""
    return kind.storage_type if hasattr(kind, "storage_type") else kind


def is_vector(kind: Any) -> bool:
    import pyarrow as pa

    kind = plain(kind)
    types = pa.types
    is_list = types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind)
    views = (
        getattr(types, "is_list_view", lambda one: False)(kind),
        getattr(types, "is_large_list_view", lambda one: False)(kind),
    )
    return (is_list or any(views)) and is_number(kind.value_type)


def is_float(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def is_number(kind: Any) -> bool:
    import pyarrow as pa

    return is_float(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def is_text(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def is_packed(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind)


def number_name(kind: Any) -> str:
    import pyarrow as pa

    return "float64" if pa.types.is_decimal(kind) else np.dtype(_NUMPY_NAMES.get(str(kind), str(kind))).name


def packed_type(name: str, width: int, dtype: Any) -> tuple[int, str]:
    if dtype is None:
        raise InputError(
            f'Column {name!r} holds {width} bytes a row and needs their type, as dtype="float32"; got none.'
        )
    kind = np.dtype(dtype)
    if width % kind.itemsize or kind.kind not in "fiu":
        raise InputError(f"Column {name!r} of {width} bytes a row needs a dtype that divides them; got {dtype!r}.")
    return width // kind.itemsize, kind.name


def as_numpy(column: Any) -> Array:
    """The numbers of an Arrow array without nulls, a view; pyarrow's own conversion would import pandas."""
    import pyarrow as pa

    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if pa.types.is_boolean(column.type):
        return as_numpy(column.cast(pa.uint8())).view(bool)
    kind = np.dtype(number_name(column.type))
    if not len(column):
        return np.empty(0, kind)
    return np.frombuffer(column.buffers()[1], kind, len(column), column.offset * kind.itemsize)


def rows_of_columns(columns: list[tuple[str, Any]], start: int) -> Array:
    import pyarrow as pa

    parts = []
    for name, column in columns:
        _refuse_null(column, name, start, 1)
        column = column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column
        parts.append(as_numpy(column))
    kind = (
        np.result_type(*{part.dtype for part in parts}) if len({part.dtype for part in parts}) > 1 else parts[0].dtype
    )
    rows = np.empty((len(parts[0]), len(parts)), kind)
    for place, part in enumerate(parts):
        rows[:, place] = part
    return float_rows(rows)


def rows_of_lists(column: Any, name: str, dim: int, dtype: Any, start: int) -> Array:
    import pyarrow as pa

    column = column.storage if hasattr(column, "storage") else column
    _refuse_null(column, name, start, 1)
    if is_text(column.type):
        return _rows_of_text(column, name, dim, start)
    if is_packed(column.type):
        kind = np.dtype(dtype)
        size = column.type.byte_width
        raw = column.buffers()[1]
        packed = np.frombuffer(raw, np.uint8, len(column) * size, column.offset * size)
        return float_rows(packed.view(kind).reshape(len(column), dim))
    if pa.types.is_fixed_size_list(column.type):
        values = column.values.slice(column.offset * dim, len(column) * dim)
    else:
        values = _values_of_ragged(column, name, dim, start)
    _refuse_null(values, name, start, dim)
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    return float_rows(as_numpy(values).reshape(len(column), dim))


def _values_of_ragged(column: Any, name: str, dim: int, start: int) -> Any:
    import pyarrow as pa

    if "view" in str(column.type):
        column = column.cast(pa.large_list(column.type.value_type))
    offsets = as_numpy(column.offsets)
    lengths = np.diff(offsets)
    if (lengths != dim).any():
        row = int(np.argmax(lengths != dim))
        raise InputError(
            f"Column {name!r} needs vectors of one length; row 0 has {dim} numbers and row {start + row} "
            f"{lengths[row]}."
        )
    return column.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _refuse_null(column: Any, name: str, start: int, per_row: int) -> None:
    if column.null_count:
        place = int(np.argmax(as_numpy(column.is_null())))
        raise InputError(
            f"Column {name!r} needs a number in every place; got null in row {start + place // per_row}. "
            "Drop or fill those rows."
        )


def _rows_of_text(column: Any, name: str, dim: int, start: int) -> Array:
    rows = np.empty((len(column), dim))
    for place, text in enumerate(column.to_pylist()):
        numbers = numbers_of_text(text, name, start + place)
        if len(numbers) != dim:
            raise InputError(
                f"Column {name!r} needs vectors of one length; row 0 has {dim} numbers and row {start + place} "
                f"{len(numbers)}."
            )
        rows[place] = numbers
    return rows


def numbers_of_text(text: str, name: str, row: int) -> list[float]:
    """The numbers of a vector written as JSON (``[0.1, 0.2]``) or as NumPy prints it, without an ellipsis."""
    try:
        if "," in text:
            return [float(number) for number in json.loads(text)]
        return [float(number) for number in text.strip().removeprefix("[").removesuffix("]").split()]
    except (ValueError, TypeError, RecursionError):
        raise InputError(
            f"Column {name!r} needs vectors as [0.1, 0.2, …]; got {one_line(text, 40)!r} in row {row}. "
            "Was it cut off when it was written?"
        ) from None


def names_of(column: Any) -> Array:
    """Ids or labels: integers as they are, with None for a missing one; all else as text, a missing one as "null"."""
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        return np.array(column.to_pylist(), dtype=object) if column.null_count else as_numpy(column)
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        values = column.to_pylist()
        return np.array(["null" if value is None else str(value, "utf-8", "replace") for value in values], object)
    text = column.cast(pa.string()) if not is_text(column.type) else column
    return np.array((text.fill_null("null") if text.null_count else text).to_pylist(), dtype=object)


def frequencies_of(column: Any, name: str, start: int) -> Array:
    if not is_number(column.type):
        raise InputError(f"frequencies need numbers; got {column.type} in column {name!r}.")
    _refuse_null(column, name, start, 1)
    return checked_frequencies(as_numpy(column), start)
