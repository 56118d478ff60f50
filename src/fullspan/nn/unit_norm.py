"""Rows divided by their Euclidean norms, whatever their size, with the gradient of the division."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["UnitNorm", "unit_rows"]


def unit_rows(rows: Tensor) -> Tensor:
    """Rows over their norms along the last axis; rows of zeros stay, with a gradient of zero.

    A row is divided by its largest entry first, which is a constant to the gradient: the result does not depend on it.
    """
    largest = rows.detach().abs().amax(dim=-1, keepdim=True)
    scaled = rows / largest.where(largest > 0, torch.ones_like(largest))
    squares = scaled.square().sum(dim=-1, keepdim=True)
    return scaled / squares.where(squares > 0, torch.ones_like(squares)).sqrt()


class UnitNorm(nn.Module):
    """Divide every embedding by its Euclidean norm.

    Notes
    -----
    ``torch.nn.functional.normalize`` leaves rows below its ``eps`` short and turns float32 rows above 1e19 into zeros;
    this does neither. The gradient is ``(I - y yᵀ) g / |x|``: it grows as rows shrink, and has no part along the row,
    so norms only grow under plain gradient descent. Norms that carry information (frequency, confidence) are lost.
    A row with NaN or infinity gives NaN: a layer in training does not stop for it.

    Examples
    --------
    >>> UnitNorm()(torch.tensor([[3e20, 4e20], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """

    def forward(self, rows: Tensor) -> Tensor:
        return unit_rows(rows)
