"""Parquet and Arrow files, folders of them, and data frames: record batches without threads, views without copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from fullspan._typing import Table
from fullspan.errors import FormatError, InputError
from fullspan.io._bounds import one_line, reading
from fullspan.io.base import OpenOptions, TableInfo
from fullspan.io.columns import Source, list_columns, open_columns
from fullspan.io.streams import stem

__all__ = [
    "ArrowFile",
    "FrameSource",
    "ParquetFile",
    "Shards",
    "file_source",
    "list_tables",
    "open_frame",
    "open_tables",
]

#: Bytes and entries of a parquet footer.
_MAX_FOOTER_STRING, _MAX_FOOTER_ENTRIES = 2**26, 2**22


def open_tables(path: Path, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open the tables of a parquet or Arrow file, or of a folder whose files are the parts of one table."""
    return open_columns(_source(path), stem(path), names, options)


def list_tables(path: Path) -> list[TableInfo]:
    """The columns of vectors of a parquet or Arrow file or folder, or its columns of numbers as one table."""
    return list_columns(_source(path), stem(path))


def open_frame(frame: Any, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open a pandas, polars or pyarrow table; a pandas index that says more than 0, 1, 2, … becomes the ids."""
    with reading(type(frame).__name__, "columns that Arrow can hold"):
        source = FrameSource(_as_arrow(frame))
    return open_columns(source, "table", names, options)


def _source(path: Path) -> Source:
    if not path.is_dir():
        return file_source(path)
    files = sorted(
        file for pattern in ("**/*.parquet", "**/*.arrow") for file in path.glob(pattern) if not _is_hidden(file, path)
    )
    if not files:
        raise FormatError(f"{str(path)!r} needs parquet or Arrow files; got a folder without any.")
    return Shards(path, [file_source(file) for file in files])


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def file_source(path: Path) -> Source:
    """The source of a parquet or Arrow file, by its first bytes."""
    with path.open("rb") as stream:
        first = stream.read(4)
    return ParquetFile(path) if first in (b"PAR1", b"PARE") else ArrowFile(path)


class ParquetFile:
    """Record batches of a parquet file, decoded row group by row group."""

    format = "parquet"
    repeatable = True

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open() as file:
            self.schema = file.schema_arrow
            self.n_rows: int | None = file.metadata.num_rows

    @contextmanager
    def _open(self) -> Iterator[Any]:
        import pyarrow.parquet as pq

        with reading(self.path, "a parquet file"):
            file = pq.ParquetFile(
                self.path,
                memory_map=True,
                pre_buffer=False,
                thrift_string_size_limit=_MAX_FOOTER_STRING,
                thrift_container_size_limit=_MAX_FOOTER_ENTRIES,
            )
            with file:
                yield file

    def batches(self, columns: Sequence[str], block_rows: int) -> Iterator[Any]:
        with self._open() as file:
            for batch in file.iter_batches(block_rows, columns=list(columns), use_threads=False):
                batch.validate(full=True)
                yield batch


class ArrowFile:
    """Record batches of an Arrow file or stream (Feather, Hugging Face data sets), mapped where not compressed."""

    format = "arrow"
    repeatable = True

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as stream:
            self._is_file = stream.read(6) == b"ARROW1"
            if not self._is_file:
                _check_end(path, stream)
        with self._open([]) as reader:
            self.schema = reader.schema
            counts = self._is_file and hasattr(reader, "count_rows")
            self.n_rows: int | None = reader.count_rows() if counts else None

    @contextmanager
    def _open(self, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        places = [self.schema.get_field_index(name) for name in columns] if columns else []
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=places)
        with reading(self.path, "an Arrow file"), pa.memory_map(str(self.path)) as stream:
            opener = pa.ipc.open_file if self._is_file else pa.ipc.open_stream
            with opener(stream, options=options) as reader:
                yield reader

    def batches(self, columns: Sequence[str], block_rows: int) -> Iterator[Any]:
        with self._open(columns) as reader:
            for batch in self._each(reader):
                batch.validate(full=True)
                for start in range(0, batch.num_rows, block_rows):
                    yield batch.slice(start, block_rows)

    def _each(self, reader: Any) -> Iterator[Any]:
        if self._is_file:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)
        else:
            yield from reader


def _check_end(path: Path, stream: BinaryIO) -> None:
    """A stream says where it ends; one that does not was cut between two batches."""
    stream.seek(-min(8, path.stat().st_size), 2)
    if not stream.read(8).endswith(b"\0\0\0\0"):
        raise FormatError(
            f"{str(path)!r} needs the mark at the end of an Arrow stream; got the end of the file. Is it truncated or "
            "still being written?"
        )


class FrameSource:
    """Record batches of an Arrow table in memory."""

    format = "data frame"
    repeatable = True
    path = "the data frame"

    def __init__(self, table: Any) -> None:
        self._table = table
        self.schema = table.schema
        self.n_rows: int | None = table.num_rows

    def batches(self, columns: Sequence[str], block_rows: int) -> Iterator[Any]:
        yield from self._table.select(list(columns)).to_batches(max_chunksize=block_rows)


class Shards:
    """Files of one schema as one table, in the order given."""

    repeatable = True

    def __init__(self, path: Path, parts: Sequence[Source]) -> None:
        self.path, self._parts = path, parts
        self.schema, self.format = parts[0].schema, parts[0].format
        for part in parts[1:]:
            if not part.schema.equals(self.schema):
                raise FormatError(
                    f"A folder needs files of one schema to be one table; {Path(parts[0].path).name!r} and "
                    f"{Path(part.path).name!r} differ in {str(path)!r}."
                )

        counts = [part.n_rows for part in parts]
        self.n_rows: int | None = None if None in counts else sum(count for count in counts if count)

    def batches(self, columns: Sequence[str], block_rows: int) -> Iterator[Any]:
        for part in self._parts:
            yield from part.batches(columns, block_rows)


def _as_arrow(frame: Any) -> Any:
    import pyarrow as pa

    if type(frame).__module__.partition(".")[0] == "pandas":
        return _of_pandas(frame)
    if type(frame).__module__.partition(".")[0] == "datasets":
        return frame.with_format("arrow")[:]
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if isinstance(frame, (pa.Array, pa.ChunkedArray)):
        return pa.table({"vectors": frame})
    return frame if isinstance(frame, pa.Table) else pa.table(frame)


def _of_pandas(frame: Any) -> Any:
    import pyarrow as pa

    frame = (
        frame.to_frame("vectors") if frame.ndim == 1 else frame.set_axis([str(name) for name in frame.columns], axis=1)
    )
    if frame.columns.duplicated().any():
        raise InputError(
            f"A data frame needs columns with names of their own; got {one_line(list(frame.columns), 80)}."
        )
    index = frame.index
    table = pa.Table.from_pandas(frame, preserve_index=False)
    is_plain = type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
    if is_plain or "id" in table.column_names:
        return table
    return table.append_column("__index_level_0__", pa.array(index.astype(str) if index.nlevels > 1 else index))
