"""Ids, labels and frequencies from a column of another file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import fullspan as fs
from fullspan.errors import InputError, UnknownNameError
from fullspan.io.formats import open_table

ROWS = np.arange(12.0).reshape(4, 3)
WORDS = ["the", "of", "to", "ä:b"]


@pytest.mark.parametrize("write", [pq.write_table, lambda table, path: feather.write_feather(table, str(path))])
def test_the_only_column_needs_no_name(tmp_path, write):
    write(pa.table({"index": WORDS}), tmp_path / "words.any")
    [block] = open_table(ROWS, ids=tmp_path / "words.any").blocks()
    assert list(block.ids) == WORDS


def test_one_of_several_is_named_after_a_colon(tmp_path):
    file = tmp_path / "my words.parquet"
    pq.write_table(pa.table({"word": WORDS, "count": [4, 3, 2, 1]}), file)
    [block] = open_table(ROWS, ids=f"{file}:word", frequencies=f"{file}:count").blocks()
    assert list(block.ids) == WORDS
    assert block.frequencies.tolist() == [4.0, 3.0, 2.0, 1.0]
    with pytest.raises(InputError, match=r'Name it as "my words.parquet:COLUMN": word, count'):
        open_table(ROWS, ids=file)
    with pytest.raises(UnknownNameError, match="has no column 'token'; it has word, count"):
        open_table(ROWS, ids=f"{file}:token")


def test_nulls_are_refused(tmp_path):
    pq.write_table(pa.table({"word": ["a", None, "b", "c"]}), tmp_path / "w.parquet")
    with pytest.raises(InputError, match="a value in every row; got 1 nulls in column 'word'"):
        open_table(ROWS, ids=tmp_path / "w.parquet")


def test_a_missing_integer_id_leaves_the_others_numbers(tmp_path):
    """Blocks with and without a missing id are of one kind, so that versions of a table can be aligned."""
    ids = [*range(7), None, 2**60 + 1]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(27.0)), 3)
    table = pa.table({"id": pa.array(ids), "text": list("abcdefghi"), "vector": vectors})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        blocks = list(fs.open_table(source, column="vector", ids="id").blocks(3))
        assert [each for block in blocks for each in block.ids.tolist()] == ids
    with pytest.raises(InputError, match="got None and int in the old table. Fill in what is missing"):
        fs.drift(table, table, column="vector", ids="id")
    assert len(fs.drift(table, table, column="vector", ids="text")) == 1


def test_a_missing_integer_label_is_a_group_of_its_own():
    labels = [each % 2 for each in range(80)]
    labels[70] = None
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.random.default_rng(0).normal(size=240)), 3)
    table = pa.table({"label": pa.array(labels), "vector": vectors})
    for block_rows in (None, 20):
        report = fs.measure(table, column="vector", by="label", labels="label", block_rows=block_rows)
        (record,) = (each.record for each in report)
        counts = {name: readings["mean_norm"].detail["n_rows"] for name, readings in record.groups.items()}
        assert counts == {"no label": 1, "0": 39, "1": 40}


def test_arrays_of_other_libraries_with_a_missing_value():
    import pandas as pd

    for ids in (pa.array([1, None, 3]), pa.chunked_array([[1], [None, 3]]), pd.Series([1, None, 3], dtype="Int64")):
        (block,) = fs.open_table(np.ones((3, 2)), ids=ids).blocks()
        assert block.ids.tolist() == [1, None, 3]
