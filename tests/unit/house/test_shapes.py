"""Shape annotations are really checked while the tests run."""

from __future__ import annotations

import importlib
import pkgutil
import textwrap

import numpy as np
import pytest

import fullspan
from tests import shapes

#: Adapters hold no arrays, and importing them imports a whole framework each.
WITH_A_FRAMEWORK = {f"fullspan.monitor.{name}" for name in ("keras", "lightning", "skorch", "transformers")}

PROBE = """
from __future__ import annotations
import functools
from typing import TYPE_CHECKING, Any
if TYPE_CHECKING:
    from jaxtyping import Float
    from fullspan._typing import Array

kept = []

@kept.append
def project(E: Float[Array, "n dim"], axes: Float[Array, "k dim"]) -> Float[Array, "n k"]:
    return E @ axes.T

def first(E: Float[Array, "n dim"] | None = None, *, wrong: bool = False) -> Float[Array, "dim"]:
    return E[:, 0] if wrong else E[0]

def untouched(E: Any) -> Any:
    return E
"""


@pytest.fixture
def probe(tmp_path):
    path = tmp_path / "probe.py"
    path.write_text(textwrap.dedent(PROBE))
    loader = shapes._Loader("probe", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("probe", loader))
    loader.exec_module(module)
    return module


def test_right_shapes_pass(probe):
    (project,) = probe.kept
    assert project(np.ones((4, 3)), np.ones((2, 3))).shape == (4, 2)
    assert probe.first(np.ones((4, 3))).shape == (3,)


def test_an_axis_must_have_one_size_in_a_call(probe):
    (project,) = probe.kept
    with pytest.raises(TypeError, match=r"project: axes is annotated Float\[Array, .k dim.\]; got float64\[2, 5\]"):
        project(np.ones((4, 3)), np.ones((2, 5)))


def test_the_result_is_checked(probe):
    with pytest.raises(TypeError, match=r"first: the result is annotated"):
        probe.first(np.ones((4, 3)), wrong=True)


def test_the_kind_of_number_is_checked(probe):
    with pytest.raises(TypeError, match=r"first: E .* got int64\[4, 3\]"):
        probe.first(np.ones((4, 3), dtype=np.int64))


def test_other_functions_are_left_alone(probe):
    assert not hasattr(probe.untouched, "__wrapped__")


def test_no_function_of_the_package_escapes():
    """Every signature with shapes in the package went through the hook."""
    missed = []
    for info in pkgutil.walk_packages(fullspan.__path__, "fullspan."):
        if info.name.endswith("__main__") or info.name in WITH_A_FRAMEWORK:
            continue
        module = importlib.import_module(info.name)
        for name, function in vars(module).items():
            notes = getattr(function, "__annotations__", {}).values() if callable(function) else ()
            shaped = any(isinstance(note, str) and shapes._SHAPED.search(note) for note in notes)
            if shaped and not isinstance(function, type) and not hasattr(function, "__wrapped__"):
                missed.append(f"{info.name}.{name}")
    assert not missed


def test_shapes_cost_nothing_at_run_time(python):
    """Without the hook, the package never imports jaxtyping."""
    out = python("import fullspan, fullspan.measures, sys; print('jaxtyping' in sys.modules)")
    assert out.strip() == "False"
