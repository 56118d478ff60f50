"""Adapters whose framework is not installed, or does not load."""

from __future__ import annotations

import importlib
import sys

import pytest

from fullspan.errors import MissingExtraError

#: Adapter to the packages that are taken away.
PACKAGES = {
    "lightning": ("lightning", "lightning.pytorch", "pytorch_lightning"),
    "transformers": ("transformers",),
    "keras": ("keras",),
    "skorch": ("skorch", "skorch.callbacks"),
}


@pytest.mark.parametrize("name", PACKAGES)
def test_a_missing_framework_is_an_error_that_says_what_to_install(name, monkeypatch):
    monkeypatch.delitem(sys.modules, f"fullspan.monitor.{name}", raising=False)
    for package in PACKAGES[name]:
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf'fullspan\.\w+Watcher needs .* pip install "fullspan\[{name}\]"'):
        importlib.import_module(f"fullspan.monitor.{name}")


def test_a_backend_of_keras_that_is_missing_is_named(monkeypatch):
    def without_tensorflow(module, extra, user):
        raise MissingExtraError("needs the extra") from ModuleNotFoundError("No module named 'tensorflow'")

    monkeypatch.delitem(sys.modules, "fullspan.monitor.keras", raising=False)
    monkeypatch.setattr("fullspan._extras.require", without_tensorflow)
    with pytest.raises(MissingExtraError, match=r"got the error .*'tensorflow'.* variable KERAS_BACKEND=torch before"):
        importlib.import_module("fullspan.monitor.keras")
