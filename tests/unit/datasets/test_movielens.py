"""Ratings as a study needs them: encoded ids, the order of the file, scikit-learn's split."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import LabelEncoder

from fullspan.datasets import load_movielens, split
from fullspan.datasets.fetch import find
from fullspan.datasets.movielens import SETS
from fullspan.errors import InputError, UnknownNameError
from tests.unit.datasets.conftest import U_DATA


@pytest.fixture
def tiny(places):
    places.data.mkdir()
    (places.data / "u.data").write_bytes(U_DATA)
    return load_movielens(folder=places.data)


def test_ids_are_encoded_as_label_encoder_does(tiny):
    columns = np.array([line.split() for line in U_DATA.splitlines()]).astype(int).T
    np.testing.assert_array_equal(tiny.users, LabelEncoder().fit_transform(columns[0]))
    np.testing.assert_array_equal(tiny.items, LabelEncoder().fit_transform(columns[1]))
    assert (tiny.user_ids.tolist(), tiny.item_ids.tolist()) == ([2, 7, 9], [10, 20, 30])
    assert (tiny.n_users, tiny.n_items, len(tiny)) == (3, 3, 5)


def test_rows_keep_the_order_of_the_file(tiny):
    assert tiny.ratings.tolist() == [5, 3, 4, 1, 4]
    assert tiny.timestamps.tolist() == [881250949, 891717742, 878887116, 880606923, 886397596]
    assert (tiny.users.dtype, tiny.ratings.dtype) == (np.int64, np.float32)
    with pytest.raises(ValueError, match="read-only"):
        tiny.users[0] = 1


def test_liked_is_a_rating_of_four_or_more(tiny):
    assert tiny.liked().tolist() == [1, 0, 1, 0, 1]
    assert tiny.liked(5).tolist() == [1, 0, 0, 0, 0]


@pytest.mark.parametrize("n", [2, 3, 5, 10, 99, 1000, 100_000, 100_836])
@pytest.mark.parametrize(("test_size", "seed"), [(0.2, 42), (0.25, 0), (0.33, 7), (0.01, 1)])
def test_the_split_is_that_of_scikit_learn(n, test_size, seed):
    for mine, theirs in zip(
        split(n, test_size, seed), train_test_split(np.arange(n), test_size=test_size, random_state=seed), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(("n", "test_size"), [(1, 0.2), (10, 0.0), (10, 1.0), (10, -0.1), (10, float("nan"))])
def test_a_split_that_cannot_be(n, test_size):
    with pytest.raises(InputError, match=rf"split needs at least 2 rows .* got {n} rows and test_size {test_size}"):
        split(n, test_size)


def test_a_split_that_leaves_nothing_to_train_on():
    with pytest.raises(InputError, match="split needs at least one row to train on; got 2 rows and test_size 0.6"):
        split(2, 0.6)


def test_an_unknown_set():
    with pytest.raises(UnknownNameError, match=r'got \'100\'\. Did you mean "100k"\?'):
        load_movielens("100")


@pytest.mark.parametrize("name", SETS)
def test_the_real_set_where_it_is(name):
    chosen = SETS[name]
    if find(chosen.file, user="test") is None:
        pytest.skip(f"{chosen.file.name} is neither in FULLSPAN_DATA nor in the cache nor in an installed package")
    ratings = load_movielens(name)
    assert (len(ratings), ratings.n_users, ratings.n_items) == (chosen.n_ratings, chosen.n_users, chosen.n_items)
    assert len(np.unique(ratings.users * ratings.n_items + ratings.items)) == len(ratings)
    if name == "100k":
        assert ratings.liked().sum() == 55_375
        assert np.bincount(ratings.ratings.astype(int)).tolist() == [0, 6110, 11370, 27145, 34174, 21201]
