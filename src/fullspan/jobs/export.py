"""The points of a run in the formats of other tools."""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullspan._extras import require
from fullspan.errors import InputError, NothingEvaluatedError, UnknownNameError, did_you_mean
from fullspan.jobs.formats.write import OutputError, check_target, write_output
from fullspan.jobs.runs import chosen_points
from fullspan.store.places import replace_file
from fullspan.store.plain import as_json
from fullspan.store.records import Point
from fullspan.store.runs import Run

__all__ = ["EXPORTS", "Exported", "export_run", "form_of"]

#: Format to the suffixes that ask for it.
EXPORTS = {"csv": (".csv",), "parquet": (".parquet", ".pq"), "tensorboard": ()}
_LARGEST_FLOAT32 = 3.4028234663852886e38
_COLUMNS = ("table", "measure", "step", "epoch", "samples", "wall", "value", "n_rows", "why")


@dataclass(frozen=True)
class Exported:
    """What was written: where, how many points, and how many the format cannot hold."""

    path: str
    form: str
    points: int
    left_out: int = 0


def form_of(path: str | os.PathLike[str]) -> str | None:
    """The format that the suffix of `path` asks for, or None."""
    suffix = Path(path).suffix.lower()
    return next((form for form, suffixes in EXPORTS.items() if suffix in suffixes), None)


def export_run(
    run: str | os.PathLike[str] | Run,
    out: str | os.PathLike[str],
    form: str | None = None,
    *,
    tables: Sequence[str] | None = None,
    measures: Sequence[str] | None = None,
) -> Exported:
    """Write the points of a run for other tools.

    Parameters
    ----------
    run
        Its directory, or a run that was opened.
    out
        A file for csv and parquet, whole or not at all, where ``"-"`` prints csv; a folder for TensorBoard, which must
        be new or empty.
    form
        ``"csv"``, ``"parquet"`` or ``"tensorboard"``; by default what the suffix of `out` says.
    tables, measures
        Names or globs to take; by default all.

    Returns
    -------
    Exported
        Where it was written and how many points.

    Raises
    ------
    MissingFileError, FormatError
        If there is no run that can be read.
    InputError
        If `out` does not say a format, or is in the way.
    NothingEvaluatedError
        If the run has no points.
    MissingExtraError
        If ``"tensorboard"`` is asked for and not installed.
    OutputError
        If `out` cannot be written.

    Notes
    -----
    csv and parquet have one row a point, with the columns table (empty for the run itself), measure, step, epoch,
    samples, wall, value, n_rows and why; a point without a value has none there either, and the reason in why.
    TensorBoard keeps float32, under the tag ``table/measure`` or, of the run itself, ``measure``; points without a
    value, or with one too large for float32, are left out and counted.
    """
    form = form or form_of(out) or ("csv" if os.fspath(out) == "-" else None)
    if form is None:
        raise InputError(f"export_run needs one of the formats {', '.join(EXPORTS)}; got none for {os.fspath(out)!r}.")
    if form not in EXPORTS:
        raise UnknownNameError(
            f"export_run needs one of the formats {', '.join(EXPORTS)}; got {form!r}.{did_you_mean(form, EXPORTS)}"
        )
    opened = run if isinstance(run, Run) else Run.open(run)
    _check_place(out, form, opened)
    points = chosen_points(opened, tables, measures)
    if not points:
        raise NothingEvaluatedError(f"export_run needs a run with points; got none in {str(opened.path)!r}.")
    if form == "csv":
        write_output(_csv(points), out)
    else:
        try:
            (_write_parquet if form == "parquet" else _write_tensorboard)(opened, points, Path(out))
        except OSError as error:
            raise OutputError(
                f"export_run needs a place that can be written; got {error.strerror or error} at {os.fspath(out)!r}."
            ) from error
    left_out = sum(not _in_float32(each.value) for each in points) if form == "tensorboard" else 0
    return Exported(os.fspath(out), form, len(points) - left_out, left_out)


def _check_place(out: str | os.PathLike[str], form: str, run: Run) -> None:
    if form == "csv" and os.fspath(out) == "-":
        return
    if os.fspath(out) == "-":
        raise InputError(f"export_run needs a path for {form}; got '-', and only csv can be printed.")
    if form != "tensorboard":
        check_target(out, tuple(run.path.iterdir()))
        return
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"export_run needs a folder for tensorboard; got the file {os.fspath(out)!r}.")
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"export_run needs a new or empty folder for tensorboard; got {os.fspath(out)!r}, which has files. "
            "TensorBoard would show them beside the new ones."
        )
    if not folder.absolute().parent.is_dir():
        raise InputError(f"export_run needs a folder in one that exists; got {os.fspath(out)!r}. Create it first.")


def _in_float32(value: float | None) -> bool:
    """Whether TensorBoard can hold it."""
    return value is not None and abs(value) <= _LARGEST_FLOAT32


def _rows(points: list[Point]) -> list[tuple[Any, ...]]:
    return [
        (p.table, p.measure, p.at.step, p.at.epoch, p.at.samples, p.at.wall, p.value, p.n_rows, p.why) for p in points
    ]


def _csv(points: list[Point]) -> str:
    held = io.StringIO()
    writer = csv.writer(held, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(
        _rows(points)
    )  # None is an empty field, and floats are written so that they come back as they were
    return held.getvalue()


def _write_parquet(run: Run, points: list[Point], out: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = (pa.string(), pa.string(), pa.int64(), pa.float64(), pa.int64(), pa.float64(), pa.float64(), pa.int64())
    about = {"fullspan.run": run.name, "fullspan.config": as_json(run.config), "fullspan.status": run.status}
    schema = pa.schema(list(zip(_COLUMNS, (*kinds, pa.string()), strict=True)), metadata=about)
    columns = [
        pa.array(column, kind) for column, kind in zip(zip(*_rows(points), strict=True), schema.types, strict=True)
    ]
    table = pa.Table.from_arrays(columns, schema=schema)
    replace_file(Path(os.path.realpath(out)), lambda file: pq.write_table(table, file))


def _write_tensorboard(run: Run, points: list[Point], out: Path) -> None:
    user = "Exporting to TensorBoard"
    files = require("tensorboard.summary.writer.event_file_writer", "tensorboard", user)
    event = require("tensorboard.compat.proto.event_pb2", "tensorboard", user).Event
    summary = require("tensorboard.compat.proto.summary_pb2", "tensorboard", user).Summary
    target = Path(os.path.realpath(out))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        writer = files.EventFileWriter(str(temporary))
        try:
            for each in points:
                if _in_float32(each.value):
                    tag = f"{each.table}/{each.measure}" if each.table else each.measure
                    value = summary(value=[summary.Value(tag=tag, simple_value=each.value)])
                    writer.add_event(event(wall_time=each.at.wall, step=each.at.step, summary=value))
        finally:
            writer.close()
        if target.is_dir():
            target.rmdir()
        temporary.replace(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
