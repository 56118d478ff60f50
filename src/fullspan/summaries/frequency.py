"""How the length of a row goes with its frequency."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from fullspan._typing import Array, Block
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.summaries.base import Summary, frozen
from fullspan.summaries.hashing import mixed

__all__ = ["FrequencyProfile"]

_PAIRS = 1 << 20
#: What the published code adds to a probability before it takes the logarithm.
_LOG_FLOOR = 1e-10
#: A norm, a frequency, and the hash of the row's position by which a sample is taken.
_PAIR = np.dtype([("norm", np.float64), ("frequency", np.float64), ("hash", np.uint64)])


@dataclass(frozen=True, eq=False)
class FrequencyProfile(Summary):
    """Norms of rows beside their frequencies.

    Parameters
    ----------
    dim, n_rows
        Row length and number of rows.
    n_zero_frequency
        Number of rows of frequency zero.
    mean
        ``(2,)`` mean norm and mean frequency.
    scatter
        ``(2, 2)`` sums of products of the centered norms and frequencies.
    pairs
        Structured array ``norm, frequency, hash``: all rows up to `size`, else a uniform sample of so many.
    size
        The option of the recipe: how many pairs are kept (1,048,576: 24 MiB).

    Notes
    -----
    The Pearson correlation with the frequency is exact for any number of rows; the other readings come from the pairs,
    and are exact while all rows are kept (`exact`).
    """

    dim: int
    n_rows: int
    n_zero_frequency: int
    mean: Array = field(repr=False)
    scatter: Array = field(repr=False)
    pairs: Array = field(repr=False)
    size: int = _PAIRS

    @classmethod
    def accumulator(cls, dim: int, *, size: int = _PAIRS) -> _Builder:  # type: ignore[override]  # a recipe has options of its own
        return _Builder(dim, size)

    def merge(self, other: Self) -> Self:
        self._check_mergeable(other)
        if self.size != other.size:
            raise InputError(f"merge needs one number of pairs; got {self.size} and {other.size}.")
        builder = _Builder(self.dim, self.size)
        for each in (self, other):
            builder.n_zero += each.n_zero_frequency
            builder.gather(each.n_rows, each.mean, each.scatter, each.pairs)
        return builder.summary()  # type: ignore[return-value]  # a builder makes its own kind

    @property
    def exact(self) -> bool:
        """Whether all rows are kept as pairs."""
        return len(self.pairs) == self.n_rows

    @property
    def total_frequency(self) -> float:
        """Sum of the frequencies."""
        return float(self.mean[1]) * self.n_rows

    def correlation(self, kind: str = "pearson") -> float:
        """Correlation of norm and frequency, in [-1, 1].

        Parameters
        ----------
        kind
            ``"pearson"``: with the frequency itself; ``"log"``: with ``ln(p + 1e-10)``, p the share of the row in all
            frequencies; ``"spearman"``: of the ranks, equal values sharing their mean rank.
        """
        if kind == "pearson":
            spreads = np.sqrt(self.scatter.diagonal())
            self._check_spread(*(spreads > 1e-14 * np.sqrt(self.n_rows) * np.abs(self.mean)))
            return float(np.clip(self.scatter[0, 1] / spreads[0] / spreads[1], -1.0, 1.0))
        if kind == "log":
            shares = self.pairs["frequency"] / self.total_frequency if self.total_frequency > 0 else 0.0
            return self._of_pairs(self.pairs["norm"], np.log(shares + _LOG_FLOOR))
        if kind == "spearman":
            return self._of_pairs(_ranks(self.pairs["norm"]), _ranks(self.pairs["frequency"]))
        raise InputError(f'correlation needs kind="pearson", "log" or "spearman"; got {kind!r}.')

    def deciles(self) -> list[dict[str, Any]]:
        """Tenths of the rows from the rarest to the most frequent: ``low``, ``high``, ``mean_norm`` and ``count``."""
        order = self._by_frequency
        parts = np.array_split(order, min(10, max(len(order), 1)))
        share = self.n_rows / max(len(order), 1)
        return [
            {
                "low": float(self.pairs["frequency"][part[0]]),
                "high": float(self.pairs["frequency"][part[-1]]),
                "mean_norm": float(self.pairs["norm"][part].mean()),
                "count": round(len(part) * share),
            }
            for part in parts
            if len(part)
        ]

    @cached_property
    def _by_frequency(self) -> Array:
        return np.lexsort((self.pairs["hash"], self.pairs["frequency"]))

    def _of_pairs(self, norms: Array, others: Array) -> float:
        varied = [len(values) > 1 and values.min() < values.max() for values in (norms, np.atleast_1d(others))]
        self._check_spread(*varied)
        x, y = norms - norms.mean(), others - others.mean()
        x, y = x / np.abs(x).max(), y / np.abs(y).max()
        return float(np.clip((x @ y) / np.sqrt((x @ x) * (y @ y)), -1.0, 1.0))

    def _check_spread(self, norms: bool, frequencies: bool) -> None:
        for varied, name in ((norms, "norms"), (frequencies, "frequencies")):
            if not varied:
                raise UndefinedMeasureError(
                    f"A correlation of length and frequency needs {name} that differ; got {self.n_rows} equal ones."
                )


def _ranks(values: Array) -> Array:
    """Ranks from 0; equal values share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts + 1) / 2.0)[inverse.reshape(-1)]


