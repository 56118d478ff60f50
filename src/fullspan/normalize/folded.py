"""A fitted chain as plain stages: what is applied, saved, loaded and served."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fullspan._backend import is_torch_tensor
from fullspan.errors import InputError
from fullspan.normalize._estimator import array_rows, check_dim
from fullspan.normalize.affine import Affine
from fullspan.normalize.stages import folded, run

__all__ = ["Folded"]


@dataclass(frozen=True, eq=False)
class Folded:
    """Maps rows as a fitted normalizer does, without knowing how it was fitted.

    Parameters
    ----------
    stages
        Affine maps, clips, unit norms in their order; no two affine maps are neighbors.
    dim_in, dim_out
        Length of rows before and after.
    info
        What is known of the fit: strategy, rows, passes, fingerprint. Plain values.
    stamp
        Column means and variances (``in_mean``, ``in_variance``, ``out_mean``, ``out_variance``) of the rows of the fit
        and of what becomes of them, where the fit knows them: tells whether stored rows come from this map.
    """

    stages: tuple[Any, ...]
    dim_in: int
    dim_out: int
    info: dict[str, Any] = field(default_factory=dict)
    stamp: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, normalizer: Any) -> Folded:
        """The stages of a fitted normalizer; a folded one is returned as it is."""
        if isinstance(normalizer, Folded):
            return normalizer
        from fullspan.normalize.text import strategy_text

        stamp = normalizer._stamp()
        digest = hashlib.sha256(f"{normalizer._fitted('n_rows_')}".encode())
        for name in sorted(stamp):
            digest.update(np.ascontiguousarray(stamp[name], dtype="<f8").tobytes())
        info = {
            "strategy": strategy_text(normalizer),
            "steps": [_step(each) for each in (normalizer if hasattr(normalizer, "steps") else [normalizer])],
            "fingerprint": digest.hexdigest()[:16],
            "dtype": normalizer._storage,
            "n_rows": normalizer._fitted("n_rows_"),
            "passes": normalizer.passes_,
            "counts": dict(normalizer.counts_),
            "zero_rows": normalizer._policy()[0],
            "nan_rows": normalizer._policy()[1],
        }
        return cls(folded(normalizer.stages), normalizer.dim_in_, normalizer.dim_out_, info, stamp)

    def transform(self, E: Any, out: Any = None) -> Any:
        """Map rows, array or tensor of shape ``(rows, dim_in)``, keeping their floating type.

        Rows with NaN or infinity go through the arithmetic: check them before if they may be there.
        """
        rows = E if is_torch_tensor(E) else array_rows(E, "Folded")
        check_dim("Folded", rows.shape[1], self.dim_in)
        with np.errstate(invalid="ignore", over="ignore"):
            return run(self.stages, rows, out)

    def inverse_transform(self, E: Any) -> Any:
        """Map rows back, where every stage is affine."""
        for stage in self.stages:
            if not isinstance(stage, Affine):
                raise InputError(
                    f"Folded.inverse_transform needs affine stages only; got one of the kind '{stage.kind}', which "
                    "cannot be undone."
                )
        rows = E if is_torch_tensor(E) else array_rows(E, "Folded")
        check_dim("Folded", rows.shape[1], self.dim_out)
        return run([stage.inverse() for stage in reversed(self.stages)], rows)

    def affine(self) -> Affine | None:
        """The one affine map that this is, or None."""
        stages: Sequence[Any] = self.stages
        return stages[0] if len(stages) == 1 and isinstance(stages[0], Affine) else None

    def to_module(self) -> Any:
        """The chain as a ``torch.nn.Module``: see :func:`fullspan.normalize.module.to_module`."""
        from fullspan.normalize.module import to_module

        return to_module(self)

    def to_onnx(self, path: Any) -> Any:
        """Write the chain as an ONNX model: see :func:`fullspan.normalize.onnx_.to_onnx`."""
        from fullspan.normalize.onnx_ import to_onnx

        return to_onnx(self, path)

    def __repr__(self) -> str:
        kinds = " → ".join(stage.kind for stage in self.stages)
        return f"Folded({self.dim_in} → {self.dim_out}: {kinds or 'nothing'})"


def _step(normalizer: Any) -> dict[str, Any]:
    params = {key: value for key, value in normalizer.get_params(deep=False).items() if key != "align_to"}
    return {"kind": type(normalizer).__name__, "params": params}
