"""Catalog entries of the measures of labeled rows and of flat maps; no report of one table reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fullspan.measures import map_quality, separability
from fullspan.measures.entry import COLUMNS, ROTATION, ROWS, SCALE, TRANSLATION, Measure

_ALL = frozenset({SCALE, ROTATION, TRANSLATION, ROWS, COLUMNS})
_COSINE = frozenset({SCALE, ROTATION, ROWS, COLUMNS})


def _entry(
    name: str,
    function: Callable[..., Any],
    title: str,
    formula: str,
    words: str,
    source: str,
    usage: str,
    *,
    ends: tuple[float, float] = (0.0, 1.0),
    invariances: frozenset[str] = _ALL,
    equivalent: str = "",
    traps: tuple[str, ...] = (),
) -> Measure:
    return Measure(
        name=name,
        title=title,
        symbol=name,
        formula=formula,
        family="neighbors",
        function=function,
        usage=usage,
        read=None,
        needs=(),
        direction="higher",
        range=words,
        bounds=lambda n, d: ends,
        invariances=invariances,
        source=source,
        equivalent=equivalent,
        traps=traps,
    )


ENTRIES = (
    _entry(
        "neighbor_purity",
        separability.neighbor_purity,
        "Share of the k nearest neighbors of a row that have its label",
        "mean_i #{j ∈ N_k(i) : c_j = c_i} / k",
        "[0, 1]: 1 when every neighborhood has one label, Σ_c n_c(n_c - 1)/(n(n - 1)) by chance",
        "Cover and Hart 1967",
        "neighbor_purity(E, labels)",
        invariances=_COSINE,
        traps=(
            "A frequent label is pure by chance: neighbor_purity_estimate gives the chance level and its deviation.",
            "Read it from the vectors: a map of two dimensions draws clusters that are not there.",
        ),
    ),
    _entry(
        "silhouette",
        separability.silhouette,
        "How much nearer a row is to its own label than to the nearest other label",
        "mean_i (b_i - a_i)/max(a_i, b_i)",
        "[-1, 1]: 1 when labels are far apart and tight, negative when rows are nearer to another label",
        "Rousseeuw 1987",
        "silhouette(E, labels)",
        ends=(-1.0, 1.0),
        invariances=_COSINE,
        equivalent='sklearn.metrics.silhouette_score(E, labels, metric="cosine")',
        traps=(
            "Labels that mean nothing read below 0, the more so the more there are: silhouette_estimate permutes them.",
            "Labels that lie along curves or in several lumps read low however well they separate.",
        ),
    ),
    _entry(
        "neighbor_preservation",
        map_quality.neighbor_preservation,
        "Share of the k nearest neighbors in a table that are among the k nearest on its map",
        "mean_i |N_k^E(i) ∩ N_k^map(i)| / k",
        "[0, 1]: 1 when every neighborhood survives, k/(n - 1) by chance",
        "Lee and Verleysen 2009, section 4",
        "neighbor_preservation(E, positions)",
        traps=(
            "Few rows of ten dimensions and more keep their neighbors in the plane: compare with chance, not with 1.",
        ),
    ),
    _entry(
        "trustworthiness",
        map_quality.trustworthiness,
        "How far the neighbors seen on a map are neighbors in the table",
        "1 - 2/(n·k·(2n - 3k - 1)) Σ_i Σ_{j ∈ N_k^map(i)} max(0, r(i, j) - k)",
        "[0, 1]: 1 when no row looks nearer than it is, about 0.5 by chance",
        "Venna and Kaski 2001, equation 1",
        "trustworthiness(E, positions)",
        equivalent="sklearn.manifold.trustworthiness(E, positions, n_neighbors=k)",
        traps=("Chance is one half, not 0.",),
    ),
    _entry(
        "continuity",
        map_quality.continuity,
        "How far the neighbors in a table stay neighbors on its map",
        "trustworthiness with table and map exchanged",
        "[0, 1]: 1 when no neighborhood is torn, about 0.5 by chance",
        "Venna and Kaski 2001, equation 2",
        "continuity(E, positions)",
        equivalent="sklearn.manifold.trustworthiness(positions, E, n_neighbors=k)",
        traps=("Chance is one half, not 0.",),
    ),
)
