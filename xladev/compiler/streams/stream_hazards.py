"""Which steps must keep their order: those that touch the same memory, one of them writing.

What a step computes from what another made is one case of this; memory that is used again, for
another value, is the other. Nothing is known of values here: only of places.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Needs = tuple[int, ...]
"""Numbers of earlier steps, ascending."""


class MemoryRange(NamedTuple):
    """Bytes of one allocation.

    Attributes:
        allocation: which one; those that differ do not overlap.
        start: first byte.
        end: behind the last one.
    """

    allocation: Hashable
    start: int
    end: int

    def meets(self, other: MemoryRange) -> bool:
        """True if they have a byte in common."""
        common = max(self.start, other.start) < min(self.end, other.end)
        return common and self.allocation == other.allocation


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """The memory that one step touches.

    Attributes:
        reads: what it reads.
        writes: what it writes, or writes and reads.
    """

    reads: tuple[MemoryRange, ...]
    writes: tuple[MemoryRange, ...]

    def must_follow(self, earlier: MemoryAccess) -> bool:
        """True if this step and an earlier one may not change places, nor run at once."""
        return any(
            mine.meets(theirs)
            for ours, others in (
                (self.reads, earlier.writes),
                (self.writes, earlier.reads),
                (self.writes, earlier.writes),
            )
            for mine in ours
            for theirs in others
        )


def needs_of(accesses: Sequence[MemoryAccess]) -> tuple[Needs, ...]:
    """For each step, the earlier ones that it must follow, without most of those implied."""
    parts = _Parts(accesses)
    writers: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    found: list[Needs] = []
    for number, access in enumerate(accesses):
        needed: set[int] = set()
        for part in parts.of(access.reads):
            if part in writers:
                needed.add(writers[part])
            readers.setdefault(part, []).append(number)
        for part in parts.of(access.writes):
            if part in writers:
                needed.add(writers[part])
            needed.update(readers.pop(part, ()))
            writers[part] = number
        found.append(tuple(sorted(needed - {number})))
    return tuple(found)


class _Parts:
    """Numbers for the smallest parts of memory that any access begins or ends at."""

    def __init__(self, accesses: Sequence[MemoryAccess]) -> None:
        cuts: dict[Hashable, set[int]] = {}
        for access in accesses:
            for place in (*access.reads, *access.writes):
                cuts.setdefault(place.allocation, set()).update((place.start, place.end))
        self._cuts = {allocation: sorted(found) for allocation, found in cuts.items()}
        self._first: dict[Hashable, int] = {}
        count = 0
        for allocation, found in self._cuts.items():
            self._first[allocation] = count
            count += len(found)

    def of(self, places: Sequence[MemoryRange]) -> Iterator[int]:
        """The parts of some places."""
        for place in places:
            cuts, first = self._cuts[place.allocation], self._first[place.allocation]
            begin = bisect_left(cuts, place.start)
            yield from range(first + begin, first + bisect_left(cuts, place.end))
