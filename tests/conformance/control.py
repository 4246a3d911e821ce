"""Control flow: while, conditional, call and fusion, nested, with every kind of state.

The bodies hold what the SDK must split where a backend refuses a part: a refused instruction in a
loop must not send the loop to the host.
"""

from collections.abc import Iterator

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation
from xladev.hlo.shape import Shape, array, tuple_of
from xladev.testing.conformance.case import Build, Case, given
from xladev.testing.conformance.cells import Node, Template, cells, of_type, scalar_computation

SIZES = (5, 9)


def counts_to(state: Shape, iterations: int) -> HloComputation:
    b = HloBuilder("condition")
    at = b.op("get-tuple-element", b.parameter(state), index=0)
    return b.build(b.op("compare", at, b.constant(iterations, dt.S32), direction="LT"))


def loop(iterations: int) -> Template:
    """(i, x, y) becomes (i + 1, y, x reversed) so often."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        shape = array(dtype, SIZES)
        state = tuple_of(array(dt.S32), shape, shape)
        body = HloBuilder("body")
        whole = body.parameter(state)
        i, x, y = (body.op("get-tuple-element", whole, index=n) for n in range(3))
        following = body.op("add", i, body.constant(1, dt.S32))
        turned = body.op("reverse", x, dimensions=(1,))
        made = body.build(body.op("tuple", following, y, turned))
        start = b.op("tuple", b.constant(0, dt.S32), b.parameter(shape), b.parameter(shape))
        return b.op("while", start, condition=counts_to(state, iterations), body=made)

    return template


def branch(opcode: str, shape: Shape) -> HloComputation:
    b = HloBuilder(opcode)
    x = b.parameter(shape)
    return b.build(b.op(opcode, x, dimensions=(0,)) if opcode == "reverse" else b.op(opcode, x))


def by_truth(b: HloBuilder, dtype: PrimitiveType) -> Node:
    shape = array(dtype, SIZES)
    p, x, y = b.parameter(array(dt.PRED)), b.parameter(shape), b.parameter(shape)
    return b.op("conditional", p, x, y, true_computation=branch("reverse", shape),
                false_computation=branch("copy", shape))  # fmt: skip


def by_index(count: int) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        shape = array(dtype, SIZES)
        chosen = b.parameter(array(dt.S32))
        branches = [branch("copy" if n % 2 else "reverse", shape) for n in range(count)]
        operands = [b.parameter(shape) for _ in range(count)]
        return b.op("conditional", chosen, *operands, branch_computations=tuple(branches))

    return template


def called(opcode: str) -> Template:
    """A computation of two arrays that gives a tuple."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        shape = array(dtype, SIZES)
        inner = HloBuilder("inner")
        x, y = inner.parameter(shape), inner.parameter(shape)
        chosen = inner.op("select", inner.op("compare", x, y, direction="EQ"), x, y)
        body = inner.build(inner.op("tuple", chosen, inner.op("reverse", x, dimensions=(0,))))
        attrs = {"to_apply": body} if opcode == "call" else {"calls": body, "kind": "kLoop"}
        return b.op(opcode, b.parameter(shape), b.parameter(shape), **attrs)

    return template


def selections() -> Iterator[Case]:
    x, y = (np.arange(45, dtype=np.float32).reshape(SIZES) * s for s in (1, -1))
    for value in (True, False):
        yield Case(
            f"conditional-{value}", lambda b: by_truth(b, dt.F32), "conditional", "f32",
            inputs=given([np.bool_(value), x, y]), expected=(x[::-1] if value else y,),
        )  # fmt: skip
    three = [x + n for n in range(3)]
    for index in (0, 1, 2, 3, -1, 2**31 - 1):
        at = index if 0 <= index < 3 else 2
        want = three[at] if at % 2 else three[at][::-1]
        name = f"conditional-branch-{index}".replace("--", "-minus-")
        yield Case(
            name, lambda b: by_index(3)(b, dt.F32), "conditional", "f32",
            inputs=given([np.int32(index), *three]), expected=(want,),
        )  # fmt: skip
    yield from cells("conditional", by_index(1), types=(dt.F32,), suffix="-one-branch")
    yield from cells("conditional", by_index(17), types=(dt.F32,), suffix="-seventeen-branches")


def iterations() -> Iterator[Case]:
    for count in (0, 1, 2, 7, 100):
        yield from cells("while", loop(count), types=(dt.F32, dt.S32), suffix=f"-{count}-turns")


