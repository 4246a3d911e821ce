"""Whole programs: training steps, attention, decoding with a cache, recurrent nets, convolutions.

Each is small and written out instruction by instruction, as a framework would export it; sizes are
no multiples of a tile. What a backend must get right here is the whole: many opcodes, values that
live long, several results, donated state.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import SliceDim, WindowDim
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.shape import array, tuple_of
from xladev.testing.conformance.case import Build, Case
from xladev.testing.conformance.cells import Node, combine
from xladev.testing.conformance.windows import convolution, features_last

Dims = tuple[int, ...]


class Net:
    """A builder with the vocabulary of networks; all values are of one element type."""

    def __init__(self, builder: HloBuilder, dtype: PrimitiveType = dt.F32) -> None:
        self.b = builder
        self.dtype = dtype

    def given(self, *dims: int) -> Node:
        return self.b.parameter(array(self.dtype, dims))

    def number(self, value: float, like: Node) -> Node:
        constant = self.b.constant(np.asarray(value).astype(self.dtype.np))
        return self.spread(constant, like.shape.dims)

    def spread(self, x: Node, dims: Dims, at: Dims = ()) -> Node:
        shape = array(x.shape.element_type, dims)
        return self.b.op("broadcast", x, shape=shape, dimensions=at)

    def rows(self, x: Node, like: Node) -> Node:
        """The same vector for each row."""
        return self.spread(x, like.shape.dims, (like.shape.rank - 1,))

    def keep(self, x: Node, like: Node) -> Node:
        """One number per row for each element of the row."""
        return self.spread(x, like.shape.dims, tuple(range(like.shape.rank - 1)))

    def reduce(self, x: Node, dims: Sequence[int], opcode: str = "add") -> Node:
        init = {"add": 0.0, "maximum": -np.inf}[opcode]
        start = self.b.constant(np.asarray(init).astype(self.dtype.np))
        body = combine(opcode, self.dtype)
        return self.b.op("reduce", x, start, dimensions=tuple(dims), to_apply=body)

    def op(self, opcode: str, *operands: Node, **attrs: Any) -> Node:
        return self.b.op(opcode, *operands, **attrs)

    def matmul(self, x: Node, y: Node, lhs: int = 1, rhs: int = 0, batch: int = 0) -> Node:
        at = tuple(range(batch))
        return self.op("dot", x, y, lhs_contracting_dims=(lhs,), rhs_contracting_dims=(rhs,),
                       lhs_batch_dims=at, rhs_batch_dims=at)  # fmt: skip

    def softmax(self, x: Node) -> Node:
        last = (x.shape.rank - 1,)
        shifted = self.op("subtract", x, self.keep(self.reduce(x, last, "maximum"), x))
        powers = self.op("exponential", shifted)
        return self.op("divide", powers, self.keep(self.reduce(powers, last), powers))

    def relu(self, x: Node) -> Node:
        return self.op("maximum", x, self.number(0, x))

    def layer_norm(self, x: Node, scale: Node, offset: Node) -> Node:
        last, size = (x.shape.rank - 1,), x.shape.dims[-1]
        count = self.number(size, x)
        mean = self.op("divide", self.keep(self.reduce(x, last), x), count)
        centred = self.op("subtract", x, mean)
        squares = self.op("multiply", centred, centred)
        variance = self.op("divide", self.keep(self.reduce(squares, last), x), count)
        factor = self.op("rsqrt", self.op("add", variance, self.number(1e-2, x)))
        normal = self.op("multiply", centred, factor)
        return self.op(
            "add", self.op("multiply", normal, self.rows(scale, x)), self.rows(offset, x)
        )

    def less(self, x: Node, rate: float, gradient: Node) -> Node:
        return self.op("subtract", x, self.op("multiply", self.number(rate, x), gradient))


def softmax_regression(b: HloBuilder, dtype: PrimitiveType) -> Node:
    """One step of gradient descent: loss, weights, bias."""
    n = Net(b, dtype)
    x, target, w, bias = n.given(33, 20), n.given(33, 10), n.given(20, 10), n.given(10)
    logits = n.op("add", n.matmul(x, w), n.rows(bias, target))
    chances = n.softmax(logits)
    error = n.op("subtract", chances, target)
    squared = n.reduce(n.op("multiply", error, error), (0, 1))
    slope = n.op("multiply", error, n.number(1 / 33, error))
    return n.op("tuple", squared, n.less(w, 0.5, n.matmul(x, slope, 0, 0)),
                n.less(bias, 0.5, n.reduce(slope, (0,))))  # fmt: skip


def perceptron(b: HloBuilder, dtype: PrimitiveType) -> Node:
    """A step of a two-layer perceptron, with momentum."""
    n = Net(b, dtype)
    x, target = n.given(17, 20), n.given(17, 5)
    w1, w2, v1, v2 = n.given(20, 33), n.given(33, 5), n.given(20, 33), n.given(33, 5)
    hidden = n.matmul(x, w1)
    active = n.relu(hidden)
    error = n.op("subtract", n.matmul(active, w2), target)
    back = n.matmul(error, w2, 1, 1)
    on = n.op("compare", hidden, n.number(0, hidden), direction="GT")
    slope = n.op("select", on, back, n.number(0, back))
    results: list[Node] = [n.reduce(n.op("multiply", error, error), (0, 1))]
    for w, v, gradient in (
        (w1, v1, n.matmul(x, slope, 0, 0)), (w2, v2, n.matmul(active, error, 0, 0)),
    ):  # fmt: skip
        speed = n.op("add", n.op("multiply", v, n.number(0.9, v)), gradient)
        results += [n.less(w, 0.01, speed), speed]
    return n.op("tuple", *results)


def adam(b: HloBuilder, dtype: PrimitiveType) -> Node:
    """Adam's update of one weight; gradients are kept away from zero, where it divides by them."""
    n = Net(b, dtype)
    w, m, v, raw = (n.given(33, 17) for _ in range(4))
    gradient = n.op("add", raw, n.number(2, raw))
    m = n.op("add", n.op("multiply", m, n.number(0.9, m)),
             n.op("multiply", gradient, n.number(0.1, m)))  # fmt: skip
    square = n.op("multiply", gradient, gradient)
    v = n.op("add", n.op("multiply", n.op("abs", v), n.number(0.99, v)),
             n.op("multiply", square, n.number(0.01, v)))  # fmt: skip
    step = n.op("divide", m, n.op("add", n.op("sqrt", v), n.number(1e-3, v)))
    return n.op("tuple", n.less(w, 0.1, step), m, v)


