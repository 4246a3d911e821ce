"""Recipes for control flow: loops, branches, calls, fusions, scans, whose bodies are random too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import Sharding
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import ARRAY_TYPES, FLOATS, INTEGERS
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import Shape, array, tuple_of
from xladev.testing.draw import Dims, Draw, Recipe
from xladev.testing.recipes.elementwise import ELEMENTWISE
from xladev.testing.recipes.movement import MOVEMENT

Node = HloInstruction

_MOST_DEPTH = 2
_SIMPLE = (*ELEMENTWISE, *MOVEMENT, "reduce", "dot", "map")
_NESTING = ("while", "conditional", "call", "fusion", "sort", "reduce-window", "tuple")


def _opcodes(d: Draw) -> Sequence[str]:
    return (*_SIMPLE, *_NESTING, *_NESTING) if d.depth < _MOST_DEPTH else _SIMPLE


def _given(d: Draw, outer: Draw, values: Sequence[Node]) -> list[Node]:
    """One parameter of ``d`` per value of the computation around it."""
    made: list[Node] = []
    for value in values:
        parameter = d.parameter(value.shape.without_layout())
        if value in outer.inexact:
            d.inexact.add(parameter)
        made.append(parameter)
    return made


def _newest(d: Draw, shape: Shape) -> Node:
    """A value of this shape, one made late more often than not; a constant if there is none."""
    same = [v for v in d.values if v.shape.equal_ignoring_layout(shape) and v.opcode != "broadcast"]
    if not same:
        return d.constant(shape.element_type, shape.dims)
    found: Node = same[-1] if d.chance(0.6) else d.pick(same)
    return found


def _states(d: Draw) -> list[Node]:
    """Arrays for a loop to carry: some of equal shape, so that they can change places."""
    x = d.any_value(ARRAY_TYPES)
    made = [x, d.value(x.shape.element_type, x.shape.dims, fresh=0.2)]
    for _ in range(d.integer(0, 2)):
        made.append(d.any_value(ARRAY_TYPES) if d.chance(0.5) else d.pick(made))
    return made


def _while(d: Draw) -> Node:
    """Counts to a few; the state's arrays are changed, swapped, passed on, updated in part."""
    initial = _states(d)
    counter = array(dt.S32)
    shapes = [v.shape.without_layout() for v in initial]
    at = d.integer(0, len(shapes))
    state = tuple_of(*shapes[:at], counter, *shapes[at:])
    body = d.inside("body")
    whole = body.builder.parameter(state)
    parts = body.take_apart(whole)
    body.inexact.update(p for p in parts if p.shape.element_type.is_float)
    body.inexact.update(p for p in parts if p.shape.element_type.is_complex)
    _loop_steps(body, parts, parts[at])
    following = body.builder.op("add", parts[at], body.builder.constant(1, dt.S32))
    results = [_newest(body, shape) for shape in shapes]
    root = body.builder.op("tuple", *results[:at], following, *results[at:])
    start = d.builder.op("tuple", *initial[:at], d.builder.constant(0, dt.S32), *initial[at:])
    condition = _counts_to(d, state, at, d.integer(0, 5))
    made = d.builder.op("while", start, condition=condition, body=body.builder.build(root))
    return _loop_result(d, made, body, at)


def _counts_to(d: Draw, state: Shape, at: int, iterations: int) -> HloComputation:
    def condition(b: HloBuilder) -> Node:
        i = b.op("get-tuple-element", b.parameter(state), index=at)
        return b.op("compare", i, b.constant(iterations, dt.S32), direction="LT")

    return d.computation(condition, "condition")


def _loop_steps(body: Draw, parts: Sequence[Node], counter: Node) -> None:
    """Updates of slices at the counter, as scans make them, and whatever else."""
    for part in parts:
        rank = part.shape.rank
        if rank and part.shape.size and body.chance(0.5):
            zero = body.builder.constant(0, dt.S32)
            starts = [counter, *[zero] * (rank - 1)]
            sizes: Dims = (1, *part.shape.dims[1:])
            row = body.op("dynamic-slice", part, *starts, dynamic_slice_sizes=sizes)
            new = body.op("add", row, row) if body.chance(0.5) else _newest(body, row.shape)
            body.op("dynamic-update-slice", part, new, *starts)
    body.steps(body.integer(0, 4), _opcodes(body))


def _loop_result(d: Draw, made: Node, body: Draw, counter: int) -> Node:
    """Takes the loop's state apart; the result is one of its arrays or all of it."""
    parts = d.take_apart(made)
    for number, part in enumerate(parts):
        exact = part.shape.element_type.is_integral or part.shape.element_type is dt.PRED
        if number != counter and not (exact and not body.inexact):
            d.inexact.add(part)
    if d.chance(0.3):
        return made
    found: Node = d.pick([p for n, p in enumerate(parts) if n != counter])
    return found


def _branches(d: Draw, operands: Sequence[Sequence[Node]]) -> list[HloComputation]:
    """Computations that take one row of operands each, as a tuple, and give equal shapes."""
    wanted = [v.shape.without_layout() for row in operands for v in row][: d.integer(1, 3)]
    return [_branch(d, row, wanted) for row in operands]


