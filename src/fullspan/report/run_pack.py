"""Arrays as short text that a page can hold: base64 of the narrowest type that shows no difference."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fullspan.jobs.formats import words

__all__ = ["color_of", "floats", "kept_positions", "places_of", "positions_of", "runs_of", "spectrum_of"]

#: Codes of 16 bits and of 8 bits; the last code means that there is no value.
_DEEP, _SHALLOW = 65_534, 254
_MOST_LABELS = 20


def _text(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")


def floats(values: Iterable[float | None]) -> str:
    """Little-endian float32; what is undefined, or too large for the type, is the pattern of a NaN."""
    plain = np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    with np.errstate(over="ignore"):
        narrow = plain.astype("<f4")
    narrow[~np.isfinite(narrow)] = math.nan
    return _text(narrow)


def runs_of(values: Sequence[Any]) -> list[list[Any]]:
    """Run-length code: ``[value, how often]``, in order."""
    coded: list[list[Any]] = []
    for value in values:
        if coded and coded[-1][0] == value:
            coded[-1][1] += 1
        else:
            coded.append([value, 1])
    return coded


def kept_positions(values: Sequence[float | None], marked: Sequence[bool], most: int) -> list[int]:
    """About `most` positions of a long curve: its ends, the lowest and highest of each stretch, and what is marked.

    Marked positions (full passes, undefined values) are all kept as long as they are fewer than half of `most`.
    """
    count = len(values)
    if count <= most:
        return list(range(count))
    special = [position for position in range(count) if marked[position]]
    kept = {0, count - 1, *(special if len(special) <= most // 2 else special[:: math.ceil(2 * len(special) / most)])}
    plain = np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    for part in np.array_split(np.arange(count), max(1, most // 4)):
        there = part[np.isfinite(plain[part])]
        if len(there):
            kept |= {int(there[np.argmin(plain[there])]), int(there[np.argmax(plain[there])])}
    return sorted(kept)


def spectrum_of(rows: Sequence[np.ndarray], most_ranks: int) -> dict[str, Any]:
    """Singular values over time: ``log σ`` in 16 bits, one row a moment; zero and undefined values bear the last code.

    A step of the code is a factor of at most exp(range / 65,534): 0.04% for values from 1e-6 to 1e6.
    """
    ranks = max(map(len, rows))
    kept = _ranks(ranks, most_ranks)
    table = np.full((len(rows), len(kept)), math.nan)
    for place, values in enumerate(rows):
        inside = kept[kept < len(values)]
        table[place, : len(inside)] = np.asarray(values, dtype=np.float64)[inside]
    positive = np.isfinite(table) & (table > 0)
    logs = np.log(table, where=positive, out=np.zeros_like(table))
    low, high = (float(logs[positive].min()), float(logs[positive].max())) if positive.any() else (0.0, 1.0)
    codes = np.where(positive, np.rint((logs - low) / ((high - low) or 1.0) * _DEEP), _DEEP + 1)
    return {
        "ranks": (kept + 1).tolist(),
        "of": ranks,
        "low": low,
        "high": high,
        "zeros": np.argwhere(table == 0).tolist(),
        "v": _text(codes.astype("<u2")),
    }


def _ranks(count: int, most: int) -> np.ndarray:
    """All ranks, or of many the first ones and then fewer and fewer."""
    if count <= most:
        return np.arange(count)
    head = np.arange(most // 2)
    tail = np.geomspace(most // 2, count - 1, most - len(head))
    return np.unique(np.concatenate([head, np.rint(tail).astype(int)]))


def positions_of(positions: np.ndarray) -> dict[str, Any]:
    """Points of all frames on one grid of 65,535 places an axis, so that a point at rest does not move."""
    points = np.asarray(positions, dtype=np.float64)
    finite = np.asarray(np.isfinite(points).all(axis=2))
    flat = points[finite]
    low = flat.min(axis=0) if len(flat) else np.zeros(2)
    span = (flat.max(axis=0) - low) if len(flat) else np.ones(2)
    span[span <= 0] = 1.0
    codes = np.rint((np.where(finite[..., None], points, low) - low) / span * _DEEP)
    codes[~finite] = _DEEP + 1
    return {"low": low.tolist(), "span": span.tolist(), "v": _text(codes.astype("<u2"))}


def places_of(row_ids: np.ndarray) -> dict[str, Any]:
    """Row ids: whole numbers as 32 bits, anything else as words."""
    ids = np.asarray(row_ids)
    if ids.dtype.kind in "iu" and (not ids.size or (ids.min() >= 0 and ids.max() < 2**32)):
        return {"v": _text(ids.astype("<u4"))}
    return {"words": [words.clean(each) for each in ids.tolist()]}


def color_of(name: str, values: np.ndarray) -> dict[str, Any]:
    """One color a point in 8 bits: a shade between two numbers, or a label."""
    some = np.asarray(values)
    if "frequency" in name and "decile" not in name and some.dtype.kind in "fiu":
        name, some = f"{name} (tenths)", _tenths(some)
    if "label" in name and some.dtype.kind not in "f":
        return _labels(name, some)
    few = some.dtype.kind in "iu" and len(np.unique(some)) <= _MOST_LABELS and "norm" not in name
    if some.dtype.kind in "fiu" and not (few and not _ordered(name)):
        return _shades(name, some.astype(np.float64), ordinal=few)
    return _labels(name, some)


def _ordered(name: str) -> bool:
    return any(part in name for part in ("decile", "frequency", "count", "quantile"))


def _tenths(values: np.ndarray) -> np.ndarray:
    """The tenth that each value lies in by rank, from 1 to 10; equal values share one."""
    ordered = np.sort(values)
    middle = (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2
    return np.clip(np.ceil(10 * middle / max(len(values), 1)), 1, 10).astype(int)


def _shades(name: str, values: np.ndarray, ordinal: bool) -> dict[str, Any]:
    finite = values[np.isfinite(values)]
    if not len(finite):
        low, high = 0.0, 1.0
    elif ordinal:
        low, high = float(finite.min()), float(finite.max())
    else:
        low, high = map(float, np.quantile(finite, [0.005, 0.995]))
    parts = np.clip((values - low) / ((high - low) or 1.0), 0, 1)
    codes = np.where(np.isfinite(values), np.rint(np.nan_to_num(parts) * _SHALLOW), _SHALLOW + 1)
    return {
        "name": words.clean(name),
        "kind": "shade",
        "low": low,
        "high": high,
        "least": float(finite.min()) if len(finite) else None,
        "most": float(finite.max()) if len(finite) else None,
        "ordinal": bool(ordinal),
        "v": _text(codes.astype(np.uint8)),
    }


def _labels(name: str, values: np.ndarray) -> dict[str, Any]:
    """The most frequent labels by name, and the rest as one."""
    as_words = np.array([words.clean(each) for each in values.tolist()], dtype=object)
    names, counts = np.unique(as_words.astype(str), return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST_LABELS]
    code = {str(names[place]): position for position, place in enumerate(order)}
    codes = np.array([code.get(str(each), _SHALLOW + 1) for each in as_words], dtype=np.uint8)
    rest = int(counts.sum() - counts[order].sum())
    return {
        "name": words.clean(name),
        "kind": "label",
        "labels": [[str(names[place]), int(counts[place])] for place in order],
        "rest": rest,
        "v": _text(codes),
    }
