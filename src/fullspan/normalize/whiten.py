"""Maps made of the covariance: principal components, whitening, and the removal of the top components."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.normalize._spectral import ROTATIONS, Spectrum, angles, chosen, rotated, shrinkage_of
from fullspan.normalize.affine import Affine
from fullspan.normalize.base import Normalizer
from fullspan.normalize.facts import Facts

__all__ = ["PCA", "RemoveTop", "Whiten"]


class _Spectral(Normalizer):
    """What the three share: the spectrum, its rank, signs, and what to say about few rows."""

    _map = "matrix"
    _needs: ClassVar = ("covariance",)
    k: Any
    mean_: Array
    eigenvalues_: Array
    components_: Array
    rank_: int
    notes_: tuple[str, ...]
    align_to: Any

    def _spectrum(self, facts: Facts | None) -> Spectrum:
        assert facts is not None
        spectrum = Spectrum.of(facts)
        self.mean_, self.eigenvalues_, self.rank_ = facts.mean, spectrum.values, spectrum.rank
        notes = []
        if spectrum.rank < min(facts.n_rows - 1, facts.dim):
            notes.append(f"The table has rank {spectrum.rank} of {facts.dim}: the other directions hold rounding only.")
        if facts.n_rows < 5 * facts.dim:
            notes.append(
                f"{facts.n_rows} rows are few for {facts.dim} dimensions: small eigenvalues are underestimated, and "
                "new rows come out larger than those of the fit. Take shrinkage, or a smaller k."
            )
        self.notes_ = tuple(notes)
        return spectrum

    def _aligned(self, vectors: Array) -> Array:
        """Components with the signs of an earlier fit, and the angle between the two."""
        if self.align_to is None:
            return vectors
        vectors, self.component_angles_, self.angle_ = angles(vectors, self.align_to, type(self).__name__)
        return vectors

    def _check_k(self) -> None:
        k = self.k
        whole = isinstance(k, (int, np.integer)) and not isinstance(k, bool) and k >= 1
        share = isinstance(k, (float, np.floating)) and 0.0 < k < 1.0
        if not (k is None or whole or share or k == "parallel"):
            raise InputError(
                f"{type(self).__name__} needs k as a count of at least 1, a share of variance between 0 and 1, "
                f"'parallel' or None; got {k!r}."
            )


class PCA(_Spectral):
    """Rotate rows to their principal components, and keep the first of them.

    Parameters
    ----------
    k
        How many: a count, a share of the variance (``0.9``), ``"parallel"`` for those above the components of
        independent columns of the same variances (parallel analysis), or None for all up to the numerical rank.
    align_to
        An earlier fit: components take its signs, and the angles between the two are reported. Vectors mapped by the
        earlier fit are comparable with new ones only where the angles are small.
    zero_rows, nan_rows
        Policy for rows of zeros and rows with NaN or infinity: ``"error"``, ``"skip"`` or ``"keep"``.

    Attributes
    ----------
    mean_, components_
        ``(dim,)`` mean; ``(k, dim)`` orthonormal components, the largest loading of each positive.
    eigenvalues_, explained_variance_ratio_
        ``(dim,)`` eigenvalues of the covariance; ``(k,)`` share of the variance of each component kept.
    rank_
        Directions that hold more than rounding.
    angle_, component_angles_
        With `align_to`: largest principal angle between the two subspaces, and ``(k,)`` angle of every component with
        that of the earlier fit, in degrees.

    Notes
    -----
    One pass, ``8·dim²`` bytes; the covariance is formed in float64 around a pilot mean, so that float32 rows with a
    mean of 10,000 deviations lose nothing.

    Examples
    --------
    >>> import numpy as np
    >>> E = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]])
    >>> pca = PCA().fit(E)
    >>> pca.rank_, pca.components_.round(3).tolist()
    (1, [[0.447, 0.894]])
    """

    _feature_prefix = "pca"

    def __init__(
        self, k: Any = None, *, align_to: Any = None, zero_rows: str = "keep", nan_rows: str = "error"
    ) -> None:
        self.k, self.align_to, self.zero_rows, self.nan_rows = k, align_to, zero_rows, nan_rows

    def _check_parameters(self) -> None:
        self._check_k()

    def _learn(self, facts: Facts | None, dim: int) -> None:
        spectrum = self._spectrum(facts)
        kept = chosen(self.k, spectrum, facts, type(self).__name__)
        vectors = self._aligned(spectrum.vectors[:, :kept])
        self.components_ = vectors.T
        total = float(spectrum.values.sum())
        self.explained_variance_ratio_ = spectrum.values[:kept] / (total or 1.0)
        self._stages = (Affine(self.mean_, vectors),)


class Whiten(_Spectral):
    """Make the covariance of the rows the identity, wholly or in part.

    Parameters
    ----------
    rotation
        ``"zca"`` stays closest to the columns that came in, ``"zca-cor"`` to the standardized ones, ``"pca"`` sorts by
        variance (and makes rows `k` long), ``"cholesky"`` is triangular. Cosines, distances and dot products are the
        same for all four.
    power
        1 whitens; 0.5 takes the square root of every spread only; 0 leaves all as it is but the mean.
    epsilon
        Added to every eigenvalue, as a multiple of the mean eigenvalue (soft whitening): 0.1 tames the small ones.
    shrinkage
        ``"none"``, ``"oas"``, ``"ledoit-wolf"``, ``"auto"`` (``"oas"``), or a number from 0 to 1: how far the
        covariance is pulled towards its mean eigenvalue.
    k
        Components that are kept, as in :class:`PCA`; the others become zero. None keeps the numerical rank.
    align_to
        An earlier fit whose signs the components take (``"pca"`` rotation only needs it); the angle is reported.
    zero_rows, nan_rows
        Policy for rows of zeros and rows with NaN or infinity: ``"error"``, ``"skip"`` or ``"keep"``.

    Attributes
    ----------
    mean_, matrix_
        The map ``(x - mean_) @ matrix_``.
    eigenvalues_, components_, rank_
        ``(dim,)`` eigenvalues of the covariance before shrinkage, ``(k, dim)`` components kept, numerical rank.
    shrinkage_
        The share of shrinkage that was used.
    angle_, component_angles_
        With `align_to`: as in :class:`PCA`.
    notes_
        What to know about this fit: too few rows, missing rank.

    Notes
    -----
    One pass (Ledoit-Wolf too). Full whitening blows up what little variance the last components hold; on embeddings of
    a model that was trained for cosines it makes every task worse. Half whitening (``power=0.5``) or soft whitening
    (``epsilon=1``) keep most of the gain where there is one.

    References
    ----------
    Kessy, Lewin, Strimmer (2018), Optimal whitening and decorrelation. Chen, Wiesel, Eldar, Hero (2010), Shrinkage
    algorithms for MMSE covariance estimation. Ledoit, Wolf (2004), A well-conditioned estimator.

    Examples
    --------
    >>> import numpy as np
    >>> E = np.random.default_rng(0).normal(size=(100, 3)) * [3.0, 2.0, 1.0]
    >>> np.cov(Whiten().fit_transform(E), rowvar=False).round(6) + 0.0
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """

    matrix_: Array
    shrinkage_: float

    def __init__(
        self,
        rotation: str = "zca",
        *,
        power: float = 1.0,
        epsilon: float = 0.0,
        shrinkage: Any = "none",
        k: Any = None,
        align_to: Any = None,
        zero_rows: str = "keep",
        nan_rows: str = "error",
    ) -> None:
        self.rotation, self.power, self.epsilon, self.shrinkage = rotation, power, epsilon, shrinkage
        self.k, self.align_to, self.zero_rows, self.nan_rows = k, align_to, zero_rows, nan_rows

    @property
    def _feature_prefix(self) -> str | None:  # type: ignore[override]  # it depends on the rotation here
        return "whiten" if self.rotation in ("pca", "cholesky") else None

    def needs(self) -> tuple[str, ...]:
        return ("covariance", "radius") if self.shrinkage == "ledoit-wolf" else ("covariance",)

    def _check_parameters(self) -> None:
        self._check_k()
        if self.rotation not in ROTATIONS:
            raise InputError(f"Whiten needs rotation to be one of {', '.join(ROTATIONS)}; got {self.rotation!r}.")
        if not 0.0 <= self.power <= 2.0:
            raise InputError(f"Whiten needs a power from 0 to 2; got {self.power}. 1 whitens, 0.5 whitens by half.")
        if not 0.0 <= self.epsilon < np.inf:
            raise InputError(f"Whiten needs an epsilon of at least 0; got {self.epsilon}.")

    def _learn(self, facts: Facts | None, dim: int) -> None:
        spectrum = self._spectrum(facts)
        assert facts is not None
        self.shrinkage_ = shrinkage_of(self.shrinkage, spectrum, facts)
        level = float(spectrum.values.sum()) / len(spectrum.values)
        values = (1.0 - self.shrinkage_) * spectrum.values + (self.shrinkage_ + self.epsilon) * level
        full = level > 0.0 and (self.shrinkage_ + self.epsilon) > 1e-8
        kept = chosen(self.k, spectrum, facts, "Whiten", most=dim if full else spectrum.rank)
        vectors = self._aligned(spectrum.vectors[:, :kept])
        self.components_ = vectors.T
        gains = values[:kept] ** (-self.power / 2.0)
        pulled = (1.0 - self.shrinkage_) * facts.covariance
        pulled[np.diag_indices(dim)] += (self.shrinkage_ + self.epsilon) * level
        self.matrix_ = rotated(self.rotation, vectors, gains, pulled)
        self._stages = (Affine(self.mean_, self.matrix_),)


class RemoveTop(_Spectral):
    """Take away the mean and the directions of largest variance (all-but-the-top).

    Parameters
    ----------
    k
        How many directions; None for one in a hundred dimensions, at least one.
    zero_rows, nan_rows
        Policy for rows of zeros and rows with NaN or infinity: ``"error"``, ``"skip"`` or ``"keep"``.

    Attributes
    ----------
    mean_, components_
        ``(dim,)`` mean and ``(k, dim)`` directions that are removed.
    eigenvalues_, rank_
        ``(dim,)`` eigenvalues of the covariance, and numerical rank.

    Notes
    -----
    One pass. Helps word similarity; hurts the classification of topics, which often are the top directions.

    References
    ----------
    Mu, Viswanath (2018), All-but-the-Top: simple and effective postprocessing for word representations.

    Examples
    --------
    >>> import numpy as np
    >>> E = np.array([[9.0, 1.0], [-9.0, 1.0], [0.0, -1.0], [0.0, 3.0]])
    >>> RemoveTop(1).fit_transform(E).round(6).tolist()
    [[0.0, 0.0], [0.0, 0.0], [0.0, -2.0], [0.0, 2.0]]
    """

    def __init__(self, k: int | None = None, *, zero_rows: str = "keep", nan_rows: str = "error") -> None:
        self.k, self.zero_rows, self.nan_rows = k, zero_rows, nan_rows

    align_to = None

    def _check_parameters(self) -> None:
        if self.k is not None and (isinstance(self.k, bool) or not isinstance(self.k, (int, np.integer)) or self.k < 1):
            raise InputError(f"RemoveTop needs k as a count of at least 1, or None; got {self.k!r}.")

    def _learn(self, facts: Facts | None, dim: int) -> None:
        spectrum = self._spectrum(facts)
        self.notes_ = ()
        k = max(1, round(dim / 100)) if self.k is None else self.k
        if k > dim:
            raise UndefinedMeasureError(f"RemoveTop needs k of at most the {dim} dimensions; got {k}.")
        top = spectrum.vectors[:, : min(k, max(spectrum.rank, 1))]
        self.components_ = top.T
        rest = np.eye(dim) - top @ top.T
        rest[np.abs(rest) < 2e-15] = 0.0  # rounding, which a later step must not scale up
        self._stages = (Affine(self.mean_, rest),)
