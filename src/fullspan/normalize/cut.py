"""Shorter rows: a cut of the first dimensions, a random projection, a singular value decomposition without a mean."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError
from fullspan.normalize._spectral import angles, signed
from fullspan.normalize.affine import Affine
from fullspan.normalize.base import Normalizer
from fullspan.normalize.facts import Facts
from fullspan.normalize.stages import Head, Unit

__all__ = ["RandomProjection", "Truncate", "TruncatedSVD"]


def _check_size(k: Any, user: str, name: str = "k") -> None:
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise InputError(f"{user} needs {name} as a count of at least 1; got {k!r}.")


def _check_fits(k: int, dim: int, user: str, name: str = "k") -> None:
    if k > dim:
        raise InputError(f"{user} needs {name} of at most the {dim} dimensions (n_features = {dim}); got {k}.")


class Truncate(Normalizer):
    """Keep the first dimensions, and bring rows back to length one (a Matryoshka cut).

    Parameters
    ----------
    k
        How many dimensions stay.
    renormalize
        Whether rows are divided by their norm after the cut; forgetting it makes dot products of cut rows wrong.
    zero_rows, nan_rows
        Policy for rows of zeros and rows with NaN or infinity: ``"error"``, ``"skip"`` or ``"keep"``.

    Notes
    -----
    Nothing is fitted. Sensible for models trained so that the first dimensions stand by themselves (Kusupati et al.
    2022, Matryoshka representation learning); for others take :class:`PCA`.

    Examples
    --------
    >>> import numpy as np
    >>> Truncate(2).fit_transform(np.array([[3.0, 4.0, 12.0]])).round(6).tolist()
    [[0.6, 0.8]]
    """

    def __init__(
        self, k: int = 1, *, renormalize: bool = True, zero_rows: str = "keep", nan_rows: str = "error"
    ) -> None:
        self.k, self.renormalize, self.zero_rows, self.nan_rows = k, renormalize, zero_rows, nan_rows

    def _check_parameters(self) -> None:
        _check_size(self.k, "Truncate")

    def _learn(self, facts: Facts | None, dim: int) -> None:
        if dim:
            _check_fits(self.k, dim, "Truncate")
        head = Head(int(self.k), dim)
        self._stages = (head, Unit()) if self.renormalize else (head,)


class RandomProjection(Normalizer):
    """Project rows onto random directions, which keeps distances roughly as they are.

    Parameters
    ----------
    k
        Length of the rows that come out.
    seed
        Of the directions.
    orthogonal
        Whether the directions are orthogonal to each other (for `k` up to the dimension of the rows), which keeps
        distances better than independent ones.
    zero_rows, nan_rows
        Policy for rows of zeros and rows with NaN or infinity: ``"error"``, ``"skip"`` or ``"keep"``.

    Notes
    -----
    Needs no look at the rows, only their length. Squared distances are right on average, and off by about
    ``sqrt(2 / k)`` (Johnson and Lindenstrauss, 1984).

    Examples
    --------
    >>> import numpy as np
    >>> RandomProjection(3).fit_transform(np.eye(8)).shape
    (8, 3)
    """

    _map = "matrix"
    _feature_prefix = "projection"

    def __init__(
        self,
        k: int = 1,
        *,
        seed: int = 0,
        orthogonal: bool = True,
        zero_rows: str = "keep",
        nan_rows: str = "error",
    ) -> None:
        self.k, self.seed, self.orthogonal = k, seed, orthogonal
        self.zero_rows, self.nan_rows = zero_rows, nan_rows

    def _check_parameters(self) -> None:
        _check_size(self.k, "RandomProjection")

    def _learn(self, facts: Facts | None, dim: int) -> None:
        matrix = np.random.default_rng([self.seed, dim, self.k]).standard_normal((dim, self.k))
        if self.orthogonal and self.k <= dim:
            made, triangle = np.linalg.qr(matrix)
            matrix = made * np.sign(np.diagonal(triangle)) * np.sqrt(dim / self.k)
        else:
            matrix /= np.sqrt(self.k)
        self._stages = (Affine(np.zeros(dim), matrix),)


class TruncatedSVD(Normalizer):
    """Project rows onto the first right singular vectors of the table, without taking the mean away.

    Parameters
    ----------
    k
        How many directions stay.
    align_to
        An earlier fit whose signs the directions take; the angles are reported as in :class:`PCA`.
    zero_rows, nan_rows
        Policy for rows of zeros and rows with NaN or infinity: ``"error"``, ``"skip"`` or ``"keep"``.

    Attributes
    ----------
    components_, singular_values_
        ``(k, dim)`` directions; ``(k,)`` singular values of the table.

    Notes
    -----
    One pass. Where rows have a large mean the first direction is little else than the mean; :class:`PCA` takes it away.

    Examples
    --------
    >>> import numpy as np
    >>> TruncatedSVD(1).fit_transform(np.array([[3.0, 4.0], [6.0, 8.0]])).round(6).tolist()
    [[5.0], [10.0]]
    """

    _map = "matrix"
    _needs: ClassVar = ("covariance",)
    _feature_prefix = "svd"
    components_: Array
    singular_values_: Array

    def __init__(self, k: int = 1, *, align_to: Any = None, zero_rows: str = "keep", nan_rows: str = "error") -> None:
        self.k, self.align_to, self.zero_rows, self.nan_rows = k, align_to, zero_rows, nan_rows

    def _check_parameters(self) -> None:
        _check_size(self.k, "TruncatedSVD")

    def _learn(self, facts: Facts | None, dim: int) -> None:
        assert facts is not None
        _check_fits(self.k, dim, "TruncatedSVD")
        values, vectors = np.linalg.eigh(facts.second_moment)
        vectors = signed(vectors[:, ::-1])[:, : self.k]
        self.singular_values_ = np.sqrt(np.maximum(values[::-1][: self.k], 0.0) * facts.weight)
        if self.align_to is not None:
            vectors, self.component_angles_, self.angle_ = angles(vectors, self.align_to, "TruncatedSVD")
        self.components_ = vectors.T
        self._stages = (Affine(np.zeros(dim), vectors),)
