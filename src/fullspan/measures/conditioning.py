"""What the smallest singular values say: rank, condition and volume.

All of them depend on the smallest values, which rounding of the stored type blurs first: see
:func:`~fullspan.measures._check.resolution`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check

__all__ = [
    "condition_number",
    "inverse_condition_number",
    "log_determinant",
    "numerical_rank",
]


def numerical_rank(
    singular_values: Any, *, tolerance: float | None = None, dtype: Any = "float64", n_rows: int | None = None
) -> int:
    """Number of singular values that stand above rounding.

    ``#{j : σ_j > tolerance·σ_1}``.

    Parameters
    ----------
    singular_values
        ``(r,)`` singular values of the table.
    tolerance
        Relative to the largest; None takes what the stored type can resolve.
    dtype, n_rows
        Stored type and number of rows, for that tolerance (n_rows None: as many as singular values).

    Returns
    -------
    int
        In ``[1, min(n, dim)]``. Invariant to scale and rotation.

    Raises
    ------
    UndefinedMeasureError
        All singular values are zero.
    InputError
        A tolerance outside [0, 1).

    Notes
    -----
    O(r). ``numpy.linalg.matrix_rank`` uses ``max(n, dim)·eps`` instead, which is 0.12 for a million rows in float32;
    pass ``tolerance=max(n, dim) * numpy.finfo(dtype).eps`` for that. The default is in the docs under "resolution".

    References
    ----------
    Golub and Van Loan, Matrix Computations, section 5.4.1.

    Examples
    --------
    >>> numerical_rank([1.0, 0.5, 1e-18])
    2
    >>> numerical_rank([1.0, 0.5, 1e-9], dtype="float32")
    2
    """
    values = _check.descending(singular_values, "numerical_rank")
    if tolerance is None:
        tolerance = _check.resolution(dtype, n_rows or len(values), len(values))
    if not 0 <= tolerance < 1:
        raise InputError(f"numerical_rank needs a tolerance in [0, 1), relative to the largest; got {tolerance}.")
    return int((values > tolerance).sum())


def inverse_condition_number(singular_values: Any) -> float:
    """Smallest singular value over the largest.

    ``σ_min / σ_max``; the Coupled Adam paper's "condition number" κ is 100 times this, in percent.

    Parameters
    ----------
    singular_values
        ``(r,)`` singular values of the uncentered table, r = min(n, dim).

    Returns
    -------
    float
        In ``[0, 1]``: 0 for a table that lacks a direction, 1 for orthogonal columns of one length. Invariant to scale
        and rotation.

    Raises
    ------
    UndefinedMeasureError
        All singular values are zero.

    Notes
    -----
    O(r). Depends on the smallest singular value: below :func:`resolution` of the stored type read it as "at most".
    Equivalent: ``1 / numpy.linalg.cond(E)``.

    References
    ----------
    Stollenwerk and Stollenwerk 2025, Better Embeddings with Coupled Adam, equation 28.

    Examples
    --------
    >>> inverse_condition_number([4.0, 2.0, 1.0])
    0.25
    """
    return float(_check.descending(singular_values, "inverse_condition_number")[-1])


def condition_number(singular_values: Any) -> float:
    """Largest singular value over the smallest, as numerical analysis defines it.

    ``σ_max / σ_min``.

    Parameters
    ----------
    singular_values
        ``(r,)`` singular values of the uncentered table.

    Returns
    -------
    float
        In ``[1, ∞)``: 1 for orthogonal columns of one length. Invariant to scale and rotation.

    Raises
    ------
    UndefinedMeasureError
        The smallest singular value is zero: the ratio is infinite.

    Notes
    -----
    O(r). Depends on the smallest singular value. **Not** the κ of the Coupled Adam paper, which is
    100 × :func:`inverse_condition_number`. Equivalent: ``numpy.linalg.cond(E)``.

    References
    ----------
    Golub and Van Loan, Matrix Computations, section 2.6.2.

    Examples
    --------
    >>> condition_number([4.0, 1.0])
    4.0
    """
    smallest = float(_check.descending(singular_values, "condition_number")[-1])
    if smallest == 0 or math.isinf(1 / smallest):
        raise UndefinedMeasureError(
            "condition_number needs a smallest singular value above zero; got 0. The table lacks a direction: "
            "use inverse_condition_number, which is 0 then."
        )
    return 1 / smallest


def log_determinant(eigenvalues: Any) -> float:
    """Logarithm of the volume of the covariance.

    ``ln det C = Σ_j ln λ_j``.

    Parameters
    ----------
    eigenvalues
        ``(dim,)`` eigenvalues of the covariance.

    Returns
    -------
    float
        Any real number, in nats. Invariant to rotation and translation; scaling the table by s adds 2·dim·ln s.

    Raises
    ------
    UndefinedMeasureError
        An eigenvalue is zero (fewer than dim + 1 rows, or a collapsed direction): the logarithm is minus infinity.

    Notes
    -----
    O(dim). Depends on the smallest eigenvalue. Equivalent: ``numpy.linalg.slogdet(numpy.cov(E, rowvar=False))[1]``.

    References
    ----------
    Cover and Thomas 2006, Elements of Information Theory, theorem 8.4.1 (entropy of a Gaussian).

    Examples
    --------
    >>> log_determinant([1.0, 1.0])
    0.0
    """
    _check.descending(eigenvalues, "log_determinant", "eigenvalue")
    values = _check.vector(eigenvalues, "log_determinant", "eigenvalues")
    if values.min() <= 0:
        raise UndefinedMeasureError(
            f"log_determinant needs eigenvalues above zero; got {int((values <= 0).sum())} of {len(values)} at zero. "
            "Does the table have fewer rows than dimensions, or a collapsed direction?"
        )
    return float(np.log(values).sum())
