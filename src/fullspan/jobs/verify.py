"""Whether stored vectors come from a fit, and whether vectors are normalized already."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from fullspan._typing import Array
from fullspan.io.formats import open_table
from fullspan.jobs.apply import stamp_of
from fullspan.normalize.folded import Folded
from fullspan.normalize.persist import load, transform_id

__all__ = ["Verification", "verify"]

_FEW_ROWS = 10
#: Means may be off by this share of a standard deviation and variances by twice it: rounding to 8 bits, other rows.
_TOLERANCE = 0.03
#: Mean squared deviation, in units of what chance and tolerance explain, up to which moments agree.
_AGREE = 4.0
_WORDS = {
    "transformed": "The rows look mapped by this fit, once.",
    "raw": "The rows look like those of the fit before the map: not normalized.",
    "twice": "The rows look mapped twice by this fit.",
    "other fit": "The rows are stamped as mapped by another fit.",
    "other": "The rows agree with this fit neither before nor behind the map: another fit, other data, or damaged.",
    "other dims": "The rows have a length that this fit neither takes nor makes.",
    "undetermined": "Nothing could be said.",
    "normalized": "The vectors are normalized already: see `properties`.",
    "not normalized": "The vectors are not normalized in any of the ways that are looked for.",
}
_CODES = {"transformed": 0, "normalized": 0, "undetermined": 3}


@dataclass(frozen=True)
class Verification:
    """What :func:`verify` found.

    Parameters
    ----------
    verdict
        With a fit: transformed, raw, twice, other fit, other, other dims, undetermined. Without: normalized, not
        normalized, undetermined.
    words
        The same as sentences, with what limits it.
    n_rows
        Rows without NaN, infinity and zeros that were looked at.
    distances
        For each state that is possible, how far the moments are from those expected: mean squared deviation in units
        of chance and tolerance. Up to 4 agrees.
    properties
        Whether the rows are unit norm, centered, standardized, whitened (None: too few rows to tell).
    """

    verdict: str
    words: str
    n_rows: int
    distances: dict[str, float] = field(default_factory=dict)
    properties: dict[str, bool | None] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 mapped or normalized, 1 not, 3 nothing could be said."""
        return _CODES.get(self.verdict, 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "exit_code": self.exit_code}


def verify(
    fitted: Any,
    source: Any = None,
    *,
    table: str | None = None,
    column: str | None = None,
    progress: Callable[[str, str, int, int | None], None] | None = None,
) -> Verification:
    """Say whether stored vectors come from a fit; with one argument, whether vectors are normalized already.

    Parameters
    ----------
    fitted
        A fitted normalizer or the path of a saved one; or, where `source` is None, the vectors.
    source
        What :func:`fullspan.open_table` takes, with `table` and `column`.
    progress
        Called with table, phase, rows done and rows in all.

    Returns
    -------
    Verification
        Verdict, words, and the distances they rest on.

    Raises
    ------
    InputError, FormatError
        If the fit or the vectors cannot be read.

    Notes
    -----
    Reads the rows once. Means and variances of columns are compared with those kept in the fit. A map whose results
    have the same moments for any table (whitening as the last step) cannot be told from another fit's by them: only
    the stamp that :func:`fullspan.apply` writes into safetensors, parquet and Arrow files tells those apart.

    Examples
    --------
    >>> import numpy as np
    >>> from fullspan.jobs.fit import fit
    >>> rows = np.random.default_rng(0).normal(3.0, 2.0, (500, 4))
    >>> fitted = fit(rows, "standardize")
    >>> verify(fitted, rows).verdict, verify(fitted, fitted.transform(rows)).verdict
    ('raw', 'transformed')
    >>> verify(fitted.transform(rows)).properties["standardized"]
    True
    """
    alone = source is None
    folded = None if alone else load(fitted) if isinstance(fitted, (str, os.PathLike)) else Folded.of(fitted)
    data = fitted if alone else source
    opened = open_table(data, table=table, column=column)
    if folded is not None and opened.dim not in (folded.dim_in, folded.dim_out):
        words = f"{_WORDS['other dims']} Rows of {opened.dim}; the fit maps {folded.dim_in} to {folded.dim_out}."
        return Verification("other dims", words, 0)
    seen = _Seen(opened, progress)
    properties = seen.properties()
    if folded is None:
        return _alone(seen, properties)
    return _against(folded, seen, properties, stamp_of(data))


