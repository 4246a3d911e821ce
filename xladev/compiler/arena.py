"""Places buffers with known lifetimes in one arena: best fit in order of time, near-linear."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 64
"""Every buffer starts at a multiple of this many bytes."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """One buffer: its size, and the first and last moment it is needed, both inclusive."""

    nbytes: int
    first: int
    last: int


def place(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Offsets of the buffers, so that none overlap while both are needed.

    Args:
        lifetimes: the buffers; order does not matter.

    Returns:
        One offset per buffer, and the size of the arena, in bytes.
    """
    offsets = [0] * len(lifetimes)
    free = _FreeList()
    ending: list[tuple[int, int]] = []
    for number in sorted(
        range(len(lifetimes)), key=lambda n: (lifetimes[n].first, -lifetimes[n].nbytes)
    ):
        while ending and -ending[-1][0] < lifetimes[number].first:
            done = ending.pop()[1]
            free.release(offsets[done], padded(lifetimes[done].nbytes))
        offsets[number] = free.take(padded(lifetimes[number].nbytes))
        insort(ending, (-lifetimes[number].last, number))
    return offsets, free.end


def padded(nbytes: int) -> int:
    """Bytes that a buffer takes in the arena."""
    return max(-(-nbytes // ALIGNMENT), 1) * ALIGNMENT


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
