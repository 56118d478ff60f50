"""Groups of rows by labels of every kind that files hold."""

from __future__ import annotations

import numpy as np
import pytest

import fullspan as fs
from fullspan._typing import Block
from fullspan.errors import InputError
from fullspan.summaries.groups import Grouped
from fullspan.summaries.moments import Moments
from fullspan.summaries.unit_mean import UnitMean

LABELS = {
    "text": np.array(["a", "b", "a", "c"]),
    "objects": np.array(["a", "b", "a", "c"], dtype=object),
    "numbers": np.array([1, 2, 1, 3]),
    "missing": np.array(["a", None, "a", float("nan")], dtype=object),
    "mixed": np.array(["a", 1, "a", 2.5], dtype=object),
    "nan": np.array([1.0, np.nan, 1.0, np.nan]),
    "lists": np.array([["x"], "b", ["x"], "c"], dtype=object),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_of_every_kind_split_the_rows(labels):
    E = np.arange(8.0).reshape(4, 2)
    whole = Grouped.of(Block(E, labels=labels), plan=Moments, by="label")
    parts = [Grouped.of(Block(E[i : i + 1], i, labels=labels[i : i + 1]), plan=Moments, by="label") for i in range(4)]
    merged = sum(parts[1:], parts[0])
    assert list(whole.parts) == list(merged.parts)
    sizes = {key: part[Moments].n_rows for key, part in whole.parts.items()}
    assert sizes == {key: part[Moments].n_rows for key, part in merged.parts.items()}
    assert sum(sizes.values()) == 4
    first = next(key for key, size in sizes.items() if size == 2 and key is not None)
    np.testing.assert_allclose(whole.parts[first][Moments].mean, E[[0, 2]].mean(axis=0))


def test_a_column_of_a_file_names_groups(tmp_path):
    path = tmp_path / "labelled.csv"
    rows = [f"{'xy'[i % 2] if i % 3 else ''},{i * 0.5},{-i},{i % 7}" for i in range(300)]
    path.write_text("kind,a,b,c\n" + "\n".join(rows) + "\n")
    report = fs.measure(path, by="kind", neighbors=False)
    groups = report.tables["labelled"].record.groups
    assert {"x", "y"} <= set(groups)
    assert groups["x"]["mean_norm"].value > 0


def test_groups_of_wide_tables_are_fewer():
    block = Block(np.ones((300, 768), dtype=np.float32), labels=np.arange(300))
    with pytest.raises(InputError, match="at most 227 different keys at dim 768"):
        Grouped.of(block, plan=UnitMean, by="label")
