"""Kinds of rows as ONNX models. Images and filters are given as ONNX wants them, NCHW."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.cpu.functions.inputs import RESNET18, Parameters
from benchmarks.cpu.wire import Array

OPSET = 20


@dataclass(frozen=True, slots=True)
class Graph:
    """A model with what it is fed.

    Attributes:
        model: serialized.
        fed: inputs by name.
        is_nchw: its results are images whose channels come second.
    """

    model: bytes
    fed: Mapping[str, Array]
    is_nchw: bool = False


@dataclass(slots=True)
class _Builder:
    """Collects nodes and constants."""

    nodes: list[Any] = field(default_factory=list[Any])
    constants: list[Any] = field(default_factory=list[Any])
    fed: dict[str, Array] = field(default_factory=dict[str, Array])

    def feed(self, array: Array) -> str:
        name = f"in{len(self.fed)}"
        self.fed[name] = np.ascontiguousarray(array)
        return name

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        held = np.ascontiguousarray(array)
        self.constants.append(numpy_helper.from_array(held, name))
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0]

    def build(self, *results: str, is_nchw: bool = False) -> Graph:
        given = [_info(name, array.dtype, array.shape) for name, array in self.fed.items()]
        outputs = [helper.make_empty_tensor_value_info(name) for name in results]
        graph = helper.make_graph(self.nodes, "row", given, outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 10
        model = onnx.shape_inference.infer_shapes(model)
        return Graph(model.SerializeToString(), self.fed, is_nchw)


def _info(name: str, dtype: Any, shape: Sequence[int]) -> Any:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)


def _unary(op: str, **attributes: Any) -> Callable[[Parameters, list[Array]], Graph]:
    def build(_: Parameters, inputs: list[Array]) -> Graph:
        b = _Builder()
        return b.build(b.node(op, b.feed(inputs[0]), **attributes))

    return build


def _gemm(_: Parameters, inputs: list[Array]) -> Graph:
    b = _Builder()
    op = "MatMulInteger" if inputs[0].dtype == np.int8 else "MatMul"
    return b.build(b.node(op, b.feed(inputs[0]), b.constant(inputs[1])))


def _layernorm(_: Parameters, inputs: list[Array]) -> Graph:
    b = _Builder()
    x, scale, shift = b.feed(inputs[0]), b.constant(inputs[1]), b.constant(inputs[2])
    return b.build(b.node("LayerNormalization", x, scale, shift, epsilon=1e-5))


def _sum(p: Parameters, inputs: list[Array]) -> Graph:
    b = _Builder()
    axis = p.get("axis")
    axes = list(range(inputs[0].ndim)) if axis is None else [axis]
    wanted = b.constant(np.array(axes, np.int64))
    return b.build(b.node("ReduceSum", b.feed(inputs[0]), wanted, keepdims=0))


def _transpose(p: Parameters, inputs: list[Array]) -> Graph:
    return _unary("Transpose", perm=list(p["permutation"]))(p, inputs)


def _gather(_: Parameters, inputs: list[Array]) -> Graph:
    b = _Builder()
    return b.build(b.node("Gather", b.feed(inputs[0]), b.feed(inputs[1]), axis=0))


def _cumsum(p: Parameters, inputs: list[Array]) -> Graph:
    b = _Builder()
    axis = b.constant(np.array(p["axis"], np.int64))
    return b.build(b.node("CumSum", b.feed(inputs[0]), axis))


def _top_k(p: Parameters, inputs: list[Array]) -> Graph:
    b = _Builder()
    values = b.node("TopK", b.feed(inputs[0]), b.constant(np.array([p["k"]], np.int64)), outputs=2)
    return b.build(values, values.replace("_0", "_1"))


def _nchw(images: Array) -> Array:
    return images.transpose(0, 3, 1, 2)


def _oihw(filters: Array) -> Array:
    return filters.transpose(3, 2, 0, 1)


def _convolved(b: _Builder, x: str, w: Array, stride: int, groups: int = 1, *bias: str) -> str:
    pads = [w.shape[0] // 2] * 4
    filters = b.constant(_oihw(w))
    return b.node("Conv", x, filters, *bias, strides=[stride] * 2, pads=pads, group=groups)


def _conv(p: Parameters, inputs: list[Array]) -> Graph:
    b = _Builder()
    x = b.feed(_nchw(inputs[0]))
    y = _convolved(b, x, inputs[1], p.get("stride", 1), p.get("groups", 1))
    return b.build(y, is_nchw=True)


def _attention(_: Parameters, inputs: list[Array]) -> Graph:
    b = _Builder()
    q, k, v = (b.feed(a) for a in inputs)
    scale = b.constant(np.float32(inputs[0].shape[-1] ** -0.5))
    scores = b.node("Mul", b.node("MatMul", q, b.node("Transpose", k, perm=[0, 1, 3, 2])), scale)
    return b.build(b.node("MatMul", b.node("Softmax", scores, axis=-1), v))


def _resnet18(_: Parameters, inputs: list[Array]) -> Graph:
    b = _Builder()
    left = iter(inputs[2:])

    def conv(x: str, stride: int) -> str:
        w, scale, shift = next(left), next(left), next(left)
        return _convolved(b, x, w * scale, stride, 1, b.constant(shift))

    x = b.node("Relu", conv(b.feed(_nchw(inputs[0])), 2))
    x = b.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for _cin, _cout, stride in RESNET18:
        y = conv(b.node("Relu", conv(x, stride)), 1)
        shortcut = conv(x, stride) if stride > 1 else x
        x = b.node("Relu", b.node("Add", y, shortcut))
    flat = b.node("Flatten", b.node("GlobalAveragePool", x))
    return b.build(b.node("MatMul", flat, b.constant(next(left))))


GRAPHS: Mapping[str, Callable[[Parameters, list[Array]], Graph]] = {
    "gemm": _gemm,
    "softmax": _unary("Softmax", axis=-1),
    "layernorm": _layernorm,
    "gelu": _unary("Gelu", approximate="tanh"),
    "sum": _sum,
    "transpose": _transpose,
    "gather": _gather,
    "cumsum": _cumsum,
    "top_k": _top_k,
    "conv": _conv,
    "attention": _attention,
    "resnet18_forward": _resnet18,
}
"""By kind of row."""
