"""The sample is uniform, seeded, the same for every partition, and fair to strata."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan._typing import Block
from fullspan.errors import InputError
from fullspan.summaries.reservoir import Reservoir


def _block(n_rows: int, frequencies: np.ndarray | None = None) -> Block:
    rows = np.arange(n_rows, dtype=np.float32)[:, None] * np.ones(2, dtype=np.float32)
    return Block(rows, 0, np.arange(n_rows) + 1000, None, frequencies)


@pytest.mark.parametrize("step", [1, 17, 500])
def test_the_sample_does_not_depend_on_the_blocks(step):
    block = _block(500)
    whole = Reservoir.of(block, size=50, seed=1)
    builder = Reservoir.accumulator(2, size=50, seed=1)
    for start in range(0, 500, step):
        builder.add(block.take(slice(start, start + step)))
    made = builder.summary()
    assert made.positions.tolist() == whole.positions.tolist() == sorted(whole.positions.tolist())
    assert made.rows[:, 0].tolist() == made.positions.tolist()
    assert made.ids.tolist() == (made.positions + 1000).tolist()
    assert made.rows.shape == (50, 2)


def test_small_tables_are_kept_whole():
    made = Reservoir.of(_block(7), size=50)
    assert made.positions.tolist() == list(range(7))
    assert made.weights.tolist() == [1.0] * 7


def test_every_row_is_as_likely():
    counts = np.zeros(200)
    for seed in range(300):
        counts[Reservoir.of(_block(200), size=20, seed=seed).positions] += 1
    expected = 300 * 20 / 200
    chi_square = np.sum((counts - expected) ** 2 / expected) / (1 - 20 / 200)
    assert abs(chi_square - 199) < 5 * np.sqrt(2 * 199)


def test_seeds_differ():
    samples = {tuple(Reservoir.of(_block(1000), size=10, seed=seed).positions) for seed in range(20)}
    assert len(samples) == 20


def test_strata_share_the_size():
    frequencies = np.concatenate([np.zeros(5), np.full(600, 1.0), np.full(300, 9.0), np.full(3, 1000.0)])
    made = Reservoir.of(_block(908, frequencies), size=60, stratify="frequency")
    kinds, sampled = np.unique(made.strata, return_counts=True)
    assert dict(zip(kinds.tolist(), sampled.tolist(), strict=True)) == {-2000: 5, 0: 26, 3: 26, 9: 3}
    assert made.counts == {-2000: 5, 0: 600, 3: 300, 9: 3}
    assert made.weights.sum() == pytest.approx(908)
    assert made.frequencies.tolist() == frequencies[made.positions].tolist()


def test_stratified_samples_do_not_depend_on_the_blocks():
    frequencies = np.random.default_rng(0).zipf(1.4, size=3000).astype(float)
    block = _block(3000, frequencies)
    whole = Reservoir.of(block, size=90, stratify="frequency")
    parts = [block.take(np.flatnonzero(np.arange(3000) % 7 == part)) for part in (3, 1, 0, 6, 2, 5, 4)]
    merged = sum(Reservoir.of(part, size=90, stratify="frequency") for part in parts)
    assert merged.positions.tolist() == whole.positions.tolist()
    assert len(whole.positions) <= 90


def test_more_strata_than_rows_give_one_row_each():
    made = Reservoir.of(_block(12, 2.0 ** np.arange(12)), size=3, stratify="frequency")
    assert len(made.positions) == 12


def test_messages():
    with pytest.raises(InputError, match="needs a size of at least 1; got 0"):
        Reservoir.of(_block(3), size=0)
    with pytest.raises(InputError, match="needs stratify=None or \"frequency\"; got 'label'"):
        Reservoir.of(_block(3), stratify="label")
    with pytest.raises(InputError, match="needs a frequency for every row; got none"):
        Reservoir.of(_block(3), stratify="frequency")
    with pytest.raises(InputError, match="merge needs one size, seed and stratification"):
        Reservoir.of(_block(3), seed=1).merge(Reservoir.of(_block(3), seed=2))
