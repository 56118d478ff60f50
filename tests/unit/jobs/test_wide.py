"""Tables with fewer rows than dimensions: the same numbers as from moments, and no eigenproblem of dim rows."""

from __future__ import annotations

import numpy as np
import pytest

import fullspan as fs
from fullspan.jobs import passes

SPECTRAL = [
    "information_abundance",
    "centered_information_abundance",
    "spectral_entropy",
    "participation_ratio",
    "stable_rank",
    "isotropy",
    "centered_isotropy",
    "average_cosine",
    "mean_norm_ratio",
]


@pytest.mark.parametrize("shape", [(40, 96), (95, 96), (7, 30)])
def test_the_same_numbers_and_errors_as_from_moments(shape, monkeypatch):
    table = np.random.default_rng(0).normal(size=shape) + 0.3
    mine = fs.measure(table, measures=SPECTRAL)
    monkeypatch.setattr(passes, "is_wide", lambda table: False)
    other = fs.measure(table, measures=SPECTRAL)
    for name in SPECTRAL:
        assert mine[name].value == pytest.approx(other[name].value, rel=1e-7)
        if "isotropy" not in name:  # here each leave-out has its own axes, there those of the whole table
            assert mine[name].standard_error == pytest.approx(other[name].standard_error, rel=1e-4)
    whole = next(iter(mine)).record
    assert whole.passes == 1


def test_rows_that_are_not_finite_are_left_out():
    table = np.random.default_rng(0).normal(size=(20, 50))
    table[3, 4] = np.nan
    report = fs.measure(table)
    exact = np.linalg.svd(np.delete(table, 3, axis=0), compute_uv=False)
    assert report["information_abundance"].value == pytest.approx(exact.sum() / exact[0], rel=1e-10)
    assert next(iter(report)).record.n_excluded == 1


def test_very_wide_tables_meet_no_eigenproblem_of_their_dimensions(monkeypatch):
    sizes = []
    for name in ("eigh", "eigvalsh"):
        plain = getattr(np.linalg, name)
        monkeypatch.setattr(np.linalg, name, lambda a, *more, plain=plain: sizes.append(len(a)) or plain(a, *more))
    table = np.random.default_rng(0).normal(size=(10, 2000)).astype(np.float32)
    report = fs.measure(table)
    assert report["centered_effective_rank"].value == pytest.approx(9.0, rel=0.02)
    assert max(sizes, default=0) <= 10


def test_one_row_says_that_two_are_needed():
    report = fs.measure(np.ones((1, 4)) * [1, 2, 3, 4], neighbors=False)
    assert report["centered_effective_rank"].why.startswith("centered_effective_rank needs at least two rows")
    assert not any("Neighbors" in note for note in next(iter(report)).record.notes)
