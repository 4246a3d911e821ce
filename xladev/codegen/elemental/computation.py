"""Computations of scalars as code: reducers, comparators, bodies of map; control flow included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from xladev.codegen.elemental.choose import choose_many, flat, unflat
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.llvm import I64, Value
from xladev.codegen.scalar.constants import literal_element
from xladev.codegen.scalar.elements import Element, real_of, splat
from xladev.errors import UnsupportedError
from xladev.hlo.dtype import PRED
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import flattened_shapes

Elements = tuple[Element, ...]


def emit_computation(
    e: ElementalEmitter, computation: HloComputation, arguments: Elements
) -> Elements:
    """Leaves of the result of a computation of scalars (or tuples of scalars).

    Args:
        e: where to emit; not otherwise touched.
        computation: all its instructions have scalar leaves.
        arguments: the leaves of its parameters, in order.

    Raises:
        UnsupportedError: an instruction that is no scalar, or has no elemental code.
    """
    held: dict[HloInstruction, Elements] = {}
    remaining = iter(arguments)
    for parameter in computation.parameters:
        held[parameter] = tuple(next(remaining) for _ in flattened_shapes(parameter.shape))
    inner, lanes = e.nested(held), max((value.lanes for value in flat(arguments)), default=1)
    for instruction in computation.instructions:
        if instruction not in held:
            leaves = _leaves(inner, instruction, held)
            held[instruction] = tuple(splat(e.b, leaf, lanes) for leaf in leaves)
    return held[computation.root]


def _leaves(
    e: ElementalEmitter, i: HloInstruction, held: Mapping[HloInstruction, Elements]
) -> Elements:
    rule = _RULES.get(i.opcode)
    if rule is not None:
        return rule(e, i, held)
    if not i.shape.is_array or i.shape.size != 1:
        raise UnsupportedError(
            f"{i.opcode} of {i.shape} within a computation of scalars", where=repr(i)
        )
    return (e.element(i, (0,) * i.shape.rank),)


def _constant(
    e: ElementalEmitter, i: HloInstruction, held: Mapping[HloInstruction, Elements]
) -> Elements:
    return tuple(literal_element(leaf) for leaf in i["literal"].leaves())


def _tuple(
    e: ElementalEmitter, i: HloInstruction, held: Mapping[HloInstruction, Elements]
) -> Elements:
    return tuple(leaf for operand in i.operands for leaf in held[operand])


def _get_tuple_element(
    e: ElementalEmitter, i: HloInstruction, held: Mapping[HloInstruction, Elements]
) -> Elements:
    parts = i.operands[0].shape.tuple_shapes
    start = sum(len(flattened_shapes(s)) for s in parts[: i["index"]])
    return held[i.operands[0]][start : start + len(flattened_shapes(parts[i["index"]]))]


def _called(
    e: ElementalEmitter, i: HloInstruction, held: Mapping[HloInstruction, Elements]
) -> Elements:
    return emit_computation(e, i.called[0], _tuple(e, i, held))


def _while(
    e: ElementalEmitter, i: HloInstruction, held: Mapping[HloInstruction, Elements]
) -> Elements:
    initial = held[i.operands[0]]

    def condition(values: tuple[Value, ...]) -> Value:
        (holds,) = emit_computation(e, i["condition"], unflat(tuple(values), initial))
        return real_of(holds, "a loop condition")

    def body(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return flat(emit_computation(e, i["body"], unflat(tuple(values), initial)))

    return unflat(e.b.while_loop(flat(initial), condition, body), initial)  # type: ignore[arg-type]


def _conditional(
    e: ElementalEmitter, i: HloInstruction, held: Mapping[HloInstruction, Elements]
) -> Elements:
    selector, *arguments = (held[o] for o in i.operands)

    def branch(number: int) -> Elements:
        return emit_computation(e, i.called[number], arguments[number])

    chosen = real_of(selector[0], "a branch index")
    if i.operands[0].shape.element_type is PRED:
        return choose_many(e, chosen, lambda: branch(0), lambda: branch(1))
    last = len(arguments) - 1
    index = e.b.resize(chosen, I64, signed=True)
    inside = e.b.icmp("ult", index, last)
    index = e.b.select(inside, index, last)

    def among(first: int, stop: int) -> Elements:
        """What branch ``index`` gives, known to be one of first..stop-1; halves each time."""
        if stop - first == 1:
            return branch(first)
        middle = (first + stop) // 2
        before = e.b.icmp("ult", index, middle)
        return choose_many(e, before, lambda: among(first, middle), lambda: among(middle, stop))

    return among(0, len(arguments))


_Rule = Callable[[ElementalEmitter, HloInstruction, Mapping[HloInstruction, Elements]], Elements]
_RULES: Mapping[str, _Rule] = MappingProxyType(
    {
        "constant": _constant,
        "tuple": _tuple,
        "get-tuple-element": _get_tuple_element,
        "call": _called,
        "fusion": _called,
        "while": _while,
        "conditional": _conditional,
    }
)
