"""What an array or a module is, without importing torch; which tensors are embedding tables."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fullspan._backend import embedding_tables, is_torch_module, is_torch_tensor, looks_like_embedding, tensor_to_numpy


def test_torch_is_not_imported_to_ask(python: Callable[[str], str]) -> None:
    code = """
import sys, numpy
from fullspan.io.formats import open_table
from fullspan._backend import is_torch_tensor, is_torch_module
assert not is_torch_tensor(numpy.ones(3)) and not is_torch_module(numpy.ones(3))
open_table(numpy.ones((3, 2)))
print("torch" in sys.modules, "pyarrow" in sys.modules, "pandas" in sys.modules)
"""
    assert python(code).split() == ["False"] * 3


def test_reading_files_does_not_load_pandas(python: Callable[[str], str], tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": ["a", "b"], "v": [[1.0, 2.0], [3.0, 4.0]]}), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("id,a,b\nx,1,2\ny,2,3.5\n")
    (tmp_path / "t.txt").write_text("a 1 2\nb 2 3\n")
    code = f"""
import sys
from fullspan.io.formats import open_table
for name in ("t.parquet", "t.csv", "t.txt"):
    assert list(open_table({str(tmp_path)!r} + "/" + name).blocks())[0].ids is not None
print("torch" in sys.modules, "pandas" in sys.modules)
"""
    assert python(code).split() == ["False"] * 2


def test_tensors_and_modules_are_recognized() -> None:
    torch = pytest.importorskip("torch")
    assert is_torch_tensor(torch.ones(2))
    assert is_torch_tensor(torch.nn.Parameter(torch.ones(2)))
    assert is_torch_module(torch.nn.Linear(2, 2))
    assert not is_torch_tensor(np.ones(2))
    assert not is_torch_module(torch.ones(2))


def test_tensors_become_arrays() -> None:
    torch = pytest.importorskip("torch")
    values = torch.tensor([[0.1, -2.0], [3.0, 4.0]])
    assert tensor_to_numpy(values.bfloat16()).dtype == np.float32
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantized = torch.quantize_per_tensor(values, 0.5, 0, torch.qint8)
        assert tensor_to_numpy(quantized).tolist() == [[0.0, -2.0], [3.0, 4.0]]
    assert tensor_to_numpy(torch._neg_view(values))[1].tolist() == [-3.0, -4.0]


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("model.embed_tokens.weight", (32000, 4096), True),
        ("transformer.wte.weight", (50257, 768), True),
        ("transformer.wpe.weight", (1024, 768), True),
        ("bert.embeddings.word_embeddings.weight", (30522, 384), True),
        ("bert.embeddings.position_embeddings.weight", (512, 384), True),
        ("bert.embeddings.LayerNorm.weight", (384,), False),
        ("gpt_neox.embed_in.weight", (50304, 768), True),
        ("embed_out.weight", (50304, 768), True),
        ("lm_head.weight", (32000, 4096), True),
        ("shared.weight", (32128, 512), True),
        ("ebc.embedding_bags.t_user.weight", (1000, 16), True),
        ("embedding_tables.user.weight", (1000, 16), True),
        ("token_embd.weight", (32000, 4096), True),
        ("layers/embedding/vars/0", (1000, 16), True),
        ("item_embedding", (62, 1536), True),
        ("embed_user_MLP.weight", (1000, 16), True),
        ("keyword_embedding.weight", (1000, 16), True),
        ("decoder.weight", (50000, 768), True),
        ("layers.0.mlp.up_proj.weight", (11008, 40), False),
        ("fc1.weight", (4000, 100), False),
        ("h.0.attn.c_attn.weight", (2304, 768), False),
        ("patch_embed.proj.weight", (768, 3, 16, 16), False),
        ("time_embedding.linear_1.weight", (1280, 320), False),
        ("optimizer.state.embed_tokens.exp_avg", (32000, 4096), False),
        ("embedding", (1, 16), False),
        ("weight", (10, 10), False),
    ],
)
def test_guess_by_name_and_shape(name: str, shape: tuple[int, ...], expected: bool) -> None:
    is_one, why = looks_like_embedding(name, shape)
    assert is_one is expected
    assert why


def test_position_embeddings_say_so() -> None:
    assert looks_like_embedding("wpe.weight", (1024, 768))[1] == "named as a position embedding"


def test_embeddings_of_a_model() -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn
    model = nn.ModuleDict(
        {
            "user": nn.Embedding(30, 4),
            "bag": nn.EmbeddingBag(20, 4),
            "linear": nn.Linear(4, 4000),
            "head": nn.ParameterDict({"pos_embed": nn.Parameter(torch.ones(9, 4))}),
        }
    )
    model["again"] = model["user"]
    found = embedding_tables(model)
    assert {name: table.also for name, table in found.items()} == {
        "user.weight": ("again.weight",),
        "bag.weight": (),
        "head.pos_embed": (),
    }
    assert found["user.weight"].weight is model["user"].weight
    assert found["bag.weight"].why == "a layer of type EmbeddingBag"
