"""Reductions under the names by which they are known: sizes, reducers, initial values, layouts.

What is varied is what XLA's own suite of the same case names varies; results follow from the
evaluator, or are written out.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array
from xladev.hlo.shape import Layout, array
from xladev.testing.conformance.case import (
    Build,
    Case,
    Inputs,
    cuttable,
    divided,
    given,
    ordinary,
)
from xladev.testing.conformance.cells import Node, combine, scalar_computation

Dims = tuple[int, ...]
TAGS = ("reduce",)
LARGE = 1 << 18
"""Elements from which on a case can be cut to a device's memory."""


def reduce(
    b: HloBuilder, x: Node, dims: Dims, opcode: str, init: object, dtype: PrimitiveType
) -> Node:
    start = b.constant(np.asarray(init).astype(dtype.np), dtype)
    return b.op("reduce", x, start, dimensions=dims, to_apply=combine(opcode, dtype))


def plain(
    sizes: Dims,
    dims: Dims,
    opcode: str = "add",
    dtype: PrimitiveType = dt.F32,
    init: object = 0,
    layout: Dims | None = None,
) -> Build:
    def build(b: HloBuilder) -> Node:
        shape = array(dtype, sizes, layout=None if layout is None else Layout(layout))
        return reduce(b, b.parameter(shape), dims, opcode, init, dtype)

    return build


def drawn(make: Callable[[np.random.Generator, Dims], Array]) -> Inputs:
    """One run with the first parameter made by a function of a generator and its sizes."""

    def inputs(module: HloModule, seed: int) -> Sequence[Sequence[Array]]:
        rng = np.random.default_rng(seed)
        shapes = [p.shape for p in module.entry.parameters]
        return [[np.asarray(make(rng, s.dims), s.element_type.np) for s in shapes]]

    return inputs


SMALL = drawn(lambda rng, dims: rng.integers(-2, 3, dims))
NEAR_PI = drawn(lambda rng, dims: rng.uniform(3.10, 3.18, dims))
ONES = drawn(lambda rng, dims: np.ones(dims))
POSITIVE = drawn(lambda rng, dims: rng.uniform(0.5, 2.0, dims))

LENGTHS = {
    "0": 0,
    "1": 1,
    "2": 2,
    "16": 16,
    "128": 128,
    "129": 129,
    "240": 240,
    "256": 256,
    "1024": 1024,
    "2048": 2048,
    "16K": 1 << 14,
    "16KP1": (1 << 14) + 1,
    "64K": 1 << 16,
    "1M": 1 << 20,
    "16M": 1 << 24,
}
TO_SCALAR = (
    "0x0",
    "0x2",
    "1x1",
    "2x0",
    "2x2",
    "8x8",
    "9x9",
    "50x111",
    "111x50",
    "111x50_01",
    "1024x1024",
    "1000x1500",
)
TO_ROW = (
    "0x2",
    "1x1",
    "2x2",
    "8x8",
    "9x9",
    "50x111",
    "111x50",
    "111x50_01",
    "1024x1024",
    "1000x1500",
)


def sizes_of(name: str) -> tuple[Dims, Dims | None]:
    text, _, layout = name.partition("_")
    return tuple(map(int, text.split("x"))), (0, 1) if layout else None


def summed(name: str, sizes: Dims, dims: Dims, inputs: Inputs, layout: Dims | None = None) -> Case:
    """A sum in f32; what is large can be cut."""

    def make(factor: int) -> Case:
        program = plain(sizes if factor == 1 else divided(sizes, factor), dims, layout=layout)
        return Case(name, program, "reduce", "f32", TAGS, inputs=inputs)

    return cuttable(make) if math.prod(sizes) > LARGE else make(1)


def sums() -> Iterator[Case]:
    for name, size in LENGTHS.items():
        yield summed(f"ReduceR1_{name}_F32_To_R0", (size,), (0,), SMALL)
    for name in TO_SCALAR:
        sizes, layout = sizes_of(name)
        yield summed(f"ReduceR2_{name}_To_R0", sizes, (0, 1), NEAR_PI, layout)
    for name in TO_ROW:
        sizes, layout = sizes_of(name)
        yield summed(f"ReduceR2_{name}_To_R1", sizes, (0,), NEAR_PI, layout)


