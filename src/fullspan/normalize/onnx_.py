"""A fitted chain as an ONNX graph: subtraction, products, clips and a norm that neither overflows nor underflows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from fullspan._extras import require
from fullspan._typing import Array
from fullspan.errors import InputError
from fullspan.normalize.folded import Folded
from fullspan.normalize.persist import transform_id

__all__ = ["OPSET", "to_onnx"]

#: Operator set of the graph: the first one whose ReduceMax and ReduceSum take their axes as inputs.
OPSET = 18


def to_onnx(normalizer: Any, path: str | os.PathLike[str]) -> Path:
    """Write a fitted normalizer as an ONNX model of float32 rows.

    Parameters
    ----------
    normalizer
        What was fitted, or a folded chain.
    path
        File to write; it is replaced whole or not at all.

    Returns
    -------
    pathlib.Path
        The file. Its one input ``rows`` is ``(n, dim_in)`` float32, its one output ``normalized`` is ``(n, dim_out)``
        float32, for any n. The metadata hold the strategy and the transform id.

    Raises
    ------
    MissingExtraError
        If the package ``onnx`` is not installed.
    InputError
        If the chain has a stage that is no affine map, clip, cut or unit norm.

    Notes
    -----
    Agrees with :meth:`transform` to about 1e-6 of the largest value of a row. Columns that are scaled after the mean is
    taken away keep the form ``(x - b) W``. Rows of zeros stay zeros under a unit norm; policies for rows of zeros, NaN
    and infinity (``"error"`` among them) are not part of the graph: such rows give zeros and NaN.

    Examples
    --------
    >>> import numpy as np, tempfile, onnxruntime
    >>> from fullspan.normalize.scale import Center
    >>> fitted = Center().fit(np.array([[1.0, 2.0], [3.0, 6.0]]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     session = onnxruntime.InferenceSession(to_onnx(fitted, folder + "/center.onnx"))
    ...     session.run(None, {"rows": np.array([[1, 2]], dtype=np.float32)})[0].tolist()
    [[-1.0, -2.0]]
    """
    onnx = require("onnx", "onnx", "to_onnx")
    folded = Folded.of(normalizer)
    graph = _Graph(onnx.helper, onnx.numpy_helper)
    name = "rows"
    for stage in folded.stages:
        if stage.kind not in _WRITERS:
            raise InputError(
                f"to_onnx needs affine maps, clips, cuts and unit norms; got a stage of the kind '{stage.kind}'. "
                "Serve the normalizer with fullspan.load(...).transform, or leave that step out of the pipeline."
            )
        name = _WRITERS[stage.kind](graph, stage, name)
    graph.add("Identity", [name], "normalized")
    model = _model(onnx, graph, folded)
    onnx.checker.check_model(model, full_check=True)
    return _write(model.SerializeToString(), Path(path))


class _Graph:
    """Nodes and constants, named as they come."""

    def __init__(self, helper: Any, numpy_helper: Any) -> None:
        self.helper, self.numpy_helper = helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, inputs: list[str], output: str | None = None, **attributes: Any) -> str:
        output = output or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operator, inputs, [output], **attributes))
        return output

    def constant(self, array: Any) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def numbers(self, array: Any) -> str:
        return self.constant(np.asarray(array, dtype=np.float32))


def _affine(graph: _Graph, stage: Any, name: str) -> str:
    parts = stage.parts(np.float32)
    if parts.high is not None:
        name = graph.add("Sub", [name, graph.numbers(parts.high)])
    name = graph.add("Mul" if stage.diagonal else "MatMul", [name, graph.numbers(parts.matrix)])
    return name if parts.rest is None else graph.add("Add", [name, graph.numbers(parts.rest)])


def _clip(graph: _Graph, stage: Any, name: str) -> str:
    bounded = graph.add("Max", [name, graph.numbers(_finite(stage.low))])
    return graph.add("Min", [bounded, graph.numbers(_finite(stage.high))])


def _finite(bounds: Array) -> Array:
    most = float(np.finfo(np.float32).max)
    return np.clip(bounds, -most, most)


def _head(graph: _Graph, stage: Any, name: str) -> str:
    places = [graph.constant(np.array([each], dtype=np.int64)) for each in (0, stage.size, 1)]
    return graph.add("Slice", [name, *places])


def _unit(graph: _Graph, stage: Any, name: str) -> str:
    """Divide by the largest entry, then by the norm of the rest; where a row is zero, by one."""
    axis, one = graph.constant(np.array([1], dtype=np.int64)), graph.numbers([1.0])
    largest = graph.add("ReduceMax", [graph.add("Abs", [name]), axis], keepdims=1)
    scaled = graph.add("Div", [name, _or_one(graph, largest, one)])
    squares = graph.add("ReduceSum", [graph.add("Mul", [scaled, scaled]), axis], keepdims=1)
    return graph.add("Div", [scaled, graph.add("Sqrt", [_or_one(graph, squares, one)])])


def _or_one(graph: _Graph, name: str, one: str) -> str:
    return graph.add("Where", [graph.add("Greater", [name, graph.numbers([0.0])]), name, one])


_WRITERS = {"affine": _affine, "clip": _clip, "head": _head, "unit": _unit}


def _model(onnx: Any, graph: _Graph, folded: Folded) -> Any:
    import fullspan

    helper, number = onnx.helper, onnx.TensorProto.FLOAT
    made = helper.make_graph(
        graph.nodes,
        "fullspan",
        [helper.make_tensor_value_info("rows", number, ["n", folded.dim_in])],
        [helper.make_tensor_value_info("normalized", number, ["n", folded.dim_out])],
        graph.constants,
    )
    model = helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=8,
        producer_name="fullspan",
        producer_version=fullspan.__version__,
    )
    helper.set_model_props(
        model, {"strategy": str(folded.info.get("strategy", "")), "transform_id": transform_id(folded)}
    )
    return model


def _write(content: bytes, path: Path) -> Path:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path
