"""In what two programs differ: instructions paired by what they compute, whatever their names.

Instructions of equal value numbers are the same. The others are paired, in order, by opcode, shape
and attributes; a pair whose operands are pairs differs only in what feeds it, and is counted, not
shown. What is left was removed, added, or given other operands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule, called_by_attr
from xladev.passes.value_numbers import Key, ValueNumbers

Pairs = Mapping[HloInstruction, HloInstruction]
"""The partner in the second program of each instruction of the first that has one."""


@dataclass(frozen=True, slots=True)
class ComputationDifference:
    """In what a computation differs from its counterpart.

    Attributes:
        first, second: the two.
        same: how many instructions compute the same.
        fed: how many differ only in what feeds them.
        removed: instructions of the first without a partner.
        added: those of the second.
        rewired: pairs with other operands.
    """

    first: HloComputation
    second: HloComputation
    same: int
    fed: int
    removed: tuple[HloInstruction, ...]
    added: tuple[HloInstruction, ...]
    rewired: tuple[tuple[HloInstruction, HloInstruction], ...]

    @property
    def is_empty(self) -> bool:
        """True if nothing differs here, save what feeds it."""
        return not (self.removed or self.added or self.rewired)


def differences(first: HloModule, second: HloModule) -> tuple[ComputationDifference, ...]:
    """What differs, computation by computation, from the entry down; empty if nothing does.

    Names, metadata, and the order of instructions that do not depend on each other are none.
    Computations are counterparts if paired instructions call them.
    """
    return tuple(d for d in _Comparison().run(first.entry, second.entry, first, second) if d)


@dataclass(slots=True)
class _Comparison:
    numbers: ValueNumbers = field(default_factory=ValueNumbers)
    _values: dict[Key, int] = field(default_factory=dict[Key, int])

    def run(
        self,
        entry: HloComputation,
        other: HloComputation,
        first: HloModule,
        second: HloModule,
    ) -> Iterator[ComputationDifference | None]:
        """The differences of all counterparts, each pair once."""
        self.numbers.add_all(first)
        self.numbers.add_all(second)
        pending, seen = [(entry, other)], {(entry, other)}
        while pending:
            a, b = pending.pop(0)
            if self.numbers.add(a) == self.numbers.add(b):
                continue
            pairs, same = self._pairs(a, b)
            yield _difference(a, b, pairs, same)
            for one, two in pairs.items():
                both = [p for p in zip(one.called, two.called, strict=False) if p not in seen]
                seen.update(both)
                pending.extend(both)

    def _pairs(self, a: HloComputation, b: HloComputation) -> tuple[Pairs, int]:
        """Partners, and how many of them are the same."""
        of_a, of_b = self._value_numbers(a), self._value_numbers(b)
        waiting: dict[int, list[HloInstruction]] = defaultdict(list)
        for i in reversed(b.instructions):
            waiting[of_b[i]].append(i)
        pairs = {i: waiting[n].pop() for i, n in of_a.items() if waiting[n]}
        same = len(pairs)
        taken = set(pairs.values())
        rest_a = [i for i in a.instructions if i not in pairs]
        rest_b = [i for i in b.instructions if i not in taken]
        keys_a, keys_b = list(map(self._look, rest_a)), list(map(self._look, rest_b))
        for block in SequenceMatcher(None, keys_a, keys_b, autojunk=False).get_matching_blocks():
            at, to, size = block
            pairs.update(zip(rest_a[at : at + size], rest_b[to : to + size], strict=True))
        return pairs, same

    def _value_numbers(self, computation: HloComputation) -> dict[HloInstruction, int]:
        found: dict[HloInstruction, int] = {}
        for i in computation.instructions:
            key = self.numbers.instruction_key(i, found)
            found[i] = self._values.setdefault(key, len(self._values))
        return found

    def _look(self, instruction: HloInstruction) -> Hashable:
        """Opcode, shape and attributes, without operands and called computations."""
        calls = {name for name, _ in called_by_attr(instruction)}
        attrs = {name: v for name, v in instruction.attrs.items() if name not in calls}
        bare = replace(instruction, attrs=attrs, note=instruction.note.place)
        count = len(instruction.operands)
        return count, self.numbers.instruction_key(bare, defaultdict(int))


def _difference(
    a: HloComputation, b: HloComputation, pairs: Pairs, same: int
) -> ComputationDifference:
    partners = set(pairs.values())
    # those that compute the same come first: copies of one value stand for each other
    others = list(pairs.items())[same:]
    rewired = [(i, p) for i, p in others if not _is_fed_alike(i, p, pairs, partners)]
    return ComputationDifference(
        a,
        b,
        same,
        len(pairs) - same - len(rewired),
        tuple(i for i in a.instructions if i not in pairs),
        tuple(i for i in b.instructions if i not in partners),
        tuple(rewired),
    )


def _is_fed_alike(
    one: HloInstruction, two: HloInstruction, pairs: Pairs, partners: AbstractSet[HloInstruction]
) -> bool:
    """True if the operands are partners, or stand where one was removed and another added."""
    return all(
        pairs[a] is b if a in pairs else b not in partners
        for a, b in zip(one.operands, two.operands, strict=True)
    )
