"""How a source finds its format, and how everything that is no table is refused: one line, no hang, little memory."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import socket
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fullspan.errors import FormatError, FullspanError, InputError, MissingFileError
from fullspan.io.base import OpenOptions, TableInfo
from fullspan.io.formats import FORMATS, find_format, list_tables, open_table, open_tables

E = np.random.default_rng(0).normal(size=(9, 4)).astype("f4")


def npy() -> bytes:
    with io.BytesIO() as buffer:
        np.save(buffer, E)
        return buffer.getvalue()


def rows_of(table: Any) -> Any:
    return np.concatenate([block.rows for block in table.blocks()])


def test_every_format_loads_and_keeps_the_agreement() -> None:
    for format_ in FORMATS:
        module = format_.load()
        assert callable(module.open_tables)
        assert callable(module.list_tables)


@pytest.mark.parametrize(
    "name", ["E.npy", "E", "E.csv", "E.parquet", "E.pt", "E.safetensors", "E.txt", "E.NPY", "ü ñ.npz"]
)
def test_magic_bytes_win_over_the_suffix(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(npy())
    assert np.array_equal(rows_of(open_table(tmp_path / name)), E)
    assert find_format(tmp_path / name, OpenOptions()).name == "npy"


@pytest.mark.parametrize(
    "suffix", [".npy", ".npz", ".parquet", ".feather", ".safetensors", ".pt", ".gguf", ".keras", ".faiss"]
)
def test_a_suffix_without_its_magic_bytes_is_a_lie(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"E{suffix}"
    path.write_bytes(b"certainly not")
    with pytest.raises(FormatError, match="as its suffix says; got bytes that start with b'certainl'"):
        open_table(path)


HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty.npy": (b"", "needs a table; got an empty file"),
    "E.bin": (b"\x80\x04\x95" + pickle.dumps(E)[3:], "got a pickle, .*which can run code"),
    "E.pkl": (pickle.dumps({"a": 1}), "got a pickle"),
    "lfs.npy": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "got a Git LFS pointer.*git lfs pull"),
    "m.bin": (b"\xba\x16\x4f\x2f" + bytes(40), "got a fastText model"),
    "old.feather": (b"FEA1" + bytes(40), "Feather file of version 1.*write_feather"),
    "E.db": (b"SQLite format 3\0" + bytes(90), "got a SQLite database"),
    "E.html": (b"<!DOCTYPE html><html>", "got an HTML page"),
    "E.xz": (b"\xfd7zXZ\0" + bytes(9), "got an xz file.*unxz"),
    "unknown": (bytes(range(256)), "needs a file of a known format; got .*Known suffixes: .npy"),
    "binary.csv": (b"a,b\n1,\0\x01\x02", "A csv file needs text in UTF-8"),
    "latin.csv": ("wörd,1,2\n".encode("latin-1") * 3, "A csv file needs text in UTF-8; got other bytes.*iconv"),
    "E.parquet.gz": (
        gzip.compress(b"PAR1" + bytes(99)),
        "needs random access; got one compressed with gzip.*gunzip -k",
    ),
    "broken.npy.gz": (gzip.compress(npy())[:30], "whole gzip stream|needs|truncated"),
    "nothing.csv.gz": (gzip.compress(b""), "got an empty stream"),
    "numbers.bin": (bytes(64), 'needs its type and dim, as dtype="float32x128"'),
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_what_is_no_table_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    data, message = HOSTILE[name]
    (tmp_path / name).write_bytes(data)
    for call in (open_table, list_tables):
        with pytest.raises(InputError, match=message) as caught:
            call(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_another_zip_file_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "E.zip", "w") as archive:
        archive.writestr("readme.txt", "no table")
    with pytest.raises(FormatError, match=r"needs an archive of arrays \(npz, torch, keras\); got another zip file"):
        open_table(tmp_path / "E.zip")


def test_a_missing_file(tmp_path: Path) -> None:
    for source in (tmp_path / "none.npy", str(tmp_path / "none.npy"), os.fsencode(tmp_path / "none.npy"), "none.npy"):
        with pytest.raises(MissingFileError, match="needs an existing file; got .*none.npy.*Check the path"):
            open_table(source)
    for source in ("", "a\0b"):
        with pytest.raises(InputError, match="needs the path of a file"):
            open_table(source)


def test_a_folder_of_no_known_kind(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("hello")
    with pytest.raises(FormatError, match="needs a folder of a known kind .*Hugging Face.*which is none of them"):
        open_table(tmp_path)


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(InputError, match="needs a regular file, which can be read twice; got a pipe"):
        open_table(tmp_path / "pipe.npy")
    with pytest.raises(InputError, match="got a device"):
        open_table("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        with pytest.raises(InputError, match="got a socket"):
            open_table(tmp_path / "socket")


def test_permission_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "E.npy"
    path.write_bytes(npy())
    monkeypatch.setattr(os, "access", lambda *_args: False)  # the superuser may read everything
    with pytest.raises(InputError, match="needs to read .*E.npy'; got permission denied. Check its owner"):
        open_table(path)


def test_a_name_that_the_file_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "items.npy"
    path.write_bytes(npy())
    assert open_table(path, table="items").name == "items"
    with pytest.raises(FullspanError, match="no table named 'item'. Did you mean \"items\""):
        open_table(path, table="item")


def test_listing_of_one_table(tmp_path: Path) -> None:
    (tmp_path / "items.npy").write_bytes(npy())
    assert list_tables(tmp_path / "items.npy") == [
        TableInfo("items", (9, 4), "float32", True, "the only array of the file", "npy")
    ]
    assert [info.shape for info in list_tables(E)] == [(9, 4)]
    assert len(open_tables(tmp_path / "items.npy")) == 1


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".txt", ".txt.gz"])
def test_ids_and_frequencies_from_a_file(tmp_path: Path, suffix: str) -> None:
    numbers = tmp_path / f"numbers{suffix}"
    text = "count\n" * (suffix == ".csv") + "\n".join(map(str, range(9))) + "\n"
    if suffix == ".npy":
        np.save(numbers, np.arange(9))
    else:
        numbers.write_bytes(gzip.compress(text.encode()) if suffix.endswith(".gz") else text.encode())
    words = tmp_path / "words.txt"
    words.write_text("id\n" + "\n".join("abcdefghi"))
    for source in (E, tmp_path / "E.npy"):
        (tmp_path / "E.npy").write_bytes(npy())
        [block] = open_table(source, frequencies=numbers, ids=str(words)).blocks()
        assert block.frequencies is not None
        assert block.frequencies.tolist() == list(range(9))
        assert block.ids is not None
        assert block.ids.tolist() == list("abcdefghi")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n2\n", "'table' has 9 rows and needs as many frequencies; got 2"),
        ("1\nx\n" * 5, "need one number a line; got 'x' in row 1 of"),
        ("1\n2\n-3\n" * 3, "finite numbers from 0 on; got -3.0 in row 2"),
        ("1\nnan\n3\n" * 3, "finite numbers from 0 on; got nan in row 1"),
    ],
)
def test_bad_frequencies_from_a_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "f.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        open_table(E, frequencies=tmp_path / "f.txt")


def test_beside_that_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(
        MissingFileError, match="ids need the path of a file with one value a row, or an array; got 'word'"
    ):
        open_table(E, ids="word")
    with pytest.raises(InputError, match="needs? a file with one value a row; got the folder"):
        open_table(E, ids=tmp_path)
    np.save(tmp_path / "two.npy", E)
    with pytest.raises(InputError, match=r"needs one value a row, shape \(n_rows,\); got shape \(9, 4\)"):
        open_table(E, frequencies=tmp_path / "two.npy")


def test_remote_files() -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe("/box/a table.npy", npy())
    table = open_table("memory://box/a table.npy")
    assert table.name == "a table"
    assert np.array_equal(rows_of(table), E)
    memory.pipe("/box/a table.npy", npy()[:-4])
    with pytest.raises(FormatError, match="truncated"):
        open_table("memory://box/a table.npy")
    with pytest.raises(MissingFileError, match="needs an existing file; got 'memory://box/none.npy'. Check the URL"):
        open_table("memory://box/none.npy")
    with pytest.raises(InputError, match="needs a URL that fsspec can open; got"):
        open_table("nonsense://box/none.npy")


def test_a_file_url(tmp_path: Path) -> None:
    (tmp_path / "E.npy").write_bytes(npy())
    assert open_table(f"file://{tmp_path}/E.npy").n_rows == 9


def test_frequencies_go_to_the_table_of_as_many_rows() -> None:
    tables = open_tables({"wte": np.ones((9, 2)), "wpe": np.ones((4, 2))}, frequencies=np.arange(9))
    assert [next(table.blocks()).frequencies is not None for table in tables] == [True, False]
    with pytest.raises(InputError, match=r"frequencies need as many values as a table has rows \(9, 4\); got 3"):
        open_tables({"wte": np.ones((9, 2)), "wpe": np.ones((4, 2))}, frequencies=np.arange(3))


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_the_report_names_the_arrays_that_were_left_out(tmp_path, kind):
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=(60, 4)).astype("f4") for name in ("user_embedding.weight", "fc.weight")}
    path = tmp_path / f"model.{kind}"
    if kind == "npz":
        np.savez(path, **arrays)
    else:
        pytest.importorskip("safetensors.numpy").save_file(arrays, path)
    (table,) = open_tables(path)
    assert "1 other 2-D array was left out" in table.note
    assert "fc.weight" in table.note
    assert all(each.note is None for name in arrays for each in open_tables(path, table=name))
