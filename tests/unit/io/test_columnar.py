"""Parquet, Arrow, folders of them and data frames: which columns are the vectors, and how they come out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

from fullspan.errors import FormatError, InputError, UnknownNameError
from fullspan.io.formats import list_tables, open_table, open_tables

N_ROWS, DIM = 29, 4
E = np.random.default_rng(0).normal(size=(N_ROWS, DIM)).astype("f4")
WORDS = [f"w{row}" for row in range(N_ROWS)]


def lists(kind: str, rows: Any = E) -> Any:
    values = pa.array(np.ravel(rows))
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(values, DIM)
    return pa.array(np.asarray(rows).tolist(), {"list": pa.list_, "large": pa.large_list}[kind](pa.float32()))


def write(path: Path, table: pa.Table) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=11)
    elif path.suffix == ".feather":
        pf.write_feather(table, path, chunksize=11)
    elif path.suffix == ".ipc":
        pf.write_feather(table, path, compression="uncompressed", chunksize=11)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=11)
    return path


def rows_of(table, block_rows=None):
    return np.concatenate([block.rows for block in table.blocks(block_rows)])


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".ipc", ".arrow"])
@pytest.mark.parametrize("kind", ["fixed", "list", "large"])
@pytest.mark.parametrize("block_rows", [1, 7, None])
def test_round_trip(tmp_path: Path, suffix: str, kind: str, block_rows: int | None) -> None:
    table = pa.table({"word": WORDS, "vector": lists(kind), "count": range(N_ROWS), "label": ["a"] * N_ROWS})
    opened = open_table(write(tmp_path / f"E{suffix}", table))
    blocks = list(opened.blocks(block_rows))
    assert (opened.dim, opened.dtype, opened.name) == (DIM, "float32", "E")
    assert opened.n_rows == (N_ROWS if suffix != ".arrow" else None)
    assert all(block_rows is None or len(block) <= block_rows for block in blocks)
    assert np.array_equal(rows_of(opened, block_rows), E)
    assert [name for block in blocks for name in block.ids] == WORDS  # type: ignore[union-attr]
    assert np.concatenate([block.frequencies for block in blocks]).tolist() == list(range(N_ROWS))  # type: ignore[arg-type]
    assert {label for block in blocks for label in block.labels} == {"a"}  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float64(), pa.int8(), pa.int64(), pa.uint16()])
def test_types_of_numbers(tmp_path: Path, kind: pa.DataType) -> None:
    values = pa.array(np.arange(12).astype(kind.to_pandas_dtype()))
    path = write(tmp_path / "E.parquet", pa.table({"v": pa.FixedSizeListArray.from_arrays(values, 3)}))
    opened = open_table(path)
    assert opened.dtype == np.dtype(kind.to_pandas_dtype()).name
    assert rows_of(opened).tolist() == np.arange(12).reshape(4, 3).tolist()
    assert rows_of(opened).dtype.kind == "f"


def test_fixed_size_lists_are_views(tmp_path: Path) -> None:
    table = pa.table({"v": lists("fixed")})
    [block] = open_table(table).blocks()
    assert block.rows.ctypes.data == table["v"].chunk(0).values.buffers()[1].address
    [block] = open_table(write(tmp_path / "E.ipc", table.slice(0, 11))).blocks()
    assert not block.rows.flags.owndata


WIDE = pa.table(
    {"id": range(N_ROWS), "score": np.ones(N_ROWS), **{f"emb_{place}": E[:, place] for place in (3, 2, 1, 0)}}
)


@pytest.mark.parametrize("column", ["emb_*", "emb_", "/^emb_[0-9]$/", "emb_[0-3]"])
def test_one_column_a_dimension(tmp_path: Path, column: str) -> None:
    opened = open_table(write(tmp_path / "E.parquet", WIDE), column=column)
    assert np.array_equal(rows_of(opened, 7), E)
    assert (opened.name, opened.dtype, opened.n_rows) == ("E", "float32", N_ROWS)
    assert next(opened.blocks(3)).ids.tolist() == [0, 1, 2]  # type: ignore[union-attr]


def test_all_columns_of_fractions_by_default() -> None:
    opened = open_table(WIDE.drop_columns(["score"]))
    assert np.array_equal(rows_of(opened), E)


def test_numbered_columns_are_put_in_order() -> None:
    table = pa.table({f"d{place}": [float(place)] for place in (0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9)})
    assert rows_of(open_table(table)).tolist() == [list(range(12))]


def test_several_columns_of_vectors() -> None:
    table = pa.table({"emb_user": lists("fixed"), "emb_item": lists("fixed"), "history": lists("list")})
    assert [one.name for one in open_tables(table)] == ["emb_user", "emb_item"]
    assert open_table(table, column="history").name == "history"
    assert open_table(table, table="history").name == "history"
    with pytest.raises(
        InputError, match=r"has 2 columns of vectors; got no choice among a, b. Choose one with column="
    ):
        open_table(table.rename_columns(["a", "b", "c"]).drop_columns(["c"]))


def test_listing(tmp_path: Path) -> None:
    [info] = list_tables(write(tmp_path / "E.parquet", pa.table({"vec": lists("list"), "id": WORDS})))
    assert (info.name, info.shape, info.dtype, info.embedding, info.format) == (
        "E",
        (29, 4),
        "float32",
        True,
        "parquet",
    )
    [info] = list_tables(write(tmp_path / "F.parquet", WIDE))
    assert (info.name, info.shape) == ("F", (29, 5))


def with_hole(kind: str, hole: Any) -> pa.Table:
    rows: list[Any] = E.tolist()
    rows[17] = hole
    types = {"list": pa.list_(pa.float32()), "fixed": pa.list_(pa.float32(), DIM)}
    return pa.table({"v": pa.array(rows, types[kind])})


@pytest.mark.parametrize("suffix", [".parquet", ".ipc"])
@pytest.mark.parametrize("kind", ["list", "fixed"])
@pytest.mark.parametrize("hole", [None, [1.0, None, 2.0, 3.0]])
@pytest.mark.parametrize("block_rows", [1, 7, None])
def test_nulls_are_refused_with_their_row(tmp_path: Path, suffix: str, kind: str, hole: Any, block_rows: int) -> None:
    opened = open_table(write(tmp_path / f"E{suffix}", with_hole(kind, hole)))
    with pytest.raises(InputError, match="Column 'v' needs a number in every place; got null in row 17"):
        rows_of(opened, block_rows)


def test_ragged_rows_are_refused_with_their_row(tmp_path: Path) -> None:
    opened = open_table(write(tmp_path / "E.parquet", with_hole("list", [1.0, 2.0])))
    with pytest.raises(InputError, match="row 0 has 4 numbers and row 17 2"):
        rows_of(opened, 7)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"column": "vectr"}, UnknownNameError, "no column of vectors named 'vectr'.*Did you mean \"vector\""),
        ({"column": "word"}, InputError, r"needs vectors as \[0.1, 0.2, …\]; got 'w0' in row 0"),
        ({"column": "count"}, InputError, "Column 'count' of .* needs vectors; got int64. For one column a dimension"),
        ({"column": "/(/"}, InputError, "needs a regular expression"),
        ({"column": "x*"}, UnknownNameError, "no columns of numbers that match it"),
        ({"ids": "wrd"}, UnknownNameError, "has no column 'wrd'. Did you mean \"word\""),
        ({"frequencies": "word"}, InputError, "frequencies need numbers; got string in column 'word'"),
        ({"frequencies": "bad"}, InputError, r"finite numbers from 0 on; got -1.0 in row 3"),
        ({"frequencies": np.ones(3)}, InputError, "has 29 rows and needs as many frequencies; got 3"),
        ({"dtype": "float32", "column": "packed"}, InputError, "needs a dtype that divides them"),
        ({"column": "packed"}, InputError, 'holds 7 bytes a row and needs their type, as dtype="float32"'),
        ({"column": "vector", "table": "count"}, InputError, "needs either column= or table="),
    ],
)
def test_wrong_options(options: dict[str, Any], error: type[Exception], message: str) -> None:
    table = pa.table(
        {
            "word": WORDS,
            "vector": lists("fixed"),
            "count": range(N_ROWS),
            "bad": [1.0] * 3 + [-1.0] + [1.0] * (N_ROWS - 4),
            "packed": pa.array([b"1234567"] * N_ROWS, pa.binary(7)),
        }
    )
    with pytest.raises(error, match=message):
        rows_of(open_table(table, **options), 7)


def test_nothing_that_could_be_a_vector() -> None:
    with pytest.raises(
        InputError, match=r"needs a column of vectors, or one column of numbers a dimension; got word \(string\)"
    ):
        open_table(pa.table({"word": WORDS}))
    with pytest.raises(InputError, match="at least one row and one dimension; got 0 rows"):
        open_table(pa.table({"v": pa.array([], pa.list_(pa.float32()))}))
    with pytest.raises(InputError, match="at least one row and one dimension; got 0 rows x 2"):
        open_table(pa.table({"v": pa.array([], pa.list_(pa.float32(), 2))}))
    with pytest.raises(FormatError, match="from 1 to 1048576 dimensions; got 0"):
        open_table(pa.table({"v": pa.array([[]], pa.list_(pa.float32()))}))


def test_packed_bytes_and_text(tmp_path: Path) -> None:
    packed = pa.table({"vec": pa.array([row.tobytes() for row in E], pa.binary(4 * DIM))})
    assert np.array_equal(rows_of(open_table(packed, dtype="float32"), 7), E)
    text = pa.table({"vec": [str(row.tolist()) for row in E]})
    assert np.array_equal(rows_of(open_table(text), 7).astype("f4"), E)


def test_ids_with_nulls_dictionaries_and_bytes() -> None:
    kinds: dict[str, Any] = {
        "nulls": pa.array([None, *WORDS[1:]]),
        "dictionary": pa.array(WORDS).dictionary_encode(),
        "bytes": pa.array([word.encode() for word in WORDS]),
    }
    for ids in kinds.values():
        [block] = open_table(pa.table({"key": ids, "v": lists("fixed")})).blocks()
        assert block.ids is not None
        assert block.ids[0] in ("null", "w0")
        assert block.ids[1:].tolist() == WORDS[1:]


def test_a_folder_of_parts(tmp_path: Path) -> None:
    table = pa.table({"word": WORDS, "v": lists("fixed")})
    (tmp_path / "day=1").mkdir()
    write(tmp_path / "day=1" / "a.parquet", table.slice(0, 12))
    write(tmp_path / "day=1" / "b.parquet", table.slice(12))
    opened = open_table(tmp_path)
    assert opened.n_rows == N_ROWS
    assert np.array_equal(rows_of(opened, 7), E)
    write(tmp_path / "day=1" / "c.parquet", pa.table({"w": lists("fixed")}))
    with pytest.raises(FormatError, match=r"files of one schema.*'a.parquet' and 'c.parquet' differ"):
        open_table(tmp_path)


def test_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    opened = open_table(pandas.DataFrame(E, index=WORDS))
    assert np.array_equal(rows_of(opened, 7), E)
    assert next(opened.blocks(2)).ids.tolist() == WORDS[:2]  # type: ignore[union-attr]
    opened = open_table(pandas.DataFrame({"v": list(E), "count": 1}))
    assert np.array_equal(rows_of(opened, 7), E)
    assert np.array_equal(rows_of(open_table(pandas.Series(list(E)))), E)
    with pytest.raises(InputError, match="columns with names of their own"):
        open_table(pandas.DataFrame(E, columns=list("aabc")))


def test_lazy_in_a_large_file(tmp_path: Path) -> None:
    wide = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(2**22, "f4")), 64)
    other = pa.FixedSizeListArray.from_arrays(pa.array(np.random.default_rng(0).normal(size=2**22)), 64)
    path = tmp_path / "E.parquet"
    pq.write_table(pa.table({"vec": wide, "other": other}), path, row_group_size=2**12)
    before = pa.total_allocated_bytes()
    blocks = open_table(path).blocks(64)
    next(blocks)
    assert pa.total_allocated_bytes() - before < 2**22
    blocks.close()  # type: ignore[attr-defined]


def test_a_stream_without_its_end_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "E.arrow", pa.table({"v": lists("fixed")}))
    path.write_bytes(path.read_bytes()[:-8].rstrip(b"\0"))
    with pytest.raises(FormatError, match="truncated|damaged"):
        rows_of(open_table(path))


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_truncated_files_are_refused(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"E{suffix}", pa.table({"v": lists("fixed")}))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FormatError, match="needs a.*(parquet|Arrow) file; got: .*truncated, damaged"):
        open_table(path)


def test_other_objects_with_columns() -> None:
    table = pa.table({"word": WORDS, "vec": lists("fixed")})
    for source in (table.to_batches()[0], table.to_reader(), table["vec"]):
        assert np.array_equal(rows_of(open_table(source), 7), E)
    tensors = pa.table({"vec": pa.FixedShapeTensorArray.from_numpy_ndarray(E)})
    assert np.array_equal(rows_of(open_table(tensors), 7), E)


def test_a_hugging_face_data_set_in_memory() -> None:
    datasets = pytest.importorskip("datasets")
    opened = open_table(datasets.Dataset.from_dict({"id": WORDS, "emb": E.tolist()}))
    assert np.array_equal(rows_of(opened, 7).astype("f4"), E)
    assert next(opened.blocks(2)).ids.tolist() == WORDS[:2]  # type: ignore[union-attr]
