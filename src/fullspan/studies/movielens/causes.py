"""Past the article: what removes the effect, and what its guesses at causes come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fullspan.studies.base.claims import Claim, answer, untestable
from fullspan.studies.base.result import CellCurves
from fullspan.studies.base.statistics import Interval, interval
from fullspan.studies.movielens.claims import RESOLUTION, Looked
from fullspan.studies.movielens.work import DECILES, MEASURES

__all__ = ["CAUSE", "cause_claims", "decile_changes", "effects", "reference_of", "share", "trend", "verdict"]

#: What is called a cause accounts for at least this share of the change.
CAUSE = 0.5

_BOTH = (("gini_index", "Gini index"), ("hoyer_sparsity", "Hoyer sparsity"))
_SPOKEN = {"gini_index": "gini", "hoyer_sparsity": "hoyer", "vector_entropy": "entropy", "spectral_entropy": "spectral"}
_GUESS = "Results and Discussions, first takeaway (a guess)"
_OURS = "Not in the article: our explanation"
_THIRD = "Results and Discussions, third takeaway (a guess)"


def trend(values: Sequence[float]) -> tuple[Interval, str]:
    """The interval of a change over seeds, and what it says: rises, falls, flat or unclear.

    Examples
    --------
    >>> trend([0.1, 0.11, 0.12])[1], trend([1e-6, 2e-6, 3e-6])[1], trend([-0.1, 0.2])[1], trend([0.1])[1]
    ('rises', 'flat', 'unclear', 'unclear')
    """
    found = interval(values)
    if found.low is None or found.high is None:
        return found, "unclear"
    if found.low > RESOLUTION:
        return found, "rises"
    if found.high < -RESOLUTION:
        return found, "falls"
    return found, "flat" if found.low > -RESOLUTION and found.high < RESOLUTION else "unclear"


def verdict(here: str, reference: str) -> str:
    """What became of the trend of the reference: keeps, removes, reverses or unclear.

    Examples
    --------
    >>> verdict("falls", "rises"), verdict("flat", "rises"), verdict("rises", "rises")
    ('reverses', 'removes', 'keeps')
    """
    if "unclear" in (here, reference) or reference == "flat":
        return "unclear"
    return "removes" if here == "flat" else "keeps" if here == reference else "reverses"


def reference_of(curves: CellCurves) -> str:
    """The cell of the article's grid that a variant is held against: AdamW and Adagrad against Adam."""
    setup = curves.cell.settings["setup"]
    return f"{'sgd' if setup['optimizer'] == 'sgd' else 'adam'}-b{setup['batch_size']}"


def effects(cells: Mapping[str, CellCurves]) -> tuple[dict[str, Any], ...]:
    """One row a variant: its changes, and what became of the trends of its reference.

    Parameters
    ----------
    cells
        Those of the article and those past it.
    """
    rows = []
    for name, curves in cells.items():
        if curves.cell.part == "article":
            continue
        reference = cells[reference_of(curves)]
        row: dict[str, Any] = {"varied": curves.cell.part, "cell": name, "against": reference.cell.name}
        for measure in MEASURES:
            (found, here), (_, there) = trend(curves.changes(measure)), trend(reference.changes(measure))
            short = _SPOKEN[measure]
            row |= {short: found.mean, f"{short}_low": found.low, f"{short}_high": found.high}
            row[f"{short}_trend"] = f"{here}: {verdict(here, there)}"
        row["auc"] = float(np.mean(curves["auc"][:, -1]))
        rows.append(row)
    return tuple(rows)


def decile_changes(curves: CellCurves, table: str, measure: str) -> np.ndarray:
    """``(n_seeds, 10)``: the change of a measure over the epochs in each decile of rating counts, the rarest first."""
    return np.array([curves.changes(f"{table}.d{number:02d}.{measure}") for number in range(1, DECILES + 1)]).T


