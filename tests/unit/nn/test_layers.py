"""Normalization layers behind an embedding, and tables that stay normalized while they train."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import fullspan.nn as fnn
from fullspan.errors import InputError
from fullspan.normalize.pipeline import make_pipeline
from fullspan.normalize.scale import Center, Standardize
from fullspan.normalize.unit import UnitNorm
from fullspan.normalize.whiten import PCA


def rows(n=400, dim=6, seed=0):
    rng = np.random.default_rng(seed)
    return torch.tensor(rng.normal(size=(n, dim)) @ rng.normal(size=(dim, dim)) + 3.0, dtype=torch.float32)


def test_unit_norm_of_any_size_and_its_gradient():
    layer = fnn.UnitNorm()
    made = layer(torch.tensor([[3e20, 4e20], [3e-25, 4e-25], [0.0, 0.0]], requires_grad=True))
    assert made.detach().numpy() == pytest.approx(np.array([[0.6, 0.8], [0.6, 0.8], [0.0, 0.0]]), rel=1e-6)
    x = torch.tensor([[1.0, -2.0, 2.0], [0.5, 0.5, 0.5]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x,))
    zero = torch.zeros(1, 3, requires_grad=True)
    layer(zero).sum().backward()
    assert bool(zero.grad.isfinite().all())


def test_batch_norm_is_torchs_over_rows_of_any_shape():
    x = rows(24).reshape(4, 6, 6)
    ours, theirs = fnn.EmbeddingBatchNorm(6), nn.BatchNorm1d(6)
    torch.testing.assert_close(ours(x), theirs(x.reshape(-1, 6)).reshape(x.shape))
    torch.testing.assert_close(ours.running_var, theirs.running_var)


def test_padding_enters_no_statistic_and_comes_out_as_zeros():
    x = rows(24).reshape(4, 6, 6)
    mask = torch.ones(4, 6, dtype=torch.bool)
    mask[:, 4:] = False
    for make in (fnn.EmbeddingBatchNorm, fnn.IterNorm):
        whole = make(6)(x, mask)
        torch.testing.assert_close(whole[:, :4], make(6)(x[:, :4]))
        assert not whole[:, 4:].any()


def test_running_statistics_are_those_of_the_table_weighted_by_frequency():
    table = rows(50)
    frequencies = np.arange(50) % 7
    looked_up = table.repeat_interleave(torch.tensor(frequencies), dim=0)
    cumulative = fnn.EmbeddingBatchNorm(6, momentum=None)
    exact = fnn.EmbeddingBatchNorm(6)
    exact.set_statistics(table, frequencies)
    cumulative(looked_up)
    torch.testing.assert_close(cumulative.running_mean, exact.running_mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(cumulative.running_var, exact.running_var, rtol=1e-5, atol=1e-5)
    plain = fnn.EmbeddingBatchNorm(6, affine=False).eval()
    plain.set_statistics(table)
    made = plain(table)
    torch.testing.assert_close(made.mean(dim=0), torch.zeros(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(made.var(dim=0), torch.ones(6), atol=1e-4, rtol=0)
    assert (exact.running_mean - plain.running_mean).abs().max() > 1e-3


def test_a_batch_of_one_row_is_refused_in_training_only():
    for layer in (fnn.EmbeddingBatchNorm(6), fnn.IterNorm(6)):
        with pytest.raises(InputError, match=r"needs at least two rows in a training batch; got 1\. Call \.eval\(\)"):
            layer(rows(1))
        assert layer.eval()(rows(1)).shape == (1, 6)
        with pytest.raises(InputError, match=r"needs a tensor of shape \(\.\.\., 6\); got \(3, 5\)"):
            layer(torch.zeros(3, 5))
        with pytest.raises(InputError, match=r"needs a mask of shape \(3,\); got \(2,\)"):
            layer(torch.zeros(3, 6), torch.ones(2))


def test_iterative_normalization_whitens_and_serves_by_running_statistics():
    x = rows(4000)
    layer = fnn.IterNorm(6, iterations=30, momentum=1.0)
    made = layer(x)
    torch.testing.assert_close(torch.cov(made.T, correction=0), torch.eye(6), atol=5e-3, rtol=0)
    torch.testing.assert_close(layer.eval()(x), made, atol=1e-4, rtol=1e-4)
    assert sorted(fnn.IterNorm(6).state_dict()) == ["running_matrix", "running_mean"]
    assert "iterations=5" in repr(fnn.IterNorm(6))


@pytest.mark.parametrize(
    "batch",
    [torch.ones(8, 6), rows(3), torch.cat([rows(64)[:, :3]] * 2, dim=1), rows(8) * 1e12, torch.zeros(4, 6)],
    ids=["constant", "fewer rows than dims", "rank-deficient", "huge", "zeros"],
)
def test_iterative_normalization_stays_finite(batch):
    batch = batch.clone().requires_grad_()
    layer = fnn.IterNorm(6)
    made = layer(batch)
    made.square().sum().backward()
    assert bool(made.isfinite().all())
    assert bool(batch.grad.isfinite().all())
    assert bool(layer.running_matrix.isfinite().all())


def test_iterative_normalization_takes_sensible_numbers_only():
    for bad in ({"iterations": 0}, {"eps": 0.0}, {"momentum": 0.0}):
        with pytest.raises(InputError, match="IterNorm needs iterations >= 1"):
            fnn.IterNorm(4, **bad)


def trained(layer, steps=20):
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    torch.manual_seed(0)
    for _ in range(steps):
        optimizer.zero_grad()
        (layer(torch.randint(0, layer.num_embeddings, (16,))) - 1.0).square().sum().backward()
        optimizer.step()
    return layer


def test_a_table_stays_centered_while_it_trains():
    torch.manual_seed(0)
    layer = trained(fnn.keep_centered(nn.Embedding(20, 4, padding_idx=0)))
    assert not layer.weight[0].any()
    torch.testing.assert_close(layer.weight[1:].mean(dim=0), torch.zeros(4), atol=1e-5, rtol=0)
    again = fnn.keep_centered(nn.Embedding(20, 4, padding_idx=0))
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again.weight, layer.weight)
    baked = layer.weight.detach().clone()
    nn.utils.parametrize.remove_parametrizations(layer, "weight")
    assert torch.equal(layer.weight, baked)


def test_the_mean_that_is_taken_away_may_be_weighted():
    weights = np.arange(20.0)
    layer = trained(fnn.keep_centered(nn.Embedding(20, 4), weights=weights))
    share = torch.tensor(weights / weights.sum(), dtype=torch.float32)
    torch.testing.assert_close(share @ layer.weight, torch.zeros(4), atol=1e-5, rtol=0)
    with pytest.raises(InputError, match="keep_centered needs 20 weights; got 3"):
        fnn.keep_centered(nn.Embedding(20, 4), weights=[1, 2, 3])
    with pytest.raises(InputError, match="Centered needs weights of one dimension"):
        fnn.Centered(weights=[-1.0, 2.0])


def test_a_table_keeps_unit_rows_while_it_trains():
    layer = trained(fnn.keep_unit_norm(nn.Embedding(20, 4, padding_idx=3)))
    norms = layer.weight.norm(dim=1)
    assert norms[3] == 0.0
    torch.testing.assert_close(norms[torch.arange(20) != 3], torch.ones(19))


def test_what_a_parametrization_would_break_is_refused():
    with pytest.raises(InputError, match="keep_unit_norm needs dense gradients; got an embedding with sparse=True"):
        fnn.keep_unit_norm(nn.Embedding(5, 3, sparse=True))
    with pytest.raises(InputError, match=r"keep_centered needs a torch\.nn\.Embedding; got Linear"):
        fnn.keep_centered(nn.Linear(3, 5))
    model = nn.ModuleDict({"tokens": nn.Embedding(5, 3), "head": nn.Linear(3, 5, bias=False)})
    model["head"].weight = model["tokens"].weight
    with pytest.raises(InputError, match=r"needs a table of its own; got one that head\.weight shares"):
        fnn.keep_centered(model["tokens"], model=model)


def test_a_table_is_normalized_again_after_fine_tuning():
    torch.manual_seed(0)
    layer = nn.Embedding(30, 4, padding_idx=0)
    with torch.no_grad():
        layer.weight.add_(2.0)
        layer.weight[0] = 0.0
    before = layer.weight.detach().clone()
    fitted = make_pipeline(Center(), UnitNorm()).fit(before[1:])
    told = fnn.renormalize_(layer, fitted)
    torch.testing.assert_close(layer.weight[1:].detach(), fitted.transform(before[1:]))
    assert not layer.weight[0].any()
    assert told["n_rows"] == 29
    assert told["norm_after"] == pytest.approx(29 / 30)
    assert -1.0 <= told["mean_cosine"] < 1.0
    with pytest.raises(InputError, match="renormalize_ needs a normalizer from 4 to 4 dimensions; got 4 to 2"):
        fnn.renormalize_(layer, PCA(2).fit(before))
    with pytest.raises(InputError, match=r"renormalize_ needs a torch\.nn\.Embedding"):
        fnn.renormalize_(nn.Linear(4, 4), fitted)
    kept = layer.weight.detach().clone()
    with torch.no_grad():
        layer.weight[5, 1] = float("nan")
    with pytest.raises(InputError, match="needs finite rows; got NaN or infinity in row 5"):
        fnn.renormalize_(layer, Standardize().fit(kept))


def test_the_coupled_iteration_is_that_of_the_paper():
    x = rows(500).double()
    layer = fnn.IterNorm(6, iterations=4).double()
    made = layer(x)
    rest = x - x.mean(dim=0)
    covariance = rest.T @ rest / len(x)
    covariance += 1e-5 * covariance.trace() / 6 * torch.eye(6)
    small, root = covariance / covariance.trace(), torch.eye(6, dtype=torch.float64)
    for _ in range(4):
        root = (3 * root - root @ root @ root @ small) / 2
    torch.testing.assert_close(made, rest @ root / covariance.trace().sqrt(), rtol=1e-9, atol=1e-9)
