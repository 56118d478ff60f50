"""What a fitted chain does to rows: a few kinds of plain stages, run block by block.

Every normalizer compiles to stages, neighboring affine ones become one, and everything that serves a chain (arrays,
tensors, a torch module, a file) knows the kinds of stages only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from fullspan._backend import is_torch_tensor
from fullspan._typing import Array, row_norms
from fullspan.errors import InputError
from fullspan.normalize.affine import Affine
from fullspan.summaries.base import frozen

__all__ = ["KINDS", "ClipTo", "Curve", "Head", "Pull", "Stage", "Unit", "folded", "run"]

_BLOCK_BYTES = 1 << 20
#: Rows that a matrix is multiplied with at once, at least: fewer make the product slow.
_BLOCK_ROWS = 1024
#: Norms in this range can be divided by in float32 without a thought.
_PLAIN_NORMS = (1e-15, 1e15)


class Stage(Protocol):
    """Maps rows to rows; `run` may write over its input only when input and output are the same array."""

    kind: ClassVar[str]

    @property
    def dim_in(self) -> int | None: ...

    @property
    def dim_out(self) -> int | None: ...

    def run(self, rows: Array, out: Array) -> bool | None: ...

    def run_torch(self, rows: Any) -> Any: ...

    def arrays(self) -> dict[str, Array]: ...


@dataclass(frozen=True)
class Unit:
    """Divide every row by its Euclidean norm; rows of zeros stay."""

    kind: ClassVar[str] = "unit"
    dim_in: None = None
    dim_out: None = None

    def run(self, rows: Array, out: Array) -> bool:
        """Whether all rows were finite, of a plain norm, comes out too."""
        norms = row_norms(rows)
        low, high = _PLAIN_NORMS
        if ((norms > low) & (norms < high)).all():
            np.multiply(rows, (1.0 / norms).astype(rows.dtype)[:, None], out=out)
            return True
        largest = np.abs(rows).max(axis=1, initial=0.0, keepdims=True).astype(np.float64)
        largest = np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)
        scaled = rows / largest
        norms = np.sqrt(np.vecdot(scaled, scaled))[:, None]
        with np.errstate(invalid="ignore"):
            out[...] = np.divide(scaled, norms, out=scaled, where=norms != 0.0)
        return False

    def run_torch(self, rows: Any) -> Any:
        wide = rows.double()
        largest = wide.abs().amax(dim=1, keepdim=True)
        largest = largest.where((largest > 0) & largest.isfinite(), largest.new_ones(()))
        scaled = wide / largest
        norms = scaled.norm(dim=1, keepdim=True)
        return (scaled / norms.where(norms != 0, norms.new_ones(()))).to(rows.dtype)

    def arrays(self) -> dict[str, Array]:
        return {}


@dataclass(frozen=True, eq=False)
class ClipTo:
    """Bring every value into the range of its column."""

    low: Array
    high: Array
    kind: ClassVar[str] = "clip"

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, frozen(np.array(getattr(self, name), dtype=np.float64)))

    @property
    def dim_in(self) -> int:
        return len(self.low)

    @property
    def dim_out(self) -> int:
        return len(self.low)

    def run(self, rows: Array, out: Array) -> None:
        np.clip(rows, self.low.astype(rows.dtype), self.high.astype(rows.dtype), out=out)

    def run_torch(self, rows: Any) -> Any:
        import torch

        low, high = (torch.from_numpy(each.copy()).to(rows.device, rows.dtype) for each in (self.low, self.high))
        return rows.clamp(low, high)

    def arrays(self) -> dict[str, Array]:
        return {"low": self.low, "high": self.high}


@dataclass(frozen=True)
class Head:
    """Keep the first `size` dimensions."""

    size: int
    dim_in: int
    kind: ClassVar[str] = "head"

    @property
    def dim_out(self) -> int:
        return self.size

    def run(self, rows: Array, out: Array) -> None:
        out[...] = rows[:, : self.size]

    def run_torch(self, rows: Any) -> Any:
        return rows[:, : self.size]

    def arrays(self) -> dict[str, Array]:
        return {"size": np.array([self.size, self.dim_in])}


@dataclass(frozen=True, eq=False)
class Pull:
    """Pull rows that are farther from the center than `reach`, as `whitener` measures it, back to that distance."""

    center: Array
    whitener: Array
    reach: float
    kind: ClassVar[str] = "pull"

    def __post_init__(self) -> None:
        for name in ("center", "whitener"):
            object.__setattr__(self, name, frozen(np.array(getattr(self, name), dtype=np.float64)))
        object.__setattr__(self, "reach", float(self.reach))

    @property
    def dim_in(self) -> int:
        return len(self.center)

    @property
    def dim_out(self) -> int:
        return len(self.center)

    def distances(self, rows: Array) -> Array:
        step = max(1, _BLOCK_BYTES // (8 * max(self.dim_in, 1)))
        parts = [self._distances(rows[at : at + step] - self.center) for at in range(0, len(rows), step)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _distances(self, apart: Array) -> Array:
        measured = apart @ self.whitener
        return np.sqrt(np.vecdot(measured, measured))

    def run(self, rows: Array, out: Array) -> None:
        apart = rows - self.center
        distances = self._distances(apart)
        if out is not rows:
            out[...] = rows
        far = distances > self.reach
        if far.any():
            out[far] = self.center + apart[far] * (self.reach / distances[far])[:, None]

    def run_torch(self, rows: Any) -> Any:
        import torch

        center, whitener = (torch.from_numpy(each.copy()).to(rows.device) for each in (self.center, self.whitener))
        apart = rows.double() - center
        distances = (apart @ whitener).norm(dim=1, keepdim=True)
        near = (center + apart * (self.reach / distances.clamp_min(self.reach or 1e-300))).to(rows.dtype)
        return near.where(distances > self.reach, rows)

    def arrays(self) -> dict[str, Array]:
        return {"center": self.center, "whitener": self.whitener, "reach": np.array(self.reach)}


@dataclass(frozen=True, eq=False)
class Curve:
    """Map every column by straight lines between its quantiles, to the same scores for all columns."""

    quantiles: Array
    scores: Array
    kind: ClassVar[str] = "curve"

    def __post_init__(self) -> None:
        for name in ("quantiles", "scores"):
            object.__setattr__(self, name, frozen(np.array(getattr(self, name), dtype=np.float64)))

    @property
    def dim_in(self) -> int:
        return self.quantiles.shape[1]

    @property
    def dim_out(self) -> int:
        return self.quantiles.shape[1]

    def run(self, rows: Array, out: Array) -> None:
        # from both sides, so that equal quantiles map to the middle of their scores
        for column in range(self.dim_in):
            known, values = self.quantiles[:, column], rows[:, column].astype(np.float64)
            upward = np.interp(values, known, self.scores)
            out[:, column] = (upward - np.interp(-values, -known[::-1], -self.scores[::-1])) / 2.0

    def run_torch(self, rows: Any) -> Any:
        import torch

        known = torch.from_numpy(self.quantiles.T.copy()).to(rows.device)
        scores = torch.from_numpy(self.scores.copy()).to(rows.device)
        values = rows.double().T.contiguous()
        upward = _interpolate(values, known, scores)
        downward = _interpolate(-values, -known.flip(1), -scores.flip(0))
        return ((upward - downward) / 2.0).T.to(rows.dtype)

    def arrays(self) -> dict[str, Array]:
        return {"quantiles": self.quantiles, "scores": self.scores}


def _interpolate(values: Any, known: Any, scores: Any) -> Any:
    """`numpy.interp` for every row of `values` by the same row of `known`."""
    import torch

    above = torch.searchsorted(known, values, right=True).clamp(1, known.shape[1] - 1)
    low, high = known.gather(1, above - 1), known.gather(1, above)
    gap = high - low
    share = ((values - low) / gap.where(gap != 0, torch.ones_like(gap))).clamp(0.0, 1.0)
    share = share.where(gap != 0, (values >= high).to(share.dtype))
    left = scores[above - 1]
    return left + share * (scores[above] - left)


def folded(stages: Iterable[Any]) -> tuple[Any, ...]:
    """The same chain with neighboring affine maps joined, and a second unit norm in a row left out."""
    made: list[Any] = []
    for stage in stages:
        last = made[-1] if made else None
        if isinstance(last, Affine) and isinstance(stage, Affine):
            made[-1] = last.then(stage)
        elif not (isinstance(last, Unit) and isinstance(stage, Unit)):
            made.append(stage)
    return tuple(made)


def run(stages: Sequence[Any], rows: Any, out: Any = None, broken: list[int] | None = None) -> Any:
    """Send rows through the stages, keeping their floating type; the work goes on in blocks that fit the cache.

    Parameters
    ----------
    stages
        The chain.
    rows
        ``(n, dim)`` array or tensor; float16 and bfloat16 are computed in float32.
    out
        Array to write to, such as a memory map; None makes one.
    broken
        A list that gets the first row of every block whose sum is not finite, which is looked at on the way.
    """
    if is_torch_tensor(rows):
        return _run_torch(stages, rows)
    kind = rows.dtype
    work = np.dtype(np.float64 if kind == np.float64 else np.float32)
    dims = _dims(stages, rows.shape[1])
    if out is None:
        out = np.empty((len(rows), dims[-1]), kind)
    step = max(16, _BLOCK_BYTES // (work.itemsize * max(*dims, 1)))
    if any(isinstance(stage, Affine) and not stage.diagonal for stage in stages):
        step = max(step, _BLOCK_ROWS)
    spare = [np.empty((step, dim), work) for dim in dims[1:]]
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        target = out[start : start + step]
        block = block if kind == work else block.astype(work)
        plain = _run_block(stages, block, target, spare)
        if broken is not None and not (plain or np.isfinite(block.sum())):
            broken.append(start)
    return out


def _run_block(stages: Sequence[Any], block: Array, target: Array, spare: list[Array]) -> bool:
    """Send a block through; whether the first stage has seen that all rows are finite."""
    current, plain = block, False
    for place, (stage, room) in enumerate(zip(stages, spare, strict=True)):
        direct = place == len(stages) - 1 and target.dtype == block.dtype
        made = target if direct else room[: len(block)]
        seen = stage.run(current, made)
        plain = plain or (place == 0 and seen is True)
        current = made
    if current is not target:
        narrow(current, target)
    return plain


def narrow(wide: Array, target: Array) -> None:
    """Round to a narrower type; a value that was finite must stay finite."""
    with np.errstate(over="ignore", under="ignore"):
        target[...] = wide
    if not np.isfinite(target).all() and np.isinf(target[np.isfinite(wide)]).any():
        largest = float(np.abs(wide[np.isfinite(wide)]).max())
        raise InputError(
            f"A result of type {target.dtype} needs values below {float(np.finfo(target.dtype).max):.3g}; got "
            f"{largest:.3g}. Convert the rows to float32 first."
        )


def _run_torch(stages: Sequence[Any], rows: Any) -> Any:
    import torch

    current = rows if rows.dtype in (torch.float32, torch.float64) else rows.float()
    for stage in stages:
        current = stage.run_torch(current)
    made = current.to(rows.dtype) if rows.is_floating_point() else current
    if made.dtype != current.dtype and bool((made.isinf() & current.isfinite()).any()):
        raise InputError(
            f"A result of type {made.dtype} needs values below {torch.finfo(made.dtype).max:.3g}; got larger ones. "
            "Convert the rows to float32 first."
        )
    return made


def _dims(stages: Sequence[Any], dim: int) -> list[int]:
    dims = [dim]
    for stage in stages:
        dims.append(dims[-1] if stage.dim_out is None else stage.dim_out)
    return dims


def _head(size: Array) -> Head:
    return Head(int(size[0]), int(size[1]))


#: What makes a stage of each kind from its arrays.
KINDS: dict[str, Any] = {"affine": Affine, "unit": Unit, "clip": ClipTo, "head": _head, "pull": Pull, "curve": Curve}