def up_to_a_parameter(b: HloBuilder) -> Node:
    """(i, x) becomes (i + 1, x reversed) while i is below a limit that only the run knows."""
    shape = array(dt.F32, SIZES)
    state = tuple_of(array(dt.S32), array(dt.S32), shape)
    below = HloBuilder("condition")
    whole = below.parameter(state)
    i, limit = (below.op("get-tuple-element", whole, index=n) for n in range(2))
    condition = below.build(below.op("compare", i, limit, direction="LT"))
    body = HloBuilder("body")
    whole = body.parameter(state)
    i, limit, x = (body.op("get-tuple-element", whole, index=n) for n in range(3))
    following = body.op("add", i, body.constant(1, dt.S32))
    turn = body.build(body.op("tuple", following, limit, body.op("reverse", x, dimensions=(1,))))
    start = b.op("tuple", b.constant(0, dt.S32), b.parameter(array(dt.S32)), b.parameter(shape))
    return b.op("while", start, condition=condition, body=turn)


def limited_turns() -> Iterator[Case]:
    x = np.arange(45, dtype=np.float32).reshape(SIZES)
    for limit in (-1, 0, 1, 4):
        count = max(limit, 0)
        want = (np.int32(count), np.int32(limit), x[:, ::-1] if count % 2 else x)
        yield Case(
            f"while-to-limit-{limit}".replace("--", "-minus-"), up_to_a_parameter, "while", "f32",
            inputs=given([np.int32(limit), x]), expected=want,
        )  # fmt: skip


NEWTON = """HloModule newton
turn { state = (f32[], f32[], s32[]) parameter(0)
  x = f32[] get-tuple-element(state), index=0
  a = f32[] get-tuple-element(state), index=1
  i = s32[] get-tuple-element(state), index=2
  q = f32[] divide(a, x)
  s = f32[] add(x, q)
  half = f32[] constant(0.5)
  h = f32[] multiply(s, half)
  one = s32[] constant(1)
  n = s32[] add(i, one)
  ROOT t = (f32[], f32[], s32[]) tuple(h, a, n) }
on { state = (f32[], f32[], s32[]) parameter(0)
  x = f32[] get-tuple-element(state), index=0
  a = f32[] get-tuple-element(state), index=1
  i = s32[] get-tuple-element(state), index=2
  xx = f32[] multiply(x, x)
  d = f32[] subtract(xx, a)
  m = f32[] abs(d)
  eps = f32[] constant(0.001)
  far = pred[] compare(m, eps), direction=GT
  most = s32[] constant(50)
  few = pred[] compare(i, most), direction=LT
  ROOT r = pred[] and(far, few) }
ENTRY e { a = f32[] parameter(0)
  one = f32[] constant(1)
  zero = s32[] constant(0)
  start = (f32[], f32[], s32[]) tuple(one, a, zero)
  w = (f32[], f32[], s32[]) while(start), condition=on, body=turn
  ROOT r = f32[] get-tuple-element(w), index=0 }"""
NESTED = """HloModule nested
inner_turn { s = (s32[], f32[8,3]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,3]{1,0} get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  zero = s32[] constant(0)
  row = f32[1,3]{1,0} dynamic-slice(x, i, zero), dynamic_slice_sizes={1,3}
  twice = f32[1,3]{1,0} add(row, row)
  y = f32[8,3]{1,0} dynamic-update-slice(x, twice, i, zero)
  ROOT t = (s32[], f32[8,3]{1,0}) tuple(n, y) }
inner_on { s = (s32[], f32[8,3]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  m = s32[] constant(8)
  ROOT c = pred[] compare(i, m), direction=LT }
outer_turn { s = (s32[], f32[8,3]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,3]{1,0} get-tuple-element(s), index=1
  zero = s32[] constant(0)
  start = (s32[], f32[8,3]{1,0}) tuple(zero, x)
  w = (s32[], f32[8,3]{1,0}) while(start), condition=inner_on, body=inner_turn
  y = f32[8,3]{1,0} get-tuple-element(w), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  ROOT t = (s32[], f32[8,3]{1,0}) tuple(n, y) }
outer_on { s = (s32[], f32[8,3]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  m = s32[] constant(3)
  ROOT c = pred[] compare(i, m), direction=LT }
ENTRY e { x = f32[8,3]{1,0} parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[8,3]{1,0}) tuple(zero, x)
  w = (s32[], f32[8,3]{1,0}) while(start), condition=outer_on, body=outer_turn
  ROOT r = f32[8,3]{1,0} get-tuple-element(w), index=1 }"""
