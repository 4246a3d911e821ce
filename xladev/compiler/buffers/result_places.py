"""Values on their way to a result: each may be in the result's own memory until then.

A gradient that only the update of its weights reads, element by element, needs no memory of its
own if the updated weights are a result: it is computed where they will be, and overwritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xladev.compiler.buffers.in_place import in_place_pairs
from xladev.compiler.plan.kernel_table import InPlace, kernel_computation
from xladev.hlo.array_values import ArrayValue, is_grouping
from xladev.hlo.ir import HloComputation, HloInstruction

_NOT_IN_PLACE = frozenset({"conditional", "call", "parameter", "constant", "after-all"})
_NOWHERE_ELSE = frozenset({"parameter", "constant"})

Source = Mapping[HloInstruction, tuple[ArrayValue, ...]]


def in_place_of(i: HloInstruction) -> InPlace:
    """Pairs (result value, operand value) for which an instruction may work in place."""
    if i.opcode in _NOT_IN_PLACE:
        return frozenset()
    if i.opcode == "while":
        return frozenset((n, n) for n, _ in enumerate(i.shape.leaves()))
    if not all(o.shape.is_array for o in i.operands):
        return frozenset()
    return in_place_pairs(kernel_computation(i))


def result_places(computation: HloComputation, source: Source) -> Mapping[ArrayValue, ArrayValue]:
    """For values that may be where a value of the root is wanted, that value.

    Such a value is read last by an instruction that makes the value of the root, or another such
    one, in its place.
    """
    last = _last_readers(computation, source)
    results = dict.fromkeys(source[computation.root])
    readings: dict[HloInstruction, _Reading] = {}
    found: dict[ArrayValue, ArrayValue] = {}
    for result in results:
        value: ArrayValue | None = result
        while value is not None:
            i = value.producer
            if i not in readings:
                readings[i] = _Reading(i, source)
            value = next(
                (
                    before
                    for before in readings[i].before(value)
                    if last[before] is i and before not in results and before not in found
                ),
                None,
            )
            if value is not None:
                found[value] = result
    return found


def _last_readers(
    computation: HloComputation, source: Source
) -> Mapping[ArrayValue, HloInstruction]:
    """Of each value the instruction that reads it last, in the order in which they run."""
    return {
        value: i
        for i in computation.instructions
        if not is_grouping(i)
        for operand in i.operands
        for value in source[operand]
    }


class _Reading:
    """What one instruction reads, and in the place of which of it it may work."""

    def __init__(self, i: HloInstruction, source: Source) -> None:
        self._read = [x for o in i.operands for x in source[o]]
        self._pairs = in_place_of(i)
        self._is_loop = i.opcode == "while"
        self._at: dict[ArrayValue, list[int]] = {}
        for number, value in enumerate(self._read):
            self._at.setdefault(value, []).append(number)
        self._numbers: dict[int, list[int]] = {}
        for result, number in sorted(self._pairs):
            self._numbers.setdefault(result, []).append(number)

    def before(self, value: ArrayValue) -> Iterator[ArrayValue]:
        """Values in whose place the instruction may make this one of its own."""
        for number in self._numbers.get(value.number, ()):
            before = self._read[number]
            at = self._at[before]
            if (
                before.producer.opcode not in _NOWHERE_ELSE
                and before.shape.nbytes == value.shape.nbytes
                and all((value.number, n) in self._pairs for n in at)
                and (len(at) == 1 or not self._is_loop)
            ):
                yield before
