"""The article's ten practices as tested statements.

Every number is a difference within a seed, which draws classes, split, initialization and order of rows. A rate is
chosen on validation rows, for each strategy by itself (its best rate) or for the raw vectors (the same rate); accuracy
is that of test rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fullspan._typing import Array
from fullspan.studies.base.claims import Claim, answer, untestable
from fullspan.studies.base.result import CellCurves

__all__ = ["ACCURACY", "SPEED", "at", "claims", "rate"]

#: The smallest differences that count: half a point of accuracy, and 15% of the steps (log2).
ACCURACY, SPEED = 0.005, 0.2
#: In the Gini index, in a mean correlation, and in the logarithms of rates and of roughness.
_SMALL = 0.01
_HALF = 0.5

Cells = Mapping[str, CellCurves]
Looked = tuple[str, Sequence[float], str]


def rate(cells: Cells, name: str, of: str = "final") -> Array:
    """Position of each seed's best rate: lowest validation loss at the end, or fewest steps to the target."""
    return np.asarray(cells[name][of]).argmin(1)


def at(cells: Cells, name: str, measure: str, where: Array) -> Array:
    """A curve's value a seed at a rate."""
    return np.take_along_axis(np.asarray(cells[name][measure]), where[:, None], 1)[:, 0]


def _models(cells: Cells) -> list[str]:
    return [model for model in ("linear", "mlp", "transformer") if f"{model}-none" in cells]


def _faster(cells: Cells, model: str, strategy: str, against: str = "none", *, same: bool = False) -> list[float]:
    """log2 of the steps to the target over those of the reference."""
    one, two = f"{model}-{strategy}", f"{model}-{against}"
    there = rate(cells, two, "reach")
    here = there if same else rate(cells, one, "reach")
    return list(np.log2(at(cells, one, "reach", here) / at(cells, two, "reach", there)))


def _better(cells: Cells, model: str, strategy: str, against: str = "none") -> list[float]:
    one, two = f"{model}-{strategy}", f"{model}-{against}"
    return list(at(cells, one, "test", rate(cells, one)) - at(cells, two, "test", rate(cells, two)))


def _usable(cells: Cells, name: str) -> Array:
    """log2 of the largest usable rate; of the smallest rate where none is."""
    usable, x = np.asarray(cells[name]["usable"]) > 0, np.asarray(cells[name].x)
    return np.where(usable.any(1), x[usable.shape[1] - 1 - usable[:, ::-1].argmax(1)], x[0])


def _rough(cells: Cells, model: str, strategy: str) -> list[float]:
    one, two = f"{model}-{strategy}", f"{model}-none"
    rough = [at(cells, each, "rough", rate(cells, each)) for each in (one, two)]
    return list(np.log2(np.maximum(rough[0], 1e-9) / np.maximum(rough[1], 1e-9)))


def claims(cells: Cells) -> tuple[Claim, ...]:
    """Answer the ten practices.

    Parameters
    ----------
    cells
        Models by strategies, and the probes.
    """
    models = _models(cells)
    return (*_first(cells, models), *_second(cells), *_third(cells, models), *_probed(cells), _sixth(cells, models))


def _first(cells: Cells, models: list[str]) -> tuple[Claim, ...]:
    speed = "log2 of the steps to 60% of the loss of a blind guess, standardized over raw, {}."
    uneven = [at(cells, f"linear-{name}", "uneven", rate(cells, f"linear-{name}")) for name in ("standardize", "none")]
    return (
        answer(
            "standardizing-speeds-sgd",
            "Standardizing embeddings speeds SGD, each at its best rate.",
            "practice 1",
            speed.format("each at the rate that gets there first"),
            [(f"{m}, best rate", _faster(cells, m, "standardize"), "falls") for m in models],
            resolution=SPEED,
        ),
        answer(
            "standardizing-speeds-sgd-at-one-rate",
            "Standardizing embeddings speeds SGD at the rate that is best for raw vectors.",
            "practice 1",
            speed.format("both at the rate where raw vectors get there first"),
            [(f"{m}, same rate", _faster(cells, m, "standardize", same=True), "falls") for m in models],
            resolution=SPEED,
        ),
        answer(
            "standardizing-more-than-centering",
            "What speeds SGD is unit variance, and not the mean that is taken away with it.",
            "practice 1 (our question)",
            speed.format("each at its best rate, against vectors that were only centered"),
            [(f"{m}, against centering", _faster(cells, m, "standardize", "center"), "falls") for m in models],
            resolution=SPEED,
        ),
        answer(
            "features-contribute-equally",
            "Standardizing lets every feature contribute equally.",
            "practice 1",
            "Gini index over features of deviation times length of their weights, linear model; a difference.",
            [("Gini index of contributions", list(uneven[0] - uneven[1]), "falls")],
            resolution=_SMALL,
        ),
    )


