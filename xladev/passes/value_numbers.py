"""Value numbers: equal numbers mean equal computations, found in one forward sweep.

The key of an instruction holds its operands' numbers, not the operands, so that keys stay small on
shared operands and nothing recurses.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xladev.hlo.ir import NO_ANNOTATIONS, HloComputation, HloInstruction, HloModule

COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})
"""Opcodes whose operands may be swapped without changing a bit."""

Key = tuple[Hashable, ...]


@dataclass(slots=True)
class ValueNumbers:
    """Numbers of computations by structure, and keys of instructions.

    Two computations have one number if they agree in everything but names and metadata.
    """

    _numbers: dict[Key, int] = field(default_factory=dict[Key, int])
    _of: dict[HloComputation, int] = field(default_factory=dict[HloComputation, int])

    def add(self, computation: HloComputation) -> int:
        """Number of a computation; those that it calls are numbered before, without recursion."""
        numbered = self._of
        stack = [computation] if computation not in numbered else []
        while stack:
            called = [c for i in stack[-1].instructions if i.op.calling for c in i.called]
            missing = [c for c in called if c not in numbered]
            stack.extend(missing)
            if not missing:
                now = stack.pop()
                key = self._computation_key(now)
                numbered[now] = self._numbers.setdefault(key, len(self._numbers))
        return numbered[computation]

    def add_all(self, module: HloModule) -> None:
        """Numbers every computation of a module."""
        for computation in module.computations:
            self.add(computation)

    def instruction_key(
        self, instruction: HloInstruction, numbers: Mapping[HloInstruction, int]
    ) -> Key:
        """What makes two instructions the same value.

        Args:
            instruction: the one to describe.
            numbers: value numbers of its operands and control predecessors.
        """
        operands: Any = tuple([numbers[o] for o in instruction.operands])
        op = instruction.op
        if len(operands) == 2 and op.name in COMMUTATIVE and operands[0] > operands[1]:
            operands = operands[::-1]
        attrs = self._attrs_key(instruction) if instruction.attrs else ()
        note = instruction.note
        if note is NO_ANNOTATIONS:
            return op, instruction.shape, operands, attrs
        before = tuple([numbers[p] for p in note.control_predecessors])
        rest = (
            note.sharding, note.frontend_attributes, note.backend_config, note.device, before
        )  # fmt: skip
        if rest == _NOTHING:
            return op, instruction.shape, operands, attrs
        return op, instruction.shape, operands, attrs, rest

    def _attrs_key(self, instruction: HloInstruction) -> Key:
        attrs = instruction.attrs
        names = attrs if len(attrs) == 1 else sorted(attrs)
        return tuple([(name, self._value_key(attrs[name])) for name in names])

    def _value_key(self, value: Any) -> Hashable:
        if isinstance(value, HloComputation):
            return "computation", self.add(value)
        if isinstance(value, tuple) and value and isinstance(value[0], HloComputation):
            return "computations", tuple(self.add(c) for c in value)
        found: Hashable = value
        return found

    def _computation_key(self, computation: HloComputation) -> Key:
        numbers: dict[HloInstruction, int] = {}
        keys: list[Key] = []
        for instruction in computation.instructions:
            keys.append(self.instruction_key(instruction, numbers))
            numbers[instruction] = len(numbers)
        return (computation.execution_thread, numbers[computation.root], *keys)


_NOTHING: tuple[Any, ...] = (None, (), "", None, ())
