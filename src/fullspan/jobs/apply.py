"""Apply a fitted chain to a table, block by block, into a file of any writable format."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fullspan._typing import Array, Block
from fullspan.errors import FullspanError, InputError
from fullspan.io.base import OpenOptions, block_rows_for
from fullspan.io.formats import find_format, open_table
from fullspan.io.write_bytes import SUFFIXES, encoder_for
from fullspan.normalize.folded import Folded
from fullspan.normalize.persist import load, transform_id

__all__ = ["Applied", "apply", "stamp_of"]

_COLUMNAR = {".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}
#: How often rows are put on the disk and noted, so that a run that is killed can be continued.
_JOURNAL_SECONDS = 1.0
_FLOATS = ("float16", "float32", "float64")


class ApplyError(FullspanError, OSError):
    """The result cannot be written; what stood there before is untouched."""


@dataclass(frozen=True)
class Applied:
    """What :func:`apply` wrote.

    Parameters
    ----------
    path
        The file.
    n_rows, dim, dtype, format
        Of the table in it.
    transform_id
        Of the map that was applied.
    resumed_rows
        Rows that an interrupted run had written already.
    left_rows
        Rows that the policy left as they were.
    notes
        What a reader of the result should know.
    """

    path: str
    n_rows: int
    dim: int
    dtype: str
    format: str
    transform_id: str
    resumed_rows: int
    left_rows: int
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def apply(
    fitted: Any,
    source: Any,
    out: Any,
    *,
    table: str | None = None,
    column: str | None = None,
    ids: Any = None,
    dtype: str | None = None,
    zero_rows: str | None = None,
    nan_rows: str | None = None,
    force: bool = False,
    again: bool = False,
    resume: bool = True,
    block_rows: int | None = None,
    progress: Callable[[str, str, int, int | None], None] | None = None,
) -> Applied:
    """Map the rows of a table and write them, in blocks, whole or not at all.

    Parameters
    ----------
    fitted
        A fitted normalizer, or the path of a saved one.
    source
        What :func:`fullspan.open_table` takes, with `table`, `column`, `ids`.
    out
        Path to write; its suffix says the format: npy, safetensors, parquet, arrow, feather, vec, bin, glove, txt,
        csv, tsv (text also with ``.gz``).
    dtype
        ``"float16"``, ``"float32"`` or ``"float64"``; None keeps the type of the table where it is a floating type.
    zero_rows, nan_rows
        ``"error"``, ``"skip"`` (rows stay as they are) or ``"keep"``; None takes what the fit was made with.
    force
        Replace a file that stands at `out`.
    again
        Apply to rows that are stamped as mapped by this very map.
    resume
        Continue what an interrupted run of the same input, map and options left.
    block_rows
        Rows in a block; by default about 8 MiB.
    progress
        Called with table, phase, rows done and rows in all.

    Returns
    -------
    Applied
        What was written.

    Raises
    ------
    InputError
        If rows, map and options do not fit each other, or `out` must not be written.

    Notes
    -----
    Memory: about two blocks. An interrupted run leaves a hidden part and a journal beside `out`.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from fullspan.normalize.unit import UnitNorm
    >>> fitted = UnitNorm().fit(np.eye(2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = apply(fitted, np.array([[3.0, 4.0]]), f"{folder}/unit.npy")
    ...     np.load(done.path).round(3).tolist(), done.n_rows
    ([[0.6, 0.8]], 1)
    """
    folded = load(fitted) if isinstance(fitted, (str, os.PathLike)) else Folded.of(fitted)
    target, form = _target(out, source, force)
    opened = open_table(source, table=table, column=column, ids=ids)
    if opened.dim != folded.dim_in:
        raise InputError(
            f"apply needs rows of {folded.dim_in} numbers, as the fit had; got {opened.dim} in {opened.name!r}. "
            "Is this the table that was fitted, or are the rows mapped already?"
        )
    if stamp_of(source).get("transform_id") == transform_id(folded) and not again:
        raise InputError(
            "apply needs rows that this map was not applied to; got a file stamped with its id. Pass again=True "
            "(--again) to apply it twice."
        )
    work = _Work(folded, opened, source, target, form, _dtype_of(opened, dtype, form), block_rows, progress)
    work.policies(zero_rows, nan_rows)
    work.names, work.column = table, column
    with _locked(work.part), _said(target):
        return work.run(resume)


def stamp_of(source: Any) -> dict[str, Any]:
    """What the metadata of a safetensors, parquet or Arrow file say of a map that was applied; empty where nothing."""
    if not isinstance(source, (str, os.PathLike)) or not Path(source).is_file():
        return {}
    path, text = Path(source), None
    form = find_format(path, OpenOptions()).name if path.suffix in (*_COLUMNAR, ".safetensors") else ""
    if form == "safetensors":
        with path.open("rb") as stream:
            header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
        text = (header.get("__metadata__") or {}).get("fullspan")
    elif form in ("parquet", "arrow"):
        from fullspan.io.columnar import file_source

        text = (file_source(path).schema.metadata or {}).get(b"fullspan")
    with contextlib.suppress(ValueError, TypeError):
        found = json.loads(text or "{}")
        return found if isinstance(found, dict) and found.get("format") == "fullspan.applied" else {}
    return {}


class _Work:
    """One table on its way into one file."""

    def __init__(
        self, folded: Folded, table: Any, source: Any, target: Path, form: str, dtype: str, step: Any, progress: Any
    ) -> None:
        self.folded, self.table, self.source, self.target = folded, table, source, target
        self.form, self.dtype, self.progress = form, dtype, progress
        self.step = step or block_rows_for(max(folded.dim_in, folded.dim_out), 8 if dtype == "float64" else 4)
        if self.step < 1:
            raise InputError(f"apply needs block_rows of at least 1; got {self.step}.")
        self.part = target.with_name(f".{target.name}.part")
        self.journal = target.with_name(f".{target.name}.journal")
        self.left = self.resumed = 0
        self.names: str | None = None
        self.column: str | None = None
        self.notes: list[str] = []
        self.stamp = json.dumps(
            {
                "format": "fullspan.applied",
                "transform_id": transform_id(folded),
                "fingerprint": folded.info.get("fingerprint"),
            }
        )

    def policies(self, zero_rows: str | None, nan_rows: str | None) -> None:
        self.zero_rows = zero_rows or self.folded.info.get("zero_rows", "keep")
        self.nan_rows = nan_rows or self.folded.info.get("nan_rows", "error")
        for name, each in (("zero_rows", self.zero_rows), ("nan_rows", self.nan_rows)):
            if each not in ("error", "skip", "keep"):
                raise InputError(f"apply needs {name} to be one of error, skip, keep; got {each!r}.")

    # -- the map

    def mapped(self, block: Block) -> Array:
        """Rows of a block behind the map, in the type that is written."""
        rows = block.widened().rows if block.rows.dtype != np.float64 else block.rows
        finite: Any = np.isfinite(rows).all(axis=1)
        zero: Any = ~rows.any(axis=1)
        self._refuse("nan", ~finite, self.nan_rows, block, "finite rows; got NaN or infinity")
        self._refuse("zero", zero, self.zero_rows, block, "rows that are not all zeros; got one")
        made = self.folded.transform(rows)
        left = (~finite if self.nan_rows == "skip" else np.zeros_like(zero)) | (
            zero if self.zero_rows == "skip" else np.zeros_like(zero)
        )
        if left.any():
            same = self.folded.dim_in == self.folded.dim_out
            made[left] = rows[left] if same else np.where(finite[left], 0.0, np.nan)[:, None]
            self.left += int(left.sum())
        with np.errstate(over="ignore"):
            made = made if self.dtype == "bfloat16" else made.astype(self.dtype, copy=False)
        broken = finite & ~np.isfinite(made).all(axis=1)
        if broken.any():
            raise InputError(
                f"apply needs results that {self.dtype} can hold; got an overflow in row {block.index[broken][0]}. "
                "Ask for dtype='float32' or 'float64'."
            )
        return made

    def _refuse(self, what: str, found: Array, policy: str, block: Block, needs: str) -> None:
        if policy == "error" and found.any():
            raise InputError(
                f"apply needs {needs} in row {int(block.index[found][0])}. Pass {what}_rows='skip' to leave such rows "
                "as they are, or 'keep' to let them through."
            )

    # -- interruption

    def key(self) -> str | None:
        """What an interrupted run must share with this one; None where the input is no file."""
        if not isinstance(self.source, (str, os.PathLike)) or not Path(self.source).is_file():
            return None
        state = Path(self.source).stat()
        parts = (
            Path(self.source).resolve(), state.st_size, state.st_mtime_ns, state.st_ino, self.table.name,
            self.stamp, self.dtype, self.form, self.step, self.zero_rows, self.nan_rows,
        )  # fmt: skip
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def begun(self, resume: bool) -> dict[str, Any] | None:
        """The journal of a run to continue."""
        if not self.journal.exists():
            return None
        try:
            found = json.loads(self.journal.read_text())
        except (ValueError, OSError):
            found = {}
        if resume and self.key() is not None and found.get("key") == self.key() and self.part.exists():
            return found
        self.notes.append("An interrupted run of another input, map or options was found and not continued.")
        return None

    def note_progress(self, **state: Any) -> None:
        """Put the journal in its place; what it tells of is on the disk already."""
        fresh = self.journal.with_name(self.journal.name + ".new")
        with fresh.open("w") as stream:
            json.dump({"key": self.key(), "left": self.left, **state}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(self.journal)

    def blocks_from(self, row: int) -> Iterator[Block]:
        """Blocks from a row at which a block of an earlier run ended."""
        if hasattr(self.table, "between"):
            for start in range(row, self.table.n_rows, self.step):
                yield self.table.between(start, start + self.step)
            return
        for block in self.table.blocks(self.step):
            if block.start >= row:
                yield block

    def told(self, done: int, total: int | None) -> None:
        if self.progress is not None:
            self.progress(self.table.name, "apply", done, total)

    # -- the whole

    def run(self, resume: bool) -> Applied:
        begun = self.begun(resume)
        if begun is None:
            self.clear()
        else:
            self.resumed, self.left = int(begun["rows"]), int(begun["left"])
        try:
            n_rows = self._columns(begun) if self.form in ("parquet", "arrow") else self._bytes(begun)
        except InputError:  # of no use to a run that could go on
            self.clear()
            raise
        self.clear()
        _sync_folder(self.target.parent)
        return Applied(
            str(self.target), n_rows, self.folded.dim_out, self.dtype, self.form, transform_id(self.folded),
            self.resumed, self.left, tuple(self.notes),
        )  # fmt: skip

    def clear(self) -> None:
        for path in (self.journal, self.part):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def _bytes(self, begun: dict[str, Any] | None) -> int:
        n_rows = self.table.n_rows
        if n_rows is None:
            n_rows = int(begun["n_rows"]) if begun else sum(len(block) for block in self.table.blocks(self.step))
        is_safe = isinstance(self.source, (str, os.PathLike)) and self.form == "safetensors"
        is_safe = is_safe and find_format(Path(self.source), OpenOptions()).name == "safetensors"
        has_ids = next(iter(self.table.blocks(1))).ids is not None if self.table.repeatable else False
        if has_ids and self.form in ("npy", "safetensors"):
            self.notes.append(f"A {self.form} file holds no ids; those of the input are left out.")
        if self._more_columns():
            self.notes.append(f"Written as {self.form}: only vectors and ids of the input are kept, no other columns.")
        encoder = encoder_for(
            self.form, (n_rows, self.folded.dim_out, self.dtype, has_ids), name=self.table.name, stamp=self.stamp,
            source=Path(self.source) if is_safe else None, zipped=self.target.suffix == ".gz",
        )  # fmt: skip
        with self.part.open("r+b" if begun else "wb") as stream:
            if begun:
                stream.truncate(begun["bytes"])
                stream.seek(begun["bytes"])
            else:
                stream.write(encoder.head())
            done, last = self.resumed, time.monotonic()
            for block in self.blocks_from(done):
                stream.write(encoder.rows(self.mapped(block), block.ids, block.start))
                done += len(block)
                self.told(done, n_rows)
                if time.monotonic() - last >= _JOURNAL_SECONDS:
                    _synced(stream)
                    self.note_progress(rows=done, bytes=stream.tell(), n_rows=n_rows)
                    last = time.monotonic()
            for data in encoder.tail():
                stream.write(data)
            _synced(stream)
        self.part.replace(self.target)
        return n_rows

    def _more_columns(self) -> bool:
        if not isinstance(self.source, (str, os.PathLike)) or not Path(self.source).is_file():
            return False
        return find_format(Path(self.source), OpenOptions()).name in ("parquet", "arrow", "csv", "tsv", "jsonl")

    def _columns(self, begun: dict[str, Any] | None) -> int:
        from fullspan.jobs.apply_columns import write_columns

        return write_columns(self, begun)


def _target(out: Any, source: Any, force: bool) -> tuple[Path, str]:
    target = Path(os.path.realpath(out))
    suffix = Path(target.stem).suffix if target.suffix == ".gz" else target.suffix
    form = {**SUFFIXES, **_COLUMNAR}.get(suffix.lower())
    if form is None or (target.suffix == ".gz" and form in ("npy", "safetensors", "parquet", "arrow")):
        known = ", ".join([*SUFFIXES, *_COLUMNAR])
        raise InputError(f"apply needs an output whose suffix is one of {known}; got {str(out)!r}.")
    if target.is_dir() or not target.parent.is_dir():
        raise InputError(f"apply needs the path of a file in a folder that exists; got {str(out)!r}.")
    is_file = isinstance(source, (str, os.PathLike)) and Path(source).exists()
    if is_file and target.exists() and target.samefile(source):
        raise InputError(f"apply needs an output other than its input; got {str(out)!r} for both.")
    if target.exists() and not force:
        raise InputError(f"apply needs an output that does not exist; got {str(out)!r}. Pass force=True (--force).")
    return target, form


def _dtype_of(table: Any, asked: str | None, form: str) -> str:
    if asked is not None and asked not in _FLOATS:
        raise InputError(f"apply needs dtype to be one of {', '.join(_FLOATS)}; got {asked!r}.")
    if form == "word2vec binary":
        return "float32"
    if asked or table.dtype in _FLOATS:
        return asked or table.dtype
    if table.dtype == "bfloat16" and form == "safetensors":
        return "bfloat16"
    return "float32"


def _synced(stream: Any) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def _said(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, FullspanError):
            raise
        raise ApplyError(
            f"apply needs a place that can be written; got {error.strerror or error} for {str(target)!r}. What stood "
            "there before is untouched; run the same command again to continue."
        ) from error


@contextlib.contextmanager
def _locked(part: Path) -> Iterator[None]:
    """One run at a time into one place, where the system has locks; a killed run leaves none."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with part.with_name(part.name + ".lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"apply needs {part.name[1:-5]!r} for itself; got another run that writes it.") from None
        try:
            yield
        finally:
            Path(stream.name).unlink(missing_ok=True)
