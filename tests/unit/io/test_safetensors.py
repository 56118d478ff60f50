"""safetensors against the reference library, and every lie a header can tell."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fullspan.errors import FormatError, FullspanError, InputError, MissingFileError, UnknownNameError
from fullspan.io import safetensors_
from fullspan.io.base import OpenOptions

OPTIONS = OpenOptions()
E = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)


def rows_of(table: Any, block_rows: int | None = 7) -> np.ndarray:
    return np.concatenate([block.rows for block in table.blocks(block_rows)])


def one(path: Path, name: str | None = None, **options: Any) -> Any:
    (table,) = safetensors_.open_tables(path, None if name is None else [name], OpenOptions(**options))
    return table


def write_raw(path: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def test_every_dtype_as_the_reference_library_reads_it(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    save_file = pytest.importorskip("safetensors.torch").save_file
    base = torch.from_numpy(E)
    kinds = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int16", "int32", "bool"]
    tensors = {kind: (base * 3).to(getattr(torch, kind)) for kind in kinds}
    save_file(tensors, path := tmp_path / "all.safetensors")
    for kind in kinds:
        table = one(path, kind)
        assert table.dtype == kind
        np.testing.assert_array_equal(rows_of(table), tensors[kind].double().numpy())
    listed = {info.name: info.dtype for info in safetensors_.list_tables(path)}
    assert set(listed) == {kind for kind in kinds if "float" in kind}


def test_embeddings_are_chosen_and_the_rest_is_listed(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    tensors = {"model.embed_tokens.weight": E, "mlp.up_proj.weight": E.T.copy(), "norm.weight": E[0].copy()}
    save_file(tensors, path := tmp_path / "m.safetensors", metadata={"format": "np"})
    infos = {info.name: info for info in safetensors_.list_tables(path)}
    assert set(infos) == {"model.embed_tokens.weight", "mlp.up_proj.weight"}
    assert infos["model.embed_tokens.weight"].shape == (50, 6)
    assert infos["model.embed_tokens.weight"].embedding
    assert not infos["mlp.up_proj.weight"].embedding
    assert one(path).name == "model.embed_tokens.weight"
    assert safetensors_.read_metadata(path) == {"format": "np"}


def test_without_an_embedding_every_matrix_opens(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    save_file({"a": E, "b": E * 2}, path := tmp_path / "m.safetensors")
    assert [table.name for table in safetensors_.open_tables(path, None, OPTIONS)] == ["a", "b"]
    assert all("neither" in info.why for info in safetensors_.list_tables(path))


def test_names_that_are_not_there_or_not_tables(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    save_file({"emb": E, "one": E[0].copy(), "none": E[:0].copy()}, path := tmp_path / "m.safetensors")
    with pytest.raises(UnknownNameError, match=r'has no tensor \'enb\'. Did you mean "emb"\?'):
        one(path, "enb")
    with pytest.raises(InputError, match=r"needs 2 dimensions, rows and dim; got shape \(6,\) in 'one'"):
        one(path, "one")
    with pytest.raises(InputError, match="needs at least one row and one dimension"):
        one(path, "none")


def test_a_file_without_matrices(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    save_file({"one": E[0].copy()}, path := tmp_path / "m.safetensors")
    with pytest.raises(FormatError, match="needs a 2-D tensor of real numbers to measure; got 1 tensors"):
        one(path)


def test_int8_with_scales_and_zero_points(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    codes = np.random.default_rng(1).integers(-128, 128, (50, 6)).astype(np.int8)
    scale = np.random.default_rng(2).uniform(0.1, 1, (50, 1)).astype(np.float32)
    zero = np.full((50, 1), 3, np.int8)
    tensors = {"emb.weight": codes, "emb.weight_scale": scale, "emb.weight_zero_point": zero}
    save_file(tensors, path := tmp_path / "q.safetensors")
    (info,) = safetensors_.list_tables(path)
    assert info.why == "named as an embedding, with emb.weight_scale"
    table = one(path)
    assert table.dtype == "int8 with scales"
    np.testing.assert_array_equal(rows_of(table), (codes.astype(np.float32) - 3) * scale)


def test_bitsandbytes_rows(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    codes = np.arange(-6, 6, dtype=np.int8).reshape(4, 3)
    largest = np.array([1, 2, 3, 4], np.float32)
    flag = {"emb.weight_format": np.array(0, np.uint8)}
    save_file({"emb.weight": codes, "emb.SCB": largest, **flag}, path := tmp_path / "q.safetensors")
    np.testing.assert_allclose(rows_of(one(path)), codes * largest[:, None] / 127, rtol=1e-6)
    flag["emb.weight_format"] = np.array(1, np.uint8)
    save_file({"emb.weight": codes, "emb.SCB": largest, **flag}, path)
    with pytest.raises(FormatError, match="needs rows in plain order; got a tiled layout"):
        one(path)


def test_codes_without_a_scale_are_never_guessed(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    codes = np.packbits(E > 0, axis=1)
    save_file({"emb": codes}, path := tmp_path / "q.safetensors")
    (info,) = safetensors_.list_tables(path)
    assert "no scale beside it" in info.why
    with pytest.raises(FormatError, match=r'needs a scale beside its uint8 codes, or dtype="uint8".*got no scale'):
        one(path)
    with pytest.raises(FormatError, match=r"got dtype='binary'"):
        one(path, dtype="binary")
    np.testing.assert_array_equal(rows_of(one(path, dtype="uint8")), codes)
    signs = rows_of(one(path, dtype="ubinary"))
    np.testing.assert_array_equal(signs[:, :6], np.where(E > 0, 1, -1))


def test_bytes_with_a_scale_alone_may_be_two_codes(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    codes, scale = np.arange(12, dtype=np.uint8).reshape(4, 3), np.ones(4, np.float32) / 2
    save_file({"emb.weight": codes, "emb.weight_scale": scale}, path := tmp_path / "q.safetensors")
    with pytest.raises(
        FormatError, match=r"needs a zero point beside its uint8 codes and 'emb.weight_scale'; got none"
    ):
        one(path)
    np.testing.assert_array_equal(rows_of(one(path, dtype="uint8")), codes / 2)
    zero = np.full(4, 3, np.uint8)
    save_file({"emb.weight": codes, "emb.weight_scale": scale, "emb.weight_zero_point": zero}, path)
    np.testing.assert_array_equal(rows_of(one(path)), (codes - 3.0) / 2)


def test_scales_of_odd_types_and_sizes_are_refused(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    codes = np.ones((4, 3), np.int8)
    save_file({"emb.weight": codes, "emb.weight_scale": np.ones((4, 1), np.uint8)}, path := tmp_path / "q.safetensors")
    with pytest.raises(FormatError, match=r"needs a floating scale; got uint8 in 'emb.weight_scale'"):
        one(path)
    save_file({"emb.weight": codes, "emb.weight_scale": np.ones((4, 4), np.float32)}, path)
    with pytest.raises(FormatError, match=r"'emb.weight_scale' needs at most a number for each of its table"):
        one(path)
    scales = {"emb.weight_scale": np.ones(4, np.float32), "emb.weight_scale_2": np.ones(1, np.float32)}
    save_file({"emb.weight": codes, **scales}, path)
    with pytest.raises(FormatError, match="got 4-bit codes of NVFP4"):
        one(path, "emb.weight")


def test_foreign_packings_are_refused(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    tensors = {"emb.qweight": np.ones((4, 4), np.int32), "emb.scales": np.ones((4, 4), np.float16)}
    save_file(tensors, path := tmp_path / "q.safetensors")
    infos = {info.name: info for info in safetensors_.list_tables(path)}
    assert infos["emb.qweight"].why == "packed (GPTQ or AWQ codes), which is not read"
    with pytest.raises(FormatError, match="needs a packing that fullspan reads; got GPTQ or AWQ codes"):
        one(path, "emb.qweight")


def sharded(tmp_path: Path) -> Path:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    save_file({"embed_tokens.weight": E}, tmp_path / "model-00001-of-00002.safetensors")
    save_file({"lm_head.weight": E * 2}, tmp_path / "model-00002-of-00002.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    names = {"embed_tokens.weight": 1, "lm_head.weight": 2}
    weight_map = {name: f"model-0000{shard}-of-00002.safetensors" for name, shard in names.items()}
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return index


def test_shards(tmp_path: Path) -> None:
    index = sharded(tmp_path)
    first, second = safetensors_.open_tables(index, None, OPTIONS)
    np.testing.assert_array_equal(rows_of(first), E)
    np.testing.assert_array_equal(rows_of(second), E * 2)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    index = sharded(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(MissingFileError, match=r"needs its shard 'model-00002-of-00002.safetensors'; it is missing"):
        safetensors_.list_tables(index)


@pytest.mark.parametrize("shard", ["../../x", "/etc/passwd", "a/b", "..", "", 3, "a\\b"])
def test_a_shard_elsewhere_is_not_opened(tmp_path: Path, shard: Any) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"emb": shard}}))
    with pytest.raises(FormatError, match=r"needs shards that lie beside it; got .* It was not opened"):
        safetensors_.list_tables(index)


def test_an_index_that_lies(tmp_path: Path) -> None:
    index = sharded(tmp_path)
    content = json.loads(index.read_text())
    content["weight_map"]["ghost"] = "model-00001-of-00002.safetensors"
    index.write_text(json.dumps(content))
    with pytest.raises(FormatError, match="needs the tensor 'ghost' in 'model-00001"):
        safetensors_.list_tables(index)
    index.write_text("{}")
    with pytest.raises(FormatError, match="needs a weight_map from tensors to shards; got none"):
        safetensors_.list_tables(index)
    index.write_text("{")
    with pytest.raises(FormatError, match="needs JSON"):
        safetensors_.list_tables(index)


def entry(dtype: Any = "F32", shape: Any = (2, 2), offsets: Any = (0, 16), **more: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"a": entry(offsets=(0, 17))}, "'a' at bytes 0 to 17 of 16"),
        ({"a": entry(offsets=(8, 0))}, "'a' at bytes 8 to 0 of 16"),
        ({"a": entry(offsets=(0, 8))}, r"8 bytes for shape \(2, 2\) of F32"),
        ({"a": entry(shape=(2, -2))}, "a shape of 'a' that is not a list of sizes"),
        ({"a": entry(shape=(2, 2.0))}, "a shape of 'a' that is not a list of sizes"),
        ({"a": entry(shape=(2, True))}, "a shape of 'a' that is not a list of sizes"),
        ({"a": entry(shape=(10**30, 2))}, "a shape of 'a' that is not a list of sizes"),
        ({"a": entry(shape=[1] * 65)}, "a shape of 'a' that is not a list of sizes"),
        ({"a": entry(shape=(2**62, 2**62))}, "16 bytes for shape"),
        ({"a": entry(offsets=(0, -1))}, "data_offsets of 'a' that are not two positions"),
        ({"a": entry(offsets=(0,))}, "data_offsets of 'a' that are not two positions"),
        ({"a": entry(dtype="Q4")}, "the unknown dtype 'Q4' of 'a'"),
        ({"a": entry(dtype=4)}, "the unknown dtype '4' of 'a'"),
        ({"a": entry(extra=1)}, "an entry of 'a' without exactly a dtype"),
        ({"a": 3}, "an entry of 'a' without exactly a dtype"),
        ({"a": entry(), "b": entry(shape=(2, 1), offsets=(8, 16))}, "'a' and 'b' in the same bytes"),
        ({"__metadata__": {"a": 1}}, "metadata that are not strings"),
        ([], "a JSON list in place of an object"),
        (b"{", r"a header that is not JSON \(JSONDecodeError\)"),
        (b"\xff\xfe", r"a header that is not JSON \(UnicodeDecodeError\)"),
        (b'{"a":1,"a":2}', "the name 'a' twice"),
        (b"[" * 100_000, r"a header that is not JSON \(RecursionError\)"),
        (b'{"a":' + b"9" * 5000 + b"}", r"a header that is not JSON \(ValueError\)"),
    ],
)
def test_headers_that_lie(tmp_path: Path, header: Any, message: str) -> None:
    path = write_raw(tmp_path / "lie.safetensors", header, bytes(16))
    with pytest.raises(FormatError, match=f"needs a valid safetensors header; got {message}"):
        safetensors_.list_tables(path)


@pytest.mark.parametrize("length", [0, 2, 10**18, 2**64 - 1])
def test_lengths_that_lie(tmp_path: Path, length: int) -> None:
    path = write_raw(tmp_path / "lie.safetensors", {"a": entry()}, bytes(16), length)
    with pytest.raises(FormatError, match="needs a valid safetensors header"):
        safetensors_.list_tables(path)


def test_short_and_missing_files(tmp_path: Path) -> None:
    (path := tmp_path / "naïve name.safetensors").write_bytes(b"123")
    with pytest.raises(FormatError, match="got a file of 3 bytes"):
        safetensors_.list_tables(path)
    with pytest.raises(MissingFileError, match="needs an existing file"):
        safetensors_.list_tables(tmp_path / "none.safetensors")
    with pytest.raises(FullspanError):
        safetensors_.list_tables(tmp_path)


def test_types_of_less_than_a_byte_are_known_but_do_not_open(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "f4.safetensors", {"emb": entry("F4", (4, 8), (0, 16))}, bytes(16))
    with pytest.raises(FormatError, match="'emb' needs a stored type that fullspan reads; got F4"):
        one(path, "emb")


def test_unaligned_data(tmp_path: Path) -> None:
    header = json.dumps({"emb": entry("F64", (2, 1), (1, 17))}).encode()
    path = write_raw(tmp_path / "odd.safetensors", header, b"x" + np.array([1.5, -2.0]).tobytes())
    np.testing.assert_array_equal(rows_of(one(path)), [[1.5], [-2.0]])


LAZY = """
import resource, sys, time
from pathlib import Path
import numpy as np
from fullspan.io import safetensors_
from fullspan.io.base import OpenOptions
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
(table,) = safetensors_.open_tables(Path(sys.argv[1]), None, OpenOptions())
total = sum(float(block.rows.sum()) for block in table.blocks())
seconds = time.perf_counter() - start
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(total, seconds, grown / 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs sparse files")
def test_one_table_of_a_10_gb_checkpoint_opens_alone(tmp_path: Path) -> None:
    size, rows = 10 * 10**9, 1000
    small = np.ones((rows, 64), np.float32)
    header = json.dumps(
        {
            "mlp.weight": entry("F32", (size // 8, 2), (0, size)),
            "embed_tokens.weight": entry("F32", (rows, 64), (size, size + small.nbytes)),
        }
    ).encode()
    path = tmp_path / "big.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)
        file.seek(0, 2)
        file.write(small.tobytes())
    done = subprocess.run([sys.executable, "-c", LAZY, str(path)], capture_output=True, text=True, check=True)
    total, seconds, grown = map(float, done.stdout.split())
    assert total == rows * 64
    assert seconds < 1
    assert grown < 20
