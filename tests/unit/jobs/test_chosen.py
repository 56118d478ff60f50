"""Names and globs over the tables of a source."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan.errors import UnknownNameError
from fullspan.jobs.chosen import open_chosen

SOURCE = {"user_embedding": np.ones((4, 2)), "item_embedding": np.ones((9, 2)), "item_[1]": np.ones((5, 2))}


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (None, ["user_embedding", "item_embedding", "item_[1]"]),
        ("item_embedding", ["item_embedding"]),
        (["item_*", "user_embedding", "*_embedding"], ["item_embedding", "item_[1]", "user_embedding"]),
        ("item_[1]", ["item_[1]"]),
        ("user_?mbedding", ["user_embedding"]),
    ],
)
def test_names_and_globs(asked, names):
    assert [table.name for table in open_chosen(SOURCE, asked)] == names


@pytest.mark.parametrize("asked", ["itm_embedding", ["itm_embedding", "user_embedding"], "itm_*"])
def test_what_matches_nothing_is_an_error(asked):
    with pytest.raises(UnknownNameError, match="itm_"):
        open_chosen(SOURCE, asked)
