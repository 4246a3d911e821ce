"""Writes out computations of scalars (reducers, map bodies, branches) on whole arrays."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import array
from xladev.hlo.vectorize import PASS_ON, changes_type, is_vectorizable
from xladev.passes.expansions.emit import Emitter
from xladev.passes.expansions.precision import wider_float

Value = HloInstruction | tuple["Value", ...]
"""An array, or a tuple of values."""


def can_write_out(computation: HloComputation) -> bool:
    """True if the computation may run on arrays of any dimensions instead of scalars."""
    return is_vectorizable(computation)


def write_out(
    e: Emitter,
    computation: HloComputation,
    arguments: Sequence[Value],
    dims: Sequence[int],
    *,
    wide: bool = False,
) -> Value:
    """The instructions of a computation of scalars, on arrays.

    Args:
        e: receives the instructions.
        computation: one for which `can_write_out` holds.
        arguments: one per parameter, arrays of ``dims``.
        dims: dimensions of every array; none for scalars.
        wide: True to take, use and give f32 instead of narrower floats, as sums want it.
    """
    values: dict[HloInstruction, Value] = {}
    for instruction in computation.instructions:
        operands = [values[o] for o in instruction.operands]
        values[instruction] = _value(e, instruction, operands, arguments, tuple(dims), wide)
    return values[computation.root]


def _value(
    e: Emitter,
    instruction: HloInstruction,
    operands: list[Value],
    arguments: Sequence[Value],
    dims: tuple[int, ...],
    wide: bool,
) -> Value:
    opcode = instruction.opcode
    if opcode == "parameter":
        return arguments[instruction["parameter_number"]]
    if opcode == "constant":
        scalar = e.constant(instruction["literal"])
        return e.broadcast(e.convert(scalar, _type(scalar, wide)), dims, ())
    if opcode == "tuple":
        return tuple(operands)
    if opcode == "get-tuple-element":
        whole = operands[0]
        assert isinstance(whole, tuple)
        return whole[instruction["index"]]
    if opcode == "bitcast-convert" or changes_type(instruction):
        return _bitcast(e, instruction, operands[0], wide)
    if opcode in PASS_ON:
        return operands[0]
    if opcode in ("call", "fusion"):
        return write_out(e, instruction.called[0], operands, dims, wide=wide)
    shape = array(_type(instruction, wide), dims)
    arrays = [o for o in operands if isinstance(o, HloInstruction)]
    return e.op(opcode, *arrays, shape=shape, **instruction.attrs)


def _bitcast(e: Emitter, instruction: HloInstruction, value: Value, wide: bool) -> Value:
    """Bits are those of the types that the computation names, also where it runs in wider ones."""
    assert isinstance(value, HloInstruction)
    source, target = instruction.operands[0].shape.element_type, instruction.shape.element_type
    narrow = e.convert(value, source)
    shape = array(target, narrow.shape.dims)
    made = e.op("bitcast-convert", narrow, shape=shape)
    return e.convert(made, _type(instruction, wide))


def _type(instruction: HloInstruction, wide: bool) -> PrimitiveType:
    element_type = instruction.shape.element_type
    return wider_float(element_type) if wide else element_type
