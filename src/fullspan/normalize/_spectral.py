"""Eigenvectors with fixed signs, numerical rank, shrinkage, rotations of a whitening, angles between two fits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError
from fullspan.normalize.facts import Facts

__all__ = ["ROTATIONS", "Spectrum", "angles", "chosen", "rotated", "shrinkage_of"]

ROTATIONS = ("zca", "zca-cor", "pca", "cholesky")
#: A direction counts when its variance is above this share of the largest: float32 computations leave about 1e-12.
_FLOOR = {"float64": 1e-13}
_OTHER_FLOOR = 1e-10
#: ... and above this multiple of the variance that rounding to the stored type leaves in it.
_ROUNDING = 16.0
_DRAWS = 20


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of a covariance, largest first, eigenvectors as columns, and how many hold more than rounding."""

    values: Array
    vectors: Array
    rank: int

    @classmethod
    def of(cls, facts: Facts) -> Spectrum:
        covariance = facts.covariance
        values, vectors = np.linalg.eigh(covariance)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        limit = max(facts.n_rows - 1, 0)
        values[limit:] = 0.0
        floor = max(_FLOOR.get(facts.storage, _OTHER_FLOOR), 4.0 * len(values) * 2.0**-52) * values[0]
        noise = facts.rounding
        if facts.via is not None:
            through = facts.via.dense
            noise = noise @ through**2
        rounding = noise @ vectors**2
        good = (values > floor) & (values > _ROUNDING * rounding)
        rank = int(np.argmin(good)) if not good.all() else len(values)
        return cls(values, signed(vectors), rank)


def signed(vectors: Array) -> Array:
    """Columns with their largest entry positive (the first of equals)."""
    sizes = np.abs(vectors)
    largest = np.argmax(sizes >= sizes.max(axis=0) * (1.0 - 1e-9), axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return vectors * np.where(signs == 0.0, 1.0, signs)


def chosen(k: Any, spectrum: Spectrum, facts: Facts | None, user: str, most: int | None = None) -> int:
    """How many components to keep."""
    assert facts is not None
    most = max(spectrum.rank if most is None else most, 0)
    if not most:
        raise InputError(
            f"{user} needs rows that differ, not 1 sample; got {facts.n_rows} equal ones of {facts.dim} feature(s)."
        )
    if k is None:
        return most
    if k == "parallel":
        return max(1, min(most, _parallel(spectrum, facts)))
    if isinstance(k, (float, np.floating)):
        shares = np.cumsum(spectrum.values) / spectrum.values.sum()
        return min(most, int(np.searchsorted(shares, k - 1e-12) + 1))
    if k > facts.dim:
        raise InputError(f"{user} needs k of at most the {facts.dim} dimensions; got {k}.")
    if k > most:
        raise InputError(
            f"{user} needs k of at most the numerical rank {most} of this table; got {k}. The other directions hold "
            "rounding only; take k=None for all that do not."
        )
    return int(k)


def _parallel(spectrum: Spectrum, facts: Facts) -> int:
    """Leading eigenvalues above the 95th percentile of those of independent columns of the same variances."""
    random = np.random.default_rng(0)
    dim, rows = facts.dim, max(int(facts.weight) - 1, 1)
    spread = np.sqrt(np.maximum(np.diagonal(facts.covariance), 0.0))
    null = np.empty((_DRAWS, dim))
    for draw in null:
        if rows >= dim:  # R of a Gaussian table, up to signs
            root = np.triu(random.standard_normal((dim, dim)), 1)
            np.fill_diagonal(root, np.sqrt(random.chisquare(rows - np.arange(dim))))
        else:
            root = random.standard_normal((rows, dim))
        root *= spread
        draw[:] = np.maximum(np.linalg.eigvalsh(root.T @ root)[::-1], 0.0) / rows
    above = spectrum.values > np.quantile(null, 0.95, axis=0)
    return int(np.argmin(above)) if not above.all() else dim


def shrinkage_of(asked: Any, spectrum: Spectrum, facts: Facts) -> float:
    """The share by which the covariance is pulled towards its mean eigenvalue."""
    if asked in (None, "none"):
        return 0.0
    if isinstance(asked, (int, float, np.floating)) and not isinstance(asked, bool) and 0.0 <= asked <= 1.0:
        return float(asked)
    dim = len(spectrum.values)
    # both formulas are in terms of the covariance with n in the denominator
    values = spectrum.values * (facts.degrees / facts.weight)
    level, squares = float(values.mean()), float(values @ values)
    if asked in ("oas", "auto"):
        spread = (facts.weight + 1.0) * (squares - level**2 * dim) / dim**2
        pull = squares / dim**2 + level**2
        return min(1.0, pull / spread) if spread * 1e12 > pull else 1.0
    if asked == "ledoit-wolf":
        apart = (squares - dim * level**2) / dim
        pull = min((facts.fourth - squares) / (dim * facts.weight), apart)
        return pull / apart if apart > 0.0 and pull > 0.0 else 0.0
    raise InputError(
        f"Whiten needs shrinkage as 'none', 'oas', 'ledoit-wolf', 'auto' or a number from 0 to 1; got {asked!r}."
    )


def rotated(rotation: str, vectors: Array, gains: Array, covariance: Array) -> Array:
    """The whitening matrix of a rotation: ``V diag(gains)`` times an orthogonal one, so that cosines are the same."""
    plain = vectors * gains
    if rotation == "pca":
        return plain
    if rotation == "zca":
        return plain @ vectors.T
    if rotation == "cholesky":  # the rotation that makes it triangular
        upper: Any = np.linalg.qr(plain.T, mode="r")
        signs = np.sign(np.diagonal(upper))
        return upper.T * np.where(signs == 0.0, 1.0, signs)
    spread = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    spread = np.where(spread > 0.0, spread, np.inf)
    left, _, right = np.linalg.svd(plain.T @ covariance / spread, full_matrices=False)
    return plain @ (left @ right)


def angles(vectors: Array, earlier: Any, user: str) -> tuple[Array, Array, float]:
    """Columns with the signs of an earlier fit, their angles with its components, and the largest principal angle."""
    known = np.asarray(getattr(earlier, "components_", earlier), dtype=np.float64)
    if known.ndim != 2 or known.shape[1] != len(vectors):
        raise InputError(
            f"{user} needs align_to as an earlier fit to rows of length {len(vectors)}; got "
            f"{type(earlier).__name__} with components of shape {known.shape}."
        )
    both = min(len(known), vectors.shape[1])
    cosines = np.vecdot(known[:both], vectors[:, :both].T)
    signs = np.ones(vectors.shape[1])
    signs[:both] = np.where(cosines < 0.0, -1.0, 1.0)
    apart = known[:both].T - (vectors[:, :both] * signs[:both])
    per_component = np.degrees(2.0 * np.arcsin(np.minimum(np.linalg.norm(apart, axis=0) / 2.0, 1.0)))
    outside = vectors[:, :both] - known[:both].T @ (known[:both] @ vectors[:, :both])
    sine = min(float(np.linalg.norm(outside, 2)), 1.0)
    return vectors * signs, per_component, math.degrees(math.asin(sine))
