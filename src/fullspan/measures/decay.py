"""How the eigenvalues decay: power laws over their rank and over their size."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check

__all__ = [
    "PowerLawFit",
    "alpha_req",
    "alpha_req_fit",
    "tail_exponent",
]


class PowerLawFit(NamedTuple):
    """A straight line through ln λ over ln rank: `alpha` is minus its slope, ranks `first` to `last` count from 1."""

    alpha: float
    r_squared: float
    first: int
    last: int


def alpha_req_fit(eigenvalues: Any, fit_range: tuple[int, int] | None = None) -> PowerLawFit:
    """Decay of the eigenvalues as a power of their rank, with the quality of the fit.

    Least squares of ``ln λ_j = c - α·ln j`` over ranks first … last.

    Parameters
    ----------
    eigenvalues
        ``(dim,)`` eigenvalues of the covariance.
    fit_range
        First and last rank, from 1, both included. None: 11 … 100 as the paper's code does where there are 100 non-zero
        eigenvalues; with r < 100 of them, from ``r // 10 + 1`` to r.

    Returns
    -------
    PowerLawFit
        alpha in ``[0, ∞)``: 0 for equal eigenvalues, about 1 in representations that generalize well. Invariant to
        scale, rotation and translation. `r_squared` is 1 for equal eigenvalues, where there is nothing to explain.

    Raises
    ------
    UndefinedMeasureError
        Fewer than three non-zero eigenvalues in the range.
    InputError
        A range that is not 1 ≤ first < last ≤ dim.

    Notes
    -----
    O(dim). The fit range decides much; print it with R². A noise floor in the tail flattens alpha.

    References
    ----------
    Agrawal et al. 2022, α-ReQ: assessing representation quality by measuring eigenspectrum decay, section 3.

    Examples
    --------
    >>> fit = alpha_req_fit([1 / rank for rank in range(1, 51)])
    >>> round(fit.alpha, 6), round(fit.r_squared, 6), fit.first, fit.last
    (1.0, 1.0, 6, 50)
    """
    values = _check.descending(eigenvalues, "alpha_req", "eigenvalue")
    positive = int((values > 1e-14).sum())
    first, last = fit_range or (min(11, min(positive, 100) // 10 + 1), min(positive, 100))
    if fit_range and not 1 <= first < last <= len(values):
        raise InputError(f"alpha_req needs a fit range within 1 … {len(values)}, first before last; got {fit_range}.")
    last = min(last, positive)
    if last - first < 2:
        raise UndefinedMeasureError(
            f"alpha_req needs at least three non-zero eigenvalues to fit; got {max(0, last - first + 1)}."
        )
    x = np.log(np.arange(first, last + 1))
    y = np.log(values[first - 1 : last])
    x, y = x - x.mean(), y - y.mean()
    slope = float(np.vecdot(x, y) / np.vecdot(x, x))
    total = float(np.vecdot(y, y))
    explained = slope**2 * float(np.vecdot(x, x))
    return PowerLawFit(max(0.0, -slope), 1.0 if total < 1e-24 else min(1.0, explained / total), first, last)


def alpha_req(eigenvalues: Any, fit_range: tuple[int, int] | None = None) -> float:
    """Decay exponent of the eigenvalues over their rank.

    ``λ_j ∝ j^(-α)``; the slope of :func:`alpha_req_fit`.

    Parameters
    ----------
    eigenvalues
        ``(dim,)`` eigenvalues of the covariance.
    fit_range
        First and last rank, from 1, both included; None as in :func:`alpha_req_fit`.

    Returns
    -------
    float
        In ``[0, ∞)``: 0 for equal eigenvalues; about 1 is reported as good, much more is collapse. Invariant to scale,
        rotation and translation.

    Raises
    ------
    UndefinedMeasureError
        Fewer than three non-zero eigenvalues in the range.
    InputError
        A range that is not 1 ≤ first < last ≤ dim.

    Notes
    -----
    O(dim). Works below 100 dimensions, where the customary range 10 … 100 does not exist.

    References
    ----------
    Agrawal et al. 2022, α-ReQ, section 3.

    Examples
    --------
    >>> round(alpha_req([rank**-2.0 for rank in range(1, 31)]), 6)
    2.0
    """
    return alpha_req_fit(eigenvalues, fit_range).alpha


def tail_exponent(eigenvalues: Any) -> float:
    """Exponent of a power law fitted to the density of the large eigenvalues.

    ``ρ(λ) ∝ λ^(-α)`` for λ ≥ λ_min; α by maximum likelihood, λ_min where the Kolmogorov distance is least.

    Parameters
    ----------
    eigenvalues
        ``(dim,)`` eigenvalues of the covariance (or σ² of a weight matrix); at least 10 of them non-zero.

    Returns
    -------
    float
        In ``(1, ∞)``: 2 … 4 is reported for well-trained layers, more for a spectrum with a light tail. Invariant to
        scale, rotation and translation.

    Raises
    ------
    UndefinedMeasureError
        Fewer than 10 non-zero eigenvalues, or all of them equal.

    Notes
    -----
    O(dim²). Not alpha-ReQ: that is a slope over ranks, this an exponent of a density.

    References
    ----------
    Clauset, Shalizi and Newman 2009, equation 3.1; Martin and Mahoney 2021 (WeightWatcher).

    Examples
    --------
    >>> import numpy as np
    >>> u = (np.arange(200) + 0.5) / 200
    >>> round(tail_exponent(u**-0.5), 1)
    3.0
    """
    values = _check.descending(eigenvalues, "tail_exponent", "eigenvalue")
    logs = np.log(values[values > 1e-14])
    if len(logs) < 10 or logs[0] - logs[-1] < 1e-9:
        raise UndefinedMeasureError(
            f"tail_exponent needs at least 10 non-zero eigenvalues that differ; got {len(logs)} "
            f"from {math.exp(logs[-1]):.3g} to 1 of the largest."
        )
    best, alpha = math.inf, math.inf
    for size in range(10, len(logs) + 1):
        above = logs[:size] - logs[size - 1]
        if above.sum() <= 0:
            continue
        slope = size / above.sum()
        distance = np.abs((np.arange(size) + 0.5) / size - np.exp(-slope * above)).max()
        if distance < best:
            best, alpha = distance, 1 + slope
    return float(alpha)
