"""What may be watched, each storage once, and what is named instead of being read as collapsed."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import fullspan as fs
from fullspan.errors import InputError
from fullspan.monitor.tables import fetched, problem_of, take_rows, watched_tables
from fullspan.store.runs import Run
from tests.unit.monitor.watching import read, steps, table

FEW = ["gini_index", "effective_rank"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run"


def names(tables):
    return {each.name: each.also for each in watched_tables(tables, sample=10, seed=0)}


def test_layers_of_a_model_tied_weights_once():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = torch.nn.Embedding(10, 4)
            self.bags = torch.nn.EmbeddingBag(6, 4)
            self.out = torch.nn.Linear(4, 10, bias=False)
            self.out.weight = self.tokens.weight
            self.lm_head = self.out

    assert names(Model()) == {"tokens.weight": ("lm_head.weight",), "bags.weight": ()}


def test_wrappers_do_not_change_names():
    class DistributedDataParallel(torch.nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

    model = torch.nn.Sequential(torch.nn.Embedding(10, 4))
    assert names(DistributedDataParallel(model)) == {"0.weight": ()}


def test_a_mapping_of_anything():
    weight = torch.nn.Parameter(torch.ones(10, 4))
    E = table()
    tables = {"a": weight, "b": weight, "c": E, "d": lambda: E, "e": torch.nn.Embedding(5, 2)}
    assert names(tables) == {"a": ("b",), "c": (), "d": (), "e": ()}
    assert [each.calls for each in watched_tables(tables, sample=10, seed=0)] == [False, False, True, False]


def test_a_parameter_that_is_replaced_is_found(path):
    model = torch.nn.Sequential(torch.nn.Embedding(10, 4))
    with fs.watch(model, path, every=1, measures=FEW) as watcher:
        watcher.step()
        model[0].weight = torch.nn.Parameter(torch.randn(30, 4, generator=torch.Generator().manual_seed(0)))
        watcher.step()
    points = Run.open(path).points("0.weight", "effective_rank")
    assert [point.n_rows for point in points] == [10, 30]
    assert points[1].value == pytest.approx(read(model[0].weight.detach().numpy(), "effective_rank"), abs=1e-6)
    assert "0.weight has another shape: (10, 4) before, (30, 4) now" in Run.open(path).events()[0].message
    assert Run.open(path).tables["0.weight"].n_rows == 30


def test_reading_a_parametrized_weight_does_not_train_it(path):
    layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Embedding(20, 4))
    model = torch.nn.ModuleDict({"table": layer})
    before = {name: each.clone() for name, each in model.state_dict().items()}
    with fs.watch(model, path, every=1, measures=FEW) as watcher:
        watcher.step()
        watcher.step()
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    assert layer.training
    assert layer.parametrizations.weight[0].training
    assert steps(path, name="table.weight") == [1, 2]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_stored_types(path, dtype):
    weight = torch.randn(300, 4, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))
    with fs.watch({"E": weight}, path, every=1, measures=FEW, sample=50, full="epoch") as watcher:
        watcher.step()
        watcher.step()
        watcher.epoch()
    run = Run.open(path)
    assert run.tables["E"].dtype == dtype
    assert run.points("E", "effective_rank")[-1].value == pytest.approx(read(weight, "effective_rank"), abs=1e-6)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_quantized_tables_are_read_as_numbers(path):
    weight = torch.randn(100, 4, generator=torch.Generator().manual_seed(0))
    quantized = torch.quantize_per_tensor(weight, 0.05, 0, torch.qint8)
    rows = take_rows(quantized, np.array([3, 50]))
    assert np.allclose(rows, quantized.dequantize()[[3, 50]].numpy())


def test_callables_run_without_a_graph():
    weight = torch.nn.Parameter(torch.ones(10, 4))
    [watched] = watched_tables({"E": lambda: weight * 2}, sample=10, seed=0)
    assert not fetched(watched).requires_grad


def test_a_table_that_streams(path):
    stream = fs.open_table(table(500))
    with fs.watch({"E": lambda: stream}, path, every=1, measures=FEW, sample=50, full="epoch") as watcher:
        watcher.step()
        watcher.epoch()
    points = Run.open(path).points("E", "effective_rank")
    assert points[-1].value == pytest.approx(read(table(500), "effective_rank"), abs=1e-6)
    rows = np.array([0, 7, 499])
    assert np.array_equal(take_rows(stream, rows), table(500)[rows])


class DTensor(torch.Tensor):
    """Stands for torch's own, which needs several processes."""