def logic(opcode: str, init: bool, sizes: Dims, dims: Dims, dtype: PrimitiveType) -> Build:
    """Elements equal to one, joined."""

    def build(b: HloBuilder) -> Node:
        x = b.parameter(array(dtype, sizes))
        one = b.op("broadcast", b.constant(1, dtype), shape=x.shape, dimensions=())
        return reduce(b, b.op("compare", x, one, direction="EQ"), dims, opcode, init, dt.PRED)

    return build


def predicates() -> Iterator[Case]:
    ones, mixed = np.ones(10, np.int32), np.arange(10, dtype=np.int32) % 2
    for name, opcode, values in (
        ("AndReduceAllOnesR1_10", "and", ones),
        ("AndReduceOnesAndZeros", "and", mixed),
        ("OrReduceAllOnes", "or", ones),
        ("OrReduceOnesAndZeros", "or", mixed),
    ):
        want = (np.array(values.all() if opcode == "and" else values.any()),)
        program = logic(opcode, opcode == "and", (10,), (0,), dt.S32)
        yield Case(name, program, "reduce", "pred", TAGS, inputs=given([values]), expected=want)
    few = drawn(lambda rng, dims: rng.integers(0, 2, dims))
    yield Case(
        "ReduceAndPredR2_128x64",
        logic("and", True, (128, 64), (0,), dt.U8),
        "reduce",
        "pred",
        TAGS,
        inputs=few,
    )
    yield Case(
        "ReduceOrPredR2_64x32",
        logic("or", False, (64, 32), (0,), dt.U8),
        "reduce",
        "pred",
        TAGS,
        inputs=few,
    )


def log_of(b: HloBuilder, sizes: Dims, layout: Dims | None = None) -> Node:
    return b.op("log", b.parameter(array(dt.F32, sizes, layout=Layout(layout) if layout else None)))


def elementwise_111x50(b: HloBuilder) -> Node:
    return reduce(b, log_of(b, (111, 50), (0, 1)), (0,), "add", 0, dt.F32)


def transposed_111x50(b: HloBuilder) -> Node:
    turned = b.op("transpose", log_of(b, (111, 50), (0, 1)), dimensions=(1, 0))
    return reduce(b, turned, (1,), "add", 0, dt.F32)


def transposed_12x111x50(b: HloBuilder) -> Node:
    turned = b.op("transpose", log_of(b, (12, 111, 50)), dimensions=(1, 0, 2))
    return reduce(b, turned, (0,), "add", 0, dt.F32)


def reshaped_111x2x25(b: HloBuilder) -> Node:
    x = b.op("tanh", b.parameter(array(dt.F32, (111, 2, 25))))
    return reduce(b, b.op("reshape", x, shape=array(dt.F32, (111, 50))), (0,), "add", 0, dt.F32)


PRODUCERS = {
    "ReduceElementwiseR2_111x50_To_R1": elementwise_111x50,
    "TransposeAndReduceElementwiseR2_111x50_To_R1": transposed_111x50,
    "TransposeAndReduceR3_12x111x50_To_R2": transposed_12x111x50,
    "Reshape_111x2x25Reduce_111x50_To_R1": reshaped_111x2x25,
}


def broadcast_42(opcode: str) -> Build:
    def build(b: HloBuilder) -> Node:
        x = b.op(
            "broadcast", b.constant(42.0, dt.F32), shape=array(dt.F32, (500, 500)), dimensions=()
        )
        return reduce(b, x, (0, 1), opcode, 0, dt.F32)

    return build


LEAST, MOST = np.finfo(np.float32).tiny, np.finfo(np.float32).max
U32 = np.array([[1], [2]], np.uint32)
LIT2D = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
LIT3D = np.arange(1, 25, dtype=np.float32).reshape(4, 2, 3)


