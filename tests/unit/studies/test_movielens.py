"""The MovieLens study on small planted ratings: numbers, runs, files."""

from __future__ import annotations

import csv
import itertools
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from fullspan.errors import InputError, MissingExtraError, UnknownNameError
from fullspan.store.runs import Run
from fullspan.studies.base.grid import Cell, Task
from fullspan.studies.base.result import SCHEMA, gather, load_result
from fullspan.studies.base.study import plan, run
from fullspan.studies.movielens import study as module
from fullspan.studies.movielens import work
from fullspan.studies.movielens.grid import Options, article_cells, cause_cells
from fullspan.studies.movielens.study import MovieLensStudy, shared_data
from fullspan.studies.movielens.work import DECILES, article_measures, deciles_of, kernel_measures, train
from fullspan.trainers.factorization import FactorizationTrainer, Setup
from tests.unit.studies import planted

pytestmark = pytest.mark.filterwarnings("ignore:The trainer is compiled anew")


# The article's own formulas, written anew: row by row, with its constants.
def gini(x):
    x = np.sort(np.abs(x.flatten()) + 1e-12)
    cumulative = np.cumsum(x)
    return (len(x) + 1 - 2 * np.sum(cumulative) / cumulative[-1]) / len(x)


def entropy(x):
    x = np.abs(x.flatten()) + 1e-12
    p = x / np.sum(x)
    return -np.sum(p * np.log(p))


def hoyer(x):
    x = np.abs(x.flatten())
    n, l1, l2 = len(x), np.sum(x), np.sqrt(np.sum(x**2))
    return 0.0 if l1 == 0 else (np.sqrt(n) - l1 / l2) / (np.sqrt(n) - 1)


def spectral(E):
    eigenvalues = np.clip(np.linalg.eigvalsh(np.cov(E, rowvar=False)), 1e-12, None)
    p = eigenvalues / np.sum(eigenvalues)
    return -np.sum(p * np.log(p))


def by_the_article(E):
    E = E.astype(np.float64)
    return {
        "gini_index": np.mean([gini(x) for x in E]),
        "hoyer_sparsity": np.mean([hoyer(x) for x in E]),
        "vector_entropy": np.mean([entropy(x) for x in E]),
        "spectral_entropy": spectral(E),
    }


@pytest.fixture(scope="module")
def data():
    return shared_data(planted.ratings(), "planted")


def task(setup, seed=1, points=3, **schedule):
    settings = {"setup": {"dim": 8, "head": "concat", **setup}, "engine": "torch"}
    settings["schedule"] = {"points": points, **(schedule or {"epochs_a_point": 1})}
    return Task(Cell("cell", settings), seed, "0" * 64)


@pytest.mark.parametrize("setup", [{"optimizer": "sgd", "batch_size": 8}, {"optimizer": "adam", "batch_size": 32}])
def test_the_measures_of_every_epoch_are_those_of_the_article(data, setup, monkeypatch):
    seen = []
    monkeypatch.setattr(work, "article_measures", lambda E: seen.append(E.copy()) or article_measures(E))
    curves = train(task(setup), {"data": data.shared})["curves"]
    assert len(seen) == 4
    for epoch, E in enumerate(seen):
        assert E.shape == (70, 8)
        for name, value in by_the_article(E).items():
            assert curves[name][epoch] == pytest.approx(value, abs=1e-6)


def test_the_measured_table_is_what_was_trained(data):
    told = train(task({"optimizer": "adam", "batch_size": 16}, seed=3), {"data": data.shared})["curves"]
    part = [data.shared[name][data.shared["train"]] for name in ("users", "items", "labels")]
    trainer = FactorizationTrainer(Setup(30, 40, optimizer="adam", batch_size=16, seed=3), engine="torch")
    for epoch in range(1, 4):
        assert told["loss"][epoch] == trainer.fit_epoch(*part)
    held_out = [data.shared[name][data.shared["test"]] for name in ("users", "items", "labels")]
    assert told["test_loss"][3] == trainer.evaluate(*held_out)["loss"]
    assert told["auc"][3] == trainer.evaluate(*held_out)["auc"]
    both = np.concatenate([trainer.users, trainer.items])
    assert told["gini_index"][3] == pytest.approx(by_the_article(both)["gini_index"], abs=1e-9)


