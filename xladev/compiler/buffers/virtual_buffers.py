"""Virtual buffers: what a plan keeps in memory, when each is needed, and where it then is.

Time is the number of the step in the order of the walk; a loop's state and whatever else outlives a
iteration is touched after the loop, so that lifetimes are intervals.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xladev.compiler.buffers.arena import ALIGNMENT, Lifetime, padded, place
from xladev.compiler.plan.kernel_plan import Slice, Space
from xladev.hlo.literal import Literal

MOST_HOSTS = 64
"""Most results that are looked at for one temporary; bounds the time."""

MOST_GUESTS = 500
"""Most temporaries in one result; bounds the time, too."""


@dataclass(slots=True, eq=False)
class VirtualBuffer:
    """One allocation, or a part of the arena that is chosen when all lifetimes are known.

    Attributes:
        space: `Space.SCRATCH` for temporaries.
        index: which one of its space.
        nbytes: size in bytes.
        first, last: the first and last moment it is needed, both inclusive; -1 if never.
    """

    space: Space
    index: int
    nbytes: int
    first: int = -1
    last: int = -1

    def touch(self, time: int) -> None:
        """Extends the lifetime to a moment."""
        self.first = time if self.first < 0 else min(self.first, time)
        self.last = max(self.last, time)


class BufferPool:
    """The virtual buffers of one plan, and the clock of their lifetimes.

    Args:
        alignment: bytes at whose multiples temporaries are.

    Attributes:
        time: now.
    """

    def __init__(self, alignment: int = ALIGNMENT) -> None:
        self.time = 0
        self._alignment = alignment
        self._temporaries: list[VirtualBuffer] = []
        self._constants: dict[Literal, VirtualBuffer] = {}
        self._slices: dict[VirtualBuffer, Slice] = {}

    @property
    def constants(self) -> tuple[Literal, ...]:
        """The arrays behind `Space.CONSTANT`, by index."""
        return tuple(self._constants)

    def advance(self) -> None:
        """The next moment."""
        self.time += 1

    def touch(self, *buffers: VirtualBuffer) -> None:
        """Marks buffers as needed now."""
        for buffer in buffers:
            buffer.touch(self.time)

    def temporary(self, nbytes: int) -> VirtualBuffer:
        """A new buffer in the arena, needed from now on."""
        buffer = VirtualBuffer(Space.SCRATCH, len(self._temporaries), nbytes)
        buffer.touch(self.time)
        self._temporaries.append(buffer)
        return buffer

    def constant(self, literal: Literal) -> VirtualBuffer:
        """The buffer of an array literal; one for all equal ones."""
        if literal not in self._constants:
            index = len(self._constants)
            self._constants[literal] = VirtualBuffer(Space.CONSTANT, index, literal.shape.nbytes)
        return self._constants[literal]

    def place_temporaries(self, results: Sequence[VirtualBuffer] = ()) -> int:
        """Gives every temporary its place; returns the size in bytes of the arena.

        Args:
            results: memory that is there anyway, and free until it is first touched.
        """
        lodged = lodge(self._temporaries, results, self._alignment)
        self._slices |= lodged
        left = [t for t in self._temporaries if t not in lodged]
        lifetimes = [Lifetime(t.nbytes, t.first, t.last) for t in left]
        offsets, nbytes = place(lifetimes, self._alignment)
        for buffer, offset in zip(left, offsets, strict=True):
            self._slices[buffer] = Slice(Space.SCRATCH, 0, offset, buffer.nbytes)
        return nbytes

    def slice(self, buffer: VirtualBuffer) -> Slice:
        """Where a buffer is; temporaries must have been placed."""
        found = self._slices.get(buffer)
        return found or Slice(buffer.space, buffer.index, 0, buffer.nbytes)


def lodge(
    temporaries: Iterable[VirtualBuffer],
    results: Iterable[VirtualBuffer],
    alignment: int = ALIGNMENT,
) -> dict[VirtualBuffer, Slice]:
    """Where temporaries may be in the memory of results which are not there yet.

    The largest are lodged first, each in the smallest result that has room; side by side or one
    after the other, at multiples of ``alignment``.
    """
    hosts = sorted((r for r in results if r.first > 0), key=lambda r: r.nbytes)
    sizes = [host.nbytes for host in hosts]
    rooms: dict[VirtualBuffer, list[tuple[VirtualBuffer, int]]] = {host: [] for host in hosts}
    found: dict[VirtualBuffer, Slice] = {}
    for guest in sorted(temporaries, key=lambda t: -t.nbytes):
        start = bisect_left(sizes, max(guest.nbytes, 1))
        for host in hosts[start : start + MOST_HOSTS]:
            if guest.last >= host.first or len(rooms[host]) == MOST_GUESTS:
                continue
            offset = _lowest_room(guest, rooms[host], alignment)
            if offset + guest.nbytes <= host.nbytes:
                rooms[host].append((guest, offset))
                found[guest] = Slice(host.space, host.index, offset, guest.nbytes)
                break
    return found


def _lowest_room(
    guest: VirtualBuffer, others: Sequence[tuple[VirtualBuffer, int]], alignment: int
) -> int:
    """The lowest offset at which a guest is beside all those that it meets."""
    offset = 0
    for other, start in sorted((o for o in others if _meet(guest, o[0])), key=lambda o: o[1]):
        if offset + guest.nbytes <= start:
            break
        offset = max(offset, start + padded(other.nbytes, alignment))
    return offset


def _meet(a: VirtualBuffer, b: VirtualBuffer) -> bool:
    return a.first <= b.last and b.first <= a.last
