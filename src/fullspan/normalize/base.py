"""What every normalizer does: learn from the facts of one pass, and map rows by the stages it made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from fullspan._backend import is_torch_tensor
from fullspan._typing import Array, Block
from fullspan.errors import FullspanError, InputError, NothingEvaluatedError
from fullspan.normalize._estimator import Estimator, check_dim
from fullspan.normalize.affine import Affine
from fullspan.normalize.facts import Facts, plan
from fullspan.normalize.radial import RadialMoments
from fullspan.normalize.source import POLICIES, Counts, Source, check_rows, is_stream, open_source, storage_of
from fullspan.normalize.stages import folded, run
from fullspan.summaries.base import Summaries, Summary
from fullspan.summaries.columns import ColumnMoments
from fullspan.summaries.fold import fold
from fullspan.summaries.moments import Moments, WeightedMoments

__all__ = ["NotFittedError", "Normalizer"]


_WITH_MEAN = (ColumnMoments, Moments, WeightedMoments, RadialMoments)


class NotFittedError(FullspanError, ValueError, AttributeError):
    """A normalizer is asked for what only a fit can tell."""


class Normalizer(Estimator):
    """Base of all normalizers.

    A subclass says what it `needs` of a table, and makes its facts and stages in `_learn`. Everything else is here:
    fitting from any source or from a summary, adding rows, merging, mapping, undoing.

    Notes
    -----
    Parameters shared by all: ``zero_rows`` and ``nan_rows`` say what happens to rows of zeros and to rows with NaN or
    infinity. ``"error"`` refuses them; ``"skip"`` leaves them out of the fit and passes them through as they are (a
    row of zeros of the new length where `transform` changes the length, NaN for rows that are not finite); ``"keep"``
    treats rows of zeros as any other, and lets NaN and infinity go through the arithmetic (no statistic holds them).
    How many a fit met is in ``counts_``.

    Fitted facts: ``n_rows_`` rows read, ``counts_``, ``passes_`` passes over the table, ``n_features_in_``.
    """

    #: Facts that a fit asks for: "mean", "variance", "bounds", "quantiles", "covariance", "radius".
    _needs: ClassVar[tuple[str, ...]] = ()
    #: Whether nothing is fitted, so that rows can be mapped at once.
    _stateless: ClassVar[bool] = False
    #: What the fitted map is: "diagonal" or "matrix" if it is affine, "none" if it changes nothing, else "other".
    _map: ClassVar[str] = "other"

    zero_rows: str
    nan_rows: str
    n_rows_: int
    counts_: dict[str, int]
    passes_: int
    _stages: tuple[Any, ...]

    # -- what a subclass fills in

    def needs(self) -> tuple[str, ...]:
        """Facts about a table that the fit asks for."""
        return self._needs

    def _check_parameters(self) -> None:
        """Raise where a parameter is none."""

    def _learn(self, facts: Facts | None, dim: int) -> None:
        """Set the fitted attributes and ``_stages`` for rows of length `dim`."""
        raise NotImplementedError

    def _policy(self) -> tuple[str, str]:
        """What happens to rows of zeros, and to rows that are not finite."""
        return self.zero_rows, self.nan_rows

    # -- fitting

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a table.

        Parameters
        ----------
        X
            Array, data frame or tensor of shape ``(rows, dim)``; a path; a table (:func:`fullspan.open_table`); an
            iterable of blocks; or a summary that was made before.
        y
            Ignored.
        sample_weight
            ``(rows,)`` weight of every row, or ``"frequencies"`` for those of the table. Whole numbers count as that
            many copies of a row.

        Raises
        ------
        InputError
            If a parameter or a row is not what the normalizer needs.
        """
        self._check_common()
        self._forget()
        if isinstance(X, (Summary, Summaries)):
            return self._take(_summaries(X), Counts(), None)
        source = self._source(X, sample_weight, reset=True)
        if not self.needs():
            return self._fit_nothing(source)
        made = self._fold(source, self.needs())
        return self._take(made, source.counts, source)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to those learned from so far; what is fitted is computed anew when it is next asked for."""
        self._check_common()
        known = self.__dict__.get("summary_")
        first = not self.__sklearn_is_fitted__()
        source = self._source(X, sample_weight, reset=first)
        if not self.needs():
            return self._fit_nothing(source)
        made = self._fold(source, self.needs())
        if not first and known is None:
            raise InputError(f"{type(self).__name__}.partial_fit needs the summary of the fit; it was not kept.")
        merged = made if known is None else _merge(known, made)
        counts = source.counts if first else _add(self.counts_, source.counts)
        n_rows = (0 if first else self.n_rows_) + source.n_rows
        whole = source.frequencies and (first or self._frequencies)
        self._forget()
        return self._take(merged, counts, source, n_rows=n_rows, frequencies=whole, later=True)

    def merge(self, other: Self) -> Self:
        """A new normalizer, fitted to the rows of both: what a single pass over all of them would have made."""
        if type(other) is not type(self):
            raise InputError(
                f"merge needs two normalizers of one kind; got {type(self).__name__} and {type(other).__name__}."
            )
        if repr(self) != repr(other):
            raise InputError(f"merge needs equal parameters; got {self!r} and {other!r}.")
        self.needs()
        mine, theirs = self._fitted("summary_"), other._fitted("summary_")
        counts = _add(self.counts_, Counts(*other.counts_.values()))
        made = type(self)(**self.get_params(deep=False))
        made.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            made.feature_names_in_ = self.feature_names_in_  # type: ignore[attr-defined]  # of scikit-learn
        if not self.needs():
            made._fit_nothing(Source([], type(self).__name__, dim=self.n_features_in_))
            made.n_rows_, made.counts_ = self.n_rows_ + other.n_rows_, counts.as_dict()
            return made
        merged = _merge(mine, theirs)
        whole = self._frequencies and other._frequencies
        storage = self._storage
        made._take(merged, counts, None, n_rows=self.n_rows_ + other.n_rows_, frequencies=whole, storage=storage)
        return made

    @classmethod
    def from_summary(cls, summary: Any, **params: Any) -> Self:
        """A fitted normalizer from a summary that was made before, such as ``fs.fold(table, fs.Moments)``."""
        return cls(**params).fit(summary)

    def _fit_nothing(self, source: Source) -> Self:
        for _ in source.blocks():
            pass
        if source.dim is None:
            raise InputError(_no_rows(source))
        self.n_features_in_ = source.dim
        if source.weights is not None and not isinstance(source.weights, str) and not source.weights.any():
            raise InputError(_no_rows(source))
        self.n_rows_, self.passes_ = source.n_rows, 0
        self.counts_ = source.counts.as_dict()
        self._frequencies, self._storage = True, "float32"
        self.summary_ = Summaries({})
        self._learn(None, self.n_features_in_)
        return self

    def _source(self, X: Any, sample_weight: Any, *, reset: bool) -> Source:
        table, weights = open_source(X, sample_weight)
        if is_stream(table):
            if reset:
                self.__dict__.pop("n_features_in_", None)
        else:
            table = self._rows(table, reset=reset)
            if weights is not None and not isinstance(weights, str) and len(weights) != len(table):
                raise InputError(
                    f"{type(self).__name__} needs one sample_weight for every row; got {len(weights)} for "
                    f"{len(table)} rows."
                )
        zero_rows, nan_rows = self._policy()
        dim = self.__dict__.get("n_features_in_")
        return Source(table, type(self).__name__, weights, zero_rows, nan_rows, storage=storage_of(table), dim=dim)

    def _fold(self, source: Source, needs: tuple[str, ...], stages: Any = ()) -> Summaries:
        repeat = "quantiles" in needs and source.weights is not None
        source.stages, source.repeat = tuple(stages), repeat
        try:
            made = fold(source, plan(needs, source.weights is not None and not repeat), clean=True)
        except NothingEvaluatedError:
            if isinstance(source.table, np.ndarray):  # every row was left out, or weighed nothing
                raise InputError(_no_rows(source)) from None
            raise
        source.finish()
        return made

    def _take(
        self,
        made: Summaries,
        counts: Counts,
        source: Source | None,
        *,
        n_rows: int | None = None,
        frequencies: bool | None = None,
        storage: str | None = None,
        later: bool = False,
    ) -> Self:
        some: Any = next(iter(made.values()))
        self.summary_ = made
        self.n_features_in_ = some.dim if source is None or source.dim is None else source.dim
        self.n_rows_ = n_rows if n_rows is not None else (some.n_rows if source is None else source.n_rows)
        self.counts_ = counts.as_dict()
        self.passes_ = 1
        self._frequencies = frequencies if frequencies is not None else (source is None or source.frequencies)
        self._storage = storage or (source.storage if source is not None and source.storage else "float32")
        self._facts().need_rows(type(self).__name__)
        self._stale = later
        if not later:
            self._refresh()
        return self

    def _facts(self) -> Facts:
        return Facts(self.summary_, None, self._storage, self._frequencies)

    def _refresh(self) -> None:
        self._stale = False
        before = set(self.__dict__)
        self._learn(self._facts(), self.n_features_in_)
        self._learned = tuple(set(self.__dict__) - before)

    def _forget(self) -> None:
        for name in (*self.__dict__.get("_learned", ()), "_learned", "_stages", "_stale"):
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        if name == "stages" and not self.__sklearn_is_fitted__():  # the property asked for what is not there
            return self._unfitted_stages()
        if (name.endswith("_") or name == "_stages") and not name.startswith("__"):
            if self.__dict__.get("_stale"):
                self._refresh()
                if name in self.__dict__:
                    return self.__dict__[name]
            if name == "_stages":
                return self._unfitted_stages()
            if not self.__sklearn_is_fitted__():
                raise NotFittedError(
                    f"This {type(self).__name__} instance is not fitted yet: {name} needs a fit. Call fit(table) first."
                )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def _unfitted_stages(self) -> tuple[Any, ...]:
        error: type[Exception] = NotFittedError
        from fullspan._backend import loaded

        if loaded("sklearn") is not None:
            from sklearn.exceptions import NotFittedError as TheirError

            error = type("NotFittedError", (NotFittedError, TheirError), {})
        raise error(f"This {type(self).__name__} instance is not fitted yet. Call fit(table) before transform.")

    def _fitted(self, name: str) -> Any:
        if not self.__sklearn_is_fitted__():
            self._unfitted_stages()
        return getattr(self, name)

    # -- mapping

    @property
    def passes(self) -> int:
        """How many times a fit reads the table."""
        return 1 if self.needs() else 0

    @property
    def stages(self) -> tuple[Any, ...]:
        """What is done to rows: affine maps, clips, unit norms; neighboring affine maps are one."""
        if self._stateless and not self.__sklearn_is_fitted__():
            self._learn(None, 0)
        return folded(self._stages)

    def affine(self) -> Affine | None:
        """The one affine map that this normalizer is, or None when it is more than that."""
        stages = self.stages
        return stages[0] if len(stages) == 1 and isinstance(stages[0], Affine) else None

    def transform(self, X: Any) -> Any:
        """Map rows.

        Parameters
        ----------
        X
            Array, data frame or tensor of shape ``(rows, dim)``.

        Returns
        -------
        array or tensor
            ``(rows, dim_out_)`` of the floating type that came in (float64 for integers); a tensor stays on its device.

        Raises
        ------
        InputError
            If rows are of another length than those of the fit, or break the policy for zero and NaN rows.
        """
        self._check_common()
        stages = self.stages
        rows = self._rows(X, reset=False)
        made = self._mapped(rows, stages)
        return self._contained(made, X)

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit to an array and map it."""
        return self.fit(X, y, sample_weight=sample_weight).transform(X)

    def inverse_transform(self, X: Any) -> Any:
        """Map rows back; directions that were dropped come back as those of the mean."""
        inverse = self._inverse(self._fitted("stages"))
        rows = X if is_torch_tensor(X) else _plain(X)
        check_dim(type(self).__name__, rows.shape[1], self._dim_out())
        return run(inverse, rows)

    def _inverse(self, stages: tuple[Any, ...]) -> tuple[Any, ...]:
        for stage in stages:
            if not isinstance(stage, Affine):
                raise InputError(
                    f"{type(self).__name__}.inverse_transform needs a chain of affine steps; got a step of the kind "
                    f"'{stage.kind}', which cannot be undone."
                )
        return tuple(stage.inverse() for stage in reversed(stages))

    def _mapped(self, rows: Any, stages: tuple[Any, ...]) -> Any:
        broken: list[int] | None = None if is_torch_tensor(rows) or self._policy()[0] != "keep" else []
        with np.errstate(invalid="ignore", over="ignore"):
            made = None if broken is None else run(stages, rows, None, broken)
            if made is not None and not broken:
                return made
            kept = self._passed_through(rows)
            made = run(stages, rows) if made is None else made
        if kept is not None:
            mask, values = kept
            made[mask] = values(made.shape[1])
        return made

    def _passed_through(self, rows: Any) -> Any:
        """Which rows the policy leaves as they are, and what they are in the result."""
        if is_torch_tensor(rows):
            return self._passed_tensors(rows)
        zero_rows, nan_rows = self._policy()
        if zero_rows == "keep" and nan_rows == "keep":
            return None
        block = Block(rows).widened()
        mask = check_rows(block, zero_rows, nan_rows, f"{type(self).__name__}.transform", Counts())
        if mask is None or (skip := ~mask) is None or not skip.any():
            return None
        if nan_rows == "keep":
            skip &= block.norms == 0.0
        left = rows[skip]

        def values(dim: int) -> Array:
            if left.shape[1] == dim:
                return left
            fill = np.where(np.isfinite(left).all(axis=1), 0.0, np.nan).astype(rows.dtype)
            return np.broadcast_to(fill[:, None], (len(left), dim))

        return skip, values

    def _passed_tensors(self, rows: Any) -> Any:
        import torch

        zero_rows, nan_rows = self._policy()
        finite = rows.isfinite().all(dim=1)
        if nan_rows == "error" and not bool(finite.all()):
            row = int((~finite).nonzero()[0])
            raise InputError(f"{type(self).__name__}.transform needs finite rows; got NaN or infinity in row {row}.")
        zero = (rows == 0).all(dim=1)
        if zero_rows == "error" and bool(zero.any()):
            raise InputError(f"{type(self).__name__}.transform needs rows that are not all zeros; got some.")
        skip = torch.zeros_like(zero)
        if nan_rows == "skip":
            skip |= ~finite
        if zero_rows == "skip":
            skip |= zero
        if not bool(skip.any()):
            return None
        left = rows[skip]

        def values(dim: int) -> Any:
            if left.shape[1] == dim:
                return left
            fill = torch.where(left.isfinite().all(dim=1), 0.0, float("nan")).to(left.dtype)
            return fill[:, None].expand(len(left), dim)

        return skip, values

    # -- what is known of it

    @property
    def dim_in_(self) -> int:
        return self._fitted("n_features_in_")

    @property
    def dim_out_(self) -> int:
        return self._dim_out()

    def _fitted_dim(self) -> int:
        return self._fitted("n_features_in_")

    def _dim_out(self) -> int:
        dim = self._fitted("n_features_in_")
        for stage in self.stages:
            dim = dim if stage.dim_out is None else stage.dim_out
        return dim

    def to_module(self) -> Any:
        """The fitted map as a ``torch.nn.Module``: see :func:`fullspan.to_module`."""
        from fullspan.normalize.module import to_module

        return to_module(self)

    def to_onnx(self, path: Any) -> Any:
        """Write the fitted map as an ONNX model: see :func:`fullspan.normalize.onnx_.to_onnx`."""
        from fullspan.normalize.onnx_ import to_onnx

        return to_onnx(self, path)

    def _stamp(self) -> dict[str, Array]:
        """Column means and variances of the rows of the fit, and of mapped rows, where summaries tell."""
        parts = self.__dict__.get("_first_parts") or self.__dict__.get("summary_")
        if not parts or not any(kind in parts for kind in _WITH_MEAN):
            return {}
        facts = Facts(parts, None, self._storage, self._frequencies)
        if facts.dim != self.n_features_in_ or not self._from_raw():
            return {}
        stamp = {"in_mean": facts.mean, "in_variance": facts.variance}
        affine = self.affine()
        if affine is not None and (affine.diagonal or any(kind in parts for kind in _WITH_MEAN[1:])):
            behind = facts.after(affine)
            stamp |= {"out_mean": behind.mean, "out_variance": behind.variance}
        return stamp

    def _from_raw(self) -> bool:
        """Whether the summary of the fit is of the rows as they came in."""
        return True

    def state(self) -> dict[str, Any]:
        """Parameters, stages with their arrays, and what is known of the fit: all that a file needs."""
        return {
            "kind": type(self).__name__,
            "params": {key: value for key, value in self.get_params(deep=False).items() if key != "align_to"},
            "stages": [{"kind": stage.kind, "arrays": stage.arrays()} for stage in self._fitted("stages")],
            "dim_in": self.dim_in_,
            "dim_out": self.dim_out_,
            "n_rows": self.n_rows_,
            "counts": dict(self.counts_),
            "passes": self.passes_,
        }

    def _check_common(self) -> None:
        for name, policy in zip(("zero_rows", "nan_rows"), self._policy(), strict=True):
            if policy not in POLICIES:
                raise InputError(
                    f"{type(self).__name__} needs {name} to be one of {', '.join(POLICIES)}; got {policy!r}."
                )
        self._check_parameters()


def _no_rows(source: Source) -> str:
    return (
        f"{source.user}.fit needs at least one row of finite values and a weight above zero; got none among "
        f"{source.n_rows} row(s)."
    )


def _summaries(made: Any) -> Summaries:
    return made if isinstance(made, Summaries) else Summaries({type(made): made})


def _merge(one: Summaries, other: Summaries) -> Summaries:
    return one.merge(other)


def _add(known: Mapping[str, int], more: Counts) -> Counts:
    return Counts(known["zero"] + more.zero, known["nan"] + more.nan, known["infinite"] + more.infinite)


def _plain(X: Any) -> Array:
    rows = np.asarray(X)
    if rows.ndim != 2:
        raise InputError(f"inverse_transform needs an array of shape (rows, dim); got shape {rows.shape}.")
    return rows if rows.dtype.kind == "f" and rows.dtype.itemsize <= 8 else rows.astype(np.float64)
