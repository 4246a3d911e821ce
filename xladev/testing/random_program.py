"""Random programs over the whole opset, from a seed.

Each step draws an opcode, and the opcode's recipe draws operands and attributes that make a legal
instruction. Operands come from values made before, or from new parameters and constants. Opcodes
that jump (compare, floor, sort) are given exact values only, so that differences in rounding
between backends cannot be blown up.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import Literal
from xladev.hlo.names import with_unique_names
from xladev.hlo.opdef import Tolerance
from xladev.hlo.shape import Layout, Shape, array
from xladev.testing.random_inputs import random_array

MAX_ELEMENTS = 400
Dims = tuple[int, ...]

COMMON_TYPES = (dt.F32, dt.S32, dt.PRED, dt.F64, dt.BF16, dt.F16, dt.U8, dt.S8, dt.U32, dt.S64)
"""Types that are drawn most of the time."""


@dataclass(slots=True)
class Draw:
    """A program being drawn.

    Attributes:
        random: the source of all choices.
        builder: the entry computation.
        values: array instructions so far.
        inexact: those whose bits may differ between backends.
        computations: number of helper computations made, for their names.
        types: element types to draw from.
        layouts: True if non-default layouts are drawn.
    """

    random: random.Random
    builder: HloBuilder
    values: list[HloInstruction] = field(default_factory=list[HloInstruction])
    inexact: set[HloInstruction] = field(default_factory=set[HloInstruction])
    computations: int = 0
    types: Sequence[PrimitiveType] = dt.ARRAY_TYPES
    layouts: bool = True

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
        found: PrimitiveType = self.pick(common if common and self.chance(0.7) else list(allowed))
        return found

    def dims(self, least_rank: int = 0, most_rank: int = 4, least: int = 0) -> Dims:
        """Dimensions of few elements; zeros and ones among them."""
        rank = min(self.integer(least_rank, most_rank), self.integer(least_rank, most_rank + 1))
        sizes: list[int] = []
        for _ in range(rank):
            left = max(MAX_ELEMENTS // max(int(np.prod(sizes)), 1), 1)
            size = self.pick((1, 2, 3, 4, 5, 7, 16, 33)) if self.chance(0.93) else 0
            sizes.append(max(min(size, left), least))
        return tuple(sizes)

    def layout(self, rank: int) -> Layout | None:
        """A layout, usually the default one."""
        if not self.layouts or rank < 2 or self.chance(0.8):
            return None
        return Layout(self.permutation(rank))

    # -- values -----------------------------------------------------------------------------------

    def value(
        self, dtype: PrimitiveType, dims: Dims, *, exact: bool = False, fresh: float = 0.35
    ) -> HloInstruction:
        """An array of this type: made before, converted from one made before, or new."""
        if not self.chance(fresh):
            same = [
                v
                for v in self.values
                if v.shape.element_type is dtype
                and v.shape.dims == dims
                and not (exact and v in self.inexact)
            ]
            if same:
                found: HloInstruction = self.pick(same)
                return found
        return self.new_value(dtype, dims)

    def new_value(self, dtype: PrimitiveType, dims: Dims) -> HloInstruction:
        """A parameter, or a constant."""
        if self.chance(0.75):
            shape = array(dtype, dims, layout=self.layout(len(dims)))
            return self.keep(self.builder.parameter(shape))
        generator = np.random.default_rng(self.random.getrandbits(32))
        literal = random_array(generator, array(dtype, dims).with_default_layout())
        shape = array(dtype, dims).with_default_layout()
        return self.keep(self.builder.constant(Literal(shape, literal)))

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
                and not (exact and v in self.inexact)
            ]
            if same:
                found: HloInstruction = self.pick(same)
                return found
        return self.new_value(self.dtype(allowed), self.dims(least_rank))

    def keep(self, instruction: HloInstruction) -> HloInstruction:
        """Remembers a value for later operands."""
        if instruction.shape.is_array:
            self.values.append(instruction)
        return instruction

    def op(self, opcode: str, *operands: HloInstruction, **attrs: Any) -> HloInstruction:
        """Appends an instruction and remembers it."""
        made = self.builder.op(opcode, *operands, **attrs)
        rounding = made.op.tolerance is not Tolerance.EXACT and not _integral(made.shape)
        if rounding or any(o in self.inexact for o in operands):
            self.inexact.add(made)
        self.keep(made)
        if made.shape.is_tuple:
            self._take_apart(made)
        return made

    def _take_apart(self, made: HloInstruction) -> None:
        for index, part in enumerate(made.shape.tuple_shapes):
            if part.is_array:
                element = self.builder.op("get-tuple-element", made, index=index)
                if made in self.inexact:
                    self.inexact.add(element)
                self.keep(element)

    # -- helper computations ----------------------------------------------------------------------

    def computation(self, build: Callable[[HloBuilder], HloInstruction]) -> HloComputation:
        """A helper computation."""
        self.computations += 1
        b = HloBuilder(f"helper.{self.computations}")
        return b.build(build(b))

    def binary(self, opcode: str, dtype: PrimitiveType) -> HloComputation:
        """A computation of two scalars."""
        scalar = array(dtype)
        return self.computation(lambda b: b.op(opcode, b.parameter(scalar), b.parameter(scalar)))


def _integral(shape: Shape) -> bool:
    return all(
        not (leaf.element_type.is_float or leaf.element_type.is_complex)
        for _, leaf in shape.leaves()
    )


Recipe = Callable[[Draw], HloInstruction]
"""Appends one legal instruction of an opcode to the program."""


def random_program(
    seed: int,
    recipes: Mapping[str, Recipe],
    *,
    steps: int | None = None,
    opcodes: Sequence[str] | None = None,
) -> HloModule:
    """A random program.

    Args:
        seed: fixes every choice.
        recipes: by opcode.
        steps: number of opcodes drawn; by default 1 to 8.
        opcodes: drawn from these alone.
    """
    source = random.Random(seed)
    draw = Draw(source, HloBuilder(f"random.{seed}"))
    names = sorted(opcodes or recipes)
    made: list[HloInstruction] = []
    for _ in range(steps or min(source.randint(1, 8), source.randint(1, 8))):
        made.append(recipes[source.choice(names)](draw))
    results = list(dict.fromkeys(made))
    root = results[0] if len(results) == 1 else draw.builder.op("tuple", *results)
    return with_unique_names(draw.builder.module(root))