def small() -> Iterator[Case]:
    yield Case("AddReduce2DScalarToR0", broadcast_42("add"), "reduce", "f32", TAGS)
    yield Case("MaxReduce2DScalarToR0", broadcast_42("maximum"), "reduce", "f32", TAGS)
    yield Case(
        "MaxReduce2DToR0",
        plain((300, 250), (0, 1), "maximum", init=LEAST),
        "reduce",
        "f32",
        TAGS,
        inputs=POSITIVE,
    )
    yield Case(
        "MinReduce2DToR0",
        plain((150, 130), (0, 1), "minimum", init=MOST),
        "reduce",
        "f32",
        TAGS,
        inputs=POSITIVE,
    )
    yield Case(
        "UnsignedInt_MinReduce",
        plain((2, 1), (0, 1), "minimum", dt.U32, 2**32 - 1),
        "reduce",
        "u32",
        TAGS,
        inputs=given([U32]),
        expected=(np.uint32(1),),
    )
    yield Case(
        "UnsignedInt_MaxReduce",
        plain((2, 1), (0, 1), "maximum", dt.U32),
        "reduce",
        "u32",
        TAGS,
        inputs=given([U32]),
        expected=(np.uint32(2),),
    )
    for name, lit, dims in (
        ("Reduce2DAmong1", LIT2D, (1,)),
        ("Reduce2DAmong0and1", LIT2D, (0, 1)),
        ("Reduce2DAmongY", LIT2D, (0,)),
        ("Reduce3DAmongDims_1_2", LIT3D, (1, 2)),
        ("Reduce3DAmongDims_0_1", LIT3D, (0, 1)),
        ("Reduce3DToR0", LIT3D, (0, 1, 2)),
        ("Reduce3DAmongDim0", LIT3D, (0,)),
        ("Reduce3DAmongDim1", LIT3D, (1,)),
        ("Reduce3DAmongDim2", LIT3D, (2,)),
    ):
        yield Case(
            name,
            plain(lit.shape, dims),
            "reduce",
            "f32",
            TAGS,
            inputs=given([lit]),
            expected=(lit.sum(axis=dims),),
        )


VECTORIZED = {
    "Add": ("add", 0),
    "Multiply": ("multiply", 1),
    "Max": ("maximum", 0),
    "Min": ("minimum", 100),
}
THREE_D = {
    "4x8x128": (4, 8, 128),
    "1x1x1": (1, 1, 1),
    "8x16x24": (8, 16, 24),
    "5x10x250": (5, 10, 250),
    "8x16x256": (8, 16, 256),
    "2x300x784": (2, 300, 784),
}


def vectorized() -> Iterator[Case]:
    for name, (opcode, init) in VECTORIZED.items():
        for dtype in (dt.F32, dt.S32, dt.U32):
            made = drawn(lambda rng, dims: rng.integers(1, 4, dims))
            yield Case(
                f"VectorizedReduce_{name}_{dtype}",
                plain((64, 128), (0,), opcode, dtype, init),
                "reduce",
                dtype.name,
                TAGS,
                inputs=made,
            )
    for name, opcode in (("BooleanAnd", "and"), ("BooleanOr", "or")):
        yield Case(
            f"VectorizedReduce_{name}",
            plain((64, 128), (0,), opcode, dt.PRED, opcode == "and"),
            "reduce",
            "pred",
            TAGS,
        )
    yield Case(
        "ReduceR3ToR2_1x21x43_over_0", plain((1, 21, 43), (0,)), "reduce", "f32", TAGS, inputs=ONES
    )
    for name, sizes in THREE_D.items():
        layout = (0, 1, 2) if name == "8x16x24" else None
        for at in range(3):
            yield summed(f"ReduceR3ToR2_{name}_over_{at}", sizes, (at,), ONES, layout)


def abs_as_init(b: HloBuilder) -> Node:
    start = b.op("abs", b.constant(2.0, dt.F32))
    x = b.constant(np.array([1, 4], np.float32), dt.F32)
    return b.op("reduce", x, start, dimensions=(0,), to_apply=combine("maximum", dt.F32))