def cause_claims(cells: Mapping[str, CellCurves]) -> tuple[Claim, ...]:
    """The article's guesses at causes, answered where the cells for them were run.

    Parameters
    ----------
    cells
        Those of the article and, if they were run, those past it.
    """
    ran = any(curves.cell.part != "article" for curves in cells.values())
    return (
        _noise(cells, ran),
        _momentum(cells, ran),
        _batch_1(cells, ran),
        _any_strategy(cells, ran),
        *_kernel(cells),
        _scaling(cells, ran),
        untestable(
            "optimizers-are-related",
            "SGD and Adam may be correlated, since Adam at batch size 1 comes to move as SGD at larger ones.",
            "Results and Discussions, third takeaway (a suggestion)",
            "None: the article does not say what would be correlated. What it rests on is adam-batch-1-turns.",
            "The suggestion names no quantity that could be measured.",
        ),
    )


def _answered(
    told: tuple[str, str, str, str], ran: bool, looked: Callable[[], list[Looked]], resolution: float = RESOLUTION
) -> Claim:
    if not ran:
        return untestable(*told, "Its cells were not run: add --beyond.")
    return answer(*told, looked(), resolution=resolution)


def share(cells: Mapping[str, CellCurves], one: str, reference: str, measure: str) -> list[float]:
    """Change of `one` minus that of its reference, paired by seed, as a share of the size of the reference's change.

    With the same seed both start from the same tables. -1 takes a rise away, +1 takes a fall away, 0 leaves them.
    """
    n = min(len(cells[one].seeds), len(cells[reference].seeds))
    there = cells[reference].changes(measure)[:n]
    size = abs(float(np.mean(there))) or 1.0
    return [(here - base) / size for here, base in zip(cells[one].changes(measure)[:n], there, strict=True)]


def _noise(cells: Mapping[str, CellCurves], ran: bool) -> Claim:
    def looked() -> list[Looked]:
        names = [("sgd-b1-as-many-updates-as-b32", "1"), ("sgd-b8-as-many-updates-as-b32", "8")]
        return [
            (f"{title}, SGD, batch {b} against batch 32", share(cells, name, "sgd-b32", measure), "rises")
            for measure, title in _BOTH
            for name, b in names
        ]

    told = (
        "noise-raises-gini",
        "The noise of its gradients is what makes Gini index and Hoyer sparsity rise with SGD.",
        _GUESS,
        (
            "At one learning rate and one number of updates, smaller batches differ from larger ones in noise alone: "
            "if noise is the cause, the measures rise by at least half as much again. Differences, paired by seed, "
            "over the change."
        ),
    )
    return _answered(told, ran, looked, CAUSE)


def _momentum(cells: Mapping[str, CellCurves], ran: bool) -> Claim:
    def looked() -> list[Looked]:
        parts: list[Looked] = []
        for measure, title in _BOTH:
            for b in (8, 32):
                without = share(cells, f"adam-no-momentum-b{b}", f"adam-b{b}", measure)
                parts.append((f"{title}, Adam without against with momentum, batch {b}", without, "rises"))
                added = share(cells, f"sgd-momentum-slow-b{b}", f"sgd-b{b}", measure)
                parts.append((f"{title}, SGD with against without momentum, batch {b}", added, "falls"))
        return parts

    told = (
        "momentum-lowers-gini",
        "Momentum is what makes Gini index and Hoyer sparsity fall with Adam.",
        _GUESS,
        (
            "If it is, at least half of the fall goes away with Adam at β1 = 0, and half of the rise with SGD at "
            "momentum 0.9 and a tenth of the rate, which has the same mean step. Differences, paired by seed, over the "
            "change."
        ),
    )
    return _answered(told, ran, looked, CAUSE)


def _batch_1(cells: Mapping[str, CellCurves], ran: bool) -> Claim:
    def looked() -> list[Looked]:
        return [
            (
                "Gini index, SGD, batch 1, as many updates as batch 32 has in all",
                cells["sgd-b1-as-many-updates-as-b32"].changes("gini_index"),
                "falls",
            ),
            (
                "Gini index, SGD, batch 32, as many updates as batch 1 has in all",
                cells["sgd-b32-as-many-updates-as-b1"].changes("gini_index"),
                "rises",
            ),
        ]

    told = (
        "noise-turns-batch-1",
        "Extreme noise, and not the number of updates, is what makes the Gini index fall with SGD at batch size 1.",
        _THIRD,
        (
            "If it is, the Gini index falls at batch size 1 within the updates of batch size 32, and does not fall at "
            "batch size 32 given the updates of batch size 1."
        ),
    )
    return _answered(told, ran, looked)


