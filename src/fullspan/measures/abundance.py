"""Information abundance and its variants: the sum of the singular values over the largest.

The paper takes the uncentered table, where a mean shift alone reads as collapse; so the centered one stands beside it.
What a user sees of a recommender's table are rows weighted by how often they are looked up: the frequency-weighted
variant. A table of dim 8 cannot reach the abundance of one of dim 128, and a table of 60 rows cannot reach its dim: the
variants relative to dim and to an isotropic Gaussian table of the same shape.
"""

from __future__ import annotations

from typing import Any

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check, null

__all__ = ["information_abundance", "null_information_abundance", "relative_information_abundance"]


def information_abundance(singular_values: Any) -> float:
    """Sum of the singular values relative to the largest: how many directions the table uses.

    ``IA(E) = ‖σ‖₁ / ‖σ‖_∞``.

    Parameters
    ----------
    singular_values
        ``(r,)`` singular values: of the table as it is (the paper), of the centered table (``centered_…``), or of the
        table with each row weighted by the root of its frequency (``weighted_…``).

    Returns
    -------
    float
        In ``[1, rank]`` directions: 1 for rank one, min(n, dim) for equal singular values. Invariant to scale and
        rotation; to translation only when centered.

    Raises
    ------
    UndefinedMeasureError
        All singular values are zero.

    Notes
    -----
    O(r). Depends on n: a Gaussian table of 100 × 64 reads 32, of 10,000 × 64 about 59. Compare with its null.

    References
    ----------
    Guo et al. 2024, On the embedding collapse when scaling up recommendation models, definition 1.

    Examples
    --------
    >>> information_abundance([4.0, 2.0, 2.0])
    2.0
    """
    return float(_check.descending(singular_values, "information_abundance").sum())


def relative_information_abundance(singular_values: Any, dim: int) -> float:
    """Information abundance as a share of the dimensions.

    ``IA(E) / dim``.

    Parameters
    ----------
    singular_values
        ``(r,)`` singular values of the table, uncentered.
    dim
        Number of columns of the table.

    Returns
    -------
    float
        In ``[1/dim, 1]``; a table with n < dim rows stays below n/dim. Invariant to scale and rotation.

    Raises
    ------
    UndefinedMeasureError
        All singular values are zero.
    InputError
        More singular values than dimensions.

    Notes
    -----
    O(r). Makes tables of different width comparable; those of different height not: see
    :func:`null_information_abundance`.

    References
    ----------
    Guo et al. 2024, definition 1, divided by the embedding size.

    Examples
    --------
    >>> relative_information_abundance([4.0, 2.0, 2.0], dim=4)
    0.5
    """
    if len(_check.vector(singular_values, "relative_information_abundance", "singular values")) > dim:
        raise InputError(f"relative_information_abundance needs dim ≥ the number of singular values; got dim={dim}.")
    return information_abundance(singular_values) / dim


def null_information_abundance(singular_values: Any, n_rows: int, dim: int) -> float:
    """Information abundance relative to that of an isotropic Gaussian table of the same shape.

    ``IA(E) / E[IA(G)]``, G of n rows and dim columns of independent normal numbers.

    Parameters
    ----------
    singular_values
        ``(r,)`` singular values of the table, uncentered.
    n_rows, dim
        Shape of the table.

    Returns
    -------
    float
        About 1 for a table without structure, towards 0 for a collapsed one; orthogonal columns exceed 1. Invariant to
        scale and rotation.

    Raises
    ------
    UndefinedMeasureError
        All singular values are zero.

    Notes
    -----
    O(r), plus once per shape the simulation of the null (cached).

    References
    ----------
    Guo et al. 2024, definition 1; the null follows Marchenko and Pastur 1967.

    Examples
    --------
    >>> round(null_information_abundance([1.0] + [0.0] * 63, 100, 64), 2)
    0.03
    """
    expected = _NULL(n_rows, dim)
    if expected is None:
        raise UndefinedMeasureError(
            f"null_information_abundance needs at least one row and one column; got {n_rows} and {dim}."
        )
    return information_abundance(singular_values) / expected.value


_NULL = null.spectrum_null("singular", information_abundance)
