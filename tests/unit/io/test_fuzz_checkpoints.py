"""Thousands of damaged files a reader, in a process with little memory: each ends in a whole table or in our error.

Run as a script, the file is that process: ``python test_fuzz_checkpoints.py FORMAT COUNT``.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fullspan.errors import FormatError, FullspanError
from fullspan.io.base import OpenOptions

EXTRA_MEMORY = 512 * 2**20
E = np.arange(24, dtype="<f4").reshape(8, 3) / 7


def safetensors_bytes() -> bytes:
    header = {
        "__metadata__": {"format": "pt"},
        "emb.weight": {"dtype": "F32", "shape": [8, 3], "data_offsets": [0, 96]},
        "b": {"dtype": "BF16", "shape": [4, 3], "data_offsets": [96, 120]},
        "q.weight": {"dtype": "I8", "shape": [8, 3], "data_offsets": [120, 144]},
        "q.weight_scale": {"dtype": "F32", "shape": [8], "data_offsets": [144, 176]},
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + E.tobytes() + bytes(80)


def gguf_bytes() -> bytes:
    def string(text: str) -> bytes:
        return struct.pack("<Q", len(text)) + text.encode()

    tokens = b"".join(string(f"t{number}") for number in range(8))
    values = [
        string("general.alignment") + struct.pack("<II", 4, 32),
        string("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 8) + tokens,
        string("nested") + struct.pack("<IIQIQ", 9, 9, 1, 5, 2) + bytes(8),
        string("x") + struct.pack("<If", 6, 1.5),
    ]
    tensors = string("token_embd.weight") + struct.pack("<IQQIQ", 2, 3, 8, 0, 0)
    tensors += string("half") + struct.pack("<IQQIQ", 2, 4, 2, 1, 96)
    header = b"GGUF" + struct.pack("<IQQ", 3, 2, len(values)) + b"".join(values) + tensors
    return header + bytes(-len(header) % 32) + E.tobytes() + bytes(16)


def faiss_bytes() -> bytes:
    flat = b"IxF2" + struct.pack("<iqqqBi", 3, 8, 2**20, 2**20, 1, 1) + struct.pack("<Q", 24) + E.tobytes()
    return b"IxMp" + struct.pack("<iqqqBi", 3, 8, 2**20, 2**20, 1, 1) + flat + struct.pack("<Q8q", 8, *range(8))


def torch_pickle() -> bytes:
    """What torch.save writes for ``{"emb.weight": E, "more": [E.T]}``, without torch."""

    def tensor(size: tuple[int, int], strides: tuple[int, int]) -> bytes:
        storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x18tQ"
        return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00" + pair(size) + pair(strides) + b"\x89NtR"

    def pair(numbers: tuple[int, int]) -> bytes:
        return b"K%cK%c\x86" % numbers

    def text(name: bytes) -> bytes:
        return b"X" + struct.pack("<I", len(name)) + name

    body = text(b"emb.weight") + tensor((8, 3), (3, 1)) + text(b"more") + b"](" + tensor((3, 8), (1, 3)) + b"e"
    return b"\x80\x02}(" + body + b"u."


def torch_bytes() -> bytes:
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("a/data.pkl", torch_pickle())
            archive.writestr("a/byteorder", "little")
            archive.writestr("a/data/0", E.tobytes())
        return buffer.getvalue()


def stream_bytes() -> bytes:
    """The same in the format before torch 1.6."""
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    parts = [pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, system)]
    return b"".join([*parts, torch_pickle(), pickle.dumps(["0"], 2), struct.pack("<q", 24), E.tobytes()])


def one_tensor_bytes() -> bytes:
    whole = torch_pickle()
    start, end = whole.index(b"ctorch._utils"), whole.index(b"R") + 1
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("archive/data.pkl", b"\x80\x02" + whole[start:end] + b".")
            archive.writestr("archive/data/0", E.tobytes())
        return buffer.getvalue()


class _Pickled:
    """Pickles as an object of a class that this process does not have."""

    def __init__(self, name: str, state: Any = None, args: tuple[Any, ...] = ()) -> None:
        self.name, self.state, self.args = name, state, args


class _Namer(pickle._Pickler):  # type: ignore[name-defined]
    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if not isinstance(obj, _Pickled):
            return super().save(obj)
        module, _, name = obj.name.rpartition(".")
        self.write(f"c{module}\n{name}\n".encode())
        if obj.state is None and not obj.args:
            return None
        super().save(obj.args)
        self.write(b"R")
        if obj.state is not None:
            super().save(obj.state)
            self.write(b"b")
        return None


def dcp_metadata(length: int, file: str = "__0_0.distcp") -> bytes:
    base = "torch.distributed.checkpoint"

    def size(*sizes: int) -> _Pickled:
        return _Pickled("torch.Size", args=(sizes,))

    chunk = _Pickled(f"{base}.metadata.ChunkStorageMetadata", {"offsets": size(0, 0), "sizes": size(8, 3)})
    properties = _Pickled(f"{base}.metadata.TensorProperties", (_Pickled("torch.float32"), None, False, None, False))
    table = {"properties": properties, "size": size(8, 3), "chunks": [chunk]}
    index = _Pickled(f"{base}.metadata.MetadataIndex", {"fqn": "emb.weight", "offset": size(0, 0), "index": 0})
    place = {"relative_path": file, "offset": 0, "length": length}
    state = {
        "state_dict_metadata": {"emb.weight": _Pickled(f"{base}.metadata.TensorStorageMetadata", table)},
        "storage_data": {index: _Pickled(f"{base}.filesystem._StorageInfo", place)},
    }
    with io.BytesIO() as buffer:
        _Namer(buffer, protocol=2).dump(_Pickled(f"{base}.metadata.Metadata", state))
        return buffer.getvalue()


def hdf5_bytes() -> bytes:
    import h5py

    with io.BytesIO() as buffer:
        with h5py.File(buffer, "w") as file:
            layer = file.create_group("layers/embedding/vars")
            layer.attrs["name"] = "user"
            layer["0"] = E
            file.create_dataset("packed", data=E, chunks=(4, 2), compression="gzip", shuffle=True)
        return buffer.getvalue()


def mutate(data: bytes, seed: int) -> bytes:
    """One to three flips, cuts, insertions or huge numbers at places drawn by `seed`, mostly early in the file."""
    random = np.random.default_rng(seed)
    out = bytearray(data)
    for _ in range(int(random.integers(1, 4))):
        reach = len(out) if random.random() < 0.5 else min(len(out), 200)
        at = int(random.integers(0, max(1, reach)))
        kind = int(random.integers(0, 7))
        if kind == 0 and out:
            out[at] ^= 1 << int(random.integers(0, 8))
        elif kind == 1 and out:
            out[at] = int(random.choice([0, 1, 0x20, 0x7F, 0x80, 0xFF]))
        elif kind == 2:
            del out[at:]
        elif kind == 3:
            del out[at : at + int(random.integers(1, 9))]
        elif kind == 4:
            out[at:at] = random.bytes(int(random.integers(1, 9)))
        elif kind == 5:
            huge = int(random.choice([2**31 - 1, 2**32 - 1, 2**62, 2**63 - 1, 10**12, 0]))
            out[at : at + 8] = struct.pack("<Q", huge)
        else:
            start = int(random.integers(0, max(1, len(out))))
            out[at:at] = out[start : start + int(random.integers(1, 40))]
    return bytes(out)


def read_all(module: Any, path: Path, size: int) -> int:
    """Open and read every table; the number of them."""
    options = OpenOptions(dtype="int8")
    infos = module.list_tables(path)
    tables = module.open_tables(path, None, options)
    for table in tables:
        n_rows = 0
        for block in table.blocks():
            assert block.rows.shape[1] == table.dim
            assert block.rows.dtype in (np.float16, np.float32, np.float64)
            n_rows += len(block)
        assert n_rows == table.n_rows
        assert n_rows * table.dim <= 8 * max(size, 4096)
    assert len(tables) <= len(infos)
    return len(tables)


CRASHES: list[int] = []
#: Damaged HDF5 files that one fork looks at: the library starts anew often, and its start is paid once for many.
BATCH = 100


def mapped(files: list[Path]) -> dict[Path, list[dict[str, Any]] | None]:
    """What the child of the reader says of each file, None where it refuses or dies: forks, each for many files."""
    answers: dict[Path, list[dict[str, Any]] | None] = {}
    while len(answers) < len(files):
        rest = files[len(answers) : len(answers) + BATCH]
        lines = forked(rest)
        answers |= {file: json.loads(line) for file, line in zip(rest, lines, strict=False)}
        if len(lines) < len(rest):  # the fork died at this one
            answers[rest[len(lines)]] = None
    return answers


def forked(files: list[Path]) -> list[bytes]:
    """One line of JSON a file from a fork of this process, up to the one that it dies at."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            describe_each(files, writer)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        lines = [line for line in pipe.read().splitlines(keepends=True) if line.endswith(b"\n")]
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        CRASHES.append(os.WTERMSIG(status))
    return lines


