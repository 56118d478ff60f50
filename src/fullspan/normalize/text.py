"""Strategies as text: ``"center | whiten(power=0.5) | l2"``."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from fullspan.errors import InputError, UnknownNameError, did_you_mean
from fullspan.normalize.base import Normalizer
from fullspan.normalize.cut import RandomProjection, Truncate, TruncatedSVD
from fullspan.normalize.outliers import Clip, Outliers
from fullspan.normalize.pipeline import Pipeline, make_pipeline
from fullspan.normalize.quantile_normal import QuantileNormal
from fullspan.normalize.scale import Center, MinMax, RobustScale, Standardize
from fullspan.normalize.unit import UnitNorm
from fullspan.normalize.weighting import SIF
from fullspan.normalize.whiten import PCA, RemoveTop, Whiten

__all__ = ["STRATEGIES", "parse_strategy", "strategy_text"]

#: Name to normalizer; the first name of each is the one that is written.
STRATEGIES: dict[str, type[Normalizer]] = {
    "center": Center,
    "standardize": Standardize,
    "zscore": Standardize,
    "l2": UnitNorm,
    "unit": UnitNorm,
    "minmax": MinMax,
    "robust": RobustScale,
    "quantile": QuantileNormal,
    "clip": Clip,
    "outliers": Outliers,
    "pca": PCA,
    "whiten": Whiten,
    "remove_top": RemoveTop,
    "abtt": RemoveTop,
    "sif": SIF,
    "truncate": Truncate,
    "random_projection": RandomProjection,
    "svd": TruncatedSVD,
}
_LONGEST = 4096


def parse_strategy(text: str) -> Pipeline:
    """The chain that a text names.

    Parameters
    ----------
    text
        Steps separated by ``|``: a name, and parameters in parentheses as in Python, literals only.

    Raises
    ------
    InputError
        If the text is no chain of steps, or a parameter is no literal or has no such name.
    UnknownNameError
        If no normalizer has the name.

    Examples
    --------
    >>> parse_strategy("center | whiten(power=0.5) | l2")
    make_pipeline(Center(), Whiten(power=0.5), UnitNorm())
    """
    if len(text) > _LONGEST:
        raise InputError(f"A strategy needs at most {_LONGEST} characters; got {len(text)}.")
    return make_pipeline(*[_step(node, text) for node in _nodes(text)])


def _nodes(text: str) -> list[ast.expr]:
    try:
        node = ast.parse(" ".join(text.split()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _no_strategy(text, "text that does not parse") from None
    found: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        found.append(node.right)
        node = node.left
    return [node, *reversed(found)]


def _step(node: ast.expr, text: str) -> Normalizer:
    call = node if isinstance(node, ast.Call) else None
    name = call.func if call else node
    if not isinstance(name, ast.Name):
        raise _no_strategy(text, f"the step {ast.unparse(node)!r}")
    if name.id not in STRATEGIES:
        raise UnknownNameError(
            f"No normalizer is named {name.id!r}.{did_you_mean(name.id, STRATEGIES)} Known: {', '.join(STRATEGIES)}."
        )
    kind = STRATEGIES[name.id]
    values = [_literal(each, name.id) for each in (call.args if call else [])]
    named = {each.arg or "**": _literal(each.value, name.id) for each in (call.keywords if call else [])}
    try:
        inspect.signature(kind).bind(*values, **named)
    except TypeError as error:
        known = ", ".join(kind._parameters())
        raise InputError(f"{name.id} needs parameters among {known}; got a call with {error}.") from None
    step = kind(*values, **named)
    step._check_common()
    return step


def _literal(node: ast.expr, name: str) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise InputError(
            f"{name} needs numbers, quoted words or None as parameters; got {ast.unparse(node)[:100]!r}."
        ) from None


def _no_strategy(text: str, got: str) -> InputError:
    shown = text if len(text) < 100 else f"{text[:97]}..."
    return InputError(
        f'A strategy needs steps joined by |, such as "center | whiten(power=0.5) | l2"; got {got} in {shown!r}.'
    )


def strategy_text(normalizer: Normalizer) -> str:
    """The text of a chain, which :func:`parse_strategy` reads back.

    Examples
    --------
    >>> strategy_text(parse_strategy("zscore|whiten( 'pca',k=2 )|unit"))
    "standardize | whiten(rotation='pca', k=2) | l2"
    """
    steps = [step for _, step in normalizer.steps] if isinstance(normalizer, Pipeline) else [normalizer]
    return " | ".join(_step_text(step) for step in steps)


def _step_text(step: Normalizer) -> str:
    name = next((name for name, kind in STRATEGIES.items() if kind is type(step)), None)
    if name is None:
        raise InputError(f"A strategy in text needs normalizers of fullspan; got {type(step).__name__}.")
    defaults = inspect.signature(type(step)).parameters
    given = [
        f"{key}={_plain(value)!r}"
        for key in defaults
        if key != "align_to" and repr(value := getattr(step, key)) != repr(defaults[key].default)
    ]
    return f"{name}({', '.join(given)})" if given else name


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
