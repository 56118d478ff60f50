"""Texts as GloVe word vectors: the intents of Banking77 where they are at hand, else words by their ending."""

from __future__ import annotations

import csv
import hashlib
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from fullspan.datasets.bundled import load_glove
from fullspan.errors import InputError
from fullspan.studies.base.study import Data

__all__ = ["ENDINGS", "LENGTH", "load"]

#: Words of a text that are looked at.
LENGTH = 12
ENDINGS = ("ing", "ed", "ly", "tion", "er", "al", "ist", "able", "ity", "est", "ous", "ness")
_WORD = re.compile(r"[a-z]+|[0-9]+")


def load(folder: str | None = None) -> Data:
    """Tokens, labels and word vectors that all runs share.

    Parameters
    ----------
    folder
        Folder that holds ``banking77/train.csv``; by default the environment variable ``FULLSPAN_DATA``. Without
        either, the task is the ending of a word, told from its vector alone.

    Raises
    ------
    InputError
        A folder was named, and the file is not in it.
    """
    named = folder or os.environ.get("FULLSPAN_DATA")
    path = Path(named) / "banking77" / "train.csv" if named else None
    if folder and path is not None and not path.is_file():
        raise InputError(f"fullspan study normalization needs banking77/train.csv in --data; got {folder!r}.")
    glove = load_glove()
    place = {str(word): row for row, word in enumerate(glove.words)}
    if path is not None and path.is_file():
        texts, labels = _texts(path)
        task = "banking77"
    else:
        texts, labels = _endings(place)
        task = "word endings"
    tokens = np.full((len(texts), LENGTH), -1, dtype=np.int64)
    for row, text in enumerate(texts):
        known = [place[word] for word in _WORD.findall(text.lower()) if word in place][:LENGTH]
        tokens[row, : len(known)] = known
    kept = (tokens >= 0).any(1)
    tokens, classes = tokens[kept], np.unique(labels, return_inverse=True)[1][kept]
    used, compact = np.unique(tokens[tokens >= 0], return_inverse=True)
    tokens[tokens >= 0] = compact
    table = np.array(glove.vectors[used], dtype=np.float32)
    shared: dict[str, Any] = {"task": task, "tokens": tokens, "labels": classes, "table": table}
    digest = hashlib.sha256(task.encode())
    for array in (tokens, classes, table):
        digest.update(np.ascontiguousarray(array).tobytes())
    described = {"name": task, "texts": len(tokens), "classes": int(classes.max()) + 1, "words": len(table)}
    return Data(shared, digest.hexdigest(), {**described, "vectors": "glove.6B.50d, the 20,000 most frequent words"})


def _texts(path: Path) -> tuple[list[str], list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["category"] for row in rows]


def _endings(place: dict[str, int]) -> tuple[list[str], list[str]]:
    """Words of five letters and more, and nothing but letters, with one of the endings."""
    found = [
        (word, end)
        for word in place
        if len(word) > 4 and word.isalpha() and word.isascii()
        for end in ENDINGS
        if word.endswith(end)
    ]
    return [word for word, _ in found], [end for _, end in found]