def attention(b: HloBuilder, dtype: PrimitiveType) -> Node:
    """Causal self-attention of two sequences, three heads."""
    n = Net(b, dtype)
    q, k, v = (n.given(2, 3, 9, 8) for _ in range(3))
    scores = n.matmul(q, k, 3, 3, batch=2)
    scaled = n.op("multiply", scores, n.number(8**-0.5, scores))
    rows, columns = (
        b.op("iota", shape=array(dt.S32, scores.shape.dims), iota_dimension=d) for d in (2, 3)
    )
    seen = n.op("compare", rows, columns, direction="GE")
    weights = n.softmax(n.op("select", seen, scaled, n.number(-1e4, scaled)))
    mixed = n.matmul(weights, v, 3, 2, batch=2)
    return n.op("reshape", n.op("transpose", mixed, dimensions=(0, 2, 1, 3)),
                shape=array(dtype, (2, 9, 24)))  # fmt: skip


def transformer_block(b: HloBuilder, dtype: PrimitiveType) -> Node:
    """Normalisation, one head of attention, a feed-forward layer, both with residuals."""
    n = Net(b, dtype)
    x = n.given(9, 16)
    wq, wk, wv, up, down = (
        n.given(16, 8),
        n.given(16, 8),
        n.given(16, 16),
        n.given(16, 33),
        n.given(33, 16),
    )
    scale, offset = n.given(16), n.given(16)
    normal = n.layer_norm(x, scale, offset)
    q, k, v = (n.matmul(normal, w) for w in (wq, wk, wv))
    scores = n.matmul(q, k, 1, 1)
    weights = n.softmax(n.op("multiply", scores, n.number(8**-0.5, scores)))
    x = n.op("add", x, n.matmul(weights, v))
    hidden = n.matmul(n.layer_norm(x, scale, offset), up)
    gate = n.op("multiply", hidden, n.op("logistic", hidden))
    return n.op("add", x, n.matmul(gate, down))


