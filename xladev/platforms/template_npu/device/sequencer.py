"""The sequencer: in which order a command list runs, how long it takes, and whether it may.

Neither control flow nor scratchpad addresses depend on data, so bounds, alignment, uninitialised
reads, hazards, deadlocks and cycles are found once, when a list is loaded. Only DRAM windows and
the indices of `gather` and `scatter` are checked while it runs.

What a vendor replaces: nothing; it is the simulated hardware.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from xladev.platforms.template_npu.device import isa
from xladev.platforms.template_npu.device.access import Access, Accesses, accesses_of
from xladev.platforms.template_npu.device.assembler import disassemble_word
from xladev.platforms.template_npu.device.faults import DeviceFault, FaultCode, FaultRecord
from xladev.platforms.template_npu.device.functions import binary_function, vector_function
from xladev.platforms.template_npu.device.isa import Instruction
from xladev.platforms.template_npu.device.timing import Counters, cycles_of, element_count

MAX_COUNT = 1 << 20


@dataclass(frozen=True, slots=True)
class SequencerStep:
    """An instruction that may run.

    Attributes:
        index: its number in the list.
        instruction: what it does.
        accesses: what it touches.
    """

    index: int
    instruction: Instruction
    accesses: Accesses


@dataclass(frozen=True, slots=True)
class SequencerSchedule:
    """A list in the order in which it runs.

    Attributes:
        steps: what runs, up to a fault.
        fault: why the rest does not; None if all runs.
        counters: figures of the steps.
    """

    steps: tuple[SequencerStep, ...]
    fault: FaultRecord | None
    counters: Counters


def schedule(code: bytes) -> SequencerSchedule:
    """The schedule of a command list; never raises."""
    if len(code) % isa.WORD_NBYTES:
        fault = FaultRecord(FaultCode.BAD_SIZE, -1, f"{len(code)} bytes are no whole words")
        return SequencerSchedule((), fault, Counters())
    return _Sequencer(isa.words_of(code)).run()


def check_legal(i: Instruction) -> None:
    """Checks fields that do not depend on other instructions.

    Raises:
        DeviceFault: ILLEGAL_INSTRUCTION.
    """
    problem = _problem(i)
    if problem:
        raise DeviceFault(FaultCode.ILLEGAL_INSTRUCTION, problem)


def _problem(i: Instruction) -> str:
    if max(i.type, i.result) >= len(isa.TYPES):
        return "no such element type"
    if isa.TYPES[i.type].name not in i.opcode.types:
        return f"{i.opcode.name} of {isa.TYPES[i.type].name}"
    if i.opcode.functions and i.function >= len(i.opcode.functions):
        return f"no function {i.function}"
    if min(i.counts) < 1 or max(i.counts) > MAX_COUNT:
        return f"counts {i.counts} are not from 1 to {MAX_COUNT}"
    for semaphore in (*(s for s, _ in i.waits), i.signal):
        if isa.SEMAPHORE_COUNT <= semaphore != isa.NO_SEMAPHORE:
            return f"no semaphore {semaphore}"
    if i.opcode.format == "vector":
        return _vector_problem(i)
    return _matrix_problem(i) if i.opcode.format == "matrix" else ""


def _vector_problem(i: Instruction) -> str:
    if i.counts[3] > isa.MAX_LANES:
        return f"{i.counts[3]} lanes are more than {isa.MAX_LANES}"
    name, type_ = i.opcode.name, isa.TYPES[i.type]
    if name in ("fill", "iota"):
        return "" if i.type == i.result else "two element types"
    if name == "quantize":
        exponent, _ = divmod(i.scalar("imm"), 256)
        return "" if i.type == i.result and exponent else "no such format"
    if name == "reduce":
        known = binary_function(i.function_name, type_) is not None
    else:
        known = vector_function(name, i.function_name, i.type, i.result) is not None
    return "" if known else f"no {name} {i.function_name} of {type_.name}"


def _matrix_problem(i: Instruction) -> str:
    sizes = i.scalars[:3]
    if min(sizes) < 1 or max(sizes) > isa.TILE or i.counts[3] != 1:
        return f"a tile of {sizes}, or a fourth loop"
    wanted = "f32" if isa.TYPES[i.type].is_float else "s32"
    return "" if isa.TYPES[i.result].name == wanted else f"the result must be {wanted}"


@dataclass(slots=True)
class _Signal:
    """One raise of a semaphore: when, and what had happened before."""

    time: int
    clock: list[int]


class _Sequencer:
    def __init__(self, words: list[bytes]) -> None:
        self.words = words
        self.decoded = [isa.decode(word) for word in words]
        self.steps: list[SequencerStep] = []
        self.free_at = [0, 0, 0, 0]
        self.busy = [0, 0, 0, 0]
        self.clocks = [[0, 0, 0, 0] for _ in isa.ENGINES]
        self.signals: list[list[_Signal]] = [[] for _ in range(isa.SEMAPHORE_COUNT)]
        self.owners: dict[int, int] = {}
        self.history: list[list[Accesses]] = [[] for _ in isa.ENGINES]
        self.written = np.zeros(isa.SCRATCHPAD_NBYTES, np.bool_)
        self.moved = [0, 0]
        self.multiply_adds = 0

    def run(self) -> SequencerSchedule:
        queues = self._queues()
        at = -1
        fault = None
        try:
            while any(queues):
                at = self._next(queues)
                self._take(at)
                queues[self._engine(at)].popleft()
        except DeviceFault as e:
            at = max(at, 0) if e.code is not FaultCode.DEADLOCK else min(q[0] for q in queues if q)
            fault = FaultRecord(e.code, at, e.text, disassemble_word(self.words[at]))
        loaded, stored = self.moved
        counters = Counters(
            max(self.free_at),
            tuple(self.busy),
            len(self.steps),
            loaded,
            stored,
            self.multiply_adds,
        )
        return SequencerSchedule(tuple(self.steps), fault, counters)

    def _engine(self, at: int) -> int:
        """The engine of a word; the first one meets what is no instruction."""
        instruction = self.decoded[at]
        return 0 if instruction is None else instruction.opcode.engine

    def _queues(self) -> list[deque[int]]:
        queues: list[deque[int]] = [deque() for _ in isa.ENGINES]
        for at in range(len(self.words)):
            queues[self._engine(at)].append(at)
        return queues

    def _next(self, queues: list[deque[int]]) -> int:
        """The first word in the list among those at the head of a queue that may run."""
        heads = sorted(q[0] for q in queues if q)
        for at in heads:
            instruction = self.decoded[at]
            if instruction is None or all(self._reached(s, v) for s, v in instruction.waits):
                return at
        raise DeviceFault(FaultCode.DEADLOCK, "it waits for a semaphore that nobody raises so far")

    def _reached(self, semaphore: int, value: int) -> bool:
        if semaphore >= isa.SEMAPHORE_COUNT:
            return True  # check_legal says so when it runs
        return len(self.signals[semaphore]) >= value

    def _take(self, at: int) -> None:
        instruction = self.decoded[at]
        if instruction is None:
            raise DeviceFault(FaultCode.ILLEGAL_INSTRUCTION, "unknown opcode")
        check_legal(instruction)
        accesses = accesses_of(instruction)
        self._check_initialized(accesses)
        engine = instruction.opcode.engine
        clock, start = self._wait(instruction)
        self._check_hazards(accesses, engine, clock)
        cycles = cycles_of(instruction, accesses)
        self.free_at[engine] = start + cycles
        self.busy[engine] += cycles
        self.history[engine].append(accesses)
        clock[engine] += 1
        self._signal(instruction, engine, clock)
        self._count(instruction)
        self.steps.append(SequencerStep(at, instruction, accesses))

    def _wait(self, i: Instruction) -> tuple[list[int], int]:
        """What has happened before the instruction, by engine, and when it starts."""
        engine = i.opcode.engine
        clock, start = self.clocks[engine], self.free_at[engine]
        for semaphore, value in i.waits:
            if value:
                signal = self.signals[semaphore][value - 1]
                clock[:] = map(max, clock, signal.clock)
                start = max(start, signal.time)
        return clock, start

    def _signal(self, i: Instruction, engine: int, clock: list[int]) -> None:
        if i.signal == isa.NO_SEMAPHORE:
            return
        if self.owners.setdefault(i.signal, engine) != engine:
            raise DeviceFault(
                FaultCode.ILLEGAL_INSTRUCTION, f"two engines raise semaphore {i.signal}"
            )
        self.signals[i.signal].append(_Signal(self.free_at[engine], list(clock)))

    def _check_initialized(self, accesses: Accesses) -> None:
        for name, read in accesses.reads.items():
            if not read.flags(self.written).all():
                raise DeviceFault(
                    FaultCode.UNINITIALIZED,
                    f"{name} reads bytes {read.low} to {read.high}, not all of them written",
                )
        for write in accesses.writes.values():
            write.flags(self.written)[...] = True

    def _check_hazards(self, accesses: Accesses, engine: int, clock: list[int]) -> None:
        for other, history in enumerate(self.history):
            if other == engine:
                continue
            for earlier in history[clock[other] :]:
                clash = _clash(accesses, earlier)
                if clash:
                    raise DeviceFault(
                        FaultCode.HAZARD,
                        f"{clash} is not ordered after the {isa.ENGINES[other]} engine",
                    )

    def _count(self, i: Instruction) -> None:
        if i.opcode.format == "dma":
            nbytes = element_count(i) * isa.TYPES[i.type].nbytes
            self.moved[i.opcode.engine == isa.STORE] += nbytes
        elif i.opcode.format == "matrix":
            m, n, k, _ = i.scalars
            self.multiply_adds += element_count(i) * m * n * k


def _clash(later: Accesses, earlier: Accesses) -> str:
    """The name of an operand that conflicts; empty if there is none."""
    for name, write in later.writes.items():
        if any(_overlap(write, a) for a in (*earlier.reads.values(), *earlier.writes.values())):
            return name
    for name, read in later.reads.items():
        if any(_overlap(read, a) for a in earlier.writes.values()):
            return name
    return ""


def _overlap(a: Access, b: Access) -> bool:
    return a.low < b.high and b.low < a.high
