"""Tables in memory: arrays, tensors on any device, models, state dicts, data frames, lists, iterators of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from fullspan._backend import (
    embedding_tables,
    is_torch_module,
    is_torch_tensor,
    loaded,
    looks_like_embedding,
    tensor_dtype,
    tensor_to_numpy,
)
from fullspan._typing import Array, Block, Table
from fullspan.errors import InputError, UnknownNameError, did_you_mean
from fullspan.io._bounds import checked_shape, chosen_names, note_left_out, one_line
from fullspan.io.base import NARROW_FLOATS, ArrayTable, OpenOptions, StreamTable, TableInfo, float_rows, stored_dtype
from fullspan.io.beside import KINDS, attach, attach_to_fitting

__all__ = ["TensorRows", "list_tables", "open_tables"]

_KINDS = (
    "a path, an array, a torch tensor or module, a mapping of names to arrays, a data frame, nested lists, or an "
    "iterator of 2-D blocks"
)


class TensorRows:
    """The rows of a torch tensor on any device; each slice comes to the host when it is asked for."""

    def __init__(self, tensor: Any, name: str = "tensor") -> None:
        _check_tensor(tensor, name)
        self.tensor = tensor.detach()
        self.shape = tuple(tensor.shape)

    def __getitem__(self, rows: slice) -> Array:
        return tensor_to_numpy(self.tensor[rows])


def _check_tensor(tensor: Any, name: str) -> None:
    if tensor.device.type == "meta":
        raise InputError(
            f"{name!r} needs numbers; got a tensor on the meta device, which has none. Load the weights first."
        )
    if str(tensor.layout) != "torch.strided":
        raise InputError(f"{name!r} needs a dense tensor; got layout {tensor.layout}. Pass tensor.to_dense().")
    if type(tensor).__name__ == "DTensor":
        raise InputError(f"{name!r} needs a tensor whole on one process; got a DTensor. Pass tensor.full_tensor().")
    if tensor.is_complex():
        raise InputError(f"{name!r} needs real numbers; got dtype {tensor_dtype(tensor)}.")


def open_tables(source: Any, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open the tables of an object in memory."""
    if _is_frame(source):
        from fullspan.io.columnar import open_frame

        return open_frame(source, names, options)
    tables = _tables(source, names)
    return [attach(tables[0], options)] if len(tables) == 1 else attach_to_fitting(tables, options)


def list_tables(source: Any) -> list[TableInfo]:
    """The tables of an object in memory."""
    if is_torch_module(source):
        return [
            TableInfo(
                one.name, tuple(one.weight.shape), tensor_dtype(one.weight), True, one.why, "torch module", one.also
            )
            for one in embedding_tables(source).values()
        ]
    if isinstance(source, Mapping):
        return [_info(name, value) for name, value in _flat(source).items() if len(_shape(value)) == 2]
    tables = open_tables(source, None, OpenOptions())
    return [
        TableInfo(one.name, (one.n_rows, one.dim), one.dtype, True, "a table in memory", "memory") for one in tables
    ]


def _info(name: str, value: Any) -> TableInfo:
    dtype = tensor_dtype(value) if is_torch_tensor(value) else stored_dtype(np.dtype(value.dtype))
    return TableInfo(name, _shape(value), dtype, *looks_like_embedding(name, _shape(value)), "mapping")


def _is_frame(source: Any) -> bool:
    """Whether it is a table with columns: pandas, polars, pyarrow, a Hugging Face data set."""
    if hasattr(source, "__arrow_c_stream__"):
        return True
    package = type(source).__module__.partition(".")[0]
    if package == "datasets":
        return hasattr(source, "with_format") and isinstance(getattr(source, "column_names", None), list)
    return package in ("pandas", "polars", "pyarrow") and hasattr(source, "columns")


def _tables(source: Any, names: Sequence[str] | None) -> list[Table]:
    if is_torch_module(source):
        return _of_module(source, names)
    if isinstance(source, Mapping):
        return list(_of_mapping(source, names))
    table = _one(source)
    chosen_names("the source", [table.name], names, ())
    return [table]


def _one(source: Any) -> Table:
    if callable(getattr(source, "blocks", None)) and hasattr(source, "dim"):
        return source
    if is_torch_tensor(source) or _is_array(source):
        return _of_array("table", source)
    if isinstance(source, (list, tuple)):
        return _of_lists(source)
    if isinstance(source, Iterator):
        return _of_blocks(source)
    raise InputError(f"A table needs {_KINDS}; got {_type_name(source)}.")