def test_the_first_point_is_the_initialization(data):
    told = train(task({"optimizer": "sgd", "batch_size": 8}), {"data": data.shared})
    assert told["x"] == [0, 1, 2, 3]
    assert told["curves"]["loss"][0] is None
    assert told["curves"]["test_loss"][0] == pytest.approx(np.log(2), abs=0.02)


def test_points_after_equal_updates_stop_within_an_epoch(data):
    """7 updates a point at batch 1: three points are 21 rows of the first epoch."""
    told = train(task({"optimizer": "sgd", "batch_size": 1}, steps_a_point=7), {"data": data.shared})["curves"]
    part = [data.shared[name][data.shared["train"]] for name in ("users", "items", "labels")]
    setup = Setup(30, 40, optimizer="sgd", batch_size=1, seed=1)
    first = setup.order(0, len(part[0]))[:21]
    trainer = FactorizationTrainer(setup, engine="torch")
    trainer._engine.run(*(column[first].astype(kind) for column, kind in zip(part, "qqf", strict=True)), 0)
    both = np.concatenate([trainer.users, trainer.items])
    assert told["gini_index"][3] == pytest.approx(by_the_article(both)["gini_index"], abs=1e-9)
    assert told["loss"] == [None] * 4


def test_points_after_equal_updates_go_on_over_epochs(data):
    n_rows = len(data.shared["train"])
    told = train(task({"optimizer": "sgd", "batch_size": n_rows}, steps_a_point=2), {"data": data.shared})["curves"]
    whole = train(task({"optimizer": "sgd", "batch_size": n_rows}, points=6), {"data": data.shared})["curves"]
    assert told["gini_index"] == whole["gini_index"][::2]


def test_points_after_several_epochs_are_those_of_single_epochs(data):
    some = train(task({"optimizer": "adam", "batch_size": 32}, epochs_a_point=2), {"data": data.shared})["curves"]
    each = train(task({"optimizer": "adam", "batch_size": 32}, points=6), {"data": data.shared})["curves"]
    assert some["gini_index"] == each["gini_index"][::2]


def test_deciles_are_of_one_size_from_rare_to_frequent():
    counts = np.random.default_rng(0).integers(0, 50, 103)
    parts = deciles_of(counts)
    assert len(parts) == DECILES
    assert sorted(np.concatenate(parts).tolist()) == list(range(103))
    assert {len(part) for part in parts} == {10, 11}
    assert all(counts[low].max() <= counts[high].min() for low, high in itertools.pairwise(parts))


def test_the_deciles_average_to_the_whole(data):
    told = train(task({"optimizer": "sgd", "batch_size": 8}), {"data": data.shared})["curves"]
    means = [np.mean([told[f"{table}.d{n:02d}.gini_index"][3] for n in range(1, 11)]) for table in ("users", "items")]
    assert np.average(means, weights=[30, 40]) == pytest.approx(told["gini_index"][3], abs=1e-12)


def test_the_dense_weights_of_a_planted_table():
    half = np.array([1.0, -1.0, 1.0, 1.0])
    users, items = np.outer([1.0, -2.0], half), np.outer([3.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0])
    kernel = np.concatenate([half, [0.0, 0.0, 0.0, 5.0]])
    trainer = SimpleNamespace(users=users, items=items, kernel=kernel, setup=SimpleNamespace(dim=4))
    found = kernel_measures(trainer)
    assert found["kernel.alignment"] == pytest.approx(1.0)
    assert found["kernel.gini_index"] == pytest.approx(0.75 * 3 / 5)
    trainer.items = np.eye(4)[:3]
    assert kernel_measures(trainer)["kernel.alignment"] == pytest.approx(2 / 5)


def test_the_dot_head_has_no_dense_weights(data):
    told = train(task({"optimizer": "sgd", "batch_size": 8, "head": "dot"}), {"data": data.shared})["curves"]
    assert not [name for name in told if name.startswith("kernel")]


