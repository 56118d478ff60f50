"""NumPy files, archives, raw arrays: what was written comes back; what lies is refused before it costs memory."""

from __future__ import annotations

import gzip
import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fullspan.errors import FormatError, InputError, UnknownNameError
from fullspan.io.formats import list_tables, open_table, open_tables

E = np.random.default_rng(0).normal(size=(23, 5))


def rows_of(table, block_rows=None):
    blocks = list(table.blocks(block_rows))
    assert [block.start for block in blocks] == np.cumsum([0, *map(len, blocks)])[:-1].tolist()
    assert all(block_rows is None or len(block) <= block_rows for block in blocks)
    return np.concatenate([block.rows for block in blocks])


def header(text: str, version: bytes = b"\x01\x00") -> bytes:
    body = text.encode("latin-1")
    size = len(body).to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + version + size + body


@pytest.mark.parametrize("kind", ["<f4", ">f4", "<f8", ">f8", "<f2", "<i2", "|u1", "<i8", "|b1"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("block_rows", [1, 7, None])
def test_npy_round_trip(tmp_path: Path, kind: str, order: str, block_rows: int | None) -> None:
    stored = np.asarray(E * 3, dtype=kind, order=order)  # type: ignore[call-overload]
    path = tmp_path / "a table ü.npy"
    np.save(path, stored)
    (tmp_path / "packed.npy.gz").write_bytes(gzip.compress(path.read_bytes()))
    for table in (open_table(path), open_table(tmp_path / "packed.npy.gz")):
        rows = rows_of(table, block_rows)
        assert (table.n_rows, table.dim, table.dtype) == (23, 5, stored.dtype.name)
        assert rows.dtype.isnative
        assert rows.dtype.kind == "f"
        assert np.array_equal(rows, stored.astype(np.float64))


def test_float_rows_are_a_view_of_the_file(tmp_path: Path) -> None:
    np.save(tmp_path / "E.npy", E.astype("f4"))
    [block] = open_table(tmp_path / "E.npy").blocks()
    assert not block.rows.flags.owndata
    assert block.rows.dtype == np.float32


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 8), }", "needs 32000000000 bytes.*truncated"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 8), }", "needs 32 bytes.*header damaged"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 8), }", "shape of whole numbers"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4611686018427387904), }", "at most 1048576 dimensions"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (True, 8), }", "shape of whole numbers"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (4, 8), }", "got Python objects"),
        ("{'descr': '<c8', 'fortran_order': False, 'shape': (4, 4), }", "needs real numbers; got dtype complex64"),
        ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4, 8), }", "needs real numbers"),
        ("{'descr': '<f4', 'fortran_order': False}", "needs an npy file"),
        ("{'descr': '<f4' * 10, 'fortran_order': False, 'shape': (4, 8)}", "needs an npy file"),
        ("(" * 5000, "needs an npy file"),
        ("nonsense", "needs an npy file"),
    ],
)
def test_a_lying_header_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "E.npy"
    path.write_bytes(header(text) + bytes(128))
    tracemalloc.start()
    with pytest.raises(InputError, match=message):
        rows_of(open_table(path))
    assert tracemalloc.get_traced_memory()[1] < 2**23
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (header("x")[:8], "needs 2 more bytes"),
        (b"\x93NUMPY\x07\x00" + bytes(90), "npy version"),
        (b"\x93NUMPY\x02\x00" + b"\xff\xff\xff\x7f" + bytes(90), "header of at most 65536 bytes; got 2147483647"),
    ],
)
def test_a_damaged_npy_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "E.npy").write_bytes(data)
    with pytest.raises(FormatError, match=message):
        open_table(tmp_path / "E.npy")


def test_a_truncated_npy_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "E.npy"
    np.save(path, E)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        FormatError, match=r"needs 920 bytes of rows for shape \(23, 5\); got 919. Is the file truncated"
    ):
        open_table(path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(4), r"got shape \(4,\) in 'E.npy'. Is it one value a row"),
        (np.ones((2, 3, 4)), r"got shape \(2, 3, 4\).*Flatten the leading dimensions"),
        (np.ones((0, 4)), r"at least one row and one dimension; got shape \(0, 4\)"),
        (np.ones((4, 0)), r"at least one row and one dimension; got shape \(4, 0\)"),
        (np.array([["a", "b"]]), "needs rows of real numbers; got dtype <U1"),
    ],
)
def test_only_tables_of_numbers(tmp_path: Path, array: np.ndarray, message: str) -> None:
    np.save(tmp_path / "E.npy", array)
    with pytest.raises(InputError, match=message):
        rows_of(open_table(tmp_path / "E.npy"))