def decode(b: HloBuilder, dtype: PrimitiveType) -> Node:
    """One token: its key and value are written into the cache, then all of it is attended to."""
    n = Net(b, dtype)
    keys, values, q, k, v = (
        n.given(33, 8),
        n.given(33, 8),
        n.given(1, 8),
        n.given(1, 8),
        n.given(1, 8),
    )
    raw = b.parameter(array(dt.S32))
    at = b.op("clamp", b.constant(0, dt.S32), raw, b.constant(32, dt.S32))
    zero = b.constant(0, dt.S32)
    keys = n.op("dynamic-update-slice", keys, k, at, zero)
    values = n.op("dynamic-update-slice", values, v, at, zero)
    scores = n.matmul(q, keys, 1, 1)
    place = b.op("iota", shape=array(dt.S32, (1, 33)), iota_dimension=1)
    seen = n.op("compare", place, n.spread(at, (1, 33)), direction="LE")
    weights = n.softmax(n.op("select", seen, scores, n.number(-1e4, scores)))
    return n.op("tuple", n.matmul(weights, values), keys, values)


def lstm(b: HloBuilder, dtype: PrimitiveType) -> Node:
    """Seven steps of a recurrent cell in a loop; all hidden states are kept."""
    n = Net(b, dtype)
    xs, w, h, c = n.given(7, 4, 5), n.given(13, 32), n.given(4, 8), n.given(4, 8)
    zero = b.constant(0, dt.S32)
    kept = n.spread(b.constant(np.zeros((), dtype.np)), (7, 4, 8))
    start = b.op("tuple", zero, xs, w, h, c, kept)
    shapes = [v.shape.without_layout() for v in start.operands]
    state = tuple_of(*shapes)
    inner = Net(HloBuilder("step"), dtype)
    whole = inner.b.parameter(state)
    i, xs, w, h, c, kept = (inner.op("get-tuple-element", whole, index=x) for x in range(6))
    at = (i, inner.b.constant(0, dt.S32), inner.b.constant(0, dt.S32))
    x = inner.op("dynamic-slice", xs, *at, dynamic_slice_sizes=(1, 4, 5))
    row = inner.op("reshape", x, shape=array(dtype, (4, 5)))
    gates = inner.matmul(inner.op("concatenate", row, h, dimensions=(1,)), w)
    parts = [
        inner.op("slice", gates, slice=(SliceDim(0, 4), SliceDim(8 * g, 8 * g + 8)))
        for g in range(4)
    ]
    into, forget, out = (inner.op("logistic", g) for g in parts[:3])
    fresh = inner.op("multiply", into, inner.op("tanh", parts[3]))
    c = inner.op("add", inner.op("multiply", forget, c), fresh)
    h = inner.op("multiply", out, inner.op("tanh", c))
    plane = inner.op("reshape", h, shape=array(dtype, (1, 4, 8)))
    kept = inner.op("dynamic-update-slice", kept, plane, *at)
    following = inner.op("add", i, inner.b.constant(1, dt.S32))
    body = inner.b.build(inner.op("tuple", following, xs, w, h, c, kept))
    test = HloBuilder("test")
    count = test.op("get-tuple-element", test.parameter(state), index=0)
    condition = test.build(test.op("compare", count, test.constant(7, dt.S32), direction="LT"))
    made = b.op("while", start, condition=condition, body=body)
    return b.op("tuple", *(b.op("get-tuple-element", made, index=x) for x in (3, 4, 5)))


