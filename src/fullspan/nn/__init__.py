"""Normalization inside a model that trains: layers behind an embedding, and tables that stay centered or unit-norm.

>>> import torch, fullspan.nn as fnn
>>> layer = fnn.UnitNorm()
>>> layer(torch.tensor([[3.0, 4.0]])).tolist()
[[0.6000000238418579, 0.800000011920929]]
"""

from fullspan.nn.batch_norm import EmbeddingBatchNorm, IterNorm
from fullspan.nn.tables import Centered, UnitRows, keep_centered, keep_unit_norm, renormalize_
from fullspan.nn.unit_norm import UnitNorm

__all__ = [
    "Centered",
    "EmbeddingBatchNorm",
    "IterNorm",
    "UnitNorm",
    "UnitRows",
    "keep_centered",
    "keep_unit_norm",
    "renormalize_",
]
