"""Files of people's judgments of word pairs.

Any text of ``word word score`` lines, split by tabs, commas, semicolons or spaces; a header and further columns are
passed over, and a column that is not a number between words and score too (SimLex's part of speech).
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

from fullspan.errors import FormatError, MissingFileError, UnknownNameError

__all__ = [
    "Pair",
    "SIMILARITY_SETS",
    "read_pairs",
    "similarity_files",
]


#: The sets that r̄ is averaged over: as the Coupled Adam paper says, and as its code does; with patterns of file names.
SIMILARITY_SETS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "article": {
        "SimLex": ("*simlex*",),
        "MEN": ("*men-tr*", "*men_dataset*", "men*"),
        "WordSim-353": ("*ws-353-all*", "*ws353.*", "*wordsim353.*", "combined.*"),
        "Rare Words": ("*-rw-*", "rw.*"),
    },
    "code": {
        "MEN": ("*men-tr*", "*men_dataset*", "men*"),
        "Rare Words": ("*-rw-*", "rw.*"),
        "SimLex": ("*simlex*",),
        "WS-sim": ("*ws-353-sim*", "*wordsim_similarity*", "*ws353-sim*"),
        "WS-rel": ("*ws-353-rel*", "*wordsim_relatedness*", "*ws353-rel*"),
    },
}


_MOST_BYTES = 64 << 20


_MOST_LINE = 4096


Pair = tuple[str, str, float]


def read_pairs(path: str | os.PathLike[str]) -> list[Pair]:
    """Read a file of ``word word score`` lines.

    Parameters
    ----------
    path
        Text in UTF-8, at most 64 MiB. Lines that are empty or start with ``#`` are passed over, and one header line.

    Returns
    -------
    list of (str, str, float)
        The pairs in the order of the file.

    Raises
    ------
    MissingFileError
        No such file.
    FormatError
        A line without two words and a finite number, a file that is too large, or no pairs at all.

    Notes
    -----
    The score is the first number after the two words.

    References
    ----------
    The files of Faruqui and Dyer 2014 (word-vectors.org), and the originals of SimLex, MEN, WordSim and Rare Words.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "pairs.csv")
    >>> _ = path.write_text("Word 1,Word 2,Human\\ntiger,cat,7.35\\n")
    >>> read_pairs(path)
    [('tiger', 'cat', 7.35)]
    """
    path = Path(path)
    if not path.is_file():
        raise MissingFileError(f'read_pairs needs a file of "word word score" lines; got no file at {path}.')
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise FormatError(f"read_pairs needs a file of at most {_MOST_BYTES >> 20} MiB; got a larger one: {path}.")
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise FormatError(
            f"read_pairs needs text in UTF-8; got other bytes at offset {error.start} of {path}."
        ) from None
    pairs: list[Pair] = []
    header_allowed = True
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        pair = _parse(line)
        if pair is None and not header_allowed:
            shown = line.strip()[:60]
            raise FormatError(
                f'read_pairs needs "word word score" on every line; got "{shown}" on line {number} of {path}.'
            )
        if pair is not None:
            pairs.append(pair)
        header_allowed = False
    if not pairs:
        raise FormatError(f'read_pairs needs "word word score" lines; got none in {path}.')
    return pairs


def _parse(line: str) -> Pair | None:
    if len(line) > _MOST_LINE:
        return None
    separator = next((each for each in ("\t", ",", ";") if each in line), None)
    fields = [field.strip().strip('"') for field in line.split(separator)]
    if len(fields) < 3 or not fields[0] or not fields[1]:
        return None
    for field in fields[2:4]:
        try:
            score = float(field)
        except ValueError:
            continue
        return (fields[0], fields[1], score) if math.isfinite(score) else None
    return None


def similarity_files(folder: str | os.PathLike[str], sets: str = "article") -> dict[str, Path]:
    """Find the files of the sets that r̄ is averaged over, by their usual names.

    Parameters
    ----------
    folder
        Folder that holds them.
    sets
        ``"article"``: SimLex, MEN, WordSim-353, Rare Words; ``"code"``: MEN, Rare Words, SimLex, WS-sim, WS-rel.

    Returns
    -------
    dict
        Name of the set to its path.

    Raises
    ------
    UnknownNameError
        `sets` is neither.
    MissingFileError
        A set has no file in the folder.

    Notes
    -----
    Names are compared without regard to case.

    References
    ----------
    Stollenwerk and Stollenwerk 2025, section 4.3, and the code published with it.

    Examples
    --------
    >>> sorted(SIMILARITY_SETS["article"])
    ['MEN', 'Rare Words', 'SimLex', 'WordSim-353']
    """
    if sets not in SIMILARITY_SETS:
        raise UnknownNameError(f'similarity_files needs sets to be one of "article", "code"; got "{sets}".')
    folder = Path(folder)
    if not folder.is_dir():
        raise MissingFileError(f"similarity_files needs a folder; got no folder at {folder}.")
    known = sorted(folder.iterdir())
    found: dict[str, Path] = {}
    for name, patterns in SIMILARITY_SETS[sets].items():
        match = next((p for pattern in patterns for p in known if Path(p.name.lower()).match(pattern)), None)
        if match is None:
            raise MissingFileError(
                f"similarity_files needs a file of {name} (such as {patterns[0]}); got none in {folder}."
            )
        found[name] = match
    return found
