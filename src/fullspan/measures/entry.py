"""The record that describes a measure: what it is called, how it is read, what its number means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fullspan.measures import _check
from fullspan.measures.null import Null, NullFunction

if TYPE_CHECKING:
    from fullspan.measures.evidence import Evidence

__all__ = ["Measure"]

SCALE, ROTATION, TRANSLATION = "scale", "rotation", "translation"
ROWS, COLUMNS = "row_permutation", "column_permutation"


@dataclass(frozen=True, eq=False)
class Measure:
    """One measure in the catalog.

    Parameters
    ----------
    name, title, symbol, formula
        Name to ask for it by; one line without symbols; its letter in the paper; its formula.
    family
        ``"sparsity"``, ``"spectrum"``, ``"isotropy"``, ``"norms"``, ``"neighbors"``, ``"frequency"``, ``"drift"`` or
        ``"similarity"``.
    function, usage
        The public plain function, and how to call it for this number.
    read, needs
        How a report computes it, and the attributes of :class:`~fullspan.measures.evidence.Evidence` it reads; `read`
        is None for measures of more than one table.
    direction
        Which way is better: ``"higher"``, ``"lower"``, or ``"neither"``.
    range, bounds
        The range in words with the meaning of its ends, and the ends as numbers for a table of ``(n_rows, dim)``.
    unit
        ``""`` for a plain number.
    invariances
        Of ``scale``, ``rotation``, ``translation``, ``row_permutation``, ``column_permutation``.
    centered
        Whether the mean row is taken out first; None where that has no meaning.
    null
        ``(n_rows, dim, scale=None)`` to the value on an isotropic Gaussian table of the shape, or None.
    scale_dependent_null
        Whether that value depends on `scale`, the variance of an entry.
    source, equivalent
        Paper and place; a known function that gives the same number.
    traps
        What misleads readers of this number.
    default
        Whether the report shows it unasked.
    ratio_rule
        How to set the value against its null: ``"ratio"`` divides, ``"difference"`` subtracts, None leaves it.
    standard_error
        Formula for the standard error over the rows, for measures that the jackknife does not reach, or None.
    error_method
        How that formula works, in a few words.
    below_resolution
        Whether a value rests on less than what the stored type can resolve, or None where that cannot happen. Such a
        value is a bound: an upper one, or a lower one where `direction` is ``"lower"``.
    """

    name: str
    title: str
    symbol: str
    formula: str
    family: str
    function: Callable[..., Any]
    usage: str
    read: Callable[[Evidence], float] | None
    needs: tuple[str, ...]
    direction: str
    range: str
    bounds: Callable[[int, int], tuple[float, float]]
    invariances: frozenset[str]
    source: str
    unit: str = ""
    centered: bool | None = None
    null: NullFunction | None = None
    scale_dependent_null: bool = False
    equivalent: str = ""
    traps: tuple[str, ...] = ()
    default: bool = False
    ratio_rule: str | None = None
    standard_error: Callable[[Evidence], float] | None = None
    error_method: str = "formula"
    below_resolution: Callable[[Evidence, float], bool] | None = None

    def null_for(self, n_rows: int, evidence: Evidence) -> Null | None:
        """The value expected of an isotropic Gaussian table of `n_rows` rows and the table's dim and scale."""
        if self.null is None:
            return None
        scale = evidence.mean_square if self.scale_dependent_null else None
        return self.null(n_rows, evidence.dim, scale)


def smallest_below_resolution(evidence: Evidence, value: float) -> bool:
    """Whether the smallest singular value lies within rounding of the stored type."""
    values = evidence.singular_values
    return bool(values[-1] <= values[0] * _check.resolution(evidence.dtype, evidence.n_rows, evidence.dim))
