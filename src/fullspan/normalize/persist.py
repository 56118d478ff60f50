"""Save and load a fitted normalizer: one safetensors file, no pickle.

The tensors are the arrays of the stages; the metadata hold one JSON header under the key ``fullspan``. Any reader of
safetensors opens the file. Everything in it is checked before it is used: sizes, shapes, kinds, finite values, and an
id over the arrays, so that a file is what was saved or is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import fullspan
from fullspan._typing import Array
from fullspan.errors import FormatError, InputError, MissingFileError
from fullspan.normalize.folded import Folded
from fullspan.normalize.stages import KINDS

__all__ = ["load", "save", "transform_id"]

_FORMAT = "fullspan.normalizer"
_VERSION = 1
_MAX_HEADER = 1 << 20
_MAX_STAGES = 256
_NAMES = {
    "affine": {"shift", "matrix", "offset", "size"},
    "unit": set(),
    "clip": {"low", "high"},
    "head": {"size"},
    "pull": {"center", "whitener", "reach"},
    "curve": {"quantiles", "scores"},
}
_STAMP = ("in_mean", "in_variance", "out_mean", "out_variance", "twice_mean", "twice_variance")


def save(normalizer: Any, path: Any) -> Path:
    """Write a fitted normalizer, pipeline or folded chain to one file.

    Parameters
    ----------
    normalizer
        What was fitted.
    path
        Where to; an existing file is replaced when the new one is complete.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        If nothing was fitted.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from fullspan.normalize.scale import Standardize
    >>> fitted = Standardize().fit(np.array([[1.0, 2.0], [3.0, 6.0]]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     loaded = load(save(fitted, f"{folder}/items.norm"))
    >>> loaded.transform(np.array([[1.0, 2.0]])).tolist(), loaded.info["n_rows"]
    ([[-1.0, -1.0]], 2)
    """
    folded = Folded.of(normalizer)
    path = Path(path)
    tensors: dict[str, Array] = {}
    stages = []
    for place, stage in enumerate(folded.stages):
        arrays = stage.arrays()
        stages.append({"kind": stage.kind, "arrays": sorted(arrays)})
        tensors |= {f"stage.{place}.{name}": array for name, array in arrays.items()}
    tensors |= {f"stamp.{name}": array for name, array in folded.stamp.items()}
    header = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "version": fullspan.__version__,
        "transform_id": transform_id(folded),
        "dim_in": folded.dim_in,
        "dim_out": folded.dim_out,
        "stages": stages,
        "info": _plain(folded.info),
    }
    text = json.dumps(header, sort_keys=True, allow_nan=False)
    _write(path, tensors, {"fullspan": text, "format": "fullspan"})
    return path


def transform_id(normalizer: Any) -> str:
    """16 hexadecimal digits that say which map this is: equal for equal stages, whatever they were fitted to."""
    folded = Folded.of(normalizer)
    digest = hashlib.sha256(f"{folded.dim_in} {folded.dim_out}".encode())
    for stage in folded.stages:
        digest.update(f"|{stage.kind}".encode())
        for name, array in sorted(stage.arrays().items()):
            digest.update(f"|{name} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()[:16]


def _plain(value: Any) -> Any:
    """The same in types that JSON has."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if hasattr(value, "item"):
        return value.item()
    return value if value is None or isinstance(value, (str, int, float, bool)) else repr(value)


def _write(path: Path, tensors: Mapping[str, Array], metadata: dict[str, str]) -> None:
    entries: dict[str, Any] = {"__metadata__": metadata}
    parts, at = [], 0
    for name, array in tensors.items():
        data = np.ascontiguousarray(array, dtype="<f8").tobytes()
        entries[name] = {"dtype": "F64", "shape": list(array.shape), "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    head = json.dumps(entries).encode()
    head += b" " * (-len(head) % 8)
    if not path.parent.is_dir():
        raise MissingFileError(f"save needs a folder that exists; got {path.parent}. Make it first.")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(len(head).to_bytes(8, "little") + head)
            stream.writelines(parts)
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: Any) -> Folded:
    """Read what :func:`save` wrote.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    Folded
        Maps rows as the saved normalizer does; ``info`` tells how it was fitted.

    Raises
    ------
    MissingFileError
        If there is no such file.
    FormatError
        If it is no saved normalizer, or is damaged.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingFileError(f"load needs a file; got {path}, which does not exist.")
    entries, tensors = _read(path)
    header = _header(path, entries)
    stages = tuple(
        _stage(path, place, known, tensors) for place, known in enumerate(_list(path, header, "stages", _MAX_STAGES))
    )
    dim_in, dim_out = (_count(path, header, name) for name in ("dim_in", "dim_out"))
    _check_chain(path, stages, dim_in, dim_out)
    stamp = {name: tensors[f"stamp.{name}"] for name in _STAMP if f"stamp.{name}" in tensors}
    for name, array in stamp.items():
        if array.shape != (dim_in if name.startswith("in") else dim_out,):
            raise _damaged(path, f"a {name} of shape {array.shape}")
    info = header.get("info")
    if not isinstance(info, dict):
        raise _damaged(path, "no facts about the fit")
    folded = Folded(stages, dim_in, dim_out, {**info, "version": header.get("version")}, stamp)
    if transform_id(folded) != header.get("transform_id"):
        raise _damaged(path, "arrays that do not have the id in the header")
    return folded


def _damaged(path: Path, what: str) -> FormatError:
    return FormatError(f"load needs a normalizer saved by fullspan; got {path.name} with {what}. Is it damaged?")


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or not 2 <= length <= min(_MAX_HEADER, size - 8):
            raise _damaged(path, f"a header of {length} bytes in a file of {size}")
        try:
            entries = json.loads(stream.read(length), object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            raise _damaged(path, f"a header that is no JSON ({type(error).__name__})") from None
        if not isinstance(entries, dict):
            raise _damaged(path, "a header that is no object")
        data = stream.read()
    spans = [_span(path, name, entry) for name, entry in entries.items() if name != "__metadata__"]
    at = 0
    for name, _, start, stop in sorted(spans, key=lambda span: span[2:]):
        if start != at:
            raise _damaged(path, f"a gap or an overlap before {name[:60]!r}")
        at = stop
    if at != len(data):
        raise _damaged(path, f"{len(data)} bytes of data where the header lists {at}")
    tensors = {
        name: np.frombuffer(data, "<f8", (stop - start) // 8, start).reshape(shape).astype(np.float64)
        for name, shape, start, stop in spans
    }
    for name, array in tensors.items():
        if np.isnan(array).any() or (np.isinf(array).any() and not name.endswith((".low", ".high"))):
            raise _damaged(path, f"values that are not finite in {name[:60]!r}")
    return entries, tensors


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice")
    return made


def _span(path: Path, name: str, entry: Any) -> tuple[str, tuple[int, ...], int, int]:
    try:
        shape, (start, stop) = tuple(entry["shape"]), entry["data_offsets"]
        kind = entry["dtype"]
    except (TypeError, KeyError, ValueError):
        raise _damaged(path, f"an entry {name[:60]!r} that is not one") from None
    counts = [*shape, start, stop]
    if kind != "F64" or len(shape) > 2 or not all(type(each) is int and 0 <= each < 1 << 40 for each in counts):
        raise _damaged(path, f"an entry {name[:60]!r} that is no float64 array")
    n_values = 1
    for each in shape:
        n_values *= each
    if stop - start != 8 * n_values:
        raise _damaged(path, f"{stop - start} bytes for {name[:60]!r} of shape {shape}")
    return name, shape, start, stop


def _header(path: Path, entries: dict[str, Any]) -> dict[str, Any]:
    metadata = entries.get("__metadata__")
    text = metadata.get("fullspan") if isinstance(metadata, dict) else None
    try:
        header = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise _damaged(path, "no header of a normalizer")
    if header.get("format_version") != _VERSION:
        raise FormatError(
            f"load needs version {_VERSION} of the format; got {path.name} of version "
            f"{str(header.get('format_version'))[:20]}. Is fullspan {fullspan.__version__} older than what wrote it?"
        )
    return header


def _list(path: Path, header: dict[str, Any], name: str, most: int) -> list[Any]:
    found = header.get(name)
    if not isinstance(found, list) or len(found) > most:
        raise _damaged(path, f"no list of {name}")
    return found


def _count(path: Path, header: dict[str, Any], name: str) -> int:
    found = header.get(name)
    if type(found) is not int or not 1 <= found < 1 << 31:
        raise _damaged(path, f"no {name}")
    return found


def _stage(path: Path, place: int, known: Any, tensors: Mapping[str, Array]) -> Any:
    kind = known.get("kind") if isinstance(known, dict) else None
    names = _NAMES.get(kind) if isinstance(kind, str) else None
    if names is None or not isinstance(kind, str):
        raise _damaged(path, f"a stage of unknown kind {str(kind)[:40]!r}")
    if not all(f"stage.{place}.{name}" in tensors for name in names):
        raise _damaged(path, f"a stage of the kind {kind!r} without its arrays")
    try:
        return KINDS[kind](**{name: tensors[f"stage.{place}.{name}"] for name in names})
    except (InputError, TypeError, ValueError, IndexError) as error:
        raise _damaged(path, f"a stage that cannot be ({error})") from None


def _check_chain(path: Path, stages: tuple[Any, ...], dim_in: int, dim_out: int) -> None:
    dim = dim_in
    for stage in stages:
        if stage.dim_in not in (None, dim) or not _coherent(stage):
            raise _damaged(path, f"a stage of the kind {stage.kind!r} that does not fit rows of length {dim}")
        dim = dim if stage.dim_out is None else stage.dim_out
    if dim != dim_out:
        raise _damaged(path, f"rows of length {dim} at the end, not {dim_out}")


def _coherent(stage: Any) -> bool:
    """Whether the arrays of a stage fit each other."""
    if stage.kind == "clip":
        return stage.low.shape == stage.high.shape and stage.low.ndim == 1 and bool((stage.low <= stage.high).all())
    if stage.kind == "head":
        return 1 <= stage.size <= stage.dim_in
    if stage.kind == "pull":
        return stage.whitener.ndim == 2 and stage.center.shape == stage.whitener.shape[:1]
    if stage.kind == "curve":
        rising = stage.quantiles.ndim == 2 and bool((np.diff(stage.quantiles, axis=0) >= 0.0).all())
        return rising and stage.scores.shape == stage.quantiles.shape[:1]
    return True