def _any_strategy(cells: Mapping[str, CellCurves], ran: bool) -> Claim:
    def looked() -> list[Looked]:
        return [(name, curves.changes("spectral_entropy"), "falls") for name, curves in cells.items()]

    told = (
        "spectral-entropy-falls-everywhere",
        "Spectral entropy falls under any training strategy.",
        "Results and Discussions, second takeaway (a generalization)",
        "Change over all points of every cell, also past the article.",
    )
    return _answered(told, ran, looked)


def _kernel(cells: Mapping[str, CellCurves]) -> tuple[Claim, Claim]:
    """With the dense head every gradient of a row is a multiple of the layer's weights: do rows end up like them?"""
    article = {name: curves for name, curves in cells.items() if curves.cell.part == "article"}
    turned = (
        "rows-turn-to-the-dense-layer",
        (
            "Rows turn towards the weights of the dense layer; with SGD they take over how even those are, a draw of "
            "the seed."
        ),
        _OURS,
        (
            "Mean absolute cosine of rows with their half of the dense weights, last point minus first, a seed. "
            "Beside: the correlation over seeds between the Gini index of the rows and that of the dense weights."
        ),
    )
    evened = (
        "adam-evens-the-dense-layer",
        "With Adam, rows become even because the weights of the dense layer do.",
        _OURS,
        "Change of the Gini index of the dense weights with Adam at batch sizes 8, 16 and 32.",
    )
    if any("kernel.alignment" not in curves.curves for curves in article.values()):
        return (
            untestable(*turned, "The dot head has no dense layer."),
            untestable(*evened, "The dot head has no dense layer."),
        )
    cosines = {name: curves["kernel.alignment"] for name, curves in article.items()}
    looked = [(f"cosine, {name}", (each[:, -1] - each[:, 0]).tolist(), "rises") for name, each in cosines.items()]
    changes = [
        (f"Gini index of the dense weights, adam-b{b}", cells[f"adam-b{b}"].changes("kernel.gini_index"), "falls")
        for b in (8, 16, 32)
    ]
    kinship = {name: _kinship(curves) for name, curves in article.items()}
    return (
        answer(*turned, looked, resolution=RESOLUTION, detail=kinship),
        answer(*evened, changes, resolution=RESOLUTION),
    )


def _kinship(curves: CellCurves) -> str:
    """How rows and dense weights are related at the last point."""
    rows, kernel = curves["gini_index"][:, -1], curves["kernel.gini_index"][:, -1]
    told = f"cosine {curves['kernel.alignment'][:, -1].mean():.3f}, Gini of rows {rows.mean():.3f}, "
    told += f"of dense weights {kernel.mean():.3f}"
    if len(rows) < 3 or not np.ptp(rows) > 0 or not np.ptp(kernel) > 0:
        return told
    return f"{told}, correlation over seeds {np.corrcoef(rows, kernel)[0, 1]:+.2f}"


def _scaling(cells: Mapping[str, CellCurves], ran: bool) -> Claim:
    def looked() -> list[Looked]:
        return [
            (f"{title}, {name}", cells[name].changes(measure), "falls")
            for name in ("adam-no-momentum-b8", "adam-no-momentum-b32", "adagrad-b8", "adagrad-b32")
            for measure, title in _BOTH
        ]

    told = (
        "scaling-lowers-gini",
        "The division of each weight's step by the size of its gradients makes Gini index and Hoyer sparsity fall.",
        _OURS,
        "Change with the optimizers that have that division and no momentum: Adam at β1 = 0, and Adagrad.",
    )
    return _answered(told, ran, looked)
