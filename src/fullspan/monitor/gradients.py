"""What the gradients of a table say before a step is taken: their size, their common part, the rows they touch."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from fullspan._backend import is_torch_tensor

__all__ = ["GRADIENT_MEASURES", "GradientReading", "gradient_of", "read_gradient"]

#: Name, title, unit, which way is better.
GRADIENT_MEASURES = (
    ("gradient_norm", "Length of the gradient of the table", None, None),
    ("gradient_zero_sum_ratio", "Length of the sum of the row gradients over the sum of their lengths", None, "lower"),
    ("touched_row_share", "Share of the rows that have a gradient", None, None),
)


class GradientReading(NamedTuple):
    """One gradient of shape ``(n_rows, dim)``.

    Parameters
    ----------
    norm
        ``‖G‖_F``.
    zero_sum_ratio
        ``‖Σ_i g_i‖ / Σ_i ‖g_i‖`` in [0, 1]: 0 when the rows' gradients cancel, as those of a softmax do, 1 when all
        point one way, which moves the whole table; None when there is no gradient at all.
    touched
        Share of rows whose gradient is not zero.
    """

    norm: float | None
    zero_sum_ratio: float | None
    touched: float
    why: str | None = None


def gradient_of(weight: Any) -> Any:
    """The gradient of a parameter, or None where there is none."""
    return getattr(weight, "grad", None) if is_torch_tensor(weight) else None


def read_gradient(gradient: Any, scale: float = 1.0) -> GradientReading:
    """Read a dense or sparse gradient where it is; three numbers come to the host.

    Parameters
    ----------
    gradient
        Tensor ``(n_rows, dim)``; the rows of a sparse one may repeat.
    scale
        What a loss scaler has multiplied it by.
    """
    n_rows = int(gradient.shape[0])
    rows = gradient.coalesce().values() if gradient.is_sparse else gradient
    if rows.dtype.itemsize < 4:  # sums of half precision leave its range
        rows = rows.float()
    lengths = rows.norm(dim=1).double()
    norm, total = float(lengths.norm()), float(lengths.sum())
    common = float(rows.sum(dim=0).double().norm())
    touched = float((lengths > 0).sum()) / n_rows
    if not (math.isfinite(norm) and math.isfinite(common)):
        return GradientReading(None, None, touched, "the gradient is not finite")
    if total == 0.0:
        return GradientReading(0.0, None, 0.0, "no row has a gradient")
    return GradientReading(norm / scale, min(common / total, 1.0), touched)
