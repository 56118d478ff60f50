"""Flat faiss indexes against the library, and every lie a header can tell."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fullspan.errors import FormatError
from fullspan.io import faiss_
from fullspan.io.base import OpenOptions

E = np.random.default_rng(0).standard_normal((20, 6)).astype(np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "items.faiss"


def one(path: Path, **options: Any) -> Any:
    (table,) = faiss_.open_tables(path, None, OpenOptions(**options))
    return table


def rows_of(table: Any) -> np.ndarray:
    return np.concatenate([block.rows for block in table.blocks(7)])


@pytest.mark.parametrize("metric", ["L2", "INNER_PRODUCT", "L1", "Lp"])
def test_flat_indexes_of_every_metric(path: Path, metric: str) -> None:
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexFlat(6, getattr(faiss, f"METRIC_{metric}"))
    index.add(E)
    faiss.write_index(index, str(path))
    table = one(path)
    assert (table.name, table.dtype) == ("items", "float32")
    np.testing.assert_array_equal(rows_of(table), E)
    (info,) = faiss_.list_tables(path)
    assert info.embedding
    assert info.why == "the vectors of a flat index"


@pytest.mark.parametrize("kind", ["IndexIDMap", "IndexIDMap2"])
@pytest.mark.parametrize("flat", ["IndexFlatL2", "IndexFlatIP"])
def test_id_maps(path: Path, kind: str, flat: str) -> None:
    faiss = pytest.importorskip("faiss")
    base = getattr(faiss, flat)(6)
    index = getattr(faiss, kind)(base)
    index.add_with_ids(E, np.arange(20) * 7)
    faiss.write_index(index, str(path))
    table = one(path)
    np.testing.assert_array_equal(rows_of(table), E)
    np.testing.assert_array_equal(np.concatenate([block.ids for block in table.blocks(6)]), np.arange(20) * 7)


def test_binary_indexes_say_what_a_bit_is(path: Path) -> None:
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexBinaryFlat(16)
    packed = np.packbits(np.tile(E, (1, 3))[:, :16] > 0, axis=1)
    index.add(packed)
    faiss.write_index_binary(index, str(path))
    with pytest.raises(FormatError, match=r"needs a scale beside its uint8 codes, .*dtype=\"ubinary\""):
        one(path)
    np.testing.assert_array_equal(rows_of(one(path, dtype="bits")), np.unpackbits(packed, axis=1))
    np.testing.assert_array_equal(rows_of(one(path, dtype="ubinary")), 2.0 * np.unpackbits(packed, axis=1) - 1)


def test_other_indexes_are_named_with_the_way_to_convert(path: Path) -> None:
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexHNSWFlat(6, 4)
    index.add(E)
    faiss.write_index(index, str(path))
    with pytest.raises(FormatError, match=r"got 'IHNf'. Convert it: np.save\(\"table.npy\", faiss.read_index"):
        one(path)
    assert faiss.read_index(str(path)).reconstruct_n().shape == E.shape  # as the message says


def header(kind: bytes = b"IxF2", dim: int = 6, n_rows: int = 20, trained: int = 1) -> bytes:
    return kind + struct.pack("<iqqqBi", dim, n_rows, 2**20, 2**20, trained, 1)


VECTORS = struct.pack("<Q", 120) + E.tobytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"Ix", "needs 2 more bytes; got the end of the file"),
        (header()[:20], "more bytes; got the end of the file"),
        (header(dim=0) + VECTORS, "got 20 rows of 0 dimensions"),
        (header(dim=2**30) + VECTORS, "got 20 rows of 1073741824 dimensions"),
        (header(n_rows=-1) + VECTORS, "got -1 rows of 6 dimensions"),
        (header(trained=9) + VECTORS, "got 20 rows of 6 dimensions"),
        (header(n_rows=21) + VECTORS, "got 120 numbers for 21 rows of 6"),
        (header() + VECTORS[:-1], "got 479 of 480 bytes of vectors"),
        (header(n_rows=2**40) + struct.pack("<Q", 6 * 2**40), "bytes of vectors"),
        (header() + VECTORS + b"x", "got 1 bytes after its end"),
        (header(b"IxMp") + header() + VECTORS + struct.pack("<Q", 19), "got 19 ids for 20 rows"),
        (header(b"IxMp") + header() + VECTORS + struct.pack("<Q", 20), "got 0 of 160 bytes of ids"),
        (header(b"IxMp") + header(b"IxMp") + header() + VECTORS, "got 'IxMp'"),
        (b"IBxF" + struct.pack("<iiqBi", 16, 3, 1, 1, 1), "got 3 bytes a row of 16 bits"),
        (b"I\n\x00\xff" + bytes(90), "needs a flat faiss index"),
    ],
)
def test_headers_that_lie(path: Path, data: bytes, message: str) -> None:
    path.write_bytes(data)
    with pytest.raises(FormatError, match=message) as caught:
        faiss_.list_tables(path)
    assert "\n" not in str(caught.value)


def test_an_empty_index(path: Path) -> None:
    path.write_bytes(header(n_rows=0) + struct.pack("<Q", 0))
    with pytest.raises(FormatError, match="needs a 2-D tensor of real numbers to measure"):
        one(path)
