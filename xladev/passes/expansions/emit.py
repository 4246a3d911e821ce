"""Builds the HLO of expansions: `HloBuilder` with the field's short spellings.

Wherever an elementwise method takes instructions, it also takes Python numbers, which become
constants of the element type and dimensions of the first instruction among the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import PadDim, SliceDim
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.literal import literal_of
from xladev.hlo.shape import Shape, array

Operand = HloInstruction | complex | float | int | bool
Values = Sequence[HloInstruction]


class Emitter(HloBuilder):
    """Builds one computation of an expansion."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._scalars: dict[tuple[PrimitiveType, bytes], HloInstruction] = {}

    # Constants

    def scalar(self, value: complex, element_type: PrimitiveType) -> HloInstruction:
        """A scalar constant; the same value twice is one instruction."""
        literal = literal_of(np.asarray(value).astype(element_type.np), element_type)
        key = element_type, literal.bits()
        if key not in self._scalars:
            self._scalars[key] = self.constant(literal)
        return self._scalars[key]

    def full(
        self, value: complex, element_type: PrimitiveType, dims: Sequence[int]
    ) -> HloInstruction:
        """An array all of whose elements are ``value``."""
        return self.broadcast(self.scalar(value, element_type), dims, ())

    def full_like(self, x: HloInstruction, value: complex) -> HloInstruction:
        """An array like ``x``, all of whose elements are ``value``."""
        return self.full(value, x.shape.element_type, x.shape.dims)

    def table(self, values: Any, element_type: PrimitiveType) -> HloInstruction:
        """A constant array."""
        return self.constant(np.asarray(values).astype(element_type.np))

    # Elementwise

    def elementwise(self, opcode: str, *operands: Operand, **attrs: Any) -> HloInstruction:
        """An elementwise opcode on arrays and numbers; scalars are broadcast."""
        like = max(
            (o for o in operands if isinstance(o, HloInstruction)), key=lambda o: o.shape.rank
        )
        return self.op(opcode, *(self._spread(o, like) for o in operands), **attrs)

    def _spread(self, operand: Operand, like: HloInstruction) -> HloInstruction:
        if not isinstance(operand, HloInstruction):
            return self.full_like(like, operand)
        if operand.shape.is_scalar and not like.shape.is_scalar:
            return self.broadcast(operand, like.shape.dims, ())
        return operand

    def add(self, x: Operand, y: Operand) -> HloInstruction:
        """Sum."""
        return self.elementwise("add", x, y)

    def subtract(self, x: Operand, y: Operand) -> HloInstruction:
        """Difference."""
        return self.elementwise("subtract", x, y)

    def multiply(self, x: Operand, y: Operand) -> HloInstruction:
        """Product."""
        return self.elementwise("multiply", x, y)

    def divide(self, x: Operand, y: Operand) -> HloInstruction:
        """Quotient."""
        return self.elementwise("divide", x, y)

    def compare(self, direction: str, x: Operand, y: Operand) -> HloInstruction:
        """``x direction y``, as pred."""
        return self.elementwise("compare", x, y, direction=direction)

    def select(self, condition: HloInstruction, x: Operand, y: Operand) -> HloInstruction:
        """``x`` where the condition holds, else ``y``; one of both is an instruction."""
        like = x if isinstance(x, HloInstruction) and x.shape.rank else y
        like = like if isinstance(like, HloInstruction) else x
        assert isinstance(like, HloInstruction)
        return self.op("select", condition, self._spread(x, like), self._spread(y, like))

    def convert(self, x: HloInstruction, element_type: PrimitiveType) -> HloInstruction:
        """``x`` in another element type; ``x`` itself if it has it already."""
        if x.shape.element_type is element_type:
            return x
        return self.op("convert", x, shape=array(element_type, x.shape.dims))

    def bitcast_convert(self, x: HloInstruction, element_type: PrimitiveType) -> HloInstruction:
        """The bits of ``x`` as a type of the same width."""
        if x.shape.element_type is element_type:
            return x
        return self.op("bitcast-convert", x, shape=array(element_type, x.shape.dims))

    def conjugate(self, x: HloInstruction) -> HloInstruction:
        """Complex conjugate; ``x`` itself if it is real."""
        if not x.shape.element_type.is_complex:
            return x
        imaginary = self.op("negate", self.op("imag", x))
        return self.op("complex", self.op("real", x), imaginary)

    def real(self, x: HloInstruction) -> HloInstruction:
        """Real part; ``x`` itself if it is real."""
        return self.op("real", x) if x.shape.element_type.is_complex else x

    # Movement

    def broadcast(
        self, x: HloInstruction, dims: Sequence[int], at: Sequence[int]
    ) -> HloInstruction:
        """``x`` repeated to ``dims``; its dimension i becomes dimension ``at[i]``."""
        if tuple(dims) == x.shape.dims and tuple(at) == tuple(range(len(dims))):
            return x
        shape = array(x.shape.element_type, dims)
        return self.op("broadcast", x, shape=shape, dimensions=tuple(at))

    def reshape(self, x: HloInstruction, dims: Sequence[int]) -> HloInstruction:
        """The elements of ``x``, row-major, in other dimensions."""
        if tuple(dims) == x.shape.dims:
            return x
        return self.op("reshape", x, shape=array(x.shape.element_type, dims))

    def transpose(self, x: HloInstruction, order: Sequence[int]) -> HloInstruction:
        """Result dimension i is dimension ``order[i]`` of ``x``."""
        if tuple(order) == tuple(range(len(order))):
            return x
        return self.op("transpose", x, dimensions=tuple(order))

    def swap_last(self, x: HloInstruction) -> HloInstruction:
        """``x`` with its last two dimensions swapped."""
        rank = x.shape.rank
        return self.transpose(x, (*range(rank - 2), rank - 1, rank - 2))

    def slice_in(
        self, x: HloInstruction, dimension: int, start: int, limit: int, stride: int = 1
    ) -> HloInstruction:
        """Elements ``start:limit:stride`` of one dimension, negative numbers from its end."""
        at = dimension % x.shape.rank
        if (start, limit, stride) == (0, x.shape.dims[at], 1):
            return x
        parts = [SliceDim(0, size) for size in x.shape.dims]
        parts[at] = SliceDim(start, limit, stride)
        return self.op("slice", x, slice=tuple(parts))

    def concatenate(self, parts: Values, dimension: int) -> HloInstruction:
        """The parts one after the other."""
        if len(parts) == 1:
            return parts[0]
        return self.op("concatenate", *parts, dimensions=(dimension % parts[0].shape.rank,))

    def reverse(self, x: HloInstruction, *dims: int) -> HloInstruction:
        """``x`` with the order of some dimensions reversed."""
        return self.op("reverse", x, dimensions=tuple(sorted(d % x.shape.rank for d in dims)))

    def iota(
        self, element_type: PrimitiveType, dims: Sequence[int], dimension: int
    ) -> HloInstruction:
        """The coordinate along one dimension."""
        shape = array(element_type, dims)
        return self.op("iota", shape=shape, iota_dimension=dimension % len(dims))

    def pad(
        self, x: HloInstruction, padding: Sequence[tuple[int, int, int]], value: complex = 0
    ) -> HloInstruction:
        """``x`` with (low, high, interior) padding of each dimension."""
        if not any(any(p) for p in padding):
            return x
        with_ = self.scalar(value, x.shape.element_type)
        return self.op("pad", x, with_, padding=tuple(PadDim(*p) for p in padding))

    def index(self, value: Operand, element_type: PrimitiveType = dt.S32) -> HloInstruction:
        """A scalar index."""
        return value if isinstance(value, HloInstruction) else self.scalar(value, element_type)

    def dynamic_slice(
        self, x: HloInstruction, starts: Sequence[Operand], sizes: Sequence[int]
    ) -> HloInstruction:
        """The block of ``sizes`` that begins at ``starts``."""
        at = [self.index(s) for s in starts]
        return self.op("dynamic-slice", x, *at, dynamic_slice_sizes=tuple(sizes))

    def dynamic_update_slice(
        self, x: HloInstruction, block: HloInstruction, starts: Sequence[Operand]
    ) -> HloInstruction:
        """``x`` with the block at ``starts`` replaced."""
        return self.op("dynamic-update-slice", x, block, *(self.index(s) for s in starts))

    # Sums

    def matmul(self, x: HloInstruction, y: HloInstruction) -> HloInstruction:
        """``[..., m, k] x [..., k, n]``, at the highest precision."""
        rank = x.shape.rank
        batch = tuple(range(rank - 2))
        return self.op(
            "dot", x, y,
            lhs_batch_dims=batch, rhs_batch_dims=batch,
            lhs_contracting_dims=(rank - 1,), rhs_contracting_dims=(rank - 2,),
            operand_precision=("highest", "highest"),
        )  # fmt: skip

    def reduce(
        self, x: HloInstruction, dims: Sequence[int], opcode: str = "add", init: complex = 0
    ) -> HloInstruction:
        """``x`` reduced over some dimensions."""
        element_type = x.shape.element_type
        chosen = tuple(sorted(d % x.shape.rank for d in dims))
        return self.op(
            "reduce", x, self.scalar(init, element_type),
            dimensions=chosen, to_apply=binary_computation(opcode, element_type),
        )  # fmt: skip

    # Tuples and control flow

    def parts(self, value: HloInstruction) -> list[HloInstruction]:
        """The parts of a tuple."""
        count = len(value.shape.tuple_shapes)
        return [self.op("get-tuple-element", value, index=i) for i in range(count)]

    def repeat(
        self,
        count: Operand,
        state: Values,
        step: Callable[[Emitter, HloInstruction, list[HloInstruction]], Values],
    ) -> list[HloInstruction]:
        """Runs ``step`` for 0, 1, ... ``count - 1``.

        Args:
            count: s32; a number, or a scalar instruction.
            state: values before the first step.
            step: given a builder, the s32 number of the step and the state, gives the next state.
        """
        if isinstance(count, int) and count == 0:
            return list(state)
        limit = self.index(count)

        def condition(e: Emitter, values: list[HloInstruction]) -> HloInstruction:
            return e.compare("LT", values[0], values[1])

        def body(e: Emitter, values: list[HloInstruction]) -> Values:
            number, end, *held = values
            return e.add(number, 1), end, *step(e, number, held)

        return self.while_loop((self.scalar(0, dt.S32), limit, *state), condition, body)[2:]

    def while_loop(
        self,
        state: Values,
        condition: Callable[[Emitter, list[HloInstruction]], HloInstruction],
        body: Callable[[Emitter, list[HloInstruction]], Values],
    ) -> list[HloInstruction]:
        """Runs ``body`` on the state as long as ``condition`` holds for it."""
        init = self.op("tuple", *state)
        test = _on_state(f"{self.name}.condition", init.shape, condition)
        step = _on_state(
            f"{self.name}.body", init.shape, lambda e, values: e.op("tuple", *body(e, values))
        )
        return self.parts(self.op("while", init, condition=test, body=step))


def _on_state(
    name: str, state: Shape, make: Callable[[Emitter, list[HloInstruction]], HloInstruction]
) -> HloComputation:
    e = Emitter(name)
    return _without_unused(e.build(make(e, e.parts(e.parameter(state)))))


def _without_unused(computation: HloComputation) -> HloComputation:
    """Without parts of a loop's state that its condition or body has no use for."""
    needed = {computation.root}
    for instruction in reversed(computation.instructions):
        if instruction in needed:
            needed.update(instruction.operands)
    kept = (i for i in computation.instructions if i in needed or i.opcode == "parameter")
    return HloComputation(computation.name, tuple(kept), computation.root)


def binary_computation(opcode: str, element_type: PrimitiveType) -> HloComputation:
    """The computation of two scalars that is one opcode."""
    e = Emitter(f"{opcode}.{element_type}")
    shape = array(element_type)
    return e.build(e.op(opcode, e.parameter(shape), e.parameter(shape)))


def begin(instruction: HloInstruction) -> tuple[Emitter, list[HloInstruction]]:
    """A builder for what stands for an instruction, and its parameters: the operands."""
    e = Emitter(f"{instruction.opcode}.expanded")
    return e, [e.parameter(o.shape.without_layout()) for o in instruction.operands]