def _branch(d: Draw, row: Sequence[Node], wanted: Sequence[Shape]) -> HloComputation:
    inner = d.inside("branch")
    whole = inner.builder.parameter(tuple_of(*(v.shape.without_layout() for v in row)))
    for part, value in zip(inner.take_apart(whole), row, strict=True):
        if value in d.inexact:
            inner.inexact.add(part)
    inner.steps(inner.integer(0, 3), _opcodes(inner))
    return inner.builder.build(inner.builder.op("tuple", *(_newest(inner, s) for s in wanted)))


def _conditional(d: Draw) -> Node:
    count = d.integer(1, 4)
    rows = [[d.any_value(ARRAY_TYPES) for _ in range(d.integer(1, 3))] for _ in range(count)]
    branches = _branches(d, rows)
    operands = [d.builder.op("tuple", *row) for row in rows]
    if count == 2 and d.chance(0.5):
        selector = d.value(dt.PRED, (), exact=True)
        true, false = branches
        made = d.builder.op(
            "conditional", selector, *operands, true_computation=true, false_computation=false
        )
    else:
        selector = d.value(dt.S32, (), exact=True)
        made = d.builder.op("conditional", selector, *operands, branch_computations=tuple(branches))
    d.inexact.add(made)
    parts = d.take_apart(made)
    return made if d.chance(0.4) else d.pick(parts)


def _called(d: Draw, opcode: str, opcodes: Sequence[str], **attrs: str) -> Node:
    """An instruction that runs a random computation on values made before."""
    operands = [d.any_value(ARRAY_TYPES) for _ in range(d.integer(1, 3))]
    inner = d.inside(opcode)
    _given(inner, d, operands)
    made = inner.steps(inner.integer(1, 6), opcodes)
    several = len(made) > 1 and inner.chance(0.4)
    root = inner.builder.op("tuple", *made) if several else made[-1]
    key = "to_apply" if opcode == "call" else "calls"
    given: dict[str, Any] = {key: inner.builder.build(root), **attrs}
    result = d.builder.op(opcode, *operands, **given)
    d.inexact.add(result)
    d.keep(result)
    d.take_apart(result)
    return result


def _call(d: Draw) -> Node:
    return _called(d, "call", _opcodes(d))


def _fusion(d: Draw) -> Node:
    """A fusion made by somebody else: elementwise and movement opcodes, in any shape."""
    simple = tuple(o for o in _SIMPLE if o not in ("scatter", "dynamic-update-slice"))
    return _called(d, "fusion", simple, kind=d.pick(("kLoop", "kInput")))


def _scan(d: Draw) -> Node:
    """A running combination along a dimension, with what it was at each step."""
    value = d.any_value((*FLOATS, *INTEGERS), least_rank=1)
    dims, dtype = value.shape.dims, value.shape.element_type
    axis = d.integer(0, len(dims) - 1)
    slice_shape = array(dtype, dims[:axis] + dims[axis + 1 :])
    carry = d.value(dtype, slice_shape.dims)
    opcode = d.pick(("add", "maximum", "subtract"))

    def body(b: HloBuilder) -> Node:
        x, c = b.parameter(slice_shape), b.parameter(slice_shape)
        following = b.op(opcode, x, c)
        return b.op("tuple", b.op("negate", following), following)

    made = d.op(
        "scan",
        value,
        carry,
        dimensions=(axis,),
        num_carries=1,
        is_reverse=d.chance(0.3),
        to_apply=d.computation(body, "scanned"),
    )
    d.inexact.update(v for v in d.values if v.operands[:1] == (made,))
    return made


def _barrier(d: Draw) -> Node:
    if d.chance(0.3):
        return d.op("opt-barrier", _tuple(d))
    return d.op("opt-barrier", d.any_value(ARRAY_TYPES))


def _tuple(d: Draw) -> Node:
    parts = [d.any_value(ARRAY_TYPES) for _ in range(d.integer(0, 4))]
    return d.op("tuple", *parts)


def _get_tuple_element(d: Draw) -> Node:
    """A part of a part of nested tuples."""
    inner = d.builder.op("tuple", *(d.any_value(ARRAY_TYPES) for _ in range(2)))
    outer = d.builder.op("tuple", d.any_value(ARRAY_TYPES), inner)
    taken = d.builder.op("get-tuple-element", outer, index=1)
    found = d.builder.op("get-tuple-element", taken, index=d.integer(0, 1))
    d.inexact.add(found)
    return d.keep(found)


def _after_all(d: Draw) -> Node:
    """A value that waits for tokens."""
    tokens = [d.builder.op("after-all") for _ in range(d.integer(0, 2))]
    token = d.builder.op("after-all", *tokens)
    return d.op("add-dependency", d.any_value(ARRAY_TYPES), token)


def _domain(d: Draw) -> Node:
    """A region border that says nothing."""
    borders = (Sharding("maximal", 0), Sharding("maximal", 1))
    return d.op("domain", d.any_value(ARRAY_TYPES), domain=borders)


CONTROL: Mapping[str, Recipe] = MappingProxyType(
    {
        "while": _while,
        "conditional": _conditional,
        "call": _call,
        "fusion": _fusion,
        "scan": _scan,
        "opt-barrier": _barrier,
        "tuple": _tuple,
        "get-tuple-element": _get_tuple_element,
        "add-dependency": _after_all,
        "domain": _domain,
    }
)
"""Recipe by opcode."""
