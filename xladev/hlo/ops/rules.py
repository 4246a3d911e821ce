"""Checks that the shape rules of many opcodes share, and wrappers for their meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from xladev.hlo.dtype import Kind, PrimitiveType
from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import EvaluateFn, Evaluation, InstructionView, OpCall
from xladev.hlo.shape import UNBOUNDED, Shape

Kinds = frozenset[Kind]

FLOAT: Kinds = frozenset({Kind.FLOAT})
COMPLEX: Kinds = frozenset({Kind.COMPLEX})
INTEGER: Kinds = frozenset({Kind.SINT, Kind.UINT})
LOGICAL: Kinds = INTEGER | {Kind.PRED}
NUMBER: Kinds = INTEGER | FLOAT | COMPLEX
ANY: Kinds = NUMBER | {Kind.PRED}


def constraint(call: OpCall, rule: str) -> str:
    """Constraint id of one rule of the opcode; cited as ``shift_left_c2``."""
    return f"{call.op.name}_{rule}"


def kinds_text(kinds: Kinds) -> str:
    """Names of kinds for messages."""
    return ", ".join(k.value for k in Kind if k in kinds)


def require_arrays(call: OpCall, rule: str = "c1") -> None:
    """``OP_<rule>``: all operands are arrays. (Their number is checked before any rule.)"""
    for i, shape in enumerate(call.operands):
        if not shape.is_array:
            call.fail(constraint(call, rule), f"operand {i} is {shape}, not an array")


def require_kinds(call: OpCall, shape: Shape, kinds: Kinds, rule: str) -> None:
    """``OP_<rule>``: the element type is of one of these kinds."""
    if shape.element_type.kind not in kinds:
        what = f"element type {shape.element_type} is none of: {kinds_text(kinds)}"
        call.fail(constraint(call, rule), what)


def same_element_type(call: OpCall, shapes: Iterable[Shape], rule: str) -> PrimitiveType:
    """``OP_<rule>``: the element types agree; returns theirs."""
    types = [s.element_type for s in shapes]
    if any(t is not types[0] for t in types):
        names = ", ".join(t.name for t in types)
        call.fail(constraint(call, rule), f"element types differ: {names}")
    return types[0]


def merge_dims(call: OpCall, shapes: Sequence[Shape], rule: str) -> Shape:
    """``OP_<rule>``: sizes agree; returns the first shape, dynamic where any of them is.

    A dimension without a bound agrees with any other and takes its bound.
    """
    first = shapes[0]
    if all(s.dims == first.dims and not s.dynamic for s in shapes):
        return first.without_layout()
    if any(s.rank != first.rank for s in shapes):
        call.fail(constraint(call, rule), "ranks of the operands differ")
    dims = tuple(
        _merge_sizes(call, sizes, rule) for sizes in zip(*(s.dims for s in shapes), strict=True)
    )
    flags = tuple(any(s.is_dynamic_dimension(i) for s in shapes) for i in range(first.rank))
    return shape_like(first, dims, flags)


def _merge_sizes(call: OpCall, sizes: Sequence[int], rule: str) -> int:
    known = {s for s in sizes if s != UNBOUNDED}
    if len(known) > 1:
        found = ", ".join(map(str, sorted(known)))
        call.fail(constraint(call, rule), f"sizes of a dimension differ: {found}")
    return known.pop() if known else UNBOUNDED


def shape_like(shape: Shape, dims: Iterable[int], dynamic: Iterable[bool] = ()) -> Shape:
    """Array of the same element type with other dimensions and no layout."""
    flags = tuple(dynamic)
    return Shape(shape.element_type, tuple(dims), None, flags if any(flags) else ())


def with_type(shape: Shape, element_type: PrimitiveType) -> Shape:
    """The shape with another element type and no layout."""
    return replace(shape, element_type=element_type, layout=None)


def declared_array(call: OpCall) -> Shape:
    """``OP_shape``: the declared result, which must be an array; without its layout."""
    declared = call.result()
    call.require(declared.is_array, constraint(call, "shape"), f"result {declared} is no array")
    return declared.without_layout()


def require_dims_in_range(call: OpCall, dims: Sequence[int], rank: int, rule: str) -> None:
    """``OP_<rule>``: dimension numbers are in range and none occurs twice."""
    name = constraint(call, rule)
    call.require(all(0 <= d < rank for d in dims), name, f"dimensions {list(dims)} of rank {rank}")
    call.require(len(set(dims)) == len(dims), name, f"dimensions {list(dims)} repeat")


def compatible(a: Shape, b: Shape) -> bool:
    """True if both are the same type ignoring layouts. Which dimensions are dynamic counts: a value
    of dynamic shape brings its sizes along, and a static one has none to bring."""
    return a is b or a.without_layout() == b.without_layout()


def elementwise(function: Callable[..., Array]) -> EvaluateFn:
    """Meaning of an opcode that is this function of its operands.

    Operands of equal shape, or of rank 0 where a scalar computation runs on whole arrays.
    """

    def evaluate(
        evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
    ) -> Value:
        del evaluation, instruction
        with np.errstate(all="ignore"):
            return np.asarray(function(*operands))

    return evaluate
