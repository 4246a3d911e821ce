"""A random program being drawn: choices, values made so far, helper computations.

Operands come from values made before, or from new parameters and constants. Opcodes that jump
(compare, floor, sort) are given exact values only, so that differences in rounding between backends
cannot be blown up.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder, make_instruction
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.literal import Array, Literal
from xladev.hlo.opdef import Tolerance
from xladev.hlo.shape import Layout, Shape, array
from xladev.testing.random_inputs import random_array, wild_array

Dims = tuple[int, ...]

COMMON_TYPES = (dt.F32, dt.S32, dt.PRED, dt.F64, dt.BF16, dt.F16, dt.U8, dt.S8, dt.U32, dt.S64)
"""Types that are drawn most of the time."""


@dataclass(slots=True)
class Draw:
    """A computation being drawn.

    Attributes:
        random: the source of all choices.
        builder: the computation.
        recipes: by opcode, for computations within this one.
        values: array instructions so far.
        inexact: those whose bits may differ between backends.
        depth: 0 for the entry; computations within computations are one deeper each.
        replicas: devices that the program may run on.
        wild: True if constants hold NaN, extremes and random bits.
        most_elements: of an array that is drawn.
        layouts: probability of a layout other than the default one.
        parameters: True if new parameters may be made.
    """

    random: random.Random
    builder: HloBuilder
    recipes: Mapping[str, Recipe]
    values: list[HloInstruction] = field(default_factory=list[HloInstruction])
    inexact: set[HloInstruction] = field(default_factory=set[HloInstruction])
    depth: int = 0
    replicas: int = 1
    wild: bool = False
    most_elements: int = 400
    layouts: float = 0.1
    parameters: bool = True

    # -- choices ----------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random.random() < probability

    def integer(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high``, both included."""
        return self.random.randint(low, high)

    def pick(self, choices: Sequence[Any]) -> Any:
        """One of several things."""
        return self.random.choice(choices)

    def permutation(self, count: int) -> Dims:
        """The numbers below ``count`` in some order."""
        return tuple(self.random.sample(range(count), count))

    def subset(self, count: int, least: int = 0) -> Dims:
        """Some of the numbers below ``count``, ascending."""
        size = self.integer(min(least, count), count)
        return tuple(sorted(self.random.sample(range(count), size)))

    def dtype(self, allowed: Sequence[PrimitiveType]) -> PrimitiveType:
        """One of the allowed types; common ones more often."""
        common = [t for t in allowed if t in COMMON_TYPES]
        found: PrimitiveType = self.pick(common if common and self.chance(0.6) else list(allowed))
        return found

    def dims(self, least_rank: int = 0, most_rank: int = 4, least: int = 0) -> Dims:
        """Dimensions of few elements; zeros and ones among them."""
        rank = min(self.integer(least_rank, most_rank), self.integer(least_rank, most_rank + 1))
        sizes: list[int] = []
        for _ in range(rank):
            left = max(self.most_elements // max(int(np.prod(sizes)), 1), 1)
            size = self.pick((1, 2, 3, 4, 5, 7, 16, 33)) if self.chance(0.96) else 0
            sizes.append(max(min(size, left), least))
        return tuple(sizes)

    def layout(self, rank: int) -> Layout | None:
        """A layout, usually the default one."""
        if rank < 2 or not self.chance(self.layouts):
            return None
        return Layout(self.permutation(rank))

    # -- values -----------------------------------------------------------------------------------

    def value(
        self, dtype: PrimitiveType, dims: Dims, *, exact: bool = False, fresh: float = 0.35
    ) -> HloInstruction:
        """An array of this type and these dimensions: made before, or new."""
        if not self.chance(fresh):
            same = [
                v
                for v in self.values
                if v.shape.element_type is dtype
                and v.shape.dims == dims
                and not v.shape.is_dynamic
                and not (exact and v in self.inexact)
            ]
            if same:
                found: HloInstruction = self.pick(same)
                return found
        return self.new_value(dtype, dims)

    def any_value(
        self, allowed: Sequence[PrimitiveType], *, least_rank: int = 0, exact: bool = False
    ) -> HloInstruction:
        """An array of an allowed type, of any dimensions."""
        if self.chance(0.6):
            same = [
                v
                for v in self.values
                if v.shape.element_type in allowed
                and v.shape.rank >= least_rank
                and v.shape.size <= self.most_elements
                and not v.shape.is_dynamic
                and not (exact and v in self.inexact)
            ]
            if same:
                found: HloInstruction = self.pick(same)
                return found
        return self.new_value(self.dtype(allowed), self.dims(least_rank))

    def known_bits(
        self, allowed: Sequence[PrimitiveType], *, least_rank: int = 0
    ) -> HloInstruction:
        """An array whose every bit is settled: computed NaN, of which none is, are kept out."""
        if not self.wild:
            return self.any_value(allowed, least_rank=least_rank, exact=True)
        return self.new_value(self.dtype(allowed), self.dims(least_rank))

    def new_value(self, dtype: PrimitiveType, dims: Dims) -> HloInstruction:
        """A parameter, a constant, or a constant spread over the dimensions."""
        if self.parameters and self.chance(0.75):
            return self.parameter(array(dtype, dims, layout=self.layout(len(dims))))
        if dims and self.chance(0.4):
            scalar = self.constant(dtype, ())
            return self.op("broadcast", scalar, shape=array(dtype, dims), dimensions=())
        return self.constant(dtype, dims)

    def parameter(self, shape: Shape) -> HloInstruction:
        """A new parameter."""
        return self.keep(self.builder.parameter(shape))

    def constant(self, dtype: PrimitiveType, dims: Dims) -> HloInstruction:
        """A new constant of random elements."""
        generator = np.random.default_rng(self.random.getrandbits(32))
        shape = array(dtype, dims).with_default_layout()
        make: Callable[[np.random.Generator, Shape], Array] = random_array
        if self.wild and self.chance(0.5):
            make = wild_array
        return self.keep(self.builder.constant(Literal(shape, make(generator, shape))))

    def keep(self, instruction: HloInstruction) -> HloInstruction:
        """Remembers a value for later operands."""
        if instruction.shape.is_array:
            self.values.append(instruction)
        return instruction

    def op(
        self, opcode: str, *operands: HloInstruction, shape: Shape | None = None, **attrs: Any
    ) -> HloInstruction:
        """Appends an instruction and remembers it, and its parts if it is a tuple."""
        made = make_instruction(opcode, operands, attrs, shape=shape, name=opcode)
        if made.shape.is_array and made.shape.layout is None:
            layout = self.layout(made.shape.rank)
            made = made if layout is None else replace(made, shape=made.shape.with_layout(layout))
        made = self.builder.append(made)
        rounding = made.op.tolerance is not Tolerance.EXACT and not _integral(made.shape)
        if rounding or any(o in self.inexact for o in operands):
            self.inexact.add(made)
        self.keep(made)
        if made.shape.is_tuple:
            self.take_apart(made)
        return made

    def take_apart(self, made: HloInstruction) -> list[HloInstruction]:
        """Appends and remembers the arrays of a tuple, tuples within it included."""
        parts: list[HloInstruction] = []
        for index, part in enumerate(made.shape.tuple_shapes):
            element = self.builder.op("get-tuple-element", made, index=index)
            if made in self.inexact:
                self.inexact.add(element)
            if part.is_tuple:
                parts += self.take_apart(element)
            elif part.is_array:
                parts.append(self.keep(element))
        return parts

    # -- computations -----------------------------------------------------------------------------

    def computation(
        self, build: Callable[[HloBuilder], HloInstruction], name: str = "helper"
    ) -> HloComputation:
        """A helper computation; it is renamed where its name is taken."""
        b = HloBuilder(name)
        return b.build(build(b))

    def inside(self, name: str) -> Draw:
        """A computation to be called by this one; it makes no parameters of its own accord."""
        return replace(
            self,
            builder=HloBuilder(name),
            values=[],
            inexact=set[HloInstruction](),
            depth=self.depth + 1,
            parameters=False,
        )

    def steps(self, count: int, opcodes: Sequence[str]) -> list[HloInstruction]:
        """Draws opcodes and what they need; the instructions of those opcodes."""
        return [self.recipes[self.random.choice(opcodes)](self) for _ in range(count)]


Recipe = Callable[[Draw], HloInstruction]
"""Appends one legal instruction of an opcode to the program; gives an array or tuple."""


def _integral(shape: Shape) -> bool:
    return all(
        not (leaf.element_type.is_float or leaf.element_type.is_complex)
        for _, leaf in shape.leaves()
    )
