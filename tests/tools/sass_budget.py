"""What NVIDIA's assembler makes of the CUDA kernels of programs, and what each costs.

For every kernel of the programs and GPU workloads in ../shared: registers, spills, stack, shared
memory, machine instructions, wide accesses, and instructions for each byte that it reads or writes.
An H200 does 132 x 128 x 1.98e9 lane instructions a second and copies 4.3e12 bytes, so beyond
7.8 of them a byte a kernel is bound by instructions: 62 for an element of f32 that is read and
written, 31 of bf16. Counted is each instruction of the kernel once, also those of branches that few
threads take.

    python -m tests.tools.sass_budget [--target sm_90a] [NAME ...]
"""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tests.conftest import PROGRAMS, SHARED
from tests.tools.programs import ExportedProgram, program_names
from tests.tools.workloads import workload, workload_texts
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.assignment import CompileTarget
from xladev.compiler.compile import compile_module
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.platforms.cuda.codegen.kinds import kind_of
from xladev.platforms.cuda.compiler import CudaCompiler
from xladev.platforms.cuda.libraries.rules import LIBRARIES
from xladev.platforms.cuda.toolkit import assemble, nvdisasm_path, ptxas_path, sass_of
from xladev.runtime.registry import current_registry

ARCHIVE = SHARED / "bench" / "gpu_workloads_small.tar.gz"
BUDGET = 132 * 128 * 1.98e9 / 4.3e12
"""Lane instructions for each byte of memory traffic."""
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
        traffic: bytes of all operands and results.
        per_byte: instructions of all threads for each byte of them.
        wide: accesses of 16 bytes.
        accesses: all accesses to memory that blocks share.
        is_plain: each element is computed from elements, and memory is all that there is to it.
    """

    name: str
    kind: str
    registers: int
    spills: int
    stack: int
    shared: int
    instructions: int
    traffic: int
    per_byte: float
    wide: int
    accesses: int
    is_plain: bool


def measure(
    collected: Collected, target: str, ptxas: str, nvdisasm: str | None
) -> Iterator[Measured]:
    """Each launch of a kernel; without a disassembler no instructions are counted."""
    spec = collected.spec
    traffic = sum(max(1, s.nbytes) for s in (*spec.operands, *spec.results))
    for number, code in enumerate(collected.codes):
        found = assemble(code.code.decode(), target, ptxas)
        sass = sass_of(found.cubin, nvdisasm) if nvdisasm else ()
        memory = [i for i in sass if re.match(r"(@!?U?P\d+ )?(LDG|STG)", i)]
        grid, block = code.dimensions.grid, code.dimensions.block
        yield Measured(
            f"{spec.name}.{number}" if number else spec.name,
            collected.kind,
            found.registers,
            found.spill_nbytes,
            found.stack_nbytes,
            found.shared_nbytes,
            len(sass),
            traffic,
            len(sass) * prod(grid) * prod(block) / traffic,
            sum(".128" in i for i in memory),
            len(memory),
            _is_plain(spec),
        )


def _is_plain(spec: KernelSpec) -> bool:
    """Elementwise and broadcasts: all operands are read once, in the order of the results."""
    size = max((s.size for s in spec.results), default=0)
    allowed = {"parameter", "constant", "broadcast", "tuple", "reshape", "bitcast"}
    return all(
        i.op.elementwise or i.opcode in allowed for i in spec.computation.instructions
    ) and any(s.size == size for s in spec.operands)


def modules(names: list[str]) -> Iterator[tuple[str, HloModule]]:
    """Programs and workloads, all or some."""
    for name in program_names(PROGRAMS):
        if not names or name in names:
            yield name, ExportedProgram(PROGRAMS, name).module()
    for name in workload_texts(ARCHIVE):
        if not names or name in names:
            yield name, workload(ARCHIVE, name)


def module_of(name: str) -> HloModule:
    """A program or workload."""
    return next(module for _, module in modules([name]))


def tools() -> tuple[str, str] | None:
    """Paths of ptxas and nvdisasm, if both are there."""
    ptxas, nvdisasm = ptxas_path(), nvdisasm_path()
    return (ptxas, nvdisasm) if ptxas and nvdisasm else None


def main() -> int:
    """Print the table; 1 if the tools are missing."""
    parser = argparse.ArgumentParser(description="what ptxas makes of the CUDA kernels")
    parser.add_argument("names", nargs="*", help="programs and workloads (default: all)")
    parser.add_argument("--target", default="sm_90a")
    options = parser.parse_args()
    found = tools()
    if found is None:
        print("ptxas or nvdisasm is not here: pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm")
        return 1
    print("program kernel kind regs spill stack smem instr traffic per_byte wide/accesses")
    count, worst = 0, 0
    for name, module in modules(options.names):
        for collected in collect(module, options.target):
            for m in measure(collected, options.target, *found):
                count, worst = count + 1, max(worst, m.registers)
                mark = " OVER" if is_over(m) else ""
                print(
                    f"{name} {m.name} [{m.kind}{', plain' if m.is_plain else ''}] {m.registers} "
                    f"{m.spills} {m.stack} {m.shared} {m.instructions} {m.traffic} "
                    f"{m.per_byte:.1f} {m.wide}/{m.accesses}{mark}",
                    flush=True,
                )
    print(f"{count} launches, {worst} registers at most, budget {BUDGET:.1f} a byte")
    return 0


def is_over(m: Measured) -> bool:
    """Whether a kernel that only reads, computes and writes is bound by its instructions."""
    return m.is_plain and m.traffic >= LARGE_NBYTES and m.per_byte > BUDGET


if __name__ == "__main__":
    sys.exit(main())
