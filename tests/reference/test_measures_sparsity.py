"""Row measures against the article's code, scipy, and plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch

from fullspan.errors import InputError, UndefinedMeasureError
from fullspan.measures.sparsity import gini_index, hoyer_sparsity, vector_entropy

ALL = [gini_index, vector_entropy, hoyer_sparsity]


def article_gini(x):
    x = np.sort(np.abs(x) + 1e-12)
    cumulative = np.cumsum(x)
    return (len(x) + 1 - 2 * np.sum(cumulative) / cumulative[-1]) / len(x)


def article_entropy(x):
    x = np.abs(x) + 1e-12
    p = x / np.sum(x)
    return -np.sum(p * np.log(p))


def article_hoyer(x):
    x = np.abs(x)
    l1, l2 = np.sum(x), np.sqrt(np.sum(x**2))
    return 0.0 if l1 == 0 else (np.sqrt(len(x)) - l1 / l2) / (np.sqrt(len(x)) - 1)


ARTICLE = {gini_index: article_gini, vector_entropy: article_entropy, hoyer_sparsity: article_hoyer}


def plain_gini(x):
    """Mean absolute difference over twice the mean, by a double loop in extended precision."""
    x = np.abs(np.asarray(x, dtype=np.longdouble))
    return float(np.abs(x[:, None] - x[None]).sum() / (2 * len(x) * x.sum()))


def plain_hoyer(x):
    x = np.abs(np.asarray(x, dtype=np.longdouble))
    root = np.sqrt(np.longdouble(len(x)))
    return float((root - x.sum() / np.sqrt((x * x).sum())) / (root - 1))


@pytest.mark.parametrize("dim", [2, 3, 8, 64])
@pytest.mark.parametrize("function", ALL)
def test_hand_checkable(function, dim):
    one_hot, even = np.zeros(dim), np.full(dim, -3.0)
    one_hot[dim // 2] = 7.0
    low = {gini_index: 1 - 1 / dim, vector_entropy: 0.0, hoyer_sparsity: 1.0}[function]
    high = math.log(dim) if function is vector_entropy else 0.0
    assert function(one_hot) == pytest.approx(low, abs=1e-12)
    assert function(even) == pytest.approx(high, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e2, 1e4])
def test_exact_against_plain_loops(dtype, offset):
    rows = (np.random.default_rng(0).standard_normal((20, 33)) + offset).astype(dtype)
    for function, plain in ((gini_index, plain_gini), (hoyer_sparsity, plain_hoyer)):
        np.testing.assert_allclose(function(rows), [plain(row) for row in rows], rtol=1e-9)
    expected = scipy.stats.entropy(np.abs(rows.astype(np.longdouble)).astype(float), axis=1)
    np.testing.assert_allclose(vector_entropy(rows), expected, rtol=1e-12)


@pytest.mark.parametrize("function", ALL)
def test_article_mode_reproduces_the_article(function):
    rows = np.random.default_rng(1).standard_normal((50, 8)) * 10.0 ** np.arange(-14, 11)[:, None].repeat(2, 0)
    rows[3] = 0.0
    expected = [ARTICLE[function](row) for row in rows]
    np.testing.assert_allclose(function(rows, mode="article"), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize("scale", [1e-300, 1e-25, 1e25, 1e300])
def test_scale_does_not_matter(function, scale):
    rows = np.random.default_rng(2).standard_normal((5, 16))
    np.testing.assert_allclose(function(rows * scale), function(rows), rtol=1e-12)


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_torch_gives_a_tensor_and_the_same_numbers(function, dtype):
    rows = torch.from_numpy(np.random.default_rng(3).standard_normal((7, 12))).to(dtype)
    value = function(rows)
    assert isinstance(value, torch.Tensor)
    assert value.dtype == torch.float64
    np.testing.assert_allclose(value.numpy(), function(rows.double().numpy()), rtol=1e-12)
    assert function(rows[0]).item() == pytest.approx(value[0].item(), rel=1e-12)


@pytest.mark.parametrize("function", ALL)
def test_gradients_flow(function):
    x = torch.randn(3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(lambda rows: function(rows).sum(), (x,))


@pytest.mark.parametrize("function", ALL)
def test_blocks_do_not_change_the_rows(function):
    rows = np.random.default_rng(4).standard_normal((3000, 24)).astype(np.float32)
    whole = function(rows)
    np.testing.assert_array_equal(whole[[0, 1500, 2999]], function(rows[[0, 1500, 2999]]))
    assert function(rows[:0]).shape == (0,)


@pytest.mark.parametrize("function", ALL)
def test_float16_and_integers_are_widened(function):
    rows = np.random.default_rng(5).integers(-5, 6, (6, 9))
    rows[:, 0] = 1
    np.testing.assert_allclose(function(rows), function(rows.astype(np.float16)), rtol=1e-12)


@pytest.mark.parametrize("function", ALL)
def test_clear_errors(function):
    rows = np.ones((3000, 24))
    rows[[2000, 2500]] = 0.0
    with pytest.raises(UndefinedMeasureError, match="got 2 zero rows, the first is row 2000"):
        function(rows)
    rows[7, 3] = np.nan
    with pytest.raises(InputError, match="got 1 rows with NaN or infinity, the first is row 7"):
        function(rows)
    with pytest.raises(UndefinedMeasureError, match="got 1 zero row"):
        function(torch.zeros(4))
    with pytest.raises(InputError, match=r"got shape \(2, 2, 2\)"):
        function(np.ones((2, 2, 2)))
    with pytest.raises(InputError, match='one of "exact", "article"; got "fast"'):
        function(np.ones(4), mode="fast")
    with pytest.raises(InputError, match="real numbers; got dtype complex128"):
        function(np.ones(4) * 1j)


def test_one_dimension():
    assert gini_index([5.0]) == 0.0
    assert vector_entropy([5.0]) == 0.0
    with pytest.raises(UndefinedMeasureError, match="at least two dimensions; got 1"):
        hoyer_sparsity([5.0])
    with pytest.raises(UndefinedMeasureError, match="normalize=True needs at least two dimensions"):
        vector_entropy([5.0], normalize=True)


def test_normalized_entropy_is_one_for_even_rows():
    assert vector_entropy(np.ones((2, 5)), normalize=True).tolist() == [1.0, 1.0]