BRANCH_IN_LOOP = """HloModule branch_in_loop
up { x = f32[6]{0} parameter(0)
  one = f32[] constant(1)
  ones = f32[6]{0} broadcast(one), dimensions={}
  ROOT y = f32[6]{0} add(x, ones) }
down { x = f32[6]{0} parameter(0)
  ROOT y = f32[6]{0} negate(x) }
turn { s = (s32[], f32[6]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[6]{0} get-tuple-element(s), index=1
  one = s32[] constant(1)
  odd = s32[] and(i, one)
  y = f32[6]{0} conditional(odd, x, x), branch_computations={up, down}
  n = s32[] add(i, one)
  ROOT t = (s32[], f32[6]{0}) tuple(n, y) }
on { s = (s32[], f32[6]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  m = s32[] constant(5)
  ROOT c = pred[] compare(i, m), direction=LT }
ENTRY e { x = f32[6]{0} parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[6]{0}) tuple(zero, x)
  ROOT w = (s32[], f32[6]{0}) while(start), condition=on, body=turn }"""
SCANNED = """HloModule scanned
turn { s = (s32[], f32[4,3]{1,0}, f32[7,4]{1,0}, f32[7,3]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  w = f32[4,3]{1,0} get-tuple-element(s), index=1
  xs = f32[7,4]{1,0} get-tuple-element(s), index=2
  ys = f32[7,3]{1,0} get-tuple-element(s), index=3
  zero = s32[] constant(0)
  x = f32[1,4]{1,0} dynamic-slice(xs, i, zero), dynamic_slice_sizes={1,4}
  p = f32[1,3]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  h = f32[1,3]{1,0} tanh(p)
  ys2 = f32[7,3]{1,0} dynamic-update-slice(ys, h, i, zero)
  one = s32[] constant(1)
  n = s32[] add(i, one)
  ROOT t = (s32[], f32[4,3]{1,0}, f32[7,4]{1,0}, f32[7,3]{1,0}) tuple(n, w, xs, ys2) }
on { s = (s32[], f32[4,3]{1,0}, f32[7,4]{1,0}, f32[7,3]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  m = s32[] constant(7)
  ROOT c = pred[] compare(i, m), direction=LT }
ENTRY e { w = f32[4,3]{1,0} parameter(0)
  xs = f32[7,4]{1,0} parameter(1)
  zero = s32[] constant(0)
  z = f32[] constant(0)
  ys = f32[7,3]{1,0} broadcast(z), dimensions={}
  start = (s32[], f32[4,3]{1,0}, f32[7,4]{1,0}, f32[7,3]{1,0}) tuple(zero, w, xs, ys)
  l = (s32[], f32[4,3]{1,0}, f32[7,4]{1,0}, f32[7,3]{1,0}) while(start), condition=on, body=turn
  ROOT r = f32[7,3]{1,0} get-tuple-element(l), index=3 }"""


def deep_calls(b: HloBuilder) -> Node:
    """Twenty calls within calls."""
    shape = array(dt.F32, (9,))
    body = branch("negate", shape)
    for depth in range(20):
        outer = HloBuilder(f"depth{depth}")
        made = outer.op("call", outer.parameter(shape), to_apply=body)
        body = outer.build(outer.op("add", made, made) if depth % 7 == 0 else made)
    return b.op("call", b.parameter(shape), to_apply=body)


def shared_callee(b: HloBuilder) -> Node:
    """One computation called from two places with different arguments."""
    shape = array(dt.F32, (9,))
    body = scalar_computation(lambda b, x, y: b.op("atan2", x, y), (dt.F32,) * 2, "angle")
    x, y = b.parameter(shape), b.parameter(shape)
    first = b.op("map", x, y, dimensions=(0,), to_apply=body)
    return b.op("map", first, x, dimensions=(0,), to_apply=body)


TEXTS = {
    "newton": (NEWTON, "while"), "nested-loops": (NESTED, "while"),
    "branch-in-loop": (BRANCH_IN_LOOP, "while"), "scan-with-dot": (SCANNED, "while"),
}  # fmt: skip


