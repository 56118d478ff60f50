"""Measures of several tables, against SciPy and against plain products."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures import fields
from fullspan.measures.abundance import information_abundance


def gaussian(n, d, seed=0):
    return np.random.default_rng([n, d, seed]).standard_normal((n, d))


@pytest.mark.parametrize("space", ["columns", "rows"])
def test_diversity_is_that_of_the_principal_angles(space):
    tables = [gaussian(60, 12, seed) + seed for seed in range(3)]
    found = fields.table_diversity(tables, k=4, space=space)
    bases = []
    for each in tables:
        left, _, right = np.linalg.svd(each - each.mean(axis=0), full_matrices=False)
        bases.append(left[:, :4] if space == "columns" else right[:4].T)
    expected = 1 - np.mean(np.cos(scipy.linalg.subspace_angles(bases[0], bases[2])) ** 2)
    assert found.pairs[0, 2] == pytest.approx(expected, rel=1e-9)
    assert found.value == pytest.approx(found.pairs[np.triu_indices(3, 1)].mean())


def test_diversity_of_random_tables_is_the_null():
    for space, n, d in (("columns", 40, 8), ("rows", 200, 24)):
        found = [
            fields.table_diversity([gaussian(n, d, s), gaussian(n, d, 100 + s)], k=5, space=space) for s in range(40)
        ]
        assert np.mean([each.value for each in found]) == pytest.approx(found[0].null, abs=0.03)


def test_a_rotated_copy_adds_nothing():
    E = gaussian(50, 6)
    turn = np.linalg.qr(gaussian(6, 6, 1))[0]
    assert fields.table_diversity([E, 3 * E @ turn + 2], k=6).value == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("tables", "options", "message"),
    [
        ([np.eye(3)], {}, "at least two tables"),
        ([np.eye(3), np.eye(3)], {"k": 0}, "k ≥ 1"),
        ([np.eye(3), np.eye(4)], {"k": 1}, "as many rows"),
        ([np.eye(3), np.eye(4)], {"k": 1, "space": "rows"}, "as many columns"),
        ([np.eye(3), np.eye(3)], {"space": "both"}, '"columns", "rows"'),
    ],
)
def test_diversity_refuses(tables, options, message):
    with pytest.raises(InputError, match=message):
        fields.table_diversity(tables, **options)


def test_diversity_needs_the_rank():
    with pytest.raises(UndefinedMeasureError, match="rank 2"):
        fields.table_diversity([np.eye(3), np.eye(3)], k=3)


def test_interaction_abundance_is_that_of_the_products():
    tables = [gaussian(30, 4, 1), gaussian(3, 4, 2), gaussian(500, 4, 3)]
    cross = gaussian(12, 12, 4)
    found = fields.interaction_abundance(tables, cross)
    for i in range(3):
        for j in range(3):
            product = tables[i] @ cross[4 * j : 4 * j + 4, 4 * i : 4 * i + 4].T
            expected = information_abundance(np.linalg.svd(product, compute_uv=False))
            assert found.values[i, j] == pytest.approx(expected, rel=1e-9)
    stacked = np.array([[cross[4 * j : 4 * j + 4, 4 * i : 4 * i + 4] for j in range(3)] for i in range(3)])
    np.testing.assert_allclose(fields.interaction_abundance(tables, stacked).values, found.values, rtol=1e-12)


def test_a_field_of_few_values_is_compared_with_its_shape():
    tables = [gaussian(4, 8, 1), gaussian(2000, 8, 2)]
    found = fields.interaction_abundance(tables, {(0, 1): np.eye(8), (1, 0): np.eye(8)})
    assert found.values[0, 1] < 0.6 * found.values[1, 0]
    assert found.relative[0, 1] == pytest.approx(1.0, abs=0.4)
    assert np.isnan(found.values[0, 0])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.eye(5), "cross matrix"),
        (np.zeros((2, 2, 3)), "weights of shape"),
        ({(0, 2): np.eye(3)}, "pairs of fields 0 to 1"),
        ({(0, 1): np.eye(4)}, "projection of 3 columns"),
    ],
)
def test_interaction_abundance_refuses(weights, message):
    with pytest.raises(InputError, match=message):
        fields.interaction_abundance([np.eye(3), np.eye(3)], weights)


def test_interaction_abundance_of_nothing():
    with pytest.raises(UndefinedMeasureError, match="fields 0 and 1"):
        fields.interaction_abundance([np.eye(3), np.eye(3)], {(0, 1): np.zeros((3, 3))})
