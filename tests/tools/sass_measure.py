"""Kernels of programs as NVIDIA's assembler and disassembler see them: registers, spills, accesses.

Counted are the instructions that a thread executes, without branches for rare operands
(`machine_code`); of a kernel that loops over memory, those of one iteration.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tests.tools.machine_code import Block, MachineCode, parse_machine_code
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.compile import compile_module
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.hlo.ir import HloModule
from xladev.platforms.cuda.codegen.kinds import kind_of
from xladev.platforms.cuda.compiler import CudaCompiler
from xladev.platforms.cuda.libraries.rules import LIBRARIES
from xladev.platforms.cuda.toolkit import assemble, disassembled
from xladev.runtime.registry import current_registry

BUDGET = 132 * 128 * 1.98e9 / 4.3e12
"""Lane instructions for each byte of memory traffic."""
STREAMING = ("row program", "row reduction", "column reduction", "tiled transpose")
"""Kinds of kernels, besides plain loops, whose time should be that of memory."""
LARGE_NBYTES = 1 << 16
"""Traffic below which the launch costs more than anything that is counted here."""


@dataclass(frozen=True, slots=True)
class Collected:
    """A kernel and its PTX: one for each launch."""

    spec: KernelSpec
    kind: str
    codes: tuple[KernelCode, ...]


class CollectingCompiler(CudaCompiler):
    """The compiler for GPUs, with all libraries, which keeps the kernels that it lowers."""

    def __init__(self) -> None:
        super().__init__()
        self.collected: list[Collected] = []

    @property
    def library_opcodes(self) -> frozenset[str]:
        """All: a machine with a GPU has them."""
        return frozenset(LIBRARIES)

    def lower(self, spec: KernelSpec, options: CompileOptions) -> KernelCode:
        """See `CudaCompiler.lower`."""
        code = super().lower(spec, options)
        if code.format == "ptx":
            launches = (code, *code.then)
            self.collected.append(Collected(spec, kind_of(spec).name, launches))
        return code


def collect(module: HloModule, target: str = "sm_90a") -> list[Collected]:
    """The kernels of a program for a GPU; what has none is computed on the host."""
    compiler = CollectingCompiler()
    chosen = CompileTarget("cuda", compiler, compiler.describe(target))
    host = current_registry().platform("interpreter").compile_target()
    compile_module(module, chosen, CompileOptions(target=target), lambda: (host,))
    return compiler.collected


@dataclass(frozen=True, slots=True)
class Measured:
    """One launch of one kernel.

    Attributes:
        name: of program and kernel.
        kind: of kernel.
        registers, spills, stack, shared: see `Assembled`.
        instructions: of the machine code.
        executed: those of them that a thread executes, loops once.
        traffic: bytes of all operands and results; 0 for later launches, which read a workspace.
        per_byte: executed for each byte; of a loop over memory, in one iteration of it.
        per_element: executed by all threads for each element of the largest array; 0 for loops.
        wide: part of the bytes that move in accesses of 16, in inner loops if they access memory.
        is_plain: each element is computed from elements, and memory is all that there is to it.
    """

    name: str
    kind: str
    registers: int
    spills: int
    stack: int
    shared: int
    instructions: int
    executed: int
    traffic: int
    per_byte: float
    per_element: float
    wide: float
    is_plain: bool

    @property
    def is_bound_by_memory(self) -> bool:
        """Whether reading and writing its arrays once is what it should take."""
        return self.traffic >= LARGE_NBYTES and (self.is_plain or self.kind in STREAMING)


def measure(
    collected: Collected, target: str, ptxas: str, nvdisasm: str | None
) -> Iterator[Measured]:
    """Each launch of a kernel; without a disassembler no instructions are counted."""
    spec = collected.spec
    shapes = (*spec.operands, *spec.results)
    traffic = sum(max(1, s.nbytes) for s in shapes)
    for number, code in enumerate(collected.codes):
        found = assemble(code.code.decode(), target, ptxas)
        text = disassembled(found.cubin, nvdisasm) if nvdisasm else ""
        machine = parse_machine_code(text)
        threads = prod(code.dimensions.grid) * prod(code.dimensions.block)
        loop = _loop_over_memory(machine)
        executed = sum(len(b.instructions) for b in machine.cheapest_path)
        moved = [a.nbytes for b in loop or machine.cheapest_path for a in b.accesses]
        done = sum(len(b.instructions) for b in loop)
        yield Measured(
            f"{spec.name}.{number}" if number else spec.name,
            collected.kind,
            found.registers,
            found.spill_nbytes,
            found.stack_nbytes,
            found.shared_nbytes,
            sum(len(b.instructions) for b in machine.blocks),
            executed,
            0 if number else traffic,
            done / sum(moved) if loop else executed * threads / traffic,
            0.0 if loop else executed * threads / max(1, *(s.size for s in shapes)),
            sum(n for n in moved if n == 16) / max(1, sum(moved)),
            _is_plain(spec),
        )


def _loop_over_memory(machine: MachineCode) -> tuple[Block, ...]:
    """The inner loop that moves the most bytes; no blocks if none accesses memory."""

    def moved(loop: tuple[Block, ...]) -> int:
        return sum(a.nbytes for b in loop for a in b.accesses)

    found = max(machine.inner_loops, key=moved, default=())
    return found if moved(found) else ()


def _is_plain(spec: KernelSpec) -> bool:
    """Elementwise and broadcasts: all operands are read once, in the order of the results."""
    size = max((s.size for s in spec.results), default=0)
    allowed = {"parameter", "constant", "broadcast", "tuple", "reshape", "bitcast"}
    return all(
        i.op.elementwise or i.opcode in allowed for i in spec.computation.instructions
    ) and any(s.size == size for s in spec.operands)


def is_over(m: Measured) -> bool:
    """Whether a kernel that only reads, computes and writes is bound by its instructions."""
    return m.is_bound_by_memory and m.per_byte > BUDGET


def is_narrow(m: Measured) -> bool:
    """Whether a kernel that is bound by memory moves most bytes in less than 16 at once."""
    return m.is_bound_by_memory and m.wide < 0.5
