"""Fault codes: what the device reports when a command list cannot go on.

What a vendor replaces: the codes, by those of their driver's header file.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class FaultCode(IntEnum):
    """Why a command list stopped, or a driver call failed."""

    OK = 0
    ILLEGAL_INSTRUCTION = 1  # unknown opcode, function or type, counts out of range
    SCRATCHPAD_BOUNDS = 2  # an address outside of the scratchpad
    MISALIGNED = 3  # an address or stride that is no multiple of the element size
    UNINITIALIZED = 4  # a read of scratchpad bytes that this list has not written
    HAZARD = 5  # two engines touch the same bytes without a semaphore between them
    DEADLOCK = 6  # nothing can go on: semaphores that nobody raises
    DRAM_BOUNDS = 7  # a DMA outside of the window bound to it, or no such window
    OUT_OF_MEMORY = 8  # an allocation that does not fit
    BAD_HANDLE = 9  # a device, queue, program, fence or address that is not there
    BAD_SIZE = 10  # a command list that is not made of whole words, a copy of unequal sizes
    TIMEOUT = 11  # a wait that took longer than allowed


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One fault of a command list.

    Attributes:
        code: why.
        index: number of the instruction in its list; -1 if it was none.
        text: what was wrong.
        disassembly: the instruction.
    """

    code: FaultCode
    index: int
    text: str
    disassembly: str = ""

    def __str__(self) -> str:
        where = f" at instruction {self.index}: {self.disassembly}" if self.index >= 0 else ""
        return f"{self.code.name}: {self.text}{where}"


class DeviceFault(Exception):
    """Raised within the device where an instruction faults; becomes a `FaultRecord`."""

    def __init__(self, code: FaultCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
