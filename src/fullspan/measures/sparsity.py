"""How unevenly a row uses its dimensions: Gini index, entropy and Hoyer sparsity of |x|.

All three depend on the basis: a rotation of the table changes them. They do not change when a row is scaled.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check

__all__ = ["gini_index", "hoyer_sparsity", "vector_entropy"]

_MODES = ("exact", "article")


def _sorted(a: Any) -> Any:
    return a.sort(dim=-1).values if _check.is_torch(a) else np.sort(a, axis=-1)


def _arange(a: Any, dim: int) -> Any:
    if _check.is_torch(a):
        return sys.modules["torch"].arange(1, dim + 1, dtype=a.dtype, device=a.device)
    return np.arange(1, dim + 1, dtype=a.dtype)


def _gini(xp: Any, a: Any) -> Any:
    """Of rows that hold |x| divided by their largest entry (|x| + 1e-12 in article mode)."""
    dim = a.shape[-1]
    lowest = xp.amin(a, axis=-1, keepdims=True)
    ranked = _sorted(a - lowest)
    weights = 2 * _arange(a, dim) - (dim + 1)
    return (ranked * weights).sum(-1) / (dim * a.sum(-1))


def _entropy(xp: Any, a: Any) -> Any:
    share = a / a.sum(-1)[..., None]
    positive = xp.where(share > 0, share, xp.ones_like(share))
    return xp.clip(-(share * xp.log(positive)).sum(-1), 0.0, math.log(a.shape[-1]))


def _hoyer(xp: Any, a: Any) -> Any:
    """(√d - l1/l2)/(√d - 1) as d·Σ(a - mean)²/(l2·(√d·l2 + l1)·(√d - 1)/√d), which does not cancel for even rows."""
    dim = a.shape[-1]
    root = math.sqrt(dim)
    l1 = a.sum(-1)
    centered = a - (l1 / dim)[..., None]
    l2 = xp.sqrt((a * a).sum(-1))
    low = l2 * (root * l2 + l1) * (root - 1)
    return xp.clip(dim * (centered * centered).sum(-1) / xp.where(l1 > 0, low, xp.ones_like(low)), 0.0, 1.0)


def _prepare(x: Any, call: str) -> tuple[Any, Any]:
    """The namespace, and |x| in float64 (float32 on devices without it)."""
    if _check.is_torch(x):
        torch = sys.modules["torch"]
        wide = torch.float32 if x.device.type == "mps" else torch.float64
        return torch, x.to(wide).abs()
    return np, np.abs(_check.to_numpy(x, call).astype(np.float64, copy=False))


def _refuse(xp: Any, a: Any, call: str, *, zeros: bool) -> None:
    """Raise when a row is not finite, or (if `zeros`) holds nothing but zeros."""
    largest = xp.amax(a, axis=-1)
    flat = largest.reshape(-1)
    finite = xp.isfinite(flat) & ~xp.isnan(a).any(-1).reshape(-1)
    if not bool(finite.all()):
        bad = [int(i) for i in np.flatnonzero(~np.asarray(finite.cpu() if _check.is_torch(finite) else finite))]
        where = f", the first is row {bad[0]}" if a.ndim > 1 else ""
        raise InputError(
            f"{call} needs finite values; got {len(bad)} rows with NaN or infinity{where}. "
            "Drop them first; fs.measure counts and names such rows."
        )
    dead = flat == 0
    if zeros and bool(dead.any()):
        where = np.flatnonzero(np.asarray(dead.cpu() if _check.is_torch(dead) else dead))
        row = f", the first is row {where[0]}" if a.ndim > 1 else ""
        raise UndefinedMeasureError(
            f"{call} needs rows with at least one non-zero entry; got {len(where)} zero "
            f'row{"s" * (len(where) > 1)}{row}. Leave such rows out, or pass mode="article".'
        )


def _per_row(x: Any, call: str, kernel: Callable[[Any, Any], Any], mode: str, shift: float) -> Any:
    article = _check.one_of(mode, _MODES, call, "mode") == "article"
    torch = _check.is_torch(x)
    x = x if torch else _check.to_numpy(x, call)
    if x.ndim not in (1, 2) or x.shape[-1] == 0:
        raise InputError(f"{call} needs one row (dim,) or a table (rows, dim); got shape {tuple(x.shape)}.")

    def block(part: Any) -> Any:
        xp, a = _prepare(part, call)
        _refuse(xp, a, call, zeros=not article)
        if article and shift:
            return kernel(xp, a + shift)
        largest = xp.amax(a, axis=-1, keepdims=True)
        return kernel(xp, a / xp.where(largest > 0, largest, xp.ones_like(largest)))

    if x.ndim == 1:
        value = block(x)
        return value if torch else float(value)
    slices = list(_check.row_blocks(len(x), x.shape[-1], 2**24 if torch else 2**15)) or [slice(0, 0)]
    try:
        parts = [block(x[part]) for part in slices] if len(x) else [_prepare(x, call)[1].sum(-1)]
    except (InputError, UndefinedMeasureError):  # count the bad rows of the whole table, not of one block
        _refuse(*_prepare(x, call), call, zeros=not article)
        raise
    return parts[0] if len(parts) == 1 else (sys.modules["torch"].cat(parts) if torch else np.concatenate(parts))


def gini_index(x: Any, *, mode: str = "exact") -> Any:
    r"""Inequality of the absolute entries of a row.

    ``G = Σ_i (2i - d - 1)·|x|_(i) / (d·Σ_i |x|_i)`` with \|x\|_(1) ≤ … ≤ \|x\|_(d).

    Parameters
    ----------
    x
        One row ``(dim,)`` or a table ``(n, dim)``; NumPy array, list, or torch tensor on any device.
    mode
        ``"exact"``, or ``"article"``: 1e-12 is added to every \|x_i\|, as in the article's code, so that a zero row
        reads 0.

    Returns
    -------
    float or array of shape ``(n,)``
        In ``[0, 1 - 1/d]``: 0 when all entries have one magnitude, 1 - 1/d for a one-hot row. No unit. Float64, of the
        kind of `x`. Invariant to the scale of a row, to signs, and to the order of the dimensions; **not** to a
        rotation.

    Raises
    ------
    UndefinedMeasureError
        A row of zeros, in the exact mode.
    InputError
        NaN, infinity, or a wrong shape.

    Notes
    -----
    O(n·d·log d) time. Computed on sorted ``|x| - min|x|``, exact for rows with a huge common offset. The article's
    1e-12 makes rows of size 1e-10 and less look even; the exact mode has no such constant. Multiply by d/(d - 1) to
    reach 1 at one-hot.

    References
    ----------
    Hurley and Rickard 2009, Comparing measures of sparsity, table I. Article "What's Happening to Embeddings During
    Training?", function ``gini``.

    Examples
    --------
    >>> gini_index([0.0, 0.0, 0.0, 2.0])
    0.75
    >>> gini_index([[1.0, -1.0], [0.0, 3.0]]).tolist()
    [0.0, 0.5]
    """
    return _per_row(x, "gini_index", _gini, mode, 1e-12)


def vector_entropy(x: Any, *, mode: str = "exact", normalize: bool = False) -> Any:
    r"""Entropy of the shares that the entries take of a row.

    ``H = -Σ_i p_i ln p_i`` with ``p_i = |x_i| / Σ_j |x_j|``.

    Parameters
    ----------
    x
        One row ``(dim,)`` or a table ``(n, dim)``; NumPy array, list, or torch tensor on any device.
    mode
        ``"exact"``, or ``"article"``: 1e-12 is added to every \|x_i\|, as in the article's code.
    normalize
        Divide by ln(dim), which gives a number in [0, 1].

    Returns
    -------
    float or array of shape ``(n,)``
        In ``[0, ln d]`` nats: 0 for a one-hot row, ln d when all entries have one magnitude. Float64, of the kind of
        `x`. Invariant to the scale of a row, to signs, and to the order of the dimensions; **not** to a rotation.

    Raises
    ------
    UndefinedMeasureError
        A row of zeros, in the exact mode; dim = 1 when `normalize` is set.
    InputError
        NaN, infinity, or a wrong shape.

    Notes
    -----
    O(n·d) time. Equivalent: ``scipy.stats.entropy(abs(x))``.

    References
    ----------
    Article "What's Happening to Embeddings During Training?", function ``vector_entropy``.

    Examples
    --------
    >>> round(vector_entropy([1.0, -1.0, 1.0, 1.0]), 6)
    1.386294
    >>> vector_entropy([1.0, -1.0], normalize=True)
    1.0
    """
    value = _per_row(x, "vector_entropy", _entropy, mode, 1e-12)
    if not normalize:
        return value
    dim = np.shape(x)[-1]
    if dim == 1:
        raise UndefinedMeasureError("vector_entropy with normalize=True needs at least two dimensions; got 1.")
    return value / math.log(dim)


def hoyer_sparsity(x: Any, *, mode: str = "exact") -> Any:
    r"""How few dimensions carry a row, from the ratio of its two norms.

    ``S = (√d - ‖x‖₁/‖x‖₂) / (√d - 1)``.

    Parameters
    ----------
    x
        One row ``(dim,)`` or a table ``(n, dim)`` with dim ≥ 2; NumPy array, list, or torch tensor on any device.
    mode
        ``"exact"``, or ``"article"``: a row of zeros reads 0, as in the article's code.

    Returns
    -------
    float or array of shape ``(n,)``
        In ``[0, 1]``: 0 when all entries have one magnitude, 1 for a one-hot row. No unit. Float64, of the kind of `x`.
        Invariant to the scale of a row, to signs, and to the order of the dimensions; **not** to a rotation.

    Raises
    ------
    UndefinedMeasureError
        One dimension (0/0), or a row of zeros in the exact mode.
    InputError
        NaN, infinity, or a wrong shape.

    Notes
    -----
    O(n·d) time. Computed as ``d·Σ(|x| - m)² / (l2·(√d·l2 + l1)·(√d - 1))`` with m the mean of \|x\|: equal in exact
    arithmetic, and free of cancellation for rows that are nearly even.

    References
    ----------
    Hoyer 2004, Non-negative matrix factorization with sparseness constraints, section 3.1. Article "What's Happening to
    Embeddings During Training?", function ``hoyer_sparsity``.

    Examples
    --------
    >>> hoyer_sparsity([0.0, 0.0, 5.0])
    1.0
    >>> hoyer_sparsity([2.0, -2.0, 2.0, 2.0])
    0.0
    """
    if np.ndim(x) in (1, 2) and np.shape(x)[-1] == 1:
        raise UndefinedMeasureError(
            "hoyer_sparsity needs at least two dimensions; got 1. With one dimension it is 0/0."
        )
    return _per_row(x, "hoyer_sparsity", _hoyer, mode, 0.0)
