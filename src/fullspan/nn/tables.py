"""Embedding tables that stay centered or unit-norm while they train, or are normalized again after fine-tuning."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from fullspan.errors import InputError
from fullspan.nn.unit_norm import unit_rows
from fullspan.normalize.folded import Folded

__all__ = ["Centered", "UnitRows", "keep_centered", "keep_unit_norm", "renormalize_"]


class Centered(nn.Module):
    """A parametrization: the table that is used is the one that trains less its mean row.

    Parameters
    ----------
    padding_idx
        A row that is kept as it is and out of the mean, or None.
    weights
        ``(n_rows,)`` frequencies that weight the mean, or None for the plain mean.
    """

    weights: Tensor | None

    def __init__(self, padding_idx: int | None = None, weights: Any = None) -> None:
        super().__init__()
        self.padding_idx = padding_idx
        if weights is not None:
            weights = torch.as_tensor(weights, dtype=torch.float32).clone()
            if weights.dim() != 1 or not bool((weights >= 0).all()) or not bool(weights.sum() > 0):
                raise InputError(
                    "Centered needs weights of one dimension that are not negative and not all zero; got "
                    f"shape {tuple(weights.shape)} with sum {float(weights.sum()):g}."
                )
        self.register_buffer("weights", weights)

    def forward(self, weight: Tensor) -> Tensor:
        share = torch.ones(len(weight), dtype=weight.dtype, device=weight.device)
        if self.weights is not None:
            share = self.weights.to(weight)
        if self.padding_idx is not None:
            share = share.index_fill(0, torch.tensor([self.padding_idx], device=weight.device), 0.0)
        rest = weight - (share / share.sum()) @ weight
        return _with_padding(rest, weight, self.padding_idx)

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight


class UnitRows(nn.Module):
    """A parametrization: the table that is used has the rows of the one that trains, each divided by its norm."""

    def forward(self, weight: Tensor) -> Tensor:
        return unit_rows(weight)

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight


def _with_padding(made: Tensor, weight: Tensor, padding_idx: int | None) -> Tensor:
    if padding_idx is None:
        return made
    at = torch.tensor([padding_idx], device=weight.device)
    return made.index_copy(0, at, weight[at])


def keep_centered(embedding: nn.Embedding, *, weights: Any = None, model: nn.Module | None = None) -> nn.Embedding:
    """Let an embedding layer use its table less the mean row from now on, in every forward pass.

    Parameters
    ----------
    embedding
        The layer; changed in place.
    weights
        Frequencies that weight the mean, or None.
    model
        The model that it is part of: refused when another layer of it shares the table.

    Returns
    -------
    torch.nn.Embedding
        The same layer. ``torch.nn.utils.parametrize.remove_parametrizations(layer, "weight")`` bakes the centered table
        in and ends it.

    Raises
    ------
    InputError
        If the layer makes sparse gradients, is no embedding, or shares its table.

    Notes
    -----
    Every gradient becomes dense (each row moves the mean), and a forward pass costs a pass over the table. It takes
    away the mean shift (the common direction of all rows), not what causes it: :func:`fullspan.measure` before and
    after says whether ``mean_norm_ratio`` was the trouble.

    Examples
    --------
    >>> layer = keep_centered(torch.nn.Embedding(5, 3))
    >>> bool(layer.weight.mean(dim=0).abs().max() < 1e-6)
    True
    """
    _check(embedding, model, "keep_centered")
    if weights is not None and len(weights) != embedding.num_embeddings:
        raise InputError(f"keep_centered needs {embedding.num_embeddings} weights; got {len(weights)}.")
    parametrize.register_parametrization(embedding, "weight", Centered(embedding.padding_idx, weights))
    return embedding


def keep_unit_norm(embedding: nn.Embedding, *, model: nn.Module | None = None) -> nn.Embedding:
    """Let an embedding layer use rows of norm one from now on; rows of zeros (padding) stay.

    Parameters, errors and how to end it as for :func:`keep_centered`. The norms of the rows that train grow, which
    slows their turning: a learning rate that falls adds to that.

    Examples
    --------
    >>> layer = keep_unit_norm(torch.nn.Embedding(5, 3))
    >>> bool((layer.weight.norm(dim=1) - 1).abs().max() < 1e-6)
    True
    """
    _check(embedding, model, "keep_unit_norm")
    parametrize.register_parametrization(embedding, "weight", UnitRows())
    return embedding


def _check(embedding: Any, model: nn.Module | None, call: str) -> None:
    if not isinstance(embedding, nn.Embedding):
        raise InputError(f"{call} needs a torch.nn.Embedding; got {type(embedding).__name__}.")
    if embedding.sparse:
        raise InputError(f"{call} needs dense gradients; got an embedding with sparse=True. Make it with sparse=False.")
    if model is None:
        return
    for name, module in model.named_modules():
        for own, parameter in module.named_parameters(recurse=False):
            if module is not embedding and parameter is embedding.weight:
                raise InputError(
                    f"{call} needs a table of its own; got one that {name}.{own} shares. The two would come apart: "
                    "untie them first, or normalize what the model computes with fullspan.nn.UnitNorm."
                )


@torch.no_grad()
def renormalize_(embedding: nn.Embedding, normalizer: Any) -> dict[str, float]:
    """Apply a fitted normalizer to the table of an embedding layer, in place: the step after fine-tuning.

    Parameters
    ----------
    embedding
        The layer. Its row `padding_idx` is left as it is.
    normalizer
        A fitted normalizer or pipeline, or what :func:`fullspan.load` gives; must keep the length of rows.

    Returns
    -------
    dict
        ``n_rows`` changed, ``mean_cosine`` of the rows before and after with one another in [-1, 1] (1: directions
        kept), ``norm_before`` and ``norm_after`` (mean norms).

    Raises
    ------
    InputError
        If lengths differ, or a row is not finite before or after: the table is then left as it was.

    Notes
    -----
    A normalizer that was fitted before fine-tuning takes the old mean away. Fit it on the table as it is now unless the
    vectors must stay comparable with ones that are stored. The layers behind the table see other inputs from now on.
    """
    if not isinstance(embedding, nn.Embedding):
        raise InputError(f"renormalize_ needs a torch.nn.Embedding; got {type(embedding).__name__}.")
    folded = Folded.of(normalizer)
    dim = embedding.embedding_dim
    if (folded.dim_in, folded.dim_out) != (dim, dim):
        raise InputError(
            f"renormalize_ needs a normalizer from {dim} to {dim} dimensions; got {folded.dim_in} to {folded.dim_out}."
        )
    before = embedding.weight.detach()
    after = folded.transform(before)
    broken = ~(before.isfinite().all(dim=1) & after.isfinite().all(dim=1))
    if bool(broken.any()):
        raise InputError(
            f"renormalize_ needs finite rows; got NaN or infinity in row {int(broken.nonzero()[0])}. "
            "`fullspan measure` names all such rows."
        )
    after = _with_padding(after, before, embedding.padding_idx)
    changed = (after != before).any(dim=1)
    told = {
        "n_rows": int(changed.sum()),
        "mean_cosine": float((unit_rows(before.double()) * unit_rows(after.double())).sum(dim=1).mean()),
        "norm_before": float(before.double().norm(dim=1).mean()),
        "norm_after": float(after.double().norm(dim=1).mean()),
    }
    embedding.weight.copy_(after)
    return told