def _zero3():
    weight = torch.nn.Parameter(torch.empty(0))
    weight.ds_id = 3
    return weight


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, r"it is None. Does the callable return the weights\?"),
        (
            torch.ones(4, 4).as_subclass(DTensor),
            r"it is a DTensor, split over processes. Watch a callable: lambda: weight",
        ),
        (_zero3(), r"it has no rows on this process: DeepSpeed ZeRO-3 keeps its shards elsewhere"),
        (torch.empty(0, 4), r"it is empty here, of shape \(0, 4\): FSDP and other sharding leave such pieces"),
        (torch.empty(0), r"it is empty here, of shape \(0,\)"),
        (torch.ones(64), r"a table needs 2 dimensions; got shape \(64,\). FSDP flattens weights"),
        (torch.empty(4, 4, device="meta"), r"it is on the meta device, which holds no numbers"),
        (torch.eye(4).to_sparse(), r"it is of layout torch.sparse_coo. Watch a callable: lambda: weight.to_dense\(\)"),
        (np.ones(3), r"a table needs 2 dimensions; got shape \(3,\)"),
    ],
)
def test_what_cannot_be_read_is_named_once_and_not_called_collapsed(path, value, why):
    with fs.watch({"E": lambda: value, "F": table()}, path, every=1, measures=FEW, strict=True) as watcher:
        for _ in range(3):
            watcher.step()
        assert watcher.findings == ()
    run = Run.open(path)
    assert run.points("E") == []
    assert steps(path, name="F") == [1, 2, 3]
    [event] = [event for event in run.events() if event.table == "E"]
    assert event.level == "warn"
    assert re.search(why, event.message)
    assert run.tables["E"].note == event.message


def test_a_table_that_can_be_read_again_says_so(path):
    shards = [np.empty((0, 4)), table()]
    with fs.watch({"E": lambda: shards[0]}, path, every=1, measures=FEW) as watcher:
        watcher.step()
        shards.pop(0)
        watcher.step()
    events = [event.message for event in Run.open(path).events() if event.table == "E"]
    assert events[-1] == "E can be read again."
    assert steps(path) == [2]


@pytest.mark.parametrize(
    "value", [np.array([["a", "b"]]), torch.zeros(3, 2, dtype=torch.complex64), np.ones((2, 2)) * 1j]
)
def test_what_holds_no_real_numbers_is_named(value):
    assert problem_of(value).endswith("and a table needs real numbers.")


def test_no_problem_with_tables():
    for value in (np.ones((2, 2)), torch.ones(2, 2), fs.open_table(np.ones((2, 2)))):
        assert problem_of(value) is None


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({}, r"watch needs at least one table; got an empty mapping."),
        (
            {"E": "weights.npy"},
            r"watch needs a parameter, an array or a callable that gives one for table 'E'; got str.",
        ),
        ({3: np.eye(3)}, r"watch needs names of tables that are text; got 3."),
        ({"E": torch.nn.ReLU()}, r"watch needs a layer with a weight for table 'E'; got ReLU. Pass a model by itself"),
        (torch.nn.Linear(3, 3), r"watch needs a model with an embedding layer; got Linear without one."),
    ],
)
def test_what_is_no_table_is_refused(tables, message):
    with pytest.raises(InputError, match=message):
        watched_tables(tables, sample=10, seed=0)


def test_what_lies_beside_needs_its_table():
    two = {"E": table(), "F": table()}
    with pytest.raises(InputError, match=r'watch needs labels by table where there are 2 tables: labels=\{"E": ...\}'):
        watched_tables(two, sample=10, seed=0, labels=[1] * 200)
    tables = watched_tables(two, sample=10, seed=0, frequencies={"F": torch.arange(200)})
    assert tables[0].frequencies is None
    assert tables[1].frequencies[3] == 3


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ({"frequencies": np.ones(5)}, r"watch needs frequencies of 'E', one a row, 200 in all; got shape \(5,\)."),
        ({"frequencies": np.ones(300)}, r"one a row, 200 in all; got shape \(300,\)."),
        ({"frequencies": np.ones((200, 1))}, r"one a row, 200 in all; got shape \(200, 1\)."),
        ({"frequencies": -np.ones(200)}, r"frequencies that are finite and 0 or more"),
        ({"labels": ["a"]}, r"watch needs labels of 'E', one a row, 200 in all; got shape \(1,\)."),
    ],
)
def test_what_lies_beside_is_one_value_a_row(beside, message):
    with pytest.raises(InputError, match=message):
        watched_tables({"E": table()}, sample=1000, seed=0, **beside)


def test_of_a_callable_the_rows_are_not_known_before_training():
    (one,) = watched_tables({"E": lambda: 1 / 0}, sample=10, seed=0, frequencies=np.ones(5))
    assert len(one.frequencies) == 5
