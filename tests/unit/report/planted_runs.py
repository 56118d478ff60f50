"""Runs made by hand: a small one as a recommender leaves it, a wide one, and one that died; a map through time."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from fullspan.report.run_content import Content, Series
from fullspan.store.records import Event, MapFrames, Moment, Point, WatchedTable
from fullspan.store.runs import Run, RunWriter

START = 1_790_000_000.0
MEASURES = ("gini_index", "hoyer_sparsity", "vector_entropy", "spectral_entropy", "information_abundance")
MORE = (
    "effective_rank",
    "stable_rank",
    "participation_ratio",
    "inverse_condition_number",
    "mean_norm",
    "mean_norm_ratio",
    "average_cosine",
    "isotropy",
)
#: Where each measure begins and how far it moves.
ENDS = {
    "gini_index": (0.42, -0.03),
    "hoyer_sparsity": (0.23, -0.02),
    "vector_entropy": (1.87, 0.03),
    "spectral_entropy": (2.05, -0.25),
    "information_abundance": (7.1, -2.2),
    "effective_rank": (7.6, -1.4),
    "stable_rank": (5.5, -2.5),
    "participation_ratio": (6.9, -2.0),
    "inverse_condition_number": (0.8, -0.55),
    "mean_norm": (0.14, 0.7),
    "mean_norm_ratio": (0.05, 0.3),
    "average_cosine": (0.01, 0.25),
    "isotropy": (0.97, -0.3),
}
REMEDY = {
    "evidence": [{"measure": "average_cosine", "value": 0.24, "null": 0.0, "threshold": 0.2}],
    "cause": "All rows share a mean vector.",
    "remedy": "Subtract the mean row.\nE = E - E.mean(0)",
    "verify": "average_cosine falls below 0.1.",
    "docs": "fullspan rules mean-shift",
}


def at(step: int, per_epoch: int = 200, batch: int = 32) -> Moment:
    return Moment(step, step / per_epoch, step * batch, START + 0.012 * step)


def value(measure: str, part: float, seed: float) -> float:
    """A smooth curve from one end to the other with a little noise, the same in every process."""
    start, change = ENDS[measure]
    return (
        start + change * (1 - np.exp(-3 * part)) * (1 + 0.2 * np.sin(seed)) + 0.01 * change * np.sin(37 * part + seed)
    )


def singular_values(dim: int, part: float, scale: float = 30.0) -> np.ndarray:
    return scale * np.exp(-np.arange(dim) * (0.05 + 0.45 * part)).astype(np.float32)


def write_small(path: Path, name: str = "mf", epochs: int = 20, drift: float = 0.0) -> Run:
    """Two tables over some epochs: a full pass at each epoch, samples between, a finding, and undefined values."""
    with RunWriter.open(path, name=name, config={"optimizer": "sgd", "batch_size": 32}) as writer:
        for table, rows in (("user", 943), ("item", 1682)):
            writer.table(table, rows, 8, "float32")
        writer.describe("auc", "Area under the ROC curve", better="higher")
        writer.add(small_points(epochs, drift))
        writer.add(separated(epochs))
        for epoch in range(epochs + 1):
            for table in ("user", "item"):
                writer.add_vector(table, "singular_values", at(200 * epoch), singular_values(8, epoch / epochs))
        writer.add_event(Event(at(2400), "warn", "mean-shift", "item", "The rows share a direction", REMEDY))
        writer.add_event(Event(at(3000), "warn", "mean-shift", "item", "The rows share a direction", REMEDY))
        writer.add_event(Event(at(1000), "error", "", "", "CUDA is out of memory: one reading was skipped"))
        writer.finish()
    return Run.open(path)


def small_points(epochs: int, drift: float) -> list[Point]:
    points = []
    for tick in range(4 * epochs + 1):
        step, part = 50 * tick, tick / (4 * epochs)
        full = tick % 4 == 0
        points.append(Point("", "loss", at(step), 0.69 * np.exp(-0.5 * part) - drift * part))
        for seed, (table, rows) in enumerate((("user", 943), ("item", 1682))):
            n_rows = rows if full else 500
            points += [Point(table, each, at(step), value(each, part, seed + drift), n_rows) for each in MEASURES]
            if full:
                points.append(isotropy_point(table, step, part, seed, rows))
        if full:
            points.append(Point("", "test_loss", at(step), 0.7 * np.exp(-0.3 * part) + 0.05 * part))
            points.append(Point("", "auc", at(step), 0.5 + 0.2 * part + drift * part))
            points.append(Point("", "monitor_overhead", at(step), 0.008 + 0.002 * np.sin(step)))
    return points


def separated(epochs: int) -> list[Point]:
    """Purity of the labels of one table, as it is and after a normalizer."""
    names = {"neighbor_purity": 0.3, "neighbor_purity|center+l2": 0.5}
    return [
        Point("item", name, at(200 * epoch), 0.2 + gain * epoch / epochs, 1682)
        for name, gain in names.items()
        for epoch in range(epochs + 1)
    ]


def isotropy_point(table: str, step: int, part: float, seed: float, rows: int) -> Point:
    if table == "user" and step in (400, 600):
        return Point(table, "isotropy", at(step), None, rows, "every row is zero")
    return Point(table, "isotropy", at(step), value("isotropy", part, seed), rows)


def write_tiny(path: Path) -> Run:
    """One reading of a table of zeros."""
    with RunWriter.open(path) as writer:
        writer.table("item", 3, 2, "float32")
        writer.add(
            [Point("item", "mean_norm", Moment(0), 0.5, 3), Point("item", "gini_index", Moment(0), None, 3, "0/0")]
        )
        writer.add_vector("item", "singular_values", Moment(0), np.zeros(2))
        writer.finish()
    return Run.open(path)


def write_bare(path: Path) -> Run:
    """Nothing at all."""
    with RunWriter.open(path) as writer:
        writer.finish("failed")
    return Run.open(path)


def wide(like: Content, tables: int = 40, steps: int = 200, dim: int = 64) -> Content:
    """Many tables, many steps, every default measure; what is not said is as in the run `like`."""
    names = [f"field_{place:02d}" for place in range(tables)]
    shapes = {name: WatchedTable(name, 1000 * (place + 1), dim, "float32") for place, name in enumerate(names)}
    ticks = [(at(100 * tick), tick / steps) for tick in range(steps)]
    series = [
        Series("", "loss", [Point("", "loss", now, 0.5 * np.exp(-part)) for now, part in ticks]),
        Series("", "lr", [Point("", "lr", now, 1e-3 * (1 - part)) for now, part in ticks]),
    ]
    for place, name in enumerate(names):
        rows = shapes[name].n_rows
        series += [
            Series(name, each, [Point(name, each, now, value(each, part, place), rows) for now, part in ticks])
            for each in (*MEASURES, *MORE)
        ]
    spectra = {
        name: [(now, singular_values(dim, part * (place + 1) / tables)) for now, part in ticks[::10]]
        for place, name in enumerate(names)
    }
    return replace(like, name="ctr", tables=shapes, series=series, spectra=spectra, events=())


_DIES = """
import os, sys
from tests.unit.report import planted_runs as made
from fullspan.store.runs import RunWriter
writer = RunWriter.open(sys.argv[1], name="died")
writer.table("user", 943, 8, "float32")
writer.table("item", 1682, 8, "float32")
writer.add(point for point in made.small_points(20, 0.0) if point.at.step <= 1450)
for epoch in range(8):
    writer.add_vector("user", "singular_values", made.at(200 * epoch), made.singular_values(8, epoch / 20))