class _Builder:
    def __init__(self, dim: int, size: int) -> None:
        if size < 2:
            raise InputError(f"A frequency profile needs a size of at least 2; got {size}.")
        self.dim, self.size = dim, size
        self.n_rows, self.n_zero = 0, 0
        self.mean, self.scatter = np.zeros(2), np.zeros((2, 2))
        self.parts: list[Array] = []
        self.n_kept = 0
        self.ceiling: Any = None

    def add(self, block: Block) -> None:
        if not len(block):
            return
        frequencies = _frequencies(block)
        self.n_zero += int(np.count_nonzero(frequencies == 0.0))
        pairs = np.empty(len(block), dtype=_PAIR)
        pairs["norm"], pairs["frequency"], pairs["hash"] = block.exact_norms, frequencies, mixed(block.index)
        both = np.stack([pairs["norm"], pairs["frequency"]])
        mean = both.mean(axis=1)
        both -= mean[:, None]
        with np.errstate(over="ignore", invalid="ignore"):  # the correlation of what overflows is refused
            self.gather(len(block), mean, both @ both.T, pairs)

    def gather(self, n_rows: int, mean: Array, scatter: Array, pairs: Array) -> None:
        """Add rows by their moments and their pairs."""
        if not n_rows:
            return
        total, gap = self.n_rows + n_rows, mean - self.mean
        self.scatter = self.scatter + scatter + np.multiply.outer(gap, gap) * (self.n_rows * n_rows / total)
        self.mean = self.mean + gap * (n_rows / total)
        self.n_rows = total
        if self.ceiling is not None:
            pairs = pairs[pairs["hash"] < self.ceiling]
        self.parts.append(pairs)
        self.n_kept += len(pairs)
        if self.n_kept > self.size + self.size // 2:
            self._settle()

    def _settle(self) -> None:
        """Keep the pairs of the smallest hashes."""
        pairs = np.concatenate(self.parts)
        if len(pairs) > self.size:
            order = np.argpartition(pairs["hash"], self.size)
            self.ceiling = pairs["hash"][order[self.size]]
            pairs = pairs[order[: self.size]]
        self.parts, self.n_kept = [pairs], len(pairs)

    def summary(self) -> FrequencyProfile:
        if self.parts:
            self._settle()
        pairs = self.parts[0] if self.parts else np.empty(0, dtype=_PAIR)
        mean, scatter = frozen(self.mean.copy()), frozen(self.scatter.copy())
        return FrequencyProfile(self.dim, self.n_rows, self.n_zero, mean, scatter, frozen(pairs), self.size)


def _frequencies(block: Block) -> Array:
    if block.frequencies is None:
        raise InputError("A frequency profile needs a frequency for every row; got none. Name them with frequencies=.")
    frequencies = np.asarray(block.frequencies, dtype=np.float64)
    bad = ~(frequencies >= 0.0) | np.isinf(frequencies)
    if bad.any():
        row = int(block.index[np.argmax(bad)])
        raise InputError(f"Frequencies need to be finite and not negative; got {frequencies[bad][0]} at row {row}.")
    return frequencies
