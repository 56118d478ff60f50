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
    "write_page": "report.page",
    # tables
    "open_table": "io.formats",
    "open_tables": "io.formats",
    "list_tables": "io.formats",
    "Block": "_typing",
    # summaries
    "fold": "summaries.fold",
    "Moments": "summaries.moments",
    "WeightedMoments": "summaries.moments",
    "Triangle": "summaries.triangle",
    "RowProfile": "summaries.rows",
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