def _gap(cells: Cells, one: str, two: str) -> list[float]:
    return list(cells["probes"][one][:, 0] - cells["probes"][two][:, 0])


def _second(cells: Cells) -> tuple[Claim, ...]:
    models = _models(cells)
    return (
        answer(
            "unit-norm-helps-angles",
            "Unit norm helps where the model ranks by dot products.",
            "practice 2",
            "Accuracy of the nearest training row by dot product, unit rows minus raw rows.",
            [("nearest by dot product", _gap(cells, "dot_unit-norm", "dot_none"), "rises")],
            resolution=ACCURACY,
        ),
        answer(
            "unit-norm-helps-training",
            "Unit norm raises the accuracy of models that are trained on the vectors.",
            "practice 2 (past what it says)",
            "Accuracy on test rows, each at its best rate, unit rows minus raw rows.",
            [(m, _better(cells, m, "unit-norm"), "rises") for m in models],
            resolution=ACCURACY,
        ),
    )


def _third(cells: Cells, models: list[str]) -> tuple[Claim, ...]:
    where, name = "practice 3", "batch-norm"
    wider = [
        (f"largest usable rate, {m}", list(_usable(cells, f"{m}-{name}") - _usable(cells, f"{m}-none")), "rises")
        for m in models
    ]
    return (
        answer(
            "batch-norm-speeds",
            "Batch norm after the embedding speeds training.",
            where,
            "log2 of the steps to the target over those without it, each at its best rate.",
            [(m, _faster(cells, m, name), "falls") for m in models],
            resolution=SPEED,
        ),
        answer(
            "batch-norm-beats-standardizing",
            "Batch norm after the embedding speeds training more than standardizing once does.",
            "practice 3 (our question)",
            "log2 of the steps to the target over those of standardized vectors, each at its best rate.",
            [(m, _faster(cells, m, name, "standardize"), "falls") for m in models],
            resolution=SPEED,
        ),
        answer(
            "batch-norm-steadies-loss",
            "Batch norm after the embedding makes the training loss steadier.",
            where,
            "log2 of the deviation of the loss's changes from step to step, last third, over that without; best rates.",
            [(m, _rough(cells, m, name), "falls") for m in models],
            resolution=SPEED,
        ),
        answer(
            "batch-norm-allows-larger-rates",
            "Batch norm after the embedding allows larger learning rates.",
            where,
            "log2 of the largest rate that ends below the loss of a blind guess, with minus without it.",
            wider,
            resolution=_HALF,
        ),
        answer(
            "batch-norm-generalizes",
            "Batch norm after the embedding raises accuracy on test rows.",
            where,
            "Accuracy on test rows, each at its best rate, with minus without.",
            [(m, _better(cells, m, name), "rises") for m in models],
            resolution=ACCURACY,
        ),
    )


def _scored(name: str, statement: str, where: str, test: str, looked: list[Looked], least: float = ACCURACY) -> Claim:
    return answer(name, statement, where, test, looked, resolution=least)


