"""Places buffers with known lifetimes in one arena, in order of time or of size."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from xladev.compiler.description import MemorySpace

Offsets = npt.NDArray[np.int64]

MOST_BY_SIZE = 2000
"""Most buffers that are placed in order of size, which is quadratic."""

ALIGNMENT = 64
"""Every buffer starts at a multiple of this many bytes, at least."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """One buffer: its size, and the first and last moment it is needed, both inclusive."""

    nbytes: int
    first: int
    last: int


Placement = Callable[[Sequence[Lifetime], int], tuple[list[int], int]]
"""A way to place buffers; see `place`."""


def place(lifetimes: Sequence[Lifetime], alignment: int = ALIGNMENT) -> tuple[list[int], int]:
    """Offsets of the buffers, so that none overlap while both are needed.

    Best fit in order of time is near-linear, and can leave small buffers where large ones would
    fit. Where it needs more than lives at once, the largest are placed first instead if that is
    better.

    Args:
        lifetimes: the buffers; order does not matter.
        alignment: bytes of which every offset, and the size, is a multiple; a power of two.

    Returns:
        One offset per buffer, and the size of the arena, in bytes.
    """
    offsets, nbytes = place_by_time(lifetimes, alignment)
    if nbytes == _most_alive(lifetimes, alignment) or len(lifetimes) > MOST_BY_SIZE:
        return offsets, nbytes
    others, other_nbytes = place_by_size(lifetimes, alignment)
    return (others, other_nbytes) if other_nbytes < nbytes else (offsets, nbytes)


def _most_alive(lifetimes: Sequence[Lifetime], alignment: int) -> int:
    """The most bytes needed at any moment: no arena can be smaller."""
    changes: dict[int, int] = {}
    for lifetime in lifetimes:
        nbytes = padded(lifetime.nbytes, alignment)
        changes[lifetime.first] = changes.get(lifetime.first, 0) + nbytes
        changes[lifetime.last + 1] = changes.get(lifetime.last + 1, 0) - nbytes
    return max(accumulate(changes[time] for time in sorted(changes)), default=0)


def place_by_size(
    lifetimes: Sequence[Lifetime], alignment: int = ALIGNMENT
) -> tuple[list[int], int]:
    """As `place`: the largest first, each at the lowest offset where it fits; quadratic."""
    order = sorted(range(len(lifetimes)), key=lambda n: (-lifetimes[n].nbytes, lifetimes[n].first))
    first = np.array([lifetimes[n].first for n in order])
    last = np.array([lifetimes[n].last for n in order])
    start = np.zeros(len(order), np.int64)
    end = np.zeros(len(order), np.int64)
    for at, number in enumerate(order):
        meets = (first[:at] <= last[at]) & (last[:at] >= first[at])
        nbytes = padded(lifetimes[number].nbytes, alignment)
        start[at] = _lowest_gap(start[:at][meets], end[:at][meets], nbytes)
        end[at] = start[at] + nbytes
    offsets = [0] * len(order)
    for at, number in enumerate(order):
        offsets[number] = int(start[at])
    return offsets, int(end.max(initial=0))


def _lowest_gap(start: Offsets, end: Offsets, nbytes: int) -> int:
    """The lowest offset at which so many bytes are in none of the taken ranges."""
    if not len(start):
        return 0
    order = np.argsort(start)
    taken_to = np.concatenate([[0], np.maximum.accumulate(end[order])])
    gap = np.append(start[order], np.iinfo(np.int64).max) - taken_to
    return int(taken_to[np.argmax(gap >= nbytes)])


def place_by_time(
    lifetimes: Sequence[Lifetime], alignment: int = ALIGNMENT
) -> tuple[list[int], int]:
    """As `place`: each in the smallest hole that is free when it is first needed."""
    offsets = [0] * len(lifetimes)
    free = _FreeList()
    ending: list[tuple[int, int]] = []
    for number in sorted(
        range(len(lifetimes)), key=lambda n: (lifetimes[n].first, -lifetimes[n].nbytes)
    ):
        while ending and -ending[-1][0] < lifetimes[number].first:
            done = ending.pop()[1]
            free.release(offsets[done], padded(lifetimes[done].nbytes, alignment))
        offsets[number] = free.take(padded(lifetimes[number].nbytes, alignment))
        insort(ending, (-lifetimes[number].last, number))
    return offsets, free.end


def padded(nbytes: int, alignment: int = ALIGNMENT) -> int:
    """Bytes that a buffer takes in the arena."""
    return max(-(-nbytes // alignment), 1) * alignment


def arena_alignment(space: MemorySpace) -> int:
    """Alignment of what is in an arena in a memory: what that one declares, or more."""
    return max(ALIGNMENT, space.alignment)


class _FreeList:
    """Holes below the end of the arena, ordered by offset; neighbours are merged."""

    def __init__(self) -> None:
        self.end = 0
        self._holes: list[tuple[int, int]] = []

    def take(self, nbytes: int) -> int:
        """Offset of the smallest hole that fits, or of the arena's grown end."""
        fitting = [(size, at) for at, (_, size) in enumerate(self._holes) if size >= nbytes]
        if not fitting:
            return self._grow(nbytes)
        size, at = min(fitting)
        offset, _ = self._holes[at]
        if size == nbytes:
            del self._holes[at]
        else:
            self._holes[at] = (offset + nbytes, size - nbytes)
        return offset

    def _grow(self, nbytes: int) -> int:
        """Extends the arena, from its last hole if that one touches the end."""
        if self._holes and sum(self._holes[-1]) == self.end:
            offset, _ = self._holes.pop()
        else:
            offset = self.end
        self.end = offset + nbytes
        return offset

    def release(self, offset: int, nbytes: int) -> None:
        """Makes a hole, merged with its neighbours."""
        insort(self._holes, (offset, nbytes))
        at = self._holes.index((offset, nbytes))
        if at + 1 < len(self._holes) and offset + nbytes == self._holes[at + 1][0]:
            nbytes += self._holes.pop(at + 1)[1]
        if at and sum(self._holes[at - 1]) == offset:
            offset, size = self._holes.pop(at - 1)
            nbytes, at = nbytes + size, at - 1
        self._holes[at] = (offset, nbytes)
