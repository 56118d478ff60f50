"""Folders of Hugging Face: models with tokens as ids, and data sets that save_to_disk wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fullspan.errors import FormatError, InputError, MissingFileError, UnknownNameError
from fullspan.io import huggingface, huggingface_dataset
from fullspan.io.base import OpenOptions

E = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
TOKENS = ["[PAD]", "the", "##s", "é", "▁a", "<new>"]


def rows_of(table: Any) -> np.ndarray:
    return np.concatenate([block.rows for block in table.blocks(4)])


def model(folder: Path, rows: np.ndarray = E) -> Path:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    folder.mkdir(exist_ok=True)
    save_file({"embeddings.word_embeddings.weight": rows}, folder / "model.safetensors")
    (folder / "config.json").write_text("{}")
    return folder


def one(folder: Path, **options: Any) -> Any:
    (table,) = huggingface.open_tables(folder, None, OpenOptions(**options))
    return table


def write_tokens(folder: Path, name: str) -> None:
    numbers = {token: number for number, token in enumerate(TOKENS)}
    if name == "vocab.txt":
        (folder / name).write_text("\n".join(TOKENS) + "\n", "utf-8")
    elif name == "vocab.json":
        (folder / name).write_text(json.dumps(numbers))
    else:
        vocab: Any = {token: number for token, number in numbers.items() if number < 5}
        if name == "unigram":
            vocab = [[token, -1.0] for token in vocab]
        content = {"model": {"vocab": vocab}, "added_tokens": [{"id": 5, "content": "<new>"}]}
        (folder / "tokenizer.json").write_text(json.dumps(content))


@pytest.mark.parametrize("name", ["tokenizer.json", "unigram", "vocab.json", "vocab.txt"])
def test_tokens_become_the_ids_of_the_rows(tmp_path: Path, name: str) -> None:
    folder = model(tmp_path / "a model")
    write_tokens(folder, name)
    table = one(folder)
    np.testing.assert_array_equal(rows_of(table), E)
    assert list(next(table.blocks()).ids) == TOKENS
    assert [info.name for info in huggingface.list_tables(folder)] == ["embeddings.word_embeddings.weight"]


def test_tokens_that_do_not_fit_are_left_out(tmp_path: Path) -> None:
    folder = model(tmp_path / "m", E[:5].copy())
    write_tokens(folder, "vocab.txt")
    assert one(folder).ids is None
    folder = model(tmp_path / "n")
    (folder / "vocab.json").write_text(json.dumps(dict.fromkeys(TOKENS, 0)))
    assert one(folder).ids is None
    (folder / "tokenizer.json").write_text('{"model": {"vocab": 3}}')
    assert one(folder).ids is None
    (folder / "tokenizer.json").write_text("[")
    with pytest.raises(FormatError, match="needs JSON"):
        one(folder)


def test_given_ids_replace_the_tokens(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    write_tokens(folder, "vocab.txt")
    assert list(next(one(folder, ids=np.arange(6)).blocks()).ids) == list(range(6))


def test_vocabularies_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = model(tmp_path / "m")
    write_tokens(folder, "vocab.txt")
    monkeypatch.setattr(huggingface, "MAX_VOCAB_BYTES", 5)
    with pytest.raises(FormatError, match=r"vocab.txt' needs at most 5 bytes; got \d+"):
        one(folder)
    write_tokens(folder, "vocab.json")
    with pytest.raises(FormatError, match=r"vocab.json' needs at most 5 bytes of JSON"):
        one(folder)


def test_sharded_models_of_both_kinds(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    save_file = pytest.importorskip("safetensors.numpy").save_file
    names = {"embed_tokens.weight": "part-1", "lm_head.weight": "part-2"}
    for kind, index in (("safetensors", "model.safetensors.index.json"), ("bin", "pytorch_model.bin.index.json")):
        folder = tmp_path / kind
        folder.mkdir()
        for name, part in names.items():
            if kind == "bin":
                torch.save({name: torch.from_numpy(E)}, folder / f"{part}.bin")
            else:
                save_file({name: E}, folder / f"{part}.safetensors")
        weight_map = {name: f"{part}.{kind}" for name, part in names.items()}
        (folder / index).write_text(json.dumps({"weight_map": weight_map}))
        tables = huggingface.open_tables(folder, None, OpenOptions())
        assert [table.name for table in tables] == list(names)
        np.testing.assert_array_equal(rows_of(tables[1]), E)


def test_a_single_pytorch_file(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"wte.weight": torch.from_numpy(E)}, tmp_path / "pytorch_model.bin")
    assert huggingface.is_model_folder(tmp_path)
    np.testing.assert_array_equal(rows_of(one(tmp_path)), E)


def test_the_only_safetensors_file_is_taken(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    (folder / "model.safetensors").rename(folder / "weights.safetensors")
    np.testing.assert_array_equal(rows_of(one(folder)), E)
    (folder / "more.safetensors").write_bytes((folder / "weights.safetensors").read_bytes())
    assert not huggingface.is_model_folder(folder)
    with pytest.raises(MissingFileError, match=r"needs weights, such as model.safetensors.index.json"):
        one(folder)


def test_the_first_module_of_sentence_transformers(tmp_path: Path) -> None:
    inner = model(tmp_path / "0_StaticEmbedding")
    write_tokens(inner, "tokenizer.json")
    modules = tmp_path / "modules.json"
    modules.write_text(json.dumps([{"idx": 0, "path": "0_StaticEmbedding"}]))
    assert huggingface.is_model_folder(tmp_path)
    assert list(next(one(tmp_path).blocks()).ids) == TOKENS
    for lie in ([{"path": "../x"}], [{"path": ".."}], [], {}, [3], [{"path": 3}]):
        modules.write_text(json.dumps(lie))
        assert not huggingface.is_model_folder(tmp_path)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    datasets = pytest.importorskip("datasets")
    folder = tmp_path_factory.mktemp("datasets")
    features = datasets.Features({"id": datasets.Value("string"), "vec": datasets.Sequence(datasets.Value("float32"))})
    content = {"id": [f"r{number}" for number in range(30)], "vec": np.tile(E, (5, 1)).tolist()}
    whole = datasets.Dataset.from_dict(content, features=features)
    datasets.disable_progress_bars()
    whole.save_to_disk(folder / "one", num_shards=3)
    datasets.DatasetDict({"train": whole, "test": whole.select(range(6))}).save_to_disk(folder / "two")
    return folder


def test_a_data_set_in_shards(data: Path) -> None:
    assert huggingface.is_dataset_folder(data / "one")
    assert [info.name for info in huggingface.list_tables(data / "one")] == ["one"]
    table = one(data / "one")
    np.testing.assert_array_equal(rows_of(table), np.tile(E, (5, 1)))
    ids = np.concatenate([block.ids for block in table.blocks(4)])
    assert list(ids) == [f"r{number}" for number in range(30)]


def test_splits(data: Path) -> None:
    infos = huggingface.list_tables(data / "two")
    assert [(info.name, info.format) for info in infos] == [
        ("train", "huggingface dataset"),
        ("test", "huggingface dataset"),
    ]
    both = huggingface.open_tables(data / "two", None, OpenOptions())
    assert [table.name for table in both] == ["train", "test"]
    for name in ("test", "test/vec"):
        (table,) = huggingface.open_tables(data / "two", [name], OpenOptions())
        np.testing.assert_array_equal(rows_of(table), E)
    with pytest.raises(UnknownNameError, match=r"has no split 'tset'. Did you mean \"test\"\? It has: train, test"):
        huggingface.open_tables(data / "two", ["tset"], OpenOptions())


def copied(source: Path, target: Path) -> Path:
    target.mkdir()
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


def test_states_that_lie(data: Path, tmp_path: Path) -> None:
    folder = copied(data / "one", tmp_path / "x")
    state = json.loads((folder / "state.json").read_text())

    def opened(**change: Any) -> None:
        (folder / "state.json").write_text(json.dumps({**state, **change}))
        huggingface.list_tables(folder)

    with pytest.raises(FormatError, match=r"needs parts that lie in it; got '../x.arrow'. It was not opened"):
        opened(_data_files=[{"filename": "../x.arrow"}])
    with pytest.raises(MissingFileError, match=r"needs its part 'none.arrow'; it is missing"):
        opened(_data_files=[{"filename": "none.arrow"}])
    with pytest.raises(FormatError, match="needs a list of data files; got none"):
        opened(_data_files=[])
    with pytest.raises(InputError, match="needs rows in stored order; got a selection"):
        opened(_indices_data_files=[{"filename": "i.arrow"}])
    (folder / "dataset_dict.json").write_text('{"splits": []}')
    with pytest.raises(FormatError, match="needs a list of splits; got none"):
        huggingface_dataset.list_tables(folder)
    (folder / "dataset_dict.json").write_text('{"splits": [".."]}')
    with pytest.raises(FormatError, match=r"needs parts that lie in it; got '..'. It was not opened"):
        huggingface_dataset.list_tables(folder)