def _probed(cells: Cells) -> tuple[Claim, ...]:
    served, linear = (
        "Accuracy of one trained model, served otherwise minus served as trained.",
        "Accuracy, linear model: ",
    )
    dropped = ("none", "standardize", "min-max")
    return (
        _scored(
            "pca-removes-noise",
            "PCA removes noise: keeping 95% of the variance raises accuracy.",
            "practice 4",
            linear + "95% kept minus all, both centered.",
            [("95% kept", _gap(cells, "pca_0.95", "pca_all"), "rises")],
        ),
        _scored(
            "whitening-decorrelates",
            "Whitening decorrelates vectors it was not fitted on.",
            "practice 4",
            "Mean absolute correlation of columns on test rows, whitened minus raw.",
            [("mean correlation", _gap(cells, "correlation_whiten", "correlation_none"), "falls")],
            _SMALL,
        ),
        _scored(
            "whitening-helps",
            "Whitening raises accuracy past standardizing.",
            "practice 4",
            "Accuracy on test rows, each at its best rate, whitened minus standardized.",
            [(m, _better(cells, m, "whiten", "standardize"), "rises") for m in _models(cells)],
        ),
        _scored(
            "outliers-skew",
            "Outliers in the training rows skew what is fitted and learned.",
            "practice 5",
            linear + "1% of training rows thirty times as long minus none of them; scored on clean rows.",
            [(name, _gap(cells, f"outliers_{name}", f"clean_{name}"), "falls") for name in dropped],
        ),
        _scored(
            "clipping-helps",
            "Clipping before standardizing keeps accuracy under outliers.",
            "practice 5",
            linear + "clipped and standardized minus standardized, both with outliers.",
            [("clip", _gap(cells, "outliers_clip-standardize", "outliers_standardize"), "rises")],
        ),
        _scored(
            "robust-scaling-helps",
            "Median and interquartile range in place of mean and deviation keep accuracy under outliers.",
            "practice 5",
            linear + "robust scale minus standardized, both with outliers.",
            [("robust", _gap(cells, "outliers_robust", "outliers_standardize"), "rises")],
        ),
        _scored(
            "l2-joins-sources",
            "L2 norm brings sources of unlike scale together.",
            "practice 7",
            "Accuracy, L2 for each source minus raw: one half of the vectors is thirty times the other.",
            [
                ("nearest by distance", _gap(cells, "sources_unit-norm_distance", "sources_none_distance"), "rises"),
                ("linear model", _gap(cells, "sources_unit-norm", "sources_none"), "rises"),
            ],
        ),
        _scored(
            "min-max-joins-sources",
            "Min-max scaling brings sources of unlike scale together.",
            "practice 7",
            "The same with min-max scaling of each source.",
            [
                ("nearest by distance", _gap(cells, "sources_min-max_distance", "sources_none_distance"), "rises"),
                ("linear model", _gap(cells, "sources_min-max", "sources_none"), "rises"),
            ],
        ),
        _scored(
            "skew-costs",
            "Serving vectors that were not treated as in training costs accuracy.",
            "practice 8",
            served,
            [
                (label, _gap(cells, name, "served_right"), "falls")
                for label, name in (
                    ("not standardized", "served_raw"),
                    ("standardized twice", "served_twice"),
                    ("by statistics of one class at a time", "served_by_class"),
                )
            ],
        ),
        _scored(
            "own-statistics-cost",
            "Standardizing served vectors by their own statistics costs accuracy, even in a large mixed batch.",
            "practice 8",
            served,
            [("by statistics of all test rows", _gap(cells, "served_own", "served_right"), "falls")],
        ),
        _scored(
            "monitoring-shows-it",
            "Separability of the vectors during fine-tuning tells how accuracy moves.",
            "practice 9",
            "Rank correlation over looks of the share of variance between classes with accuracy, validation rows.",
            [("rank correlation", cells["probes"]["separability_follows"][:, 0].tolist(), "rises")],
            _HALF,
        ),
        _scored(
            "renormalizing-helps-neighbors",
            "Unit rows after fine-tuning raise accuracy of the nearest training text by dot product.",
            "practice 10",
            "Accuracy with the tuned table's rows at length one minus as tuned; a text is the mean of its rows.",
            [("nearest by dot product", _gap(cells, "neighbor_renormalized", "neighbor_tuned"), "rises")],
        ),
        _scored(
            "renormalizing-costs-the-head",
            "Unit rows after fine-tuning cost the head that was tuned with them accuracy.",
            "practice 10 (what it does not say)",
            "The same with the head as it was trained.",
            [("trained head", _gap(cells, "head_renormalized", "head_tuned"), "falls")],
        ),
    )


def _sixth(cells: Cells, models: list[str]) -> Claim:
    told = (
        "models-want-different-strategies",
        "Models differ in the strategy that they want: the linear model's choice costs another one accuracy.",
        "practice 6",
        "Of each seed: test accuracy of a model with its own best strategy minus that with the linear one's.",
    )
    if len(models) < 2:
        return untestable(*told, "One model has nothing to differ from.")
    chosen = {m: _choices(cells, m) for m in models}
    looked = []
    for model in models[1:]:
        own, other = ([_chosen(cells, model, s, i) for i, s in enumerate(chosen[m])] for m in (model, "linear"))
        looked.append((model, list(np.subtract(own, other)), "rises"))
    wanted = {m: ", ".join(f"{n} {chosen[m].count(n)}" for n in dict.fromkeys(chosen[m])) for m in models}
    return answer(*told, looked, resolution=ACCURACY, detail=wanted)


def _choices(cells: Cells, model: str) -> list[str]:
    from fullspan.studies.normalization.grid import STRATEGIES

    scores = [at(cells, f"{model}-{s}", "validation", rate(cells, f"{model}-{s}")) for s in STRATEGIES]
    return [STRATEGIES[k] for k in np.argmax(scores, 0)]


def _chosen(cells: Cells, model: str, strategy: str, index: int) -> float:
    name = f"{model}-{strategy}"
    return float(at(cells, name, "test", rate(cells, name))[index])
