"""Which summaries a set of measures needs, and the passes that make them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fullspan._typing import Array, Block
from fullspan.errors import InputError, NothingEvaluatedError, UndefinedMeasureError
from fullspan.jobs.by_group import evidence_of_groups, factors_fit, with_factors
from fullspan.jobs.wide import RowSpace, is_wide, leave_outs, with_row_space
from fullspan.measures.evidence import FIRST_PASS, SECOND_PASS, Evidence, LogZ
from fullspan.summaries.base import Plan, Summaries
from fullspan.summaries.duplicates import Duplicates
from fullspan.summaries.extremes import Extremes
from fullspan.summaries.fold import fold
from fullspan.summaries.frequency import FrequencyProfile
from fullspan.summaries.groups import Grouped, Stripes
from fullspan.summaries.moments import Moments, WeightedMoments
from fullspan.summaries.partition import Partition
from fullspan.summaries.reservoir import Reservoir
from fullspan.summaries.rows import RowProfile
from fullspan.summaries.triangle import Triangle
from fullspan.summaries.unit_mean import UnitMean
from fullspan.summaries.units import UnitMoments

__all__ = [
    "Needs",
    "Settings",
    "evidence_of",
    "first_pass",
    "float32_resolves",
    "from_squares",
    "jackknife",
    "peeked",
    "second_pass",
]

_EPS = 2.0**-52
#: Memory that the group summaries of the jackknife may take.
_JACKKNIFE_BYTES = 512 << 20
#: Primes: where fields or classes take turns in the rows, no group may hold one of them alone.
_MOST_STRIPES = 19
_MOST_STRIPES_WIDE = 11  # above dim 256, where every group costs an eigenproblem
_FEWEST_STRIPES = 4
#: Below this share of the largest singular value, squares have lost too many digits: the triangle is read instead.
_SQUARES_RESOLVE = {"float64": 3e-3}
_SQUARES_RESOLVE_OTHERS = 1e-5
#: The same for products in float32, without and with measures that rest on the smallest singular values; and what these
#: products may have lost where the pilot mean lay off the mean.
_FLOAT32_RESOLVES = {False: 0.05, True: 0.3}
_MOST_ROUNDING = 4e-5
#: Rows up to which sums over float32 rows show how these were cut into blocks.
_PRECISE_UP_TO = 65_536
#: Multiply-adds up to which a second pass for the triangle is worth its time (some ten seconds).
_TRIANGLE_WORTH = 2e11


@dataclass(frozen=True)
class Settings:
    """What the caller of `measure` chose, beyond the measures themselves."""

    sample: int = 4096
    neighbors: bool = True
    standard_errors: bool = True
    by: str | None = None
    seed: int = 0
    block_rows: int | None = None
    progress: Callable[[str, int], None] | None = None
    products: str = "float64"


@dataclass(frozen=True)
class Needs:
    """The attributes of the evidence that measures read, and the kinds of summaries that serve them."""

    attributes: frozenset[str]
    kinds: frozenset[str]
    second: frozenset[str]
    hygiene: bool

    def row_space(self, table: Any) -> bool:
        """Whether the spectrum can come from the rows: not where the signs of the eigenvectors of EᵀE are asked for."""
        return "spectrum" in self.kinds and "signed_partition" not in self.attributes and is_wide(table)

    @classmethod
    def of(cls, needed: Iterable[str], hygiene: bool) -> Needs:
        attributes = set(needed) - {"n_rows", "dim", "dtype"}
        unknown = attributes - FIRST_PASS.keys() - SECOND_PASS.keys()
        if unknown:
            raise InputError(f"A catalog entry needs attributes of Evidence; got {sorted(unknown)}.")
        second = frozenset(attributes & SECOND_PASS.keys())
        if "signed_partition" in second:
            second = second - {"signed_partition"} | {"partition"}
        kinds = {FIRST_PASS[each] for each in attributes & FIRST_PASS.keys()} | {SECOND_PASS[each] for each in second}
        return cls(frozenset(attributes), frozenset(kinds), second, hygiene)


class _Peeked:
    """A stream whose first block has been looked at: it comes again first."""

    def __init__(self, table: Any, first: Block, rest: Iterator[Block]) -> None:
        self.name, self.dim, self.n_rows, self.dtype = table.name, first.dim, table.n_rows, table.dtype
        self.source, self.repeatable = getattr(table, "source", ""), False
        self._blocks = itertools.chain([first], rest)

    def blocks(self, block_rows: int | None = None) -> Iterator[Block]:
        return self._blocks


def peeked(table: Any) -> tuple[Any, Block]:
    """The table and its first block: what lies beside the rows is known once one has been read."""
    blocks = table.blocks(1) if table.repeatable else table.blocks()
    first = next(blocks, None)
    if first is None:
        raise NothingEvaluatedError(f"A table needs at least one row; got none in {table.name}. Is the file empty?")
    if table.repeatable:
        return table, first
    return _Peeked(table, first, blocks), first


def stripes_for(dim: int, n_rows: int | None, settings: Settings, wide: bool = False) -> int:
    """How many jackknife groups fit in memory; 0 for none."""
    if not settings.standard_errors:
        return 0
    most = _MOST_STRIPES if wide else _JACKKNIFE_BYTES // (28 * dim * dim)
    wanted = _MOST_STRIPES if dim <= 256 else _MOST_STRIPES_WIDE
    count = min(wanted, most, n_rows if n_rows is not None else wanted)
    return count if count >= _FEWEST_STRIPES else 0


def first_pass(table: Any, needs: Needs, settings: Settings) -> tuple[Summaries, int, int]:
    """The summaries of the first pass, the number of jackknife groups among them, and the number of rows read."""
    wide = needs.row_space(table)
    stripes = stripes_for(table.dim, table.n_rows, settings, wide)
    doubled: list[Any] = [Moments] if "spectrum" in needs.kinds and not wide else []
    if "unit_moments" in needs.kinds:
        doubled.append(UnitMoments)
    elif "units" in needs.kinds or wide:
        doubled.append(UnitMean)
    plan = Plan.of(())
    inner = Plan.of([_tuned(kind, table.dim, stripes, settings.products) for kind in doubled])
    if doubled and stripes:
        plan = plan.also(Stripes.with_options(plan=inner, by=stripes))
    else:
        plan = plan.also(inner)
        stripes = 0
    if "rows" in needs.kinds:
        plan = plan.also(RowProfile.with_options(details=needs.hygiene))
    if "weighted" in needs.kinds:
        plan = plan.also(WeightedMoments.with_options(products=settings.products))
    if "frequency" in needs.kinds:
        plan = plan.also(FrequencyProfile)
    if "sample" in needs.kinds or needs.hygiene or wide:
        size = max(settings.sample, table.n_rows) if wide else settings.sample
        plan = plan.also(Reservoir.with_options(size=size, seed=settings.seed))
    if "spectrum" in needs.kinds and not table.repeatable and table.dtype == "float64":
        plan = plan.also(Triangle)
    if needs.hygiene:
        plan = plan.also(Extremes.with_options(stored_dtype=table.dtype)).also(Duplicates)
    if settings.by is not None:
        plan = plan.also(_by_plan(doubled, needs, settings, table.n_rows if wide else None))
    if not plan.recipes:  # nothing that can be had was asked for: count the rows
        plan = plan.also(RowProfile.with_options(details=False))
    made, n_rows = _fold(table, plan, settings, "reading")
    return made, stripes, n_rows


def _tuned(kind: Any, dim: int, stripes: int, products: str) -> Any:
    """The kind of summary with chunks that fit in memory once for each jackknife group."""
    if kind is UnitMean:
        return kind
    few = {"rows_per_dim": 1} if dim > 256 and stripes else {}
    return kind.with_options(products=products, **few) if kind is Moments else kind.with_options(**few)


def float32_resolves(evidence: Evidence, smallest: bool) -> bool:
    """Whether products in float32 carry what was asked for; `smallest` says that it rests on the smallest values."""
    if not all(_accurate(one) for one in (evidence.moments, evidence.weighted)):
        return False
    if evidence.moments is None or evidence.n_rows < 2:
        return True
    try:
        values = evidence.moments.centered_singular_values[: min(evidence.n_rows - 1, evidence.dim)]
    except UndefinedMeasureError:
        return False
    return bool(values[-1] >= _FLOAT32_RESOLVES[smallest] * values[0])


def _accurate(moments: Any) -> bool:
    return moments is None or moments.rounding <= _MOST_ROUNDING


def _by_plan(doubled: list[Any], needs: Needs, settings: Settings, wide_rows: int | None) -> Any:
    """What is made of every group; of a wide table its rows too, from which the spectrum comes."""
    kinds: list[Any] = [*doubled, *([RowProfile] if "rows" in needs.kinds else [])]
    if wide_rows is not None:
        kinds.append(Reservoir.with_options(size=wide_rows, seed=settings.seed))
    return Grouped.with_options(plan=Plan.of(kinds), by=settings.by)


def _fold(table: Any, plan: Plan, settings: Settings, phase: str, clean: bool = False) -> tuple[Summaries, int]:
    """The summaries, and how many rows were read, the excluded ones among them."""
    count = 0

    def progress(done: int) -> None:
        nonlocal count
        count = done
        if settings.progress is not None:
            settings.progress(phase, done)

    return fold(table, plan, block_rows=settings.block_rows, clean=clean, progress=progress), count


def in_row_space(table: Any, made: Summaries, needs: Needs) -> bool:
    """Whether the spectrum comes from the rows that the reservoir holds."""
    return needs.row_space(table) and Reservoir in made and len(made[Reservoir].rows) > 0


def evidence_of(table: Any, made: Summaries, needs: Needs, settings: Settings) -> Evidence:
    """What the first pass gives to the measures."""
    total = made[Stripes].total if Stripes in made else made
    moments = total.get(Moments)
    sample = made[Reservoir].rows if Reservoir in made else None
    units = total.get(UnitMoments) or total.get(UnitMean)
    counted = moments or units or next(iter(total.values()))
    evidence = Evidence(
        n_rows=counted.n_rows,
        dim=table.dim,
        dtype=table.dtype,
        moments=moments,
        spectrum=made.get(Triangle, moments),
        weighted=made.get(WeightedMoments),
        unit_rows=units,
        row_profile=made.get(RowProfile),
        frequency_profile=made.get(FrequencyProfile),
        sample_rows=sample,
    )
    return (
        with_row_space(evidence, made[Reservoir].rows, needs.second) if in_row_space(table, made, needs) else evidence
    )


def needs_triangle(evidence: Evidence, needs: Needs) -> bool:
    """Whether the smallest singular values are too small for a spectrum from squares."""
    if evidence.moments is None or evidence.spectrum is not evidence.moments or evidence.n_rows < 2:
        return False
    smallest = _SQUARES_RESOLVE.get(evidence.dtype, _SQUARES_RESOLVE_OTHERS)
    try:
        spectra = _spectra(evidence, needs)
    except UndefinedMeasureError:  # the squares leave the range of float64
        return True
    return any(values[0] > 0.0 and values[-1] < smallest * values[0] for values in spectra)


def _spectra(evidence: Evidence, needs: Needs) -> list[Array]:
    spectra = []
    if needs.hygiene or "singular_values" in needs.attributes:
        spectra.append(evidence.singular_values)
    if needs.hygiene or needs.attributes & {"eigenvalues", "centered_singular_values"}:
        spectra.append(evidence.centered_singular_values[: min(evidence.n_rows - 1, evidence.dim)])
    return spectra


def second_pass(
    table: Any,
    first: Summaries,
    evidence: Evidence,
    needs: Needs,
    stripes: int,
    settings: Settings,
    excluded: int = 0,
) -> tuple[Evidence, dict[Hashable, Evidence], Any, Array | None, int]:
    """Read the rows again for what needs eigenvectors, or a spectrum without squares.

    Returns the evidence, that of each group, the partition sums as :class:`Grouped` and their shifts for the jackknife
    (None without), and the passes made (0 or 1).
    """
    worth = "spectrum" in needs.kinds and table.repeatable and evidence.n_rows * evidence.dim**2 <= _TRIANGLE_WORTH
    triangle = worth and needs_triangle(evidence, needs)
    groups = evidence_of_groups(first, evidence, needs.second)
    factors = worth and factors_fit(groups, evidence.dim) and any(needs_triangle(one, needs) for one in groups.values())
    directions, offsets = _directions(evidence, needs) if table.repeatable else (None, None)
    plan = Plan.of(())
    if triangle:
        plan = plan.also(Triangle)
    if factors:
        plan = plan.also(Grouped.with_options(plan=Plan.of(Triangle), by=settings.by))
    if directions is not None:
        precise = evidence.n_rows <= _PRECISE_UP_TO
        inner = Plan.of(
            Partition.with_options(directions=directions, peak=evidence.moments.peak, precise=precise),
        )
        plan = plan.also(Stripes.with_options(plan=inner, by=max(stripes, 1)))
    if not plan.recipes:
        return evidence, groups, None, None, 0
    made, _ = _fold(table, plan, settings, "second pass", clean=excluded == 0)
    if triangle:
        evidence = evidence.but(spectrum=made[Triangle])
    if factors:
        groups = with_factors(groups, made[Grouped])
    grouped = made[Stripes] if directions is not None else None
    if grouped is not None:
        evidence = with_log_z(evidence, grouped.total[Partition], offsets, needs)
    return evidence, groups, grouped, offsets, 1


def _directions(evidence: Evidence, needs: Needs) -> tuple[Array | None, Array | None]:
    """Eigenvectors as columns, of the table and of the centered table, and the shift of each projection."""
    if not needs.second or evidence.moments is None or not np.isfinite(evidence.moments.gram).all():
        return None, None
    columns, shifts = [], []
    if "partition" in needs.second:
        columns.append(np.linalg.eigh(evidence.moments.gram)[1])
        shifts.append(np.zeros(evidence.dim))
    if "centered_partition" in needs.second:
        columns.append(np.linalg.eigh(evidence.moments.scatter)[1])
        shifts.append(evidence.moments.mean @ columns[-1])
    return np.hstack(columns), np.concatenate(shifts)


def with_log_z(evidence: Evidence, sums: Any, offsets: Any, needs: Needs) -> Evidence:
    """Hand the partition sums to the measures: the part of the table, and that of the centered table."""
    parts, start = {}, 0
    for name in ("partition", "centered_partition"):
        if name in needs.second:
            some = slice(start, start + evidence.dim)
            # exp(c·(e - mean)) is exp(c·e) times a constant of the direction
            parts[name] = LogZ(sums.log_z_positive[some] - offsets[some], sums.log_z_negative[some] + offsets[some])
            start += evidence.dim
    return evidence.but(log_z=parts.get("partition"), centered_log_z=parts.get("centered_partition"))


def jackknife(evidence: Evidence, made: Summaries, grouped: Any, offsets: Array | None, needs: Needs) -> list[Evidence]:
    """The evidence of the table without each group in turn."""
    if Stripes not in made:
        return []
    wide = evidence.spectrum is not None and isinstance(evidence.spectrum, RowSpace)
    spaces = leave_outs(evidence, made[Reservoir], made[Stripes].by, needs.second) if wide else {}
    sums = {} if grouped is None else {key: part[Partition] for key, part in grouped.without()}
    left = []
    for key, part in made[Stripes].without():
        moments = part.get(Moments)
        units = part.get(UnitMoments) or part.get(UnitMean)
        rest = evidence.but(
            n_rows=(moments or units).n_rows,
            moments=moments,
            spectrum=None if moments is None else _QuickSpectrum(moments),
            unit_rows=units,
            row_profile=None,
            weighted=None,
            frequency_profile=None,
            sample_rows=None,
            log_z=None,
            centered_log_z=None,
        )
        if wide:
            if key not in spaces:
                return []
            space = spaces[key]
            rest = rest.but(spectrum=space.spectrum, log_z=space.log_z, centered_log_z=space.centered_log_z)
        left.append(with_log_z(rest, sums[key], offsets, needs) if key in sums else rest)
    return left


def from_squares(evidence: Evidence) -> Evidence:
    """The whole table as a leave-out sees it."""
    return evidence.but(spectrum=_QuickSpectrum(evidence.moments))


class _QuickSpectrum:
    """The spectrum of one leave-out from squares alone: an error estimate needs no more digits than that gives."""

    def __init__(self, moments: Moments) -> None:
        self.mean, self.n_rows = moments.mean, moments.n_rows
        self._moments = moments
        self._ranks = min(moments.n_rows, moments.dim)

    @property
    def centered_singular_values(self) -> Array:
        return _resolved(self._moments.centered_singular_values)

    @property
    def eigenvalues(self) -> Array:
        values = self._moments.eigenvalues
        return np.where(values > len(values) * _EPS * values[0], values, 0.0)

    @cached_property
    def singular_values(self) -> Array:
        self._moments.check_scale()
        return _resolved(np.sqrt(np.maximum(np.linalg.eigvalsh(self._moments.gram)[::-1], 0.0))[: self._ranks])


def _resolved(values: Array) -> Array:
    """Singular values from squares, with zeros for those that rounding made."""
    return np.where(values > np.sqrt(len(values) * _EPS) * values[0], values, 0.0)