def identity(b: HloBuilder) -> Node:
    """The reducer gives its second operand: what is reduced, not what was so far."""
    second = scalar_computation(lambda b, x, y: b.op("copy", y), (dt.F32, dt.F32), "second")
    x, start = b.parameter(array(dt.F32, (1,))), b.parameter(array(dt.F32))
    return b.op("reduce", x, start, dimensions=(0,), to_apply=second)


INITIAL = {
    "U8Small": (dt.U8, 42, 2),
    "U8BigPowerOf2": (dt.U32, 4096, 2),
    "U8InitializerBigNonPowerOf2": (dt.U32, 4095, 2),
    "U64InitializerZero": (dt.U64, 0, 1024),
    "U64InitializerOne": (dt.U64, 1, 1024),
    "U64InitializerBigValue": (dt.U64, 1234556789123, 1024),
}


def initial() -> Iterator[Case]:
    yield Case(
        "OperationOnConstantAsInitValue",
        abs_as_init,
        "reduce",
        "f32",
        TAGS,
        expected=(np.float32(4),),
    )
    yield Case(
        "ReduceIdentity",
        identity,
        "reduce",
        "f32",
        TAGS,
        inputs=given([np.array([17], np.float32), np.float32(3)]),
        expected=(np.float32(17),),
    )
    for name, (dtype, init, size) in INITIAL.items():
        fill = given([np.full(size, init, dtype.np)])
        yield Case(
            f"ReduceInitializerTest_{name}",
            plain((size,), (0,), "maximum", dtype, init),
            "reduce",
            dtype.name,
            TAGS,
            inputs=fill,
            expected=(dtype.np.type(init),),
        )
    for name, opcode, init in (("AndReduceU64", "and", 2**64 - 1), ("OrReduceU64", "or", 0)):
        bits = drawn(lambda rng, dims: rng.integers(0, 2**63, dims, np.uint64))
        yield Case(
            name,
            plain((3, 2), (1,), opcode, dt.U64, np.uint64(init)),
            "reduce",
            "u64",
            TAGS,
            inputs=bits,
        )
    yield Case("R0ReduceInDisguise", plain((127, 1), (0,)), "reduce", "f32", TAGS, inputs=SMALL)


DIAGONAL = """HloModule HandleReductionToVectorAndOtherReduction
add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y) }
ENTRY main {
  p = f32[9,9]{1,0} parameter(0)
  rows = s32[9,9]{1,0} iota(), iota_dimension=0
  columns = s32[9,9]{1,0} iota(), iota_dimension=1
  on = pred[9,9]{1,0} compare(rows, columns), direction=EQ
  zero = f32[] constant(0)
  zeros = f32[9,9]{1,0} broadcast(zero), dimensions={}
  diagonal = f32[9,9]{1,0} select(on, p, zeros)
  vector = f32[9]{0} reduce(diagonal, zero), dimensions={0}, to_apply=add
  trace = f32[] reduce(vector, zero), dimensions={0}, to_apply=add
  ROOT t = (f32[9]{0}, f32[]) tuple(vector, trace)
}"""
ATOMIC = """HloModule ReduceAtomicF16
least { x = f16[] parameter(0)
  y = f16[] parameter(1)
  ROOT s = f16[] minimum(x, y) }
ENTRY main {
  p = f16[2,16385,1]{2,1,0} parameter(0)
  inf = f16[] constant(inf)
  ROOT r = f16[2]{0} reduce(p, inf), dimensions={1,2}, to_apply=least
}"""
EPILOGUE = """HloModule ReduceWithEpilogueMultiOutputFusion
add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y) }
ENTRY main {
  p = f32[4,2048]{1,0} parameter(0)
  zero = f32[] constant(0)
  a = f32[4]{0} reduce(p, zero), dimensions={1}, to_apply=add
  n = f32[4]{0} negate(a)
  l = f32[4,2048]{1,0} log(p)
  b = f32[4]{0} reduce(l, zero), dimensions={1}, to_apply=add
  ROOT t = (f32[4]{0}, f32[4]{0}, f32[4,2048]{1,0}) tuple(n, b, l)
}"""


