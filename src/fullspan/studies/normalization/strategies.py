"""What is done to vectors before a model sees them; each is fitted on training rows alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fullspan._typing import Array
from fullspan.normalize.text import parse_strategy

__all__ = ["FIXED", "fitted"]

#: Name of a strategy to the chain that ``fullspan.parse_strategy`` reads; None leaves vectors as they are.
FIXED: dict[str, str | None] = {
    "none": None,
    "center": "center",
    "standardize": "standardize",
    "unit-norm": "l2",
    "min-max": "minmax",
    "robust": "robust",
    "clip-standardize": "clip(3, 'mad') | standardize",
    "pca": "pca(k=25)",
    "whiten": "whiten",
    "half-whiten": "whiten(power=0.5)",
}


def fitted(name: str, rows: Array) -> Callable[[Array], Array]:
    """The map of a strategy, fitted on rows."""
    chain = FIXED[name]
    if chain is None:
        return lambda X: np.asarray(X, dtype=np.float32)
    pipe = parse_strategy(chain).fit(np.asarray(rows, dtype=np.float32))
    return lambda X: np.asarray(pipe.transform(np.asarray(X, dtype=np.float32)), dtype=np.float32)
