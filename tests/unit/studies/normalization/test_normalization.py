"""The study of normalization: its task, its models, its numbers and its claims, on planted vectors."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fullspan.errors import InputError
from fullspan.studies.base.grid import Cell, Task
from fullspan.studies.base.result import CellCurves
from fullspan.studies.normalization import claims, data, training, work
from fullspan.studies.normalization.grid import Options, cells_of
from fullspan.studies.normalization.strategies import FIXED, fitted
from fullspan.studies.normalization.study import NormalizationStudy

SEED = 3


def planted(offset: float = 0.0, dim: int = 6) -> dict:
    """Twelve words a class, near the class's place; a text is three of them."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(4, dim))
    table = (np.repeat(centers, 12, axis=0) + 0.3 * rng.normal(size=(48, dim)) + offset).astype(np.float32)
    labels = np.repeat(np.arange(4), 40)
    tokens = np.full((160, data.LENGTH), -1, dtype=np.int64)
    tokens[:, :3] = labels[:, None] * 12 + rng.integers(0, 12, (160, 3))
    return {"task": "banking77", "tokens": tokens, "labels": labels, "table": table}


def run(shared: dict, **settings) -> dict:
    cell = Cell("x", {"optimizer": "sgd", "budget": 40, **settings})
    return work.run_cell(Task(cell, SEED, "key"), {"data": shared})


def test_without_texts_the_task_is_the_ending_of_a_word(monkeypatch):
    monkeypatch.delenv("FULLSPAN_DATA", raising=False)
    found = data.load()
    assert found.described["name"] == "word endings"
    assert found.described["classes"] == len(data.ENDINGS)
    assert (found.shared["tokens"] >= 0).sum(1).max() == 1
    assert not any(cell.name.startswith("transformer") for cell in cells_of(Options(), "word endings"))


def test_texts_are_read_from_a_folder_and_words_that_are_not_known_are_left_out(tmp_path, monkeypatch):
    (tmp_path / "banking77").mkdir()
    (tmp_path / "banking77" / "train.csv").write_text('text,category\n"The card, zzqqxx!",a\nwhere is it,b\nzzqqxx,b\n')
    found = data.load(str(tmp_path))
    assert found.described["texts"] == 2
    assert (found.shared["tokens"] >= 0).sum(1).tolist() == [2, 3]
    monkeypatch.setenv("FULLSPAN_DATA", str(tmp_path))
    assert data.load().sha256 == found.sha256


def test_a_named_folder_without_texts_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"needs banking77/train\.csv in --data; got"):
        data.load(str(tmp_path))


def test_parts_of_a_seed_share_no_row_and_are_the_same_again():
    shared = planted()
    shared["tokens"][:, 3] = np.arange(160) % 48
    one, again = work.drawn(shared, 5), work.drawn(shared, 5)
    assert sum(len(y) for _, y in one.values()) == 160
    assert [len(y) for _, y in one.values()] == [96, 32, 32]
    assert all(np.array_equal(one[k][0], again[k][0]) for k in one)
    assert not np.array_equal(one["train"][0], work.drawn(shared, 6)["train"][0])


def test_pooling_is_the_mean_of_the_words_that_are_there():
    table = np.array([[1.0, 2.0], [3.0, 6.0]], dtype=np.float32)
    assert work.pooled(table, np.array([[0, 1, -1], [1, -1, -1]])).tolist() == [[2.0, 4.0], [3.0, 6.0]]


def test_strategies_are_fitted_on_the_rows_given_alone():
    rows = np.random.default_rng(0).normal(3, 2, (200, 30)).astype(np.float32)
    assert fitted("standardize", rows)(rows).mean() == pytest.approx(0, abs=1e-4)
    assert fitted("standardize", rows)(rows + 100).mean() > 10
    assert all(np.isfinite(fitted(name, rows)(rows)).all() for name in FIXED)


@pytest.mark.parametrize("model", ["linear", "mlp", "transformer"])
def test_every_model_learns_at_some_rate_and_each_rate_learns_by_itself(model):
    found = run(planted(), model=model, strategy="standardize")
    assert max(found["curves"]["test"]) > 0.9
    assert min(found["curves"]["reach"]) < 40
    assert len(found["x"]) == len(found["curves"]["final"]) == len(training.rates_of(model, "sgd"))
    json.dumps(found, allow_nan=False)


