"""Measure, watch, repair and prevent damage to the geometry of embedding tables.

The public names load on first use: ``import fullspan`` itself costs little more than ``import numpy``.
"""

from __future__ import annotations

__version__ = "0.1.0"

#: Public name to the module that defines it.
_HOMES = {
    # jobs
    "measure": "jobs.measure",
    "check": "jobs.check",
    "drift": "jobs.drift",
    "Report": "jobs.results",
    "TableReport": "jobs.results",
    "CheckResult": "jobs.check",
    "DriftReport": "jobs.drift",
    "TableDrift": "jobs.drift",
    "Thresholds": "diagnose.thresholds",
    "load_report": "jobs.saved",
    "render_page": "report.page",
    "write_page": "report.page",
    # measures
    "gini_index": "measures.sparsity",
    "hoyer_sparsity": "measures.sparsity",
    "vector_entropy": "measures.sparsity",
    "article_spectral_entropy": "measures.spectrum",
    "cumulative_variance_auc": "measures.variance_shares",
    "effective_rank": "measures.spectrum",
    "eigenvalue_effective_rank": "measures.spectrum",
    "explained_variance_dims": "measures.variance_shares",
    "lidar": "measures.spectrum",
    "nesum": "measures.spectrum",
    "participation_ratio": "measures.spectrum",
    "rankme": "measures.spectrum",
    "spectral_entropy": "measures.spectrum",
    "stable_rank": "measures.spectrum",
    "top_component_share": "measures.variance_shares",
    "information_abundance": "measures.abundance",
    "null_information_abundance": "measures.abundance",
    "relative_information_abundance": "measures.abundance",
    "condition_number": "measures.conditioning",
    "inverse_condition_number": "measures.conditioning",
    "log_determinant": "measures.conditioning",
    "numerical_rank": "measures.conditioning",
    "alpha_req": "measures.decay",
    "alpha_req_fit": "measures.decay",
    "tail_exponent": "measures.decay",
    "iso_score": "measures.isotropy",
    "iso_score_star": "measures.isotropy",
    "isotropy": "measures.isotropy",
    "average_cosine": "measures.directions",
    "centered_average_cosine": "measures.directions",
    "cosine_deviation": "measures.directions",
    "rogue_dimension_share": "measures.directions",
    "unit_deviation": "measures.directions",
    "alignment": "measures.sphere",
    "uniformity": "measures.sphere",
    "uniformity_estimate": "measures.sphere",
    "length_frequency_correlation": "measures.norms",
    "mean_norm": "measures.norms",
    "mean_norm_ratio": "measures.norms",
    "mean_vector_norm": "measures.norms",
    "norm_variation": "measures.norms",
    "antihub_share": "measures.neighbors",
    "hubness_skew": "measures.neighbors",
    "k_occurrence": "measures.neighbors",
    "max_occurrence": "measures.neighbors",
    "nearest_neighbors": "measures.neighbors",
    "robin_hood_index": "measures.neighbors",
    "mle_dimension": "measures.local",
    "near_duplicate_share": "measures.local",
    "relative_contrast": "measures.local",
    "two_nn_dimension": "measures.local",
    "linear_cka": "measures.drift",
    "neighbor_overlap": "measures.drift",
    "principal_angles": "measures.drift",
    "procrustes_distance": "measures.drift",
    "row_cosine": "measures.drift",
    "row_displacement": "measures.drift",
    "classifier_drift": "measures.shift",
    "frechet_distance": "measures.shift",
    "mean_shift": "measures.shift",
    "mmd": "measures.shift",
    "spectrum_difference": "measures.shift",
    "coupled_adam_set": "measures.similarity",
    "mean_word_similarity": "measures.similarity",
    "word_similarity": "measures.similarity",
    "CoupledAdamSet": "measures.similarity",
    "Estimate": "measures.sphere",
    "InteractionAbundance": "measures.fields",
    "MeanSimilarity": "measures.similarity",
    "Measure": "measures.entry",
    "Neighbors": "measures.neighbors",
    "Null": "measures.null",
    "PowerLawFit": "measures.decay",
    "Significance": "measures.shift",
    "SimilarityScore": "measures.similarity",
    "TableDiversity": "measures.fields",
    "cka_from_moments": "measures.drift",
    "frechet_from_moments": "measures.shift",
    "gaussian_spectra": "measures.null",
    "interaction_abundance": "measures.fields",
    "isotropy_of_partition": "measures.isotropy",
    "local_outlier_factor": "measures.local",
    "log_partition": "measures.isotropy",
    "outlier_share": "measures.local",
    "procrustes_from_moments": "measures.drift",
    "read_pairs": "measures.word_pairs",
    "similarity_files": "measures.word_pairs",
    "table_diversity": "measures.fields",
    "CATALOG": "measures.catalog",
    # tables
    "open_table": "io.formats",
    "open_tables": "io.formats",
    "list_tables": "io.formats",
    "TableInfo": "io.base",
    "Block": "_typing",
    "Evidence": "measures.evidence",
    # summaries
    "Plan": "summaries.base",
    "Summaries": "summaries.base",
    "Summary": "summaries.base",
    "fold": "summaries.fold",
    "Moments": "summaries.moments",
    "WeightedMoments": "summaries.moments",
    "Triangle": "summaries.triangle",
    "RowProfile": "summaries.rows",
    "UnitMean": "summaries.unit_mean",
    "UnitMoments": "summaries.units",
    "Quantiles": "summaries.quantiles",
    "Extremes": "summaries.extremes",
    "Duplicates": "summaries.duplicates",
    "Reservoir": "summaries.reservoir",
    "Partition": "summaries.partition",
    "CrossMoments": "summaries.cross",
    "FrequencyProfile": "summaries.frequency",
    "Grouped": "summaries.groups",
    # records
    "Reading": "store.records",
    "Finding": "store.records",
    "TableRecord": "store.records",
    # where the values of a watcher also go
    "TensorBoardSink": "monitor.sinks.tensorboard",
    "WandbSink": "monitor.sinks.wandb",
    "MlflowSink": "monitor.sinks.mlflow",
    "TrackioSink": "monitor.sinks.trackio",
    # errors
    "FullspanError": "errors",
    "InputError": "errors",
    "FormatError": "errors",
    "MissingFileError": "errors",
    "MissingExtraError": "errors",
    "UnknownNameError": "errors",
    "UndefinedMeasureError": "errors",
    "NothingEvaluatedError": "errors",
}

__all__ = ["__version__"]
__all__ += list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'fullspan' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"fullspan.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
