"""What makes a normalizer an estimator of scikit-learn, without importing it.

scikit-learn asks its estimators for a handful of methods; they are written out here, and what only scikit-learn can
do (checks of data frames, tags, output as a data frame) is left to it in a process that has loaded it.
"""

from __future__ import annotations

import inspect
from typing import Any, Self

import numpy as np

from fullspan._backend import is_torch_tensor, loaded
from fullspan._extras import require
from fullspan._typing import Array
from fullspan.errors import InputError, UnknownNameError, did_you_mean

__all__ = ["Estimator", "array_rows", "check_dim"]


class Estimator:
    """Parameters, tags and names of features; parameters are the arguments of ``__init__``, kept as they come."""

    #: Prefix of the names of new features; None where dimensions keep their names.
    _feature_prefix: str | None = None
    _sklearn_auto_wrap_output_keys = frozenset({"transform"})
    n_features_in_: int

    @classmethod
    def _parameters(cls) -> list[str]:
        given = inspect.signature(cls.__init__).parameters.values()
        return sorted(each.name for each in given if each.name != "self" and each.kind is not each.VAR_KEYWORD)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name.

        Parameters
        ----------
        deep
            Whether parameters of parameters that are estimators come along, as ``name__parameter``.
        """
        found: dict[str, Any] = {}
        for name in self._parameters():
            value = getattr(self, name)
            found[name] = value
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{key}": each for key, each in value.get_params().items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Change parameters; ``name__parameter`` reaches into a parameter that is an estimator."""
        known = self.get_params(deep=True)
        for key, value in params.items():
            if key not in known:
                raise _UnknownParameterError(
                    f"Invalid parameter {key!r} for {type(self).__name__}: it has none of that name."
                    f"{did_you_mean(key, known)}"
                )
            name, inner, rest = key.partition("__")
            if inner:
                self.get_params(deep=False)[name].set_params(**{rest: value})
            else:
                setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        parts = [
            f"{name}={getattr(self, name)!r}"
            for name in defaults
            if name != "self" and not _same(getattr(self, name, None), defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(parts)})"

    def __sklearn_is_fitted__(self) -> bool:
        return "n_features_in_" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        utils = require("sklearn.utils", "normalize", f"The tags of {type(self).__name__}")
        return utils.Tags(
            estimator_type=None,
            target_tags=utils.TargetTags(required=False),
            transformer_tags=utils.TransformerTags(preserves_dtype=["float64", "float32", "float16"]),
            input_tags=utils.InputTags(allow_nan=self._policy()[1] != "error"),
        )

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what `transform` returns: ``"default"`` (an array), ``"pandas"`` or ``"polars"``."""
        require("sklearn.base", "normalize", "set_output")
        if transform is not None:
            self._sklearn_output_config = {**getattr(self, "_sklearn_output_config", {}), "transform": transform}
        return self

    def _contained(self, made: Any, source: Any) -> Any:
        """The result as scikit-learn is told to return it."""
        if loaded("sklearn") is None or is_torch_tensor(made):
            return made
        from sklearn.utils._set_output import _wrap_data_with_container

        return _wrap_data_with_container("transform", made, source, self)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the dimensions of transformed rows."""
        names = self._names_in(input_features)
        if self._feature_prefix is None:
            return names[: self._dim_out()]
        return np.array([f"{self._feature_prefix}{place}" for place in range(self._dim_out())], dtype=object)

    def _names_in(self, input_features: Any) -> Array:
        n_features = self._fitted_dim()
        names = getattr(self, "feature_names_in_", None)
        if input_features is not None:
            given = np.asarray(input_features, dtype=object)
            if names is not None and not np.array_equal(given, names):
                raise InputError("input_features is not equal to feature_names_in_. Leave input_features out.")
            if len(given) != n_features:
                raise InputError(f"input_features should have length equal to number of features ({n_features}).")
            names = given
        elif names is None:
            names = np.array([f"x{place}" for place in range(n_features)], dtype=object)
        return names

    @property
    def _n_features_out(self) -> int:
        return self._dim_out()

    def _policy(self) -> tuple[str, str]:
        raise NotImplementedError

    def _fitted_dim(self) -> int:
        raise NotImplementedError

    def _dim_out(self) -> int:
        raise NotImplementedError

    def _rows(self, E: Any, *, reset: bool) -> Any:
        """Check an array, a data frame or a tensor of rows, as a fit (`reset`) or as new rows of a known length."""
        if is_torch_tensor(E):
            if E.ndim != 2:
                raise InputError(f"{type(self).__name__} needs a tensor of shape (rows, dim); got {tuple(E.shape)}.")
            return self._known(E, reset=reset)
        if loaded("sklearn") is None:
            return self._known(array_rows(E, type(self).__name__), reset=reset)
        from sklearn.utils.validation import validate_data

        try:
            rows: Any = validate_data(self, E, reset=reset, dtype="numeric", ensure_all_finite=False)  # type: ignore[arg-type]  # any object with its methods
        except TypeError as error:
            raise _KindError(str(error)) from error
        except ValueError as error:
            raise InputError(str(error)) from error
        return rows if rows.dtype.kind == "f" and rows.dtype.itemsize <= 8 else rows.astype(np.float64)

    def _known(self, rows: Any, *, reset: bool) -> Any:
        if reset:
            self.n_features_in_ = rows.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        elif "n_features_in_" in self.__dict__:
            check_dim(type(self).__name__, rows.shape[1], self.n_features_in_)
        return rows


class _KindError(InputError, TypeError):
    """scikit-learn expects a TypeError for objects that are no numbers."""


class _UnknownParameterError(UnknownNameError, ValueError):
    """scikit-learn expects a ValueError."""


def check_dim(user: str, found: int, wanted: int) -> None:
    """Refuse rows of another length than those of the fit."""
    if found != wanted:
        raise InputError(
            f"X has {found} features, but {user} is expecting {wanted} features as input. Are these rows of another "
            "table?"
        )


def array_rows(E: Any, user: str) -> Array:
    """A 2-D floating array of at least one row and column."""
    if hasattr(E, "tocsr"):
        raise InputError(f"{user} needs a dense table; got a sparse one. Convert it with .toarray().")
    rows = np.asarray(E)
    if rows.dtype == object:
        rows = rows.astype(np.float64)
    if rows.dtype.kind not in "fiub":
        raise InputError(f"{user} needs rows of real numbers; got dtype {rows.dtype}.")
    if rows.ndim != 2 or 0 in rows.shape:
        raise InputError(f"{user} needs a table of shape (rows, dim) with a row and a column; got {rows.shape}.")
    return rows if rows.dtype.kind == "f" and rows.dtype.itemsize <= 8 else rows.astype(np.float64)


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and repr(value) == repr(default)
