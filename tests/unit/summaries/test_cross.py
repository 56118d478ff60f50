"""Two aligned tables: readings against the plain formulas on whole tables."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.summaries.cross import CrossMoments


def _pair(n_rows: int, dx: int, dy: int, offset: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_rows)
    x = rng.normal(size=(n_rows, dx)) * np.arange(1, dx + 1) + offset
    return x, x @ rng.normal(size=(dx, dy)) * 0.3 + rng.normal(size=(n_rows, dy)) - offset


def _made(x: np.ndarray, y: np.ndarray, parts: int) -> CrossMoments:
    both = np.hstack([x, y])
    pieces = np.array_split(np.arange(len(x)), parts)
    return sum(CrossMoments.of(both[piece], split=x.shape[1], start=int(piece[0])) for piece in pieces)


def _hsic(x: np.ndarray, y: np.ndarray) -> float:
    """Unbiased HSIC of Song et al. (2012), equation 5, from whole kernels."""
    n = len(x)
    k, m = x @ x.T, y @ y.T
    np.fill_diagonal(k, 0.0)
    np.fill_diagonal(m, 0.0)
    both = k.sum(axis=0) @ m.sum(axis=0)
    return np.sum(k * m) + k.sum() * m.sum() / ((n - 1) * (n - 2)) - 2.0 * both / (n - 2)


@pytest.mark.parametrize("parts", [1, 2, 9])
@pytest.mark.parametrize("offset", [0.0, 3.0, 1e3])
@pytest.mark.parametrize("shape", [(60, 4, 4), (500, 3, 7), (900, 6, 6), (12, 20, 20)])
def test_moments_and_cka(shape, offset, parts):
    x, y = _pair(*shape, offset)
    made = _made(x, y, parts)
    cx, cy = x - x.mean(axis=0), y - y.mean(axis=0)
    np.testing.assert_allclose(made.mean_x, x.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(made.mean_y, y.mean(axis=0), rtol=1e-12)
    size = np.abs(cx).max() * np.abs(cy).max() * len(x)
    for found, wanted in (
        (made.scatter_xx, cx.T @ cx),
        (made.scatter_xy, cx.T @ cy),
        (made.scatter_yy, cy.T @ cy),
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10 * size)
    a, b = np.vecdot(cx, cx), np.vecdot(cy, cy)
    np.testing.assert_allclose(made.norm_sums, [a @ a, a @ b, b @ b], rtol=1e-9)
    frobenius = np.linalg.norm
    cka = frobenius(cx.T @ cy) ** 2 / frobenius(cx.T @ cx) / frobenius(cy.T @ cy)
    assert made.linear_cka == pytest.approx(cka, rel=1e-10)
    debiased = _hsic(cx, cy) / np.sqrt(_hsic(cx, cx) * _hsic(cy, cy))
    assert made.debiased_cka == pytest.approx(debiased, rel=1e-8)


def test_the_debiased_cka_of_unrelated_tables_is_near_zero():
    rng = np.random.default_rng(0)
    values = []
    for _ in range(20):
        made = _made(rng.normal(size=(40, 30)), rng.normal(size=(40, 30)), 1)
        assert made.linear_cka > 0.3
        values.append(made.debiased_cka)
    assert abs(np.mean(values)) < 0.03


def test_a_rotated_copy():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 5)) * np.arange(1, 6)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    made = _made(x, 3.0 * x @ turn + 2.0, 4)
    assert made.linear_cka == pytest.approx(1.0, abs=1e-12)
    assert made.procrustes_distance == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(made.rotation, turn, atol=1e-10)
    same = _made(x, x, 2)
    assert same.principal_angles(3).max() < 1e-7
    assert same.mean_row_cosine == pytest.approx(1.0, abs=1e-14)
    assert same.mean_row_displacement == 0.0
    assert same.mean_shift == 0.0


def test_principal_angles_by_hand():
    x = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    assert _made(x, x[:, ::-1], 1).principal_angles(1).tolist() == pytest.approx([np.pi / 2])
    assert _made(x, x[:, ::-1], 1).principal_angles(2).tolist() == pytest.approx([0.0, 0.0], abs=1e-12)


def test_rows_that_moved_are_named():
    x, _ = _pair(700, 4, 4)
    y = x.copy()
    y[123], y[456] = -x[123], x[456] * 2.0
    both = np.hstack([x, y])
    both[5] = 0.0
    ids = np.arange(700) * 2
    made = CrossMoments.of(both, split=4, ids=ids)
    assert (made.least_cosine[0].position, made.least_cosine[0].id) == (123, 246)
    assert made.least_cosine[0].value == pytest.approx(-1.0)
    assert {row.position for row in made.most_displaced[:2]} == {123, 456}
    assert made.mean_row_cosine == pytest.approx((698 - 1) / 699)
    assert made.row_cosine_quantile((0.0, 0.5)).tolist() == pytest.approx([-1.0, 1.0])
    assert made.row_displacement_quantile(0.5).tolist() == [0.0]


def test_messages():
    made = _made(*_pair(10, 2, 3), 1)
    for call in ("mean_shift", "rotation", "mean_row_cosine", "mean_row_displacement"):
        with pytest.raises(UndefinedMeasureError, match=rf"{call} needs two tables of one dim; got 2 and 3"):
            getattr(made, call)
    assert made.least_cosine == made.most_displaced == ()
    with pytest.raises(InputError, match="needs a split from 1 to 3; got 4"):
        CrossMoments.of(np.ones((2, 4)), split=4)
    constant = CrossMoments.of(np.full((5, 4), 0.1), split=2)
    with pytest.raises(UndefinedMeasureError, match="linear_cka needs rows that differ from each other"):
        _ = constant.linear_cka
    with pytest.raises(UndefinedMeasureError, match="A debiased CKA needs at least four rows; got 3"):
        _ = _made(*_pair(3, 2, 2), 1).debiased_cka
    with pytest.raises(UndefinedMeasureError, match=r"tables of rank k=2 or more; got rank 0. Take a smaller k"):
        constant.principal_angles(2)
    with pytest.raises(UndefinedMeasureError, match="squares stay below 1e308; got larger ones"):
        _ = CrossMoments.of(np.array([[1e200, 1.0], [-1e200, 2.0]]), split=1).linear_cka
    with pytest.raises(InputError, match="split at one column; got 2 and 1"):
        _made(*_pair(5, 2, 2), 1).merge(_made(*_pair(5, 1, 3), 1))
