"""GGUF against the gguf package, and every lie a header can tell."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fullspan.errors import FormatError, InputError, MissingExtraError
from fullspan.io import gguf_
from fullspan.io.base import OpenOptions

E = np.random.default_rng(0).standard_normal((20, 256)).astype(np.float32)


def one(path: Path, name: str | None = None) -> Any:
    (table,) = gguf_.open_tables(path, None if name is None else [name], OpenOptions())
    return table


def rows_of(table: Any) -> np.ndarray:
    return np.concatenate([block.rows for block in table.blocks(7)])


def write(path: Path, tensors: dict[str, Any], tokens: list[str] | None = None, **keys: Any) -> Path:
    """A file as the package writes it; a pair of codes and a type stands for a quantized tensor."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(path, "llama", **keys)
    if tokens is not None:
        writer.add_token_list(tokens)
    for name, value in tensors.items():
        if isinstance(value, tuple):
            writer.add_tensor(name, value[0], raw_dtype=value[1])
        else:
            writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_plain_types_and_tokens(tmp_path: Path) -> None:
    tokens = [f"t{number}" for number in range(19)] + ["é▁"]
    tensors = {"token_embd.weight": E, "half": E.astype(np.float16), "double": E.astype(np.float64), "norm": E[0]}
    path = write(tmp_path / "m.gguf", tensors, tokens)
    infos = {info.name: info for info in gguf_.list_tables(path)}
    assert set(infos) == {"token_embd.weight", "half", "double"}
    assert infos["token_embd.weight"].shape == (20, 256)
    table = one(path)
    np.testing.assert_array_equal(rows_of(table), E)
    assert list(next(table.blocks()).ids) == tokens
    np.testing.assert_array_equal(rows_of(one(path, "half")), E.astype(np.float16))
    assert one(path, "double").ids is None


def test_tokens_that_do_not_count_the_rows_are_left_out(tmp_path: Path) -> None:
    assert one(write(tmp_path / "m.gguf", {"token_embd.weight": E}, ["a", "b"])).ids is None