def _type_name(source: Any) -> str:
    kind = type(source)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _is_array(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return True
    return hasattr(value, "__array__") and hasattr(value, "shape") and hasattr(value, "dtype")


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape)


def _of_array(name: str, value: Any) -> ArrayTable:
    checked_shape(_shape(value), name)
    if is_torch_tensor(value):
        dtype = tensor_dtype(value)
        itemsize = 8 if dtype in ("float64", "int32", "int64") else 4
        return ArrayTable(name, TensorRows(value, name), dtype=dtype, decode=float_rows, itemsize=itemsize)
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InputError(f"{name!r} needs a number in every place; got masked values. Fill them, or drop those rows.")
    rows = value if isinstance(value, np.ndarray) else np.asarray(value)
    float_rows(rows[:1], repr(name))
    return ArrayTable(name, rows.view(np.ndarray) if isinstance(rows, np.ma.MaskedArray) else rows)


def _of_lists(source: Sequence[Any]) -> Table:
    """Nested lists of numbers, or a list of blocks, which reads as an iterator that can start anew."""
    if source and _is_block(source[0]):
        return _of_blocks(source)
    if not source:
        raise InputError("A table needs at least one row and one dimension; got an empty list.")
    for row, values in enumerate(source):
        if not isinstance(values, (list, tuple)) and not (_is_array(values) and len(_shape(values)) == 1):
            raise InputError(f"A table needs rows of numbers; got {_type_name(values)} in row {row}.")
        if len(values) != len(source[0]):
            raise InputError(
                f"A table needs rows of one length; row 0 has {len(source[0])} and row {row} {len(values)}."
            )
    try:
        rows = np.array([np.asarray(values) for values in source])
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"A table needs rows of real numbers; got: {one_line(error, 100)}.") from None
    return _of_array("table", rows)


def _is_block(part: Any) -> bool:
    return isinstance(part, Block) or ((is_torch_tensor(part) or _is_array(part)) and len(_shape(part)) == 2)


def _of_blocks(source: Iterable[Any]) -> StreamTable:
    """Blocks of rows from an iterator, read once, or from a list of them."""
    repeatable = not isinstance(source, Iterator)
    iterator = iter(source)
    first = next(iterator, None)
    if first is None:
        raise InputError("A table needs at least one row and one dimension; got an iterator without blocks.")
    block = _as_block(first, 0, 0)
    dtype = _widest([_dtype(part) for part in source if _is_block(part)]) if repeatable else _dtype(first)
    kind, dim = _decoded(dtype), block.dim

    def read(block_rows: int) -> Iterator[Block]:
        start = 0
        for number, part in enumerate(source if repeatable else chain([first], iterator)):
            block = _as_block(part, number, start)
            if block.dim != dim:
                raise InputError(f"A table needs blocks of one dim; block 0 has {dim} and block {number} {block.dim}.")
            start += len(block)
            if len(block):
                yield _cast(block, _dtype(part), dtype, kind, number)

    return StreamTable("table", dim, None, dtype, read, repeatable=repeatable, itemsize=max(4, kind.itemsize))


def _cast(block: Block, found: str, dtype: str, kind: np.dtype[Any], number: int) -> Block:
    """The block in the type of the table, where that holds its numbers as they are."""
    if found == dtype:
        return block
    if not _fits(found, dtype):
        raise InputError(
            f"A table needs blocks that fit the type of the first; block 0 is {dtype} and block {number} {found}. "
            "Convert them to one type, or pass a list of blocks, whose widest type is taken."
        )
    return replace(block, rows=block.rows.astype(kind, copy=False))


def _decoded(dtype: str) -> np.dtype[Any]:
    """The type that rows of a stored type are read as."""
    return np.dtype(np.float32) if dtype.startswith(NARROW_FLOATS) else float_rows(np.empty((0, 1), dtype)).dtype


def _fits(dtype: str, into: str) -> bool:
    """Whether every number of one stored type is one of the other."""
    if dtype == into or into.startswith(NARROW_FLOATS):
        return dtype == into
    return np.can_cast(np.dtype(np.float32) if dtype.startswith(NARROW_FLOATS) else np.dtype(dtype), np.dtype(into))


