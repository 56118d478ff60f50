"""What a report knows of a table, straight from its rows in float64: a twin of the evidence that summaries serve."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace

import numpy as np

from fullspan.errors import UndefinedMeasureError
from fullspan.measures import directions, isotropy, norms, sparsity
from fullspan.measures.neighbors import nearest_neighbors
from fullspan.measures.sphere import uniformity_estimate


class TableEvidence:
    """Serves the attributes that catalog entries need; `E` is finite, ``(n, dim)``."""

    def __init__(self, E, frequencies=None, dtype=None):
        E = np.asarray(E)
        self.dtype = dtype or E.dtype.name
        self.E = E.astype(np.float64)
        self.n_rows, self.dim = E.shape
        self.frequencies = frequencies

    @cached_property
    def mean(self):
        return self.E.mean(axis=0)

    @cached_property
    def singular_values(self):
        return np.linalg.svd(self.E, compute_uv=False)

    @cached_property
    def centered_singular_values(self):
        return np.linalg.svd(self.E - self.mean, compute_uv=False)

    @cached_property
    def eigenvalues(self):
        if self.n_rows < 2:
            raise UndefinedMeasureError(f"A covariance needs at least two rows; got {self.n_rows}.")
        values = np.zeros(self.dim)
        ranks = min(self.n_rows - 1, self.dim)
        values[:ranks] = self.centered_singular_values[:ranks] ** 2 / (self.n_rows - 1)
        return values

    @cached_property
    def weighted_singular_values(self):
        if self.frequencies is None:
            raise UndefinedMeasureError("This measure needs frequencies of the rows; got none.")
        return np.linalg.svd(self.E * np.sqrt(self.frequencies)[:, None], compute_uv=False)

    @cached_property
    def mean_norm(self):
        return norms.mean_norm(self.E)

    @cached_property
    def mean_square(self):
        return float(np.mean((self.E - self.mean) ** 2))

    @cached_property
    def rows(self):
        alive = self.E[self.E.any(axis=1)]
        profile = {"norm": np.linalg.norm(self.E, axis=1)}
        for function in (sparsity.gini_index, sparsity.vector_entropy, sparsity.hoyer_sparsity):
            if self.dim > 1 or function is not sparsity.hoyer_sparsity:
                profile[function.__name__] = function(alive)

        def served(name):
            values = profile.get(name, np.array([]))
            if not len(values):
                raise UndefinedMeasureError(f"{name} of rows needs rows that have a value; got none.")
            return _Spread(values)

        return _Lazy(served)

    @cached_property
    def units(self):
        mean, scatter, m = directions._unit_moments(self.E, "average_cosine")
        return SimpleNamespace(
            mean=mean,
            scatter=scatter,
            n_rows=self.n_rows,
            n_units=m,
            average_cosine=directions.average_cosine(self.E),
            cosine_deviation=directions.cosine_deviation(self.E),
        )

    @cached_property
    def partition(self):
        return _log_z(self.E)

    @cached_property
    def centered_partition(self):
        return _log_z(self.E - self.mean)

    @property
    def sample(self):
        return self.E

    @property
    def signed_partition(self):
        return self.partition

    @property
    def unit_moments(self):
        return self.units

    @cached_property
    def sample_uniformity(self):
        return uniformity_estimate(self.E)

    @cached_property
    def neighbors(self):
        return nearest_neighbors(self.E, k=10)

    @cached_property
    def frequency(self):
        if self.frequencies is None:
            raise UndefinedMeasureError("This measure needs frequencies of the rows; got none.")
        lengths = np.linalg.norm(self.E, axis=1)
        whole = norms.length_frequency_correlation
        return SimpleNamespace(correlation=lambda kind: whole(lengths, self.frequencies, kind=kind) / 100)


@dataclass
class _Spread:
    values: np.ndarray

    @property
    def mean(self):
        return float(self.values.mean())

    @property
    def count(self):
        return len(self.values)

    @property
    def deviation(self):
        if self.count < 2:
            raise UndefinedMeasureError(f"A deviation over rows needs at least two rows; got {self.count}.")
        return float(self.values.std(ddof=1))


class _Lazy:
    def __init__(self, serve):
        self._serve = serve

    def __getattr__(self, name):
        return self._serve(name)


def _log_z(E):
    axes = np.linalg.eigh(E.T @ E)[1]
    positive, negative = isotropy.log_partition(E, axes.T), isotropy.log_partition(E, -axes.T)
    return SimpleNamespace(log_z_positive=positive, log_z_negative=negative)
