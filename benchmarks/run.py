"""Run the benchmarks: ``make bench``, or ``python -m benchmarks.run [name …] [--repeats N] [--json FILE]``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.baselines import four_measures_row_by_row, gram_float64, sort_and_gram
from benchmarks.paired import Pair, Result, one_thread, run

FOUR = ["gini_index", "hoyer_sparsity", "vector_entropy", "spectral_entropy"]
MILLION = (1_000_000, 128)


def pairs() -> Iterator[Pair]:
    """Every pair; tables are made when their pair comes up."""
    import fullspan as fs

    rng = np.random.default_rng(0)
    for dim, floor in ((16, 100), (32, 75), (64, 40), (128, 20), (768, 3.2)):
        table = rng.standard_normal((20_000, dim), dtype=np.float32)
        yield Pair(
            f"four measures, 20,000 x {dim}",
            lambda table=table: fs.measure(table, measures=FOUR, standard_errors=False),
            lambda table=table: four_measures_row_by_row(table),
            at_least=floor,
            units=len(table),
        )
    yield Pair(
        "four measures, 20,000 x 768, products=float32",
        lambda table=table: fs.measure(table, measures=FOUR, standard_errors=False, products="float32"),
        lambda table=table: four_measures_row_by_row(table),
        at_least=3.2,
        units=len(table),
    )
    for dim, n_rows in ((128, 100_000), (768, 20_000)):
        table = rng.standard_normal((n_rows, dim), dtype=np.float32)
        yield Pair(
            f"fused pass / sort + float32 Gram, dim {dim}",
            lambda table=table: fs.fold(table, fs.Moments | fs.RowProfile),
            lambda table=table: sort_and_gram(table),
            at_most=2.6,
            units=n_rows,
        )
    table = rng.standard_normal((50_000, 128))
    for torch, bound in ((False, 13.0), (True, 4.5)):
        recipe = fs.Triangle.with_options(use_torch=torch)
        yield Pair(
            f"triangle / float64 Gram, dim 128, {'torch' if torch else 'numpy'} QR",
            lambda recipe=recipe: fs.fold(table, recipe),
            lambda: gram_float64(table),
            at_most=bound,
            units=len(table),
        )
    yield Pair("import fullspan / import numpy", lambda: _import("fullspan"), lambda: _import("numpy"), at_most=1.3)


def _import(module: str) -> None:
    """Import in a new process, whose CPU time counts once it has been waited for."""
    subprocess.run([sys.executable, "-I", "-c", f"import {module}"], check=True)


def overhead() -> Result:
    """What one call of `measure` costs beyond its work: a table of 32 rows."""
    import fullspan as fs

    table = np.eye(32, 16, dtype=np.float32)
    pair = Pair(
        "a call of measure on 32 x 16",
        lambda: [fs.measure(table, measures=FOUR, standard_errors=False) for _ in range(50)],
        lambda: None,
        at_least=0,
    )
    result = run(pair)
    milliseconds = result.ours / 1e3 / 50
    return Result("overhead of a call (ms)", milliseconds, 1.0, milliseconds, "<= 1 ms", milliseconds <= 1.0)


def million_rows(folder: Path) -> list[Result]:
    """The full report of 1,000,000 x 128 float32 from disk, in its own process: CPU seconds and memory."""
    path = folder / "million.npy"
    rng = np.random.default_rng(0)
    table = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=MILLION)
    for start in range(0, MILLION[0], 50_000):
        table[start : start + 50_000] = rng.standard_normal((50_000, MILLION[1]), dtype=np.float32)
    table.flush()
    del table
    program = (
        "import json, resource, sys, time; import fullspan as fs; "
        f"start = time.process_time(); fs.measure({str(path)!r}); spent = time.process_time() - start; "
        "print(json.dumps([spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, fs.__version__]))"
    )
    spent, peaks = [], []
    for _ in range(5):
        out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
        seconds, peak, _ = json.loads(out)
        spent.append(seconds)
        peaks.append(peak)
    seconds, peak = float(np.median(spent)), float(np.median(peaks))
    mapped = MILLION[0] * MILLION[1] * 4 / 2**20
    return [
        Result("report of 1,000,000 x 128 from disk (CPU s)", seconds, 4.0, seconds, "<= 4 s", seconds <= 4.0),
        Result(
            "  its peak memory, page cache taken off (MiB)",
            peak - mapped,
            350.0,
            (peak - mapped) / 350.0,
            "<= 350 MiB",
            peak - mapped <= 350,
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="run only the benchmarks whose name contains one of these")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    one_thread()
    wanted = lambda name: not chosen.names or any(part in name for part in chosen.names)  # noqa: E731
    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}; one thread, CPU time"
    )
    print(f"     {'':<44} {'ours':>10} {'baseline':>10} {'ratio':>9}  bound     (microseconds a row, or as said)")
    results = []
    for pair in pairs():
        if wanted(pair.name):
            results.append(run(pair, chosen.repeats))
            print(results[-1].line(), flush=True)
    if wanted("overhead of a call"):
        results.append(overhead())
        print(results[-1].line(), flush=True)
    if wanted("report of 1,000,000"):
        with tempfile.TemporaryDirectory() as folder:
            for result in million_rows(Path(folder)):
                results.append(result)
                print(result.line(), flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps([dataclasses.asdict(result) for result in results], indent=1))
    return 0 if all(result.ok for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
