"""Parquet and Arrow files with one column replaced: segments that can be continued, then one file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fullspan._typing import Block
from fullspan.errors import InputError

__all__ = ["write_columns"]


def write_columns(work: Any, begun: dict[str, Any] | None) -> int:
    """Write each block as a segment in a hidden folder, then join them; a segment that stands is not written again."""
    import pyarrow as pa

    done, number = (work.resumed, int(begun["segments"])) if begun else (0, 0)
    work.part.mkdir(exist_ok=True)
    for extra in sorted(work.part.iterdir())[number:]:
        extra.unlink()
    found = _source(work)
    for block, batch in _pairs(work, found, done):
        made = _with_vectors(work, pa.Table.from_batches([batch]), work.mapped(block), found[1] if found else "vector")
        path = work.part / f"{number:08d}.arrow"
        with path.open("wb") as stream:
            with pa.ipc.new_file(stream, made.schema) as writer:
                writer.write_table(made)
            stream.flush()
            os.fsync(stream.fileno())
        number, done = number + 1, done + len(block)
        work.note_progress(rows=done, segments=number)
        work.told(done, work.table.n_rows)
    _join(work)
    return done


def _pairs(work: Any, found: tuple[Any, str] | None, row: int) -> Iterator[tuple[Block, Any]]:
    """Blocks of vectors beside the batch of all columns that they stand in."""
    import pyarrow as pa

    if found is None:
        for block in work.blocks_from(row):
            columns = {} if block.ids is None else {"id": pa.array(block.ids)}
            columns["vector"] = pa.nulls(len(block))
            yield block, pa.RecordBatch.from_pydict(columns)
        return
    from fullspan.io.cells import rows_of_lists

    source, name = found
    start = 0
    for batch in source.batches(source.schema.names, work.step):
        if start >= row and batch.num_rows:
            rows = rows_of_lists(
                batch.column(batch.schema.get_field_index(name)), name, work.folded.dim_in, None, start
            )
            yield Block(rows, start), batch
        start += batch.num_rows


def _source(work: Any) -> tuple[Any, str] | None:
    """The input and its column of vectors, where it is a parquet or Arrow file."""
    from fullspan.io.base import OpenOptions
    from fullspan.io.columnar import file_source
    from fullspan.io.columns import choose
    from fullspan.io.formats import find_format
    from fullspan.io.streams import stem

    if not isinstance(work.source, (str, os.PathLike)) or not Path(work.source).is_file():
        return None
    path = Path(work.source)
    if find_format(path, OpenOptions()).name not in ("parquet", "arrow"):
        return None
    source = file_source(path)
    names = None if work.names is None or work.column is not None else [work.names]
    [choice] = choose(source, stem(path), names, OpenOptions(column=work.column, ids=False))
    if choice.wide or not hasattr(source.schema.field(choice.vectors[0]).type, "value_type"):
        raise InputError(
            f"apply needs vectors in one column of lists to write {work.form}; got {work.table.name!r}, which has a "
            "column a dimension, or text. Write npy, safetensors or csv instead."
        )
    return source, choice.vectors[0]


def _with_vectors(work: Any, table: Any, rows: Any, name: str) -> Any:
    import pyarrow as pa

    place = table.column_names.index(name)
    old = table.schema.field(place)
    values = pa.array(np.ascontiguousarray(rows).reshape(-1))
    if pa.types.is_list(old.type) or pa.types.is_large_list(old.type):
        offsets = np.arange(0, rows.size + 1, rows.shape[1])
        kind = pa.ListArray if pa.types.is_list(old.type) else pa.LargeListArray
        width = np.int32 if kind is pa.ListArray else np.int64
        column = kind.from_arrays(pa.array(offsets.astype(width)), values)
    else:
        column = pa.FixedSizeListArray.from_arrays(values, rows.shape[1])
    made = table.set_column(place, pa.field(name, column.type, old.nullable, old.metadata), column)
    return made.replace_schema_metadata({**(table.schema.metadata or {}), b"fullspan": work.stamp.encode()})


def _join(work: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = sorted(work.part.iterdir())
    with pa.memory_map(str(paths[0])) as stream:
        schema = pa.ipc.open_file(stream).schema
    whole = work.target.with_name(f".{work.target.name}.whole")
    try:
        with whole.open("wb") as file:
            opener = pq.ParquetWriter(file, schema) if work.form == "parquet" else pa.ipc.new_file(file, schema)
            with opener as writer:
                for path in paths:
                    with pa.memory_map(str(path)) as stream:
                        writer.write_table(pa.ipc.open_file(stream).read_all())
            file.flush()
            os.fsync(file.fileno())
        whole.replace(work.target)
    finally:
        whole.unlink(missing_ok=True)
