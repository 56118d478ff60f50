"""The table that ships with the package."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan.datasets import glove_path, load_glove
from fullspan.errors import InputError


def test_the_file_is_small_and_its_licence_lies_beside_it():
    assert glove_path().stat().st_size < 4_000_000
    assert "Public Domain Dedication" in (glove_path().parent / "LICENCE.txt").read_text(encoding="utf-8")


def test_the_vectors_are_those_of_glove():
    glove = load_glove()
    assert glove.vectors.shape == (20_000, 50)
    assert glove.vectors.dtype == np.float32
    assert list(glove.words[:3]) == ["the", ",", "."]
    # First numbers of the line "the" of glove.6B.50d.txt.
    np.testing.assert_array_equal(glove.vectors[0, :4], np.float32([0.418, 0.24968, -0.41242, 0.1217]))
    assert np.isfinite(glove.vectors).all()


def test_words_are_unique_and_ranked():
    glove = load_glove()
    assert len(set(glove.words)) == len(glove) == 20_000
    np.testing.assert_array_equal(glove.rank, np.arange(1, 20_001))
    np.testing.assert_array_equal(glove.zipf_frequency, (1 / glove.rank).astype(np.float32))


def test_similar_words_lie_close():
    glove = load_glove()
    unit = glove.vectors / np.linalg.norm(glove.vectors, axis=1, keepdims=True)
    place = {word: index for index, word in enumerate(glove.words)}
    nearest = np.argsort(-(unit @ unit[place["king"]]))[1:6]
    assert {"queen", "prince"} & set(glove.words[nearest])


def test_the_first_rows_alone():
    part = load_glove(100)
    assert len(part) == len(part.words) == len(part.rank) == 100
    np.testing.assert_array_equal(part.vectors, load_glove().vectors[:100])


def test_the_vectors_cannot_be_overwritten():
    with pytest.raises(ValueError, match="read-only"):
        load_glove(10).vectors[0, 0] = 1.0


@pytest.mark.parametrize("n_rows", [0, -1, 20_001])
def test_more_rows_than_there_are(n_rows):
    with pytest.raises(InputError, match=rf"load_glove needs n_rows between 1 and 20000; got {n_rows}\."):
        load_glove(n_rows)