def test_the_grid_is_the_articles():
    cells = article_cells(Options(), 80_000, 2_625)
    assert [cell.name for cell in cells] == [f"{o}-b{b}" for o in ("sgd", "adam") for b in (1, 8, 16, 32)]
    assert {(cell.settings["setup"]["dim"], cell.settings["setup"]["head"]) for cell in cells} == {(8, "concat")}
    assert {cell.settings["schedule"]["points"] for cell in cells} == {20}
    assert max(cells, key=lambda cell: cell.cost).name == "adam-b1"


def test_every_variant_has_a_setup_that_the_trainer_takes_and_a_cell_to_compare_with():
    from fullspan.studies.base.result import CellCurves
    from fullspan.studies.movielens.causes import reference_of

    article = {cell.name for cell in article_cells(Options(), 80_000, 2_625)}
    cells = cause_cells(Options(), 80_000, 2_625)
    for cell in cells:
        Setup(n_users=943, n_items=1682, **cell.settings["setup"])
        assert reference_of(CellCurves(cell, (), np.zeros(0), {})) in article
    assert {cell.part for cell in cells} == {"momentum", "optimizer", "dim", "head", "updates", "rate"}
    assert len({cell.name for cell in cells} | article) == len(cells) + 8


def test_equal_updates_are_equal():
    """Batch 1 stops at the updates of batch 32's epochs, batch 32 gets those of batch 1's."""
    cells = {cell.name: cell.settings["schedule"] for cell in cause_cells(Options(), 80_000, 2_625)}
    assert cells["sgd-b1-as-many-updates-as-b32"] == {"points": 20, "steps_a_point": 2_500}
    assert cells["sgd-b32-as-many-updates-as-b1"] == {"points": 20, "epochs_a_point": 32}


def test_equal_rates_over_batch_are_equal():
    cells = {cell.name: cell.settings["setup"] for cell in cause_cells(Options(), 80_000, 2_625)}
    assert cells["sgd-b32-rate-over-batch-of-b1"]["learning_rate"] / 32 == 0.01
    assert cells["adam-b1-rate-over-batch-of-b32"]["learning_rate"] == 0.001 / 32


def test_the_data_of_a_study_say_their_order(data):
    assert data.described["row_order"].startswith("rows in the order of the file, then train_test_split")
    assert len(data.shared["train"]) == 160
    assert data.described["first_train_rows"] == data.shared["train"][:5].tolist()


def test_the_hash_of_the_data_depends_on_the_order_of_rows(data):
    ratings = planted.ratings()
    other = type(ratings)(**{**vars(ratings), "users": ratings.users[::-1]})
    assert shared_data(other, "planted").sha256 != data.sha256
    assert shared_data(planted.ratings(), "renamed").sha256 == data.sha256


def test_a_cell_without_all_its_seeds_is_left_out():
    cells = [Cell("a", {}), Cell("b", {})]
    results = {(name, seed): {"x": [0], "curves": {"m": [seed]}} for name, seed in (("a", 0), ("a", 1), ("b", 0))}
    assert set(gather(cells, [0, 1], results)) == {"a"}


def test_an_unknown_curve_is_named():
    with pytest.raises(UnknownNameError, match=r"sgd-b8 has no curve named 'gini'\. It has gini_index\."):
        planted.curves("sgd-b8", {"gini_index": 0.1})["gini"]


def test_a_change_is_a_slope_times_a_length():
    assert planted.curves("sgd-b8", {"m": 0.01}).changes("m") == pytest.approx([0.19] * 5)
    assert planted.curves("sgd-b8", {"m": 0.01}).changes("m", 6, 20) == pytest.approx([0.14] * 5)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": 3}', '{"schema": "fullspan.study/99"}'])
def test_another_file_is_no_result(tmp_path, text):
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"load_result needs the (result\.json of a study|schema fullspan\.study/1)"):
        load_result(path)


@pytest.mark.parametrize(("there", "engine"), [({"numba", "torch"}, "numba"), ({"torch"}, "torch")])
def test_the_engine_is_what_is_installed(monkeypatch, there, engine):
    monkeypatch.setattr(module, "find_spec", lambda name: name if name in there else None)
    assert module.engine() == engine


