"""The takeaways of the article as tested statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fullspan.studies.base.claims import Claim, answer, untestable
from fullspan.studies.base.result import CellCurves
from fullspan.studies.base.statistics import theil_sen
from fullspan.studies.movielens.grid import BATCH_SIZES, OPTIMIZERS

__all__ = ["EARLY", "RESOLUTION", "article_claims", "opposed", "trend_parts"]

#: The article prints four decimals: a smaller change over a run cannot be seen in its figures.
RESOLUTION = 1e-4
#: The last of the "first few epochs".
EARLY = 5
_OTHER_EARLY = (3, 8)
_WHERE = "Results and Discussions, "
_SLOPE = (
    "Theil–Sen slope over epochs 1 to {last} times the {span} epochs between them, a seed; "
    "95% interval of the mean over seeds beyond ±0.0001."
)
_PLAIN = {
    "gini_index": "Gini index",
    "hoyer_sparsity": "Hoyer sparsity",
    "vector_entropy": "vector entropy",
    "spectral_entropy": "spectral entropy",
    "loss": "training loss",
    "test_loss": "test loss",
}
_SPOKEN = {"sgd": "SGD", "adam": "Adam"}

Looked = tuple[str, Sequence[float], str]


def label(measure: str, optimizer: str, batch_size: int, more: str = "") -> str:
    """How a part is called."""
    return f"{_PLAIN[measure]}, {_SPOKEN[optimizer]}, batch {batch_size}{more}"


def trend_parts(
    cells: Mapping[str, CellCurves], optimizer: str, sizes: Sequence[int], measures: Sequence[str], claimed: str
) -> list[Looked]:
    """One part a batch size and measure: its change over all epochs."""
    return [
        (label(name, optimizer, b), cells[f"{optimizer}-b{b}"].changes(name), claimed)
        for b in sizes
        for name in measures
    ]


def article_claims(cells: Mapping[str, CellCurves]) -> tuple[Claim, ...]:
    """Answer each takeaway from the article's grid.

    Parameters
    ----------
    cells
        ``"sgd-b1"`` … ``"adam-b32"``.

    Returns
    -------
    tuple of Claim
    """
    epochs = int(next(iter(cells.values())).x[-1])
    slope = _SLOPE.format(last=epochs, span=epochs - 1)
    both = ("gini_index", "hoyer_sparsity")
    return (
        answer(
            "sgd-raises-gini-and-hoyer",
            "With SGD, Gini index and Hoyer sparsity rise during training at batch sizes 8, 16 and 32.",
            _WHERE + "first takeaway",
            slope,
            trend_parts(cells, "sgd", (8, 16, 32), both, "rises"),
            resolution=RESOLUTION,
        ),
        answer(
            "adam-lowers-gini-and-hoyer",
            "With Adam, Gini index and Hoyer sparsity fall during training at batch sizes 8, 16 and 32.",
            _WHERE + "first takeaway",
            slope,
            trend_parts(cells, "adam", (8, 16, 32), both, "falls"),
            resolution=RESOLUTION,
        ),
        _opposite(cells),
        answer(
            "spectral-entropy-falls",
            "Spectral entropy falls with both optimizers at every batch size.",
            _WHERE + "second takeaway",
            slope,
            [each for o in OPTIMIZERS for each in trend_parts(cells, o, BATCH_SIZES, ("spectral_entropy",), "falls")],
            resolution=RESOLUTION,
        ),
        answer(
            "sgd-batch-1-lowers-gini",
            "With SGD at batch size 1, the Gini index falls instead.",
            _WHERE + "third takeaway",
            slope,
            trend_parts(cells, "sgd", (1,), ("gini_index",), "falls"),
            resolution=RESOLUTION,
        ),
        _turn(cells, epochs),
        _faster(cells),
    )


def opposed(curves: CellCurves, measure: str) -> list[float]:
    """How vector entropy changes as a measure crosses its range: their Theil–Sen slope times that range, a seed."""
    found = []
    for x, y in zip(curves[measure][:, 1:], curves["vector_entropy"][:, 1:], strict=True):
        reach = float(np.ptp(x))
        found.append(theil_sen(x, y) * reach if reach > 0 else 0.0)
    return found


def _opposite(cells: Mapping[str, CellCurves]) -> Claim:
    looked = [
        (label(name, o, b), opposed(cells[f"{o}-b{b}"], name), "falls")
        for o in OPTIMIZERS
        for b in BATCH_SIZES
        for name in ("gini_index", "hoyer_sparsity")
    ]
    return answer(
        "entropy-opposes-gini",
        "Vector entropy moves against Gini index and Hoyer sparsity, with both optimizers at every batch size.",
        _WHERE + "second takeaway",
        "Theil–Sen slope of vector entropy against the measure over the epochs, times the range of the measure, a "
        "seed; 95% interval of the mean over seeds below -0.0001.",
        looked,
        resolution=RESOLUTION,
    )


def _turn(cells: Mapping[str, CellCurves], epochs: int) -> Claim:
    told = (
        "adam-batch-1-turns",
        (
            "With Adam at batch size 1, Gini index and Hoyer sparsity first fall and then rise (in the article: "
            "first as with SGD at batch size 1, then as with SGD at larger ones)."
        ),
        _WHERE + "third takeaway",
        (
            f"Theil–Sen slopes of Adam at batch size 1 over epochs 1 to {EARLY} (falls) and {EARLY + 1} to "
            f"{epochs} (rises), each times the epochs between; 95% intervals over seeds beyond ±0.0001. The "
            f"article gives no epoch of the turn: {EARLY} was fixed before any run, others are shown beside. "
            "Whether SGD moves so is asked by the claims on SGD."
        ),
    )
    if epochs < EARLY + 3:
        return untestable(*told, f"It needs at least {EARLY + 3} epochs; got {epochs}.")
    curves = cells["adam-b1"]
    looked = _turn_parts(curves, EARLY, epochs)
    return answer(*told, looked, resolution=RESOLUTION, detail=_other_turns(curves, epochs))


def _turn_parts(curves: CellCurves, turn: int, epochs: int) -> list[Looked]:
    parts: list[Looked] = []
    for name in ("gini_index", "hoyer_sparsity"):
        first, then = curves.changes(name, 1, turn), curves.changes(name, turn + 1, epochs)
        parts.append((label(name, "adam", 1, f", epochs 1 to {turn}"), first, "falls"))
        parts.append((label(name, "adam", 1, f", epochs {turn + 1} to {epochs}"), then, "rises"))
    return parts


def _other_turns(curves: CellCurves, epochs: int) -> dict[str, str]:
    told = {}
    for turn in _OTHER_EARLY:
        if turn + 2 <= epochs:
            means = [f"{np.mean(values):+.4f}" for _, values, _ in _turn_parts(curves, turn, epochs)]
            told[f"turn after epoch {turn} (Gini first, then; Hoyer first, then)"] = ", ".join(means)
    return told


def _faster(cells: Mapping[str, CellCurves]) -> Claim:
    """A remark of the setup, not a takeaway: worth testing since both losses are drawn."""
    looked = []
    for b in BATCH_SIZES:
        gap = cells[f"adam-b{b}"]["loss"][:, 1] - cells[f"sgd-b{b}"]["loss"][:, 1]
        looked.append((f"training loss of epoch 1, Adam minus SGD, batch {b}", gap.tolist(), "falls"))
    return answer(
        "adam-converges-faster",
        "Adam converges faster than SGD: its training loss over the first epoch is lower at every batch size.",
        "Experiment Setup",
        "Difference of the running means of the training loss over epoch 1, paired by seed; 95% interval below "
        "-0.0001.",
        looked,
        resolution=RESOLUTION,
    )
