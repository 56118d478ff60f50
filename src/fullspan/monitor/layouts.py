"""Non-linear layouts in the plane by other packages, kept quiet and repeatable: PaCMAP, openTSNE, UMAP."""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fullspan._extras import require
from fullspan._typing import Array

__all__ = ["FEWEST_ROWS", "LAYOUTS", "Layout", "at_unit_size", "load"]

#: ``(vectors, start, seed) -> positions``; a start of None is a first frame.
Layout = Callable[[Array, "Array | None", int], Array]

#: These layouts mean nothing on fewer rows.
FEWEST_ROWS = 50

_LOGGERS = ("pacmap", "pacmap.pacmap", "openTSNE", "openTSNE.tsne", "umap", "numba")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Let no warning, log line or change of global state out of another package."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [each.level for each in loggers]
    state = np.random.get_state()  # noqa: NPY002  # the old global generator is what these packages may seed
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for each in loggers:
                each.setLevel(logging.CRITICAL)
            yield
    finally:
        np.random.set_state(state)  # noqa: NPY002  # as above
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


def _pacmap() -> tuple[Layout, str]:
    package = require("pacmap", "maps", 'project(method="pacmap")')

    def layout(vectors: Array, start: Array | None, seed: int) -> Array:
        options: dict[str, Any] = {} if start is None else {"num_iters": (0, 0, 100)}
        with _threads_of_faiss():
            model = package.PaCMAP(n_components=2, random_state=seed, **options)
            return model.fit_transform(vectors, init="pca" if start is None else start.astype(np.float32))

    return layout, f"PaCMAP {_version(package)}"


@contextlib.contextmanager
def _threads_of_faiss() -> Iterator[None]:
    """PaCMAP sets the threads of faiss to one for the whole process; put them back."""
    faiss: Any = sys.modules.get("faiss")
    if faiss is None:
        yield
        return
    before = faiss.omp_get_max_threads()
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _tsne() -> tuple[Layout, str]:
    package = require("openTSNE", "tsne", 'project(method="tsne")')

    def layout(vectors: Array, start: Array | None, seed: int) -> Array:
        options: dict[str, Any] = {"n_jobs": 1, "perplexity": min(30.0, (len(vectors) - 1) / 3)}
        if start is not None:
            options |= {"initialization": start.astype(np.float64), "early_exaggeration_iter": 0, "n_iter": 100}
        return np.asarray(package.TSNE(random_state=seed, **options).fit(vectors))

    return layout, f"openTSNE {_version(package)}"


def _umap() -> tuple[Layout, str]:
    package = require("umap", "umap", 'project(method="umap")')

    def layout(vectors: Array, start: Array | None, seed: int) -> Array:
        options: dict[str, Any] = {}
        if start is not None:  # at the full rate, 100 epochs would end before near neighbors find back together
            options = {"init": start.astype(np.float32), "n_epochs": 100, "learning_rate": 0.3}
        return package.UMAP(n_components=2, random_state=seed, n_jobs=1, **options).fit_transform(vectors)

    return layout, f"UMAP {_version(package)}"


def _version(package: Any) -> str:
    from importlib import metadata

    names = {"pacmap": "pacmap", "openTSNE": "openTSNE", "umap": "umap-learn"}
    return metadata.version(names[package.__name__])


LAYOUTS: dict[str, Callable[[], tuple[Layout, str]]] = {"pacmap": _pacmap, "tsne": _tsne, "umap": _umap}


def load(method: str) -> tuple[Layout, str]:
    """The layout of a method, and the package with its version; the error names the extra when it is missing."""
    with quiet():
        layout, name = LAYOUTS[method]()

    def quietly(vectors: Array, start: Array | None, seed: int) -> Array:
        with quiet():
            return np.asarray(layout(at_unit_size(vectors), start, int(seed)), dtype=np.float64)

    return quietly, name


def at_unit_size(vectors: Array) -> Array:
    """Centered, at spread 1, and of two dimensions at least: layouts do not depend on the first two, packages do."""
    wide = vectors if vectors.shape[1] > 1 else np.hstack([vectors, np.zeros_like(vectors)])
    wide = wide - wide.mean(axis=0, dtype=np.float64)
    largest = float(np.abs(wide).max())
    wide = wide / largest if largest > 0 else wide
    return wide / max(float(np.sqrt(np.vecdot(wide, wide).mean())), 1e-300)
