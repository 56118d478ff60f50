"""Chains of normalizers: fitted in as few passes as they allow, applied as one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from fullspan._typing import Array
from fullspan.errors import InputError
from fullspan.normalize.affine import Affine
from fullspan.normalize.base import Normalizer
from fullspan.normalize.facts import Facts, passes_through
from fullspan.normalize.folded import Folded
from fullspan.normalize.source import Counts, Source
from fullspan.normalize.stages import folded
from fullspan.summaries.base import Summaries, Summary

__all__ = ["Pipeline", "make_pipeline"]

_AFTER = {
    ("none", "diagonal"): "diagonal",
    ("none", "matrix"): "matrix",
    ("diagonal", "diagonal"): "diagonal",
    ("diagonal", "matrix"): "matrix",
    ("matrix", "diagonal"): "matrix",
    ("matrix", "matrix"): "matrix",
}


class _ManyPassesError(InputError, AttributeError):
    """A chain of several passes has no partial_fit, as scikit-learn understands it."""


@dataclass
class _Pass:
    """Steps `start` to `stop` that one pass fits, by what they need of the rows before step `start`."""

    start: int
    stop: int
    needs: tuple[str, ...]


class Pipeline(Normalizer):
    """Normalizers one after the other.

    Parameters
    ----------
    steps
        Pairs of a name and a normalizer. :func:`make_pipeline` names them.
    zero_rows, nan_rows
        Policy for rows of zeros and rows with NaN or infinity; None takes the one that a step asks for.

    Attributes
    ----------
    passes_
        How many times the fit read the table.

    Notes
    -----
    Affine steps are fitted together from one pass, because the mean and the covariance of mapped rows follow from
    those of the rows; a step behind a clip, a range or quantiles behind a rotation need a pass more, and `passes`
    counts them before anything is read. `transform` joins neighboring affine steps to one product.

    Examples
    --------
    >>> import numpy as np
    >>> from fullspan.normalize.scale import Center, Standardize
    >>> from fullspan.normalize.unit import UnitNorm
    >>> pipe = make_pipeline(Center(), Standardize(), UnitNorm())
    >>> pipe.passes
    1
    >>> pipe.fit_transform(np.array([[1.0, 2.0], [3.0, 6.0], [2.0, 1.0]])).round(3).tolist()
    [[-0.935, -0.354], [0.661, 0.75], [0.0, -1.0]]
    >>> [stage.kind for stage in pipe.stages]
    ['affine', 'unit']
    """

    def __init__(self, steps: Any, *, zero_rows: str | None = None, nan_rows: str | None = None) -> None:
        self.steps, self.zero_rows, self.nan_rows = steps, zero_rows, nan_rows  # type: ignore[assignment]  # None: as the steps say

    # -- parameters

    @property
    def named_steps(self) -> dict[str, Normalizer]:
        """Steps by name: the fitted ones after a fit, which leaves those of `steps` as they are."""
        return dict(self._present)

    @property
    def _present(self) -> list[tuple[str, Normalizer]]:
        return self.__dict__.get("_fitted_steps") or self.steps

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Normalizer]:
        return (step for _, step in self._present)

    def __getitem__(self, which: int | str) -> Normalizer:
        return self.named_steps[which] if isinstance(which, str) else self._present[which][1]

    def _pairs(self) -> list[tuple[str, Normalizer]]:
        """The steps if they are pairs of a name and a normalizer: `fit` says so if they are not."""
        steps = self.steps if isinstance(self.steps, (list, tuple)) else []
        return [
            pair for pair in steps if isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], Normalizer)
        ]

    def _renew(self) -> None:
        """Unfitted copies of the steps, for a fit to work on."""
        self._fitted_steps = [(name, type(step)(**step.get_params(deep=False))) for name, step in self.steps]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, with those of the steps as ``step__parameter``."""
        found = {"steps": self.steps, "zero_rows": self.zero_rows, "nan_rows": self.nan_rows}
        if deep:
            for name, step in self._pairs():
                found[name] = step
                found |= {f"{name}__{key}": value for key, value in step.get_params().items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Change parameters, steps (by name) or parameters of steps."""
        if "steps" in params:
            self.steps = params.pop("steps")
        names = dict(self._pairs())
        for name in [key for key in params if key in names]:
            step = params.pop(name)
            self.steps = [(key, step if key == name else known) for key, known in self.steps]
        for key in [key for key in params if key.partition("__")[0] in names and "__" in key]:
            name, _, rest = key.partition("__")
            dict(self.steps)[name].set_params(**{rest: params.pop(key)})
        return super().set_params(**params)

    def __repr__(self) -> str:
        policies = [f"{key}={getattr(self, key)!r}" for key in ("zero_rows", "nan_rows") if getattr(self, key)]
        return f"make_pipeline({', '.join([*(repr(step) for _, step in self._pairs()), *policies])})"

    def _policy(self) -> tuple[str, str]:
        return (
            self._one_policy("zero_rows", self.zero_rows, "keep"),
            self._one_policy("nan_rows", self.nan_rows, "error"),
        )

    def _one_policy(self, name: str, asked: str | None, default: str) -> str:
        if asked is not None:
            return asked
        found = {getattr(step, name) for _, step in self._pairs()} - {default}
        if len(found) > 1:
            raise InputError(
                f"Pipeline needs one policy {name} for all steps; got {', '.join(sorted(found))}. "
                f"Give it to the pipeline: make_pipeline(..., {name}=...)."
            )
        return found.pop() if found else default

    def _check_parameters(self) -> None:
        if not self._pairs() or len(self._pairs()) != len(self.steps):
            raise InputError(
                f"Pipeline needs a list of (name, normalizer of fullspan) as steps; got {self.steps!r}. For other "
                "steps take sklearn.pipeline.make_pipeline, which takes normalizers of fullspan too."
            )
        for _, step in self.steps:
            step._check_common()
            if getattr(step, "action", None) == "drop":
                raise InputError(
                    "Pipeline needs steps that keep every row; got Outliers with action='drop'. Drop rows before."
                )

    # -- fitting

    def _passes(self) -> list[_Pass]:
        found: list[_Pass] = []
        behind = "other"
        for place, step in enumerate(self):
            needs = step.needs()
            if needs and not (found and passes_through(needs, behind)):
                found.append(_Pass(place, place, ()))
                behind = "none"
            if found:
                found[-1].needs += needs
                found[-1].stop = place + 1
            behind = behind if step._map == "none" else _AFTER.get((behind, step._map), "other")
        return found

    @property
    def passes(self) -> int:
        """How many times a fit reads the table."""
        return len(self._passes())

    def needs(self) -> tuple[str, ...]:
        passes = self._passes()
        if len(passes) > 1:
            raise _ManyPassesError(
                f"partial_fit, merge and from_summary need a chain that one pass fits; this one takes {len(passes)}, "
                f"because what step {passes[1].start + 1} ({type(self[passes[1].start]).__name__}) asks for does not "
                "follow from the rows before the steps ahead of it. Use fit."
            )
        return passes[0].needs if passes else ()

    @property
    def partial_fit(self) -> Any:  # type: ignore[override]  # there for chains of one pass only
        """Add rows to those learned from so far, where one pass fits the chain."""
        self.needs()
        return super().partial_fit

    def __getattr__(self, name: str) -> Any:
        if name == "partial_fit":
            self.needs()
        return super().__getattr__(name)

    def _prefix(self, dim: int | None = None) -> tuple[Any, ...]:
        """Stages before the first step that is fitted."""
        passes = self._passes()
        before = list(self)[: passes[0].start if passes else 0]
        if dim is not None:
            return self._fit_plain(before, dim)
        for step in before:
            step._forget()
            step._learn(None, 0)
        return folded(stage for step in before for stage in step._stages)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a table, step by step; see :meth:`Normalizer.fit`. Reads it `passes` times."""
        self._check_common()
        self._renew()
        self.__dict__.pop("_first_parts", None)
        passes = self._passes()
        if len(passes) < 2 or isinstance(X, (Summary, Summaries)):
            return super().fit(X, y, sample_weight)
        self._forget()
        self.__dict__.pop("summary_", None)
        source = self._source(X, sample_weight, reset=True)
        if not source.repeatable:
            raise InputError(
                f"This pipeline needs {len(passes)} passes over the rows; got an iterator, which can be read once. "
                "Give an array, a path or a table."
            )
        return self._fit_passes(source, passes)

    def _fit_passes(self, source: Source, passes: list[_Pass]) -> Self:
        stages = self._prefix()
        counts: Counts | None = None
        for each in passes:
            again = source.behind((), False)
            made = self._fold(again, each.needs, stages)
            counts = counts or again.counts
            self.n_rows_, self._storage, self._frequencies = again.n_rows, again.storage or "float32", again.frequencies
            self.n_features_in_ = again.dim or next(iter(made.values())).dim
            if each is passes[0]:
                self._first_parts = made
            facts = Facts(made, None, self._storage if not stages else "float64", self._frequencies)
            facts.need_rows("Pipeline")
            stages = folded((*stages, *self._learn_steps(each.start, each.stop, facts)))
        self._prefix(self.n_features_in_)
        self.counts_, self.passes_ = (counts or Counts()).as_dict(), len(passes)
        self._stages, self._learned, self._stale = stages, ("_stages",), False
        return self

    def _from_raw(self) -> bool:
        passes = self._passes()
        return not passes or passes[0].start == 0

    def _learn_steps(self, start: int, stop: int, facts: Facts) -> list[Any]:
        """Fit steps from the facts about the rows before the first of them."""
        stages: list[Any] = []
        dim: int = facts.dim
        for step in list(self)[start:stop]:
            step._forget()
            step.n_features_in_ = dim
            step.n_rows_, step.counts_, step.passes_ = facts.n_rows, Counts().as_dict(), min(len(step.needs()), 1)
            step._learn(facts if step.needs() else None, dim)
            stages += step._stages
            for stage in step._stages:
                dim = dim if stage.dim_out is None else stage.dim_out
                if isinstance(stage, Affine):
                    facts = facts.after(stage)
        return stages

    def _fold(self, source: Source, needs: tuple[str, ...], stages: Any = ()) -> Summaries:
        return super()._fold(source, needs, stages or self._prefix())

    def _learn(self, facts: Facts | None, dim: int) -> None:
        if "_fitted_steps" not in self.__dict__:
            self._renew()
        passes = self._passes()
        if facts is None or not passes:
            stages = self._fit_plain(list(self), dim)
        else:
            prefix = self._prefix(dim)
            stages = folded((*prefix, *self._learn_steps(passes[0].start, passes[0].stop, facts)))
        self._stages = stages

    def _fit_plain(self, steps: list[Normalizer], dim: int) -> tuple[Any, ...]:
        """Fit steps that ask for nothing."""
        stages: list[Any] = []
        for step in steps:
            step._forget()
            step.n_features_in_ = dim
            step.n_rows_, step.counts_, step.passes_ = self.n_rows_, Counts().as_dict(), 0
            step._learn(None, dim)
            stages += step._stages
            dim = step._dim_out()
        return folded(stages)

    # -- what comes of it

    def fold(self) -> Folded:
        """The fitted chain as one object without its steps: an affine map, and what cannot be part of it."""
        return Folded.of(self)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the dimensions of transformed rows, as the steps name them."""
        names = self._names_in(input_features)
        for step in self:
            names = step.get_feature_names_out(names)
        return names


def make_pipeline(*steps: Normalizer, zero_rows: str | None = None, nan_rows: str | None = None) -> Pipeline:
    """Chain normalizers, naming each by its class.

    Parameters
    ----------
    *steps
        Normalizers in the order in which they act.
    zero_rows, nan_rows
        Policy for rows of zeros and rows with NaN or infinity; None takes the one that a step asks for.

    Examples
    --------
    >>> from fullspan.normalize.scale import Center
    >>> make_pipeline(Center(), Center()).named_steps
    {'center-1': Center(), 'center-2': Center()}
    """
    names = [type(step).__name__.lower() for step in steps]
    counted = [
        f"{name}-{names[:place].count(name) + 1}" if names.count(name) > 1 else name for place, name in enumerate(names)
    ]
    return Pipeline(list(zip(counted, steps, strict=True)), zero_rows=zero_rows, nan_rows=nan_rows)
