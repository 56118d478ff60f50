"""Catalog entries of the measures of a spectrum, information abundance among them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fullspan.errors import UndefinedMeasureError
from fullspan.measures import _check, abundance, conditioning, decay, spectrum, variance_shares
from fullspan.measures.entry import COLUMNS, ROTATION, ROWS, SCALE, TRANSLATION, Measure, smallest_below_resolution
from fullspan.measures.null import spectrum_null

_UNCENTERED = frozenset({SCALE, ROTATION, ROWS, COLUMNS})
_CENTERED = _UNCENTERED | {TRANSLATION}
_SHIFT = (
    "Uncentered: a mean shift is one large singular value and reads as collapse. Read the centered variant beside it."
)
_FEW = "Few rows lower it: with n rows it cannot exceed min(n, dim). Compare with the null."
_GUO = "Guo et al. 2024, On the embedding collapse when scaling up recommendation models, definition 1"


def _ranks(n: int, d: int) -> float:
    return float(max(1, min(n, d)))


def _axes(n: int, d: int) -> float:
    return float(max(1, min(n - 1, d)))


def _measure(
    name: str,
    function: Callable[..., Any],
    attribute: str,
    *,
    read: Callable[[Any], float] | None = None,
    null: Any = "same",
    bounds: Callable[[int, int], tuple[float, float]] | None = None,
    ratio_rule: str | None = "ratio",
    default: bool = False,
    **words: Any,
) -> Measure:
    """An entry that reads one spectrum; `bounds` None means from 1 to as many directions as there can be."""
    kind = {
        "singular_values": "singular",
        "centered_singular_values": "centered_singular",
        "eigenvalues": "eigenvalues",
    }
    most = _axes if attribute in ("eigenvalues", "centered_singular_values") else _ranks
    return Measure(
        name=name,
        function=function,
        family="spectrum",
        usage=words.pop("usage", f"{function.__name__}({attribute})"),
        read=read or (lambda evidence: float(function(getattr(evidence, attribute)))),
        needs=words.pop("needs", (attribute,)),
        direction=words.pop("direction", "higher"),
        bounds=bounds or (lambda n, d: (1.0, most(n, d))),
        invariances=words.pop("invariances", _CENTERED if most is _axes else _UNCENTERED),
        centered=most is _axes,
        null=spectrum_null(kind[attribute], function) if isinstance(null, str) else null,
        ratio_rule=ratio_rule,
        default=default,
        **words,
    )


def _log_determinant(evidence: Any) -> float:
    if evidence.n_rows <= evidence.dim:
        raise UndefinedMeasureError(
            f"log_determinant needs more rows than dimensions; got {evidence.n_rows} rows of dim {evidence.dim}. "
            "The covariance lacks directions, so its determinant is 0."
        )
    return conditioning.log_determinant(evidence.eigenvalues)


def _numerical_rank(evidence: Any) -> float:
    tolerance = _check.resolution(evidence.dtype, evidence.n_rows, evidence.dim)
    return float(conditioning.numerical_rank(evidence.singular_values, tolerance=tolerance))


def _explained(share: float, name: str, default: bool) -> Measure:
    def count(eigenvalues: Any) -> float:
        return float(variance_shares.explained_variance_dims(eigenvalues, share))

    return _measure(
        name,
        variance_shares.explained_variance_dims,
        "eigenvalues",
        read=lambda evidence: count(evidence.eigenvalues),
        null=spectrum_null("eigenvalues", count),
        title=f"Number of principal axes that hold {share:.0%} of the variance",
        symbol=f"k_{share:.0%}",
        formula=f"least k with Σ_(j≤k) λ_j ≥ {share}·Σ_j λ_j",
        usage=f"explained_variance_dims(eigenvalues, {share})",
        range="[1, min(n - 1, dim)] directions: 1 when one axis holds that share",
        unit="directions",
        source="Jolliffe 2002, Principal Component Analysis, section 6.1.1",
        equivalent=f"sklearn.decomposition.PCA(n_components={share}).fit(E).n_components_",
        traps=("A whole number: it jumps. Not comparable across dims without dividing.",),
        default=default,
    )


ENTRIES = (
    _measure(
        "spectral_entropy",
        spectrum.spectral_entropy,
        "eigenvalues",
        title="Entropy of the variance along the principal axes",
        symbol="H_λ",
        formula="-Σ_j p_j ln p_j, p_j = λ_j / Σ_k λ_k",
        range="[0, ln min(n - 1, dim)]: 0 when all variance lies on one axis, ln dim when it is equal on all",
        bounds=lambda n, d: (0.0, math.log(_axes(n, d))),
        unit="nats",
        source='Article "What\'s Happening to Embeddings During Training?", function spectral_entropy',
        equivalent="scipy.stats.entropy(numpy.linalg.eigvalsh(numpy.cov(E, rowvar=False)))",
        traps=(
            "Called frequency-domain in the article; no frequency is involved.",
            'The article\'s code clips eigenvalues at 1e-12, so a table of tiny numbers reads ln dim (mode="article").',
        ),
        default=True,
        ratio_rule="difference",
    ),
    _measure(
        "information_abundance",
        abundance.information_abundance,
        "singular_values",
        title="Sum of the singular values relative to the largest: how many directions the table uses",
        symbol="IA",
        formula="‖σ‖₁ / ‖σ‖_∞",
        range="[1, min(n, dim)] directions: 1 for rank one, min(n, dim) for equal singular values",
        unit="directions",
        source=_GUO,
        equivalent="numpy.linalg.norm(E, 'nuc') / numpy.linalg.norm(E, 2)",
        traps=(_SHIFT, _FEW, "Grows with dim: a table of dim 8 cannot reach one of dim 128."),
        default=True,
    ),
    _measure(
        "centered_information_abundance",
        abundance.information_abundance,
        "centered_singular_values",
        title="Information abundance of the table minus its mean row",
        symbol="IA_c",
        formula="‖σ‖₁ / ‖σ‖_∞ of E - μ",
        range="[1, min(n - 1, dim)] directions: 1 when all rows lie on a line",
        unit="directions",
        source=f"{_GUO}, applied to the centered table",
        traps=("Not the paper's number: that is uncentered.", _FEW),
        default=True,
    ),
    _measure(
        "weighted_information_abundance",
        abundance.information_abundance,
        "singular_values",
        read=lambda evidence: abundance.information_abundance(evidence.weighted_singular_values),
        needs=("weighted_singular_values",),
        usage="information_abundance(weighted_singular_values)",
        null=None,
        title="Information abundance of the table as its users see it: each row weighted by how often it is looked up",
        symbol="IA_p",
        formula="‖σ‖₁ / ‖σ‖_∞ of diag(√p)·E",
        range="[1, min(n, dim)] directions: 1 when all rows that are ever looked up lie on a line through the origin",
        unit="directions",
        source=f"{_GUO}; rows weighted by frequency",
        traps=(
            "A few very frequent rows can make up all of it: leaving groups out gives no standard error.",
            _SHIFT,
        ),
        default=True,
        ratio_rule=None,
    ),
    _measure(
        "relative_information_abundance",
        abundance.relative_information_abundance,
        "singular_values",
        read=lambda evidence: abundance.relative_information_abundance(evidence.singular_values, evidence.dim),
        null=spectrum_null(
            "singular", lambda values, n, d: abundance.relative_information_abundance(values, d), shape=True
        ),
        usage="relative_information_abundance(singular_values, dim)",
        title="Information abundance as a share of the dimensions",
        symbol="IA/d",
        formula="‖σ‖₁ / (‖σ‖_∞·dim)",
        range="[1/dim, 1]: 1 for equal singular values in all dimensions",
        bounds=lambda n, d: (1 / d, min(1.0, n / d)),
        source=f"{_GUO}, divided by dim",
        traps=(_SHIFT, "Tables of different height are still not comparable: null_information_abundance."),
        default=True,
    ),
    _measure(
        "null_information_abundance",
        abundance.null_information_abundance,
        "singular_values",
        read=lambda evidence: abundance.null_information_abundance(
            evidence.singular_values, evidence.n_rows, evidence.dim
        ),
        null=spectrum_null("singular", abundance.null_information_abundance, shape=True),
        usage="null_information_abundance(singular_values, n_rows, dim)",
        title="Information abundance relative to that of an isotropic Gaussian table of the same shape",
        symbol="IA/IA₀",
        formula="IA(E) / E[IA(G)], G Gaussian of the same shape",
        range="(0, ∞): about 1 for a table without structure, towards 0 for a collapsed one",
        bounds=lambda n, d: (0.0, math.inf),
        source=f"{_GUO}; null after Marchenko and Pastur 1967",
        traps=(_SHIFT, "Above 1 for orthogonal columns: Gaussian is not the most even table."),
        default=True,
    ),
    _measure(
        "effective_rank",
        spectrum.effective_rank,
        "singular_values",
        title="Directions the table uses: exponential of the entropy of its singular values",
        symbol="erank",
        formula="exp(-Σ_j p_j ln p_j), p_j = σ_j / Σ_k σ_k",
        range="[1, min(n, dim)] directions: 1 for rank one, min(n, dim) for equal singular values",
        unit="directions",
        source="Roy and Vetterli 2007, The effective rank, definition 1",
        traps=(
            _SHIFT,
            "Three numbers go by this name: this one, eigenvalue_effective_rank, and the participation ratio.",
        ),
        default=True,
    ),
    _measure(
        "centered_effective_rank",
        spectrum.effective_rank,
        "centered_singular_values",
        title="Effective rank of the table minus its mean row",
        symbol="erank_c",
        formula="exp(-Σ_j p_j ln p_j), p_j = σ_j / Σ_k σ_k of E - μ",
        range="[1, min(n - 1, dim)] directions: 1 when all rows lie on a line",
        unit="directions",
        source="Roy and Vetterli 2007, definition 1, applied to the centered table",
        traps=(_FEW,),
        default=True,
    ),
    _measure(
        "eigenvalue_effective_rank",
        spectrum.eigenvalue_effective_rank,
        "eigenvalues",
        title="Principal axes that carry the variance: exponential of the spectral entropy",
        symbol="exp H_λ",
        formula="exp(-Σ_j p_j ln p_j), p_j = λ_j / Σ_k λ_k",
        range="[1, min(n - 1, dim)] directions: 1 when all variance lies on one axis",
        unit="directions",
        source="exp of the article's spectral entropy; the package reptrix calls it RankMe",
        traps=("Not RankMe and not the effective rank: those are on singular values and read higher.", _FEW),
    ),
    _measure(
        "rankme",
        spectrum.rankme,
        "singular_values",
        title="Effective rank as the RankMe paper writes it",
        symbol="RankMe",
        formula="exp(-Σ_j p_j ln p_j), p_j = σ_j / Σ_k σ_k + 1e-7",
        range="about [1, min(n, dim)] directions: the constant lets it pass the ends by a hair",
        bounds=lambda n, d: (1 - 2e-7, _ranks(n, d) ** (1 + 1e-7 * _ranks(n, d)) * (1 + 1e-6 * min(n, d))),
        unit="directions",
        source="Garrido et al. 2023, RankMe, equation 1",
        traps=(_SHIFT, "Some packages compute it on eigenvalues: a lower number."),
    ),
    _measure(
        "participation_ratio",
        spectrum.participation_ratio,
        "eigenvalues",
        title="Principal axes that carry the variance, from the second moment of the eigenvalues",
        symbol="PR",
        formula="(Σ_j λ_j)² / Σ_j λ_j²",
        range="[1, min(n - 1, dim)] directions: 1 when all variance lies on one axis",
        unit="directions",
        source="Gao et al. 2017, A theory of multineuronal dimensionality, equation 5",
        traps=("Some tools print it as the effective rank.", "n rows of a Gaussian read about n·dim/(n + dim)."),
        default=True,
    ),
    _measure(
        "stable_rank",
        spectrum.stable_rank,
        "singular_values",
        title="Energy of the table relative to its strongest direction",
        symbol="srank",
        formula="‖E‖_F² / ‖E‖₂²",
        range="[1, min(n, dim)] directions: 1 for rank one",
        unit="directions",
        source="Rudelson and Vershynin 2007, Sampling from large matrices, section 1",
        equivalent="(numpy.linalg.norm(E) / numpy.linalg.norm(E, 2)) ** 2",
        traps=(_SHIFT,),
        default=True,
    ),
    _measure(
        "nesum",
        spectrum.nesum,
        "eigenvalues",
        title="Total variance relative to that of the first principal axis",
        symbol="NESum",
        formula="Σ_j λ_j / λ_1",
        range="[1, min(n - 1, dim)] directions: 1 when all variance lies on one axis",
        unit="directions",
        source="He and Ozay 2022, Exploring the gap between collapsed and whitened features, section 3",
        equivalent="the stable rank of the centered table",
        traps=("Decided by the first axis alone.",),
    ),
    _measure(
        "numerical_rank",
        conditioning.numerical_rank,
        "singular_values",
        read=_numerical_rank,
        title="Number of singular values above the rounding of the stored type",
        symbol="rank",
        formula="#{j : σ_j > resolution·σ_1}",
        range="[1, min(n, dim)]: less than that where directions are missing",
        unit="directions",
        usage="numerical_rank(singular_values, dtype=dtype, n_rows=n_rows)",
        source="Golub and Van Loan, Matrix Computations, section 5.4.1",
        traps=("numpy.linalg.matrix_rank takes another tolerance, max(n, dim)·eps: 0.12 for a million float32 rows.",),
        default=True,
    ),
    _explained(0.9, "explained_variance_dims", True),
    _explained(0.95, "explained_variance_dims_95", False),
    _explained(0.99, "explained_variance_dims_99", False),
    _measure(
        "top_component_share",
        variance_shares.top_component_share,
        "eigenvalues",
        title="Share of the variance on the first principal axis",
        symbol="λ₁ share",
        formula="λ_1 / Σ_j λ_j",
        direction="lower",
        range="[1/dim, 1]: 1 when all variance lies on one axis",
        bounds=lambda n, d: (1 / _axes(n, d), 1.0),
        source="Jolliffe 2002, Principal Component Analysis, section 6.1.1",
        equivalent="sklearn.decomposition.PCA(1).fit(E).explained_variance_ratio_[0]",
        traps=("One outlier row can make it.",),
        default=True,
    ),
    _measure(
        "cumulative_variance_auc",
        variance_shares.cumulative_variance_auc,
        "eigenvalues",
        title="Mean of the cumulative share of variance over the number of axes kept",
        symbol="AUC_λ",
        formula="(1/dim) Σ_k Σ_(j≤k) λ_j / Σ_j λ_j",
        direction="lower",
        range="[(dim + 1)/(2·dim), 1]: 1 when all variance lies on one axis",
        bounds=lambda n, d: ((d + 1) / (2 * d), 1.0),
        source="Li, Efros and Pathak 2022, Understanding collapse in non-contrastive learning, section 4",
        traps=("With n ≤ dim it starts above its lower end: compare with the null.",),
        ratio_rule="difference",
    ),
    _measure(
        "inverse_condition_number",
        conditioning.inverse_condition_number,
        "singular_values",
        title="Smallest singular value over the largest",
        symbol="κ/100",
        formula="σ_min / σ_max",
        range="[0, 1]: 0 for a table that lacks a direction, 1 for orthogonal columns of one length",
        bounds=lambda n, d: (0.0, 1.0),
        source="Stollenwerk and Stollenwerk 2025, Better Embeddings with Coupled Adam, equation 28 (κ is 100 × this)",
        equivalent="1 / numpy.linalg.cond(E)",
        traps=(
            'The paper\'s "condition number" κ is 100 times this, in percent; numerical analysis means the reciprocal.',
            'Below the resolution of the stored type read it as "at most".',
            _SHIFT,
        ),
        default=True,
        below_resolution=smallest_below_resolution,
    ),
    _measure(
        "condition_number",
        conditioning.condition_number,
        "singular_values",
        title="Largest singular value over the smallest",
        symbol="cond",
        formula="σ_max / σ_min",
        direction="lower",
        range="[1, ∞): 1 for orthogonal columns of one length",
        bounds=lambda n, d: (1.0, math.inf),
        source="Golub and Van Loan, Matrix Computations, section 2.6.2",
        equivalent="numpy.linalg.cond(E)",
        traps=("Not the κ of the Coupled Adam paper: see inverse_condition_number.",),
        below_resolution=smallest_below_resolution,
    ),
    _measure(
        "log_determinant",
        conditioning.log_determinant,
        "eigenvalues",
        read=_log_determinant,
        needs=("eigenvalues", "singular_values"),
        null=spectrum_null("eigenvalues", conditioning.log_determinant, scaled=True),
        scale_dependent_null=True,
        title="Logarithm of the volume of the covariance",
        symbol="ln det C",
        formula="Σ_j ln λ_j",
        range="(-∞, ∞)",
        bounds=lambda n, d: (-math.inf, math.inf),
        unit="nats",
        invariances=_CENTERED - {SCALE},
        source="Cover and Thomas 2006, Elements of Information Theory, theorem 8.4.1",
        equivalent="numpy.linalg.slogdet(numpy.cov(E, rowvar=False))[1]",
        traps=(
            "Depends on the scale: a factor s adds 2·dim·ln s.",
            "Decided by the smallest eigenvalues; undefined for n ≤ dim.",
        ),
        ratio_rule="difference",
        below_resolution=smallest_below_resolution,
    ),
    _measure(
        "alpha_req",
        decay.alpha_req,
        "eigenvalues",
        title="Decay exponent of the eigenvalues over their rank",
        symbol="α",
        formula="λ_j ∝ j^(-α), least squares of ln λ over ln j, ranks 11 … 100 (fewer where there are fewer)",
        direction="neither",
        range="[0, ∞): 0 for equal eigenvalues; about 1 is reported as good, much more is collapse",
        bounds=lambda n, d: (0.0, math.inf),
        source="Agrawal et al. 2022, α-ReQ, section 3",
        traps=(
            "The fit range decides much: alpha_req_fit gives R² and the ranks used.",
            "A noise floor in the tail flattens it. Other packages crash below 100 dimensions.",
        ),
        default=True,
        ratio_rule="difference",
    ),
    _measure(
        "tail_exponent",
        decay.tail_exponent,
        "eigenvalues",
        title="Exponent of a power law fitted to the density of the large eigenvalues",
        symbol="α_tail",
        formula="ρ(λ) ∝ λ^(-α) for λ ≥ λ_min",
        direction="neither",
        range="(1, ∞): 2 … 4 is reported for well-trained layers",
        bounds=lambda n, d: (1.0, math.inf),
        source="Clauset, Shalizi and Newman 2009, equation 3.1; Martin and Mahoney 2021",
        traps=(
            "Not alpha-ReQ: the exponent of a density, not a slope over ranks.",
            "Any spectrum gets an exponent, power law or not.",
        ),
        ratio_rule="difference",
    ),
)
