"""The tables that are watched: where their weights are found each time, and which rows of them are read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from fullspan._backend import (
    embedding_tables,
    is_torch_module,
    is_torch_tensor,
    loaded,
    tensor_dtype,
    tensor_to_numpy,
)
from fullspan._typing import Array
from fullspan.errors import InputError
from fullspan.monitor.sample import checked_frequencies, map_rows, sample_rows

__all__ = ["Watched", "dtype_of", "fetched", "problem_of", "take_rows", "watched_tables"]

#: Wrappers of torch whose names would stand before those of all tables.
_WRAPPERS = {"DistributedDataParallel": "module", "DataParallel": "module", "OptimizedModule": "_orig_mod"}


class Watched:
    """One table that is watched.

    Parameters
    ----------
    name, also
        What it is called, and further names of the same weights.
    get
        Gives the weights as they are now.
    calls
        Whether `get` is the user's: it may be a collective that every process has to enter.
    sample, seed
        Size and seed of the sample of rows.
    frequencies, labels
        One value a row, or None.
    """

    def __init__(self, name: str, get: Callable[[], Any], *, calls: bool = False, also: tuple[str, ...] = ()) -> None:
        self.name, self.also, self.get, self.calls = name, also, get, calls
        self.size, self.seed = 10_000, 0
        self.frequencies: Any = None
        self.labels: Any = None
        self.problem: str | None = None
        self.previous_map: Array | None = None
        self._rows: dict[tuple[str, int], Array] = {}

    def rows(self, n_rows: int) -> Array:
        """Positions of the rows that pulses read; redrawn when the table grows."""
        return self._drawn("sample", n_rows, sample_rows)

    def map_rows(self, n_rows: int) -> Array:
        """Positions of the rows that snapshots hold."""
        if self.frequencies is None:
            return self.rows(n_rows)
        return self._drawn("map", n_rows, map_rows)

    def _drawn(self, kind: str, n_rows: int, draw: Callable[..., Array]) -> Array:
        key = (kind, n_rows)
        if key not in self._rows:
            self._rows = {each: rows for each, rows in self._rows.items() if each[1] == n_rows}
            self._rows[key] = draw(n_rows, self.size, self.frequencies, self.seed)
        return self._rows[key]

    def beside(self, what: str, rows: Any = slice(None)) -> Array | None:
        """The frequencies or the labels of some rows."""
        values = getattr(self, what)
        return None if values is None else values[rows]


def watched_tables(
    tables: Any, *, sample: int, seed: int, frequencies: Any = None, labels: Any = None
) -> list[Watched]:
    """The tables that a call of `watch` names, each storage once.

    Parameters
    ----------
    tables
        A torch module, a mapping of names to parameters, modules, arrays or callables, or one of these.
    sample, seed
        Size and seed of the sample of rows.
    frequencies, labels
        One value a row: an array for a single table, or a mapping of table names to arrays.

    Raises
    ------
    InputError
        If there is no table, or something that is none.
    """
    found = _of_module(tables) if is_torch_module(tables) else _of_mapping(_as_mapping(tables))
    if not isinstance(sample, int) or isinstance(sample, bool) or sample < 2:
        raise InputError(f"watch needs a sample of 2 rows or more; got {sample!r}.")
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"watch needs a seed, a whole number of 0 or more; got {seed!r}.")
    for watched in found:
        watched.size, watched.seed = sample, seed
    _put_beside(found, "frequencies", frequencies)
    _put_beside(found, "labels", labels)
    return found


def _as_mapping(tables: Any) -> Mapping[str, Any]:
    return tables if isinstance(tables, Mapping) else {"table": tables}


def _of_module(module: Any) -> list[Watched]:
    while type(module).__name__ in _WRAPPERS:
        module = getattr(module, _WRAPPERS[type(module).__name__])
    with _resting(module):
        tables = embedding_tables(module)
    if not tables:
        raise InputError(
            f"watch needs a model with an embedding layer; got {type(module).__name__} without one. "
            'Name the weights: fs.watch({"items": model.items}, ...).'
        )
    return [Watched(one.name, functools.partial(_weight, module, one.name), also=one.also) for one in tables.values()]


def _weight(module: Any, name: str) -> Any:
    """The tensor of that name as it is now: a parameter may have been replaced since."""
    path, _, last = name.rpartition(".")
    layer = functools.reduce(getattr, path.split("."), module) if path else module
    with _resting(layer):
        return getattr(layer, last)


@contextmanager
def _resting(module: Any) -> Iterator[None]:
    """Keep parametrizations from learning when a weight is read: spectral norm does so in training mode."""
    if loaded("torch.nn.utils.parametrize") is None:
        yield
        return
    parts = [each for layer in module.modules() for each in _parts(layer) if each.training]
    for each in parts:
        each.training = False
    try:
        yield
    finally:
        for each in parts:
            each.training = True


def _parts(layer: Any) -> Iterator[Any]:
    parametrizations: Any = getattr(layer, "parametrizations", None)
    return iter(parametrizations.modules() if is_torch_module(parametrizations) else ())


def _of_mapping(tables: Mapping[str, Any]) -> list[Watched]:
    found: dict[Any, Watched] = {}
    for name, value in tables.items():
        if not isinstance(name, str) or not name:
            raise InputError(f"watch needs names of tables that are text; got {name!r}.")
        get, calls = _getter(name, value)
        key = id(value) if calls else _storage(get())
        if key in found:
            found[key].also = (*found[key].also, name)
        else:
            found[key] = Watched(name, get, calls=calls)
    if not found:
        raise InputError("watch needs at least one table; got an empty mapping.")
    return list(found.values())


def _getter(name: str, value: Any) -> tuple[Callable[[], Any], bool]:
    if is_torch_module(value):
        if not is_torch_tensor(getattr(value, "weight", None)):
            raise InputError(
                f"watch needs a layer with a weight for table {name!r}; got {type(value).__name__}. "
                "Pass a model by itself: fs.watch(model, ...)."
            )
        return functools.partial(_weight, value, "weight"), False
    if is_torch_tensor(value) or _is_array(value):
        return lambda: value, False
    if callable(value):
        return value, True
    raise InputError(
        f"watch needs a parameter, an array or a callable that gives one for table {name!r}; "
        f"got {type(value).__name__}."
    )


def _is_array(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("shape", "dtype", "__getitem__"))


def _storage(value: Any) -> Any:
    if is_torch_tensor(value) and value.device.type != "meta" and value.layout == _strided() and value.numel():
        return value.data_ptr(), tuple(value.shape), value.stride()
    return id(value)


def _strided() -> Any:
    torch = loaded("torch")
    return getattr(torch, "strided", None)


def _put_beside(tables: list[Watched], what: str, values: Any) -> None:
    if values is None:
        return
    if not isinstance(values, Mapping):
        if len(tables) != 1:
            raise InputError(
                f"watch needs {what} by table where there are {len(tables)} tables: "
                f'{what}={{"{tables[0].name}": ...}}; got {type(values).__name__}.'
            )
        values = {tables[0].name: values}
    names = {name: watched for watched in tables for name in (watched.name, *watched.also)}
    for name, each in values.items():
        if name not in names:
            raise InputError(
                f"watch needs {what} of a table that is watched; got {name!r}. There are: {', '.join(names)}."
            )
        beside = tensor_to_numpy(each) if is_torch_tensor(each) else np.asarray(each)
        _refuse_others(names[name], what, beside)
        setattr(names[name], what, beside)


def _refuse_others(watched: Watched, what: str, values: Array) -> None:
    """Refuse values that are not one a row; of a callable, which may be a collective, the shape is not known yet."""
    shape = () if watched.calls else tuple(getattr(fetched(watched), "shape", ()))
    n_rows = int(shape[0]) if len(shape) == 2 and shape[0] else None
    if values.ndim != 1 or (n_rows is not None and len(values) != n_rows):
        many = "one a row" if n_rows is None else f"one a row, {n_rows:,} in all"
        raise InputError(f"watch needs {what} of {watched.name!r}, {many}; got shape {values.shape}.")
    if what == "frequencies":
        checked_frequencies(values, len(values))


def fetched(watched: Watched) -> Any:
    """The weights as they are now; what a callable computes has no graph."""
    torch = loaded("torch")
    with torch.no_grad() if torch is not None else nullcontext():
        return watched.get()


def problem_of(value: Any) -> str | None:
    """Why a value is not a table that can be read on this process, or None: empty shards are no collapse."""
    if value is None:
        return "it is None. Does the callable return the weights?"
    if type(value).__name__ == "DTensor":
        return "it is a DTensor, split over processes. Watch a callable: lambda: weight.full_tensor()."
    if hasattr(value, "ds_id") and _count(value) == 0:
        return (
            "it has no rows on this process: DeepSpeed ZeRO-3 keeps its shards elsewhere. Watch a callable that "
            "gathers it: deepspeed.zero.GatheredParameters."
        )
    if is_torch_tensor(value) and value.device.type == "meta":
        return "it is on the meta device, which holds no numbers. Load the weights first."
    if callable(getattr(value, "blocks", None)):
        return None
    shape = tuple(getattr(value, "shape", ()))
    if _count(value) == 0:
        return (
            f"it is empty here, of shape {shape}: FSDP and other sharding leave such pieces. Watch a callable that "
            "gathers it."
        )
    if len(shape) != 2:
        return (
            f"a table needs 2 dimensions; got shape {shape}. FSDP flattens weights: watch a callable that gathers "
            "them, or wrap with use_orig_params=True."
        )
    if _odd_type(value):
        return f"it holds {value.dtype}, and a table needs real numbers."
    if is_torch_tensor(value) and value.layout != _strided():
        return f"it is of layout {value.layout}. Watch a callable: lambda: weight.to_dense()."
    return None


def _odd_type(value: Any) -> bool:
    """Whether a value holds complex numbers, text or objects."""
    if is_torch_tensor(value):
        return bool(value.is_complex())
    return getattr(getattr(value, "dtype", None), "kind", "f") in "cSUOMm"


def _count(value: Any) -> int:
    return int(np.prod([int(each) for each in getattr(value, "shape", ())])) if hasattr(value, "shape") else 1


def take_rows(value: Any, rows: Array) -> Array:
    """A copy of some rows on the host, in a type that NumPy has; picked on the device where the table is."""
    if is_torch_tensor(value):
        if value.is_quantized:
            value = value.dequantize()
        picked = value.index_select(0, loaded("torch").from_numpy(rows).to(value.device))  # type: ignore[union-attr]
        return tensor_to_numpy(picked)
    if callable(getattr(value, "blocks", None)):
        return _from_blocks(value, rows)
    return np.array(_indexed(value, rows))


def _indexed(value: Any, rows: Array) -> Any:
    try:
        return value[rows]
    except (TypeError, ValueError, IndexError):  # arrays that take no lists of positions
        return np.asarray(value)[rows]


def _from_blocks(table: Any, rows: Array) -> Array:
    parts = []
    start = 0
    for block in table.blocks():
        low, high = np.searchsorted(rows, (start, start + len(block)))
        parts.append(np.asarray(block.rows)[rows[low:high] - start])
        start += len(block)
    return np.concatenate(parts)


def dtype_of(value: Any) -> str:
    """Name of the type that the weights are stored in."""
    return tensor_dtype(value) if is_torch_tensor(value) else str(value.dtype)
