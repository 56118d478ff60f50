"""Data sets of Hugging Face's ``save_to_disk``: shards of Arrow that ``state.json`` lists, one folder a split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fullspan._typing import Table
from fullspan.errors import FormatError, InputError, MissingFileError, UnknownNameError, did_you_mean
from fullspan.io.base import OpenOptions, TableInfo
from fullspan.io.checkpoint import quote
from fullspan.io.columnar import Shards, file_source
from fullspan.io.columns import Source, list_columns, open_columns
from fullspan.io.safetensors_ import read_json

__all__ = ["is_dataset_folder", "list_tables", "open_tables"]

MAX_STATE_BYTES = 2**24

_STATE, _SPLITS = "state.json", "dataset_dict.json"


def is_dataset_folder(path: Path) -> bool:
    """Whether a folder is a data set, or a dict of them by split, as ``save_to_disk`` leaves it."""
    return (path / _SPLITS).is_file() or ((path / _STATE).is_file() and any(path.glob("*.arrow")))


def list_tables(path: Path) -> list[TableInfo]:
    """The columns of vectors of a data set; those of several splits by split, or ``split/column``."""
    splits = _splits(path)
    return [
        replace(info, name=_label(split, info.name, splits), format="huggingface dataset")
        for split, folder in splits.items()
        for info in list_columns(_shards(folder), split or folder.name)
    ]


def open_tables(path: Path, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open the columns called `names` (``column``, ``split``, or ``split/column``), or every column of vectors."""
    splits = _splits(path)
    if names is None:
        return [table for split in splits for table in _open(splits, split, None, options)]
    return [table for name in names for table in _open(splits, *_parse(path, name, splits), options)]


def _parse(path: Path, name: str, splits: dict[str, Path]) -> tuple[str, list[str] | None]:
    """The split and the column that a name means."""
    if len(splits) == 1 and name not in splits and name.partition("/")[0] not in splits:
        return next(iter(splits)), [name]
    split, _, column = name.partition("/")
    if split not in splits:
        raise UnknownNameError(
            f"{quote(path)} has no split {split!r}.{did_you_mean(split, splits)} It has: {', '.join(splits)}. "
            "A table of it is called split/column."
        )
    return split, [column] if column else None


def _open(splits: dict[str, Path], split: str, names: list[str] | None, options: OpenOptions) -> list[Table]:
    folder = splits[split]
    tables = open_columns(_shards(folder), split or folder.name, names, options)
    for table in tables:
        _rename(table, _label(split, table.name, splits))
    return tables


def _rename(table: Any, name: str) -> None:
    table.name = name


def _label(split: str, name: str, splits: dict[str, Path]) -> str:
    return name if len(splits) == 1 or name == split else f"{split}/{name}"


def _splits(path: Path) -> dict[str, Path]:
    """The folders of the splits by name; a data set without splits is one of the empty name."""
    if not (path / _SPLITS).is_file():
        return {"": path}
    content = read_json(path / _SPLITS, MAX_STATE_BYTES)
    names = content.get("splits") if isinstance(content, dict) else None
    if not isinstance(names, list) or not names:
        raise FormatError(f"{quote(path / _SPLITS)} needs a list of splits; got none.")
    for name in names:
        _check_inside(path, name)
    return {name: path / name for name in names}


def _check_inside(path: Path, name: Any) -> None:
    if not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\\0"):
        raise FormatError(f"{quote(path)} needs parts that lie in it; got {name!r}. It was not opened.")


def _shards(folder: Path) -> Source:
    """The files that the state of a data set lists, in its order."""
    state = read_json(folder / _STATE, MAX_STATE_BYTES)
    if not isinstance(state, dict) or not isinstance(state.get("_data_files"), list) or not state["_data_files"]:
        raise FormatError(f"{quote(folder / _STATE)} needs a list of data files; got none.")
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise InputError(f"{quote(folder)} needs rows in stored order; got a selection. Save flatten_indices() of it.")
    sources: list[Any] = []
    for entry in state["_data_files"]:
        name = entry.get("filename") if isinstance(entry, dict) else None
        _check_inside(folder, name)
        if not (folder / str(name)).is_file():
            raise MissingFileError(f"{quote(folder)} needs its part {name!r}; it is missing.")
        sources.append(file_source(folder / str(name)))
    shards: Any = sources[0] if len(sources) == 1 else Shards(folder, sources)
    return shards
