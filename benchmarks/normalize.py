"""Normalizers against scikit-learn: ``python -m benchmarks.normalize [--small] [--only WORD]``.

CPU seconds of both sides, alternately in one process on one thread, and the median of the ratios, on float32 tables of
1,000,000 × 128 and 200,000 × 768 (``--small``: a tenth of the rows). The floor of the covariance is what scikit-learn's
``covariance_eigh`` does: one float32 product of the table with itself, and the eigenvectors.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np

import fullspan as fs
from benchmarks.paired import Pair, one_thread, run

SIZES = ((1_000_000, 128), (200_000, 768))


def table(n_rows: int, dim: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    E = rng.standard_normal((n_rows, dim), dtype=np.float32)
    E *= np.linspace(0.5, 2.0, dim, dtype=np.float32)
    E += np.linspace(-1.0, 1.0, dim, dtype=np.float32)
    return E


def pairs(E: np.ndarray) -> Iterator[Pair]:
    from sklearn import decomposition, pipeline, preprocessing

    wide = E.shape[1] > 512

    def fit_of(make: Callable[[], object]) -> Callable[[], object]:
        return lambda: make().fit(E)  # type: ignore[attr-defined]

    def both_of(make: Callable[[], object]) -> Callable[[], object]:
        return lambda: make().fit_transform(E)  # type: ignore[attr-defined]

    yield Pair("Standardize fit + transform", both_of(fs.Standardize), both_of(preprocessing.StandardScaler), 3.0)
    yield Pair("UnitNorm", both_of(fs.UnitNorm), both_of(preprocessing.Normalizer), 1.3)
    yield Pair("RobustScale fit", fit_of(fs.RobustScale), fit_of(preprocessing.RobustScaler), 4.0)
    floor = fit_of(lambda: decomposition.PCA(whiten=True, svd_solver="covariance_eigh"))
    yield Pair("Whiten fit, to covariance_eigh", fit_of(fs.Whiten), floor, at_most=2.1)

    def incremental() -> object:
        return decomposition.IncrementalPCA(whiten=True, batch_size=5 * E.shape[1])

    some = E[: len(E) // 10]
    yield Pair(
        "PCA fit, to IncrementalPCA (rows / 10)", lambda: fs.PCA().fit(some), lambda: incremental().fit(some), 10.0
    )  # type: ignore[attr-defined]

    def five() -> fs.Pipeline:
        return fs.make_pipeline(fs.Center(), fs.Standardize(), fs.Whiten("pca"), fs.Center(), fs.Standardize())

    def theirs() -> object:
        return pipeline.make_pipeline(
            preprocessing.StandardScaler(with_std=False),
            preprocessing.StandardScaler(),
            decomposition.PCA(whiten=True, svd_solver="covariance_eigh"),
            preprocessing.StandardScaler(with_std=False),
            preprocessing.StandardScaler(),
        )

    yield Pair("five affine steps, fit + transform", both_of(five), both_of(theirs), 4.0)
    mine, other = five().fit(E), theirs().fit(E)  # type: ignore[attr-defined]
    least = 1.8 if wide else 3.5
    yield Pair("five affine steps, transform", lambda: mine.transform(E), lambda: other.transform(E), least)


def extra_memory(normalizer: fs.Normalizer, E: np.ndarray) -> float:
    """Most resident MiB above the start while a normalizer is fitted."""
    import psutil

    process = psutil.Process()
    start = peak = process.memory_info().rss
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.005):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    normalizer.fit(E)
    done.set()
    watcher.join()
    return (peak - start) / 2**20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a tenth of the rows")
    parser.add_argument("--only", default="", help="pairs whose name holds this word")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    one_thread()
    ok = True
    for n_rows, dim in SIZES:
        E = table(n_rows // 10 if options.small else n_rows, dim)
        print(f"{len(E):,} x {dim} float32: CPU seconds ours, theirs, ratio")
        for pair in pairs(E):
            if options.only in pair.name:
                result = run(pair, options.repeats)
                ok = ok and result.ok
                units = f"{result.ours / 1e6:9.3f} {result.baseline / 1e6:9.3f} {result.ratio:8.2f}x  {result.bound}"
                print(f"{'ok  ' if result.ok else 'MISS'} {pair.name:<44} {units}", flush=True)
        print(f"     extra memory of a Whiten fit: {extra_memory(fs.Whiten(), E):.0f} MiB", flush=True)
        del E
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