def test_an_offset_slows_sgd_and_batch_norm_undoes_it():
    slow = min(run(planted(20.0), model="linear", strategy="none")["curves"]["reach"])
    assert min(run(planted(20.0), model="linear", strategy="batch-norm")["curves"]["reach"]) < slow
    assert min(run(planted(20.0), model="linear", strategy="center")["curves"]["reach"]) < slow


def test_adam_runs_at_its_own_rates():
    found = run(planted(), model="linear", strategy="none", optimizer="adam")
    assert len(found["x"]) == len(training.RATES["adam"])
    assert max(found["curves"]["test"]) > 0.9


def test_one_rate_is_not_touched_by_another_that_diverges():
    import torch

    x = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32) * 1e4
    y = (x[:, 0] > 0).astype(np.int64)
    part = (x, None, y)
    net = training.Net("mlp", 4, 2, len(training.RATES["sgd"]), "none", 0)
    with np.errstate(all="ignore"):
        found = training.fit(net, {"train": part, "validation": part, "test": part}, "sgd", 0, 20)
    assert not np.isfinite(found["loss"][-1][-1])
    alone = {name: torch.isfinite(weight[0]).all().item() for name, weight in net.weights.items()}
    assert all(alone.values())


@pytest.mark.slow
def test_probes_see_what_was_planted():
    shared = planted(5.0)
    found = {name: values[0] for name, values in run(shared, probes=True)["curves"].items()}
    assert found["dot_unit-norm"] > found["dot_none"]
    assert found["served_raw"] < found["served_right"]
    assert found["pca_0.5_dims"] < found["pca_0.99_dims"]
    assert all(value is not None for value in found.values())


def grown(value, strategy_value, n=5):
    """Cells in which every strategy has one value and raw vectors another, a little apart over seeds."""
    jitter = np.linspace(0, 1e-3, n)[:, None]
    cells = {}
    for cell in cells_of(Options(), "banking77"):
        if cell.part == "probes":
            continue
        here = value if cell.settings["strategy"] == "none" else strategy_value
        steps = np.full((n, 2), here["reach"]) * (1 + jitter)
        curves = {"reach": steps, "final": steps, "rough": steps, "usable": np.array([[1.0, here["second"]]] * n)}
        scores = np.full((n, 2), here["test"]) + jitter
        curves |= {"test": scores, "validation": scores, "uneven": np.full((n, 2), here["uneven"]) + jitter}
        cells[cell.name] = CellCurves(cell, tuple(range(n)), np.array([-2.0, 0.0]), curves)
    probe = Cell("probes", {"probes": True}, "probes")
    names = _Everything({"separability_follows": np.full((n, 1), 0.9) + jitter})
    cells["probes"] = CellCurves(probe, tuple(range(n)), np.array([0.0]), names)
    return cells


class _Everything(dict):
    """A probe of any name, 0.5 in all seeds."""

    def __contains__(self, name):
        return True

    def __missing__(self, name):
        return np.full((5, 1), 0.5)


def answers(cells):
    return {claim.name: claim.answer for claim in claims.claims(cells)}


RAW = {"reach": 100.0, "test": 0.5, "uneven": 0.3, "second": 0.0}
GOOD = {"reach": 20.0, "test": 0.7, "uneven": 0.1, "second": 1.0}


def test_claims_hold_where_the_effect_was_planted():
    found = answers(grown(RAW, GOOD))
    for name in ("standardizing-speeds-sgd", "batch-norm-generalizes", "batch-norm-allows-larger-rates"):
        assert found[name] == "holds"
    assert found["features-contribute-equally"] == found["monitoring-shows-it"] == "holds"
    assert found["batch-norm-beats-standardizing"] == found["pca-removes-noise"] == "does not hold"


def test_claims_do_not_hold_where_the_opposite_was_planted():
    found = answers(grown(GOOD, RAW))
    for name in ("standardizing-speeds-sgd", "batch-norm-steadies-loss", "unit-norm-helps-training"):
        assert found[name] == "does not hold"
    assert len(found) == len(claims.claims(grown(GOOD, RAW)))


def test_a_rate_that_was_never_usable_counts_as_the_smallest():
    cells = grown({**RAW, "second": 0.0}, GOOD)
    cells["linear-none"].curves["usable"][:] = 0
    assert claims._usable(cells, "linear-none").tolist() == [-2.0] * 5
    assert claims._usable(cells, "linear-whiten").tolist() == [0.0] * 5


def test_the_study_names_code_that_exists():
    from importlib.util import find_spec

    assert all(find_spec(name) is not None for name in NormalizationStudy.code)
