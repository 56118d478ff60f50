"""One BLAS thread inside a job: more gain nothing on blocks this small, and spin for a core that others use."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

__all__ = ["one_thread"]


@functools.cache
def _controller() -> Any:
    import numpy as np  # noqa: F401 (its BLAS has to be loaded to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS takes one thread."""
    return _controller().limit(limits=1, user_api="blas")
