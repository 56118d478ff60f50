"""The tables of everything: one row for each summary, measure and reader. The laws in tests/laws run over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import UndefinedMeasureError
from fullspan.normalize.base import Normalizer
from fullspan.normalize.cut import RandomProjection, Truncate, TruncatedSVD
from fullspan.normalize.outliers import Clip, Outliers
from fullspan.normalize.pipeline import make_pipeline
from fullspan.normalize.quantile_normal import QuantileNormal
from fullspan.normalize.radial import RadialMoments
from fullspan.normalize.scale import Center, MinMax, RobustScale, Standardize
from fullspan.normalize.unit import UnitNorm
from fullspan.normalize.weighting import SIF
from fullspan.normalize.whiten import PCA, RemoveTop, Whiten
from fullspan.summaries.base import Summary
from fullspan.summaries.columns import ColumnMoments
from fullspan.summaries.cross import CrossMoments
from fullspan.summaries.duplicates import Duplicates
from fullspan.summaries.extremes import Extremes
from fullspan.summaries.frequency import FrequencyProfile
from fullspan.summaries.groups import Grouped, Stripes
from fullspan.summaries.moments import Moments, WeightedMoments
from fullspan.summaries.partition import Partition
from fullspan.summaries.quantiles import Quantiles
from fullspan.summaries.reservoir import Reservoir
from fullspan.summaries.rows import ROW_MEASURES, RowProfile
from fullspan.summaries.triangle import Triangle
from fullspan.summaries.unit_mean import UnitMean
from fullspan.summaries.units import UnitMoments

Numbers = Mapping[str, Any]


@dataclass(frozen=True)
class SummaryCase:
    """A summary with its options, and what its laws compare.

    Parameters
    ----------
    kind, options
        The class, and its options for rows of a given length.
    numbers
        What is read from a summary: arrays and floats are compared within `tolerance` of their scale, which is the
        largest value, or the second item of a pair ``(value, scale)``; everything else must be equal.
    tolerance
        Relative, for float64 and for narrower rows.
    """

    kind: type[Summary]
    numbers: Callable[[Any], Numbers]
    options: Callable[[int], dict[str, Any]] = lambda dim: {}
    tolerance: tuple[float, float] = (1e-9, 1e-9)
    name: str = ""

    def __str__(self) -> str:
        return self.name or self.kind.__name__


def _moments(made: Moments) -> Numbers:
    # rows of a large common offset lose digits of the scatter when they come one by one
    squares = float(np.abs(np.diagonal(made.scatter)).max(initial=0.0))
    offset = made.weight * float(np.max(made.mean**2, initial=0.0))
    return {
        "n_rows": made.n_rows,
        "weight": made.weight,
        "mean": (made.mean, made.peak),
        "scatter": (made.scatter, squares + 1e-6 * offset),
        "peak": made.peak,
    }


def _radial(made: RadialMoments) -> Numbers:
    size = float(np.abs(made.scatter).max(initial=0.0)) + 1e-6 * made.n_rows * float(np.max(made.mean**2, initial=0.0))
    powers = {"cubes": (made.cubes, size**1.5 + 1e-300), "fourth": (made.fourth, size**2 + 1e-300)}
    return _moments(made) | powers


def _columns(made: ColumnMoments) -> Numbers:
    size = float(np.max(np.abs(np.where(made.weight > 0.0, [made.minimum, made.maximum], 0.0)), initial=0.0))
    return {
        "n_rows": made.n_rows,
        "weight": made.weight,
        "mean": (made.mean, size),
        "squares": (made.squares, float(made.squares.max(initial=0.0)) + 1e-6 * made.weight * size**2),
        "minimum": made.minimum.tolist(),
        "maximum": made.maximum.tolist(),
    }


def _triangle(made: Triangle) -> Numbers:
    size = float(np.abs(made.factor).max(initial=0.0)) + float(np.abs(made.mean).max(initial=0.0))
    return {
        "n_rows": made.n_rows,
        "weight": made.weight,
        "mean": (made.mean, size),
        "singular_values": made.singular_values,
        "centered_singular_values": (made.centered_singular_values, made.centered_singular_values.max() + 1e-4 * size)
        if made.n_rows
        else made.centered_singular_values,
    }


def _unit_mean(made: UnitMean) -> Numbers:
    return {
        "n_rows": made.n_rows,
        "n_zero": made.n_zero,
        "norm_total": made.norm_total,
        "mean": (made.mean, 1.0),
        "gap": (made.gap, 1.0 + made.n_units),
    }


def _units(made: UnitMoments) -> Numbers:
    return {
        "n_rows": made.n_rows,
        "n_zero": made.n_zero,
        "norm_total": made.norm_total,
        "mean": (made.mean, 1.0),
        "scatter": (made.scatter, 1.0 + made.n_units),
    }


def _profile(made: RowProfile) -> Numbers:
    found: dict[str, Any] = {"n_rows": made.n_rows, "n_zero": made.n_zero}
    for name in ROW_MEASURES:
        try:
            spread = made.distribution(name)
        except UndefinedMeasureError:
            continue
        largest = max((abs(row.value) for row in spread.highest), default=0.0) + 1e-300 + (name != "norm")
        found[f"{name}.mean"] = spread.mean, largest
        found[f"{name}.count"] = spread.count
        found[f"{name}.quantiles"] = spread.quantile(np.array([0.0, 0.25, 0.5, 0.9, 1.0])), largest
        found[f"{name}.lowest"] = np.array([row.value for row in spread.lowest]), largest
        found[f"{name}.highest"] = np.array([row.value for row in spread.highest]), largest
    return found


def _quantiles(made: Quantiles) -> Numbers:
    return {
        "n_rows": made.n_rows,
        "quantiles": made.quantile((0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)) if made.n_rows else None,
        "minimum": made.minimum.tolist(),
        "maximum": made.maximum.tolist(),
        "exact": made.exact,
    }


def _extremes(made: Extremes) -> Numbers:
    return {
        "n_rows": made.n_rows,
        "record": made.to_dict(),
        "minimum": made.minimum.tolist(),
        "maximum": made.maximum.tolist(),
        "nan": made.nan_counts.tolist(),
        "infinite": made.infinite_counts.tolist(),
    }


def _duplicates(made: Duplicates) -> Numbers:
    return {
        "n_rows": made.n_rows,
        "n_distinct": made.n_distinct,
        "exact": made.exact,
        "groups": made.groups(100),
        "n_groups": made.n_groups,
    }


def _reservoir(made: Reservoir) -> Numbers:
    return {
        "n_rows": made.n_rows,
        "rows": made.rows.tolist(),
        "positions": made.positions.tolist(),
        "ids": None if made.ids is None else made.ids.tolist(),
        "labels": None if made.labels is None else made.labels.tolist(),
        "frequencies": None if made.frequencies is None else made.frequencies.tolist(),
        "strata": made.strata.tolist(),
        "counts": dict(made.counts),
    }


def _partition(made: Partition) -> Numbers:
    if not made.n_rows:
        return {"n_rows": 0}
    return {
        "n_rows": made.n_rows,
        "log_z_positive": (made.log_z_positive, 1.0 + np.abs(made.log_z_positive).max()),
        "log_z_negative": (made.log_z_negative, 1.0 + np.abs(made.log_z_negative).max()),
        "projections": (made.projection_sums, 1.0 + made.n_rows * float(np.abs(made.log_z_positive).max())),
    }


def _cross(made: CrossMoments) -> Numbers:
    offset = float(np.max(made.mean**2, initial=0.0))
    size = float(np.abs(made.scatter).max(initial=0.0)) + 1e-6 * made.n_rows * offset
    return {
        "n_rows": made.n_rows,
        "mean": (made.mean, float(np.sqrt(size)) + float(np.sqrt(offset))),
        "scatter": (made.scatter, size),
        "norm_sums": (made.norm_sums, float(made.norm_sums.max(initial=0.0)) + 1e-6 * size * size),
        "norm_vectors": (made.norm_vectors, size * float(np.sqrt(size)) + 1e-300),
        "least_cosine": (np.array([row.value for row in made.least_cosine]), 1.0),
        "most_displaced": np.array([row.value for row in made.most_displaced]),
    }


def _frequency(made: FrequencyProfile) -> Numbers:
    return {
        "n_rows": made.n_rows,
        "n_zero_frequency": made.n_zero_frequency,
        "mean": made.mean,
        "pairs": np.sort(made.pairs, order="hash").tolist(),
        "deciles": made.deciles(),
    }


def _grouped(made: Grouped) -> Numbers:
    found: dict[str, Any] = {"n_rows": made.n_rows, "keys": list(made.parts)}
    for key, part in made.parts.items():
        found |= {f"{key}.{name}": value for name, value in _moments(part[Moments]).items()}
    return found


def _directions(dim: int) -> Array:
    return np.linalg.qr(np.random.default_rng(dim).normal(size=(dim, dim)))[0]


SUMMARIES = [
    SummaryCase(Moments, _moments),
    SummaryCase(WeightedMoments, _moments),
    SummaryCase(RadialMoments, _radial),
    SummaryCase(ColumnMoments, _columns),
    SummaryCase(ColumnMoments, _columns, lambda dim: {"weighted": True}, name="ColumnMoments-weighted"),
    SummaryCase(Triangle, _triangle),
    SummaryCase(Triangle, _triangle, lambda dim: {"weighted": True}, name="Triangle-weighted"),
    SummaryCase(Triangle, _triangle, lambda dim: {"use_torch": True}, name="Triangle-torch"),
    SummaryCase(UnitMean, _unit_mean),
    SummaryCase(UnitMoments, _units),
    SummaryCase(RowProfile, _profile),
    SummaryCase(Quantiles, _quantiles),
    SummaryCase(Extremes, _extremes),
    SummaryCase(Duplicates, _duplicates),
    SummaryCase(Reservoir, _reservoir, lambda dim: {"size": 7, "seed": 3}),
    SummaryCase(Reservoir, _reservoir, lambda dim: {"size": 9, "stratify": "frequency"}, name="Reservoir-stratified"),
    SummaryCase(Partition, _partition, lambda dim: {"directions": _directions(dim)}),
    SummaryCase(CrossMoments, _cross, lambda dim: {"split": dim // 2}),
    SummaryCase(FrequencyProfile, _frequency),
    SummaryCase(Grouped, _grouped, lambda dim: {"plan": Moments, "by": "label"}, name="Grouped-label"),
    SummaryCase(Grouped, _grouped, lambda dim: {"plan": Moments, "by": "frequency"}, name="Grouped-frequency"),
    SummaryCase(Stripes, _grouped, lambda dim: {"plan": Moments, "by": 3}),
]


@dataclass(frozen=True)
class NormalizerCase:
    """A normalizer, and what its laws may ask of it.

    Parameters
    ----------
    make
        A new one, not fitted.
    undoes
        Whether `inverse_transform` gives rows of full rank back.
    one_pass
        Whether one pass fits it, so that `partial_fit` and `merge` exist.
    """

    make: Callable[[], Normalizer]
    undoes: bool = False
    one_pass: bool = True

    def __str__(self) -> str:
        return repr(self.make())


NORMALIZERS = [
    NormalizerCase(Center, undoes=True),
    NormalizerCase(Standardize, undoes=True),
    NormalizerCase(MinMax, undoes=True),
    NormalizerCase(lambda: MinMax(-1.0, 2.0), undoes=True),
    NormalizerCase(RobustScale, undoes=True),
    NormalizerCase(UnitNorm),
    NormalizerCase(Clip),
    NormalizerCase(lambda: Clip(3.0, "mad")),
    NormalizerCase(lambda: Clip(0.1, "quantile")),
    NormalizerCase(Outliers),
    NormalizerCase(lambda: Outliers(action="flag")),
    NormalizerCase(PCA, undoes=True),
    NormalizerCase(lambda: PCA(1)),
    NormalizerCase(lambda: PCA("parallel")),
    NormalizerCase(Whiten, undoes=True),
    NormalizerCase(lambda: Whiten("pca", power=0.5), undoes=True),
    NormalizerCase(lambda: Whiten("cholesky", epsilon=0.1), undoes=True),
    NormalizerCase(lambda: Whiten("zca-cor", shrinkage="oas"), undoes=True),
    NormalizerCase(lambda: Whiten(shrinkage="ledoit-wolf"), undoes=True),
    NormalizerCase(RemoveTop),
    NormalizerCase(SIF),
    NormalizerCase(QuantileNormal),
    NormalizerCase(Truncate),
    NormalizerCase(lambda: Truncate(1, renormalize=False)),
    NormalizerCase(RandomProjection),
    NormalizerCase(lambda: RandomProjection(9, orthogonal=False), undoes=True),
    NormalizerCase(TruncatedSVD),
    NormalizerCase(lambda: make_pipeline(TruncatedSVD(1), QuantileNormal(), UnitNorm()), one_pass=False),
    NormalizerCase(lambda: make_pipeline(Center(), Whiten(), UnitNorm())),
    NormalizerCase(lambda: make_pipeline(Standardize(), MinMax()), undoes=True),
    NormalizerCase(lambda: make_pipeline(UnitNorm(), Whiten(power=0.5))),
    NormalizerCase(lambda: make_pipeline(Clip(3.0, "mad"), Standardize(), Whiten(), UnitNorm()), one_pass=False),
    NormalizerCase(lambda: make_pipeline(Whiten("pca"), MinMax()), undoes=True, one_pass=False),
]

# Measures: each row of fullspan.measures.catalog is a case by itself; see laws/test_measures.py.

# READERS: one row for each file format.