@pytest.mark.parametrize("kind", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_types_that_npy_forgets_are_named_by_the_caller(tmp_path: Path, kind: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    narrow = E.astype(getattr(ml_dtypes, kind))
    np.save(tmp_path / "E.npy", narrow)
    table = open_table(tmp_path / "E.npy", dtype=kind)
    assert table.dtype == kind
    assert np.array_equal(rows_of(table, 7), narrow.astype(np.float32))
    with pytest.raises(InputError, match="needs a type with a name; got . bytes an entry"):
        open_table(tmp_path / "E.npy")
    np.save(tmp_path / "F.npy", E.astype("f4"))
    assert np.array_equal(rows_of(open_table(tmp_path / "F.npy", dtype="float32")), E.astype("f4"))


@pytest.mark.parametrize(("packing", "stored", "low"), [("ubinary", "u1", -1), ("binary", "i1", -1), ("bits", "u1", 0)])
def test_packed_bits_in_npy(tmp_path: Path, packing: str, stored: str, low: int) -> None:
    bits = np.random.default_rng(0).random((9, 24)) > 0.5
    codes = np.packbits(bits, axis=1).astype(np.int16) - (128 if packing == "binary" else 0)
    np.save(tmp_path / "E.npy", codes.astype(stored))
    table = open_table(tmp_path / "E.npy", dtype=packing)
    assert (table.dim, table.dtype) == (24, packing)
    assert np.array_equal(rows_of(table, 4), np.where(bits, 1, low))
    np.save(tmp_path / "E.npy", E)
    with pytest.raises(InputError, match=f'dtype="{packing}" needs codes of'):
        open_table(tmp_path / "E.npy", dtype=packing)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("block_rows", [1, 7, None])
def test_npz_round_trip(tmp_path: Path, save, block_rows: int | None) -> None:
    words = np.array([f"w{row}" for row in range(23)])
    save(tmp_path / "E.npz", E=E, F=np.asfortranarray(E), ids=words, counts=np.arange(23), other=np.arange(3))
    assert [(info.name, info.shape) for info in list_tables(tmp_path / "E.npz")] == [("E", (23, 5)), ("F", (23, 5))]
    for name in "EF":
        table = open_table(tmp_path / "E.npz", table=name)
        assert np.array_equal(rows_of(table, block_rows), E)
        blocks = list(table.blocks(block_rows))
        assert np.concatenate([np.asarray(block.ids) for block in blocks]).tolist() == words.tolist()
        assert np.concatenate([np.asarray(block.frequencies) for block in blocks]).tolist() == list(range(23))
    assert next(open_table(tmp_path / "E.npz", table="E", ids=False).blocks()).ids is None


def test_npz_takes_the_arrays_named_as_embeddings(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", item_embeddings=E, mlp=E)
    assert [table.name for table in open_tables(tmp_path / "m.npz")] == ["item_embeddings"]
    with pytest.raises(UnknownNameError, match=r"no table named 'item_embedding'. Did you mean \"item_embeddings\""):
        open_table(tmp_path / "m.npz", table="item_embedding")


def test_npz_of_several_tables_asks_for_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", a=E, b=E)
    with pytest.raises(InputError, match="open_table needs one table; got 2: 'a', 'b'. Choose one with table="):
        open_table(tmp_path / "m.npz")


def test_npz_of_objects_is_never_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", E=np.array([[1, None]], dtype=object))
    with pytest.raises(FormatError, match="got Python objects"):
        open_table(tmp_path / "m.npz", table="E")
    with pytest.raises(InputError, match="needs a 2-D array of numbers; got no array at all"):
        open_table(tmp_path / "m.npz")


def npz(path: Path, member: bytes, level: int = 9) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        archive.writestr("E.npy", member)


def test_a_zip_bomb_costs_no_memory(tmp_path: Path) -> None:
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 64), }"
    npz(tmp_path / "more.npz", header(text % 4) + bytes(2**24))
    with pytest.raises(FormatError, match="needs 1024 bytes of rows.*header damaged"):
        open_table(tmp_path / "more.npz")
    npz(tmp_path / "E.npz", header(text % (2**24 // 256)) + bytes(2**24))
    tracemalloc.start()
    table = open_table(tmp_path / "E.npz")
    assert sum(len(block) for block in table.blocks(64)) == 2**16
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def test_an_archive_that_lies_about_sizes(tmp_path: Path) -> None:
    path = tmp_path / "E.npz"
    npz(path, header("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), }") + bytes(32))
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = (2**31).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(FormatError, match="got a zip bomb or a damaged file"):
        open_table(path)


def test_lazy_in_a_large_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "E.npz", small=E, large=np.zeros((2**18, 64), np.float32))
    tracemalloc.start()
    assert np.array_equal(rows_of(open_table(tmp_path / "E.npz", table="small")), E)
    next(open_table(tmp_path / "E.npz", table="large").blocks(10))
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def test_compressed_fortran_order_is_bounded(tmp_path: Path) -> None:
    text = "{'descr': '<f4', 'fortran_order': True, 'shape': (16777216, 64), }"
    (tmp_path / "E.npy.gz").write_bytes(gzip.compress(header(text) + bytes(64)))
    with pytest.raises(InputError, match="compressed and in Fortran order"):
        open_table(tmp_path / "E.npy.gz")


def test_a_truncated_gzip_is_refused(tmp_path: Path) -> None:
    with io.BytesIO() as buffer:
        np.save(buffer, np.random.default_rng(1).normal(size=(900, 50)))
        packed = gzip.compress(buffer.getvalue())
    (tmp_path / "E.npy.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(FormatError, match="truncated|Truncated"):
        rows_of(open_table(tmp_path / "E.npy.gz"))


@pytest.mark.parametrize("name", ["E.f32", "E.bin", "E"])
def test_raw_numbers(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(E.astype("f4").tobytes())
    table = open_table(tmp_path / name, dtype="float32x5")
    assert np.array_equal(rows_of(table, 7), E.astype("f4"))


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        (None, 'needs its type and dim, as dtype="float32x128"; got dtype=None'),
        ("float32", "needs its type and dim"),
        ("float32x7", "whole number of rows of 7 x float32"),
        ("float32x0", "whole number of rows of 0 x float32"),
        ("objectx5", "type of real numbers"),
        ("whatx5", "type of real numbers"),
    ],
)
def test_raw_numbers_need_a_type_and_a_dim(tmp_path: Path, dtype: str | None, message: str) -> None:
    (tmp_path / "E.f32").write_bytes(E.astype("f4").tobytes())
    with pytest.raises(InputError, match=message):
        open_table(tmp_path / "E.f32", dtype=dtype)
