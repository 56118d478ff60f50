"""Whether cosines agree with people's judgments of word pairs; and the set of numbers of the Coupled Adam paper.

A file of judgments is any text of ``word word score`` lines, split by tabs, commas, semicolons or spaces; a header and
further columns are passed over, and a column that is not a number between words and score too (SimLex's part of
speech).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check
from fullspan.measures.conditioning import inverse_condition_number
from fullspan.measures.isotropy import isotropy
from fullspan.measures.norms import (
    correlation,
    length_frequency_correlation,
    mean_norm,
    mean_norm_ratio,
    mean_vector_norm,
    ranks,
)
from fullspan.measures.word_pairs import Pair, read_pairs, similarity_files

__all__ = [
    "CoupledAdamSet",
    "MeanSimilarity",
    "SimilarityScore",
    "coupled_adam_set",
    "mean_word_similarity",
    "word_similarity",
]


_CALL = "word_similarity"


class SimilarityScore(NamedTuple):
    """Correlation of cosines with judgments over `n_used` of `n_pairs` pairs; no `standard_error` below 4 pairs."""

    value: float
    standard_error: float | None
    n_used: int
    n_pairs: int
    n_missing: int
    n_multi_token: int


class MeanSimilarity(NamedTuple):
    """r̄ × 100 over several sets, its standard error, and the score on each set."""

    value: float
    standard_error: float | None
    scores: dict[str, SimilarityScore]


def _pairs_of(pairs: Any) -> list[Pair]:
    if isinstance(pairs, (str, os.PathLike)):
        return read_pairs(pairs)
    try:
        return [(str(a), str(b), float(score)) for a, b, score in pairs]
    except (TypeError, ValueError):
        raise InputError(f"{_CALL} needs a path, or (word, word, score) triples; got {type(pairs).__name__}.") from None


class _Lookup:
    """Vectors of words by a stated policy; counts what it could not find."""

    def __init__(
        self, vectors: Any, words: Any, tokenize: Callable[[str], Sequence[int]] | None, missing: str, multi: str
    ) -> None:
        self.table = _check.to_numpy(vectors, _CALL)
        if self.table.ndim != 2:
            raise InputError(f"{_CALL} needs a table of shape (rows, dim); got shape {self.table.shape}.")
        if isinstance(words, Mapping):
            self.rows: Mapping[str, Any] = words
        else:
            listed = [str(word) for word in words] if words is not None else []
            if words is not None and len(listed) != len(self.table):
                raise InputError(f"{_CALL} needs one word for each of {len(self.table)} rows; got {len(listed)}.")
            self.rows = {word: row for row, word in reversed(list(enumerate(listed)))}
        if not self.rows and tokenize is None:
            raise InputError(f"{_CALL} needs the words of the rows, or a function `tokenize`; got neither.")
        self.tokenize, self.missing, self.multi = tokenize, missing, multi

    def __call__(self, word: str) -> tuple[str, Array | None]:
        """``"found"``, ``"missing"`` or ``"multi"``, and the vector where there is one."""
        rows = self.rows.get(word, self.rows.get(word.lower()))
        if rows is None and self.tokenize is not None:
            rows = self.tokenize(word)
        rows = np.atleast_1d(np.asarray([] if rows is None else rows, dtype=np.int64))
        if not len(rows):
            return "missing", None
        if rows.min() < 0 or rows.max() >= len(self.table):
            raise InputError(
                f'{_CALL} needs rows within the table of {len(self.table)}; got row {rows.max()} for "{word}".'
            )
        if len(rows) > 1 and self.multi == "skip":
            return "multi", None
        vector = self.table[rows].astype(np.float64).mean(axis=0)
        if not np.isfinite(vector).all():
            raise InputError(
                f'{_CALL} needs finite values; got NaN or infinity in the vector of "{word}". Drop that row first.'
            )
        return "found", vector


def word_similarity(
    vectors: Any,
    words: Sequence[str] | Mapping[str, Any] | None,
    pairs: Any,
    *,
    kind: str = "pearson",
    missing: str = "skip",
    multi_token: str = "skip",  # noqa: S107 (a token of a tokenizer, not a password)
    tokenize: Callable[[str], Sequence[int]] | None = None,
) -> SimilarityScore:
    """Correlation of the cosines of word pairs with people's judgments.

    ``corr(cos(e_a, e_b), gold)`` over the pairs.

    Parameters
    ----------
    vectors
        Table ``(n, dim)``.
    words
        The word of each row, or a mapping from word to a row or to several rows. A word is looked up as it stands in
        the file, then in lower case; of equal words the first row counts.
    pairs
        Path of a file (see :func:`read_pairs`), or ``(word, word, score)`` triples.
    kind
        ``"pearson"``, as the Coupled Adam paper; ``"spearman"``, as most others.
    missing
        A pair with a word that has no row: ``"skip"`` leaves it out and counts it, ``"zero"`` gives it cosine 0,
        ``"error"`` raises.
    multi_token
        A word of several rows: ``"skip"`` leaves the pair out and counts it, ``"mean"`` takes the mean of the rows.
    tokenize
        From a word to its rows, for tables of sub-word tokens; asked for words that `words` lacks.

    Returns
    -------
    SimilarityScore
        value in ``[-1, 1]``: 1 when cosines and judgments lie on a line (Spearman: have one order). Invariant to scale
        and rotation.

    Raises
    ------
    UndefinedMeasureError
        Fewer than three pairs are left, or cosines or judgments do not vary.
    InputError
        An unknown policy, or a missing word with ``missing="error"``.
    FormatError, MissingFileError
        The file cannot be read.

    Notes
    -----
    O(pairs·dim). A zero vector has cosine 0 with everything. Standard error: ``(1 - r²)/√(n - 3)``, for Spearman times
    √(1 + r²/2).

    References
    ----------
    Stollenwerk and Stollenwerk 2025, section 4.3; Bonett and Wright 2000 (Spearman's standard error).

    Examples
    --------
    >>> vectors = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]
    >>> gold = [("cat", "dog", 9.0), ("cat", "sky", 1.0), ("dog", "sky", 3.0), ("cow", "sky", 3.0)]
    >>> score = word_similarity(vectors, ["cat", "dog", "sky"], gold)
    >>> round(score.value, 3), score.n_used, score.n_missing
    (0.99, 3, 1)
    """
    _check.one_of(kind, ("pearson", "spearman"), _CALL, "kind")
    _check.one_of(missing, ("skip", "zero", "error"), _CALL, "missing")
    _check.one_of(multi_token, ("skip", "mean"), _CALL, "multi_token")
    listed = _pairs_of(pairs)
    lookup = _Lookup(vectors, words, tokenize, missing, multi_token)
    cosines, gold, n_missing, n_multi = _cosines(listed, lookup)
    if len(gold) < 3:
        raise UndefinedMeasureError(
            f"{_CALL} needs at least three pairs; got {len(gold)} of {len(listed)}: {n_missing} lack a word, "
            f"{n_multi} have a word of several tokens. Do the words have another case or a prefix?"
        )
    x, y = (ranks(cosines), ranks(gold)) if kind == "spearman" else (cosines, gold)
    r = correlation(x, y, _CALL, ("cosines", "judgments"))
    return SimilarityScore(r, _fisher(r, len(gold), kind), len(gold), len(listed), n_missing, n_multi)


def _cosines(listed: list[Pair], lookup: _Lookup) -> tuple[Array, Array, int, int]:
    cosines: list[float] = []
    gold: list[float] = []
    n_missing = n_multi = 0
    for first, second, score in listed:
        (a_state, a), (b_state, b) = lookup(first), lookup(second)
        if "multi" in (a_state, b_state):
            n_multi += 1
            continue
        if "missing" in (a_state, b_state):
            n_missing += 1
            if lookup.missing == "error":
                word = first if a_state == "missing" else second
                raise InputError(
                    f'{_CALL} needs a row for every word; got none for "{word}". missing="skip" leaves such pairs out.'
                )
            if lookup.missing == "skip":
                continue
        cosines.append(0.0 if a is None or b is None else _cosine(a, b))
        gold.append(score)
    return np.array(cosines), np.array(gold), n_missing, n_multi


def _cosine(a: Array, b: Array) -> float:
    sizes = np.abs(a).max(), np.abs(b).max()
    if 0 in sizes:
        return 0.0
    a, b = a / sizes[0], b / sizes[1]
    away = a / np.sqrt(np.vecdot(a, a)) - b / np.sqrt(np.vecdot(b, b))
    return float(1 - np.vecdot(away, away) / 2)


def _fisher(r: float, n: int, kind: str) -> float | None:
    if n < 4:
        return None
    return (1 - r * r) * math.sqrt((1 + r * r / 2 if kind == "spearman" else 1.0) / (n - 3))


def mean_word_similarity(
    vectors: Any, words: Any, files: Mapping[str, Any] | str | os.PathLike[str], *, sets: str = "article", **policy: Any
) -> MeanSimilarity:
    """Mean correlation with people's judgments over several sets of word pairs, in percent.

    ``r̄ = 100·(1/k) Σ_s r_s``.

    Parameters
    ----------
    vectors, words
        As in :func:`word_similarity`.
    files
        Name of each set to its path or triples; or a folder, in which :func:`similarity_files` looks for `sets`.
    sets
        ``"article"`` or ``"code"``, where `files` is a folder.
    **policy
        kind, missing, multi_token and tokenize of :func:`word_similarity`.

    Returns
    -------
    MeanSimilarity
        value in ``[-100, 100]`` percent; the sets count as independent for its standard error.

    Raises
    ------
    UndefinedMeasureError
        One of the sets has too few pairs: an average over fewer sets would be another number.
    InputError
        No sets.

    Notes
    -----
    The sum of :func:`word_similarity` over the sets. Article and code of the paper average over different sets: name
    which.

    References
    ----------
    Stollenwerk and Stollenwerk 2025, section 4.3 (four sets), and the code published with it (five files).

    Examples
    --------
    >>> gold = [("a", "b", 3.0), ("a", "c", 1.0), ("b", "c", 1.5)]
    >>> round(mean_word_similarity([[1, 0], [1, 0.1], [0, 1]], "abc", {"mine": gold}).value, 1)
    98.9
    """
    if isinstance(files, (str, os.PathLike)):
        files = similarity_files(files, sets)
    if not files:
        raise InputError("mean_word_similarity needs at least one set of word pairs; got none.")
    scores: dict[str, SimilarityScore] = {}
    for name, pairs in files.items():
        try:
            scores[name] = word_similarity(vectors, words, pairs, **policy)
        except UndefinedMeasureError as error:
            raise UndefinedMeasureError(f"{name}: {error}") from None
    errors = [score.standard_error for score in scores.values()]
    together = [each for each in errors if each is not None]
    error = 100 * math.hypot(*together) / len(scores) if len(together) == len(scores) else None
    return MeanSimilarity(100 * sum(score.value for score in scores.values()) / len(scores), error, scores)


class CoupledAdamSet(NamedTuple):
    """The embedding numbers of the Coupled Adam paper; `rho` and `mean_similarity` are None unless asked for."""

    isotropy: float
    centered_isotropy: float
    mean_vector_norm: float
    mean_norm_ratio: float
    mean_norm: float
    kappa: float
    rho: float | None
    mean_similarity: MeanSimilarity | None


def coupled_adam_set(
    E: Any,
    *,
    frequencies: Any = None,
    words: Any = None,
    files: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    signs: str = "both",
    kind: str = "pearson",
    sets: str = "article",
    **policy: Any,
) -> CoupledAdamSet:
    """All numbers that the Coupled Adam paper prints about an embedding table.

    Iso(E), Iso(E - μ), ‖μ‖, ‖μ‖ʳ, mean ‖e‖, κ = 100·σ_min/σ_max, ρ × 100, and r̄ × 100.

    Parameters
    ----------
    E
        Table ``(n, dim)``.
    frequencies
        ``(n,)`` counts of the rows, for ρ.
    words, files, sets, **policy
        For r̄, as in :func:`mean_word_similarity`.
    signs
        As in :func:`isotropy`: ``"eigh"`` for numbers as published.
    kind
        As in :func:`length_frequency_correlation`: ``"log"`` for the paper's code.

    Returns
    -------
    CoupledAdamSet
        Each as its own function documents.

    Raises
    ------
    UndefinedMeasureError
        A table of zeros.
    InputError
        `files` without `words` or `tokenize`.

    Notes
    -----
    O(n·dim²), a float64 copy of the table. fs.measure gives all but r̄ in two passes over a file of any size.

    References
    ----------
    Stollenwerk and Stollenwerk 2025, Better Embeddings with Coupled Adam, equations 25 to 28.

    Examples
    --------
    >>> import numpy as np
    >>> numbers = coupled_adam_set(np.vstack([np.eye(3), -np.eye(3)]), frequencies=range(6))
    Traceback (most recent call last):
    fullspan.errors.UndefinedMeasureError: length_frequency_correlation needs norms that vary; got 6 equal values.
    >>> coupled_adam_set(np.vstack([np.eye(3), -np.eye(3)])).kappa
    100.0
    """
    table = _check.table(E, "coupled_adam_set", rows=1)
    largest = np.abs(table).max()
    iso = isotropy(table, signs=signs)
    triangle = np.linalg.qr(table / largest, mode="r") if len(table) > table.shape[1] else table / largest
    rho = similarity = None
    if frequencies is not None:
        rho = length_frequency_correlation(_row_norms(table), frequencies, kind=kind)
    if files is not None:
        similarity = mean_word_similarity(table, words, files, sets=sets, **policy)
    return CoupledAdamSet(
        isotropy=iso,
        centered_isotropy=isotropy(table, signs=signs, center=True),
        mean_vector_norm=mean_vector_norm(table),
        mean_norm_ratio=mean_norm_ratio(table),
        mean_norm=mean_norm(table),
        kappa=100 * inverse_condition_number(np.linalg.svd(triangle, compute_uv=False)),
        rho=rho,
        mean_similarity=similarity,
    )


def _row_norms(table: Array) -> Iterable[float]:
    largest = np.abs(table).max()
    return np.sqrt(np.vecdot(table / largest, table / largest)) * largest
