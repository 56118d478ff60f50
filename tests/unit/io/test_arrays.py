"""Tables in memory: arrays, tensors, models, mappings, lists, iterators; and what is refused by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fullspan as fs
from fullspan._typing import Block, Table
from fullspan.errors import InputError, UnknownNameError
from fullspan.io.formats import list_tables, open_table, open_tables

E = np.random.default_rng(0).normal(size=(23, 5)).astype("f4")


def rows_of(table: Table, block_rows: int | None = None) -> Any:
    blocks = list(table.blocks(block_rows))
    assert [block.start for block in blocks] == np.cumsum([0, *map(len, blocks)])[:-1].tolist()
    assert all(block_rows is None or len(block) <= block_rows for block in blocks)
    return np.concatenate([block.rows for block in blocks])


def torch() -> Any:
    return pytest.importorskip("torch")


SOURCES = {
    "array": E.copy,
    "big endian": lambda: E.astype(">f4"),
    "read only": lambda: np.frombuffer(E.tobytes(), "f4").reshape(E.shape),
    "Fortran order": lambda: np.asfortranarray(E),
    "lists": E.tolist,
    "tuple of arrays": lambda: tuple(E),
    "list of blocks": lambda: [E[:4], E[4:4], E[4:]],
    "mapping": lambda: {"bias": E[0], "emb.weight": E},
    "nested mapping": lambda: {"state_dict": {"emb.weight": E, "step": 3}},
    "tensor": lambda: torch().tensor(E),
    "tensor with gradient": lambda: torch().tensor(E, requires_grad=True),
    "embedding": lambda: torch().nn.Embedding.from_pretrained(torch().tensor(E)),
    "state dict": lambda: torch().nn.Embedding.from_pretrained(torch().tensor(E)).state_dict(),
    "generator": lambda: (E[start : start + 9] for start in range(0, 23, 9)),
    "iterator of tensors": lambda: iter([torch().tensor(E)]),
    "iterator of lists": lambda: iter([E[:2].tolist(), E[2:].tolist()]),
    "iterator of blocks": lambda: iter([Block(E[:9], 0), Block(E[9:], 9)]),
    "list of Block objects": lambda: [Block(E[:9], 0), Block(E[9:], 9)],
}


@pytest.mark.parametrize("kind", list(SOURCES))
@pytest.mark.parametrize("block_rows", [1, 7, None])
def test_round_trip(kind: str, block_rows: int | None) -> None:
    table = open_table(SOURCES[kind]())
    assert isinstance(table, Table)
    assert table.dim == 5
    rows = rows_of(table, block_rows)
    assert np.array_equal(rows.astype("f4"), E)
    if table.repeatable:
        assert np.array_equal(rows_of(table, 3), rows)


def test_an_array_is_not_copied() -> None:
    [block] = open_table(E).blocks()
    assert np.shares_memory(block.rows, E)


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float64", "int8", "int64", "float8_e4m3fn"])
def test_types_of_tensors(name: str) -> None:
    tensor = torch().tensor(E * 10).to(getattr(torch(), name))
    table = open_table(tensor)
    assert table.dtype == name
    [block] = table.blocks()
    assert block.rows.dtype == (
        np.float64 if name in ("float64", "int64") else np.float16 if name == "float16" else np.float32
    )
    assert np.array_equal(block.rows, tensor.double().numpy())


def test_narrow_floats_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    table = open_table(E.astype(ml_dtypes.bfloat16))
    assert table.dtype == "bfloat16"
    [block] = table.blocks()
    assert block.rows.dtype == np.float32
    assert np.array_equal(block.rows, E.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_tensors_that_hold_no_table() -> None:
    with pytest.raises(InputError, match="got a tensor on the meta device"):
        open_table(torch().empty(3, 2, device="meta"))
    with pytest.raises(
        InputError, match=r"needs a dense tensor; got layout torch.sparse_coo. Pass tensor.to_dense\(\)"
    ):
        open_table(torch().eye(3).to_sparse())
    with pytest.raises(InputError, match="needs real numbers; got dtype complex64"):
        open_table(torch().ones(3, 2, dtype=torch().complex64))
    with pytest.raises(InputError, match=r"got shape \(3,\)"):
        open_table(torch().ones(3))


def test_an_iterator_is_read_once() -> None:
    table = open_table(iter([E]))
    assert (table.n_rows, table.repeatable) == (None, False)
    assert np.array_equal(rows_of(table), E)
    with pytest.raises(
        InputError, match="needs to be read again, but its rows came from an iterator; got a second pass"
    ):
        rows_of(table)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (3, "needs a path, an array.*; got int"),
        (None, "got NoneType"),
        ({1, 2}, "got set"),
        (SimpleNamespace(), "got types.SimpleNamespace"),
        (np.ones(3), r"got shape \(3,\) in 'table'. Is it one value a row"),
        (np.ones((1, 2, 3)), r"got shape \(1, 2, 3\)"),
        (np.ones((0, 3)), "at least one row and one dimension"),
        (np.ones((3, 0)), "at least one row and one dimension"),
        (np.ones((3, 2), complex), "rows of real numbers; got dtype complex128"),
        (np.array([["a"]]), "rows of real numbers; got dtype <U1"),
        (np.array([[None]]), "rows of real numbers; got dtype object"),
        (np.ma.masked_array(np.ones((2, 2)), [[True, False], [False, False]]), "got masked values"),
        ([], "got an empty list"),
        ([1, 2], "needs rows of numbers; got int in row 0"),
        ([[1, 2], [3]], "row 0 has 2 and row 1 1"),
        ([[1, "a"]], "rows of real numbers; got dtype <U"),
        ([[1, [2]]], "needs rows of real numbers; got"),
        (iter([]), "got an iterator without blocks"),
        (iter([np.ones(3)]), r"needs 2-D blocks of rows; got shape \(3,\) in block 0. Are these single rows"),
        (iter(["text"]), "an iterator whose block 0 is str"),
        (iter([np.ones((2, 0))]), "at least one row and one dimension"),
        ({}, "needs a 2-D array of numbers; got 0 arrays"),
        ({"b": np.ones(3)}, "needs a 2-D array of numbers; got 1 arrays, none of them 2-D"),
    ],
)
def test_what_is_no_table_is_refused_by_name(source: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rows_of(open_table(source))


def test_blocks_of_different_dims() -> None:
    with pytest.raises(InputError, match="block 0 has 5 and block 1 4"):
        rows_of(open_table(iter([E, E[:, :4]])))
    with pytest.raises(InputError, match="needs at least one rows; got 0|at least one"):
        rows_of(open_table(iter([E[:0]])))


def test_an_object_with_blocks_is_taken_as_it_is() -> None:
    table = open_table(E)
    assert open_table(table) is table
    [block] = open_table(table, ids=list("abcdefghijklmnopqrstuvw")).blocks()
    assert block.ids is not None
    assert block.ids[2] == "c"


def test_ids_labels_and_frequencies_go_with_the_blocks() -> None:
    ids, labels, frequencies = [f"w{row}" for row in range(23)], np.arange(23) % 3, np.arange(23)
    for source in (E, iter([E[:9], E[9:]]), torch().tensor(E)):
        table = open_table(source, ids=ids, labels=labels, frequencies=torch().tensor(frequencies))
        blocks = list(table.blocks(4))
        assert [name for block in blocks for name in block.ids] == ids  # type: ignore[union-attr]
        assert np.concatenate([block.labels for block in blocks]).tolist() == labels.tolist()  # type: ignore[arg-type]
        assert np.concatenate([block.frequencies for block in blocks]).tolist() == list(range(23))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ids": ["a"]}, "'table' has 23 rows and needs as many ids; got 1"),
        ({"labels": np.ones((23, 2))}, r"labels need one value a row, shape \(n_rows,\); got shape \(23, 2\)"),
        ({"frequencies": [-1.0] * 23}, "finite numbers from 0 on; got -1.0 in row 0"),
        ({"frequencies": [1.0] * 22 + [np.nan]}, "finite numbers from 0 on; got nan in row 22"),
        ({"frequencies": ["x"] * 23}, "frequencies need numbers; got dtype object"),
        ({"ids": 3}, "ids need a column's name, a path or an array; got int"),
    ],
)
def test_what_lies_beside_must_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_table(E, **options)


def test_a_stream_longer_than_its_ids() -> None:
    for length in (9, 40):
        with pytest.raises(InputError, match=rf"needs as many ids; got {length}"):
            rows_of(open_table(iter([E[:9], E[9:]]), ids=range(length)))


def test_a_model_gives_its_embeddings_once() -> None:
    nn = torch().nn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wte = nn.Embedding(40, 4)
            self.wpe = nn.Embedding(8, 4)
            self.mlp = nn.Linear(4, 90)
            self.lm_head = nn.Linear(4, 40, bias=False)
            self.lm_head.weight = self.wte.weight

    model = Model()
    assert [table.name for table in open_tables(model)] == ["wte.weight", "wpe.weight"]
    infos = list_tables(model)
    assert [(info.name, info.also) for info in infos] == [("wte.weight", ("lm_head.weight",)), ("wpe.weight", ())]
    assert open_table(model, table="mlp.weight").n_rows == 90
    assert open_table(model, table="lm_head.weight").n_rows == 40
    assert [table.name for table in open_tables(model.state_dict())] == ["wte.weight", "wpe.weight"]
    with pytest.raises(UnknownNameError, match="no table named 'wte.weigh'. Did you mean \"wte.weight\""):
        open_table(model, table="wte.weigh")
    with pytest.raises(InputError, match="needs an embedding layer to measure; got torch.nn.modules.linear.Linear"):
        open_table(nn.Linear(3, 3))


def test_a_mapping_by_name() -> None:
    source = {"user": E, "item": E + 1, "bias": E[0]}
    assert [table.name for table in open_tables(source)] == ["user", "item"]
    assert open_table(source, table="item").name == "item"
    assert [(info.name, info.embedding) for info in list_tables(source)] == [("user", True), ("item", True)]
    with pytest.raises(UnknownNameError, match="no table named 'itm'.*item"):
        open_table(source, table="itm")


def test_all_arrays_of_a_plain_mapping_are_measured() -> None:
    """Also those that are not called embeddings, and one array under two names."""
    source = {"item_embedding": E, "W": E + 1, "copy": E, "bias": E[0]}
    assert [table.name for table in open_tables(source)] == ["item_embedding", "W", "copy"]
    assert [table.note for table in open_tables(source)] == [None] * 3


def test_what_is_left_out_of_a_state_dict_is_named() -> None:
    weights = {f"layers.{at}.weight": E + at for at in range(7)}
    source = {"emb.weight": E, **weights, "lm_head.weight": E, "layers.0.bias": E[0]}
    report = fs.measure(source, measures=["mean_norm"])
    assert list(report.tables) == ["emb.weight"]
    (note,) = [each for each in report["emb.weight"].record.notes if "left out" in each]
    assert note.startswith(
        "8 other 2-D arrays were left out, not being embeddings by name or tied to one: layers.0.weight"
    )
    assert 'layers.4.weight and 3 more. Measure them too with table="*".' in note
    assert len(fs.measure(source, measures=["mean_norm"], table="*")) == 9
    assert not fs.measure(source, measures=["mean_norm"], table="emb.weight")["emb.weight"].record.notes


@pytest.mark.parametrize("block_rows", [0, -1])
def test_a_block_needs_a_row(block_rows: int) -> None:
    for source in (E, iter([E])):
        with pytest.raises(InputError, match=f"A block needs at least one row; got block_rows={block_rows}"):
            list(open_table(source).blocks(block_rows))


def test_a_list_of_block_objects_keeps_what_lies_beside_and_can_be_read_again() -> None:
    table = open_table([Block(E[:9], 0, ids=np.arange(9)), Block(E[9:], 0, ids=np.arange(9, len(E)))])
    for _ in range(2):
        blocks = list(table.blocks())
        assert np.concatenate([block.ids for block in blocks]).tolist() == list(range(len(E)))  # type: ignore[arg-type]
        assert [block.start for block in blocks] == [0, 9]


@pytest.mark.parametrize(
    ("kinds", "of_list", "of_iterator"),
    [
        (("float32", "float64"), "float64", None),
        (("float64", "float32"), "float64", "float64"),
        (("float32", "float16", "int16"), "float32", "float32"),
        (("int64", "float32"), "float64", None),
        (("float32", "int64"), "float64", None),
        (("int8", "int8"), "int8", "int8"),
        (("int8", "float16"), "float16", None),
        (("bool", "int8"), "int8", None),
        (("bfloat16", "float32"), "float32", None),
        (("float32", "bfloat16"), "float32", "float32"),
        (("bfloat16", "float16"), "float32", None),
    ],
)
def test_blocks_of_different_types(kinds: tuple[str, ...], of_list: str, of_iterator: str | None) -> None:
    import ml_dtypes

    whole = np.arange(4 * len(kinds)).reshape(-1, 2) % 2
    parts = [
        whole[2 * at : 2 * at + 2].astype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
        for at, kind in enumerate(kinds)
    ]
    table = open_table(parts)
    assert table.dtype == of_list
    rows = [block.rows for block in table.blocks()]
    assert len({each.dtype for each in rows}) == 1
    assert np.array_equal(np.concatenate(rows), whole)
    stream = open_table(iter(parts))
    if of_iterator is not None:
        assert stream.dtype == of_iterator
        assert np.array_equal(rows_of(stream), whole)
        return
    with pytest.raises(InputError, match=rf"fit the type of the first; block 0 is {kinds[0]} and block 1 {kinds[1]}\."):
        list(stream.blocks())


def test_blocks_of_nested_lists_may_hold_whole_numbers_or_not() -> None:
    table = open_table(iter([[[1, 2], [3, 4]], [[0.5, 1.0]]]))
    assert table.dtype == "float64"
    assert rows_of(table).tolist() == [[1, 2], [3, 4], [0.5, 1]]


def test_a_list_of_blocks_with_something_else_in_it() -> None:
    with pytest.raises(InputError, match="an iterator whose block 1 is str"):
        list(open_table([E, "text"]).blocks())
