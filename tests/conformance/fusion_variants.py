"""Fusions under the names by which they are known: what is fused, with how many results.

The computations come fused already, so a backend that fuses must take them as they are, and one
that does not must open them. What is varied is what XLA's own suites of the same names vary.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import SliceDim, WindowDim
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.literal import Array
from xladev.hlo.shape import Layout, Shape, array, tuple_of
from xladev.testing.conformance.case import Build, Case, cuttable, given, ordinary
from xladev.testing.conformance.cells import Node, combine

Body = Callable[..., Node]
Dims = tuple[int, ...]
F: Any = np.float32
INT: Any = np.int32


def fused(shapes: Sequence[Shape], body: Body, kind: str = "kLoop") -> Build:
    """A fusion of parameters of these shapes; the body gets a builder and its parameters."""

    def build(b: HloBuilder) -> Node:
        inner = HloBuilder("fused")
        made = inner.build(body(inner, *(inner.parameter(s) for s in shapes)))
        return b.op("fusion", *(b.parameter(s) for s in shapes), calls=made, kind=kind)

    return build


def f32(*dims: int) -> Shape:
    return array(dt.F32, dims)


def s32(*dims: int) -> Shape:
    return array(dt.S32, dims)


def spread(b: HloBuilder, value: Node, dims: Dims, at: Dims = ()) -> Node:
    return b.op("broadcast", value, shape=array(value.shape.element_type, dims), dimensions=at)


def total(b: HloBuilder, x: Node, dims: Dims, opcode: str = "add", init: object = 0) -> Node:
    dtype = x.shape.element_type
    start = b.constant(np.asarray(init).astype(dtype.np), dtype)
    return b.op("reduce", x, start, dimensions=dims, to_apply=combine(opcode, dtype))


def mixed(b: HloBuilder) -> Node:
    """Thirteen instructions of constants."""
    first, second = b.constant(F([[1.5], [1.72]])), b.constant(F([[-1], [1]]))
    row = b.op("transpose", b.op("add", first, second), dimensions=(1, 0))
    longer = b.op("concatenate", row, b.constant(F([[7, 8]])), dimensions=(1,))
    minus = b.op("negate", b.op("negate", longer))
    keep = b.constant(np.array([[True, True, False, True]]))
    chosen = b.op("select", keep, minus, b.constant(F([[0, 0, 0, 0]])))
    cut = b.op("slice", chosen, slice=(SliceDim(0, 1), SliceDim(0, 2)))
    return b.op("reshape", cut, shape=f32(2, 1))


def beside_a_copy(b: HloBuilder) -> Node:
    """A fusion of a copy made outside of it."""
    x = b.parameter(f32(1, 3))
    outside = b.op("copy", x)
    inner = HloBuilder("fused")
    made = inner.op("add", inner.parameter(f32(1, 3)), inner.constant(F([[-2, -3, -4]])))
    return b.op("fusion", outside, calls=inner.build(made), kind="kLoop")


def fours(factor: int) -> Case:
    sizes = (777, 1024 // factor)

    def four(b: HloBuilder) -> Node:
        two = spread(b, b.constant(2.0, dt.F32), sizes)
        return b.op("multiply", two, two)

    return fusion_case("RandomizedParallelPartition", fused((), four), (), np.full(sizes, 4, F))


def reshape(*dims: int) -> Body:
    return lambda b, x: b.op("reshape", x, shape=s32(*dims))


def then_negate(body: Body) -> Body:
    return lambda b, *x: b.op("negate", body(b, *x))


def transpose(b: HloBuilder, x: Node) -> Node:
    return b.op("transpose", x, dimensions=(1, 0))


def reverse(b: HloBuilder, x: Node) -> Node:
    return b.op("reverse", x, dimensions=(0,))


def every_other(b: HloBuilder, x: Node) -> Node:
    return b.op("slice", x, slice=(SliceDim(0, 4, 2),))


def two_from_one(b: HloBuilder, x: Node) -> Node:
    return b.op("dynamic-slice", x, b.constant(1, dt.S32), dynamic_slice_sizes=(2,))


def into_addition(b: HloBuilder, row: Node, whole: Node) -> Node:
    return b.op("add", spread(b, row, (2, 3), (1,)), whole)


def negated_spread(b: HloBuilder, x: Node) -> Node:
    return b.op("negate", spread(b, x, (2,)))


def counted(b: HloBuilder) -> Node:
    return total(b, b.op("iota", shape=s32(32), iota_dimension=0), (0,))


def minus_total(b: HloBuilder, x: Node) -> Node:
    return b.op("negate", total(b, x, (0,)))


def window_products(b: HloBuilder, x: Node) -> Node:
    window = (WindowDim(2), WindowDim(2))
    return b.op("reduce-window", x, b.constant(1, dt.S32), window=window,
                to_apply=combine("multiply", dt.S32))  # fmt: skip


def shared_constant(b: HloBuilder, x: Node) -> Node:
    one = b.constant(F([0]))
    for _ in range(4):
        x = b.op("add", one, x)
    return x


def fibonacci(b: HloBuilder, x: Node, y: Node) -> Node:
    for _ in range(35):
        x, y = y, b.op("add", x, y)
    return y


NINE = np.array([[2, 3, 5], [7, 11, 13], [17, 19, 23]], np.int32)
PLAIN: dict[str, tuple[Build, Sequence[Array] | None, Array | None]] = {
    "FusionTest": (fused((), mixed), (), F([[0.5], [2.72]])),
    "FusionParameter": (beside_a_copy, [F([[1, 2, 3]])], F([[-1, -1, -1]])),
    "BroadcastIntoBinaryOp": (
        fused((f32(3), f32(2, 3)), into_addition), [F([1, -2, 3]), F([[-1, 0, 4], [6, 5, 4]])],
        F([[0, -2, 7], [7, 3, 7]]),
    ),
    "BroadcastNegate": (fused((s32(),), negated_spread), [INT(1)], INT([-1, -1])),
    "ReshapeToScalar": (fused((s32(1, 1),), reshape()), [INT([[5]])], INT(5)),
    "Reshape_3by2_1by2by3": (fused((s32(3, 2),), reshape(1, 2, 3)), None, None),
    "Reshape_1by2by3_3by2": (fused((s32(1, 2, 3),), reshape(3, 2)), None, None),
    "Reshape_1by1by1_": (fused((s32(1, 1, 1),), reshape()), None, None),
    "Reshape__1by1by1": (fused((s32(),), reshape(1, 1, 1)), None, None),
    "Reshape__": (fused((s32(),), reshape()), None, None),
    "Reshape_3by3_3by3": (fused((s32(3, 3),), reshape(3, 3)), None, None),
    "ReshapeNegate": (
        fused((s32(4),), then_negate(reshape(2, 2))), [INT([1, 2, 3, 4])],
        INT([[-1, -2], [-3, -4]]),
    ),
    "Transpose_2by3": (fused((s32(2, 3),), transpose), None, None),
    "Transpose_3by3": (fused((s32(3, 3),), transpose), None, None),
    "TransposeNegate": (
        fused((s32(2, 2),), then_negate(transpose)), [INT([[1, 2], [3, 4]])],
        INT([[-1, -3], [-2, -4]]),
    ),
    "Reverse": (fused((s32(3),), reverse), [INT([1, 2, 3])], INT([3, 2, 1])),
    "ReverseNegate": (
        fused((s32(3),), then_negate(reverse)), [INT([1, 2, 3])], INT([-3, -2, -1])
    ),
    "SliceNegate": (
        fused((s32(4),), then_negate(every_other)), [INT([1, 2, 3, 4])], INT([-1, -3])
    ),
    "DynamicSliceNegate": (
        fused((s32(4),), then_negate(two_from_one)), [INT([1, 2, 3, 4])], INT([-2, -3])
    ),
    "FusionReduce": (fused((), counted, "kInput"), (), INT(496)),
    "ReduceImplicitBroadcast": (
        fused((s32(4),), minus_total), [INT([1, 2, 4, 8])], INT(-15)
    ),
    "FusionReduceWindow": (
        fused((s32(3, 3),), window_products), [NINE], INT([[462, 2145], [24871, 62491]])
    ),
    "SharedConstant": (fused((f32(1),), shared_constant), [F([0])], F([0])),
    "Fibonacci": (fused((f32(5), f32(5)), fibonacci), [np.ones(5, F), np.ones(5, F)],
                  np.full(5, 24157817, F)),
}  # fmt: skip

ELEMENTWISE = {
    "Add2D": "add", "Subtract2D": "subtract", "Multiply2D": "multiply", "Divide2D": "divide",
    "Power2D": "power", "Minimum2D": "minimum", "Maximum2D": "maximum",
}  # fmt: skip
COMPARISONS = {"Equal2D": "EQ", "Inequal2D": "NE", "Greater2D": "GT", "Lesser2D": "LT",
               "GreaterOrEqual2D": "GE", "LesserOrEqual2D": "LE"}  # fmt: skip


def elementwise() -> Iterator[Case]:
    x = F([[-3, -2, -1], [0, 1, 2]])
    y = F([[2, -2, 1], [-1, 2, -3]])
    for name, opcode in ELEMENTWISE.items():
        row = [np.abs(x), y] if opcode == "power" else [x, y]
        program = fused((f32(2, 3),) * 2, lambda b, p, q, o=opcode: b.op(o, p, q))
        yield fusion_case(name, program, inputs=row)
    for name, direction in COMPARISONS.items():
        program = fused(
            (f32(2, 3),) * 2, lambda b, p, q, d=direction: b.op("compare", p, q, direction=d)
        )
        yield fusion_case(name, program, inputs=[x, y])
    program = fused((f32(2, 3),) * 3, lambda b, p, q, r: b.op("clamp", p, q, r))
    yield fusion_case("Clamp2D", program, inputs=[x - 1, y, x + 1])


def fusion_case(
    name: str, program: Build, inputs: Sequence[Array] | None = None, want: Array | None = None
) -> Case:
    return Case(
        name, program, "fusion", "f32", ("fusion",), tier=3,
        inputs=ordinary if inputs is None else given(inputs),
        expected=None if want is None else (np.asarray(want),),
    )  # fmt: skip


def many_layouts(b: HloBuilder) -> Node:
    """P0 + the sum over i of P0 * Pi * Pi, with alternating layouts."""
    shapes = [array(dt.U32, (32, 32), layout=Layout((n % 2, 1 - n % 2))) for n in range(25)]
    values = [b.parameter(shape) for shape in shapes]
    whole = values[0]
    for value in values[1:]:
        squared = b.op("multiply", b.op("multiply", values[0], value), value)
        whole = b.op("add", whole, squared)
    return whole


def diamond(b: HloBuilder) -> Node:
    """A transpose used twice, once directly and once through another one."""
    x = b.parameter(array(dt.F64, (16, 16)))
    turned = b.op("transpose", x, dimensions=(1, 0))
    back = b.op("transpose", b.op("negate", turned), dimensions=(1, 0))
    return b.op("add", b.op("add", turned, back), x)


def chain(size: int, dtype: PrimitiveType = dt.F32, other: PrimitiveType | None = None) -> Build:
    """A matrix product of two values that one fusion could give together."""

    def build(b: HloBuilder) -> Node:
        shape = array(dtype, (size, size))
        x = b.parameter(array(other or dtype, (size, size)))
        y = b.parameter(shape)
        same = x if other is None else b.op("convert", x, shape=shape)
        added, taken = b.op("add", same, y), b.op("subtract", same, y)
        return b.op("dot", added, taken, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))

    return build


def several(*results: Body, sizes: Dims = (33, 65), kind: str = "kLoop") -> Build:
    """One fusion with several results of one array."""
    shape = f32(*sizes)
    return fused((shape,), lambda b, x: b.op("tuple", *(r(b, x) for r in results)), kind)


def op(opcode: str) -> Body:
    return lambda b, x: b.op(opcode, x)


def summed(dims: Dims, opcode: str = "add", init: object = 0) -> Body:
    return lambda b, x: total(b, x, dims, opcode, init)


def reshaped(b: HloBuilder, x: Node) -> Node:
    return b.op("negate", b.op("reshape", x, shape=f32(65 * 33)))


def feeding_map(b: HloBuilder, x: Node) -> Node:
    inner = HloBuilder("squared")
    scalar = inner.parameter(f32())
    body = inner.build(inner.op("multiply", scalar, scalar))
    return b.op("map", b.op("negate", x), dimensions=(0, 1), to_apply=body)


def variable_init(b: HloBuilder) -> Node:
    """Two reductions of one array, one of which starts at a parameter."""
    inner = HloBuilder("fused")
    x, init = inner.parameter(f32(9, 33)), inner.parameter(f32())
    first = inner.op("reduce", x, init, dimensions=(1,), to_apply=combine("add", dt.F32))
    second = total(inner, x, (1,), "maximum", -np.inf)
    body = inner.build(inner.op("tuple", first, second))
    return b.op("fusion", b.parameter(f32(9, 33)), b.parameter(f32()), calls=body, kind="kInput")


def of_two_types(b: HloBuilder, x: Node) -> Node:
    return total(b, b.op("convert", x, shape=array(dt.F64, x.shape.dims)), (0,))


def epilogue(b: HloBuilder, x: Node) -> Node:
    return b.op("negate", total(b, x, (1,)))


ROWS, COLUMNS, ALL = summed((1,)), summed((0,)), summed((0, 1))
MULTI_OUTPUT: dict[str, Build] = {
    "2DNofusion": chain(5),
    "2DFusion": chain(32),
    "2DFusionSize129": chain(129),
    "DifferentTypesNoFusion": chain(8, dt.F32, dt.F16),
    "DifferentTypesFusion": chain(32, dt.F32, dt.F16),
    "MultiOutputLoopFusion": several(op("negate"), op("cosine")),
    "MultiOutputLoopFusionBitcastCompatibleShapes": several(op("negate"), reshaped),
    "MultiOutputLoopFeedingMap": several(op("negate"), feeding_map),
    "MultiOutputReduceFusionMinor": several(ROWS, summed((1,), "maximum", -np.inf), kind="kInput"),
    "MultiOutputReduceFusionMajor": several(
        COLUMNS, summed((0,), "minimum", np.inf), kind="kInput"
    ),
    "MultiOutputReduceFusionScalar": several(
        ALL, summed((0, 1), "maximum", -np.inf), kind="kInput"
    ),
    "MultiOutputReduceFusionMinorWithExtraOutput": several(ROWS, op("negate"), kind="kInput"),
    "MultiOutputReduceFusionMajorWithExtraOutput": several(COLUMNS, op("negate"), kind="kInput"),
    "MultiOutputReduceFusionScalarWithExtraOutput": several(ALL, op("negate"), kind="kInput"),
    "MultiOutputReduceNonConstInit": variable_init,
    "MultiOutputReduceDifferentElementTypes": several(COLUMNS, of_two_types, kind="kInput"),
    "MultiOutputReduceCanonicalizationIsSame": several(ROWS, op("negate"), ROWS, kind="kInput"),
    "MultiOutputReduceGeneralBitcastCompatible": several(COLUMNS, reshaped, kind="kInput"),
    "MultiOutputReduceWithEpilogue": several(epilogue, op("abs"), kind="kInput"),
}


def marked(target: str, dims: Dims = (9, 17)) -> Body:
    return lambda b, x: b.op("custom-call", x, shape=x.shape, custom_call_target=target)


def custom(target: str, dtype: PrimitiveType) -> Build:
    return lambda b: marked(target)(b, b.parameter(array(dtype, (9, 17))))


def top_k(b: HloBuilder) -> Node:
    shape = tuple_of(f32(5, 4), s32(5, 4))
    return b.op("custom-call", b.parameter(f32(5, 17)), shape=shape, custom_call_target="TopK")


FUNCTIONS = ("mhlo.erf", "chlo.tan", "mhlo.asinh", "chlo.acosh", "mhlo.cosh", "chlo.logistic")
MARKERS = ("Sharding", "LayoutConstraint", "MoveToDevice", "xla.sdy.PropagationBarrier")


def custom_calls() -> Iterator[Case]:
    for target in (*FUNCTIONS, *MARKERS):
        for dtype in (dt.F32, dt.F64, dt.BF16):
            yield Case(f"custom-call-{target}-{dtype}", custom(target, dtype), "custom-call",
                       dtype.name)  # fmt: skip
    yield Case("custom-call-TopK", top_k, "custom-call", "f32")


DOMAIN = """HloModule domain
ENTRY e { x = f32[9] parameter(0)
  n = f32[9] negate(x)
  ROOT r = f32[9] domain(n),
    domain={kind="sharding", entry={maximal device=0}, exit={maximal device=1}} }"""

CASES = (
    *(fusion_case(n, p, i, w) for n, (p, i, w) in PLAIN.items()),
    cuttable(fours),
    *elementwise(),
    Case("ManyLayoutTransformations", many_layouts, "fusion", "u32", ("fusion", "layout"), tier=3),
    Case("TransposeDiamondWithNonTrivialBranch", diamond, "fusion", "f64", ("fusion",), tier=3),
    *(fusion_case(n, p) for n, p in MULTI_OUTPUT.items()),
    *custom_calls(),
    Case("domain", DOMAIN, "domain", "f32"),
)