def choosing(dtype: PrimitiveType, count: int) -> HloComputation:
    """Of three scalars: a conditional on the first of them, by truth or by number."""
    b = HloBuilder("choosing")
    selector, x, y = (b.parameter(array(t)) for t in (dt.S32, dtype, dtype))
    called = []
    for opcode in ("negate", "copy", "abs", "sign", "ceil")[:count]:
        inner = HloBuilder(opcode)
        called.append(inner.build(inner.op(opcode, inner.parameter(array(dtype)))))
    if count == 2:
        truth = b.op("compare", selector, b.constant(1, dt.S32), direction="LT")
        return b.build(b.op("conditional", truth, x, y, true_computation=called[0],
                            false_computation=called[1]))  # fmt: skip
    operands = [x if n % 2 else y for n in range(count)]
    return b.build(b.op("conditional", selector, *operands, branch_computations=tuple(called)))


def chosen_by_element(count: int) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        operands = [b.parameter(array(t, (33,))) for t in (dt.S32, dtype, dtype)]
        return b.op("map", *operands, dimensions=(0,), to_apply=choosing(dtype, count))

    return template


def element_choices() -> Iterator[Case]:
    """Conditionals on single elements; a number out of range takes the last branch."""
    selectors = np.arange(33, dtype=np.int32) - 9
    x = np.linspace(-2, 2, 33, dtype=np.float32)
    for count in (2, 3, 5):
        yield Case(
            f"map-of-conditional-{count}", of_type(chosen_by_element(count), dt.F32),
            "conditional", "f32", inputs=given([selectors, x, x[::-1] * 3]),
        )  # fmt: skip


def greater(numbers: tuple[int, int, int]) -> HloComputation:
    """The greater of two, by a conditional: these branch numbers where less, equal, greater."""
    b = HloBuilder("greater")
    scalar = array(dt.F32)
    x, y = b.parameter(scalar), b.parameter(scalar)
    less, equal, more = (b.constant(n, dt.S32) for n in numbers)
    either = b.op("select", b.op("compare", x, y, direction="LT"), less, equal)
    number = b.op("select", b.op("compare", x, y, direction="GT"), more, either)
    branches = tuple(branch("copy", scalar) for _ in range(4))
    return b.build(b.op("conditional", number, x, y, x, y, branch_computations=branches))


def reduced_by_choice(numbers: tuple[int, int, int]) -> Build:
    def build(b: HloBuilder) -> Node:
        x, init = b.parameter(array(dt.F32, (7, 33))), b.parameter(array(dt.F32))
        return b.op("reduce", x, init, dimensions=(1,), to_apply=greater(numbers))

    return build


def by_truth_alone(b: HloBuilder) -> Node:
    scalar = array(dt.F32)
    inner = HloBuilder("greater")
    x, y = inner.parameter(scalar), inner.parameter(scalar)
    p = inner.op("compare", x, y, direction="GT")
    body = inner.build(inner.op("conditional", p, x, y, true_computation=branch("copy", scalar),
                                false_computation=branch("copy", scalar)))  # fmt: skip
    x, init = b.parameter(array(dt.F32, (7, 33))), b.parameter(scalar)
    return b.op("reduce", x, init, dimensions=(1,), to_apply=body)


def choices_of_reducers() -> Iterator[Case]:
    """Conditionals within a reducer; numbers out of range mean the last branch."""
    yield Case("reduce-by-conditional-truth", by_truth_alone, "conditional", "f32")
    yield Case("reduce-by-conditional-truth-unchanged", by_truth_alone, "conditional", "f32",
               options=("optimization_level=0",))  # fmt: skip
    for numbers in ((1, 0, 2), (3, 1, 0), (-7, 99, 2)):
        name = "reduce-by-conditional" + "".join(f"-{n}" for n in numbers).replace("--", "-minus-")
        yield Case(name, reduced_by_choice(numbers), "conditional", "f32")
        yield Case(f"{name}-unchanged", reduced_by_choice(numbers), "conditional", "f32",
                   options=("optimization_level=0",))  # fmt: skip


CASES = (
    *cells("while", loop(3)),
    *iterations(),
    *limited_turns(),
    *cells("conditional", by_truth),
    *cells("conditional", by_index(3), suffix="-of-three", types=(dt.F32, dt.S8, dt.PRED)),
    *selections(),
    *element_choices(),
    *choices_of_reducers(),
    *cells("call", called("call")),
    *cells("fusion", called("fusion"), tier=3),
    Case("call-depth-20", deep_calls, "call", "f32"),
    Case("shared-callee", shared_callee, "map", "f32"),
    *(
        Case(name, text, opcode, "f32", inputs=given([np.float32(37.0)]))
        if name == "newton"
        else Case(name, text, opcode, "f32")
        for name, (text, opcode) in TEXTS.items()
    ),
)
