"""What our code is timed against: the plain way to compute the same thing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]


def four_measures_row_by_row(table: Rows) -> tuple[float, float, float, float]:
    """The four measures of the article, one Python call for each row and measure, as its own code does it."""
    return (
        float(np.mean([_gini(row) for row in table])),
        float(np.mean([_hoyer(row) for row in table])),
        float(np.mean([_entropy(row) for row in table])),
        _spectral_entropy(table),
    )


def _gini(row: Rows) -> float:
    sizes = np.abs(row.flatten()) + 1e-12
    running = np.cumsum(np.sort(sizes))
    return (len(sizes) + 1 - 2 * np.sum(running) / running[-1]) / len(sizes)


def _entropy(row: Rows) -> float:
    sizes = np.abs(row.flatten()) + 1e-12
    shares = sizes / np.sum(sizes)
    return -np.sum(shares * np.log(shares))


def _hoyer(row: Rows) -> float:
    sizes = np.abs(row.flatten())
    total = np.sum(sizes)
    if total == 0:
        return 0.0
    root = np.sqrt(len(sizes))
    return (root - total / np.sqrt(np.sum(sizes**2))) / (root - 1)


def _spectral_entropy(table: Rows) -> float:
    values = np.clip(np.linalg.eigvalsh(np.cov(table, rowvar=False)), 1e-12, None)
    shares = values / values.sum()
    return float(-np.sum(shares * np.log(shares)))


def sort_and_gram(table: Rows) -> None:
    """The floor of a fused pass: sort the absolute values of every row in cache, and one float32 Gram matrix."""
    n_rows, dim = table.shape
    step = max(1, (1 << 17) // dim)
    for start in range(0, n_rows, step):
        sizes = np.abs(table[start : start + step])
        sizes.sort(axis=1)
    total = np.zeros((dim, dim))
    step = max(4096, 4 * dim)
    for start in range(0, n_rows, step):
        some = table[start : start + step]
        total += some.T @ some


def gram_float64(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """The float64 Gram matrix in blocks."""
    dim = table.shape[1]
    total = np.zeros((dim, dim))
    step = max(4096, 4 * dim)
    for start in range(0, len(table), step):
        some = table[start : start + step]
        total += some.T @ some
    return total