def test_without_an_engine_the_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setattr(module, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingExtraError, match=r"fullspan study movielens needs the extra 'studies'"):
        module.engine()


class Small(MovieLensStudy):
    """The study on planted ratings."""

    def data(self, options):
        self._data = shared_data(planted.ratings(), "planted <b>name</b>")
        return self._data


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    options = Options(seeds=2, epochs=4, engine="torch", name="planted")
    return run(Small(), options, out, command="fullspan study movielens <script>"), out, options


@pytest.mark.slow
def test_a_study_leaves_its_files(ran):
    result, out, _ = ran
    for name in ("result.json", "result.html", "epochs.csv", "deciles.csv", "figures/figure-1-sgd.svg"):
        assert (out / name).stat().st_size > 0
    assert len(list((out / "cells").glob("*.json"))) == 16
    assert result.provenance["run"]["runs"] == 16


@pytest.mark.slow
def test_the_json_has_the_schema_and_full_precision(ran):
    result, out, _ = ran
    plain = load_result(out / "result.json")
    assert plain["schema"] == SCHEMA
    cell = next(each for each in plain["cells"] if each["cell"] == "adam-b32")
    assert cell["curves"]["gini_index"][1] == result.cells["adam-b32"]["gini_index"][1].tolist()
    assert cell["curves"]["loss"][0][0] is None
    assert {claim["answer"] for claim in plain["claims"]} <= {
        "holds",
        "does not hold",
        "undecided",
        "not testable here",
    }
    assert plain["provenance"]["data"]["sha256"] == shared_data(planted.ratings(), "x").sha256


@pytest.mark.slow
def test_the_table_has_the_articles_four_decimals(ran):
    result, out, _ = ran
    rows = list(csv.DictReader((out / "epochs.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 8 * 2 * 4
    row = next(r for r in rows if (r["optimizer"], r["batch size"], r["seed"], r["epoch"]) == ("adam", "8", "1", "4"))
    assert row["gini index"] == f"{round(result.cells['adam-b8']['gini_index'][1, 4], 4):.4f}"


@pytest.mark.slow
def test_the_page_loads_nothing_and_escapes_all(ran):
    page = (ran[1] / "result.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert not re.search(r"(src|href)=\"(?!data:|#)", page)
    assert "<script" not in page
    assert "<b>name" not in page
    assert "&lt;script&gt;" in page
    assert page.count("data:image/svg+xml;base64,") == 4
    assert "default-src 'none'" in page


@pytest.mark.slow
def test_the_runs_of_the_first_seed_are_watched_runs(ran):
    result, out, _ = ran
    found = Run.open(out / "runs" / "adam-b8")
    assert found.status == "finished"
    curve = found.curve("users+items", "gini_index")
    assert curve.value.tolist() == result.cells["adam-b8"]["gini_index"][0].tolist()
    assert curve.epoch.tolist() == [0, 1, 2, 3, 4]
    assert found.curve("", "test_loss").value.tolist() == result.cells["adam-b8"]["test_loss"][0].tolist()
    assert {point.n_rows for point in found.points("", "test_loss")} == {None}  # of the run, read from no rows
    assert len(found.snapshots("items")) == 5
    assert sorted(path.name for path in (out / "runs").iterdir()) == sorted(result.cells)


@pytest.mark.slow
def test_a_study_that_is_done_runs_nothing_and_says_the_same(ran, tmp_path, monkeypatch):
    first, out, options = ran
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    monkeypatch.setattr(module, "article_figures", lambda cells: ())
    told = []
    again = run(Small(), options, copy, told=lambda task, seconds: told.append(task))
    assert told == []
    assert [claim.to_dict() for claim in again.claims] == [claim.to_dict() for claim in first.claims]


@pytest.mark.slow
def test_a_lost_run_is_made_again(ran, tmp_path):
    _, out, options = ran
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    shutil.rmtree(copy / "runs" / "sgd-b8")
    study = Small()
    left = plan(study, options, study.data(options), copy).left
    assert [(task.cell.name, task.seed) for task in left] == [("sgd-b8", 0)]