def convolutional(b: HloBuilder, dtype: PrimitiveType) -> Node:
    """Convolution, rectification, pooling, twice; then a dense layer."""
    n = Net(b, dtype)
    x = n.given(2, 13, 13, 3)
    for features, outputs in ((3, 8), (8, 5)):
        kernel = n.given(3, 3, features, outputs)
        x = n.relu(convolution(b, x, kernel, features_last(2), padding="SAME"))
        low = b.constant(np.asarray(-np.inf).astype(dtype.np))
        window = (WindowDim(1), WindowDim(2, 2), WindowDim(2, 2), WindowDim(1))
        x = n.op("reduce-window", x, low, window=window, to_apply=combine("maximum", dtype))
    flat = n.op("reshape", x, shape=array(dtype, (2, 45)))
    return n.softmax(n.matmul(flat, n.given(45, 10)))


def embedding(b: HloBuilder, dtype: PrimitiveType) -> Node:
    """Rows looked up by token, and a step that adds to the rows that were used."""
    n = Net(b, dtype)
    table, raw = n.given(50, 8), b.parameter(array(dt.S32, (3, 7)))
    low, high = (n.spread(b.constant(x, dt.S32), (3, 7)) for x in (0, 49))
    tokens = b.op("clamp", low, raw, high)
    rows = n.op("gather", table, tokens, offset_dims=(2,), collapsed_slice_dims=(0,),
                start_index_map=(0,), index_vector_dim=2, slice_sizes=(1, 8))  # fmt: skip
    change = n.op("multiply", rows, n.number(-0.125, rows))
    new = n.op("scatter", table, tokens, change, update_window_dims=(2,), inserted_window_dims=(0,),
               scatter_dims_to_operand_dims=(0,), index_vector_dim=2,
               to_apply=combine("add", dtype))  # fmt: skip
    return n.op("tuple", n.reduce(rows, (1,)), new)


def quantized(b: HloBuilder, _: PrimitiveType) -> Node:
    """An int8 layer: integers are multiplied, sums scaled, rounded and saturated again."""
    x, w = b.parameter(array(dt.S8, (17, 33))), b.parameter(array(dt.S8, (33, 20)))
    sums = b.op("dot", x, w, shape=array(dt.S32, (17, 20)), lhs_contracting_dims=(1,),
                rhs_contracting_dims=(0,))  # fmt: skip
    n = Net(b)
    real = b.op("convert", sums, shape=array(dt.F32, (17, 20)))
    scaled = n.op("round-nearest-even", n.op("multiply", real, n.number(0.125, real)))
    kept = n.op("clamp", n.number(-128, real), scaled, n.number(127, real))
    return b.op("convert", kept, shape=array(dt.S8, (17, 20)))


def power_iteration(b: HloBuilder, dtype: PrimitiveType) -> Node:
    """Ten products of a matrix and a vector that is normed each time."""
    n = Net(b, dtype)
    a, v = n.given(33, 33), n.given(33)
    a = n.op("add", n.op("multiply", a, n.number(0.01, a)), n.number(1, a))
    v = n.op("add", n.op("abs", v), n.number(1, v))
    for _ in range(10):
        w = n.matmul(a, v)
        norm = n.op("sqrt", n.reduce(n.op("multiply", w, w), (0,)))
        v = n.op("divide", w, n.spread(norm, (33,)))
    return v


PROGRAMS = {
    "softmax-regression-step": softmax_regression, "perceptron-step": perceptron, "adam": adam,
    "attention": attention, "transformer-block": transformer_block, "decode-with-cache": decode,
    "lstm": lstm, "convolutional-net": convolutional, "embedding": embedding,
    "quantized-layer": quantized, "power-iteration": power_iteration,
}  # fmt: skip


def cases() -> Iterator[Case]:
    for name, program in PROGRAMS.items():
        types = (dt.F32, dt.F64, dt.BF16) if name != "quantized-layer" else (dt.S8,)
        for dtype in types:
            yield Case(f"{name}-{dtype}", _of(program, dtype), tags=("program", dtype.name), tier=3)


def _of(program: Any, dtype: PrimitiveType) -> Build:
    return lambda b: program(b, dtype)


CASES = tuple(cases())
