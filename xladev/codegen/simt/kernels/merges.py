"""Where an element goes when two sorted runs become one: found by a binary search in the other run.

So every element is moved by a thread of its own, whatever the comparator, and equal elements keep
their order: those of the left run come first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xladev.codegen.elemental.choose import flat, unflat
from xladev.codegen.elemental.computation import Elements, emit_computation
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.llvm import Value
from xladev.codegen.scalar.constants import constant_element
from xladev.codegen.scalar.elements import Element, real_of
from xladev.hlo.ir import HloComputation, HloInstruction

Load = Callable[[int, Value], Element]
"""Reads the element of an operand, by number, at a place of the row."""


@dataclass(frozen=True, slots=True)
class Comparator:
    """What says which of two elements comes first.

    Attributes:
        e: where to emit.
        computation: of pairs of scalars, two of each operand.
    """

    e: ElementalEmitter
    computation: HloComputation

    @property
    def operands(self) -> tuple[int, ...]:
        """Numbers of the operands that it looks at."""
        parameters = self.computation.parameters
        used = {o for i in self.computation.instructions for o in i.operands}
        used.add(self.computation.root)
        return tuple(
            n // 2 for n in range(0, len(parameters), 2) if used & set(parameters[n : n + 2])
        )

    def read(self, load: Load, place: Value) -> Elements:
        """The elements at a place that it looks at."""
        return tuple(load(number, place) for number in self.operands)

    def precedes(self, first: Elements, second: Elements) -> Value:
        """Whether the first must come before the second, as an i1."""
        given = dict(zip(self.operands, zip(first, second, strict=True), strict=True))
        arguments: list[Element] = []
        for number, parameter in enumerate(self.computation.parameters[::2]):
            arguments += given.get(number, (_nothing(parameter),) * 2)
        (before,) = emit_computation(self.e, self.computation, tuple(arguments))
        return real_of(before, "a comparison")


def _nothing(parameter: HloInstruction) -> Element:
    return constant_element(parameter.shape.element_type, 0)


def merged_place(c: Comparator, load: Load, x: Value, width: Value, length: Value) -> Value:
    """Where the element at ``x`` of a row goes when runs of ``width`` are merged in pairs.

    Args:
        c: the comparator.
        load: reads elements of the row.
        x: place of the element in the row.
        width: of the sorted runs that the row consists of; the last may be shorter.
        length: of the row.
    """
    b = c.e.b
    left = b.sub(x, b.urem(x, b.shl(width, 1)))
    middle = b.intrinsic("smin", b.add(left, width), length)
    right = b.intrinsic("smin", b.add(middle, width), length)
    is_left = b.icmp("slt", x, middle)
    own = c.read(load, x)

    def goes_on(values: Sequence[Value]) -> Value:
        return b.icmp("slt", values[0], values[1])

    def halve(values: Sequence[Value]) -> Sequence[Value]:
        low, high = values
        half = b.lshr(b.add(low, high), 1)
        with c.e.scope():
            other = c.read(load, half)
            first, second = _ordered(c, is_left, own, other)
            before = b.icmp("eq", c.precedes(first, second), is_left)
        return b.select(before, b.add(half, 1), low), b.select(before, high, half)

    other_start = b.select(is_left, middle, left)
    found, _ = b.while_loop((other_start, b.select(is_left, right, middle)), goes_on, halve)
    return b.sub(b.add(x, found), middle)


def _ordered(
    c: Comparator, is_left: Value, own: Elements, other: Elements
) -> tuple[Elements, Elements]:
    """What is compared: the right run's element, then the left run's."""
    b, pairs = c.e.b, list(zip(flat(own), flat(other), strict=True))
    first = tuple(b.select(is_left, theirs, ours) for ours, theirs in pairs)
    second = tuple(b.select(is_left, ours, theirs) for ours, theirs in pairs)
    return unflat(first, own), unflat(second, own)
