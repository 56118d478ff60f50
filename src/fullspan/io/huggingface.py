"""Folders of Hugging Face: a model with its tokens as ids, and a data set in shards of Arrow or parquet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fullspan._typing import Table
from fullspan.errors import FormatError, MissingFileError
from fullspan.io import huggingface_dataset, safetensors_, torch_
from fullspan.io._bounds import reading
from fullspan.io.base import OpenOptions, TableInfo
from fullspan.io.beside import attach
from fullspan.io.checkpoint import Checkpoint, StoredTensor, quote
from fullspan.io.huggingface_dataset import is_dataset_folder
from fullspan.io.safetensors_ import read_json

__all__ = ["is_dataset_folder", "is_model_folder", "list_tables", "open_checkpoint", "open_tables", "read_tokens"]

MAX_TOKENIZER_BYTES = 2**28
MAX_VOCAB_BYTES = 2**27
MAX_MODULES_BYTES = 2**20

#: Where the weights are looked for, in this order.
_WEIGHTS = (
    "model.safetensors.index.json",
    "model.safetensors",
    "pytorch_model.bin.index.json",
    "pytorch_model.bin",
    "adapter_model.safetensors",
)


def open_tables(path: Path, names: Sequence[str] | None, options: OpenOptions) -> list[Table]:
    """Open tables of a model folder, those with a row a token with the tokens as ids; or of a data set folder."""
    if is_dataset_folder(path):
        return huggingface_dataset.open_tables(path, names, options)
    return [attach(table, options) for table in open_checkpoint(path).tables(names, options)]


def list_tables(path: Path) -> list[TableInfo]:
    """Every 2-D floating or quantized tensor of a model folder, or the columns of vectors of a data set folder."""
    if is_dataset_folder(path):
        return huggingface_dataset.list_tables(path)
    return open_checkpoint(path).infos()


def is_model_folder(path: Path) -> bool:
    """Whether a folder holds weights where a model has them."""
    return _weights(_module(path)) is not None


def open_checkpoint(path: Path) -> Checkpoint:
    """The tensors of the folder `path`, or of the first module that it lists."""
    path = _module(path)
    weights = _weights(path)
    if weights is None:
        raise MissingFileError(f"{quote(path)} needs weights, such as {', '.join(_WEIGHTS[:4])}; it has none of them.")
    if weights.name.endswith(".bin.index.json"):
        tensors: Mapping[str, StoredTensor] = safetensors_.sharded(
            weights, lambda shard: torch_.open_checkpoint(shard).tensors
        )
    elif weights.suffix == ".bin":
        tensors = torch_.open_checkpoint(weights).tensors
    else:
        tensors = safetensors_.open_checkpoint(weights).tensors
    return Checkpoint(weights, "huggingface", tensors, _token_ids(path))


def _module(path: Path) -> Path:
    """The folder of the first module of sentence-transformers, where the weights are not in `path` itself."""
    if _weights(path) is not None or not (path / "modules.json").is_file():
        return path
    modules = read_json(path / "modules.json", MAX_MODULES_BYTES)
    first = modules[0].get("path") if isinstance(modules, list) and modules and isinstance(modules[0], dict) else None
    is_inside = isinstance(first, str) and first not in ("", ".", "..") and not set(first) & set("/\\\0")
    return path / first if isinstance(first, str) and is_inside else path


def _weights(path: Path) -> Path | None:
    """The file of the weights, or the only safetensors file of the folder."""
    for name in _WEIGHTS:
        if (path / name).is_file():
            return path / name
    indexes = sorted(path.glob("*.safetensors.index.json"))
    files = sorted(path.glob("*.safetensors"))
    if len(indexes) == 1:
        return indexes[0]
    return files[0] if len(files) == 1 else None


def _token_ids(path: Path) -> Callable[[StoredTensor], Any]:
    """The function from a tensor to the tokens, where it has a row a token; they are read at most once."""
    read: list[Any] = []

    def ids_of(tensor: StoredTensor) -> Any:
        if len(tensor.shape) != 2 or "position" in tensor.name:
            return None
        if not read:
            read.append(read_tokens(path))
        tokens = read[0]
        return tokens if tokens is not None and len(tokens) == tensor.shape[0] else None

    return ids_of


def read_tokens(path: Path) -> Any:
    """The tokens of a model folder by their number, ``(n_tokens,)`` of str, or None when it has no list of them."""
    for name, read in (("tokenizer.json", _from_tokenizer), ("vocab.json", _from_vocab), ("vocab.txt", _from_lines)):
        if (path / name).is_file():
            return read(path / name)
    return None


def _from_tokenizer(path: Path) -> Any:
    content = read_json(path, MAX_TOKENIZER_BYTES)
    model = content.get("model") if isinstance(content, dict) else None
    vocab = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocab, list):  # pieces with their scores
        vocab = {piece[0]: number for number, piece in enumerate(vocab) if isinstance(piece, list) and piece}
    if not isinstance(vocab, dict):
        return None
    numbers: dict[Any, Any] = dict(vocab)
    for added in content.get("added_tokens") or ():
        if isinstance(added, dict) and isinstance(added.get("content"), str):
            numbers[added["content"]] = added.get("id")
    return _by_number(numbers)


def _from_vocab(path: Path) -> Any:
    vocab = read_json(path, MAX_VOCAB_BYTES)
    return _by_number(vocab) if isinstance(vocab, dict) else None


def _by_number(numbers: Mapping[Any, Any]) -> Any:
    """The tokens in the order of their numbers, or None when the numbers are not 0, 1, … each once."""
    tokens: list[Any] = [None] * len(numbers)
    for token, number in numbers.items():
        if type(number) is not int or not 0 <= number < len(tokens) or not isinstance(token, str):
            return None
        tokens[number] = token
    return None if None in tokens or not tokens else np.array(tokens, dtype=object)


def _from_lines(path: Path) -> Any:
    with reading(path, "a list of tokens"):
        size = path.stat().st_size
        if size > MAX_VOCAB_BYTES:
            raise FormatError(f"{quote(path)} needs at most {MAX_VOCAB_BYTES} bytes; got {size}.")
        lines = path.read_text("utf-8", errors="backslashreplace").split("\n")
    if lines[-1] == "":
        lines.pop()
    return np.array([line.removesuffix("\r") for line in lines], dtype=object) if lines else None
