"""One simulated device: DRAM, scratchpad, loaded programs, and running a list against windows.

What a vendor replaces: nothing; it is the simulated hardware. `driver/` is what they wrap.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from xladev.platforms.template_npu.device import isa
from xladev.platforms.template_npu.device.access import Bytes
from xladev.platforms.template_npu.device.assembler import instruction_text
from xladev.platforms.template_npu.device.execute import Run, translate
from xladev.platforms.template_npu.device.faults import DeviceFault, FaultCode, FaultRecord
from xladev.platforms.template_npu.device.sequencer import SequencerSchedule, schedule
from xladev.platforms.template_npu.device.timing import Counters

DRAM_NBYTES = 1 << 30
ALLOCATION_UNIT = 64


class Dram:
    """Device memory with a first-fit allocator; addresses are offsets, 0 is never given out.

    Thread-safe. The lock is this memory's own: garbage collection may strike within `allocate` and
    free memory of another device (never of this one: the SDK then waits until `allocate` is done).
    """

    def __init__(self, nbytes: int = DRAM_NBYTES) -> None:
        self.data: Bytes = np.empty(nbytes, np.uint8)
        self._lock = threading.Lock()
        self._sizes: dict[int, int] = {}
        self._free: list[tuple[int, int]] = [(ALLOCATION_UNIT, nbytes - ALLOCATION_UNIT)]
        self.in_use = 0
        self.peak = 0

    def allocate(self, nbytes: int, alignment: int) -> int:
        """The address of a new block, or 0 if none fits."""
        with self._lock:
            return self._allocate(nbytes, alignment)

    def _allocate(self, nbytes: int, alignment: int) -> int:
        size = -(-max(nbytes, 1) // ALLOCATION_UNIT) * ALLOCATION_UNIT
        for n, (start, room) in enumerate(self._free):
            skip = -start % max(alignment, ALLOCATION_UNIT)
            if skip + size > room:
                continue
            rest = [(start, skip), (start + skip + size, room - skip - size)]
            self._free[n : n + 1] = [part for part in rest if part[1]]
            self._sizes[start + skip] = size
            self.in_use += size
            self.peak = max(self.peak, self.in_use)
            return start + skip
        return 0

    def free(self, address: int) -> bool:
        """Gives a block back; False if there is none at that address."""
        with self._lock:
            return self._release(address)

    def _release(self, address: int) -> bool:
        size = self._sizes.pop(address, 0)
        if not size:
            return False
        self.in_use -= size
        insort(self._free, (address, size))
        self._merge(bisect_left(self._free, (address, size)))
        return True

    def _merge(self, at: int) -> None:
        """Joins the free block number ``at`` with its neighbours."""
        for n in (at, at - 1):
            if 0 <= n < len(self._free) - 1:
                (start, size), (following, more) = self._free[n : n + 2]
                if start + size == following:
                    self._free[n : n + 2] = [(start, size + more)]

    def covers(self, address: int, nbytes: int) -> bool:
        """True if the bytes are within DRAM."""
        return address >= 0 <= nbytes and address + nbytes <= self.data.nbytes

    @property
    def blocks(self) -> int:
        """Number of live blocks."""
        return len(self._sizes)


@dataclass(frozen=True, slots=True)
class CoreProgram:
    """A command list on one device.

    Attributes:
        schedule: what it does, in order.
        runs: the code of each step.
    """

    schedule: SequencerSchedule
    runs: tuple[Run, ...]


class Core:
    """One device. One list runs at a time."""

    def __init__(self, dram_nbytes: int = DRAM_NBYTES) -> None:
        self.dram = Dram(dram_nbytes)
        self.scratchpad: Bytes = np.zeros(isa.SCRATCHPAD_NBYTES, np.uint8)
        self.counters = Counters()
        self.lock = threading.Lock()

    def load(self, code: bytes, *, batched: bool = True) -> CoreProgram:
        """Checks and translates a command list; what is wrong with it shows when it runs."""
        planned = schedule(code)
        runs = tuple(translate(s, self.scratchpad, batched=batched) for s in planned.steps)
        return CoreProgram(planned, runs)

    def run(self, program: CoreProgram, bindings: Sequence[tuple[int, int]]) -> FaultRecord | None:
        """Runs a list to its end or to a fault, which is returned.

        Args:
            program: from `load` of this device.
            bindings: address and size in bytes of each DRAM window.
        """
        for address, nbytes in bindings:
            if not self.dram.covers(address, nbytes):
                return FaultRecord(
                    FaultCode.DRAM_BOUNDS, -1, f"a window of {nbytes} bytes at {address:#x}"
                )
        windows = [self.dram.data[address : address + nbytes] for address, nbytes in bindings]
        with self.lock, np.errstate(all="ignore"):
            for at, run in enumerate(program.runs):
                try:
                    run(windows)
                except DeviceFault as e:
                    return self._dynamic_fault(program, at, e)
            self.counters += program.schedule.counters
        return program.schedule.fault

    def _dynamic_fault(self, program: CoreProgram, at: int, e: DeviceFault) -> FaultRecord:
        step = program.schedule.steps[at]
        self.counters += replace(Counters(), instructions=at)
        return FaultRecord(e.code, step.index, e.text, instruction_text(step.instruction))
