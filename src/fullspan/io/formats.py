"""The formats of tables, and how a source finds its own: in memory by type, on disk by magic bytes, then by suffix.

A new format is one file with `open_tables` and `list_tables`, and one row of :data:`FORMATS`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from fullspan._typing import Table
from fullspan.errors import FormatError, InputError
from fullspan.io import sniff
from fullspan.io._bounds import file_size, one_line, reading
from fullspan.io.base import OpenOptions, TableInfo
from fullspan.io.streams import COMPRESSED_SUFFIXES, head, local_path

__all__ = ["FORMATS", "Format", "TableInfo", "find_format", "list_tables", "open_table", "open_tables"]


@dataclass(frozen=True)
class Format:
    """One way to store tables.

    Parameters
    ----------
    name
        As messages and listings say it.
    suffixes
        Lower-case endings of a file's name, with the dot.
    module
        Where `open_tables` and `list_tables` are, imported when first used.
    sniff
        Function of the path and its first bytes (decompressed): whether the file is surely of this format.
    named
        Whether the bytes decide alone, so that a suffix without them is a lie. Text has no magic.
    folder
        Whether it is a folder.
    streams
        Whether a gzip or zstd file of this format is read as it is decompressed.
    beside
        Whether the module itself finds ids, labels and frequencies (columns, other arrays of the file).
    """

    name: str
    suffixes: tuple[str, ...]
    module: str
    sniff: Callable[[Path, bytes], bool] = sniff.never
    named: bool = True
    folder: bool = False
    streams: bool = False
    beside: bool = False

    def load(self) -> ModuleType:
        return importlib.import_module(f"fullspan.io.{self.module}")


FORMATS: tuple[Format, ...] = (
    Format("npy", (".npy",), "npy", sniff.npy, streams=True),
    Format("npz", (".npz",), "npz", sniff.npz, beside=True),
    Format("safetensors", (".safetensors", ".safetensors.index.json"), "safetensors_", sniff.safetensors),
    Format("torch", (".pt", ".pth", ".ckpt"), "torch_", sniff.torch),
    Format("keras", (".keras", ".h5", ".hdf5"), "keras_", sniff.keras),
    Format("gguf", (".gguf",), "gguf_", sniff.gguf),
    Format("faiss", (".faiss", ".index"), "faiss_", sniff.faiss),
    Format("parquet", (".parquet", ".pq"), "columnar", sniff.parquet, beside=True),
    Format("arrow", (".arrow", ".feather", ".ipc"), "columnar", sniff.arrow, beside=True),
    Format("word2vec binary", (), "word2vec", sniff.word2vec_binary, streams=True, beside=True),
    Format("word2vec text", (".vec", ".w2v"), "vectors", sniff.word2vec_text, streams=True, beside=True),
    Format("csv", (".csv",), "text", named=False, streams=True, beside=True),
    Format("tsv", (".tsv", ".tab"), "text", named=False, streams=True, beside=True),
    Format("jsonl", (".jsonl", ".ndjson", ".json"), "jsonl", named=False, streams=True, beside=True),
    Format("GloVe text", (".txt", ".glove"), "vectors", named=False, streams=True, beside=True),
    Format("raw", (".bin", ".dat", ".raw", ".f32", ".f16", ".f64", ".memmap", ".mmap"), "npy", named=False),
    Format("PyTorch distributed checkpoint", (), "dcp", sniff.dcp_folder, folder=True),
    Format("Hugging Face folder", (), "huggingface", sniff.huggingface_folder, folder=True, beside=True),
    Format("folder of parquet or Arrow files", (), "columnar", sniff.columnar_folder, folder=True, beside=True),
)
_BY_NAME = {format_.name: format_ for format_ in FORMATS}


def open_tables(
    source: Any,
    *,
    table: str | None = None,
    column: str | None = None,
    ids: Any = None,
    labels: Any = None,
    frequencies: Any = None,
    dtype: Any = None,
) -> list[Table]:
    """Open every embedding table of a source, without reading the rows.

    Parameters
    ----------
    source
        A path or fsspec URL of any known format; an array or tensor of shape ``(n_rows, dim)`` on any device; a torch
        module or a mapping of names to arrays; a pandas, polars or pyarrow table; nested lists; an iterator of 2-D
        blocks (read once); or any object with `blocks`.
    table
        Name of the one table to open. None opens all that look like embeddings, or else all 2-D ones.
    column
        Column of the vectors; or a glob (``"emb_*"``), ``/regex/`` or prefix over one column a dimension.
    ids, labels, frequencies
        What lies beside the rows: a column's name, a path to a file with one value a row (npy, csv, txt, or
        ``"words.parquet:word"``), or an
        array of shape ``(n_rows,)``; False leaves out what the file itself has. Of several tables, those of as many
        rows get them. Frequencies are counts or
        probabilities, finite and not negative.
    dtype
        Stored type where the format leaves it open: ``"float32x128"`` with the dim for a raw file; ``"float32"`` or
        ``"float64"`` for text; the meaning of integer codes in a checkpoint.

    Returns
    -------
    list of Table
        At least one.

    Raises
    ------
    MissingFileError
        Nothing is at the path.
    FormatError
        The file is truncated, lies about its contents, or is of no known format.
    InputError
        The source is of a type that holds no table, or an option does not fit it.
    UnknownNameError
        It has no table or column of that name.

    Notes
    -----
    Magic bytes win over the suffix. Cost: the header only, except that text and streams read a first block.

    Examples
    --------
    >>> import numpy as np
    >>> [table] = open_tables(np.eye(3))
    >>> table.n_rows, table.dim, table.dtype
    (3, 3, 'float64')
    """
    options = OpenOptions(column, ids, labels, frequencies, dtype)
    names = None if table is None else [table]
    if not isinstance(source, (str, bytes, os.PathLike)):
        from fullspan.io import arrays

        return arrays.open_tables(source, names, options)
    path = local_path(source)  # type: ignore[arg-type]  # str, bytes or PathLike, as checked above
    found = find_format(path, options)
    module = found.load()
    with reading(path, f"a file of format {found.name}"):
        tables = module.open_tables(path, names, options)
    if found.beside:
        return tables
    from fullspan.io.beside import attach, attach_to_fitting

    return [attach(tables[0], options)] if len(tables) == 1 else attach_to_fitting(tables, options)


def open_table(
    source: Any,
    *,
    table: str | None = None,
    column: str | None = None,
    ids: Any = None,
    labels: Any = None,
    frequencies: Any = None,
    dtype: Any = None,
) -> Table:
    """Open the one table of a source; where there are several, `table` says which.

    Takes, raises and costs what :func:`open_tables` does.

    Examples
    --------
    >>> import numpy as np
    >>> table = open_table({"user": np.ones((4, 2)), "item": np.ones((9, 2))}, table="item")
    >>> [block.rows.shape for block in table.blocks(4)]
    [(4, 2), (4, 2), (1, 2)]
    """
    tables = open_tables(
        source, table=table, column=column, ids=ids, labels=labels, frequencies=frequencies, dtype=dtype
    )
    if len(tables) != 1:
        names = ", ".join(repr(one.name) for one in tables[:8]) + (", …" if len(tables) > 8 else "")
        raise InputError(f"open_table needs one table; got {len(tables)}: {names}. Choose one with table=.")
    return tables[0]


def list_tables(source: Any) -> list[TableInfo]:
    """List the tables of a source: names, shapes, types, and a guess of which are embeddings.

    Parameters
    ----------
    source
        As for :func:`open_tables`.

    Returns
    -------
    list of TableInfo
        In stored order. Tensors that are not 2-D are left out.

    Raises
    ------
    MissingFileError, FormatError, InputError
        As :func:`open_tables`.

    Examples
    --------
    >>> import numpy as np
    >>> [(info.name, info.shape) for info in list_tables({"wte": np.ones((9, 2))})]
    [('wte', (9, 2))]
    """
    if not isinstance(source, (str, bytes, os.PathLike)):
        from fullspan.io import arrays

        return arrays.list_tables(source)
    path = local_path(source)  # type: ignore[arg-type]  # str, bytes or PathLike, as checked above
    found = find_format(path, OpenOptions())
    with reading(path, f"a file of format {found.name}"):
        return found.load().list_tables(path)


def find_format(path: Path, options: OpenOptions) -> Format:
    """The format of a file or folder: by its first bytes, else by its suffix."""
    if path.is_dir():
        return _folder(path)
    file_size(path)
    first, compressed = head(path)
    found = _of_bytes(path, first, options)
    if compressed and not found.streams:
        raise FormatError(
            f"A {found.name} file needs random access; got one compressed with {compressed}, {str(path)!r}. "
            f"Decompress it first: {'gunzip' if compressed == 'gzip' else 'unzstd'} -k {path.name}"
        )
    return found


def _folder(path: Path) -> Format:
    for format_ in FORMATS:
        if format_.folder and format_.sniff(path, b""):
            return format_
    known = ", ".join(format_.name for format_ in FORMATS if format_.folder)
    raise FormatError(f"fullspan needs a folder of a known kind ({known}); got {str(path)!r}, which is none of them.")


def _of_bytes(path: Path, first: bytes, options: OpenOptions) -> Format:
    for format_ in FORMATS:
        if not format_.folder and format_.sniff(path, first):
            return format_
    format_ = _by_suffix(path)
    if first.startswith(b"PK") and format_ is not None and format_.name in ("npz", "torch", "keras"):
        return format_
    sniff.refuse_known_others(path, first)
    if _says_raw(options.dtype):
        return _BY_NAME["raw"]
    if format_ is not None and format_.named and format_.name != "word2vec text":
        raise FormatError(
            f"{str(path)!r} needs the contents of a {format_.name} file, as its suffix says; got bytes that start with "
            f"{one_line(first[:8])}. Is it truncated, damaged, or a Git LFS pointer?"
        )
    if format_ is not None and format_.name == "raw":
        return format_
    return _text(path, first, format_)


def _says_raw(dtype: Any) -> bool:
    return isinstance(dtype, str) and "x" in dtype and dtype.rpartition("x")[2].isdigit()


def _by_suffix(path: Path) -> Format | None:
    name = path.name.lower()
    for suffix in COMPRESSED_SUFFIXES:
        name = name.removesuffix(suffix)
    return next((format_ for format_ in FORMATS if format_.suffixes and name.endswith(format_.suffixes)), None)


def _text(path: Path, first: bytes, format_: Format | None) -> Format:
    """A text format: by suffix where it says csv, tsv or jsonl, else by the first line."""
    if not sniff.is_text(first):
        if format_ is not None and not format_.named:
            raise FormatError(
                f"A {format_.name} file needs text in UTF-8; got other bytes in {str(path)!r}. "
                "Convert it (iconv -f latin1 -t utf-8), or is it of another kind?"
            )
        known = ", ".join(one.suffixes[0] for one in FORMATS if one.suffixes)
        raise FormatError(
            f"fullspan needs a file of a known format; got {str(path)!r}, which starts with {one_line(first[:8])}. "
            f'Known suffixes: {known}. A file of bare numbers needs dtype, as "float32x128".'
        )
    if format_ is not None and format_.name in ("csv", "tsv", "jsonl"):
        return format_
    return _BY_NAME[sniff.text_kind(first)]
