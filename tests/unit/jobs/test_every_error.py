"""Every number of a report has a standard error, or its entry says why not."""

from __future__ import annotations

import numpy as np
import pytest

import fullspan as fs


def test_every_number_has_a_standard_error_or_says_why_not():
    E = np.random.default_rng(9).normal(size=(1500, 12)) + 0.3
    frequencies = np.random.default_rng(10).zipf(1.5, 1500).astype(float)
    names = [name for name, entry in fs.CATALOG.items() if entry.read is not None]
    report = fs.measure(E, measures=names, frequencies=frequencies, hygiene=True)
    for reading in next(iter(report)):
        assert reading.value is not None
        if reading.standard_error is None:
            assert any("no standard error" in trap for trap in fs.CATALOG[reading.measure].traps), reading.measure


def test_the_error_of_the_norm_variation_is_its_spread_over_tables():
    values, errors = [], []
    for seed in range(60):
        rng = np.random.default_rng([11, seed])
        E = rng.normal(size=(500, 8)) * rng.lognormal(0.0, 0.4, (500, 1))
        (reading,) = next(iter(fs.measure(E, measures=["norm_variation"], hygiene=True)))
        values.append(reading.value)
        errors.append(reading.standard_error)
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.35)
