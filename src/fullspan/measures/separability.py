"""How well labels separate in a table: pure neighborhoods, and silhouettes, each against labels at random.

Both read the vectors, never a flat map of them: a map of two dimensions can draw clusters that are not there, and tear
apart those that are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check
from fullspan.measures.neighbors import nearest_neighbors

if TYPE_CHECKING:
    from jaxtyping import Float, Int

__all__ = [
    "Separation",
    "neighbor_purity",
    "neighbor_purity_estimate",
    "silhouette",
    "silhouette_estimate",
]

_METRICS = ("cosine", "euclidean")
#: Numbers in one block of distances: 8 MB.
_BLOCK = 2**20
#: Labels up to which sums by label are a matrix product.
_FEW = 128


@dataclass(frozen=True, eq=False)
class Separation:
    """A number that says how well labels separate, and what it is when labels are dealt at random.

    Parameters
    ----------
    value
        The measure.
    standard_error
        Standard error over the rows that were asked.
    chance
        Mean of the measure when the labels are permuted over the rows.
    chance_deviation
        Standard deviation over such permutations.
    n_rows
        Rows that were asked.
    samples
        ``(n_rows,)`` the measure of each of them; `value` is their mean.
    rows
        ``(n_rows,)`` their positions in the table.
    permuted
        ``(permutations,)`` the measure for each permutation of the labels: the same ones for tables with as many rows.
    """

    value: float
    standard_error: float
    chance: float
    chance_deviation: float
    n_rows: int
    samples: Array
    rows: Array
    permuted: Array

    @property
    def above_chance(self) -> float:
        """Distance from chance in standard deviations of permuted labels; infinite where these never differ."""
        gap = self.value - self.chance
        if self.chance_deviation > 0:
            return gap / self.chance_deviation
        return 0.0 if abs(gap) < 1e-12 else float(np.copysign(np.inf, gap))


def neighbor_purity(E: Any, labels: Any, k: int = 10, *, metric: str = "cosine") -> float:
    """Share of the k nearest neighbors of a row that have its label.

    ``mean_i #{j ∈ N_k(i) : c_j = c_i} / k``.

    Parameters
    ----------
    E
        Table ``(n, dim)``: a sample, as time grows with n².
    labels
        ``(n,)`` label of each row, of at least two kinds.
    k
        Number of neighbors.
    metric
        ``"cosine"`` (zero rows are left out) or ``"euclidean"``.

    Returns
    -------
    float
        In ``[0, 1]``: 1 when every neighborhood has one label, ``Σ_c n_c(n_c - 1)/(n(n - 1))`` by chance. Invariant to
        rotation and scale, and to translation for the Euclidean metric.

    Raises
    ------
    UndefinedMeasureError
        Fewer than two labels, not more than k rows, or all rows equal.
    InputError
        A label is missing for some rows.

    Notes
    -----
    O(n²·dim). A class of k rows or fewer cannot be pure. Depends on n and k: compare at the same rows. It is the mean
    of ``sklearn.neighbors.KNeighborsClassifier(k).predict_proba`` for the own label, a row itself left out.

    References
    ----------
    The left-out vote of the k-nearest-neighbor rule: Cover and Hart 1967, Nearest neighbor pattern classification.

    Examples
    --------
    >>> rows = [[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]]
    >>> neighbor_purity(rows, ["a", "a", "b", "b"], k=1)
    1.0
    """
    return neighbor_purity_estimate(E, labels, k, metric=metric, permutations=0).value


def neighbor_purity_estimate(
    E: Any, labels: Any, k: int = 10, *, metric: str = "cosine", permutations: int = 100, seed: int = 0
) -> Separation:
    """Neighbor purity with its standard error and what it is for permuted labels.

    As :func:`neighbor_purity`; the chance level is ``Σ_c n_c(n_c - 1)/(n(n - 1))``.

    Parameters
    ----------
    E, labels, k, metric
        As in :func:`neighbor_purity`.
    permutations
        How often labels are permuted for the deviation of the chance level; 0 leaves it at 0.
    seed
        Seed of the permutations.

    Returns
    -------
    Separation
        All in ``[0, 1]``. The standard error takes the neighbors as they were found.

    Raises
    ------
    UndefinedMeasureError, InputError
        As in :func:`neighbor_purity`.

    Notes
    -----
    O(n²·dim + permutations·n·k). The mean over permutations is exact, not simulated.

    References
    ----------
    As :func:`neighbor_purity`; Good 2005, Permutation, parametric and bootstrap tests of hypotheses.

    Examples
    --------
    >>> rows = [[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]]
    >>> round(neighbor_purity_estimate(rows, ["a", "a", "b", "b"], k=1).chance, 4)
    0.3333
    """
    call = "neighbor_purity"
    table, codes = _labeled(E, labels, call)
    found = nearest_neighbors(table, k, metric)
    codes = _two_kinds(codes[found.kept], call)
    same = (codes[found.indices] == codes[:, None]).mean(axis=1)
    random = np.random.default_rng(seed)
    drawn = [_purity(random.permutation(codes), found.indices) for _ in range(permutations)]
    counts, n = np.bincount(codes), len(codes)
    chance = float((counts * (counts - 1.0)).sum() / (n * (n - 1.0)))
    return _separation(same, found.kept, chance, drawn)


def _purity(codes: Int[Array, " n"], indices: Int[Array, "n k"]) -> float:
    return float((codes[indices] == codes[:, None]).mean())


def silhouette(E: Any, labels: Any, *, metric: str = "cosine", max_rows: int | None = None, seed: int = 0) -> float:
    """How much nearer a row is to its own label than to the nearest other label.

    ``mean_i (b_i - a_i)/max(a_i, b_i)``: a_i the mean distance to the other rows of its label, b_i the smallest mean
    distance to the rows of another.

    Parameters
    ----------
    E
        Table ``(n, dim)``.
    labels
        ``(n,)`` label of each row, of at least two kinds.
    metric
        ``"cosine"`` (1 - cosine; zero rows are left out) or ``"euclidean"``.
    max_rows
        How many rows to ask, a seeded choice; their distances are to all rows. None asks all.
    seed
        Seed of that choice.

    Returns
    -------
    float
        In ``[-1, 1]``: 1 when labels are far apart and tight, about 0 (just below) when they overlap, negative when
        rows are nearer to another label. Invariant to rotation and scale, and to translation for the Euclidean metric.

    Raises
    ------
    UndefinedMeasureError
        Fewer than two labels, or a label for every row.
    InputError
        A label is missing for some rows, or max_rows < 1.

    Notes
    -----
    Cosine: O(n·dim·labels), by the mean direction of a label. Euclidean: O(max_rows·n·dim). A row alone in its label
    counts 0. Equivalent: ``sklearn.metrics.silhouette_score(E, labels, metric=metric)``.

    References
    ----------
    Rousseeuw 1987, Silhouettes: a graphical aid to the interpretation and validation of cluster analysis.

    Examples
    --------
    >>> round(silhouette([[0.0], [1.0], [10.0], [11.0]], [0, 0, 1, 1], metric="euclidean"), 4)
    0.8997
    """
    return silhouette_estimate(E, labels, metric=metric, max_rows=max_rows, permutations=0, seed=seed).value


def silhouette_estimate(
    E: Any, labels: Any, *, metric: str = "cosine", max_rows: int | None = 1000, permutations: int = 20, seed: int = 0
) -> Separation:
    """Silhouette with its standard error and what it is for permuted labels.

    As :func:`silhouette`; the chance level is the mean over permutations of the labels.

    Parameters
    ----------
    E, labels, metric, max_rows, seed
        As in :func:`silhouette`; the seed is also that of the permutations.
    permutations
        How often labels are permuted; 0 leaves chance and its deviation at 0.

    Returns
    -------
    Separation
        All in ``[-1, 1]``.

    Raises
    ------
    UndefinedMeasureError, InputError
        As in :func:`silhouette`.

    Notes
    -----
    The cost of :func:`silhouette`, and O(permutations·max_rows·n·labels).

    References
    ----------
    As :func:`silhouette`; Good 2005, Permutation, parametric and bootstrap tests of hypotheses.

    Examples
    --------
    >>> found = silhouette_estimate([[0.0], [1.0], [10.0], [11.0]], [0, 0, 1, 1], metric="euclidean")
    >>> found.value > found.chance
    True
    """
    call = "silhouette"
    _check.one_of(metric, _METRICS, call, "metric")
    table, codes = _labeled(E, labels, call)
    kept = np.flatnonzero(table.any(axis=1)) if metric == "cosine" else np.arange(len(table))
    codes = _two_kinds(codes[kept], call)
    if codes.max() + 1 == len(codes):
        raise UndefinedMeasureError(
            f"{call} needs a label that two rows share; got {len(codes)} labels for as many rows."
        )
    points = _check.unit_rows(table, call) if metric == "cosine" else _scaled(table)
    random = np.random.default_rng(seed)
    asked = _asked(len(points), max_rows, random, call)
    dealt = [codes, *(random.permutation(codes) for _ in range(permutations))]
    values = _silhouettes(points, dealt, asked, metric)
    drawn = values[1:].mean(axis=1)
    return _separation(values[0], kept[asked], float(drawn.mean()) if permutations else 0.0, list(drawn))


def _labeled(E: Any, labels: Any, call: str) -> tuple[Array, Int[Array, " n"]]:
    table = _check.table(E, call, rows=2)
    names = np.asarray(labels)
    if names.shape != (len(table),):
        raise InputError(f"{call} needs one label for each of {len(table)} rows; got shape {names.shape}.")
    if names.dtype.kind == "f" and not np.isfinite(names).all():
        n_bad = int((~np.isfinite(names)).sum())
        raise InputError(
            f"{call} needs a label for every row; got {n_bad} that are NaN or infinite. Leave those rows out."
        )
    if names.dtype == object:
        if any(name is None for name in names):
            raise InputError(f"{call} needs a label for every row; got None for some. Leave those rows out.")
        names = names.astype(str)
    return table, np.unique(names, return_inverse=True)[1]


def _two_kinds(codes: Int[Array, " n"], call: str) -> Int[Array, " n"]:
    kinds, codes = np.unique(codes, return_inverse=True)
    if len(kinds) < 2:
        raise UndefinedMeasureError(f"{call} needs rows of at least two labels; got {len(kinds)}.")
    return codes


def _asked(n_rows: int, max_rows: int | None, random: np.random.Generator, call: str) -> Int[Array, " q"]:
    if max_rows is None or max_rows >= n_rows:
        return np.arange(n_rows)
    if max_rows < 1:
        raise InputError(f"{call} needs max_rows ≥ 1; got {max_rows}.")
    return np.sort(random.choice(n_rows, max_rows, replace=False))


def _scaled(table: Float[Array, "n dim"]) -> Float[Array, "n dim"]:
    centered = table - table.mean(axis=0)
    size = float(np.abs(centered).max())
    return centered / size if size > 0 else centered


def _silhouettes(
    points: Float[Array, "n dim"], dealt: list[Array], asked: Int[Array, " q"], metric: str
) -> Float[Array, "deals q"]:
    """The silhouette of each asked row for each dealing of the labels."""
    values = np.empty((len(dealt), len(asked)))
    if metric == "cosine":
        for deal, codes in enumerate(dealt):
            totals = np.bincount(codes) - points[asked] @ _by_label(points.T, codes)
            values[deal] = _score(np.maximum(totals, 0.0), codes, asked)
        return values
    for part in _check.row_blocks(len(asked), len(points), _BLOCK):
        far = _euclidean(points, asked[part])
        for deal, codes in enumerate(dealt):
            values[deal, part] = _score(_by_label(far, codes), codes, asked[part])
    return values


def _by_label(columns: Float[Array, "q n"], codes: Int[Array, " n"]) -> Float[Array, "q c"]:
    """Sums over the columns of each label."""
    n_labels = int(codes.max()) + 1
    if n_labels <= _FEW:  # a product is faster than sums over gathered columns, until the zeros in it outweigh
        return columns @ np.eye(n_labels)[codes]
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(n_labels))
    return np.add.reduceat(columns[:, order], starts, axis=1)


def _euclidean(points: Float[Array, "n dim"], rows: Int[Array, " block"]) -> Float[Array, "block n"]:
    squares = np.vecdot(points, points)
    gaps = squares[rows, None] + squares - 2 * points[rows] @ points.T
    gaps[np.arange(len(rows)), rows] = 0.0
    return np.sqrt(np.maximum(gaps, 0.0))


def _score(totals: Float[Array, "q c"], codes: Int[Array, " n"], asked: Int[Array, " q"]) -> Float[Array, " q"]:
    """Silhouettes from the summed distance of each asked row to each label."""
    counts = np.bincount(codes)
    own = codes[asked]
    at = np.arange(len(asked))
    near = totals[at, own] / np.maximum(counts[own] - 1, 1)
    means = totals / counts
    means[at, own] = np.inf
    other = means.min(axis=1)
    largest = np.maximum(near, other)
    score = np.divide(other - near, largest, out=np.zeros(len(asked)), where=largest > 1e-12)
    return np.where(counts[own] > 1, score, 0.0)


def _separation(samples: Array, rows: Array, chance: float, drawn: list[float]) -> Separation:
    n = len(samples)
    error = float(samples.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    deviation = float(np.std(drawn, ddof=1)) if len(drawn) > 1 else 0.0
    return Separation(
        float(samples.mean()), error, chance, deviation, n, samples, rows, np.asarray(drawn, dtype=np.float64)
    )
