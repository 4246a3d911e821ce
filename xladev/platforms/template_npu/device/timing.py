"""How many cycles an instruction takes, and what a list did in all: deterministic counters.

What a vendor replaces: all of it, by their own cost model, or by reading the hardware's counters.
"""

from __future__ import annotations

from dataclasses import dataclass

from xladev.platforms.template_npu.device import isa
from xladev.platforms.template_npu.device.access import Accesses
from xladev.platforms.template_npu.device.isa import Instruction

CLOCK_HZ = 1_000_000_000
_DMA_START, _VECTOR_START, _MATRIX_START = 64, 8, 16
_DMA_WIDTH, _VECTOR_WIDTH = 64, 128


@dataclass(frozen=True, slots=True)
class Counters:
    """Deterministic figures of one list, or of many.

    Attributes:
        cycles: from the first instruction to the last.
        busy: cycles in which each engine worked, in the order of `isa.ENGINES`.
        instructions: words run.
        loaded_nbytes, stored_nbytes: what DMA moved from and to DRAM.
        multiply_adds: of the matrix unit.
    """

    cycles: int = 0
    busy: tuple[int, ...] = (0, 0, 0, 0)
    instructions: int = 0
    loaded_nbytes: int = 0
    stored_nbytes: int = 0
    multiply_adds: int = 0

    def __add__(self, other: Counters) -> Counters:
        return Counters(
            self.cycles + other.cycles,
            tuple(a + b for a, b in zip(self.busy, other.busy, strict=True)),
            self.instructions + other.instructions,
            self.loaded_nbytes + other.loaded_nbytes,
            self.stored_nbytes + other.stored_nbytes,
            self.multiply_adds + other.multiply_adds,
        )

    @property
    def occupancy(self) -> dict[str, float]:
        """Share of the cycles in which each engine worked, by its name."""
        total = max(self.cycles, 1)
        return {name: busy / total for name, busy in zip(isa.ENGINES, self.busy, strict=True)}


def element_count(i: Instruction) -> int:
    """Elements of all loops."""
    a, b, c, d = i.counts
    return a * b * c * d


def cycles_of(i: Instruction, accesses: Accesses) -> int:
    """Cycles that the engine is busy with a legal instruction."""
    if i.opcode.format == "dma":
        return _dma_cycles(i)
    if i.opcode.format == "matrix":
        slow = 2 if isa.TYPES[i.type].name == "f32" else 1
        return _MATRIX_START + i.counts[0] * i.counts[1] * i.counts[2] * isa.TILE * slow
    weight = 4 if i.function_name in isa.SLOW_FUNCTIONS else 1
    repeats = i.counts[0] * i.counts[1] * i.counts[2]
    passes = repeats * -(-i.counts[3] // _VECTOR_WIDTH)
    banks = [a.address // isa.BANK_NBYTES for a in accesses.reads.values()]
    conflicts = max((banks.count(b) for b in banks), default=1)
    return _VECTOR_START + passes * weight * conflicts


def _dma_cycles(i: Instruction) -> int:
    nbytes = isa.TYPES[i.type].nbytes
    run = nbytes
    for count, sp, dram in zip(
        reversed(i.counts),
        reversed(i.operand("sp").strides),
        reversed(i.operand("dram").strides),
        strict=True,
    ):
        if count > 1 and (sp != run or dram != run):
            break
        run *= count
    total = element_count(i) * nbytes
    return _DMA_START + -(-total // _DMA_WIDTH) + total // run
