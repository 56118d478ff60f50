"""What the tables of a recommender's fields say together: how much a partner lets through, and how much they differ."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fullspan._typing import Array
from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import _check
from fullspan.measures.abundance import information_abundance, null_information_abundance

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["InteractionAbundance", "TableDiversity", "interaction_abundance", "table_diversity"]


class TableDiversity(NamedTuple):
    """Mean diversity over all pairs of tables, what subspaces at random have, and the ``(tables, tables)`` pairs."""

    value: float
    null: float
    pairs: Array


class InteractionAbundance(NamedTuple):
    """Abundance of the table of field i (row) as its partner j (column) sees it: NaN where there is no such pair.

    `relative` is the same over the abundance of an isotropic Gaussian table of that shape.
    """

    values: Array
    relative: Array


def table_diversity(
    tables: Sequence[Any], k: int = 10, *, space: str = "columns", center: bool = True
) -> TableDiversity:
    """How differently several tables use their space, by the principal angles between their strongest directions.

    ``1 - (1/k) Σ_j cos² θ_j``, mean over the pairs of tables.

    Parameters
    ----------
    tables
        Two or more tables ``(n, dim)``, such as the tables of a multi-embedding.
    k
        Dimension of the subspaces, at most the rank of every table.
    space
        ``"columns"``: subspaces of the ids, for tables of the same rows that were trained apart and share no axes;
        ``"rows"``: subspaces of the coordinates, for tables of one dim that share their axes, whatever their rows.
    center
        Take the mean row out of each table first.

    Returns
    -------
    TableDiversity
        `value` in ``[0, 1]``: 0 when the subspaces agree, 1 when they are orthogonal. `null` is the mean for random
        subspaces, ``1 - k/D``, D the dimension of the space. Invariant to the scale of each table; with
        ``space="columns"`` to a rotation of each, with ``space="rows"`` to a common one.

    Raises
    ------
    UndefinedMeasureError
        A table of rank less than k.
    InputError
        Fewer than two tables, tables of different shapes, k < 1, or an unknown space.

    Notes
    -----
    O(n·dim²) a table. Two tables are one observation of a pair, and pairs share tables: there is no standard error.

    References
    ----------
    Guo et al. 2024, On the embedding collapse when scaling up recommendation models, section 5.3 (diversity of
    embedding sets by principal angles); Björck and Golub 1973.

    Examples
    --------
    >>> across, down = [[1.0, 0.0], [-1.0, 0.0]], [[0.0, 1.0], [0.0, -1.0]]
    >>> table_diversity([across, down], k=1, space="rows").value
    1.0
    >>> table_diversity([across, down], k=1, space="columns").value
    0.0
    """
    call = "table_diversity"
    _check.one_of(space, ("columns", "rows"), call, "space")
    if len(tables) < 2 or k < 1:
        raise InputError(f"{call} needs at least two tables and k ≥ 1; got {len(tables)} and k={k}.")
    read = [_check.table(each, call) for each in tables]
    axis = 0 if space == "columns" else 1
    sizes = [each.shape[axis] for each in read]
    if len(set(sizes)) > 1:
        what = "rows" if space == "columns" else "columns"
        raise InputError(f'{call} with space="{space}" needs as many {what} in each table; got {sizes}.')
    bases = [_directions(each, k, axis, center) for each in read]
    pairs = np.zeros((len(bases), len(bases)))
    for i, j in itertools.combinations(range(len(bases)), 2):
        shared = float(np.square(bases[i].T @ bases[j]).sum()) / k
        pairs[i, j] = pairs[j, i] = min(max(1 - shared, 0.0), 1.0)
    room = sizes[0] - (center and space == "columns")
    value = float(pairs.sum() / (len(bases) * (len(bases) - 1)))
    return TableDiversity(0.0 if value < 1e-14 else value, 1 - k / room, pairs)


def _directions(E: Float[Array, "n dim"], k: int, axis: int, center: bool) -> Float[Array, "size k"]:
    largest = np.abs(E).max()
    E = E / largest if largest > 0 else E
    left, values, right = np.linalg.svd(E - E.mean(axis=0) if center else E, full_matrices=False)
    floor = _check.resolution("float64", *E.shape) * max(values[0], np.linalg.norm(E) if center else 0.0)
    rank = int((values > floor).sum())
    if rank < k:
        raise UndefinedMeasureError(f"table_diversity needs tables of rank k={k}; got rank {rank}. Take a smaller k.")
    return left[:, :k] if axis == 0 else right[:k].T


def interaction_abundance(tables: Sequence[Any], weights: Any) -> InteractionAbundance:
    """Information abundance of each field's table as each partner sees it: where a collapse comes from.

    ``IA(E_i · W_ijᵀ)`` with ``W_ij`` what projects field i for its interaction with field j.

    Parameters
    ----------
    tables
        The tables ``(n_i, dim)`` of the fields, in the order of the model.
    weights
        The projections: an array ``(fields, fields, out, dim)``, entry ``[i, j]`` for field i seen by j; the matrix
        ``(fields·dim, fields·dim)`` of a cross layer of DCNv2, whose block of rows j and columns i that is; or a
        mapping from ``(i, j)`` to a matrix ``(out, dim)``, for the pairs that the model has.

    Returns
    -------
    InteractionAbundance
        `values` and `relative`, ``(fields, fields)``: values in ``[1, min(n_i, out)]`` directions, 1 when field i
        reaches partner j along one direction only; NaN for pairs without a projection. A column of low values is a
        partner that collapses what it meets; a row, a field that has collapsed itself. Invariant to the scale of tables
        and projections.

    Raises
    ------
    UndefinedMeasureError
        A product that is all zero.
    InputError
        Weights that do not fit the tables.

    Notes
    -----
    O(n·dim²) a table and O(dim³) a pair: the rows are reduced to the dim × dim factor of their decomposition first. The
    tables of a field-aware model are given one by one: ``information_abundance`` reads each. Compare with `relative`,
    as a field of few values has a low abundance whatever its partner does. The rows are taken as they are, uncentered.

    References
    ----------
    Guo et al. 2024, On the embedding collapse when scaling up recommendation models, section 4.1 (sub-embeddings).

    Examples
    --------
    >>> import numpy as np
    >>> tables = [np.eye(4), np.eye(4)]
    >>> weights = {(0, 1): np.eye(4), (1, 0): np.outer([1, 2, 0, 0], [1, 1, 1, 1])}
    >>> interaction_abundance(tables, weights).values.round(3).tolist()
    [[nan, 4.0], [1.0, nan]]
    """
    call = "interaction_abundance"
    read = [_check.table(each, call) for each in tables]
    projections = _projections(read, weights, call)
    factors = [np.linalg.qr(each, mode="r") for each in read]
    shape = (len(read), len(read))
    values, relative = np.full(shape, np.nan), np.full(shape, np.nan)
    for (i, j), matrix in projections.items():
        singular_values = np.linalg.svd(factors[i] @ matrix.T, compute_uv=False)
        if not singular_values[0] > 0:
            raise UndefinedMeasureError(f"{call} needs products that are not zero; got zero for fields {i} and {j}.")
        values[i, j] = information_abundance(singular_values)
        relative[i, j] = null_information_abundance(singular_values, len(read[i]), len(matrix))
    return InteractionAbundance(values, relative)


def _projections(tables: list[Array], weights: Any, call: str) -> dict[tuple[int, int], Array]:
    """The projection of every pair of fields, ``(out, dim)`` each."""
    fields = range(len(tables))
    if isinstance(weights, Mapping):
        found = {(int(i), int(j)): _check.table(matrix, call) for (i, j), matrix in weights.items()}
    else:
        array = _check.to_numpy(weights, call).astype(np.float64)
        if array.ndim == 2:
            array = _blocks(array, tables, call)
        if array.ndim != 4 or array.shape[:2] != (len(tables), len(tables)):
            raise InputError(
                f"{call} needs weights of shape (fields, fields, out, dim) for {len(tables)} fields; got {array.shape}."
            )
        found = {(i, j): array[i, j] for i in fields for j in fields}
    for (i, j), matrix in found.items():
        if i not in fields or j not in fields:
            raise InputError(f"{call} needs pairs of fields 0 to {len(tables) - 1}; got ({i}, {j}).")
        if matrix.shape[1] != tables[i].shape[1]:
            raise InputError(
                f"{call} needs a projection of {tables[i].shape[1]} columns for field {i}; got shape {matrix.shape}."
            )
    return found


def _blocks(matrix: Array, tables: list[Array], call: str) -> Array:
    """The blocks of a cross layer as ``(fields, fields, dim, dim)``, entry ``[i, j]`` from field i to field j."""
    count, dims = len(tables), {each.shape[1] for each in tables}
    dim = next(iter(dims), 0)
    if len(dims) != 1 or matrix.shape != (count * dim, count * dim):
        raise InputError(
            f"{call} needs a cross matrix of shape (fields·dim, fields·dim) for tables of one dim; got {matrix.shape} "
            f"for {count} tables of dims {sorted(dims)}."
        )
    return matrix.reshape(count, dim, count, dim).transpose(2, 0, 1, 3)
