"""scan as a while loop that reads slices of the inputs and writes slices of the outputs."""

from __future__ import annotations

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import Shape
from xladev.passes.expansions.emit import Emitter, Values, begin


def expand_scan(instruction: HloInstruction) -> HloComputation:
    """One step per index of the dimension, last index first if ``is_reverse``."""
    e, operands = begin(instruction)
    (axis,) = instruction["dimensions"]
    count = len(operands) - instruction["num_carries"]
    inputs, carries = operands[:count], operands[count:]
    shapes = _parts(instruction.shape)
    stacked = shapes[: len(shapes) - len(carries)]
    length = inputs[0].shape.dims[axis] if inputs else stacked[0].dims[axis]
    outputs = [e.full(0, s.element_type, s.dims) for s in stacked]

    def step(e: Emitter, number: HloInstruction, state: list[HloInstruction]) -> Values:
        given, held = state[:count], state[count : count + len(carries)]
        written = state[count + len(carries) :]
        at = number
        if instruction["is_reverse"]:
            at = e.subtract(e.scalar(length - 1, dt.S32), number)
        slices = [_row(e, x, axis, at) for x in given]
        results = _called(e, instruction["to_apply"], [*slices, *held])
        rows, after = results[: len(written)], results[len(written) :]
        now = [_with_row(e, x, row, axis, at) for x, row in zip(written, rows, strict=True)]
        return *given, *after, *now

    final = e.repeat(length, (*inputs, *carries, *outputs), step)[count:]
    values = (*final[len(carries) :], *final[: len(carries)])
    return e.build(e.op("tuple", *values) if instruction.shape.is_tuple else values[0])


def _parts(shape: Shape) -> tuple[Shape, ...]:
    return shape.tuple_shapes if shape.is_tuple else (shape,)


def _called(e: Emitter, body: HloComputation, arguments: Values) -> list[HloInstruction]:
    result = e.op("call", *arguments, to_apply=body)
    return e.parts(result) if result.shape.is_tuple else [result]


def _row(e: Emitter, x: HloInstruction, axis: int, at: HloInstruction) -> HloInstruction:
    dims = x.shape.dims
    starts = [at if d == axis else 0 for d in range(len(dims))]
    sizes = [1 if d == axis else size for d, size in enumerate(dims)]
    return e.reshape(e.dynamic_slice(x, starts, sizes), (*dims[:axis], *dims[axis + 1 :]))


def _with_row(
    e: Emitter, x: HloInstruction, row: HloInstruction, axis: int, at: HloInstruction
) -> HloInstruction:
    dims = x.shape.dims
    block = e.reshape(row, (*dims[:axis], 1, *dims[axis + 1 :]))
    starts = [at if d == axis else 0 for d in range(len(dims))]
    return e.dynamic_update_slice(x, block, starts)