def _widest(dtypes: Sequence[str]) -> str:
    """The first of the types that holds the numbers of all others, or a wider one that does."""
    names = list(dict.fromkeys(dtypes))
    found = next((name for name in names if all(_fits(other, name) for other in names)), None)
    return found or np.result_type(*map(_decoded, names)).name


def _dtype(part: Any) -> str:
    if isinstance(part, (list, tuple)):
        return "float64"  # whole numbers in one block of them say nothing about the next
    part = part.rows if isinstance(part, Block) else part
    return tensor_dtype(part) if is_torch_tensor(part) else stored_dtype(np.asarray(part).dtype)


def _as_block(part: Any, number: int, start: int) -> Block:
    if isinstance(part, Block):
        beside = {what: getattr(part, what) for what in KINDS}
        return Block(float_rows(part.rows), start, positions=part.positions, **beside)
    if is_torch_tensor(part):
        _check_tensor(part, "table")
        part = tensor_to_numpy(part)
    elif not _is_array(part) and not isinstance(part, (list, tuple)):
        raise InputError(f"A table needs {_KINDS}; got an iterator whose block {number} is {_type_name(part)}.")
    try:
        rows = np.asarray(part)
    except ValueError as error:
        raise InputError(f"A table needs blocks of real numbers; block {number}: {one_line(error, 100)}.") from None
    if rows.ndim != 2:
        raise InputError(
            f"A table needs 2-D blocks of rows; got shape {rows.shape} in block {number}. "
            "Are these single rows? Stack them: numpy.stack."
        )
    return Block(float_rows(rows), start)


def _of_module(module: Any, names: Sequence[str] | None) -> list[Table]:
    found = embedding_tables(module)
    known = {key: one for one in found.values() for key in (one.name, *one.also)}
    for name in names or ():
        if name not in known:
            parameters = dict(module.named_parameters(remove_duplicate=False))
            if name not in parameters:
                raise UnknownNameError(
                    f"The module has no table named {name!r}.{did_you_mean(name, parameters)} "
                    f"Its embeddings: {one_line(', '.join(found) or 'none')}."
                )
            known[name] = parameters[name]
    if not found and names is None:
        raise InputError(
            f"A module needs an embedding layer to measure; got {_type_name(module)} without one. "
            "Name a weight with table=, or pass the tensor."
        )
    chosen = list(found) if names is None else names
    return [_of_array(name, getattr(known[name], "weight", known[name])) for name in chosen]


def _of_mapping(source: Mapping[Any, Any], names: Sequence[str] | None) -> list[ArrayTable]:
    flat = _flat(source)
    wide = [name for name, value in flat.items() if len(_shape(value)) == 2 and 0 not in _shape(value)]
    if not wide and names is None:
        raise InputError(f"A mapping needs a 2-D array of numbers; got {len(flat)} arrays, none of them 2-D.")
    likely = [name for name in wide if looks_like_embedding(name, _shape(flat[name]))[0]]
    plain = not any("." in name for name in wide)  # no state dict: whoever named these arrays wants them
    default = wide if plain else _untied(likely or wide, flat)
    chosen = chosen_names("the mapping", list(flat), names, default)
    tables = [_of_array(name, flat[name]) for name in chosen]
    if names is None:
        note_left_out(tables, [name for name in wide if name not in chosen], " or tied to one")
    return tables


def _untied(names: Sequence[str], flat: Mapping[str, Any]) -> list[str]:
    """The names without those whose weights are those of an earlier one."""
    seen: set[Any] = set()
    kept = []
    for name in names:
        value = flat[name]
        pointer = value.data_ptr() if is_torch_tensor(value) and value.device.type != "meta" else None
        key = (pointer, _shape(value)) if pointer else id(value)
        if key not in seen:
            kept.append(name)
        seen.add(key)
    return kept


def _flat(source: Mapping[Any, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """The arrays of nested mappings, by dotted names."""
    found: dict[str, Any] = {}
    if depth > 32:
        return found
    for key, value in source.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{name}.", depth + 1))
        elif (is_torch_tensor(value) or _is_array(value)) and _is_real(value):
            found[name] = value
    return found


def _is_real(value: Any) -> bool:
    if is_torch_tensor(value):
        torch = loaded("torch")
        return torch is not None and not value.is_complex()
    kind = np.dtype(value.dtype)
    return kind.kind in "fiub" or kind.name.startswith(("bfloat16", "float8_"))