os._exit(9)
"""


def write_died(path: Path) -> Run:
    """A run whose process ended in the middle of epoch 8 without a word."""
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", _DIES, str(path)], cwd=root, capture_output=True, text=True)
    assert done.returncode == 9, done.stderr
    return Run.open(path)


def frames(table: str = "item", n_frames: int = 20, n_points: int = 400, seed: int = 0) -> MapFrames:
    """Five groups that move apart from one heap."""
    rng = np.random.default_rng(seed)
    labels = np.array(["drama", "comedy", "war", "crime", "film, noir"])[rng.integers(0, 5, n_points)]
    angle = 2 * np.pi * np.unique(labels, return_inverse=True)[1] / 5
    away = np.column_stack([np.cos(angle), np.sin(angle)])
    noise = rng.normal(size=(n_points, 2))
    parts = np.linspace(0, 1, n_frames)
    positions = np.stack([3 * part * away + (1 - 0.4 * part) * noise for part in parts]).astype(np.float32)
    return MapFrames(
        table=table,
        method="pca",
        steps=np.arange(n_frames) * 200,
        epochs=np.arange(n_frames, dtype=float),
        row_ids=np.arange(n_points) * 3,
        positions=positions,
        colors={
            "norm": np.exp(0.4 * rng.normal(size=n_points)),
            "frequency_decile": rng.integers(1, 11, n_points),
            "label": labels,
        },
        displacement=np.concatenate([[0.0], np.full(n_frames - 1, 0.12)]),
        preservation=np.linspace(0.1, 0.4, n_frames),
        notes=("The two principal axes of each frame, turned to lie on the frame after it.",),
    )