def test_bfloat16(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    short = E.astype(ml_dtypes.bfloat16)
    raw = (short.view(np.uint8), gguf.GGMLQuantizationType.BF16)
    np.testing.assert_array_equal(rows_of(one(write(tmp_path / "m.gguf", {"emb": raw}))), short.astype(np.float32))


@pytest.mark.parametrize("kind", ["Q4_0", "Q5_1", "Q8_0", "TQ2_0"])
def test_quantized_types_as_the_package_reads_them(tmp_path: Path, kind: str) -> None:
    gguf = pytest.importorskip("gguf")
    number = gguf.GGMLQuantizationType[kind]
    codes = gguf.quants.quantize(E, number)
    path = write(tmp_path / "m.gguf", {"token_embd.weight": (codes, number)})
    table = one(path)
    assert (table.dtype, table.n_rows, table.dim) == (kind, 20, 256)
    np.testing.assert_array_equal(rows_of(table), gguf.quants.dequantize(codes, number))


@pytest.mark.parametrize("kind", ["Q4_K", "Q6_K", "Q2_K", "IQ4_XS"])
def test_blocks_that_the_package_only_reads(tmp_path: Path, kind: str) -> None:
    gguf = pytest.importorskip("gguf")
    number = gguf.GGMLQuantizationType[kind]
    n_bytes = gguf.GGML_QUANT_SIZES[number][1]
    codes = np.random.default_rng(1).integers(0, 60, (5, n_bytes)).astype(np.uint8)
    table = one(write(tmp_path / "m.gguf", {"token_embd.weight": (codes, number)}))
    np.testing.assert_array_equal(rows_of(table), gguf.quants.dequantize(codes, number))


def test_every_block_size_is_that_of_the_package() -> None:
    gguf = pytest.importorskip("gguf")
    for number, (name, numbers, n_bytes) in gguf_._BLOCKS.items():
        kind = gguf.GGMLQuantizationType(number)
        assert (kind.name, gguf.GGML_QUANT_SIZES[kind]) == (name, (numbers, n_bytes))


def test_a_type_that_the_package_cannot_dequantize(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    codes = np.zeros((2, 40), np.uint8)
    table = one(write(tmp_path / "m.gguf", {"emb": (codes, gguf.GGMLQuantizationType.Q8_1)}))
    with pytest.raises(FormatError, match=r"'emb' needs a type that the package gguf can dequantize; got Q8_1"):
        rows_of(table)


def test_the_package_is_asked_for_when_blocks_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gguf = pytest.importorskip("gguf")
    number = gguf.GGMLQuantizationType.Q8_0
    table = one(write(tmp_path / "m.gguf", {"emb": (gguf.quants.quantize(E, number), number)}))
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtraError, match="Dequantizing Q8_0 needs the extra 'gguf'"):
        rows_of(table)


def test_plain_types_do_not_load_the_package(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", {"token_embd.weight": E})
    code = (
        "import sys; from pathlib import Path; from fullspan.io import gguf_;"
        "from fullspan.io.base import OpenOptions;"
        "t, = gguf_.open_tables(Path(sys.argv[1]), None, OpenOptions()); next(t.blocks());"
        "assert 'gguf' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def tensor(name: str = "emb", dims: tuple[int, ...] = (2, 2), kind: int = 0, offset: int = 0) -> bytes:
    return string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def value(key: str, kind: int, raw: bytes) -> bytes:
    return string(key) + struct.pack("<I", kind) + raw


def raw_file(
    path: Path,
    tensors: tuple[bytes, ...] = (tensor(),),
    values: tuple[bytes, ...] = (),
    version: int = 3,
    counts: tuple[int, int] | None = None,
    data: int = 64,
) -> Path:
    n_tensors, n_values = counts or (len(tensors), len(values))
    header = b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_values) + b"".join(values) + b"".join(tensors)
    path.write_bytes(header + bytes(-len(header) % 32) + bytes(data))
    return path


ARRAY = struct.pack("<IQ", 9, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 1}, "needs a little-endian GGUF file of version 2 or 3; got version 1"),
        ({"version": 3 << 24}, "got a big-endian file. Convert it with the tools of llama.cpp"),
        ({"counts": (2**63, 0)}, "tensors and 0 values in"),
        ({"counts": (0, 2**62)}, "0 tensors and .* values in"),
        ({"counts": (4, 0)}, "the end of the file|dimensions of|a string of"),
        ({"tensors": (tensor(dims=()),)}, "0 dimensions of 'emb'"),
        ({"tensors": (tensor(dims=(1,) * 5),)}, "5 dimensions of 'emb'"),
        ({"tensors": (tensor(kind=4),)}, "the unknown type 4 of 'emb'"),
        ({"tensors": (tensor(kind=99),)}, "the unknown type 99 of 'emb'"),
        ({"tensors": (tensor(kind=2),)}, "rows of 2 numbers in blocks of 32 in 'emb'"),
        ({"tensors": (tensor(offset=8),)}, "'emb' at byte 8, no multiple of 32"),
        ({"tensors": (tensor(dims=(2**40, 2**40)),)}, "'emb' up to byte"),
        ({"tensors": (tensor(), tensor())}, "the tensor 'emb' twice"),
        ({"tensors": (tensor(), tensor("b"))}, "'b' and 'emb' in the same bytes|'emb' and 'b' in the same bytes"),
        ({"values": (value("general.alignment", 4, struct.pack("<I", 7)),)}, "an alignment of 7"),
        ({"values": (value("general.alignment", 4, struct.pack("<I", 0)),)}, "an alignment of 0"),
        ({"values": (value("a", 4, bytes(4)), value("a", 4, bytes(4)))}, "the key 'a' twice"),
        ({"values": (value("a", 13, b""),)}, "a value of type 13 at depth 0 under 'a'"),
        ({"values": (value("a", 8, struct.pack("<Q", 2**60)),)}, "a string of 1152921504606846976 bytes"),
        ({"values": (value("a", 8, struct.pack("<Q", 10**6)),)}, "1000000 bytes announced and"),
        ({"values": (value("a", 9, struct.pack("<IQ", 4, 2**62)),)}, "bytes announced and"),
        ({"values": (value("a", 9, struct.pack("<IQ", 8, 2**62)),)}, "an array of 4611686018427387904 under 'a'"),
        ({"values": (value("a", 9, ARRAY * 9 + bytes(12)),)}, "a value of type 9 at depth 4 under 'a'"),
        ({"data": 8}, "'emb' up to byte"),
    ],
)
def test_headers_that_lie(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        gguf_.list_tables(raw_file(tmp_path / "lie.gguf", **change))


def test_version_2_and_an_alignment_of_its_own(tmp_path: Path) -> None:
    values = (value("general.alignment", 4, struct.pack("<I", 8)), value("x", 9, ARRAY + struct.pack("<IQ", 4, 0)))
    path = raw_file(tmp_path / "m.gguf", values=values, version=2, tensors=(tensor(offset=8),))
    assert [info.shape for info in gguf_.list_tables(path)] == [(2, 2)]


def test_other_files(tmp_path: Path) -> None:
    (path := tmp_path / "m.gguf").write_bytes(b"GGML....")
    with pytest.raises(FormatError, match="needs a valid GGUF header; got the first bytes b'GGML'"):
        gguf_.list_tables(path)
    path.write_bytes(b"")
    with pytest.raises(FormatError, match="needs a GGUF file"):
        gguf_.list_tables(path)
    with pytest.raises(InputError, match=r"needs 2 dimensions, rows and dim; got shape \(4,\)"):
        one(raw_file(path, tensors=(tensor(dims=(4,)),)), "emb")


def test_too_many_strings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_, "MAX_STRINGS", 3)
    path = raw_file(tmp_path / "m.gguf", values=(value("a", 9, struct.pack("<IQ4Q", 8, 4, 0, 0, 0, 0)),))
    with pytest.raises(FormatError, match="got more than 3 strings"):
        gguf_.list_tables(path)