class _Seen:
    """Mean, covariance and norms of finite rows that are not zero."""

    def __init__(self, table: Any, progress: Any) -> None:
        from fullspan.summaries.moments import Moments

        self.n, self.units = 0, 0
        self.moments: Any = None
        done = 0
        for block in table.blocks():
            rows = block.widened().rows
            norms = block.norms
            keep = np.isfinite(rows).all(axis=1) & (norms > 0.0)
            rows = rows[keep].astype(np.float64)
            self.units += int((np.abs(norms[keep] - 1.0) <= 0.01).sum())
            self.n += len(rows)
            if len(rows):
                made = Moments.of(rows)
                self.moments = made if self.moments is None else self.moments.merge(made)
            done += len(block)
            if progress is not None:
                progress(table.name, "verify", done, table.n_rows)

    def mean_and_variance(self) -> tuple[Array, Array]:
        return self.moments.mean, np.diag(self.moments.covariance)

    def properties(self) -> dict[str, bool | None]:
        if not self.n:
            return {}
        found: dict[str, bool | None] = {"unit_norm": self.units >= 0.999 * self.n}
        if self.n < _FEW_ROWS:
            return found | {"centered": None, "standardized": None, "whitened": None}
        mean, variance = self.mean_and_variance()
        live = variance > 1e-9 * max(variance.max(), 1e-300)
        chance = 3.0 / np.sqrt(self.n)
        shift = np.sqrt((mean[live] ** 2 / variance[live]).mean()) if live.any() else np.inf
        centered = bool(shift <= _TOLERANCE + chance)
        even = bool(live.any() and np.abs(variance[live] - 1.0).max() <= 0.05 + 2.0 * chance)
        return found | {
            "centered": centered,
            "standardized": centered and even,
            "whitened": self._whitened(variance, live) if centered and self.n >= 5 * live.sum() else None,
        }

    def _whitened(self, variance: Array, live: Array) -> bool:
        """Whether columns of one variance do not correlate, beyond what chance leaves among as many."""
        spread = np.sqrt(np.where(live, variance, 1.0))
        correlation = (self.moments.covariance / np.outer(spread, spread))[np.ix_(live, live)]
        apart = correlation - np.eye(len(correlation))
        size = max(1, len(apart) * (len(apart) - 1))
        level = variance[live].std() / variance[live].mean()
        return bool(np.sqrt((apart**2).sum() / size) <= _TOLERANCE + 2.0 / np.sqrt(self.n) and level <= 0.2)


def _alone(seen: _Seen, properties: dict[str, bool | None]) -> Verification:
    if not properties:
        return Verification("undetermined", "No row is finite and not zero.", 0)
    names = [name.replace("_", " ") for name, each in properties.items() if each]
    verdict = "normalized" if names else "not normalized"
    if not names and seen.n < _FEW_ROWS:
        verdict = "undetermined"
    words = f"The vectors are {', '.join(names)} already." if names else _WORDS[verdict]
    if seen.n < _FEW_ROWS:
        words += f" Only {seen.n} rows: too few to tell more than their norms."
    return Verification(verdict, words, seen.n, {}, properties)


def _against(folded: Folded, seen: _Seen, properties: dict[str, bool | None], stamp: dict[str, Any]) -> Verification:
    stamped = stamp.get("transform_id")
    if stamped is not None and stamped != transform_id(folded):
        return Verification("other fit", f"{_WORDS['other fit']} Its id is {stamped}.", seen.n, {}, properties)
    if seen.n < _FEW_ROWS:
        words = f"{_WORDS['undetermined']} {seen.n} usable rows; moments need at least {_FEW_ROWS}."
        return Verification("undetermined", words, seen.n, {}, properties)
    distances = _distances(folded, seen)
    if not distances:
        words = f"{_WORDS['undetermined']} The file of the fit holds no moments; fit again with `fullspan fit`."
        return Verification("undetermined", words, seen.n, {}, properties)
    agree = {name: each for name, each in distances.items() if each <= _AGREE}
    if not agree:
        return Verification("other", _WORDS["other"], seen.n, distances, properties)
    verdict = min(agree, key=lambda name: (agree[name], name != "transformed"))
    words = ""
    if len(agree) > 1:
        if "transformed" in agree and "twice" in agree and agree["transformed"] <= 2.0 * agree["twice"] + 1.0:
            verdict = "transformed"
        others = ", ".join(name for name in agree if name != verdict)
        words = f" The same moments would also be those of rows that are {others}."
    if verdict == "transformed" and stamped is None and properties.get("whitened"):
        words += " Results of another whitening, fitted to its own rows, have these moments too."
    return Verification(verdict, _WORDS[verdict] + words, seen.n, distances, properties)


def _distances(folded: Folded, seen: _Seen) -> dict[str, float]:
    mean, variance = seen.mean_and_variance()
    n_fit = max(2, int(folded.info.get("n_rows", 2)))
    found = {}
    for name, state in (("out", "transformed"), ("in", "raw"), ("twice", "twice")):
        if f"{name}_mean" in folded.stamp and len(folded.stamp[f"{name}_mean"]) == len(mean):
            expected = folded.stamp[f"{name}_mean"], folded.stamp[f"{name}_variance"]
            found[state] = _distance(mean, variance, *expected, 1.0 / seen.n + 1.0 / n_fit)
    return found


def _distance(mean: Array, variance: Array, mean_0: Array, variance_0: Array, chance: float) -> float:
    """The larger of the deviations of means and of variances; the tolerance is of the column and of all columns."""
    level = variance_0 + 0.05 * variance_0.mean() + 1e-12 * (mean_0**2).mean() + 1e-300
    means = ((mean - mean_0) ** 2 / (level * (chance + _TOLERANCE**2))).mean()
    variances = ((variance - variance_0) ** 2 / (level**2 * (4.0 * chance + (2.0 * _TOLERANCE) ** 2))).mean()
    return float(min(max(means, variances), 1e300))
