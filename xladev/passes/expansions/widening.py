"""Any opcode on narrow types as the same opcode on wider ones, between conversions.

Floats under 32 bits go through f32, in which their arithmetic is defined anyway; integers under a
byte through s8 or u8, whose low bits are theirs. Computations of scalars that an instruction calls
are widened, too, so that sums are rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.opdef import OpDef
from xladev.hlo.shape import Shape
from xladev.passes.expansions.emit import Emitter, begin
from xladev.passes.expansions.precision import wider_float

_MEANS_BITS = frozenset({
    "bitcast-convert", "convert", "count-leading-zeros", "popcnt", "shift-right-logical", "bitcast",
    "reduce-precision", "stochastic-convert",
})  # fmt: skip
"""Opcodes that look at the representation, or change it: these a device must have itself."""

_SUMS = frozenset({
    "dot", "convolution", "reduce", "reduce-window", "scatter", "select-and-scatter", "sort", "map",
})  # fmt: skip
_MOVES = frozenset({
    "broadcast", "concatenate", "copy", "dynamic-slice", "dynamic-update-slice", "gather", "iota",
    "pad", "reshape", "reverse", "slice", "transpose",
})  # fmt: skip

Widths = Callable[[PrimitiveType], PrimitiveType]


def wider_type(element_type: PrimitiveType) -> PrimitiveType:
    """f32 for narrower floats, s8 or u8 for integers under a byte; else the type itself."""
    return wider_float(wider_integer(element_type))


def wider_integer(element_type: PrimitiveType) -> PrimitiveType:
    """s8 or u8 for integers under a byte; else the type itself."""
    if not element_type.is_integral or element_type.bits >= 8:
        return element_type
    return dt.S8 if element_type.is_signed else dt.U8


def can_widen(op: OpDef) -> bool:
    """True for opcodes whose meaning on a narrow type is that on a wider one, rounded."""
    if op.name in _MEANS_BITS or op.side_effect:
        return False
    return op.elementwise or op.name in _SUMS or op.name in _MOVES


def expand_wider(instruction: HloInstruction) -> HloComputation | None:
    """The same on wider types; None where none is narrow."""
    return widened(instruction, wider_type)


def widened(instruction: HloInstruction, widths: Widths) -> HloComputation | None:
    """The same on the types that ``widths`` gives; None where these are the same.

    Args:
        instruction: one whose opcode `can_widen`, on arrays.
        widths: the type to use instead of each element type.
    """
    if not can_widen(instruction.op) or any(not o.shape.is_array for o in instruction.operands):
        return None
    shapes = (instruction.shape, *(o.shape for o in instruction.operands))
    leaves = [leaf for shape in shapes for _, leaf in shape.leaves()]
    if all(widths(s.element_type) is s.element_type for s in leaves):
        return None
    e, operands = begin(instruction)
    wide = [e.convert(x, widths(x.shape.element_type)) for x in operands]
    attrs = {name: _widened_attr(value, widths) for name, value in instruction.attrs.items()}
    shape = _widened_shape(instruction.shape.without_layout(), widths)
    made = e.op(instruction.opcode, *wide, shape=shape, **attrs)
    if not instruction.shape.is_tuple:
        return e.build(e.convert(made, instruction.shape.element_type))
    types = [s.element_type for s in instruction.shape.tuple_shapes]
    return e.build(e.op("tuple", *map(e.convert, e.parts(made), types)))


def _widened_shape(shape: Shape, widths: Widths) -> Shape:
    if shape.is_tuple:
        return replace(
            shape, tuple_shapes=tuple(_widened_shape(s, widths) for s in shape.tuple_shapes)
        )
    return replace(shape, element_type=widths(shape.element_type)) if shape.is_array else shape


def _widened_attr(value: Any, widths: Widths) -> Any:
    return _widened_body(value, widths) if isinstance(value, HloComputation) else value


def _widened_body(body: HloComputation, widths: Widths) -> HloComputation:
    """A computation of scalars on wider types; bodies that it calls likewise."""
    e = Emitter(f"{body.name}.wide")
    made: dict[HloInstruction, HloInstruction] = {}
    for instruction in body.instructions:
        operands = [made[o] for o in instruction.operands]
        made[instruction] = _widened_copy(e, instruction, operands, widths)
    return e.build(made[body.root])


def _widened_copy(
    e: Emitter, i: HloInstruction, operands: list[HloInstruction], widths: Widths
) -> HloInstruction:
    shape = _widened_shape(i.shape, widths)
    if i.opcode == "constant" and shape.element_type is not i.shape.element_type:
        return e.convert(e.constant(i["literal"]), shape.element_type)
    if i.opcode == "convert" and operands[0].shape.element_type is shape.element_type:
        return operands[0]
    if i.opcode in _MEANS_BITS and i.opcode != "convert":
        types = (o.shape.element_type for o in i.operands)
        own = e.op(i.opcode, *map(e.convert, operands, types), shape=i.shape, **i.attrs)
        return e.convert(own, shape.element_type)
    attrs: Mapping[str, Any] = {k: _widened_attr(v, widths) for k, v in i.attrs.items()}
    return e.op(i.opcode, *operands, shape=shape, **attrs)
