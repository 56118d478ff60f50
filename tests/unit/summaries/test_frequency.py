"""Length against frequency: correlations as SciPy has them, deciles, and samples of large tables."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.summaries.frequency import FrequencyProfile


def _table(n_rows: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    frequencies = rng.zipf(1.6, size=n_rows).astype(float)
    frequencies[:30] = 0.0
    return rng.normal(size=(n_rows, 4)) * (1.0 + np.log1p(frequencies))[:, None], frequencies


@pytest.mark.parametrize("parts", [1, 7])
def test_correlations_agree_with_scipy(parts):
    rows, frequencies = _table()
    pieces = np.array_split(np.arange(len(rows)), parts)
    made = sum(FrequencyProfile.of(rows[p], frequencies=frequencies[p], start=int(p[0])) for p in pieces)
    norms, shares = np.linalg.norm(rows, axis=1), frequencies / frequencies.sum()
    assert made.exact
    assert made.correlation() == pytest.approx(stats.pearsonr(norms, shares).statistic, abs=1e-12)
    assert made.correlation("log") == pytest.approx(stats.pearsonr(norms, np.log(shares + 1e-10)).statistic, abs=1e-12)
    assert made.correlation("spearman") == pytest.approx(stats.spearmanr(norms, shares).statistic, abs=1e-12)
    assert made.n_zero_frequency == 30
    assert made.total_frequency == pytest.approx(frequencies.sum())


def test_deciles():
    rows, frequencies = _table()
    deciles = FrequencyProfile.of(rows, frequencies=frequencies).deciles()
    assert [each["count"] for each in deciles] == [200] * 10
    ordered = np.sort(frequencies)
    assert [each["low"] for each in deciles] == ordered[::200].tolist()
    assert [each["high"] for each in deciles] == ordered[199::200].tolist()
    assert deciles[-1]["mean_norm"] > deciles[0]["mean_norm"] > 0
    assert len(FrequencyProfile.of(rows[:3], frequencies=frequencies[:3]).deciles()) == 3
    assert FrequencyProfile.empty(4).deciles() == []


def test_large_tables_are_sampled_the_same_for_every_partition():
    rows, frequencies = _table(5000)
    whole = FrequencyProfile.of(rows, frequencies=frequencies, size=1000)
    pieces = [np.flatnonzero(np.arange(5000) % 3 == part) for part in range(3)]
    made = [
        FrequencyProfile.of(rows[p], frequencies=frequencies[p], size=1000)  # positions restart with every part
        for p in pieces
    ]
    assert not whole.exact
    assert len(whole.pairs) == 1000
    assert sum(each["count"] for each in whole.deciles()) == 5000
    exact = FrequencyProfile.of(rows, frequencies=frequencies)
    assert whole.correlation("spearman") == pytest.approx(exact.correlation("spearman"), abs=0.12)
    assert sum(made).correlation() == pytest.approx(exact.correlation(), abs=1e-12)
    halves = [
        FrequencyProfile.of(rows[s], frequencies=frequencies[s], start=s.start, size=1000)
        for s in (slice(2500, 5000), slice(0, 2500))
    ]
    assert np.sort(sum(halves).pairs["hash"]).tolist() == np.sort(whole.pairs["hash"]).tolist()


def test_messages():
    rows = np.eye(3)
    with pytest.raises(InputError, match="needs a frequency for every row; got none"):
        FrequencyProfile.of(rows)
    with pytest.raises(InputError, match=r"finite and not negative; got -2.0 at row 2"):
        FrequencyProfile.of(rows, frequencies=np.array([1.0, 1.0, -2.0]))
    made = FrequencyProfile.of(rows, frequencies=np.array([1.0, 2.0, 3.0]))
    for kind in ("pearson", "log", "spearman"):
        with pytest.raises(UndefinedMeasureError, match="needs norms that differ; got 3 equal ones"):
            made.correlation(kind)
    same = FrequencyProfile.of(np.diag([1.0, 2.0, 3.0]), frequencies=np.ones(3))
    for kind in ("pearson", "log", "spearman"):
        with pytest.raises(UndefinedMeasureError, match="needs frequencies that differ"):
            same.correlation(kind)
    with pytest.raises(UndefinedMeasureError, match="needs frequencies that differ"):
        FrequencyProfile.of(np.diag([1.0, 2.0, 3.0]), frequencies=np.zeros(3)).correlation("log")
    with pytest.raises(InputError, match='kind="pearson", "log" or "spearman"; got \'kendall\''):
        made.correlation("kendall")
    with pytest.raises(InputError, match="needs a size of at least 2; got 1"):
        FrequencyProfile.of(rows, frequencies=np.ones(3), size=1)