def describe_each(files: list[Path], writer: int) -> None:
    from fullspan.io import hdf5_map

    with os.fdopen(writer, "wb", buffering=0) as pipe:
        for file in files:
            signal.alarm(2)
            try:
                answer = hdf5_map.describe(str(file), 0, file.stat().st_size)
            except Exception:
                answer = None
            pipe.write(json.dumps(answer).encode() + b"\n")


def read_mapped(count: int) -> tuple[int, int, float]:
    """Damage an HDF5 file `count` times, and read each: how many could be read, how many not, and the slowest."""
    import h5py  # noqa: F401  # loaded before memory is limited, as the child does

    from fullspan.io import keras_

    good = bad = 0
    slowest = 0.0
    data = hdf5_bytes()
    with tempfile.TemporaryDirectory(dir=in_memory()) as name:
        whole = Path(name) / "whole.weights.h5"
        whole.write_bytes(data)
        files = [whole, *(Path(name) / f"{seed}.weights.h5" for seed in range(count))]
        for seed, file in enumerate(files[1:]):
            file.write_bytes(mutate(data, seed))
        limit_memory()
        answers = mapped(files)
        keras_._child = lambda path, part: answers[path] if answers[path] is not None else refuse(path)
        assert read_all(keras_, whole, 10_000) > 0
        for file in files[1:]:
            began = time.perf_counter()
            if is_read(keras_, file, file.stat().st_size, file.name):
                good += 1
            else:
                bad += 1
            slowest = max(slowest, time.perf_counter() - began)
    return good, bad, slowest


