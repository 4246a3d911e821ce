"""Groups of kernels that may become one kernel: their order stays without circles.

Every instruction has a level above those of what it needs. A group of instructions has a level too,
and two groups may be joined if a level fits between what both need and what needs either: then no
instruction outside can be on a way from one to the other. Joining costs no search.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from xladev.compiler.schedule.work_graph import keeps_order
from xladev.hlo.ir import HloComputation, HloInstruction

_ROOM = 1e-9
"""Levels nearer than this are not told apart."""


class KernelGroups:
    """The instructions of a computation in groups; at first each is alone."""

    def __init__(self, computation: HloComputation, ordered: AbstractSet[str]) -> None:
        self._needs: dict[HloInstruction, set[HloInstruction]] = {}
        self._needed_by: dict[HloInstruction, set[HloInstruction]] = {}
        self._leader: dict[HloInstruction, HloInstruction] = {}
        self._members: dict[HloInstruction, list[HloInstruction]] = {}
        self._level: dict[HloInstruction, float] = {}
        before: tuple[HloInstruction, ...] = ()
        for i in computation.instructions:
            needed = {*i.operands, *i.note.control_predecessors}
            if keeps_order(i, ordered):
                needed.update(before)
                before = (i,)
            self._add(i, needed)

    def _add(self, i: HloInstruction, needed: set[HloInstruction]) -> None:
        self._needs[i] = needed
        self._needed_by[i] = set()
        for n in needed:
            self._needed_by[n].add(i)
        self._leader[i] = i
        self._members[i] = [i]
        self._level[i] = max((self._level[n] for n in needed), default=0.0) + 1.0

    def members(self, i: HloInstruction) -> list[HloInstruction]:
        """The group of an instruction, itself included."""
        return self._members[self._leader[i]]

    def groups(self) -> Iterable[list[HloInstruction]]:
        """All groups of two or more."""
        return (group for group in self._members.values() if len(group) > 1)

    def join(self, first: HloInstruction, second: HloInstruction) -> bool:
        """Makes the groups of two instructions one; False if their order forbids it."""
        both = self.members(first) + self.members(second)
        inside = set(both)
        needed = {n for i in both for n in self._needs[i]} - inside
        needing = {n for i in both for n in self._needed_by[i]} - inside
        low = max((self._level[n] for n in needed), default=0.0)
        high = min((self._level[n] for n in needing), default=low + 2.0)
        if high - low < _ROOM:
            return False
        leader, other = self._leader[first], self._leader[second]
        if leader is other:
            return True
        self._members[leader] = both
        del self._members[other]
        for i in both:
            self._leader[i] = leader
            self._level[i] = (low + min(high, low + 2.0)) / 2
        return True
