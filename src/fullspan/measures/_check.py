"""What every measure asks of its input, and how it says no."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = [
    "descending",
    "is_torch",
    "one_of",
    "pair",
    "resolution",
    "row_blocks",
    "table",
    "to_numpy",
    "unit_rows",
    "vector",
]

#: Spacing of 1.0 in each stored type; for int8 with a scale, one step of 127.
_SPACING = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e4m3": 2.0**-3,
    "float8_e5m2": 2.0**-2,
    "int8": 1 / 127,
    "uint8": 1 / 127,
}

_ZERO_TABLE = "Is the table still at its zero initialization?"


def is_torch(x: Any) -> bool:
    """Whether `x` is a torch tensor; torch is never imported to ask."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def to_numpy(x: Any, call: str) -> Array:
    """`x` (array, tensor on any device, list) as a NumPy array of real numbers; half types become float32."""
    if is_torch(x):
        x = x.detach()
        kind = str(x.dtype).removeprefix("torch.")
        x = (x.float() if kind.startswith(("bfloat", "float8")) else x).cpu().numpy()
    array = np.asarray(x)
    if array.dtype.kind in "iub":
        return array.astype(np.float64)
    if array.dtype.kind == "f":
        return array.astype(np.float32) if array.dtype.itemsize < 4 else array
    try:  # ml_dtypes' bfloat16 and fp8 report the kind "V"
        if not array.dtype.name.startswith(("bfloat", "float8")):
            raise TypeError
        return array.astype(np.float32)
    except (TypeError, ValueError):
        raise InputError(f"{call} needs real numbers; got dtype {array.dtype}.") from None


def _refuse_non_finite(array: Array, call: str, what: str) -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        first = int(np.argmax(bad.reshape(len(array), -1).any(axis=1))) if array.ndim else 0
        where = f", the first in row {first}" if array.ndim > 1 else f", the first at position {first}"
        raise InputError(
            f"{call} needs finite {what}; got {int(bad.sum())} NaN or infinite values{where}. "
            "Drop them first; fs.measure counts and names such rows."
        )


def table(E: Any, call: str, *, rows: int = 1) -> Float[Array, "n dim"]:
    """`E` as a finite float64 array of shape ``(n, dim)`` with at least `rows` rows, divided by nothing."""
    array = to_numpy(E, call)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"{call} needs a table of shape (rows, dim); got shape {array.shape}.")
    if len(array) < rows:
        raise UndefinedMeasureError(f"{call} needs at least {rows} row{'s' * (rows > 1)}; got {len(array)}.")
    _refuse_non_finite(array, call, "values")
    return array.astype(np.float64, copy=False)


def vector(values: Any, call: str, what: str) -> Float[Array, " n"]:
    """`values` as a finite float64 array of shape ``(n,)``."""
    array = to_numpy(values, call)
    if array.ndim != 1:
        hint = " For a whole table call fs.measure(E)." if array.ndim == 2 else ""
        raise InputError(f"{call} needs {what} as a 1-D array; got shape {array.shape}.{hint}")
    _refuse_non_finite(array, call, what)
    return array.astype(np.float64, copy=False)


def descending(values: Any, call: str, what: str = "singular value") -> Float[Array, " n"]:
    """A spectrum from the largest value to the smallest, divided by the largest (so that squares are safe).

    Negative values that rounding explains (down to -1e-8 of the largest) count as zero.
    """
    array = np.sort(vector(values, call, f"{what}s"))[::-1]
    if not len(array) or not array.any():
        raise UndefinedMeasureError(f"{call} needs at least one non-zero {what}; got {len(array)} zeros. {_ZERO_TABLE}")
    if array[-1] < 0:
        if array[-1] < -1e-8 * array[0]:
            raise InputError(f"{call} needs {what}s that are not negative; got {array[-1]:.6g}.")
        array = np.maximum(array, 0.0)
    return array / array[0]


def pair(
    x: Any, y: Any, call: str, *, rows: int = 2, aligned: bool = True, same_dim: bool = True
) -> tuple[Array, Array]:
    x, y = table(x, call, rows=rows), table(y, call, rows=rows)
    if aligned and len(x) != len(y):
        raise InputError(
            f"{call} needs two tables with the same rows; got {len(x)} and {len(y)} rows. Align them by id first."
        )
    if same_dim and x.shape[1] != y.shape[1]:
        raise InputError(f"{call} needs two tables of one dim; got {x.shape[1]} and {y.shape[1]}.")
    return x, y


def unit_rows(E: Float[Array, "n dim"], call: str) -> Float[Array, "m dim"]:
    """The non-zero rows of a float64 table, each divided by its norm (without under- or overflow)."""
    largest = np.abs(E).max(axis=1)
    kept = E[largest > 0] / largest[largest > 0, None]
    if not len(kept):
        raise UndefinedMeasureError(f"{call} needs at least one non-zero row; got {len(E)} zero rows. {_ZERO_TABLE}")
    return kept / np.sqrt(np.vecdot(kept, kept))[:, None]


def row_blocks(n_rows: int, dim: int, elements: int = 2**19) -> Iterator[slice]:
    """Slices over the rows that hold about `elements` numbers each."""
    step = max(1, elements // max(dim, 1))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def one_of(value: str, known: tuple[str, ...], call: str, what: str) -> str:
    """`value` if it is one of `known`, else the error that lists them."""
    if value not in known:
        listed = ", ".join(f'"{each}"' for each in known)
        raise InputError(f'{call} needs {what} to be one of {listed}; got "{value}".')
    return value


def resolution(dtype: Any, n_rows: int, dim: int) -> float:
    """Smallest ratio to the largest singular value that a stored type can tell from rounding.

    ``max(u·(1 + √(min/max)), ε₆₄·√max)`` with u half the spacing of the stored type, min and max those of
    ``(n_rows, dim)``, and ε₆₄ = 2.2e-16. Rounding a table to its type adds a noise matrix whose largest singular value
    is at most about u·rms·(√n + √dim), while σ_max ≥ rms·√max(n, dim); the second term is the error of a
    float64 decomposition. A smaller σ/σ_max says "at most this", never "this".

    Parameters
    ----------
    dtype
        Name of the stored type (``"float32"``, ``"bfloat16"``, ``"int8"``, …) or a NumPy or torch dtype. Unknown types
        count as float32.
    n_rows, dim
        Shape of the table.

    Returns
    -------
    float
        A ratio in (0, 1).

    Examples
    --------
    >>> round(resolution("float32", 1_000_000, 64) * 1e8, 2)
    6.01
    """
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    spacing = _SPACING.get(name.removeprefix("torch."), _SPACING["float32"])
    low, high = sorted((max(n_rows, 1), max(dim, 1)))
    return float(max(spacing / 2 * (1 + np.sqrt(low / high)), _SPACING["float64"] * np.sqrt(high)))
