"""A fitted chain as an ONNX model, run by onnxruntime beside NumPy and torch."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from fullspan.errors import InputError
from fullspan.normalize.onnx_ import OPSET
from fullspan.normalize.persist import load, save, transform_id
from fullspan.normalize.pipeline import make_pipeline
from fullspan.normalize.scale import Center, Standardize
from fullspan.normalize.unit import UnitNorm
from fullspan.normalize.whiten import Whiten
from tests.cases import NORMALIZERS

TABLE = np.random.default_rng(3).normal(size=(300, 6)) * np.linspace(0.2, 3.0, 6) + np.linspace(-20.0, 20.0, 6)


def served(path, rows):
    return onnxruntime.InferenceSession(path).run(None, {"rows": rows})[0]


@pytest.mark.parametrize("case", NORMALIZERS, ids=str)
def test_numpy_torch_and_onnx_agree(case, tmp_path):
    rows = TABLE.astype(np.float32)
    fitted = case.make().fit(rows)
    if {stage.kind for stage in fitted.stages} & {"curve", "pull"}:
        with pytest.raises(InputError, match=r"to_onnx needs affine maps, clips, cuts and unit norms; got a stage of"):
            fitted.to_onnx(tmp_path / "a.onnx")
        assert not list(tmp_path.iterdir())
        return
    path = load(save(fitted, tmp_path / "a.norm")).to_onnx(tmp_path / "a.onnx")
    wanted = fitted.transform(rows)
    gain = max([float(np.abs(stage.dense).max()) for stage in fitted.stages[1:] if stage.kind == "affine"], default=1.0)
    scale = max(1.0, float(np.abs(wanted).max()), gain)
    made = served(path, rows)
    assert made.dtype == np.float32
    assert np.abs(made - wanted).max() <= 1e-6 * scale
    assert np.abs(made - fitted.to_module()(torch.from_numpy(rows)).numpy()).max() <= 1e-6 * scale
    np.testing.assert_allclose(served(path, rows[:1]), made[:1], atol=1e-6 * scale, rtol=0)  # any number of rows


def test_digits_are_kept_under_an_offset(tmp_path):
    rows = (np.random.default_rng(0).normal(size=(400, 8)) + 1e4).astype(np.float32)
    fitted = make_pipeline(Whiten(), UnitNorm()).fit(rows)
    wanted = fitted.transform(rows.astype(np.float64))
    assert np.abs(served(fitted.to_onnx(tmp_path / "a.onnx"), rows) - wanted).max() < 2e-6


def test_rows_of_any_length_are_divided_by_it(tmp_path):
    rows = np.array([[3e20, 4e20], [3e-25, 4e-25], [0.0, 0.0], [-3.0, 4.0]], dtype=np.float32)
    made = served(UnitNorm().fit(np.ones((1, 2))).to_onnx(tmp_path / "a.onnx"), rows)
    assert made == pytest.approx(np.array([[0.6, 0.8], [0.6, 0.8], [0.0, 0.0], [-0.6, 0.8]]), rel=1e-6)


def test_the_file_says_what_it_is(tmp_path):
    fitted = make_pipeline(Standardize(), UnitNorm()).fit(TABLE)
    model = onnx.load(fitted.to_onnx(tmp_path / "a.onnx"))
    props = {each.key: each.value for each in model.metadata_props}
    assert props["transform_id"] == transform_id(fitted)
    assert props["strategy"].startswith("standardize")
    assert [each.version for each in model.opset_import] == [OPSET]
    assert "MatMul" not in {node.op_type for node in model.graph.node}  # a diagonal map stays one


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.onnx"
    path.write_bytes(b"old")
    monkeypatch.setattr("os.fsync", lambda number: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        Center().fit(TABLE).to_onnx(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
