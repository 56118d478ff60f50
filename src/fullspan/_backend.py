"""What an array or a module is, asked of `sys.modules`; and which tensors of a model are embedding tables.

Torch is never imported to ask: an object cannot be a tensor in a process that has not loaded torch.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

__all__ = [
    "ModelTable",
    "embedding_tables",
    "is_torch_module",
    "is_torch_tensor",
    "loaded",
    "looks_like_embedding",
    "tensor_dtype",
    "tensor_to_numpy",
]

_START = r"(?:^|[./_])"
_END = r"(?:[./_](?:weight|embeddings?|kernel|table|default|vars|\d+)|$)*$"
_POSITION = re.compile(
    rf"{_START}(?:wpe|pos(?:ition(?:al|s)?)?_?emb(?:d|ed|edding)?s?|embed_positions|position_embd){_END}", re.IGNORECASE
)
_TOKEN = re.compile(
    rf"{_START}(?:embed_tokens|wte|embed_in|embed_out|lm_head|token_embd|shared\.weight|encode_tokens|"
    rf"(?:\w+_)?(?:embeddings?|embeds?|embs?|embedding_table|embed_matrix)(?:[_.]\d+)?|"
    rf"(?:user|item|movie|product)s?_(?:factors|vectors))"
    rf"{_END}",
    re.IGNORECASE,
)
_OF_SOMETHING = re.compile(
    rf"{_START}emb(?:ed|edding)?s?_(?:user|item|movie|product|word|token|node|entity|relation|char)s?(?:_[a-z]+)?{_END}",
    re.IGNORECASE,
)
_USERS_OR_ITEMS = re.compile(r"(?:^|[./])(?:user|item|movie|product)s?(?:\.weight)?$", re.IGNORECASE)
_BAG = re.compile(r"(?:^|\.)embedding_bags\.[^.]+\.weight$")
_ONE_OF_MANY = re.compile(r"(?:^|\.)(?:embeddings|embs|embedding_(?:tables|dict|layers)|emb_dict)\.[^.]+(?:\.weight)?$")
_NOT_A_TABLE = re.compile(
    r"(?:^|[._/\d])(?:bias|\w*norm|proj|projection|linear|dense|fc|conv|conv[123]d|mlp|attn|attention|query|key|value|"
    r"qkv|gate|lora|classifier|exp_avg|momentum|optimizer|inv_freq|scale|running)(?=$|[._/\d])",
    re.IGNORECASE,
)
#: A tensor without a telling name is taken for a table from these many rows, and rows a dimension, on.
_MANY_ROWS, _MANY_ROWS_A_DIM = 1000, 20


def loaded(name: str) -> ModuleType | None:
    """The module `name` if this process has already imported it."""
    return sys.modules.get(name)


def is_torch_tensor(value: Any) -> bool:
    """Whether `value` is a torch tensor; never imports torch."""
    tensor = getattr(loaded("torch"), "Tensor", None)
    return tensor is not None and isinstance(value, tensor)


def is_torch_module(value: Any) -> bool:
    """Whether `value` is a torch module; never imports torch."""
    module = getattr(loaded("torch.nn"), "Module", None)
    return module is not None and isinstance(value, module)


def tensor_dtype(tensor: Any) -> str:
    """The name of a torch type without the prefix: ``"bfloat16"``."""
    return str(tensor.dtype).removeprefix("torch.")


def tensor_to_numpy(tensor: Any) -> Any:
    """A tensor of any device and type on the host; what NumPy has no type for becomes float32, which holds it."""
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    narrow = tensor_dtype(tensor).startswith(("bfloat16", "float8_", "float4_"))
    if narrow:
        tensor = tensor.float()
    return tensor.cpu().resolve_neg().numpy()


def looks_like_embedding(name: str, shape: tuple[int | None, ...]) -> tuple[bool, str]:
    """Guess from its name and shape whether a tensor is an embedding table, and say why in a few words.

    Parameters
    ----------
    name
        The tensor's key in a checkpoint, such as ``"model.embed_tokens.weight"``.
    shape
        Its shape; None for a number of rows that is not known.

    Returns
    -------
    tuple of bool and str
        The guess, and the reason. Position embeddings count and say so; the weight of a linear layer does not,
        except an output layer with a row a token (``lm_head``, ``embed_out``).

    Examples
    --------
    >>> looks_like_embedding("model.embed_tokens.weight", (32000, 4096))
    (True, 'named as an embedding')
    >>> looks_like_embedding("wpe.weight", (1024, 768))
    (True, 'named as a position embedding')
    >>> looks_like_embedding("layers.0.mlp.up_proj.weight", (11008, 4096))
    (False, 'named as another kind of weight')
    """
    if len(shape) != 2:
        return False, f"{len(shape)}-D, a table is 2-D"
    rows, dim = shape
    if rows is not None and dim is not None and (rows < 2 or dim < 2):
        return False, "a single row or column"
    if _BAG.search(name):
        return True, "a TorchRec embedding bag"
    if _OF_SOMETHING.search(name) or _USERS_OR_ITEMS.search(name):
        return True, "named as an embedding"
    if _NOT_A_TABLE.search(name):
        return False, "named as another kind of weight"
    if _POSITION.search(name):
        return True, "named as a position embedding"
    if _TOKEN.search(name) or _ONE_OF_MANY.search(name):
        return True, "named as an embedding"
    if rows is not None and dim is not None and rows >= max(_MANY_ROWS, _MANY_ROWS_A_DIM * dim):
        return True, f"{rows // dim} rows a dimension"
    return False, "neither its name nor its shape is that of an embedding"


@dataclass(frozen=True)
class ModelTable:
    """An embedding table of a model.

    Parameters
    ----------
    name
        Its key in the state dict.
    weight
        The tensor, ``(n_rows, dim)``, not a copy.
    why
        How it was recognized.
    also
        Further names of the same storage: tied weights count once.
    """

    name: str
    weight: Any
    why: str
    also: tuple[str, ...] = ()


def embedding_tables(module: Any) -> dict[str, ModelTable]:
    """The embedding tables of a torch module by name, each storage once.

    Layers of type `Embedding` and `EmbeddingBag` come first, then parameters whose names say so.
    """
    found: dict[str, ModelTable] = {}
    seen: dict[Any, str] = {}
    for name, weight, why in (*_embedding_layers(module), *_named_like_embeddings(module)):
        first = seen.setdefault(_storage(weight), name)
        if first == name:
            found.setdefault(name, ModelTable(name, weight, why))
        elif name not in found[first].also:
            old = found[first]
            found[first] = ModelTable(old.name, old.weight, old.why, (*old.also, name))
    return found


def _embedding_layers(module: Any) -> Iterator[tuple[str, Any, str]]:
    nn = sys.modules["torch.nn"]
    for path, layer in module.named_modules(remove_duplicate=False):
        if isinstance(layer, (nn.Embedding, nn.EmbeddingBag)):
            yield f"{path}.weight" if path else "weight", layer.weight, f"a layer of type {type(layer).__name__}"


def _named_like_embeddings(module: Any) -> Iterator[tuple[str, Any, str]]:
    for name, weight in module.named_parameters(remove_duplicate=False):
        is_one, why = looks_like_embedding(name.replace("parametrizations.", ""), tuple(weight.shape))
        if is_one and "named" in why and not name.endswith(".original"):
            yield name, weight, why


def _storage(weight: Any) -> Any:
    """What two names of the same weights have in common."""
    pointer = weight.data_ptr() if weight.device.type != "meta" else 0
    return (pointer, tuple(weight.shape), weight.stride()) if pointer else id(weight)
