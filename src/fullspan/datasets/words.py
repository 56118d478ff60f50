"""Word pairs that people judged for similarity. Not bundled: the licenses of the sets are mixed."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import numpy as np

from fullspan._typing import Array
from fullspan.datasets.fetch import DataFile, fetch
from fullspan.errors import FormatError, UnknownNameError, did_you_mean

__all__ = ["WORD_SETS", "WordPairs", "WordSet", "load_word_pairs"]

_HOME = "https://raw.githubusercontent.com/mfaruqui/eval-word-vectors/master/data/word-sim/"


@dataclass(frozen=True)
class WordSet:
    """What is known about one set of word pairs before it is here: a title, its file and the verified count."""

    title: str
    file: DataFile
    n_pairs: int


@dataclass(frozen=True)
class WordPairs:
    """Word pairs in the order of the file.

    Parameters
    ----------
    first, second
        The words of each pair, as the file spells them.
    scores
        ``(n_pairs,)`` float64, read-only: the higher, the more similar. Every set has its own scale.
    source
        Where the file was found.
    sha256
        Of the file.
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    scores: Array
    source: str
    sha256: str

    def __len__(self) -> int:
        return len(self.first)


def _set(title: str, file: str, sha256: str, n_pairs: int) -> WordSet:
    return WordSet(title, DataFile(f"wordsim/{file}", sha256, _HOME + file, sha256), n_pairs)


#: Name to what is known of the set.
WORD_SETS = {
    "simlex": _set(
        "SimLex-999: similarity, not association",
        "EN-SIMLEX-999.txt",
        "405394ffb7d25f6d0e3c041f87c9f27d29dc6b047506769953e85c4523b11685",
        999,
    ),
    "men": _set(
        "MEN: relatedness",
        "EN-MEN-TR-3k.txt",
        "888b13580faa362c7b11da0a670258cf1b1eb4bf0ecbcd418918729a3bd3f43a",
        3_000,
    ),
    "ws353-sim": _set(
        "WordSim-353, pairs of similarity",
        "EN-WS-353-SIM.txt",
        "f1da938998863c94e53f72f984a5c6e215f0b46c323aae8f0f4930703a339107",
        203,
    ),
    "ws353-rel": _set(
        "WordSim-353, pairs of relatedness",
        "EN-WS-353-REL.txt",
        "66a7c88100624d0a391605ff61ce84e11d11ee620d51ec0298da49592838f8fa",
        252,
    ),
    "rare-words": _set(
        "Stanford Rare Words",
        "EN-RW-STANFORD.txt",
        "5108d54dfc746f44f9c3d7e31d2857c37cf71430bc1594175a61a3b89bb0ae1f",
        2_034,
    ),
    "simverb": _set(
        "SimVerb-3500: verbs",
        "EN-SimVerb-3500.txt",
        "9d84274e7ad029fd3cf69dd0516e9ade624bbef9bd4e2050f6cc1fa01471e0f5",
        3_500,
    ),
}


def load_word_pairs(name: str, folder: str | os.PathLike[str] | None = None) -> WordPairs:
    """Load word pairs and the similarity that people gave them.

    Parameters
    ----------
    name
        ``"simlex"``, ``"men"``, ``"ws353-sim"``, ``"ws353-rel"``, ``"rare-words"`` or ``"simverb"``.
    folder
        A folder that holds the file, or its path. Without it: the folder that ``FULLSPAN_DATA`` names, the cache,
        and a download from the public home, with the extra ``data``.

    Returns
    -------
    WordPairs
        Words and scores in the order of the file.

    Raises
    ------
    UnknownNameError
        If no set has that name.
    MissingFileError
        If the set is nowhere and cannot be downloaded.
    FormatError
        If a copy does not have the pinned sha256, or a line is not two words and a finite number.

    Notes
    -----
    Reading takes a few milliseconds.
    """
    if name not in WORD_SETS:
        known = ", ".join(map(repr, WORD_SETS))
        raise UnknownNameError(
            f"load_word_pairs needs one of {known}; got {name!r}.{did_you_mean(str(name), WORD_SETS)}"
        )
    user = f'load_word_pairs("{name}")'
    found = fetch(WORD_SETS[name].file, folder, user=user)
    lines = enumerate(found.content.decode("utf-8").splitlines(), 1)
    rows = [_pair(line, number, found.path, user) for number, line in lines if line.strip()]
    scores = np.array([row[2] for row in rows], dtype=np.float64)
    scores.flags.writeable = False
    first, second = tuple(row[0] for row in rows), tuple(row[1] for row in rows)
    return WordPairs(first, second, scores, f"{found.place}: {found.path}", found.sha256)


def _pair(line: str, number: int, path: str, user: str) -> tuple[str, str, float]:
    try:
        first, second, text = line.split()
        score = float(text)
        if math.isfinite(score):
            return first, second, score
    except ValueError:
        pass
    raise FormatError(
        f"{user} needs two words and a finite number on each line; got {line[:60]!r} on line {number} of {path}. "
        f"Get the file again from its home."
    )
