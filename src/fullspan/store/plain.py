"""Values from training code as what SQLite and JSON hold: finite numbers, text, lists and mappings."""

from __future__ import annotations

import json
import math
import operator
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from fullspan.errors import InputError
from fullspan.store.records import Moment

__all__ = ["as_json", "packed", "plain", "point_value", "text", "unpacked", "when"]

_LARGEST = 2**63 - 1


def text(value: Any, what: str) -> str:
    """`value` when it is text that UTF-8 can hold."""
    if not isinstance(value, str):
        raise InputError(f"{what} needs text; got {type(value).__name__}.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{what} needs text that UTF-8 can hold; got {value!r}.") from error
    return value


def when(at: Moment) -> tuple[int, float | None, int | None, float]:
    """Step, epoch, samples and wall time as columns; an epoch that is not finite is not known."""
    try:
        step = operator.index(at.step)
        samples = None if at.samples is None else int(at.samples)
        epoch = None if at.epoch is None else float(at.epoch)
        wall = float(at.wall)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"A moment needs a whole step, and numbers beside it; got {at!r}.") from error
    if not 0 <= step <= _LARGEST or not (samples is None or 0 <= samples <= _LARGEST):
        raise InputError(f"A moment needs a step from 0 to 2**63 - 1; got step {step}, samples {samples}.")
    if epoch is not None and not math.isfinite(epoch):
        epoch = None
    return step, epoch, samples, wall if math.isfinite(wall) else 0.0


def point_value(value: Any, why: str | None) -> tuple[float | None, str | None]:
    """The number and no reason, or None and the reason: NaN and infinity are no numbers here."""
    if value is None:
        return None, why or "undefined"
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError) as error:
        raise InputError(f"A point needs a number or None as its value; got {type(value).__name__}.") from error
    if math.isfinite(number):
        return number, why
    return None, why or f"not finite: {number}"


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: arrays as lists, what is not finite as None, what is unknown as its text."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


def as_json(value: Any) -> str:
    """`value` as ASCII text that JSON readers of any language take."""
    return json.dumps(plain(value), allow_nan=False)


def packed(values: Any) -> tuple[str, str, bytes]:
    """An array as its type, its shape and its compressed bytes, least significant first."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise InputError(f"add_vector needs an array of numbers; got the type {array.dtype}.")
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return array.dtype.str, json.dumps(array.shape), zlib.compress(np.ascontiguousarray(array).tobytes(), 1)


def unpacked(dtype: str, shape: str, data: bytes) -> np.ndarray:
    """The array that :func:`packed` took, bit for bit."""
    return np.frombuffer(zlib.decompress(data), dtype=dtype).reshape(json.loads(shape)).copy()
