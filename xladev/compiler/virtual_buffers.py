"""Virtual buffers: what a plan keeps in memory, when each is needed, and where it then lies.

Time is the number of the step in the order of the walk; a loop's state and whatever else outlives a
turn is touched after the loop, so that lifetimes are intervals.
"""

from __future__ import annotations

from dataclasses import dataclass

from xladev.compiler.arena import Lifetime, place
from xladev.compiler.kernel_plan import Slice, Space
from xladev.hlo.literal import Literal


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

    Attributes:
        time: now.
    """

    def __init__(self) -> None:
        self.time = 0
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

    def place_temporaries(self) -> int:
        """Gives every temporary its place in the arena; returns the arena's size in bytes."""
        lifetimes = [Lifetime(t.nbytes, t.first, t.last) for t in self._temporaries]
        offsets, nbytes = place(lifetimes)
        for buffer, offset in zip(self._temporaries, offsets, strict=True):
            self._slices[buffer] = Slice(Space.SCRATCH, 0, offset, buffer.nbytes)
        return nbytes

    def slice(self, buffer: VirtualBuffer) -> Slice:
        """Where a buffer lies; temporaries must have been placed."""
        found = self._slices.get(buffer)
        return found or Slice(buffer.space, buffer.index, 0, buffer.nbytes)
