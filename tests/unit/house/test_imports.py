"""What importing fullspan brings along: little, and nothing that was not asked for."""

from __future__ import annotations

import json
import pkgutil

import pytest

import fullspan

#: The parts that are about torch, once they exist, may import it.
TORCH_SIDE = ("nn", "models", "losses", "optim", "trainers", "studies", "monitor")
HEAVY = {"torch", "pandas", "matplotlib", "sklearn", "scipy", "h5py", "gguf", "fsspec", "keras", "faiss", "jaxtyping"}
MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(fullspan.__path__, "fullspan.")
    if info.name.split(".")[1] not in TORCH_SIDE and not info.name.endswith("__main__")
)
_REPORT = "import json; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"


def test_no_module_loads_a_heavy_package(python):
    code = f"import importlib, sys\nfor name in {MODULES}: importlib.import_module(name)\n{_REPORT}"
    loaded = set(json.loads(python(code)))
    assert not loaded & HEAVY


def test_importing_fullspan_loads_numpy_and_the_standard_library_only(python):
    before = set(json.loads(python(f"import sys, numpy; {_REPORT}")))
    after = set(json.loads(python(f"import sys, fullspan; {_REPORT}")))
    import sys

    assert after - before - set(sys.stdlib_module_names) <= {"fullspan"}


#: Their frameworks take seconds to import: tests/unit/monitor loads them, one framework a file.
ADAPTERS = {"LightningWatcher", "TransformersWatcher", "KerasWatcher", "SkorchWatcher"}


@pytest.mark.parametrize("name", sorted(set(fullspan.__all__) - ADAPTERS))
def test_every_public_name_loads(name):
    assert getattr(fullspan, name) is not None
