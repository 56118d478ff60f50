"""Catalog entries of the measures of single rows, and of their lengths."""

from __future__ import annotations

import math

import numpy as np

from fullspan.errors import UndefinedMeasureError
from fullspan.measures import norms, sparsity
from fullspan.measures.entry import COLUMNS, ROTATION, ROWS, SCALE, Measure
from fullspan.measures.null import closed_null, row_null

_PER_ROW = frozenset({SCALE, ROWS, COLUMNS})
_LENGTHS = frozenset({ROTATION, ROWS, COLUMNS})
_ARTICLE = 'Article "What\'s Happening to Embeddings During Training?"'
_COUPLED = "Stollenwerk and Stollenwerk 2025, Better Embeddings with Coupled Adam"
_BASIS = "Depends on the basis: a rotation of the table, which changes no inner product, changes it."
_ZEROS = 'Zero rows have no value and are left out; the article\'s code gives them one (mode="article").'


def _norm_variation(evidence):
    spread = evidence.rows.norm
    if not spread.mean > 0:
        raise UndefinedMeasureError(f"norm_variation needs at least one non-zero row; got {spread.count} zero rows.")
    return spread.deviation / spread.mean


def _norm_variation_error(evidence):
    """By the delta method, ``v²·((κ - 1)/4 - γ·v + v²)/n``: skewness γ and kurtosis κ of the lengths from quantiles."""
    spread = evidence.rows.norm
    if spread.count < 4 or not spread.mean > 0:
        raise UndefinedMeasureError(f"A standard error needs four rows that are not zero; got {spread.count}.")
    count = min(spread.count, 4096)
    lengths = spread.quantile((np.arange(count) + 0.5) / count) / spread.mean
    rest = lengths - lengths.mean()
    size = float(np.sqrt((rest**2).mean()))
    if not size > 0:
        return 0.0
    skewness, kurtosis = (float(((rest / size) ** power).mean()) for power in (3, 4))
    variation = _norm_variation(evidence)
    return variation * math.sqrt(max((kurtosis - 1) / 4 - skewness * variation + variation**2, 0.0) / spread.count)


def _mean_norm_ratio(evidence):
    if not evidence.mean_norm > 0:
        raise UndefinedMeasureError(
            f"mean_norm_ratio needs at least one non-zero row; got {evidence.n_rows} zero rows. "
            "Is the table still at its zero initialization?"
        )
    return min(1.0, _length(evidence.mean) / evidence.mean_norm)


def _length(vector) -> float:
    return math.hypot(*(float(each) for each in vector))


def _correlation(kind: str):
    return lambda evidence: 100 * evidence.frequency.correlation(kind)


def _correlation_error(kind: str):
    def error(evidence) -> float:
        if evidence.n_rows < 4:
            raise UndefinedMeasureError(f"A standard error of a correlation needs four rows; got {evidence.n_rows}.")
        return 100 * (1 - evidence.frequency.correlation(kind) ** 2) / math.sqrt(evidence.n_rows - 3)

    return error


def _frequency(name: str, title: str, formula: str, kind: str, usage: str, traps: tuple[str, ...]) -> Measure:
    return Measure(
        name=name,
        title=title,
        symbol="ρ",
        formula=formula,
        family="frequency",
        function=norms.length_frequency_correlation,
        usage=usage,
        read=_correlation(kind),
        needs=("frequency",),
        direction="neither",
        range="[-100, 100]: 0 when length and frequency are unrelated, 100 when length grows with frequency",
        bounds=lambda n, d: (-100.0, 100.0),
        unit="%",
        invariances=frozenset({SCALE, ROTATION, ROWS, COLUMNS}),
        centered=False,
        null=closed_null("length_frequency_correlation"),
        source=f"{_COUPLED}, equation 27",
        traps=traps,
        default=True,
        ratio_rule="difference",
        standard_error=_correlation_error(kind),
    )