def two_sums(sizes: Dims, dims: Dims) -> Build:
    def build(b: HloBuilder) -> Node:
        values = [b.parameter(array(dt.F32, sizes)) for _ in range(2)]
        zeros = [b.constant(0.0, dt.F32) for _ in range(2)]
        body = scalar_computation(
            lambda b, x, y, u, v: b.op("tuple", b.op("add", x, u), b.op("add", y, v)),
            (dt.F32,) * 4,
            "sums",
        )
        return b.op("reduce", *values, *zeros, dimensions=dims, to_apply=body)

    return build


def larger(b: HloBuilder, x: Node, i: Node, y: Node, j: Node) -> Node:
    """The larger value with its index, the lower index of equal ones."""
    ahead, same = (b.op("compare", x, y, direction=d) for d in ("GT", "EQ"))
    tie = b.op("and", same, b.op("compare", i, j, direction="LT"))
    first = b.op("or", ahead, tie)
    return b.op("tuple", b.op("select", first, x, y), b.op("select", first, i, j))


def argmax(sizes: Dims, at: int) -> Build:
    def build(b: HloBuilder) -> Node:
        x = b.parameter(array(dt.F32, sizes))
        index = b.op("iota", shape=array(dt.U32, sizes), iota_dimension=at)
        inits = b.constant(-np.inf, dt.F32), b.constant(0, dt.U32)
        body = scalar_computation(larger, (dt.F32, dt.U32) * 2, "argmax")
        return b.op("reduce", x, index, *inits, dimensions=(at,), to_apply=body)

    return build


def and_with_sum(b: HloBuilder) -> Node:
    flags, counts = b.parameter(array(dt.PRED, (64, 33))), b.parameter(array(dt.U32, (64, 33)))
    body = scalar_computation(
        lambda b, p, n, q, m: b.op("tuple", b.op("and", p, q), b.op("add", n, m)),
        (dt.PRED, dt.U32) * 2,
        "both",
    )
    inits = b.constant(True, dt.PRED), b.constant(0, dt.U32)
    return b.op("reduce", flags, counts, *inits, dimensions=(1,), to_apply=body)


def different_layouts(b: HloBuilder) -> Node:
    shapes = [
        array(dt.F32, (2, 3, 4, 1024), layout=Layout(o)) for o in ((3, 2, 1, 0), (2, 3, 1, 0))
    ]
    values = [b.parameter(shape) for shape in shapes]
    zeros = [b.constant(0.0, dt.F32) for _ in range(2)]
    body = scalar_computation(
        lambda b, x, y, u, v: b.op("tuple", b.op("add", x, u), b.op("maximum", y, v)),
        (dt.F32,) * 4,
        "mixed",
    )
    return b.op("reduce", *values, *zeros, dimensions=(3,), to_apply=body)


VARIADIC: dict[str, Build] = {
    "VariadicReduceR3": two_sums((3, 4, 5), (1,)),
    "VariadicReduceR3ToR1": two_sums((10, 20, 3), (1, 2)),
    "VariadicReduceR1": two_sums((100,), (0,)),
    "VariadicReduceArgMaxR1": argmax((100,), 0),
    "VariadicReduceArgMaxColumn": argmax((32, 128), 0),
    "VariadicReduceMultiOutputVariadicAnd": and_with_sum,
    "VariadicReduceDifferentLayout": different_layouts,
}

CASES = (
    *sums(),
    *predicates(),
    *(Case(n, p, "reduce", "f32", TAGS, inputs=POSITIVE) for n, p in PRODUCERS.items()),
    *small(),
    *vectorized(),
    *initial(),
    Case("HandleReductionToVectorAndOtherReduction", DIAGONAL, "reduce", "f32", TAGS),
    Case("ReduceAtomicF16", ATOMIC, "reduce", "f16", TAGS, inputs=ordinary),
    Case("ReduceWithEpilogueMultiOutputFusion", EPILOGUE, "reduce", "f32", TAGS, inputs=POSITIVE),
    *(Case(n, p, "reduce", "f32", (*TAGS, "variadic")) for n, p in VARIADIC.items()),
)
