"""A fitted chain as a torch module, and in a linear layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fullspan.errors import InputError
from fullspan.normalize.module import fold_into, to_module
from fullspan.normalize.persist import load, save
from fullspan.normalize.pipeline import make_pipeline
from fullspan.normalize.scale import RobustScale, Standardize
from fullspan.normalize.unit import UnitNorm
from fullspan.normalize.whiten import PCA, Whiten
from tests.cases import NORMALIZERS

TABLE = np.random.default_rng(3).normal(size=(300, 6)) * np.linspace(0.2, 3.0, 6) + np.linspace(-20.0, 20.0, 6)


@pytest.mark.parametrize("case", NORMALIZERS, ids=str)
def test_the_module_maps_as_the_normalizer_does(case, tmp_path):
    rows = TABLE.astype(np.float32)
    fitted = case.make().fit(rows)
    if {stage.kind for stage in fitted.stages} & {"curve", "pull"}:
        with pytest.raises(
            InputError, match=r"to_module needs affine maps, clips, cuts and unit norms; got a stage of"
        ):
            fitted.to_module()
        return
    module = load(save(fitted, tmp_path / "a.norm")).to_module()
    wanted = fitted.transform(rows)
    made = module(torch.from_numpy(rows)).numpy()
    gain = max([float(np.abs(stage.dense).max()) for stage in fitted.stages[1:] if stage.kind == "affine"], default=1.0)
    assert np.abs(made - wanted).max() <= 1e-6 * max(1.0, float(np.abs(wanted).max()), gain)
    assert module(torch.from_numpy(rows).half()).dtype == torch.float16
    assert np.array_equal(module(torch.from_numpy(rows).reshape(3, 100, 6)).reshape(300, -1).numpy(), made)


def test_a_module_keeps_its_digits_under_an_offset():
    rows = (np.random.default_rng(0).normal(size=(400, 8)) + 1e4).astype(np.float32)
    fitted = Whiten().fit(rows)
    wanted = fitted.transform(rows.astype(np.float64))
    assert np.abs(to_module(fitted)(torch.from_numpy(rows)).numpy() - wanted).max() < 2e-6


def test_extreme_rows_in_a_module():
    rows = torch.tensor([[3e20, 4e20], [3e-25, 4e-25], [0.0, 0.0]], requires_grad=True)
    made = to_module(UnitNorm().fit(np.ones((1, 2))))(rows)
    assert made.detach().numpy() == pytest.approx(np.array([[0.6, 0.8], [0.6, 0.8], [0.0, 0.0]]), rel=1e-6)
    made.sum().backward()
    assert bool(rows.grad[2].isfinite().all())


def test_buffers_move_and_gradients_flow():
    module = to_module(make_pipeline(Standardize(), UnitNorm()).fit(TABLE))
    assert set(module.state_dict()) == {"layers.0.shift", "layers.0.matrix", "layers.0.offset"}
    rows = torch.from_numpy(TABLE).requires_grad_()
    module.double()(rows).sum().backward()
    assert bool(rows.grad.any())
    assert not list(module.parameters())


@pytest.mark.parametrize(
    "normalizer", [Standardize(), PCA(3), make_pipeline(Standardize(), Whiten(power=0.5))], ids=repr
)
@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_does_the_work_of_a_normalizer(normalizer, bias):
    torch.manual_seed(0)
    rows = TABLE.astype(np.float32)
    fitted = normalizer.fit(rows)
    linear = torch.nn.Linear(fitted.dim_out_, 4, bias=bias)
    made, bound = fold_into(fitted, linear)
    with torch.no_grad():
        wanted = linear.double()(torch.from_numpy(fitted.transform(rows.astype(np.float64)))).numpy()
        found = made(torch.from_numpy(rows)).numpy()
    error = (np.abs(found - wanted) / wanted.std(axis=0)).max()
    assert error < bound < 1e-4
    assert made.in_features == 6


def test_a_large_offset_is_refused():
    rows = (np.random.default_rng(0).normal(size=(400, 8)) + 1e4).astype(np.float32)
    fitted = Standardize().fit(rows)
    linear = torch.nn.Linear(8, 3)
    with pytest.raises(InputError, match=r"fold_into needs an error bound of at most 0\.0001 deviations of an output"):
        fold_into(fitted, linear)
    made, bound = fold_into(fitted, linear, tolerance=None)
    with torch.no_grad():
        wanted = linear.double()(torch.from_numpy(fitted.transform(rows.astype(np.float64)))).numpy()
        error = (np.abs(made(torch.from_numpy(rows)).numpy() - wanted) / wanted.std(axis=0)).max()
    assert 1e-4 < error < bound


def test_what_is_no_affine_map_or_no_layer():
    with pytest.raises(InputError, match=r"fold_into needs one affine map; got Folded\(6 → 6: affine → unit\)\. Serve"):
        fold_into(make_pipeline(Standardize(), UnitNorm()).fit(TABLE), torch.nn.Linear(6, 2))
    with pytest.raises(InputError, match=r"fold_into needs a torch\.nn\.Linear of 6 inputs; got Linear\(in_features=5"):
        fold_into(Standardize().fit(TABLE), torch.nn.Linear(5, 2))
    with pytest.raises(InputError, match=r"fold_into needs an error bound of at most 0\.0001 .*; got inf\."):
        fold_into(RobustScale().fit(TABLE), torch.nn.Linear(6, 2))
