"""Equal rows: exact counts and groups within the bound, honest estimates beyond it."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan.errors import InputError
from fullspan.summaries.duplicates import Duplicates
from fullspan.summaries.hashing import mixed, row_hashes


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("dim", [1, 2, 5, 64])
def test_counts_agree_with_numpy(dim, dtype):
    rng = np.random.default_rng(dim)
    table = rng.normal(size=(300, dim)).astype(dtype)[rng.integers(0, 300, size=500)]
    made = sum(Duplicates.of(part, start=start) for part, start in ((table[:123], 0), (table[123:], 123)))
    assert made.exact
    assert made.relative_error == 0.0
    assert made.n_distinct == len(np.unique(table, axis=0))
    assert made.n_duplicates == 500 - made.n_distinct


def test_groups_are_named_largest_first():
    table = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    table[[5, 50, 99]] = table[5]
    table[[7, 8]] = table[7]
    table[40:70] = 0.0
    table[41:70:2] = -0.0
    ids = np.array([f"w{number}" for number in range(100)])
    made = Duplicates.of(table, ids=ids)
    zero, three, two = made.groups()
    assert zero["size"] == 30
    assert [row["position"] for row in zero["rows"]] == list(range(40, 60))
    assert three == {"size": 2, "rows": [{"position": 5, "id": "w5"}, {"position": 99, "id": "w99"}]}
    assert two == {"size": 2, "rows": [{"position": 7, "id": "w7"}, {"position": 8, "id": "w8"}]}
    assert made.groups(1) == [zero]
    assert made.n_groups == 3
    with pytest.raises(InputError, match="limit of at least 1; got 0"):
        made.groups(0)


def test_no_duplicates():
    made = Duplicates.of(np.arange(40.0).reshape(20, 2))
    assert (made.n_distinct, made.n_duplicates, made.groups(), made.n_groups) == (20, 0, [], 0)


@pytest.mark.parametrize("parts", [1, 6])
def test_beyond_the_bound_the_estimate_is_within_its_error(parts):
    rng = np.random.default_rng(5)
    table = np.arange(60_000, dtype=np.float64)[:, None] * np.ones(2)
    table = table[np.concatenate([np.arange(60_000), rng.integers(0, 60_000, size=20_000)])]
    table[rng.permutation(80_000)[:15_000]] = 0.0  # one large group must not spoil the sample
    true = len(np.unique(table[:, 0]))
    pieces = np.array_split(np.arange(80_000), parts)
    made = sum(Duplicates.of(table[piece], start=piece[0], memory=1 << 17) for piece in pieces)
    assert not made.exact
    assert 0 < made.relative_error < 0.05
    assert abs(made.n_distinct / true - 1) < 4 * made.relative_error
    assert made.entries.nbytes <= 1 << 17
    for group in made.groups(3):
        values = table[[row["position"] for row in group["rows"]]]
        assert (values == values[0]).all()
        assert group["size"] == np.sum(table[:, 0] == values[0, 0])


def test_a_table_of_one_row_repeated_stays_exact_in_little_memory():
    made = sum(Duplicates.of(np.ones((4000, 3)), start=start, memory=1 << 16) for start in (0, 4000, 8000))
    assert made.exact
    assert (made.n_distinct, made.n_duplicates) == (1, 11_999)
    (group,) = made.groups()
    assert group["size"] == 12_000
    assert [row["position"] for row in group["rows"]] == list(range(20))


def test_ids_are_dropped_before_hashes():
    table = np.ones((3000, 1))
    ids = np.array([f"a rather long name of row number {number}" for number in range(3000)])
    made = Duplicates.of(table, ids=ids, memory=1 << 17)
    assert made.exact
    assert made.groups()[0]["rows"][0] == {"position": 0, "id": None}


def test_hashes_do_not_collide_on_structured_rows():
    grid = np.array(np.meshgrid(*[np.arange(-4.0, 4.0)] * 6)).reshape(6, -1).T
    for dtype in (np.float32, np.float64):
        hashes = row_hashes(grid.astype(dtype))
        assert len(np.unique(hashes)) == len(grid)
        assert len(np.unique(hashes >> np.uint64(20))) > len(grid) * 0.999
    assert len(np.unique(row_hashes(np.eye(500)))) == 500
    assert len(np.unique(mixed(np.arange(100_000)))) == 100_000


def test_a_permutation_of_the_entries_is_another_row():
    assert len(np.unique(row_hashes(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [2.0, 1.0, 3.0]])))) == 3


def test_messages():
    with pytest.raises(InputError, match="at least 65,536 bytes; got 100"):
        Duplicates.of(np.ones((1, 1)), memory=100)
    with pytest.raises(InputError, match="merge needs one memory bound; got"):
        Duplicates.of(np.ones((1, 1))).merge(Duplicates.of(np.ones((1, 1)), memory=1 << 20))
