"""Sampled rows of a table at one moment: one ``.npz`` file each, whole or not there."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fullspan.errors import FormatError, InputError, MissingFileError
from fullspan.store.places import replace_file
from fullspan.store.records import Moment

__all__ = ["Rows", "Snapshot", "checked_rows", "write_rows"]


class Rows(NamedTuple):
    """Sampled rows: `row_ids` of shape (n,), `vectors` of shape (n, dim), `labels` of shape (n,) or None."""

    row_ids: np.ndarray
    vectors: np.ndarray
    labels: np.ndarray | None


@dataclass(frozen=True)
class Snapshot:
    """Where the sampled rows of one moment lie.

    Parameters
    ----------
    at
        The moment they were copied at.
    path
        The file, which NumPy reads: ``row_ids``, ``vectors`` and, where there are any, ``labels``.
    n_rows, dim
        Shape of the sample.
    attempt
        The attempt that wrote it.
    """

    at: Moment
    path: Path
    n_rows: int
    dim: int
    attempt: int = 1

    def read(self) -> Rows:
        """The rows, in the type they were given in.

        Raises
        ------
        MissingFileError
            If the file is gone.
        FormatError
            If it is damaged.
        """
        try:
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                labels = arrays["labels"] if "labels" in arrays.files else None
                return Rows(arrays["row_ids"], arrays["vectors"], labels)
        except FileNotFoundError as error:
            raise MissingFileError(
                f"Snapshot.read needs the file it was written to; got none at {str(self.path)!r}. "
                "It was moved or deleted; the curves of the run are in another file."
            ) from error
        except (zipfile.BadZipFile, zlib.error, ValueError, TypeError, KeyError, EOFError, OSError) as error:
            raise FormatError(
                f"Snapshot.read needs a whole .npz file; got {str(self.path)!r} ({error}). It is damaged."
            ) from error


def write_rows(path: Path, rows: Rows) -> None:
    """Write the file, whole or not at all."""
    arrays = {"row_ids": rows.row_ids, "vectors": rows.vectors}
    if rows.labels is not None:
        arrays["labels"] = rows.labels
    replace_file(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]


def checked_rows(row_ids: Any, vectors: Any, labels: Any = None) -> Rows:
    """The three as arrays that belong together and need no pickle."""
    ids, E = _plain(row_ids), np.asarray(vectors)
    if E.dtype.kind not in "fiu":  # such as bfloat16, which only its own package can read
        try:
            E = E.astype(np.float32)
        except (TypeError, ValueError) as error:
            raise InputError(f"add_snapshot needs vectors of numbers; got {E.dtype}.") from error
    if E.ndim != 2 or ids.shape != E.shape[:1]:
        raise InputError(
            f"add_snapshot needs row_ids of shape (n,) and vectors of shape (n, dim); got {ids.shape} and {E.shape}."
        )
    names = None if labels is None else _plain(labels)
    if names is not None and names.shape != ids.shape:
        raise InputError(f"add_snapshot needs one label a row; got {names.shape} for {ids.shape[0]:,} rows.")
    return Rows(ids, E, names)


def _plain(values: Any) -> np.ndarray:
    found = np.asarray(values)
    return found.astype(str) if found.dtype.kind in "OV" else found
