"""Reports made by hand: one that is healthy, one with everything wrong, one with names from a stranger."""

from __future__ import annotations

import numpy as np

from fullspan.jobs.results import Report, TableReport
from fullspan.store.records import Finding, Reading, TableRecord

HOSTILE = "<script>alert('x')</script>\x1b[31m\u202e|`*_&\"\n::error::"


def rows_of(n_rows: int = 800, dim: int = 24, seed: int = 0) -> np.ndarray:
    """Rows with a decaying spectrum, a common offset, and norms of many sizes."""
    rng = np.random.default_rng(seed)
    E = rng.standard_normal((n_rows, dim)) * np.arange(1, dim + 1) ** -0.9 + 0.3 * rng.standard_normal(dim)
    E *= np.exp(0.3 * rng.standard_normal((n_rows, 1)))
    E[:, -1] = E[:, 0] * (1 + 1e-9 * rng.standard_normal(n_rows))
    return E.astype(np.float32)


def record_of(
    E: np.ndarray, name: str = "item_embedding.weight", ids: list | None = None, **changes: object
) -> TableRecord:
    n_rows, dim = E.shape
    ids = ids or [f"item-{position}" for position in range(n_rows)]
    rng = np.random.default_rng(1)
    sigma = np.linalg.svd(E.astype(float), compute_uv=False)
    centered = np.linalg.svd(E.astype(float) - E.mean(0), compute_uv=False)
    null = np.linalg.svd(rng.standard_normal(E.shape) * E.std(), compute_uv=False)
    norms = np.linalg.norm(E.astype(float), axis=1)
    units = E / norms[:, None]
    cosines = (units[:300] @ units[:300].T)[np.triu_indices(min(300, n_rows), 1)]
    counts, edges = np.histogram(cosines, bins=60, range=(-1, 1))
    x = np.abs(E.astype(float))
    gini = ((2 * np.arange(1, dim + 1) - dim - 1) * np.sort(x, 1)).sum(1) / (dim * x.sum(1))
    p = x / x.sum(1, keepdims=True)
    entropy = -(p * np.log(p)).sum(1)
    hoyer = (np.sqrt(dim) - x.sum(1) / norms) / (np.sqrt(dim) - 1)
    share = (units.mean(0)) ** 2
    order = np.argsort(norms)
    profile = {
        "singular_values": sigma.tolist(),
        "centered_singular_values": centered.tolist(),
        "null_singular_values": null.tolist(),
        "norm": distribution(norms, ids),
        "gini_index": distribution(gini, ids),
        "vector_entropy": distribution(entropy, ids),
        "hoyer_sparsity": distribution(hoyer, ids),
        "dimension_shares": [
            {"dimension": int(j), "share": float(share[j] / share.sum())} for j in np.argsort(-share)[:10]
        ],
        "dimension_quantiles": dict(
            zip(("q05", "median", "q95"), np.quantile(E, (0.05, 0.5, 0.95), axis=0).tolist(), strict=True)
        ),
        "cosine": {"edges": edges.tolist(), "counts": counts.tolist()},
        "frequency": {
            "deciles": [
                {
                    "low": 10.0**k,
                    "high": 10.0 ** (k + 1),
                    "mean_norm": float(norms[order][k * n_rows // 10 : (k + 1) * n_rows // 10].mean()),
                    "count": n_rows // 10,
                }
                for k in range(10)
            ],
            "zero_count": 0,
        },
        "neighbors": {
            "k": 10,
            "occurrences": np.bincount(np.minimum(rng.negative_binomial(1.2, 0.107, size=n_rows), 100)).tolist(),
        },
        "precision": {"eps": 2.0**-23, "offset_over_spread": 1.5},
    }
    abundance = float(sigma.sum() / sigma[0])
    readings = {
        each.measure: each
        for each in (
            Reading("information_abundance", abundance, 0.02, float(null.sum() / null[0]), 0.11, table=name),
            Reading("effective_rank", 9.87, 0.031, 23.6, 0.02, table=name),
            Reading("inverse_condition_number", 1.2e-8, None, 0.72, 0.01, True, table=name),
            Reading("average_cosine", 0.4123, 0.0042, 0.0, 0.0003, table=name),
            Reading("gini_index", float(gini.mean()), 0.0007, 0.41, 0.0004, table=name),
            Reading("mean_norm", float(norms.mean()), 0.0123, None, table=name),
            Reading(
                "length_frequency_correlation",
                None,
                why="This measure needs frequencies of the rows; got none. Give --frequencies.",
                table=name,
            ),
        )
    }
    record = {
        "table": name,
        "source": "model.safetensors",
        "dtype": "float32",
        "n_rows": n_rows + 3,
        "dim": dim,
        "n_excluded": 3,
        "passes": 2,
        "sample_rows": 400,
        "error_groups": 20,
        "readings": readings,
        "hygiene": {
            "nan_rows": {"count": 3, "rows": [{"position": 17, "id": ids[17 % len(ids)]}]},
            "inf_rows": {"count": 0, "rows": []},
            "zero_rows": {"count": 0, "rows": []},
            "constant_columns": {"count": 0, "columns": []},
            "duplicate_rows": {"count": 0, "exact": True, "n_distinct": n_rows, "relative_error": 0.0, "groups": []},
            "largest_entry": {"value": 3.2, "position": 4, "dimension": 2, "id": ids[4 % len(ids)]},
        },
        "profile": profile,
        "notes": ("Duplicate rows were counted exactly, by 64-bit hashes.",),
    }
    return TableRecord(**(record | changes))  # type: ignore[arg-type]


def distribution(values: np.ndarray, ids: list) -> dict:
    q = [0.0, 0.001, 0.01, *np.linspace(0.02, 0.98, 49).tolist(), 0.99, 0.999, 1.0]
    order = np.argsort(values)
    row = lambda at: {"position": int(at), "id": ids[at], "value": float(values[at])}  # noqa: E731
    return {
        "q": q,
        "values": np.quantile(values, q).tolist(),
        "mean": float(values.mean()),
        "deviation": float(values.std()),
        "lowest": [row(at) for at in order[:5]],
        "highest": [row(at) for at in order[::-1][:5]],
    }


def findings_of(name: str = "item_embedding.weight") -> tuple[Finding, ...]:
    return (
        Finding(
            "mean-shift",
            "warn",
            "All rows point in nearly the same direction",
            ({"measure": "average_cosine", "value": 0.4123, "null": 0.0, "threshold": 0.2},),
            "A common offset is shared by all rows: the bias of a softmax, or Adam's second moment of rare rows.",
            "fullspan measure items.npy --measures average_cosine",
            "average_cosine falls below 0.05, and the ranking of neighbors changes.",
            "https://fullspan.readthedocs.io/findings/#mean-shift",
            name,
        ),
        Finding(
            "dimensional-collapse",
            "fail",
            "The rows fill 3.4 of 24 dimensions",
            (
                {
                    "measure": "information_abundance",
                    "value": 3.412,
                    "null": 20.31,
                    "threshold": 8.0,
                    "standard_error": 0.02,
                },
                {"measure": "effective_rank", "value": 9.87, "null": 23.6, "threshold": 12.0},
            ),
            "Interaction with fields of few values pulls a table into their subspace.",
            "import fullspan as fs\nfs.measure(E - E.mean(0))",
            "information_abundance rises above 8.",
            "https://fullspan.readthedocs.io/findings/#dimensional-collapse",
            name,
        ),
        Finding(
            "non-finite-values",
            "note",
            "3 rows hold NaN or infinity and were left out",
            ({"value": 3, "rows": [{"position": 17, "id": "item-17"}, {"position": 40, "id": "item-40"}]},),
            "Training diverged for these rows.",
            table=name,
        ),
        Finding(
            "scale-outliers",
            "fail",
            "2 rows are far longer than the rest",
            ({"measure": "mean_norm", "value": 1.2, "threshold": 9.0},),
            table=name,
            waived="known since spring, until 2027-01-01",
        ),
    )


def sick() -> Report:
    return Report(
        {"item_embedding.weight": TableReport(record_of(rows_of()), findings_of())},
        {"fullspan": "0.1.0", "source": "model.safetensors"},
    )


def healthy() -> Report:
    E = np.random.default_rng(3).standard_normal((500, 16)).astype(np.float32)
    record = record_of(E, "healthy", n_rows=500, n_excluded=0, notes=())
    return Report({"healthy": TableReport(record, ())}, {"fullspan": "0.1.0"})


def hostile() -> Report:
    E = rows_of(60, 4)
    record = record_of(
        E, HOSTILE, ids=[f"{HOSTILE}{position}" for position in range(60)], source=HOSTILE, notes=(HOSTILE,)
    )
    finding = Finding(
        HOSTILE,
        "fail",
        HOSTILE,
        ({"measure": HOSTILE, "value": 1.0, HOSTILE: HOSTILE, "rows": [{"id": HOSTILE}]},),
        *[HOSTILE] * 5,
        None,
    )
    return Report({HOSTILE: TableReport(record, (finding,))}, {"source": HOSTILE})


def several() -> Report:
    return Report({**sick().tables, **healthy().tables})
