"""NumPy files and raw arrays of numbers, memory-mapped; the header is checked against the size of the file first."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from fullspan._typing import Array, Block, Table
from fullspan.errors import FormatError, InputError
from fullspan.io._bounds import MAX_HEADER, checked_shape, checked_size, chosen_names, one_line, read_exactly, reading
from fullspan.io.base import NARROW_FLOATS, ArrayTable, OpenOptions, StreamTable, TableInfo, float_rows, stored_dtype
from fullspan.io.quantized import PACKED_BITS, STORAGE, BitRows, widen
from fullspan.io.streams import compression, open_bytes, stem

__all__ = ["Header", "list_tables", "open_memmap", "open_tables", "read_header", "stream_table"]

#: Bytes of a compressed array in Fortran order, which is only whole when all of it was read.
_MAX_WHOLE = 2**30
#: Types that NumPy does not know, and so forgets the name of when it saves them.
_NAMELESS = frozenset(name for name in STORAGE if name.startswith(NARROW_FLOATS))
_RAW = re.compile(r"(?P<kind>[<>=]?[a-z]+\d*)x(?P<dim>\d{1,9})")


class Header(NamedTuple):
    """What the header of an npy file says, and how many bytes it takes."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    size: int

    @property
    def data_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def open_tables(path: Path, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open the one table of an npy or raw file, called by the stem of the file."""
    chosen_names(path, [stem(path)], names, ())
    with path.open("rb") as stream:
        first = stream.read(6)
    if first == b"\x93NUMPY":
        return [_mapped(path, options.dtype)]
    if compression(first) is not None:
        return [_compressed(path)]
    return [ArrayTable(stem(path), _raw(path, options.dtype))]


def _mapped(path: Path, said: Any) -> ArrayTable:
    """An npy file; what its header cannot say, packed bits or a narrow type of float, the caller says."""
    if said in PACKED_BITS:
        rows = open_memmap(path)
        if rows.dtype.name != PACKED_BITS[said][0]:
            raise InputError(f'dtype="{said}" needs codes of {PACKED_BITS[said][0]}; {path.name!r} has {rows.dtype}.')
        return ArrayTable(stem(path), BitRows(rows, said), dtype=said)
    if said in _NAMELESS:
        return ArrayTable(stem(path), open_memmap(path, codes=STORAGE[said]), dtype=said, decode=widen(said))
    return ArrayTable(stem(path), open_memmap(path))


def list_tables(path: Path) -> list[TableInfo]:
    """The one table of an npy or raw file."""
    [table] = open_tables(path, None, OpenOptions())
    return [TableInfo(table.name, (table.n_rows, table.dim), table.dtype, True, "the only array of the file", "npy")]


def open_memmap(path: Path, ndim: int = 2, codes: np.dtype[Any] | None = None) -> Array:
    """Map an npy file whose header and size agree, its entries as `codes` where given; only the header is read."""
    with path.open("rb") as stream, reading(path, "an npy file"):
        header = read_header(stream, path.name, codes)
    if ndim == 2:
        checked_shape(header.shape, path.name)
    elif len(header.shape) != ndim:
        raise InputError(f"{path.name!r} needs one value a row, shape (n_rows,); got shape {header.shape}.")
    checked_size(path.name, header.data_bytes, path.stat().st_size - header.size, header.shape)
    order = "F" if header.fortran else "C"
    return np.memmap(path, header.dtype, "r", offset=header.size, shape=header.shape, order=order)


def read_header(stream: BinaryIO, name: str, codes: np.dtype[Any] | None = None) -> Header:
    """Read and check the header of an npy stream; numbers only, no pickles, at most 64 KiB.

    With `codes`, entries of that many bytes are taken for such codes, whatever the header calls them.
    """
    major = _version(read_exactly(stream, 8, name), name)
    prefix = read_exactly(stream, 2 if major == 1 else 4, name)
    length = int.from_bytes(prefix, "little")
    if length > MAX_HEADER:
        raise FormatError(f"{name!r} needs a header of at most {MAX_HEADER} bytes; got {length}. Is the file damaged?")
    text = read_exactly(stream, length, name).replace(b"'<f1'", b"'|V1'")  # float8_e5m2, which NumPy cannot read back
    shape, fortran, kind = _parse(prefix + text, major, name)
    if codes is not None and not kind.hasobject and kind.kind in "Vu" and kind.itemsize == codes.itemsize:
        kind = codes
    _check_kind(kind, name)
    return Header(shape, fortran, kind, 8 + len(prefix) + length)


def _version(magic: bytes, name: str) -> int:
    if magic[:6] != b"\x93NUMPY":
        raise FormatError(f"{name!r} needs to start as an npy file does; got {one_line(magic[:6])}.")
    major, minor = magic[6], magic[7]
    if (major, minor) not in ((1, 0), (2, 0), (3, 0)):
        raise FormatError(f"{name!r} needs npy version 1.0, 2.0 or 3.0; got {major}.{minor}. Is the file damaged?")
    return major


def _parse(header: bytes, major: int, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    import io

    parse = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shape, fortran, kind = parse(io.BytesIO(header), max_header_size=MAX_HEADER)
    if not all(type(size) is int and size >= 0 for size in shape):
        raise FormatError(f"{name!r} needs a shape of whole numbers; got {one_line(shape, 80)}. Is the file damaged?")
    return shape, fortran, kind


def _check_kind(kind: np.dtype[Any], name: str) -> None:
    if kind.hasobject:
        raise FormatError(
            f"{name!r} needs numbers; got Python objects, whose pickle can run code. "
            "Save it again as numpy.save(path, numpy.array(rows.tolist(), dtype='float32'))."
        )
    if kind.kind == "V" and kind.fields is None and kind.itemsize <= 2:
        raise InputError(
            f"{name!r} needs a type with a name; got {kind.itemsize} bytes an entry, as numpy.save leaves bfloat16 and "
            f'fp8. Say which one: dtype="{"bfloat16" if kind.itemsize == 2 else "float8_e4m3fn"}".'
        )
    if kind.kind not in "fiubUS" or kind.subdtype is not None or kind.itemsize == 0:
        raise InputError(f"{name!r} needs real numbers; got dtype {one_line(kind, 60)}.")


def _compressed(path: Path) -> StreamTable:
    return stream_table(stem(path), lambda: open_bytes(path), path, None)


def stream_table(
    name: str, open_stream: Callable[[], BinaryIO], source: Any, n_bytes: int | None, beside: Any = None
) -> StreamTable:
    """A table over an npy stream that is read from its start: compressed, or inside an archive.

    `n_bytes` is the size that the archive announces for the stream, header included, where it does.
    """
    with reading(source, "an npy stream"), open_stream() as stream:
        header = read_header(stream, name)
    n_rows, dim = checked_shape(header.shape, name)
    if n_bytes is not None:
        checked_size(name, header.data_bytes, n_bytes - header.size, header.shape)
    if header.fortran and header.data_bytes > _MAX_WHOLE:
        raise InputError(
            f"{name!r} is compressed and in Fortran order, which needs it whole in memory, at most {_MAX_WHOLE} bytes; "
            f"got {header.data_bytes}. Decompress it first, or save numpy.ascontiguousarray(E)."
        )

    def read(block_rows: int) -> Iterator[Block]:
        with reading(source, "an npy stream"), open_stream() as stream:
            read_header(stream, name)
            rows = _whole(stream, header, name) if header.fortran else _rows(stream, header, block_rows, name)
            for start, block in rows:
                stop = start + len(block)
                yield Block(float_rows(block), start, **{k: v[start:stop] for k, v in (beside or {}).items()})
            if stream.read(1):
                raise FormatError(f"{name!r} needs {n_rows} rows; got more. Is its header damaged?")

    itemsize = 8 if header.dtype.itemsize > 4 else 4
    return StreamTable(name, dim, n_rows, stored_dtype(header.dtype), read, itemsize=itemsize)


def _rows(stream: BinaryIO, header: Header, block_rows: int, name: str) -> Iterator[tuple[int, Array]]:
    n_rows, dim = header.shape
    for start in range(0, n_rows, block_rows):
        count = min(block_rows, n_rows - start)
        raw = read_exactly(stream, count * dim * header.dtype.itemsize, name)
        yield start, np.frombuffer(raw, header.dtype).reshape(count, dim)


def _whole(stream: BinaryIO, header: Header, name: str) -> Iterator[tuple[int, Array]]:
    raw = read_exactly(stream, header.data_bytes, name)
    yield 0, np.frombuffer(raw, header.dtype).reshape(header.shape, order="F")


def _raw(path: Path, dtype: Any) -> Array:
    """Map a file of bare numbers, row after row, whose type and dim the caller says."""
    match = _RAW.fullmatch(dtype) if isinstance(dtype, str) else None
    if match is None:
        raise InputError(
            f'A file of bare numbers needs its type and dim, as dtype="float32x128"; got dtype={dtype!r} '
            f"for {str(path)!r}."
        )
    kind, dim = _number_type(match["kind"]), int(match["dim"])
    size = path.stat().st_size
    row_bytes = kind.itemsize * dim
    if dim == 0 or size % row_bytes:
        raise FormatError(
            f"{str(path)!r} needs a whole number of rows of {dim} x {kind.name} ({row_bytes} bytes); got {size} bytes. "
            "Is the dim or the type another one?"
        )
    checked_shape((size // row_bytes, dim), path.name)
    return np.memmap(path, kind, "r", shape=(size // row_bytes, dim))


def _number_type(text: str) -> np.dtype[Any]:
    try:
        kind = np.dtype(text)
    except TypeError:
        kind = np.dtype(object)
    if kind.kind not in "fiub":
        raise InputError(f'dtype needs a type of real numbers, as "float32x128"; got {text!r}.')
    return kind
