"""Standard errors where leave-outs see less than the whole, and where squares leave the range."""

from __future__ import annotations

import numpy as np
import pytest

import fullspan as fs


def conditioned(smallest: float) -> np.ndarray:
    rng = np.random.default_rng(6)
    left = np.linalg.qr(rng.normal(size=(600, 12)))[0]
    return left * np.geomspace(1.0, smallest, 12) @ np.linalg.qr(rng.normal(size=(12, 12)))[0]


def test_what_squares_cannot_resolve_has_no_standard_error():
    report = fs.measure(conditioned(1e-13), measures=["inverse_condition_number", "numerical_rank", "stable_rank"])
    assert report["inverse_condition_number"].value == pytest.approx(1e-13, rel=1e-2)
    assert report["inverse_condition_number"].standard_error is None  # the leave-outs read 0, all of them
    assert report["numerical_rank"].value == 12
    assert report["numerical_rank"].standard_error is None
    assert report["stable_rank"].standard_error > 0.0


@pytest.mark.parametrize("scale", [1e-100, 1e140, 1e200])
def test_standard_errors_scale_with_the_table(scale):
    E = np.random.default_rng(7).normal(size=(400, 6)) + 1.0
    plain, scaled = (fs.measure(each, neighbors=False) for each in (E, E * scale))
    for name, factor in {"mean_vector_norm": scale, "average_cosine": 1}.items():
        assert scaled[name].standard_error == pytest.approx(factor * plain[name].standard_error, rel=1e-4)
    scaled.to_json()  # no infinite null


def test_huge_frequencies_are_weights_like_others():
    E = np.random.default_rng(8).normal(size=(200, 4))
    report = fs.measure(E, frequencies=np.full(200, 1e300), neighbors=False)
    even = fs.measure(E, frequencies=np.ones(200), neighbors=False)
    name = "weighted_information_abundance"
    assert report[name].value == pytest.approx(even[name].value)


@pytest.mark.parametrize("period", [4, 10, 20])
def test_standard_errors_do_not_rest_on_the_order_of_the_rows(period):
    rng = np.random.default_rng(9)
    centers, noise = rng.normal(size=(period, 16)) * 3, rng.normal(size=(2000, 16))
    taking_turns = centers[np.arange(2000) % period] + noise
    plain = fs.measure(rng.permutation(taking_turns), neighbors=False, hygiene=False)
    periodic = fs.measure(taking_turns, neighbors=False, hygiene=False)
    for name in ("average_cosine", "mean_vector_norm", "centered_effective_rank"):
        assert periodic[name].standard_error < 2 * plain[name].standard_error
