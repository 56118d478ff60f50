"""Rows weighted by how rare they are, and the common direction taken away."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fullspan._backend import is_torch_tensor
from fullspan._typing import Array
from fullspan.errors import InputError
from fullspan.normalize._spectral import signed
from fullspan.normalize.affine import Affine
from fullspan.normalize.base import Normalizer
from fullspan.normalize.facts import Facts

__all__ = ["SIF"]


class SIF(Normalizer):
    """Smooth inverse frequency: weight the row of each word by its rarity, and take the common direction away.

    Parameters
    ----------
    a
        A row of probability `p` gets the weight ``a / (a + p)``.
    remove
        How many common directions (right singular vectors of the table of the fit, no mean taken away) are removed;
        0 for none.
    zero_rows, nan_rows
        Policy for rows of zeros and rows with NaN or infinity: ``"error"``, ``"skip"`` or ``"keep"``.

    Attributes
    ----------
    components_
        ``(remove, dim)`` directions that are taken away.

    Notes
    -----
    Give the counts or probabilities of the rows as `sample_weight` of the fit, so that frequent rows count more for the
    common direction, and as `frequencies` of `transform`, where they weight the rows. Without frequencies `transform`
    only takes the common direction away: that is the part for vectors that are weighted averages already. One pass.

    References
    ----------
    Arora, Liang, Ma (2017), A simple but tough-to-beat baseline for sentence embeddings.

    Examples
    --------
    >>> import numpy as np
    >>> E = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, -1.0]])
    >>> sif = SIF(a=0.5).fit(E, sample_weight=[2, 1, 1])
    >>> (sif.transform(E, frequencies=[2, 1, 1]) + 0.0).round(3).tolist()
    [[0.0, 0.0], [0.0, 0.667], [0.0, -0.667]]
    """

    _map = "matrix"
    _needs: ClassVar = ("covariance",)
    components_: Array

    def __init__(self, a: float = 1e-3, remove: int = 1, *, zero_rows: str = "keep", nan_rows: str = "error") -> None:
        self.a, self.remove, self.zero_rows, self.nan_rows = a, remove, zero_rows, nan_rows

    def _check_parameters(self) -> None:
        if not self.a > 0.0:
            raise InputError(f"SIF needs a positive a; got {self.a}.")
        if isinstance(self.remove, bool) or not isinstance(self.remove, (int, np.integer)) or self.remove < 0:
            raise InputError(f"SIF needs remove as a count of at least 0; got {self.remove!r}.")

    def _learn(self, facts: Facts | None, dim: int) -> None:
        assert facts is not None
        if self.remove > dim:
            raise InputError(f"SIF needs remove of at most the {dim} dimensions; got {self.remove}.")
        _, vectors = np.linalg.eigh(facts.second_moment)
        top = signed(vectors[:, ::-1])[:, : self.remove]
        self.components_ = top.T
        rest = np.eye(dim) - top @ top.T
        rest[np.abs(rest) < 2e-15] = 0.0
        self._stages = (Affine(np.zeros(dim), rest),)

    def transform(self, X: Any, frequencies: Any = None) -> Any:
        """Map rows; with `frequencies`, counts or probabilities of every row, weight them too."""
        made = super().transform(X)
        if frequencies is None:
            return made
        counts = np.asarray(frequencies, dtype=np.float64)
        if counts.shape != (len(X),) or not (counts >= 0.0).all() or not 0.0 < counts.sum() < np.inf:
            raise InputError(
                f"SIF needs a frequency of at least 0 for each of the {len(X)} rows; got an array of shape "
                f"{counts.shape}, not all finite and above zero in total."
            )
        weights = self.a / (self.a + counts / counts.sum())
        if is_torch_tensor(made):
            import torch

            return made * torch.from_numpy(weights).to(made.device, made.dtype)[:, None]
        return made * weights.astype(np.asarray(made).dtype)[:, None]
