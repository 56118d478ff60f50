"""A fitted chain as a torch module, and as part of a linear layer."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from fullspan._extras import require
from fullspan._typing import Array
from fullspan.errors import InputError
from fullspan.normalize.folded import Folded

__all__ = ["LinearFold", "fold_into", "to_module"]

_EPSILON = 2.0**-24


class LinearFold(NamedTuple):
    """A linear layer that normalizes too, and how far rounding may take its output.

    Parameters
    ----------
    linear
        The new layer.
    error_bound
        Largest error of an output over the standard deviation of that output, for rows like those of the fit.
    """

    linear: Any
    error_bound: float


def to_module(normalizer: Any) -> Any:
    """A ``torch.nn.Module`` that maps rows as a fitted normalizer does.

    Parameters
    ----------
    normalizer
        What was fitted, or a folded chain.

    Returns
    -------
    torch.nn.Module
        Takes ``(..., dim_in)`` tensors, gives ``(..., dim_out)`` ones of the same floating type; float16 and bfloat16
        are computed in float32. The arrays are buffers: they move with ``.to(device)`` and are in the state dict.
        Gradients flow through it to its input.

    Notes
    -----
    Steep maps (singular values more than 2,000 apart) and everything else are computed in the type of the buffers,
    float32 unless the module is told ``.double()``.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from fullspan.normalize.scale import Center
    >>> module = to_module(Center().fit(np.array([[1.0, 2.0], [3.0, 6.0]])))
    >>> module(torch.tensor([[1.0, 2.0]])).tolist()
    [[-1.0, -2.0]]
    """
    require("torch", "torch", "to_module")
    return _chain_class()(Folded.of(normalizer))


def _buffer(array: Array) -> Any:
    import torch

    return torch.from_numpy(np.array(array, dtype=np.float32))


def _affine_layer() -> Any:
    from torch import nn

    class AffineLayer(nn.Module):
        def __init__(self, stage: Any) -> None:
            super().__init__()
            parts = stage.parts(np.float32)
            self.diagonal = stage.diagonal
            self.register_buffer("shift", None if parts.high is None else _buffer(parts.high))
            self.register_buffer("matrix", _buffer(parts.matrix))
            self.register_buffer("offset", None if parts.rest is None else _buffer(parts.rest))

        def forward(self, rows: Any) -> Any:
            if self.shift is not None:
                rows = rows - self.shift
            rows = rows * self.matrix if self.diagonal else rows @ self.matrix
            return rows if self.offset is None else rows + self.offset

    return AffineLayer


def _unit_layer() -> Any:
    import torch
    from torch import nn

    class UnitLayer(nn.Module):
        def forward(self, rows: Any) -> Any:
            largest = rows.abs().amax(dim=-1, keepdim=True)
            scaled = rows / torch.where(largest > 0, largest, torch.ones_like(largest))
            squares = scaled.square().sum(dim=-1, keepdim=True)
            return scaled / torch.where(squares > 0, squares, torch.ones_like(squares)).sqrt()

    return lambda stage: UnitLayer()


def _clip_layer() -> Any:
    import torch
    from torch import nn

    class ClipLayer(nn.Module):
        def __init__(self, stage: Any) -> None:
            super().__init__()
            self.register_buffer("low", _buffer(stage.low))
            self.register_buffer("high", _buffer(stage.high))

        def forward(self, rows: Any) -> Any:
            low: Any = self.low
            high: Any = self.high
            return torch.minimum(torch.maximum(rows, low), high)

    return ClipLayer


def _head_layer() -> Any:
    from torch import nn

    class HeadLayer(nn.Module):
        def __init__(self, stage: Any) -> None:
            super().__init__()
            self.size = stage.size

        def forward(self, rows: Any) -> Any:
            return rows[..., : self.size]

    return HeadLayer


@functools.cache
def _chain_class() -> Any:
    import torch
    from torch import nn

    layers = {"affine": _affine_layer(), "unit": _unit_layer(), "clip": _clip_layer(), "head": _head_layer()}

    class FoldedModule(nn.Module):
        """The chain; `extra_repr` says what it is."""

        def __init__(self, folded: Folded) -> None:
            super().__init__()
            for stage in folded.stages:
                if stage.kind not in layers:
                    raise InputError(
                        f"to_module needs affine maps, clips, cuts and unit norms; got a stage of the kind "
                        f"'{stage.kind}'. Apply the normalizer to tensors with its transform."
                    )
            self.dim_in, self.dim_out = folded.dim_in, folded.dim_out
            self.layers = nn.ModuleList([layers[stage.kind](stage) for stage in folded.stages])

        def forward(self, rows: Any) -> Any:
            kind = rows.dtype
            current = rows.float() if kind in (torch.float16, torch.bfloat16) else rows
            for layer in self.layers:
                current = layer(current)
            return current.to(kind)

        def extra_repr(self) -> str:
            return f"{self.dim_in} → {self.dim_out}"

    return FoldedModule


def fold_into(normalizer: Any, linear: Any, *, tolerance: float | None = 1e-4) -> LinearFold:
    """A linear layer that does the work of a normalizer before it.

    Parameters
    ----------
    normalizer
        What was fitted; one affine map only.
    linear
        ``torch.nn.Linear`` of ``dim_out`` inputs that follows it.
    tolerance
        Bound on the error of an output, in standard deviations of that output over the rows of the fit, above which
        the fold is refused; None takes any.

    Returns
    -------
    LinearFold
        The new layer and its error bound.

    Raises
    ------
    InputError
        If the normalizer is more than an affine map, or rounding may cost more than `tolerance`.

    Notes
    -----
    A linear layer computes ``x W + c``: the mean is taken away last, after the digits are gone. With columns of mean
    10,000 and deviation 1, float32 keeps about three digits, where the normalizer itself keeps seven. The bound is
    that of rounding every product and sum once, with terms of the size of ``|mean| + 3`` deviations.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from fullspan.normalize.scale import Standardize
    >>> fitted = Standardize().fit(np.random.default_rng(0).normal(size=(100, 3)))
    >>> fold_into(fitted, torch.nn.Linear(3, 2)).linear
    Linear(in_features=3, out_features=2, bias=True)
    """
    torch = require("torch", "torch", "fold_into")
    folded = Folded.of(normalizer)
    affine = folded.affine()
    if affine is None:
        raise InputError(f"fold_into needs one affine map; got {folded!r}. Serve it with to_module instead.")
    if not isinstance(linear, torch.nn.Linear) or linear.in_features != folded.dim_out:
        raise InputError(f"fold_into needs a torch.nn.Linear of {folded.dim_out} inputs; got {linear!r}.")
    weight = linear.weight.detach().double().cpu().numpy()
    bias = 0.0 if linear.bias is None else linear.bias.detach().double().cpu().numpy()
    matrix = affine.dense @ weight.T
    rest = affine.offset @ weight.T + bias - affine.shift @ matrix
    bound = _bound(folded, affine, matrix, rest)
    if tolerance is not None and not bound <= tolerance:
        raise InputError(
            f"fold_into needs an error bound of at most {tolerance:g} deviations of an output; got {bound:.3g}. A "
            "linear layer takes the mean away last, when its digits are gone: serve the normalizer with to_module, or "
            "give a larger tolerance."
        )
    made = torch.nn.Linear(folded.dim_in, linear.out_features, device=linear.weight.device, dtype=linear.weight.dtype)
    with torch.no_grad():
        made.weight.copy_(torch.from_numpy(matrix.T.copy()))
        made.bias.copy_(torch.from_numpy(rest))
    return LinearFold(made, bound)


def _bound(folded: Folded, affine: Any, matrix: Array, rest: Array) -> float:
    """Largest rounding error of an output in its own standard deviations."""
    mean = folded.stamp.get("in_mean", affine.shift)
    variance = folded.stamp.get("in_variance")
    if variance is None:
        return float("inf")
    size = (np.abs(mean) + 3.0 * np.sqrt(variance)) @ np.abs(matrix) + np.abs(rest)
    spread = np.sqrt(variance @ matrix**2)
    known = spread > 0.0
    # every product, weight and sum is rounded; sums of n terms by n/2 roundings on average at the very most
    return float((_EPSILON * (2.0 + len(mean)) * size[known] / spread[known]).max(initial=0.0))
