"""Comparators that compare one number of each element: that number decides, as an integer.

JAX's comparator of floats maps zeros to one zero and NaNs to one NaN first; any such mapping of
single elements is found as what it is, a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.index import Index
from xladev.codegen.llvm import FunctionBuilder, Value, integer
from xladev.codegen.scalar.compare import total_order_key
from xladev.codegen.scalar.elements import Element, compute_type, real_of, splat
from xladev.hlo.ir import HloComputation, HloInstruction


class Writing(NamedTuple):
    """What code is written with.

    Attributes:
        b: the function.
        e: elements of computations of scalars.
    """

    b: FunctionBuilder
    e: ElementalEmitter


@dataclass(frozen=True, slots=True)
class SortKey:
    """What a comparator compares: a function of one operand's element.

    Attributes:
        operand: number of the operand of the sort.
        parameter: of the comparator, an element of that operand.
        value: of the comparator, a function of ``parameter`` alone.
        descending: whether greater numbers come first.
    """

    operand: int
    parameter: HloInstruction
    value: HloInstruction
    descending: bool

    @property
    def bits(self) -> int:
        """Width of the key."""
        return max(8, compute_type(self.value.shape.element_type).bits)

    def emit(self, e: ElementalEmitter, element: Element, lanes: int = 1) -> Value:
        """The key of an element, or of a vector of them: unsigned integers, least first."""
        b, dtype = e.b, self.value.shape.element_type
        found = _Lanes(e, {self.parameter: (element,)}, lanes).element(self.value, ())
        number = real_of(found, "a key")
        bits = total_order_key(b, number) if dtype.is_float else number
        if dtype.is_float or dtype.is_signed:
            bits = b.xor(bits, -(1 << (bits.type.bits - 1)))
        bits = b.resize(bits, integer(self.bits), signed=False)
        return b.not_(bits) if self.descending else bits


class _Lanes(ElementalEmitter):
    """Emits a computation of scalars for many lanes at once."""

    def __init__(
        self,
        around: ElementalEmitter,
        scalars: Mapping[HloInstruction, tuple[Element, ...]],
        lanes: int,
    ) -> None:
        super().__init__(around.b, around.rules, scalars=scalars)
        self._lanes = lanes

    def _emit(self, instruction: HloInstruction, index: Index) -> Element:
        return splat(self.b, super()._emit(instruction, index), self._lanes)


def sort_key(comparator: HloComputation) -> SortKey | None:
    """The key that a comparator compares; None if it has none, or numbers without total order."""
    root, parameters = comparator.root, comparator.parameters
    if root.opcode != "compare" or root["direction"] not in ("LT", "GT"):
        return None
    left, right = root.operands
    dtype = left.shape.element_type
    if dtype.is_complex or (dtype.is_float and root["type"] != "TOTALORDER"):
        return None
    read = _parameter_of(left), _parameter_of(right)
    if None in read or not _are_alike(left, right):
        return None
    numbers = [parameters.index(p) for p in read if p is not None]
    operand = numbers[0] // 2
    if sorted(numbers) != [2 * operand, 2 * operand + 1]:
        return None
    descending = (root["direction"] == "GT") != (numbers[0] > numbers[1])
    return SortKey(operand, parameters[numbers[0]], left, descending)


def _parameter_of(value: HloInstruction) -> HloInstruction | None:
    """The only parameter that a value is an elementwise function of."""
    found: set[HloInstruction] = set()
    seen, pending = {value}, [value]
    while pending:
        i = pending.pop()
        if i.opcode == "parameter":
            found.add(i)
        elif i.opcode != "constant" and not i.op.elementwise:
            return None
        if i.shape.rank:
            return None
        new = [o for o in i.operands if o not in seen]
        seen.update(new)
        pending += new
    return found.pop() if len(found) == 1 else None


def _are_alike(left: HloInstruction, right: HloInstruction) -> bool:
    """True if two values are the same function, each of its own parameter."""
    alike: set[tuple[HloInstruction, HloInstruction]] = set()
    pending = [(left, right)]
    while pending:
        pair = pending.pop()
        if pair in alike:
            continue
        alike.add(pair)
        x, y = pair
        if x.opcode != y.opcode or x.shape != y.shape or len(x.operands) != len(y.operands):
            return False
        if x.opcode != "parameter" and dict(x.attrs) != dict(y.attrs):
            return False
        pending += zip(x.operands, y.operands, strict=True)
    return True
