"""Tables to try things on, and data to train on. What is bundled is real, small, and free to redistribute."""

from __future__ import annotations

from fullspan.datasets.bundled import GloVe, glove_path, load_glove
from fullspan.datasets.movielens import Ratings, load_movielens, split

__all__ = ["GloVe", "Ratings", "glove_path", "load_glove", "load_movielens", "split"]
