"""Text tables: csv, tsv, JSON lines, word vectors; plain and compressed, with a header and without."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fullspan.errors import FormatError, InputError, UnknownNameError
from fullspan.io.formats import list_tables, open_table

N_ROWS, DIM = 19, 4
E = np.random.default_rng(0).normal(size=(N_ROWS, DIM)).astype("f4")
WORDS = ["the", '"', "naïve", "x,y", "3"] + [f"w{row}" for row in range(5, N_ROWS)]
NUMBERS = [[repr(float(value)) for value in row] for row in E]


def joined(sign: str, *, words: bool = True, end: str = "\n", tail: str = "") -> str:
    lines = [sign.join([word] * words + row) + tail for word, row in zip(WORDS, NUMBERS, strict=True)]
    return end.join(lines) + end


def quoted(sign: str) -> str:
    return "".join(
        sign.join(['"' + word.replace('"', '""') + '"', *row]) + "\n" for word, row in zip(WORDS, NUMBERS, strict=True)
    )


JSON_ROWS = [{"id": word, "vec": row.tolist(), "count": 2, "x": None} for word, row in zip(WORDS, E, strict=True)]
HEADER = ",".join(f"d{place}" for place in range(DIM))
CASES: dict[str, tuple[str, str, bool]] = {
    "GloVe": ("g.txt", joined(" "), True),
    "GloVe without an end": ("g.txt", joined(" ").rstrip("\n"), True),
    "GloVe of Windows": ("g.txt", joined(" ", end="\r\n"), True),
    "word2vec text": ("w.vec", f"{N_ROWS} {DIM}\n" + joined(" "), True),
    "fastText": ("w.txt", f"{N_ROWS} {DIM}\n" + joined(" ", tail=" "), True),
    "GloVe named vec": ("w.vec", joined(" "), True),
    "savetxt": ("s.txt", "\n".join(" ".join(f"{value:.18e}" for value in row) for row in E), False),
    "csv": ("c.csv", f"word,{HEADER}\n" + quoted(","), True),
    "csv of Windows": ("c.csv", f"word,{HEADER}\r\n" + quoted(",").replace("\n", "\r\n"), True),
    "csv with numbers as names": ("c.csv", ",0,1,2,3\n" + quoted(","), True),
    "csv with semicolons": ("c.csv", f"word;{HEADER.replace(',', ';')}\n" + quoted(";"), True),
    "csv with a byte order mark": ("c.csv", f"\ufeffword,{HEADER}\n" + quoted(","), True),
    "csv without a header": ("c.csv", joined(",", words=False), False),
    "csv named txt": ("c.txt", joined(",", words=False), False),
    "csv without a suffix": ("c", f"word,{HEADER}\n" + quoted(","), True),
    "tsv": ("t.tsv", "word\t" + HEADER.replace(",", "\t") + "\n" + joined("\t"), True),
    "tsv of words without a header": ("t.tsv", joined("\t"), True),
    "tsv without a header": ("t.tsv", joined("\t", words=False), False),
    "json lines": ("j.jsonl", "\n".join(map(json.dumps, JSON_ROWS)), True),
    "json lines of arrays": ("j.jsonl", "\n".join(json.dumps(row.tolist()) for row in E), False),
    "json lines without a suffix": ("j", "\n".join(map(json.dumps, JSON_ROWS)), True),
}


def rows_of(table: Any, block_rows: int | None = None) -> Any:
    return np.concatenate([block.rows for block in table.blocks(block_rows)])


def packed(path: Path, how: str) -> Path:
    if how == "gz":
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
    elif how == "zst":
        with pa.CompressedOutputStream(str(path) + ".zst", "zstd") as stream:
            stream.write(path.read_bytes())
    return path.with_name(f"{path.name}.{how}") if how else path


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("how", ["", "gz", "zst"])
def test_round_trip(tmp_path: Path, case: str, how: str) -> None:
    name, text, has_words = CASES[case]
    path = tmp_path / name
    path.write_bytes(text.encode())
    table = open_table(packed(path, how))
    assert table.dim == DIM
    assert table.n_rows in (None, N_ROWS)
    for block_rows in (1, 7, None):
        blocks = list(table.blocks(block_rows))
        assert [block.start for block in blocks] == np.cumsum([0, *map(len, blocks)])[:-1].tolist()
        assert np.array_equal(np.concatenate([block.rows for block in blocks]).astype("f4"), E)
    ids = [str(word) for block in table.blocks(5) for word in (block.ids if block.ids is not None else ())]
    assert ids == (WORDS if has_words else [])


def test_types_of_numbers_in_text(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text(joined(" "))
    (tmp_path / "c.csv").write_text(joined(",", words=False))
    assert open_table(tmp_path / "g.txt").dtype == "float32"
    assert next(open_table(tmp_path / "g.txt", dtype="float64").blocks()).rows.dtype == np.float64
    assert open_table(tmp_path / "c.csv").dtype == "float64"
    assert next(open_table(tmp_path / "c.csv", dtype="float32").blocks()).rows.dtype == np.float32
    with pytest.raises(InputError, match='need dtype="float32" or "float64"; got \'int8\''):
        open_table(tmp_path / "c.csv", dtype="int8")


def test_words_with_spaces(tmp_path: Path) -> None:
    words = [". . .", "at name@domain.com", "b"]
    (tmp_path / "g.txt").write_text(
        "\n".join(" ".join([word, *row]) for word, row in zip(words, NUMBERS, strict=False))
    )
    table = open_table(tmp_path / "g.txt")
    assert np.array_equal(rows_of(table), E[:3])
    assert next(table.blocks()).ids.tolist() == words  # type: ignore[union-attr]


def test_nan_and_infinity_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("a,b\n1,nan\ninf,-inf\n")
    (tmp_path / "g.txt").write_text("a 1 nan\nb inf -inf\n")
    for name in ("c.csv", "g.txt"):
        assert np.array_equal(rows_of(open_table(tmp_path / name)), [[1, np.nan], [np.inf, -np.inf]], equal_nan=True)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.csv", "a,b\n1,2\n1\n3,4\n", "Row #3: Expected 2 columns, got 1"),
        ("c.csv", "a,b\n1.5,2\n1,x\n", "Row #3: CSV conversion error to double: invalid value 'x'"),
        ("c.csv", "a,b\n1.5,2\n1,\n", "Column 'b' needs a number in every place; got null in row 1"),
        ("c.csv", "a,a\n1,2\n", "needs columns with names of their own; got 'a' twice"),
        ("c.csv", "\n\n\n", "needs a line of text; got blank lines only"),
        ("c.csv", "a,b\n", "needs a column of vectors|at least one row|needs at least one"),
        ("c.csv", 'w,vec\na,"[1, 2]"\nb,"[1, ..., 2]"\n', r"got '\[1, ..., 2\]' in row 1. Was it cut off"),
        ("c.csv", 'w,vec\na,"[1, 2]"\nb,"[1]"\n', "row 0 has 2 numbers and row 1 1"),
        ("t.tsv", "1\t2\n3\n", "Row #2: Expected 2 columns, got 1"),
        ("g.txt", "a 1 2\nb 1\n", "needs 2 numbers and a word a line; got 2 fields in row 1"),
        ("g.txt", "a 1 2\nb 1 2\nc 1\n", "needs 2 numbers and a word a line; got 2 fields in row 2"),
        ("g.txt", "a 1 2\nb 1 x\n", "needs 2 numbers a line; got '1 x' in row 1"),
        ("g.txt", "hello\nworld\n", "needs a column of vectors, or one column of numbers a dimension; got hello"),
        ("g.txt", "hello world\nand so on\n", "needs a word and from 1 to 1048576 numbers a line; got .*hello"),
        ("w.vec", "3 2\na 1 2\nb 1 2\n", "needs 3 rows; got 2. Is the file truncated"),
        ("w.vec", "1 2\na 1 2\nb 1 2\n", "needs 1 rows; got 2"),
        ("w.vec", "9000000 2\na 1 2\nb 1 2\n", "announces 9000000 rows of 2 numbers"),
        ("w.vec", "0 2\na 1 2\n", "at least one row"),
        ("j.jsonl", '{"v": [1, 2]}\n{"v": [1]}\n', "row 0 has 2 numbers and row 1 1"),
        ("j.jsonl", '{"v": [1, 2]}\n{"w": 1}\n', "got null in row 1"),
        ("j.jsonl", '{"v": [1, 2]}\n{"v": [1, "x"]}\n', "needs list<.*> in every row; got .*in row 1|null in row 1"),
        ("j.jsonl", '{"v": [1, 2]}\n{"v": \n', "needs one JSON value a line; got row 1"),
        ("j.jsonl", "[\n[1, 2],\n[3, 4]\n]", "jq -c"),
        ("j.jsonl", "[[1, 2], [3, 4]]", "needs one row a line; got nested rows in line 0"),
        ("j.jsonl", "3\n4\n", "needs an object or an array a line; got"),
        ("j.jsonl", "[" * 100_000, "needs one JSON value a line; got row 0"),
    ],
)
def test_broken_text_is_refused_with_its_row(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        rows_of(open_table(tmp_path / name), 7)


def test_a_late_ragged_row_is_named(tmp_path: Path) -> None:
    lines = [json.dumps([1.0, 2.0])] * 500 + ["[1.0]"]
    (tmp_path / "j.jsonl").write_text("\n".join(lines))
    with pytest.raises(InputError, match="row 500 1"):
        rows_of(open_table(tmp_path / "j.jsonl"), 64)
    (tmp_path / "g.txt").write_text("a 1 2\n" * 500 + "a 1\n")
    with pytest.raises(InputError, match="in row 500"):
        rows_of(open_table(tmp_path / "g.txt"), 64)


def test_huge_dims_are_refused(tmp_path: Path) -> None:
    (tmp_path / "w.vec").write_text("1 2000000\na " + "1 " * 2_000_000)
    with pytest.raises(FormatError, match="1048576 dimensions"):
        open_table(tmp_path / "w.vec")
    (tmp_path / "c.csv").write_text("1," * 1_100_000 + "1\n")
    with pytest.raises(FormatError, match="at most 1048576 columns"):
        open_table(tmp_path / "c.csv")
    (tmp_path / "g.txt").write_bytes(b"a" * 2**25)
    with pytest.raises(FormatError, match="lines of at most 26214400 bytes"):
        open_table(tmp_path / "g.txt")


def test_columns_of_text_are_chosen_as_those_of_parquet(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("item_id,emb_0,emb_1,price,freq\n7,1,2.5,9,3\n8,3,4.5,9,4\n")
    table = open_table(tmp_path / "c.csv", column="emb_*")
    [block] = table.blocks()
    assert block.rows.tolist() == [[1, 2.5], [3, 4.5]]
    assert block.ids is not None
    assert block.ids.tolist() == [7, 8]
    assert block.frequencies is not None
    assert block.frequencies.tolist() == [3, 4]
    [block] = open_table(tmp_path / "c.csv", column="emb_*", labels="price", ids=False, frequencies="price").blocks()
    assert block.ids is None
    assert block.labels is not None
    assert block.labels.tolist() == ["9", "9"] or block.labels.tolist() == [9, 9]
    with pytest.raises(UnknownNameError, match='Did you mean "emb_0"'):
        open_table(tmp_path / "c.csv", column="embb_0")


def test_listing(tmp_path: Path) -> None:
    for case, shape in {
        "word2vec text": (N_ROWS, DIM),
        "GloVe": (None, DIM),
        "csv": (None, DIM),
        "tsv": (None, DIM),
    }.items():
        name, text, _ = CASES[case]
        (tmp_path / name).write_text(text)
        [info] = list_tables(tmp_path / name)
        assert info.shape == shape
        assert info.format == {"GloVe": "GloVe text"}.get(case, case)


def word2vec(n_rows: int = N_ROWS, dim: int = DIM, tail: bytes = b"\n") -> bytes:
    rows = (word.encode() + b" " + row.tobytes() + tail for word, row in zip(WORDS, E, strict=True))
    return f"{n_rows} {dim}\n".encode() + b"".join(rows)


@pytest.mark.parametrize("tail", [b"\n", b""])
@pytest.mark.parametrize("name", ["w.bin", "w.bin.gz", "w"])
@pytest.mark.parametrize("block_rows", [1, 7, None])
def test_word2vec_binary_round_trip(tmp_path: Path, tail: bytes, name: str, block_rows: int | None) -> None:
    data = word2vec(tail=tail)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    table = open_table(tmp_path / name)
    assert (table.n_rows, table.dim, table.dtype) == (N_ROWS, DIM, "float32")
    assert np.array_equal(rows_of(table, block_rows), E)
    assert [word for block in table.blocks(block_rows) for word in block.ids] == WORDS  # type: ignore[union-attr]
    [info] = list_tables(tmp_path / name)
    assert info.format == "word2vec binary"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (word2vec(n_rows=10**9), "needs at least 17000000000 bytes for 1000000000 rows"),
        (word2vec(n_rows=0), "needs at least one row"),
        (word2vec(dim=2**21), "1 to 1048576 dimensions"),
        (word2vec(n_rows=N_ROWS - 1), "more rows than it announces"),
        (word2vec()[:-30], "needs at least|end of the file in row"),
        (b"2 3\n" + b"\x00w" * 9000, "needs words of at most 4096 bytes; got a longer one in row 0"),
    ],
)
def test_a_lying_word2vec_file_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "w.bin").write_bytes(data)
    with pytest.raises(FormatError, match=message):
        rows_of(open_table(tmp_path / "w.bin"))
