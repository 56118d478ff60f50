"""Principal axes, alignment and displacement of flat maps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures.projection import map_displacement, pca_basis, pca_map, procrustes_align


def turned(points, angle, mirror=False):
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return points @ (turn * [1, -1] if mirror else turn)


def cloud(n=60, dim=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dim)) * np.linspace(2, 1, dim)


@given(st.floats(-7, 7), st.booleans(), st.floats(-1e3, 1e3), st.integers(0, 99))
def test_turns_mirrors_and_shifts_are_undone(angle, mirror, shift, seed):
    x = cloud(seed=seed)
    assert procrustes_align(turned(x, angle, mirror) + shift, x) == pytest.approx(x, abs=1e-9)


def test_distances_stay_unless_a_scale_is_asked_for():
    x = cloud()
    assert np.linalg.norm(np.diff(procrustes_align(3 * x, x), axis=0)) == pytest.approx(
        3 * np.linalg.norm(np.diff(x, axis=0))
    )
    assert procrustes_align(3 * turned(x, 1) + 5, x, scale=True) == pytest.approx(x)


def test_without_a_shift_the_origin_stays():
    x = cloud()
    assert procrustes_align(x + 100, x, shift=False).mean() != pytest.approx(x.mean(), abs=1)


def test_anchors_choose_the_turn_and_all_rows_take_it():
    x = cloud()
    moved = turned(x, 2.0)
    moved[50:] += 100  # rows that went elsewhere
    aligned = procrustes_align(moved, x, anchors=np.arange(60) < 50)
    assert aligned[:50] == pytest.approx(x[:50])
    assert np.abs(aligned[50:] - x[50:]).max() > 50
    assert procrustes_align(moved, x, anchors=[0, 1, 2, 3]) == pytest.approx(aligned)


def test_aligning_again_changes_nothing():
    once = procrustes_align(cloud(seed=1), cloud(seed=2))
    assert procrustes_align(once, cloud(seed=2)) == pytest.approx(once)


def test_a_map_of_one_point_goes_to_the_middle():
    x = cloud()
    assert procrustes_align(np.ones((60, 2)), x, scale=True) == pytest.approx(np.tile(x.mean(axis=0), (60, 1)))


def test_alignment_asks_for_the_same_rows():
    with pytest.raises(InputError, match="procrustes_align needs two tables with the same rows; got 60 and 59 rows"):
        procrustes_align(cloud(), cloud(59))
    with pytest.raises(InputError, match="procrustes_align needs at least one anchor row; got none"):
        procrustes_align(cloud(), cloud(), anchors=np.zeros(60, dtype=bool))


def test_signs_do_not_depend_on_the_order_of_rows_or_on_the_solver():
    x = cloud(80, 5)
    order = np.random.default_rng(1).permutation(80)
    assert pca_map(x[order]) == pytest.approx(pca_map(x)[order])
    wide = np.hstack([x[:4], np.zeros((4, 3))])  # fewer rows than dimensions take the other solver
    assert np.abs(pca_map(wide)) == pytest.approx(np.abs(pca_map(x[:4])), abs=1e-9)
    for axes in (pca_basis(x).axes, pca_basis(wide).axes):
        assert (np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], 1) > 0).all()


def test_a_rotated_table_has_the_same_map_but_for_signs():
    x = cloud(80, 5)
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(5, 5)))[0]
    assert procrustes_align(pca_map(x @ turn), pca_map(x)) == pytest.approx(pca_map(x))


@pytest.mark.parametrize(("factor", "offset"), [(1e-150, 0), (1e150, 0), (1, 1e6)])
def test_scale_and_offset(factor, offset):
    x = cloud(80, 5)
    assert pca_map(factor * x + offset) / factor == pytest.approx(pca_map(x), abs=1e-6)


def test_a_basis_is_shared():
    x = cloud(80, 5)
    basis = pca_basis(x)
    assert pca_map(x, basis=basis) == pytest.approx(pca_map(x))
    assert pca_map(x + basis.axes[0], basis=basis) == pytest.approx(pca_map(x) + np.array([1, 0]))
    with pytest.raises(InputError, match="pca_map needs a table of dim 5, as its basis; got 4"):
        pca_map(x[:, :4], basis=basis)


def test_shares_are_of_all_the_variance():
    x = np.diag([3.0, 2.0, 1.0])
    x = np.vstack([x, -x])
    assert pca_basis(x).shares == pytest.approx([9 / 14, 4 / 14])


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (np.ones((4, 3)), np.zeros((4, 2))),
        ([[1.0, 2.0, 3.0]], np.zeros((1, 2))),
        ([[0.0], [1.0]], [[-0.5, 0.0], [0.5, 0.0]]),
        (np.ones((3, 1)) * 1e300, np.zeros((3, 2))),
    ],
    ids=["equal rows", "one row", "one dimension", "huge and equal"],
)
def test_flat_tables(table, expected):
    assert pca_map(table) == pytest.approx(np.asarray(expected))


def test_bad_tables_are_refused():
    with pytest.raises(InputError, match="pca_basis needs dims ≥ 1; got 0"):
        pca_map(cloud(), dims=0)
    with pytest.raises(InputError, match="pca_basis needs finite values; got 1 NaN"):
        pca_map([[1.0, np.nan], [0.0, 1.0]])


def test_displacement_is_the_median_over_the_spread():
    x = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])  # spread √2
    y = x + np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 3.0], [0.0, 100.0]])
    assert map_displacement(y, x) == pytest.approx(2 / np.sqrt(2))
    assert map_displacement(1e3 * y + 5, 1e3 * x + 5) == pytest.approx(2 / np.sqrt(2))
    with pytest.raises(UndefinedMeasureError, match="map_displacement needs rows that differ on the map; got 4 equal"):
        map_displacement(x, np.ones((4, 2)))


def test_unrelated_maps_move_by_more_than_their_spread():
    random = np.random.default_rng(0)
    assert 1.1 < map_displacement(random.normal(size=(5000, 2)), random.normal(size=(5000, 2))) < 1.3
