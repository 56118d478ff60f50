"""Loss, accuracy and area under the ROC curve of predicted probabilities, as Keras and the rank statistic have them."""

from __future__ import annotations

import numpy as np

from fullspan._typing import Array
from fullspan.trainers.keras_rules import HIGH, LOW

__all__ = ["accuracy", "binary_cross_entropy", "rank_auc", "sigmoid"]


def sigmoid(logits: Array) -> Array:
    """1 / (1 + exp(-z)) without overflow, in the type of `logits`."""
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1 / (1 + small), small / (1 + small))


def binary_cross_entropy(labels: Array, probabilities: Array) -> float:
    """Mean of -log p over the rows in nats, p the probability given to the label, clipped to [1e-7, 1 - 1e-7]."""
    clipped = np.clip(probabilities, LOW, HIGH)
    return float(-np.log(np.where(labels > 0, clipped, 1 - clipped)).mean(dtype=np.float64))


def accuracy(labels: Array, probabilities: Array) -> float:
    """Share of rows in [0, 1] on the right side of 0.5; a probability of exactly 0.5 says "no", as in Keras."""
    return float(((probabilities > 0.5) == (labels > 0)).mean())


def rank_auc(labels: Array, scores: Array) -> float | None:
    """Chance that a positive row scores above a negative one, ties counted half; None without rows of both kinds.

    Exact: the Mann-Whitney statistic with average ranks, equal to ``sklearn.metrics.roc_auc_score``. O(n log n).

    Examples
    --------
    >>> rank_auc(np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.4, 0.8]))
    0.875
    """
    positive = np.asarray(labels) > 0
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    if not n_positive or not n_negative:
        return None
    _, which, counts = np.unique(scores, return_inverse=True, return_counts=True)
    average_ranks = np.cumsum(counts) - (counts - 1) / 2
    above = average_ranks[which][positive].sum() - n_positive * (n_positive + 1) / 2
    return float(above / (n_positive * n_negative))
