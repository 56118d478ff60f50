"""Shape annotations, checked while testing and free otherwise.

A function of the package states shapes in its signature with the names of jaxtyping, imported for type checkers only::

    if TYPE_CHECKING:
        from jaxtyping import Float


    def mean_norm(rows: Float[Array, "n dim"]) -> Float[Array, ""]: ...

At run time these annotations are strings that nobody reads. `install` puts a hook on the import of ``fullspan.*`` that
decorates such functions, innermost, with :func:`checked`: each call then binds ``n`` and ``dim`` and compares every
argument and the result with them. Annotations without shapes are left alone.
"""

from __future__ import annotations

import ast
import functools
import importlib.machinery
import inspect
import re
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import jaxtyping

KINDS = ("Bool", "Complex", "Float", "Float32", "Float64", "Inexact", "Int", "Int64", "Num", "Real", "Shaped", "UInt")
_SHAPED = re.compile(rf"\b(?:{'|'.join(KINDS)})\[")
_DECORATOR = "__fullspan_checked__"


def _evaluate(annotation: str, module: dict[str, Any]) -> Any:
    """The annotation as an object; `Array` stands for arrays of any library."""
    names = {**module, **{kind: getattr(jaxtyping, kind) for kind in KINDS}, "Array": Any}
    return eval(annotation, names)


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return getattr(hint, "__args__", None) or (hint,)


def _matches(value: Any, hint: Any) -> bool:
    """Whether the value is of the annotated type; one that is no array is judged by the other members of a union."""
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return True
    return any(isinstance(value, each) for each in _alternatives(hint) if isinstance(each, type) and each is not Any)


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with its shape annotations enforced at each call."""
    texts = {
        name: text for name, text in function.__annotations__.items() if isinstance(text, str) and _SHAPED.search(text)
    }
    signature = inspect.signature(function)

    @functools.cache
    def hints() -> dict[str, Any]:
        return {name: _evaluate(text, function.__globals__) for name, text in texts.items()}

    def verify(name: str, value: Any, arguments: dict[str, Any]) -> None:
        if not _matches(value, hints()[name]):
            what = "the result" if name == "return" else name
            others = ", ".join(f"{key}: {_shape(each)}" for key, each in arguments.items() if hasattr(each, "shape"))
            raise TypeError(
                f"{function.__qualname__}: {what} is annotated {texts[name]}; got {_shape(value)} (arguments: {others})"
            )

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)  # let the call itself say what is missing
        with jaxtyping.jaxtyped("context"):
            for name in texts:
                if name in arguments:
                    verify(name, arguments[name], arguments)
            result = function(*args, **kwargs)
            if "return" in texts:
                verify("return", result, arguments)
        return result

    return wrapper


def _shape(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}"


class _Decorate(ast.NodeTransformer):
    """Adds the decorator to every function whose signature states a shape."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        annotations = [argument.annotation for argument in arguments] + [node.returns]
        if any(each is not None and _SHAPED.search(ast.unparse(each)) for each in annotations):
            name = ast.copy_location(ast.Name(_DECORATOR, ast.Load()), node)
            node.decorator_list.append(name)
        return node


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        tree = _Decorate().visit(ast.parse(self.get_data(path), path))
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)

    def exec_module(self, module: Any) -> None:
        module.__dict__[_DECORATOR] = checked
        super().exec_module(module)


class _Finder(importlib.machinery.PathFinder):
    package = "fullspan"

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != cls.package and not fullname.startswith(cls.package + "."):
            return None
        for finder in sys.meta_path:
            if finder is cls or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if isinstance(spec.loader, importlib.machinery.SourceFileLoader):
                    spec.loader = _Loader(spec.loader.name, spec.loader.path)
                return spec
        return None


def install() -> None:
    """Check the shapes of every module of fullspan that is imported from here on."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
