"""The run store against bare SQLite, ``python -m benchmarks.run_store``: 20 points a step, one transaction a step."""

from __future__ import annotations

import itertools
import sqlite3
import sys
import tempfile
from pathlib import Path

from benchmarks.paired import Pair, one_thread, run
from fullspan.store.records import Moment, Point
from fullspan.store.runs import Run, RunWriter

STEPS, POINTS = 300, 20


def bare(path: Path) -> sqlite3.Connection:
    """The least that keeps the same numbers: the key, the clocks and the value, in the same kind of journal."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("PRAGMA synchronous = normal")
    connection.execute(
        "CREATE TABLE point (tab, measure, step, attempt, epoch, samples, wall, value, "
        "PRIMARY KEY (tab, measure, step, attempt)) WITHOUT ROWID"
    )
    return connection


def main() -> int:
    one_thread()
    with tempfile.TemporaryDirectory() as folder:
        connection = bare(Path(folder) / "bare.sqlite")
        writer = RunWriter.open(Path(folder) / "run")
        counts = itertools.count(), itertools.count()

        def ours() -> None:
            for step in itertools.islice(counts[0], STEPS):
                at = Moment(step, step / 100, step * 32, 1.7e9 + step)
                writer.add([Point("item", f"m{n}", at, n + 0.1, 1000) for n in range(POINTS)])

        def theirs() -> None:
            for step in itertools.islice(counts[1], STEPS):
                connection.execute("BEGIN")
                rows = [(1, n, step, 1, step / 100, step * 32, 1.7e9 + step, n + 0.1) for n in range(POINTS)]
                connection.executemany("INSERT OR REPLACE INTO point VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
                connection.execute("COMMIT")

        results = [run(Pair("write 20 points a step", ours, theirs, at_most=3.0, units=STEPS))]
        reader, query = (
            Run.open(writer.path),
            "SELECT step, value FROM point WHERE tab = 1 AND measure = 7 ORDER BY step",
        )
        curve = Pair(
            "read one curve of some 2,000 steps",
            lambda: reader.curve("item", "m7"),
            lambda: connection.execute(query).fetchall(),
            at_most=15.0,
        )
        results.append(run(curve))
        writer.close()
        connection.close()
    print(f"     {'':<44} {'µs a step':>10} {'bare':>10}")
    for each in results:
        print(each.line())
    print(f"{1e6 / results[0].ours:,.0f} steps of {POINTS} points a CPU second")
    return int(not all(each.ok for each in results))


if __name__ == "__main__":
    sys.exit(main())
