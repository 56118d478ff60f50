"""What is compared on one linear model or on nearest neighbors: a number each, once a seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from fullspan._typing import Array
from fullspan.normalize.text import parse_strategy
from fullspan.studies.normalization.strategies import fitted
from fullspan.studies.normalization.training import RATES, Net, fit
from fullspan.studies.normalization.work import drawn, pooled

__all__ = ["SHARES", "probes"]

#: Shares of the variance that PCA keeps.
SHARES = (0.99, 0.95, 0.9, 0.8, 0.5)
#: Planted: one training row of 100 is thirty times as long, or one source is thirty times the other.
PLANTED, FACTOR = 0.01, 30.0
TUNING_RATES = (4.0, 16.0, 64.0)
_STEPS, _BATCH, _LOOK = 300, 64, 20

Parts = dict[str, tuple[Array, Array]]


def probes(data: Mapping[str, Any], seed: int) -> dict[str, float]:
    """All probes of a seed."""
    texts = drawn(data, seed)
    raw = {name: (pooled(data["table"], tokens), y) for name, (tokens, y) in texts.items()}
    return {
        **_angles(raw),
        **_reduced(raw, seed),
        **_outliers(raw, seed),
        **_sources(raw, seed),
        **_skew(raw, seed),
        **_tuned(data["table"], texts, seed),
    }


def _trained(parts: Parts, seed: int) -> tuple[float, Net, int]:
    """Accuracy on the test rows at the rate that is best on validation, the models, and which rate it was."""
    held = {name: (np.ascontiguousarray(x, dtype=np.float32), None, y) for name, (x, y) in parts.items()}
    classes = int(max(y.max() for _, y in parts.values())) + 1
    net = Net("linear", held["train"][0].shape[1], classes, len(RATES["sgd"]), "none", seed)
    found = fit(net, held, "sgd", seed)
    best = int(np.argmin(np.where(np.isfinite(found["loss"][-1]), found["loss"][-1], np.inf)))
    return float(found["test"][best]), net, best


def _changed(parts: Parts, name: str, rows: Array | None = None) -> Parts:
    apply = fitted(name, parts["train"][0] if rows is None else rows)
    return {key: (apply(x), y) for key, (x, y) in parts.items()}


def _neighbor(parts: Parts, kind: str) -> float:
    """Share of test rows whose nearest training row, by dot product or distance, has their label."""
    (x, y), (z, t) = parts["train"], parts["test"]
    x, z = x.astype(np.float64), z.astype(np.float64)
    near = z @ x.T if kind == "dot" else 2 * z @ x.T - (x * x).sum(1)
    return float((y[near.argmax(1)] == t).mean())


def _angles(raw: Parts) -> dict[str, float]:
    return {
        f"{kind}_{name}": _neighbor(_changed(raw, name), kind)
        for kind in ("dot", "distance")
        for name in ("none", "unit-norm", "standardize", "whiten")
    }


def _reduced(raw: Parts, seed: int) -> dict[str, float]:
    found = {"pca_all": _trained(_changed(raw, "center"), seed)[0], "pca_all_dims": float(raw["train"][0].shape[1])}
    for share in SHARES:
        pipe = parse_strategy(f"pca(k={share})").fit(raw["train"][0])
        made = {name: (np.asarray(pipe.transform(x)), y) for name, (x, y) in raw.items()}
        found[f"pca_{share}"] = _trained(made, seed)[0]
        found[f"pca_{share}_dims"] = float(made["train"][0].shape[1])
        found[f"pca_{share}_dot"] = _neighbor(made, "dot")
    for name in ("none", "standardize", "whiten"):
        C = np.abs(np.corrcoef(_changed(raw, name)["test"][0].T))
        found[f"correlation_{name}"] = float((C.sum() - len(C)) / (len(C) * (len(C) - 1)))
    return found


def _outliers(raw: Parts, seed: int) -> dict[str, float]:
    """Training rows with outliers; what is learned is scored on clean rows."""
    rng = np.random.default_rng([seed, 11])
    x, y = raw["train"]
    planted = x.copy()
    rows = rng.choice(len(x), max(1, round(PLANTED * len(x))), replace=False)
    planted[rows] *= FACTOR
    with_them = {**raw, "train": (planted, y)}
    found = {}
    for name in ("none", "standardize", "min-max", "robust", "clip-standardize", "unit-norm"):
        found[f"clean_{name}"] = _trained(_changed(raw, name), seed)[0]
        found[f"outliers_{name}"] = _trained(_changed(with_them, name), seed)[0]
    return found


def _sources(raw: Parts, seed: int) -> dict[str, float]:
    """The two halves of the vectors as two sources, one of them thirty times as long."""
    half = raw["train"][0].shape[1] // 2
    pairs = (
        {k: (x[:, :half] * FACTOR, y) for k, (x, y) in raw.items()},
        {k: (x[:, half:], y) for k, (x, y) in raw.items()},
    )
    found = {}
    for name in ("none", "unit-norm", "min-max", "standardize"):
        one, two = (_changed(part, name) for part in pairs)
        both = {k: (np.concatenate([one[k][0], two[k][0]], 1), one[k][1]) for k in raw}
        found[f"sources_{name}"] = _trained(both, seed)[0]
        found[f"sources_{name}_distance"] = _neighbor(both, "distance")
    return found


def _skew(raw: Parts, seed: int) -> dict[str, float]:
    """A model trained on standardized rows, served rows that were treated otherwise."""
    right, net, best = _trained(_changed(raw, "standardize"), seed)
    x, y = raw["test"]
    own = fitted("standardize", x)(x)
    some = np.concatenate([fitted("standardize", x[y == each])(x[y == each]) for each in np.unique(y)])
    ordered = np.concatenate([y[y == each] for each in np.unique(y)])

    def score(rows: Array, labels: Array) -> float:
        with torch.no_grad():
            told = net(torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32)), None, False)[best].argmax(-1)
        return float((told.numpy() == labels).mean())

    twice = fitted("standardize", raw["train"][0])
    return {
        "served_right": right,
        "served_raw": score(x, y),
        "served_twice": score(twice(twice(x)), y),
        "served_own": score(own, y),
        "served_by_class": score(some, ordered),
    }


def _tuned(table: Array, texts: Parts, seed: int) -> dict[str, float]:
    """A table that is tuned with its head; its rows brought to one length afterwards."""
    runs = [_tune(table, texts, seed, rate) for rate in TUNING_RATES]
    return max(runs, key=lambda run: run["tuned_validation"])


def _tune(table: Array, texts: Parts, seed: int, rate: float) -> dict[str, float]:
    y = {name: torch.from_numpy(labels) for name, (_, labels) in texts.items()}
    tokens = {name: torch.from_numpy(each) for name, (each, _) in texts.items()}
    E = torch.from_numpy(table.copy()).requires_grad_(True)
    classes = int(max(int(each.max()) for each in y.values())) + 1
    head = torch.zeros(table.shape[1], classes, requires_grad=True)
    rng = np.random.default_rng([seed, 13])
    seen: list[tuple[float, float]] = []
    for step in range(_STEPS + 1):
        if step % _LOOK == 0:
            with torch.no_grad():
                x = _mean(E, tokens["validation"])
                hit = float(((x @ head).argmax(1) == y["validation"]).float().mean())
            seen.append((_separability(x.numpy(), y["validation"].numpy()), hit))
        rows = torch.from_numpy(rng.integers(0, len(y["train"]), _BATCH))
        scores = _mean(E, tokens["train"][rows]) @ head
        loss = torch.nn.functional.cross_entropy(scores, y["train"][rows])
        steps = torch.autograd.grad(loss, [E, head])
        with torch.no_grad():
            E -= rate * steps[0]
            head -= 0.05 * rate * steps[1]
    with torch.no_grad():
        return _renormalized(E.detach(), table, head.detach(), tokens, y, seen)


def _renormalized(E: Any, table: Array, head: Any, tokens: Any, y: Any, seen: Any) -> dict[str, float]:
    unit = E / E.norm(dim=1, keepdim=True).clamp_min(1e-12)
    before = torch.from_numpy(table)
    found = {"tuned_validation": seen[-1][1], "separability_follows": _rank_correlation(*np.array(seen).T)}
    for name, each in (("pretrained", before), ("tuned", E), ("renormalized", unit)):
        parts = {k: (_mean(each, t).numpy(), y[k].numpy()) for k, t in tokens.items()}
        if name != "pretrained":
            found[f"head_{name}"] = float(((_mean(each, tokens["test"]) @ head).argmax(1) == y["test"]).float().mean())
        found[f"neighbor_{name}"] = _neighbor(_changed(parts, "none"), "dot")
        found[f"cosine_{name}"] = _neighbor(_changed(parts, "unit-norm"), "dot")
    return found


def _mean(E: Any, tokens: Any) -> Any:
    there = (tokens >= 0).to(E.dtype)[..., None]
    return (E[tokens.clamp_min(0)] * there).sum(1) / there.sum(1)


def _separability(x: Array, y: Array) -> float:
    """Variance between classes over the whole."""
    center = x.mean(0)
    between = sum(float((y == k).sum()) * float(((x[y == k].mean(0) - center) ** 2).sum()) for k in np.unique(y))
    return between / max(float(((x - center) ** 2).sum()), 1e-30)


def _rank_correlation(a: Array, b: Array) -> float:
    first, second = (np.unique(each, return_inverse=True)[1].astype(float) for each in (a, b))
    return float(np.corrcoef(first, second)[0, 1]) if np.ptp(first) and np.ptp(second) else 0.0
