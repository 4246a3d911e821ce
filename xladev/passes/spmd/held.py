"""Values of the program of one device: for each array of a value the part, and how it is cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape, flattened_shapes, tuple_of
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.passes.spmd.local_builder import LocalBuilder
from xladev.passes.spmd.reshard import reshard


@dataclass(frozen=True, slots=True)
class Held:
    """An array or token as one device has it.

    Attributes:
        value: the part.
        shape: of the whole array, or of the token.
        sharding: how it is cut; None for a token.
    """

    value: HloInstruction
    shape: Shape
    sharding: AxisSharding | None = None

    def to(self, b: LocalBuilder, target: AxisSharding | None) -> Held:
        """The same in another sharding; as it is for None and for tokens."""
        if target is None or self.sharding is None or target == self.sharding:
            return self
        made = reshard(b, self.value, self.shape, self.sharding, target)
        return replace(self, value=made, sharding=target)


Leaves = tuple[Held, ...]
"""A value: its arrays and tokens, in order, without the tuples around them."""

Cuts = tuple[AxisSharding | None, ...]
"""The shardings of a value's arrays; None for tokens."""


def cuts_of(leaves: Leaves) -> Cuts:
    """How the arrays of a value are cut."""
    return tuple(leaf.sharding for leaf in leaves)


def local_shape(shape: Shape, cuts: Sequence[AxisSharding | None]) -> Shape:
    """The shape of one device's part of a value."""
    rest = iter(cuts)

    def cut(part: Shape) -> Shape:
        if part.is_tuple:
            return tuple_of(*map(cut, part.tuple_shapes))
        sharding = next(rest)
        return part if sharding is None else sharding.local(part)

    return cut(shape)


def part_leaves(leaves: Leaves, shape: Shape, index: int) -> Leaves:
    """The leaves of one part of a tuple of ``shape``."""
    counts = [len(flattened_shapes(part)) for part in shape.tuple_shapes[: index + 1]]
    return leaves[sum(counts[:-1]) : sum(counts)]


def assembled(b: LocalBuilder, leaves: Leaves, shape: Shape) -> HloInstruction:
    """One instruction for a value: its array, or a tuple of what it holds."""
    rest = iter(leaves)

    def make(part: Shape) -> HloInstruction:
        if part.is_tuple:
            return b.op("tuple", *[make(each) for each in part.tuple_shapes])
        return next(rest).value

    return make(shape)


def taken_apart(b: LocalBuilder, value: HloInstruction, shape: Shape, cuts: Cuts) -> Leaves:
    """The leaves of an instruction that gives the parts of a value of ``shape``."""
    rest = iter(cuts)

    def walk(part: Shape, at: HloInstruction) -> Iterator[Held]:
        if not part.is_tuple:
            yield Held(at, part, next(rest))
            return
        for number, each in enumerate(part.tuple_shapes):
            yield from walk(each, b.op("get-tuple-element", at, index=number))

    return tuple(walk(shape, value))
