"""Keras and HDF5 files against h5py, links that leave the file, archives that are bombs, and a library that crashes."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fullspan.errors import FormatError, MissingExtraError
from fullspan.io import hdf5_map, keras_
from fullspan.io.base import OpenOptions

h5py = pytest.importorskip("h5py")

E = np.random.default_rng(0).standard_normal((37, 10)).astype(np.float32)


def one(path: Path, name: str | None = None, **options: Any) -> Any:
    (table,) = keras_.open_tables(path, None if name is None else [name], OpenOptions(**options))
    return table


def rows_of(table: Any, block_rows: int = 7) -> np.ndarray:
    return np.concatenate([block.rows for block in table.blocks(block_rows)])


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Map in this process, which is quicker than a child."""

    def child(path: Path, part: Any) -> list[dict[str, Any]]:
        return hdf5_map.describe(str(part.path), part.start, part.length)

    monkeypatch.setattr(keras_, "_child", child)


MODEL = """
import os, sys
os.environ["KERAS_BACKEND"] = "torch"
import keras, numpy
def model(dtype="float32"):
    ids = keras.layers.Input((3,), dtype="int32")
    both = [keras.layers.Embedding(n, 8, name=name, dtype=dtype)(ids) for n, name in ((50, "user"), (70, "item"))]
    return keras.Model(ids, keras.layers.Dense(2)(keras.layers.Concatenate()(both)))
first = model()
first.compile(optimizer="adam", loss="mse")
first.optimizer.build(first.trainable_variables)
first.save(sys.argv[1] + "/m.keras")
first.save_weights(sys.argv[1] + "/m.weights.h5")
model("bfloat16").save_weights(sys.argv[1] + "/b.weights.h5")
numpy.savez(sys.argv[1] + "/m.npz", **{name: first.get_layer(name).get_weights()[0] for name in ("user", "item")})
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("keras")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", MODEL, str(folder)], capture_output=True, text=True)
    if "No module named 'keras'" in done.stderr:
        pytest.skip("needs keras")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", ["m.keras", "m.weights.h5"])
def test_the_embedding_layers_of_a_real_model(saved: Path, name: str) -> None:
    expected = np.load(saved / "m.npz")
    tables = keras_.open_tables(saved / name, None, OpenOptions())
    assert {table.n_rows for table in tables} == {50, 70}
    for layer in ("user", "item"):
        np.testing.assert_array_equal(rows_of(one(saved / name, layer)), expected[layer])
    infos = keras_.list_tables(saved / name)
    assert sorted(info.also for info in infos if info.embedding) == [("item",), ("user",)]
    assert [info.why for info in infos if "user" in info.also] == ["layer 'user' of type embedding"]
    assert not any(info.embedding for info in infos if info.name.startswith("optimizer"))
    assert {info.format for info in infos} == {"keras"}


def test_bfloat16_of_keras(saved: Path) -> None:
    table = one(saved / "b.weights.h5", "user")
    with h5py.File(saved / "b.weights.h5") as file:
        raw = next(
            np.frombuffer(file[f"layers/{name}/vars/0"][()].tobytes(), np.uint16)
            for name in file["layers"]
            if file[f"layers/{name}/vars"].attrs["name"] == "user"
        )
    assert table.dtype == "bfloat16"
    np.testing.assert_array_equal(rows_of(table).ravel(), (raw.astype(np.uint32) << 16).view(np.float32))


LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"data": E},
    "double": {"data": E.astype(np.float64)},
    "half": {"data": E.astype(np.float16), "chunks": (16, 3)},
    "big-endian": {"data": E.astype(">f4")},
    "chunked": {"data": E, "chunks": (8, 4)},
    "gzip": {"data": E, "chunks": (8, 10), "compression": "gzip"},
    "everything": {"data": E, "chunks": (10, 3), "compression": "gzip", "shuffle": True, "fletcher32": True},
    "growing": {"data": E, "maxshape": (None, 10)},
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("user_block", [0, 512])
def test_every_layout_of_hdf5(tmp_path: Path, kind: str, user_block: int) -> None:
    with h5py.File(tmp_path / "t.h5", "w", userblock_size=user_block) as file:
        file.create_dataset("group/emb", **LAYOUTS[kind])
    table = one(tmp_path / "t.h5")
    assert table.name == "group/emb"
    for block_rows in (1, 7, 100):
        np.testing.assert_array_equal(rows_of(table, block_rows), LAYOUTS[kind]["data"])


@pytest.mark.usefixtures("here")
def test_small_data_within_a_header_and_chunks_never_written(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "t.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        space, kind = h5py.h5s.create_simple((2, 3)), h5py.h5t.IEEE_F32LE
        h5py.h5d.create(file.id, b"small", kind, space, plist).write(h5py.h5s.ALL, h5py.h5s.ALL, E[:2, :3].copy())
        sparse = file.create_dataset("sparse", (20, 4), "f4", chunks=(5, 4), fillvalue=2.5)
        sparse[5:10] = 1
        file.create_dataset("nothing", (20, 4), "f4")
    np.testing.assert_array_equal(rows_of(one(tmp_path / "t.h5", "small")), E[:2, :3])
    expected = np.full((20, 4), 2.5)
    expected[5:10] = 1
    np.testing.assert_array_equal(rows_of(one(tmp_path / "t.h5", "sparse")), expected)
    with pytest.raises(FormatError, match=r"'nothing' of .* needs numbers that were written; got none"):
        one(tmp_path / "t.h5", "nothing")


@pytest.mark.usefixtures("here")
def test_filters_and_types_that_are_not_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file.create_dataset("lzf", data=E, compression="lzf")
        file["text"] = ["a", "b"]
        file["loop"] = h5py.SoftLink("/")
        file["same"] = file["lzf"]
    assert [info.name for info in keras_.list_tables(tmp_path / "t.h5")] in (["lzf"], ["same"])
    with pytest.raises(FormatError, match=r"needs the filters gzip, shuffle, fletcher32 or none; got filter 32000"):
        one(tmp_path / "t.h5")


@pytest.mark.usefixtures("here")
def test_quantized_layers_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "t.weights.h5", "w") as file:
        file["layers/embedding/vars/0"] = (E > 0).astype(np.int8)
        file["layers/embedding/vars/1"] = E[:, 0]
        file["layers/embedding/vars"].attrs["name"] = "user"
    with pytest.raises(FormatError, match=r"needs floating weights; got the codes of a quantized Keras layer"):
        one(tmp_path / "t.weights.h5", "user", dtype="int8")


@pytest.mark.usefixtures("here")
def test_codes_need_a_meaning(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["emb"] = (E > 0).astype(np.int8)
    with pytest.raises(FormatError, match="needs a scale beside its int8 codes"):
        one(tmp_path / "t.h5")
    np.testing.assert_array_equal(rows_of(one(tmp_path / "t.h5", dtype="int8")), E > 0)


def test_links_to_other_files_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["emb"] = E
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["link"] = h5py.ExternalLink("other.h5", "/emb")
    with pytest.raises(FormatError, match=r"got the link 'link' to another file. It was not opened"):
        keras_.list_tables(tmp_path / "t.h5")


def test_virtual_and_external_data_sets_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout((37, 10), "f4")
        layout[:] = h5py.VirtualSource("other.h5", "emb", (37, 10))
        file.create_virtual_dataset("emb", layout)
    with pytest.raises(FormatError, match="the virtual data set 'emb', which reads other files"):
        keras_.list_tables(tmp_path / "virtual.h5")
    with h5py.File(tmp_path / "external.h5", "w") as file:
        file.create_dataset("emb", (2, 2), "f4", external=[("/etc/passwd", 0, 16)])
    with pytest.raises(FormatError, match="the data set 'emb' whose numbers lie in another file"):
        keras_.list_tables(tmp_path / "external.h5")


def packed(path: Path, weights: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("model.weights.h5", weights)
    return path


def weights(folder: Path, rows: np.ndarray = E) -> bytes:
    with h5py.File(folder / "w.h5", "w") as file:
        file["layers/embedding/vars/0"] = rows
    return (folder / "w.h5").read_bytes()


@pytest.mark.usefixtures("here")
def test_compressed_archives_are_inflated_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = packed(tmp_path / "m.keras", weights(tmp_path))
    tables = keras_.open_tables(path, None, OpenOptions())
    np.testing.assert_array_equal(rows_of(tables[0]), E)
    del tables
    assert not list(tmp_path.glob("fullspan-*"))


def test_zip_bombs_are_not_inflated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras_, "SMALL_ENOUGH", 1000)
    with pytest.raises(FormatError, match=r"100 times their compressed size; got 1000000 from \d+. Is it a zip bomb"):
        keras_.list_tables(packed(tmp_path / "m.keras", bytes(10**6)))
    monkeypatch.setattr(keras_, "MAX_INFLATED", 100)
    with pytest.raises(FormatError, match="needs weights of at most 100 bytes"):
        keras_.list_tables(packed(tmp_path / "m.keras", np.random.default_rng(0).bytes(200)))


def test_archives_without_weights(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.keras", "w") as archive:
        archive.writestr("config.json", "{}")
    with pytest.raises(FormatError, match=r"needs one member 'model.weights.h5', as Keras 3 writes; got 0"):
        keras_.list_tables(tmp_path / "m.keras")


def test_other_bytes(tmp_path: Path) -> None:
    (path := tmp_path / "t.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(FormatError, match=r"needs a valid HDF5 file; got \w+Error: .*Is it damaged"):
        keras_.list_tables(path)


@pytest.mark.usefixtures("here")
def test_truncated_data(tmp_path: Path) -> None:
    (path := tmp_path / "t.h5").write_bytes(weights(tmp_path))
    entries = hdf5_map.describe(str(path), 0, path.stat().st_size)
    part = keras_._Part(path, 0, entries[0]["offset"] + 100)
    with pytest.raises(FormatError, match=r"'layers/embedding/vars/0' of .* needs 1480 bytes from \d+; got \d+"):
        keras_._rows(path, part, entries[0], np.dtype("<f4"))


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_a_crash_of_the_library_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "crash.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    (tmp_path / "fail.py").write_text("raise SystemExit('no h5py')")
    (tmp_path / "slow.py").write_text("import time; time.sleep(60)")
    (path := tmp_path / "t.h5").write_bytes(weights(tmp_path))
    monkeypatch.setattr(keras_, "_CHILD", tmp_path / "crash.py")
    with pytest.raises(FormatError, match=r"the HDF5 library ended with signal 11. Is it damaged"):
        keras_.list_tables(path)
    monkeypatch.setattr(keras_, "_CHILD", tmp_path / "fail.py")
    with pytest.raises(FormatError, match="the HDF5 library ended with no h5py"):
        keras_.list_tables(path)
    monkeypatch.setattr(keras_, "_CHILD", tmp_path / "slow.py")
    monkeypatch.setattr(keras_, "MAX_SECONDS", 0.2)
    with pytest.raises(FormatError, match=r"needs an HDF5 file that lists in 0.2 s"):
        keras_.list_tables(path)


def test_without_h5py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path := tmp_path / "t.h5").write_bytes(weights(tmp_path))
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match="Reading a Keras or HDF5 file needs the extra 'hdf5'"):
        keras_.list_tables(path)


def test_bounds_of_the_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(path := tmp_path / "t.h5", "w") as file:
        file.create_dataset("a/b", data=E, chunks=(1, 1))
        file["a/self"] = file["a"]
    size = path.stat().st_size
    assert [entry["name"] for entry in hdf5_map.describe(str(path), 0, size)] == ["a/b"]
    monkeypatch.setattr(hdf5_map, "MAX_CHUNKS", 10)
    with pytest.raises(hdf5_map.RefusedError, match="370 chunks in '/a/b'"):
        hdf5_map.describe(str(path), 0, size)
    monkeypatch.setattr(hdf5_map, "MAX_OBJECTS", 1)
    with pytest.raises(hdf5_map.RefusedError, match="more objects or deeper groups"):
        hdf5_map.describe(str(path), 0, size)
