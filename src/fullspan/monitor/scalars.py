"""Scalars of the run, such as its loss: kept as they come, turned into points when they are written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fullspan._backend import is_torch_tensor, loaded
from fullspan.errors import InputError
from fullspan.store.records import Moment, Point

__all__ = ["Scalars"]


#: The fields of a moment, and a value.
_Given = tuple[tuple[int, float | None, int | None, float], Any]


class Scalars:
    """Values by name, in the order in which they came. A tensor on a device stays there until it is written."""

    def __init__(self) -> None:
        self._given: dict[str, list[_Given]] = {}
        self.count = 0
        self._puts = 0

    def put(self, at: tuple[int, float | None, int | None, float], values: Mapping[str, Any]) -> None:
        """Keep some values of a moment, given by its fields; tensors let go of their graph."""
        self._puts += 1
        for name, value in values.items():
            if value is None:
                continue
            given = self._given.get(name)
            if given is None:
                given = self._given[name] = []
            given.append((at, _single(name, value)))
            self.count += 1

    def clear(self) -> None:
        """Forget all of them."""
        self._given, self.count = {}, 0

    def puts(self) -> int:
        """How many times values came since this was asked last."""
        puts, self._puts = self._puts, 0
        return puts

    def drain(self, window: int = 1, *, before: int | None = None) -> Iterator[Point]:
        """The values as points, which are then forgotten.

        Parameters
        ----------
        window
            Means of so many steps in turn, each at the moment of its last step.
        before
            Leave what belongs to this step or later: more of the same step may come.
        """
        for name in list(self._given):
            given = self._given.pop(name)
            if before is not None:
                kept = [each for each in given if each[0][0] >= before]
                given = [each for each in given if each[0][0] < before]
                if kept:
                    self._given[name] = kept
            self.count -= len(given)
            yield from _points(name, given, window)


def _single(name: str, value: Any) -> Any:
    """A number, or a tensor that holds one, without its graph."""
    if type(value) is float:
        return value
    if is_torch_tensor(value):
        if value.numel() != 1:
            raise InputError(f"watcher.step needs {name} to be one number; got a tensor of shape {tuple(value.shape)}.")
        return value.detach()
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"watcher.step needs {name} to be one number; got {type(value).__name__}.") from None


def _points(name: str, given: list[_Given], window: int) -> Iterator[Point]:
    steps: dict[int, list[float]] = {}
    last: dict[int, Moment] = {}
    for (at, _), value in zip(given, _floats([value for _, value in given]), strict=True):
        steps.setdefault(at[0], []).append(value)
        last[at[0]] = Moment(*at)
    in_order = list(steps)
    for start in range(0, len(in_order), window):
        some = in_order[start : start + window]
        values = [sum(steps[step]) / len(steps[step]) for step in some]
        mean = sum(values) / len(values)
        finite = math.isfinite(mean)
        why = None if finite else f"{name} is {mean} at step {some[-1]}"
        yield Point("", name, last[some[-1]], mean if finite else None, None, why)


def _floats(values: list[Any]) -> list[float]:
    """Numbers on the host; those on a device come in one transfer."""
    torch = loaded("torch")
    on_device = [i for i, each in enumerate(values) if is_torch_tensor(each) and each.device.type == "cuda"]
    if torch is not None and on_device:
        together = torch.stack([values[i].reshape(()).double() for i in on_device]).tolist()
        for i, value in zip(on_device, together, strict=True):
            values[i] = value
    return [float(each) for each in values]