ENTRIES = (
    Measure(
        name="gini_index",
        title="Inequality of the absolute entries of a row, averaged over the rows",
        symbol="G",
        formula="Σ_i (2i - d - 1)·|x|_(i) / (d·Σ_i |x|_i)",
        family="sparsity",
        function=sparsity.gini_index,
        usage="gini_index(E).mean()",
        read=lambda evidence: evidence.rows.gini_index.mean,
        needs=("rows",),
        direction="neither",
        range="[0, 1 - 1/d]: 0 when all entries of a row have one magnitude, 1 - 1/d for a one-hot row",
        bounds=lambda n, d: (0.0, 1 - 1 / d),
        invariances=_PER_ROW,
        centered=False,
        null=row_null("gini_index"),
        source=f"Hurley and Rickard 2009, table I; {_ARTICLE}, function gini",
        traps=(_BASIS, "The article's code adds 1e-12 to |x|, which makes rows of size 1e-10 look even.", _ZEROS),
        default=True,
        ratio_rule="difference",
    ),
    Measure(
        name="vector_entropy",
        title="Entropy of the shares that the entries take of a row, averaged over the rows",
        symbol="H",
        formula="-Σ_i p_i ln p_i, p_i = |x_i| / Σ_j |x_j|",
        family="sparsity",
        function=sparsity.vector_entropy,
        usage="vector_entropy(E).mean()",
        read=lambda evidence: evidence.rows.vector_entropy.mean,
        needs=("rows",),
        direction="neither",
        range="[0, ln d]: 0 for one-hot rows, ln d when all entries of a row have one magnitude",
        bounds=lambda n, d: (0.0, math.log(d)),
        unit="nats",
        invariances=_PER_ROW,
        centered=False,
        null=row_null("vector_entropy"),
        source=f"{_ARTICLE}, function vector_entropy",
        equivalent="scipy.stats.entropy(abs(E), axis=1).mean()",
        traps=(_BASIS, "Grows with dim: divide by ln(dim) to compare tables.", _ZEROS),
        default=True,
        ratio_rule="difference",
    ),
    Measure(
        name="hoyer_sparsity",
        title="How few dimensions carry a row, averaged over the rows",
        symbol="S",
        formula="(√d - ‖x‖₁/‖x‖₂) / (√d - 1)",
        family="sparsity",
        function=sparsity.hoyer_sparsity,
        usage="hoyer_sparsity(E).mean()",
        read=lambda evidence: evidence.rows.hoyer_sparsity.mean,
        needs=("rows",),
        direction="neither",
        range="[0, 1]: 0 when all entries of a row have one magnitude, 1 for one-hot rows",
        bounds=lambda n, d: (0.0, 1.0),
        invariances=_PER_ROW,
        centered=False,
        null=row_null("hoyer_sparsity"),
        source=f"Hoyer 2004, section 3.1; {_ARTICLE}, function hoyer_sparsity",
        traps=(_BASIS, "Undefined at one dimension (0/0).", _ZEROS),
        default=True,
        ratio_rule="difference",
    ),
    Measure(
        name="mean_norm",
        title="Average length of the rows",
        symbol="mean ‖e‖",
        formula="(1/n) Σ_i ‖e_i‖",
        family="norms",
        function=norms.mean_norm,
        usage="mean_norm(E)",
        read=lambda evidence: evidence.mean_norm,
        needs=("mean_norm",),
        direction="neither",
        range="[0, ∞): 0 for a table of zeros",
        bounds=lambda n, d: (0.0, math.inf),
        unit="as E",
        invariances=_LENGTHS,
        centered=False,
        source=f"{_COUPLED}, section 4.3",
        equivalent="numpy.linalg.norm(E, axis=1).mean()",
        traps=("Isotropy depends on it: quote both.",),
        default=True,
    ),
    Measure(
        name="norm_variation",
        title="Spread of the row lengths relative to their average",
        symbol="CV ‖e‖",
        formula="std(‖e_i‖) / mean(‖e_i‖), ddof 1",
        family="norms",
        function=norms.norm_variation,
        usage="norm_variation(E)",
        read=_norm_variation,
        needs=("rows",),
        direction="neither",
        range="[0, √n]: 0 when all rows have one length",
        bounds=lambda n, d: (0.0, math.sqrt(n)),
        invariances=frozenset({SCALE, ROTATION, ROWS, COLUMNS}),
        centered=False,
        null=closed_null("norm_variation"),
        source="Coefficient of variation",
        traps=(
            "In language models length follows frequency: read it beside length_frequency_correlation.",
            "Its error needs the quantiles that hygiene takes: there is no standard error without.",
        ),
        default=True,
        ratio_rule="ratio",
        standard_error=_norm_variation_error,
        error_method="delta method, from the quantiles of the lengths",
    ),
    Measure(
        name="mean_vector_norm",
        title="Length of the mean row",
        symbol="‖μ‖",
        formula="‖(1/n) Σ_i e_i‖",
        family="norms",
        function=norms.mean_vector_norm,
        usage="mean_vector_norm(E)",
        read=lambda evidence: _length(evidence.mean),
        needs=("mean",),
        direction="lower",
        range="[0, mean norm]: 0 for a centered table",
        bounds=lambda n, d: (0.0, math.inf),
        unit="as E",
        invariances=_LENGTHS,
        centered=False,
        null=closed_null("mean_vector_norm"),
        scale_dependent_null=True,
        source=f"{_COUPLED}, equation 9 and section 4.3",
        equivalent="numpy.linalg.norm(E.mean(axis=0))",
        traps=("Grows with the scale of the table: mean_norm_ratio does not.",),
        default=True,
        ratio_rule="ratio",
    ),
    Measure(
        name="mean_norm_ratio",
        title="Length of the mean row relative to the average length of the rows",
        symbol="‖μ‖ʳ",
        formula="‖μ‖ / ((1/n) Σ_i ‖e_i‖)",
        family="norms",
        function=norms.mean_norm_ratio,
        usage="mean_norm_ratio(E)",
        read=_mean_norm_ratio,
        needs=("mean", "mean_norm"),
        direction="lower",
        range="[0, 1]: 0 for a centered table, 1 when all rows point one way",
        bounds=lambda n, d: (0.0, 1.0),
        invariances=frozenset({SCALE, ROTATION, ROWS, COLUMNS}),
        centered=False,
        null=closed_null("mean_norm_ratio"),
        source=f"{_COUPLED}, equation 26",
        traps=("About 1/√n by chance: a table of 25 rows reads 0.2.",),
        default=True,
        ratio_rule="difference",
    ),
    _frequency(
        "length_frequency_correlation",
        "Whether frequent rows are longer",
        "100·corr(‖e_i‖, p_i)",
        "pearson",
        "length_frequency_correlation(norms, frequencies)",
        (
            "Frequencies are heavy-tailed: a few rows decide Pearson's number; the rank correlation is steadier.",
            "The paper's code correlates with log(p + 1e-10) instead: length_log_frequency_correlation.",
        ),
    ),
    _frequency(
        "length_log_frequency_correlation",
        "Whether rows that are frequent on a logarithmic scale are longer",
        "100·corr(‖e_i‖, ln(p_i + 1e-10))",
        "log",
        'length_frequency_correlation(norms, frequencies, kind="log")',
        (
            "Rows that never occur all sit at ln(1e-10): they weigh heavily. The paper's code includes padding rows.",
            "The paper prints the correlation with p itself: length_frequency_correlation. They can differ in sign.",
        ),
    ),
    _frequency(
        "length_frequency_rank_correlation",
        "Whether frequent rows are longer, by ranks",
        "100·corr(rank ‖e_i‖, rank p_i)",
        "spearman",
        'length_frequency_correlation(norms, frequencies, kind="spearman")',
        ("Ties (rows that never occur) share their mean rank.",),
    ),
)
