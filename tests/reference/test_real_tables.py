"""Readings of real word vectors, and of tables in the shapes and types of real ones, against float64 NumPy."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.stats
import torch

import fullspan as fs
from fullspan.datasets.bundled import glove_path, load_glove
from fullspan.errors import UndefinedMeasureError


def entropy(values: np.ndarray) -> float:
    return float(scipy.stats.entropy(values[values > 0]))


def reference(stored: np.ndarray) -> dict[str, float]:
    """Every measure by its definition, from the stored values in float64; at least two rows."""
    E = np.asarray(stored, dtype=np.float64)
    n, dim = E.shape
    mean, norms = E.mean(axis=0), np.linalg.norm(E, axis=1)
    sigma = np.linalg.svd(E, compute_uv=False)
    centered = np.linalg.svd(E - mean, compute_uv=False)[: min(n - 1, dim)]
    eigen = np.concatenate([centered**2 / (n - 1), np.zeros(dim - len(centered))])
    units = E / norms[:, None]
    direction = units.mean(axis=0)
    size = np.abs(E)
    shares = size / size.sum(axis=1, keepdims=True)
    ranks = 2 * np.arange(1, dim + 1) - dim - 1
    ratio = eigen.sum() ** 2 / (eigen**2).sum()
    log_shares = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return {
        "gini_index": float(((np.sort(size, axis=1) @ ranks) / (dim * size.sum(axis=1))).mean()),
        "vector_entropy": float(-(shares * log_shares).sum(axis=1).mean()),
        "hoyer_sparsity": float(((np.sqrt(dim) - size.sum(axis=1) / norms) / (np.sqrt(dim) - 1)).mean()),
        "spectral_entropy": entropy(eigen),
        "information_abundance": sigma.sum() / sigma[0],
        "centered_information_abundance": centered.sum() / centered[0],
        "relative_information_abundance": sigma.sum() / sigma[0] / dim,
        "effective_rank": np.exp(entropy(sigma)),
        "centered_effective_rank": np.exp(entropy(centered)),
        "participation_ratio": ratio,
        "stable_rank": (sigma**2).sum() / sigma[0] ** 2,
        "numerical_rank": float(np.linalg.matrix_rank(E)),
        "explained_variance_dims": float(1 + (np.cumsum(eigen) / eigen.sum() < 0.9).sum()),
        "top_component_share": eigen[0] / eigen.sum(),
        "inverse_condition_number": sigma[-1] / sigma[0],
        "iso_score": (ratio - 1) / (dim - 1),
        "isotropy": isotropy(E),
        "average_cosine": float((n**2 * (direction @ direction) - n) / (n * (n - 1))),
        "rogue_dimension_share": float((direction**2).max() / (direction @ direction)),
        "mean_norm": norms.mean(),
        "norm_variation": norms.std(ddof=1) / norms.mean(),
        "mean_vector_norm": float(np.linalg.norm(mean)),
        "mean_norm_ratio": float(np.linalg.norm(mean)) / norms.mean(),
    }


def isotropy(E: np.ndarray) -> float:
    """Least over largest partition function along the eigenvectors of EᵀE, with both signs."""
    projected = E @ np.linalg.eigh(E.T @ E)[1]
    sums = np.concatenate([np.logaddexp.reduce(sign * projected, axis=0) for sign in (1, -1)])
    return float(np.exp(sums.min() - sums.max()))


def check(report, stored, rel=1e-6, without=()):
    expected = reference(stored)
    wrong = {
        name: (report[name].value, value)
        for name, value in expected.items()
        if name not in without and report[name].value != pytest.approx(value, rel=rel, abs=1e-12)
    }
    assert not wrong


@cache
def glove():
    return load_glove()


@cache
def glove_report():
    return fs.measure(glove_path(), neighbors=False, standard_errors=False)


def test_glove_against_numpy():
    check(glove_report(), glove().vectors)


def test_glove_reads_as_it_is_known():
    """A mean shift along one dimension, short rare words: what is said of these vectors in the literature."""
    report = glove_report()
    assert (report["numerical_rank"].value, report["gini_index"].value) == (50, pytest.approx(0.4195, abs=1e-4))
    assert report["rogue_dimension_share"].value > 0.7
    assert report["information_abundance"].value == pytest.approx(16.26, abs=0.01)
    (table,) = report
    assert table.record.profile["dimension_shares"][0]["dimension"] == int(
        np.argmax((glove().vectors / np.linalg.norm(glove().vectors, axis=1)[:, None]).mean(axis=0) ** 2)
    )
    assert {"mean-shift", "rogue-dimensions"} & {finding.rule for finding in report.findings}


def test_the_shortest_rows_of_glove_have_their_words():
    norms = np.linalg.norm(glove().vectors.astype(np.float64), axis=1)
    spread = next(iter(glove_report())).record.profile["norm"]
    words = [str(glove().words[row]) for row in np.argsort(norms)[:3]]
    assert [row["id"] for row in spread["lowest"][:3]] == words
    assert [row["position"] for row in spread["highest"][:3]] == np.argsort(-norms)[:3].tolist()


def test_length_and_frequency_of_glove():
    names = "length_frequency_correlation,length_frequency_rank_correlation"
    found = fs.measure(glove_path(), measures=names, frequencies="zipf_frequency")
    norms = np.linalg.norm(glove().vectors.astype(np.float64), axis=1)
    zipf = glove().zipf_frequency.astype(np.float64)
    expected = 100 * np.corrcoef(norms, zipf)[0, 1]
    assert found["length_frequency_correlation"].value == pytest.approx(expected, rel=1e-6)
    ranked = 100 * scipy.stats.spearmanr(norms, zipf)[0]
    assert found["length_frequency_rank_correlation"].value == pytest.approx(ranked, rel=1e-3)


def test_neighbors_of_glove():
    E = glove().vectors[:800].astype(np.float64)
    units = E / np.linalg.norm(E, axis=1)[:, None]
    cosines = units @ units.T
    np.fill_diagonal(cosines, -2)
    counts = np.bincount(np.argsort(-cosines, axis=1)[:, :10].ravel(), minlength=800)
    found = fs.measure(glove().vectors[:800], measures="hubness_skew,antihub_share,max_occurrence")
    assert found["hubness_skew"].value == pytest.approx(scipy.stats.skew(counts), rel=1e-6)
    assert found["antihub_share"].value == pytest.approx((counts == 0).mean(), abs=1e-12)
    assert found["max_occurrence"].value == pytest.approx(counts.max() / 799, rel=1e-9)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype):
    """The readings are those of the stored values, not of what they were rounded from."""
    tensor = torch.tensor(glove().vectors[:3000]).to(getattr(torch, dtype))
    report = fs.measure(tensor, neighbors=False, standard_errors=False)
    assert next(iter(report)).record.dtype == dtype
    check(report, tensor.double().numpy())


def test_half_precision_of_numpy():
    E = glove().vectors[:3000].astype(np.float16)
    check(fs.measure(E, neighbors=False, standard_errors=False), E)


def field(n_rows: int, dim: int, dtype: str = "float32") -> np.ndarray:
    """Rows as a recommender learns them: a fast decay of the spectrum, an offset, popular rows longer."""
    rng = np.random.default_rng(n_rows)
    rows = rng.standard_normal((n_rows, dim)) * np.arange(1, dim + 1) ** -0.7
    rows = rows @ np.linalg.qr(rng.standard_normal((dim, dim)))[0] + 0.1 * rng.standard_normal(dim)
    return (rows * rng.lognormal(0.0, 0.4, (n_rows, 1)) * 0.3).astype(dtype)


@pytest.mark.parametrize("n_rows", [943, 1682])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_users_and_items(n_rows, dtype):
    E = field(n_rows, 16, dtype)
    check(fs.measure(E, neighbors=False), E, rel=1e-6 if dtype == "float32" else 1e-9)


def test_users_and_items_beside_each_other():
    users, items = field(943, 16), field(1682, 16)
    report = fs.measure({"user.weight": users, "item.weight": items}, neighbors=False, standard_errors=False)
    check(report["user.weight"], users)
    check(report["item.weight"], items)
    assert [row["n_rows"] for row in report.fields] == [943, 1682]


def test_users_and_items_of_a_checkpoint(tmp_path):
    path = tmp_path / "model.pt"
    tables = {"user.weight": torch.tensor(field(943, 16)), "item.weight": torch.tensor(field(1682, 16))}
    torch.save(tables | {"head.weight": torch.ones(16, 3)}, path)
    report = fs.measure(path, measures="information_abundance", standard_errors=False)
    assert list(report.tables) == ["user.weight", "item.weight"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_rows_of_a_large_model(dtype):
    """62 rows of 1,536 dimensions: no more than 61 directions can vary."""
    E = field(62, 1536, dtype)
    report = fs.measure(E, standard_errors=False)
    check(report, E)
    assert report["numerical_rank"].value == 62
    assert report["participation_ratio"].value <= 61
    assert report["explained_variance_dims"].value <= 61
    assert "wide-for-data" in {finding.rule for finding in report.findings}


@pytest.mark.parametrize("dim", [50, 1536])
def test_one_row(dim):
    row = glove().vectors[:1] if dim == 50 else field(2, dim)[:1]
    report = fs.measure(row)
    ones = ("information_abundance", "effective_rank", "stable_rank", "numerical_rank", "mean_norm_ratio")
    for name in (*ones, "inverse_condition_number"):
        assert report[name].value == pytest.approx(1.0, rel=1e-6), name
    assert report["mean_norm"].value == pytest.approx(np.linalg.norm(row.astype(np.float64)), rel=1e-6)
    size = np.abs(row[0].astype(np.float64)) / np.abs(row[0].astype(np.float64)).sum()
    assert report["vector_entropy"].value == pytest.approx(entropy(size), rel=1e-6)
    for name in ("participation_ratio", "average_cosine", "norm_variation", "iso_score"):
        assert report[name].value is None
        assert "at least two rows" in report[name].why
    report.to_json()


PAIRS = (
    ("king", "queen", 8.6),
    ("car", "truck", 8.0),
    ("dog", "cat", 7.4),
    ("coffee", "tea", 7.3),
    ("king", "cabbage", 0.2),
    ("money", "bank", 8.5),
    ("professor", "cucumber", 0.3),
    ("stock", "egg", 1.8),
    ("sun", "moon", 6.5),
    ("rock", "law", 0.6),
)


def cosine(one: str, other: str) -> float:
    rows = [glove().vectors[np.flatnonzero(glove().words == word)[0]].astype(np.float64) for word in (one, other)]
    return float(rows[0] @ rows[1] / np.linalg.norm(rows[0]) / np.linalg.norm(rows[1]))


def test_word_similarity_of_glove(tmp_path):
    path = tmp_path / "pairs.txt"
    lines = ["# word word judgment", *(f"{a}\t{b}\t{score}" for a, b, score in PAIRS), "king\tqqzzyx\t5.0"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    present = [(a, b, s) for a, b, s in PAIRS if {a, b} <= set(glove().words.tolist())]
    assert len(present) >= 8
    cosines, judged = [cosine(a, b) for a, b, _ in present], [s for *_, s in present]
    pearson = fs.word_similarity(glove().vectors, glove().words, path)
    spearman = fs.word_similarity(glove().vectors, glove().words, path, kind="spearman")
    assert pearson.value == pytest.approx(scipy.stats.pearsonr(cosines, judged)[0], rel=1e-6)
    assert spearman.value == pytest.approx(scipy.stats.spearmanr(cosines, judged)[0], rel=1e-9)
    assert (pearson.n_pairs, pearson.n_used) == (len(PAIRS) + 1, len(present))
    assert pearson.n_missing == len(PAIRS) + 1 - len(present)
    assert pearson.value > 0.7
    with pytest.raises(UndefinedMeasureError, match="pairs"):
        fs.word_similarity(glove().vectors, glove().words, PAIRS[:2])
