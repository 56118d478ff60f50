"""Thousands of damaged flat files a reader, with little memory: each ends in a whole table or in our error.

Run as a script, the file is that process: ``python test_fuzz_flat.py FORMAT COUNT``.
"""

from __future__ import annotations

import faulthandler
import io
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from fullspan.errors import FullspanError
from fullspan.io.formats import list_tables, open_tables

EXTRA_MEMORY = 512 * 2**20
N_ROWS, DIM = 12, 3
E = np.arange(N_ROWS * DIM, dtype="<f4").reshape(N_ROWS, DIM) / 7
WORDS = [f"w{row}" for row in range(N_ROWS)]


def npy_bytes() -> bytes:
    with io.BytesIO() as buffer:
        np.save(buffer, E)
        return buffer.getvalue()


def npz_bytes() -> bytes:
    with io.BytesIO() as buffer:
        np.savez_compressed(buffer, E=E, ids=np.array(WORDS), counts=np.arange(N_ROWS))
        return buffer.getvalue()


def _columns():
    import pyarrow as pa

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(E.ravel()), DIM)
    ragged = pa.array(E.astype(float).tolist(), pa.list_(pa.float32()))
    return pa.table({"id": WORDS, "vec": vectors, "emb": ragged, "count": list(range(N_ROWS))})


def parquet_bytes() -> bytes:
    import pyarrow.parquet as pq

    with io.BytesIO() as buffer:
        pq.write_table(_columns(), buffer, row_group_size=5)
        return buffer.getvalue()


def arrow_bytes() -> bytes:
    import pyarrow.feather as pf

    with io.BytesIO() as buffer:
        pf.write_feather(_columns(), buffer, compression="uncompressed", chunksize=5)
        return buffer.getvalue()


def packed_arrow_bytes() -> bytes:
    import pyarrow.feather as pf

    with io.BytesIO() as buffer:
        pf.write_feather(_columns(), buffer, compression="lz4", chunksize=5)
        return buffer.getvalue()


def arrow_stream_bytes() -> bytes:
    import pyarrow as pa

    table = _columns()
    with io.BytesIO() as buffer:
        with pa.ipc.new_stream(buffer, table.schema) as writer:
            writer.write_table(table, max_chunksize=5)
        return buffer.getvalue()


def word2vec_bytes() -> bytes:
    rows = (word.encode() + b" " + row.tobytes() + b"\n" for word, row in zip(WORDS, E, strict=True))
    return f"{N_ROWS} {DIM}\n".encode() + b"".join(rows)


KINDS = {
    "npy": (".npy", npy_bytes),
    "npz": (".npz", npz_bytes),
    "parquet": (".parquet", parquet_bytes),
    "arrow": (".arrow", arrow_bytes),
    "arrow-packed": (".feather", packed_arrow_bytes),
    "arrow-stream": (".arrow", arrow_stream_bytes),
    "word2vec": (".bin", word2vec_bytes),
}


def mutate(data: bytes, seed: int) -> bytes:
    """One to three flips, cuts, insertions or huge numbers at places drawn by `seed`, often near either end."""
    random = np.random.default_rng(seed)
    out = bytearray(data)
    for _ in range(int(random.integers(1, 4))):
        near_start, near_end = random.random() < 0.3, random.random() < 0.3
        low = max(0, len(out) - 600) if near_end else 0
        high = min(len(out), 128) if near_start and not near_end else len(out)
        at = int(random.integers(low, max(low + 1, high)))
        kind = int(random.integers(0, 7))
        if kind == 0 and at < len(out):
            out[at] ^= 1 << int(random.integers(0, 8))
        elif kind == 1 and at < len(out):
            out[at] = int(random.choice([0, 1, 0x20, 0x30, 0x39, 0x7F, 0x80, 0xFF]))
        elif kind == 2:
            del out[at:]
        elif kind == 3:
            del out[at : at + int(random.integers(1, 9))]
        elif kind == 4:
            out[at:at] = random.bytes(int(random.integers(1, 9)))
        elif kind == 5:
            huge = int(random.choice([2**31 - 1, 2**32 - 1, 2**62, 2**63 - 1, 10**12, 0]))
            out[at : at + 8] = huge.to_bytes(8, "little")
        else:
            start = int(random.integers(0, max(1, len(out))))
            out[at:at] = out[start : start + int(random.integers(1, 40))]
    return bytes(out)


def read_all(path: Path, size: int) -> None:
    """List, open and read every table."""
    list_tables(path)
    for table in open_tables(path):
        n_rows = 0
        for block in table.blocks():
            assert block.rows.shape[1] == table.dim
            assert block.rows.dtype in (np.float16, np.float32, np.float64)
            assert block.start == n_rows
            n_rows += len(block)
        assert n_rows == (table.n_rows or n_rows)
        assert n_rows * table.dim <= 1100 * max(size, 4096)


def is_ours(error: Exception) -> bool:
    """Whether it is an error of ours, on one line, that hides no bug."""
    hides_a_bug = isinstance(error.__cause__, (NameError, AttributeError, AssertionError))
    return isinstance(error, FullspanError) and "\n" not in str(error) and not hides_a_bug


def limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    bound = pages * resource.getpagesize() + EXTRA_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))


def main(kind: str, first: int, count: int) -> None:
    suffix, make = KINDS[kind]
    data = make()
    good = bad = 0
    slowest = 0.0
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        path = Path(name) / f"table{suffix}"
        path.write_bytes(data)
        read_all(path, 10_000)
        limit_memory()
        for seed in range(first, first + count):
            damaged = mutate(data, seed)
            path.write_bytes(damaged)
            began = time.perf_counter()
            try:
                read_all(path, len(damaged))
                good += 1
            except Exception as error:
                if not is_ours(error):
                    raise AssertionError(f"mutation {seed} of {kind}: {error!r}") from error
                bad += 1
            slowest = max(slowest, time.perf_counter() - began)
    sys.stdout.write(json.dumps({"good": good, "bad": bad, "slowest": slowest}) + "\n")


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS and /proc")
@pytest.mark.parametrize("kind", list(KINDS))
def test_every_damaged_file_ends_in_a_table_or_in_our_error(kind: str) -> None:
    count = 2000
    done = subprocess.run(
        [sys.executable, "-W", "error", __file__, kind, "0", str(count)], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcome = json.loads(done.stdout)
    assert outcome["good"] + outcome["bad"] == count
    assert outcome["good"] > 0
    assert outcome["bad"] > count // 4
    assert outcome["slowest"] < 5


if __name__ == "__main__":
    faulthandler.enable()
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
