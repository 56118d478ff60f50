"""Lengths of the rows, of their mean, and how the lengths go with frequency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check

if TYPE_CHECKING:
    from jaxtyping import Float, Num

__all__ = [
    "correlation",
    "length_frequency_correlation",
    "mean_norm",
    "mean_norm_ratio",
    "mean_vector_norm",
    "norm_variation",
    "ranks",
]


def _norms(E: Float[Array, "n dim"]) -> Float[Array, " n"]:
    """Row norms, safe from under- and overflow of the squares."""
    largest = np.abs(E).max(axis=1)
    scale = np.where(largest > 0, largest, 1.0)
    scaled = E / scale[:, None]
    return np.sqrt(np.vecdot(scaled, scaled)) * scale


def mean_norm(E: Any) -> float:
    """Average length of the rows.

    ``(1/n) Σ_i ‖e_i‖``.

    Parameters
    ----------
    E
        Table ``(n, dim)``.

    Returns
    -------
    float
        In ``[0, ∞)``, in the unit of the table: 0 for a table of zeros. Invariant to rotation; grows with the scale.

    Raises
    ------
    UndefinedMeasureError
        No rows.

    Notes
    -----
    O(n·dim). Equivalent: ``numpy.linalg.norm(E, axis=1).mean()``.

    References
    ----------
    Stollenwerk and Stollenwerk 2025, section 4.3.

    Examples
    --------
    >>> mean_norm([[3.0, 4.0], [0.0, 1.0]])
    3.0
    """
    return float(_norms(_check.table(E, "mean_norm", rows=1)).mean())


def mean_vector_norm(E: Any) -> float:
    """Length of the mean row: how far the table has drifted from the origin.

    ``‖μ‖``, ``μ = (1/n) Σ_i e_i``.

    Parameters
    ----------
    E
        Table ``(n, dim)``.

    Returns
    -------
    float
        In ``[0, mean norm]``, in the unit of the table: 0 for a centered table. Invariant to rotation; grows with the
        scale.

    Raises
    ------
    UndefinedMeasureError
        No rows.

    Notes
    -----
    O(n·dim). Equivalent: ``numpy.linalg.norm(E.mean(axis=0))``.

    References
    ----------
    Stollenwerk and Stollenwerk 2025, equation 9 and section 4.3.

    Examples
    --------
    >>> mean_vector_norm([[3.0, 4.0], [3.0, -4.0]])
    3.0
    """
    return float(_norms(_check.table(E, "mean_vector_norm", rows=1).mean(axis=0, keepdims=True))[0])


def mean_norm_ratio(E: Any) -> float:
    """Length of the mean row relative to the average length of the rows.

    ``‖μ‖ʳ = ‖μ‖ / ((1/n) Σ_i ‖e_i‖)``.

    Parameters
    ----------
    E
        Table ``(n, dim)``.

    Returns
    -------
    float
        In ``[0, 1]``: 0 for a centered table, 1 when all rows point one way. Invariant to scale and rotation.

    Raises
    ------
    UndefinedMeasureError
        No rows, or only zeros.

    Notes
    -----
    O(n·dim). About 1/√n for n rows of an isotropic Gaussian.

    References
    ----------
    Stollenwerk and Stollenwerk 2025, Better Embeddings with Coupled Adam, equation 26.

    Examples
    --------
    >>> mean_norm_ratio([[3.0, 4.0], [3.0, -4.0]])
    0.6
    """
    E = _check.table(E, "mean_norm_ratio", rows=1)
    largest = np.abs(E).max()
    if largest == 0:
        raise UndefinedMeasureError(
            f"mean_norm_ratio needs at least one non-zero row; got {len(E)} zero rows. "
            "Is the table still at its zero initialization?"
        )
    return min(1.0, mean_vector_norm(E / largest) / mean_norm(E / largest))


def norm_variation(E: Any) -> float:
    """Spread of the row lengths relative to their average.

    ``std(‖e_i‖) / mean(‖e_i‖)``, ddof 1.

    Parameters
    ----------
    E
        Table ``(n, dim)`` with at least two rows.

    Returns
    -------
    float
        In ``[0, √n]``: 0 when all rows have one length. Invariant to scale and rotation.

    Raises
    ------
    UndefinedMeasureError
        Fewer than two rows, or only zeros.

    Notes
    -----
    O(n·dim). About ``1/√(2·dim)`` for Gaussian rows. Large values make inner products and cosines disagree.

    References
    ----------
    Coefficient of variation.

    Examples
    --------
    >>> norm_variation([[3.0, 4.0], [0.0, 5.0]])
    0.0
    """
    norms = _norms(_check.table(E, "norm_variation", rows=2))
    largest = norms.max()
    if largest == 0:
        raise UndefinedMeasureError(f"norm_variation needs at least one non-zero row; got {len(norms)} zero rows.")
    norms = norms / largest
    return float(norms.std(ddof=1) / norms.mean())


def ranks(values: Num[Array, " n"]) -> Float[Array, " n"]:
    """Ranks from 1, ties at their mean: ``scipy.stats.rankdata(values)``."""
    order = np.argsort(values, kind="stable")
    _, inverse, counts = np.unique(values[order], return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    result = np.empty(len(values))
    result[order] = ((ends - counts + 1 + ends) / 2)[inverse]
    return result


def correlation(x: Num[Array, " n"], y: Num[Array, " n"], call: str, names: tuple[str, str]) -> float:
    """Pearson correlation in [-1, 1]; undefined where one side does not vary."""
    if len(x) < 2:
        raise UndefinedMeasureError(f"{call} needs at least two pairs of values; got {len(x)}.")
    deviations = []
    for values, name in zip((x, y), names, strict=True):
        largest = np.abs(values).max()
        scaled = values / largest if largest > 0 else values
        rest = scaled - scaled.mean()
        if np.abs(rest).max() <= 4 * np.finfo(np.float64).eps:
            raise UndefinedMeasureError(f"{call} needs {name} that vary; got {len(values)} equal values.")
        deviations.append(rest / np.sqrt(np.vecdot(rest, rest)))
    return float(np.clip(np.vecdot(*deviations), -1.0, 1.0))


def length_frequency_correlation(norms: Any, frequencies: Any, *, kind: str = "pearson") -> float:
    """Whether frequent rows are longer, in percent.

    ``ρ = 100·corr(‖e_i‖, p_i)``, ``p_i = n_i/Σ_j n_j``.

    Parameters
    ----------
    norms
        ``(n,)`` lengths of the rows.
    frequencies
        ``(n,)`` counts or probabilities of the rows, not negative.
    kind
        ``"pearson"``: as the paper prints it; ``"log"``: with ln(p + 1e-10), as its code computes it over all rows,
        padding included; ``"spearman"``: of the ranks.

    Returns
    -------
    float
        In ``[-100, 100]`` percent: 100 when length grows in a straight line with frequency. Invariant to the scale of
        the norms and of the frequencies.

    Raises
    ------
    UndefinedMeasureError
        Fewer than two rows, or all norms or all frequencies equal.
    InputError
        Different lengths, or negative frequencies.

    Notes
    -----
    O(n), Spearman O(n·log n). The three kinds can differ in sign; name the one that is quoted.

    References
    ----------
    Stollenwerk and Stollenwerk 2025, Better Embeddings with Coupled Adam, equation 27.

    Examples
    --------
    >>> round(length_frequency_correlation([1.0, 2.0, 3.0], [10, 20, 30]), 6)
    100.0
    """
    call = "length_frequency_correlation"
    _check.one_of(kind, ("pearson", "log", "spearman"), call, "kind")
    norms = _check.vector(norms, call, "norms")
    frequencies = _check.vector(frequencies, call, "frequencies")
    if len(norms) != len(frequencies):
        raise InputError(
            f"{call} needs one frequency for each row; got {len(norms)} norms and {len(frequencies)} frequencies."
        )
    if len(frequencies) and frequencies.min() < 0:
        raise InputError(f"{call} needs frequencies that are not negative; got {frequencies.min():.6g}.")
    if kind == "log" and frequencies.sum() > 0:
        frequencies = np.log(frequencies / frequencies.sum() + 1e-10)
    if kind == "spearman":
        norms, frequencies = ranks(norms), ranks(frequencies)
    return 100 * correlation(norms, frequencies, call, ("norms", "frequencies"))
