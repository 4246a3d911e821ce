"""Writes command lists: words, and the semaphores that keep engines apart where they must be.

Every engine raises the semaphore of its own number after each instruction, so that "the first n
instructions of an engine are done" is a wait for the value n. Who wrote and who read a buffer last
is kept with the buffer; an instruction waits for what it needs and no more, which is what makes
loads of the next tile run while this one is computed.

What a vendor replaces: the encoding, and this way of synchronising if theirs is another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xladev.platforms.template_npu.device import isa

_ENGINE_COUNT = len(isa.ENGINES)
_NO_SEMAPHORES = [isa.NO_SEMAPHORE] * isa.WAIT_COUNT
_ZEROS = [0] * isa.WAIT_COUNT


def _none_done() -> list[int]:
    return [0] * _ENGINE_COUNT


@dataclass(slots=True, eq=False)
class TrackedBytes:
    """Bytes of the scratchpad, or one DRAM window, and who used them last.

    Attributes:
        address: first byte in the scratchpad; the binding's number for a window.
        written: per engine, how many of its instructions must be done before it may be read.
        touched: per engine, how many must be done before it may be overwritten.
    """

    address: int
    written: list[int] = field(default_factory=_none_done)
    touched: list[int] = field(default_factory=_none_done)


Reference = tuple[int, tuple[int, ...]]
"""An operand: address and strides in bytes."""

NOWHERE: Reference = (0, (0, 0, 0, 0))


class CommandList:
    """Collects words.

    Attributes:
        issued: instructions per engine so far.
    """

    def __init__(self) -> None:
        self.issued = _none_done()
        self._known = [_none_done() for _ in range(_ENGINE_COUNT)]
        self._words: list[bytes] = []

    def code(self) -> bytes:
        """The list's bytes."""
        return b"".join(self._words)

    def __len__(self) -> int:
        return len(self._words)

    def scratchpad_buffer(self, address: int) -> TrackedBytes:
        """A buffer whose bytes may have been used before by anything issued so far."""
        return TrackedBytes(address, list(self.issued), list(self.issued))

    def emit(
        self,
        opcode: isa.Opcode,
        function: int,
        types: tuple[int, int],
        counts: Sequence[int],
        operands: Sequence[Reference],
        scalars: Sequence[int],
        reads: Iterable[TrackedBytes],
        writes: Iterable[TrackedBytes],
    ) -> None:
        """Appends an instruction.

        Args:
            opcode: its row of the table.
            function: index into the row's functions.
            types: numbers of the element type and of the result's.
            counts: four loop counts, outermost first.
            operands: in the order of the opcode's format.
            scalars: in the order of the opcode's format.
            reads, writes: the buffers, windows included, that it uses.
        """
        engine = opcode.engine
        needed = self._needed(reads, writes)
        semaphores, values = self._waits(engine, needed)
        fields = [opcode.number, function, *types, engine, *semaphores, *values, *counts]
        for address, strides in operands:
            fields.append(address)
            fields += strides
        self._words.append(isa.FORMATS[opcode.format].layout.pack(*fields, *scalars))
        self._done(engine, reads, writes)

    def _needed(self, reads: Iterable[TrackedBytes], writes: Iterable[TrackedBytes]) -> list[int]:
        needed = _none_done()
        for buffer in reads:
            needed = list(map(max, needed, buffer.written))
        for buffer in writes:
            needed = list(map(max, needed, buffer.touched))
        return needed

    def _waits(self, engine: int, needed: list[int]) -> tuple[list[int], list[int]]:
        known = self._known[engine]
        if all(other == engine or n <= known[other] for other, n in enumerate(needed)):
            return _NO_SEMAPHORES, _ZEROS
        semaphores, values = list(_NO_SEMAPHORES), list(_ZEROS)
        at = 0
        for other, n in enumerate(needed):
            if other != engine and n > known[other]:
                known[other] = semaphores_value = n
                semaphores[at], values[at] = other, semaphores_value
                at += 1
        return semaphores, values

    def _done(
        self, engine: int, reads: Iterable[TrackedBytes], writes: Iterable[TrackedBytes]
    ) -> None:
        self.issued[engine] = count = self.issued[engine] + 1
        for buffer in reads:
            buffer.touched[engine] = count
        for buffer in writes:
            buffer.touched[engine] = buffer.written[engine] = count