def refuse(path: Path) -> Any:
    raise FormatError(f"the child died at {path.name} or refused it")


def is_read(module: Any, path: Path, size: int, told: str) -> bool:
    """Whether every table could be read; where not, the error must be one of ours."""
    try:
        read_all(module, path, size)
    except Exception as error:
        if not is_ours(error):
            raise AssertionError(f"mutation {told}: {error!r}") from error
        return False
    return True


def in_memory() -> Path | None:
    """Where files lie in memory: one that is rewritten on a disk waits for the disk."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else None


def is_ours(error: Exception) -> bool:
    """Whether it is an error of ours, on one line, that hides no bug."""
    hides_a_bug = isinstance(error.__cause__, (NameError, AssertionError))
    return isinstance(error, FullspanError) and "\n" not in str(error) and not hides_a_bug


def prepare(kind: str, folder: Path) -> tuple[Any, Path, list[tuple[Path, bytes]]]:
    """The reader, what it opens, and the files that are damaged in turn."""
    from fullspan.io import dcp, faiss_, gguf_, safetensors_, torch_

    if kind == "dcp":
        shard = one_tensor_bytes()
        files = [(folder / ".metadata", dcp_metadata(len(shard))), (folder / "__0_0.distcp", shard)]
        return dcp, folder, files
    module, suffix, data = {
        "safetensors": (safetensors_, ".safetensors", safetensors_bytes),
        "gguf": (gguf_, ".gguf", gguf_bytes),
        "faiss": (faiss_, ".faiss", faiss_bytes),
        "torch": (torch_, ".pt", torch_bytes),
        "torch-stream": (torch_, ".pt", stream_bytes),
    }[kind]
    path = folder / f"table{suffix}"
    return module, path, [(path, data())]


def limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    bound = pages * resource.getpagesize() + EXTRA_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))


def main(kind: str, count: int) -> None:
    good, bad, slowest = read_mapped(count) if kind == "hdf5" else read_damaged(kind, count)
    outcome = {"good": good, "bad": bad, "slowest": slowest, "crashes": len(CRASHES)}
    sys.stdout.write(json.dumps(outcome) + "\n")


def read_damaged(kind: str, count: int) -> tuple[int, int, float]:
    """Damage the files of a format `count` times, and read each: how many could be read, how many not, the slowest."""
    good = bad = 0
    slowest = 0.0
    with tempfile.TemporaryDirectory(dir=in_memory()) as name:
        module, path, files = prepare(kind, Path(name))
        for file, data in files:
            file.write_bytes(data)
        assert read_all(module, path, 10_000) > 0
        limit_memory()
        for seed in range(count):
            file, data = files[seed % len(files)]
            damaged = mutate(data, seed)
            file.write_bytes(damaged)
            began = time.perf_counter()
            if is_read(module, path, len(damaged), f"{seed} of {kind}"):
                good += 1
            else:
                bad += 1
            slowest = max(slowest, time.perf_counter() - began)
            file.write_bytes(data)
    return good, bad, slowest


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS and /proc")
@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("safetensors", 2000),
        ("gguf", 2000),
        ("faiss", 2000),
        ("torch", 2000),
        ("torch-stream", 2000),
        ("dcp", 2000),
        ("hdf5", 5000),
    ],
)
def test_every_damaged_file_ends_in_a_table_or_in_our_error(kind: str, count: int) -> None:
    if kind == "hdf5":
        pytest.importorskip("h5py")
    done = subprocess.run(
        [sys.executable, "-W", "error", __file__, kind, str(count)], capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stderr[-2000:]
    outcome = json.loads(done.stdout)
    assert outcome["good"] + outcome["bad"] == count
    assert outcome["good"] > 0
    assert outcome["bad"] > count // 4
    assert outcome["slowest"] < 5


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
