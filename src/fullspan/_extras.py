"""Optional dependencies: imported when used, and an error that says what to install when missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from fullspan.errors import MissingExtraError

__all__ = ["require"]


def require(module: str, extra: str, user: str) -> ModuleType:
    """Import `module`, or raise the error that names the extra to install.

    Parameters
    ----------
    module
        The dotted name to import, such as ``"h5py"``.
    extra
        The extra of fullspan that brings it, such as ``"hdf5"``.
    user
        What needs it, as the message names it: ``"Reading a Keras file"``.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = getattr(error, "name", None) or module
        raise MissingExtraError(
            f"{user} needs the extra '{extra}' (the package {missing!r} is not installed). "
            f'Install it with: pip install "fullspan[{extra}]"'
        ) from error
