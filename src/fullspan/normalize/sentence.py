"""A fitted chain as modules of sentence-transformers, which serve it without fullspan and without custom code."""

from __future__ import annotations

from typing import Any

import numpy as np

from fullspan._extras import require
from fullspan.errors import InputError
from fullspan.normalize.affine import Affine
from fullspan.normalize.folded import Folded
from fullspan.normalize.module import fold_into

__all__ = ["to_sentence_modules"]


def to_sentence_modules(normalizer: Any, *, tolerance: float | None = 1e-4) -> list[Any]:
    """Modules of sentence-transformers that map sentence embeddings as a fitted normalizer does.

    Parameters
    ----------
    normalizer
        What was fitted, or a folded chain, of affine maps, cuts and unit norms.
    tolerance
        Bound on the error of an output of the first affine map, in standard deviations of that output over the rows of
        the fit, above which the export is refused; None takes any.

    Returns
    -------
    list of torch.nn.Module
        ``Dense`` without an activation for each affine map and cut, ``Normalize`` for each unit norm. Append them to a
        ``SentenceTransformer``: they are saved in its ``modules.json`` with their weights as safetensors, and load
        with no code but that of sentence-transformers.

    Raises
    ------
    MissingExtraError
        If sentence-transformers is not installed.
    InputError
        If the chain has another stage, or rounding may cost more than `tolerance`.

    Notes
    -----
    ``Dense`` computes ``x W + c``: the mean is taken away last, after its digits are gone. Embeddings of sentences have
    small means, so the bound is rarely met; :func:`fullspan.to_module` keeps ``(x - b) W``.

    Examples
    --------
    ```python
    model = SentenceTransformer("all-MiniLM-L6-v2")
    for module in to_sentence_modules(fs.load("items.norm")):
        model.append(module)
    model.save("model-with-norm")
    ```
    """
    require("sentence_transformers", "sentence", "to_sentence_modules")
    folded = Folded.of(normalizer)
    made, dim = [], folded.dim_in
    for place, stage in enumerate(folded.stages):
        made.append(_module(stage, dim, folded.stamp if place == 0 else {}, tolerance))
        dim = dim if stage.dim_out is None else stage.dim_out
    return made


def _module(stage: Any, dim: int, stamp: dict[str, Any], tolerance: float | None) -> Any:
    dense, normalize = _classes()
    if stage.kind == "unit":
        return normalize()
    if stage.kind == "head":
        stage = Affine(np.zeros(dim), np.eye(dim)[:, : stage.size])
    if stage.kind != "affine":
        raise InputError(
            f"to_sentence_modules needs affine maps, cuts and unit norms; got a stage of the kind '{stage.kind}'. "
            "Leave that step out of the pipeline, or serve it with to_module."
        )
    import torch

    size = dim if stage.dim_out is None else stage.dim_out
    identity = torch.nn.Linear(size, size)
    with torch.no_grad():
        identity.weight.copy_(torch.eye(size))
        identity.bias.zero_()
    known = tolerance if "in_variance" in stamp else None
    linear = fold_into(Folded((stage,), dim, size, {}, stamp), identity, tolerance=known).linear
    return dense(
        dim,
        size,
        activation_function=torch.nn.Identity(),
        init_weight=linear.weight.detach(),
        init_bias=linear.bias.detach(),
    )


def _classes() -> tuple[Any, Any]:
    try:
        from sentence_transformers.sentence_transformer.modules import Dense, Normalize
    except ImportError:  # before version 6
        from sentence_transformers.models import Dense, Normalize  # type: ignore[no-redef,attr-defined]
    return Dense, Normalize
