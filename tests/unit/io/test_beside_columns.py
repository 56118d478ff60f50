"""Ids, labels and frequencies from a column of another file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

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
