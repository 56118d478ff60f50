"""Batch normalization behind an embedding layer: column by column, or with the correlations taken out as well."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fullspan.errors import InputError
from fullspan.summaries.columns import ColumnMoments
from fullspan.summaries.fold import fold

__all__ = ["EmbeddingBatchNorm", "IterNorm"]


class _BehindEmbedding:
    """What both layers share: rows of any leading shape, with a mask of those that count."""

    @staticmethod
    def flat(layer: nn.Module, dim: int, rows: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """``(n, dim)`` rows that count, and which of all rows they are (None for all)."""
        call = type(layer).__name__
        if rows.dim() < 2 or rows.shape[-1] != dim:
            raise InputError(f"{call} needs a tensor of shape (..., {dim}); got {tuple(rows.shape)}.")
        flat = rows.reshape(-1, dim)
        if mask is None:
            kept = None
        elif mask.shape != rows.shape[:-1]:
            raise InputError(f"{call} needs a mask of shape {tuple(rows.shape[:-1])}; got {tuple(mask.shape)}.")
        else:
            kept = mask.reshape(-1).bool()
            flat = flat[kept]
        if layer.training and len(flat) < 2:
            raise InputError(
                f"{call} needs at least two rows in a training batch; got {len(flat)}. Call .eval() to normalize by "
                "the running statistics, or make the batch larger."
            )
        return flat, kept

    @staticmethod
    def unflat(made: Tensor, like: Tensor, kept: Tensor | None) -> Tensor:
        """The shape of `like` again, with zeros where rows do not count."""
        if kept is None:
            return made.reshape(like.shape)
        whole = made.new_zeros(like.shape).reshape(-1, like.shape[-1])
        return whole.index_put((kept.nonzero(as_tuple=True)[0],), made).reshape(like.shape)


class EmbeddingBatchNorm(nn.BatchNorm1d):
    """Batch normalization behind an embedding layer.

    Parameters
    ----------
    num_features
        Length of an embedding.
    eps, momentum, affine
        As in :class:`torch.nn.BatchNorm1d`.

    Notes
    -----
    Takes ``(..., num_features)``: a batch of sequences is normalized over batch and positions, each dimension for
    itself; positions outside `mask` (padding) enter no statistic and come out as zeros. A batch holds frequent rows
    more often: its statistics, and the running ones, are those of the table *weighted by frequency*.
    Training uses the statistics of the batch and evaluation the running ones: with few rows in a batch the two differ,
    and the loss jumps at the switch. :meth:`set_statistics` sets the running ones from the table itself. Under several
    processes each one normalizes its own share of the batch: do not convert the layer to ``torch.nn.SyncBatchNorm``,
    which takes the second axis for the dimensions and knows no mask.

    References
    ----------
    Ioffe & Szegedy 2015, Batch normalization, algorithms 1 and 2.

    Examples
    --------
    >>> layer = EmbeddingBatchNorm(2, affine=False)
    >>> rows = layer(torch.tensor([[1.0, 10.0], [3.0, 30.0]]))
    >>> [[round(value, 2) for value in row] for row in rows.tolist()]
    [[-1.0, -1.0], [1.0, 1.0]]
    """

    def forward(self, input: Tensor, mask: Tensor | None = None) -> Tensor:  # noqa: A002  # torch's name
        flat, kept = _BehindEmbedding.flat(self, self.num_features, input, mask)
        return _BehindEmbedding.unflat(super().forward(flat), input, kept)

    @torch.no_grad()
    def set_statistics(self, table: Any, frequencies: Any = None) -> None:
        """Set the running statistics to the exact moments of a table, weighted by frequencies if given.

        Parameters
        ----------
        table
            Array or tensor of shape ``(n_rows, num_features)``.
        frequencies
            ``(n_rows,)`` how often each row is looked up, or None for once each.
        """
        mean, variance, weight = _moments(table, frequencies)
        if self.running_mean is None or self.running_var is None:
            raise InputError("set_statistics needs running statistics; got a layer with track_running_stats=False.")
        if len(mean) != self.num_features:
            raise InputError(f"set_statistics needs rows of {self.num_features} dimensions; got {len(mean)}.")
        self.running_mean.copy_(mean)
        self.running_var.copy_(variance * (weight / max(weight - 1.0, 1.0)))


def _moments(table: Any, frequencies: Any) -> tuple[Tensor, Tensor, float]:
    from fullspan.io.formats import open_table

    rows = table.detach() if isinstance(table, Tensor) else table
    opened = open_table(rows, frequencies=frequencies)
    made = fold(opened, ColumnMoments.with_options(weighted=frequencies is not None))
    return torch.from_numpy(made.mean.copy()), torch.from_numpy(made.variance.copy()), float(made.weight)


class IterNorm(nn.Module):
    """Decorrelated batch normalization: whitening by the batch, with Newton's iteration for the inverse root.

    Parameters
    ----------
    num_features
        Length of an embedding.
    iterations
        Steps of the iteration; 5 whiten the leading directions and leave the weak ones short, which steadies training.
    eps
        Added to the covariance, as a share of its mean eigenvalue.
    momentum
        Share of a batch in the running statistics.

    Notes
    -----
    The iteration is the coupled one (the covariance and its inverse root together): equal to that of the paper step by
    step, and rounding does not grow when it goes on past convergence, where the paper's reaches NaN in float32.
    The covariance is divided by its trace before, so that it converges for any batch; with `eps` a
    singular batch (fewer rows than dimensions, a constant column) gives finite output. Eigenvectors, whose order and
    signs jump from batch to batch, are not formed. Costs ``iterations`` products of ``dim × dim`` matrices more than
    batch normalization. It hurts where dimensions are correlated for a reason, and in batches of fewer rows than some
    ten a dimension, whose whitening is noise.

    References
    ----------
    Huang et al. 2019, Iterative normalization: beyond standardization towards efficient whitening, algorithm 1; Higham
    2008, Functions of matrices, section 6.3 (stability of the coupled iteration).

    Examples
    --------
    >>> rows = torch.randn(4000, 3, generator=torch.Generator().manual_seed(0)) @ torch.diag(
    ...     torch.tensor([1.0, 2.0, 3.0])
    ... )
    >>> made = IterNorm(3, iterations=12)(rows)
    >>> bool((torch.cov(made.T) - torch.eye(3)).abs().max() < 0.01)
    True
    """

    running_mean: Tensor
    running_matrix: Tensor

    def __init__(self, num_features: int, *, iterations: int = 5, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        if iterations < 1 or not eps > 0.0 or not 0.0 < momentum <= 1.0:
            raise InputError(
                "IterNorm needs iterations >= 1, eps > 0 and momentum in (0, 1]; "
                f"got {iterations}, {eps} and {momentum}."
            )
        self.num_features, self.iterations, self.eps, self.momentum = num_features, iterations, eps, momentum
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_matrix", torch.eye(num_features))

    def forward(self, rows: Tensor, mask: Tensor | None = None) -> Tensor:
        flat, kept = _BehindEmbedding.flat(self, self.num_features, rows, mask)
        wide = flat.float() if flat.dtype in (torch.float16, torch.bfloat16) else flat
        if self.training:
            mean = wide.mean(dim=0)
            matrix = self._inverse_root(wide - mean)
            with torch.no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean), self.momentum)
                self.running_matrix.lerp_(matrix.to(self.running_matrix), self.momentum)
        else:
            mean, matrix = self.running_mean.to(wide), self.running_matrix.to(wide)
        return _BehindEmbedding.unflat(((wide - mean) @ matrix).to(rows.dtype), rows, kept)

    def _inverse_root(self, centered: Tensor) -> Tensor:
        """The inverse square root of the covariance of centered rows; of the identity where all rows are equal."""
        dim = self.num_features
        eye = torch.eye(dim, dtype=centered.dtype, device=centered.device)
        covariance = centered.T @ centered / len(centered)
        trace = covariance.diagonal().sum()
        if not bool(trace.detach() > torch.finfo(centered.dtype).tiny / self.eps):
            return eye
        covariance = covariance + (self.eps * trace / dim) * eye
        trace = covariance.diagonal().sum()
        forward, root = covariance / trace, eye
        for _ in range(self.iterations):
            step = 1.5 * eye - 0.5 * root @ forward
            forward, root = forward @ step, step @ root
        return root / trace.sqrt()

    def extra_repr(self) -> str:
        return f"{self.num_features}, iterations={self.iterations}, eps={self.eps}, momentum={self.momentum}"
