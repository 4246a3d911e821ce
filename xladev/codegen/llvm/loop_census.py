"""Which loops of a function LLVM might still make faster: long ones without a vector in them.

A loop that was written in vectors is what it should be, and LLVM's loop passes, which take most of
its time, find nothing to do. A loop over single elements gains from them, if it runs often enough
to be noticed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

UNKNOWN_TRIPS = 1 << 20
"""Iterations of a loop whose bounds are not constants: more than can be ignored."""


@dataclass(slots=True)
class _Nest:
    trips: int
    is_innermost: bool = True
    has_call: bool = False


@dataclass(slots=True)
class LoopCensus:
    """Counts while a function is written.

    Attributes:
        scalar_trips: most iterations, of all around it together, of an innermost loop that is in
            no vectors.
        busy_trips: the same of any innermost loop that calls no microkernel.
        leaves_work: whether a microkernel is called beside which the loops take little time.
    """

    scalar_trips: int = 0
    busy_trips: int = 0
    leaves_work: bool = False
    _open: list[_Nest] = field(default_factory=list[_Nest])

    def enter(self, trips: int) -> None:
        """A loop begins, of so many iterations."""
        if self._open:
            self._open[-1].is_innermost = False
            trips *= self._open[-1].trips
        self._open.append(_Nest(trips))

    def call(self, *, is_long: bool) -> None:
        """A microkernel is called here."""
        self.leaves_work |= is_long
        for nest in self._open:
            nest.has_call = True

    def leave(self, lines: Collection[str]) -> None:
        """The innermost open loop ends; ``lines`` are its instructions."""
        nest = self._open.pop()
        if nest.is_innermost and not _is_in_vectors(lines):
            self.scalar_trips = max(self.scalar_trips, nest.trips)
        if nest.is_innermost and not nest.has_call:
            self.busy_trips = max(self.busy_trips, nest.trips)

    def mark(self) -> tuple[int, int, bool, int]:
        """Where it is now, for `reset`."""
        return self.scalar_trips, self.busy_trips, self.leaves_work, len(self._open)

    def reset(self, mark: tuple[int, int, bool, int]) -> None:
        """Forgets the loops since a mark."""
        self.scalar_trips, self.busy_trips, self.leaves_work, depth = mark
        del self._open[depth:]


def _is_in_vectors(lines: Collection[str]) -> bool:
    """False where no line has a vector, or a vector is only filled lane by lane."""
    if any(_is_insertion(line) for line in lines):
        return False
    return any("<" in line for line in lines)


def _is_insertion(line: str) -> bool:
    """True if it sets a lane whose number is not a constant."""
    return "insertelement" in line and line.rpartition(" ")[2].startswith("%")
