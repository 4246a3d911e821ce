"""What NVIDIA's assembler makes of the CUDA kernels of programs, and what each costs.

For every kernel of the programs and GPU workloads in ../shared: registers, spills, stack, shared
memory, machine instructions, how wide it accesses memory, and instructions for each element and
each byte that it reads or writes. An H200 does 132 x 128 x 1.98e9 lane instructions a second and
copies 4.3e12 bytes, so beyond 7.8 of them a byte a kernel is bound by instructions: 62 for an
element of f32 that is read and written, 31 of bf16. Counted are those that a thread executes,
without branches for rare operands (`machine_code`); of a kernel that loops over memory, those of
one iteration.

    python -m tests.tools.sass_budget [--target sm_90a] [--write] [NAME ...]
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

from tests.conftest import PROGRAMS, ROOT, SHARED
from tests.tools.programs import ExportedProgram, program_names
from tests.tools.sass_measure import (
    BUDGET,
    LARGE_NBYTES,
    Measured,
    collect,
    is_narrow,
    is_over,
    measure,
)
from tests.tools.workloads import workload, workload_texts
from xladev.hlo.ir import HloModule
from xladev.platforms.cuda.toolkit import nvdisasm_path, ptxas_path

ARCHIVE = SHARED / "bench" / "gpu_workloads_small.tar.gz"
PAGE = ROOT / "docs" / "reference" / "cuda-kernels.md"


def modules(names: list[str]) -> Iterator[tuple[str, HloModule]]:
    """Programs and workloads, all or some."""
    for name in program_names(PROGRAMS):
        if not names or name in names:
            yield name, ExportedProgram(PROGRAMS, name).module()
    for name in workload_texts(ARCHIVE):
        if not names or name in names:
            yield name, workload(ARCHIVE, name)


def all_names() -> list[str]:
    """Of programs and workloads."""
    return [*program_names(PROGRAMS), *workload_texts(ARCHIVE)]


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
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args()
    found = tools()
    if found is None:
        print("ptxas or nvdisasm is not here: pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm")
        return 1
    rows: list[tuple[str, Measured]] = []
    for name, module in modules(options.names):
        for collected in collect(module, options.target):
            for m in measure(collected, options.target, *found):
                rows.append((name, m))
                print(name, line_of(m), flush=True)
    print(summary(rows))
    if options.write:
        PAGE.write_text(page(rows, options.target))
    return 0


def line_of(m: Measured) -> str:
    """A launch in words and figures."""
    kind = f"{m.kind}, plain" if m.is_plain else m.kind
    words = f"{m.name} [{kind}] registers {m.registers}, spills {m.spills}, stack {m.stack}, "
    words += f"instructions {m.executed} of {m.instructions}, {m.per_byte:.1f} a byte, "
    words += f"{m.per_element:.1f} an element, wide {m.wide:.0%}, traffic {m.traffic}"
    return words + (" OVER" if is_over(m) else "") + (" NARROW" if is_narrow(m) else "")


def summary(rows: Sequence[tuple[str, Measured]]) -> str:
    """All launches in one line."""
    bound = [m for _, m in rows if m.is_bound_by_memory]
    most = max((m.registers for _, m in rows), default=0)
    return (
        f"{len(rows)} launches, {most} registers at most, "
        f"{sum(bool(m.spills) for _, m in rows)} with spills, "
        f"{sum(bool(m.stack) for _, m in rows)} with a stack; of {len(bound)} that are bound by "
        f"memory {sum(is_narrow(m) for m in bound)} move most bytes in accesses below 16 and "
        f"{sum(is_over(m) for m in bound)} take more than {BUDGET:.1f} instructions a byte"
    )


def page(rows: Sequence[tuple[str, Measured]], target: str) -> str:
    """The reference page: a row for each program, and one for each kernel bound by memory."""
    programs = dict.fromkeys(name for name, _ in rows)
    by_program = "\n".join(_program_row(n, [m for p, m in rows if p == n]) for n in programs)
    kernels = "\n".join(_kernel_row(name, m) for name, m in rows if m.is_bound_by_memory)
    others = "\n".join(_kernel_row(name, m) for name, m in rows if _moves_single_elements(m))
    return PAGE_TEXT.format(
        target=target,
        count=f"{len(programs)} of {len(all_names())}",
        summary=summary(rows),
        programs=by_program,
        kernels=kernels,
        others=others,
        large=LARGE_NBYTES >> 10,
        budget=BUDGET,
    )


def _program_row(name: str, found: Sequence[Measured]) -> str:
    bound = [m for m in found if m.is_bound_by_memory]
    cells = (
        name,
        len(found),
        max(m.registers for m in found),
        sum(m.spills for m in found),
        sum(m.stack for m in found),
        len(bound),
        sum(not is_narrow(m) for m in bound),
        sum(not is_over(m) for m in bound),
    )
    return f"| {' | '.join(map(str, cells))} |"


def _moves_single_elements(m: Measured) -> bool:
    """Whether a large kernel of another kind accesses less than 16 bytes at once."""
    return not m.is_bound_by_memory and m.traffic >= LARGE_NBYTES and m.wide < 0.5


def _kernel_row(name: str, m: Measured) -> str:
    element = f"{m.per_element:.0f}" if m.per_element else "loop"
    marks = " ".join(w for w, on in (("over", is_over(m)), ("narrow", is_narrow(m))) if on)
    kernel = m.name.split(".")[0] if m.name[0] == "k" else m.name
    return (
        f"| {name} {kernel} | {m.kind} | {m.registers} | {m.wide:.0%} | {element} "
        f"| {m.per_byte:.1f} | {marks} |"
    )


PAGE_TEXT = """# CUDA kernels as the assembler sees them

Written by `python -m tests.tools.sass_budget --write`, for `{target}`: every kernel of {count}
programs and GPU workloads that the tests use, put through `ptxas` and `nvdisasm`. Nothing here
was timed.

{summary}.

A kernel is bound by memory here if it moves {large} KiB or more and is elementwise, a reduction, a
row program or a transpose. *Wide* is the part of its bytes that move in accesses of 16 bytes, in
its inner loop if that accesses memory. *Instructions* are those that a thread executes, branches
for rare operands left out; an H200 has time for {budget:.1f} for each byte, 62 for an element of
f32 that is read and written, 31 of bf16. Elements are those of the kernel's largest array.

## Programs

| program | launches | most registers | spills | stack | by memory | wide | in budget |
|---|--:|--:|--:|--:|--:|--:|--:|
{programs}

## Kernels that are bound by memory

| kernel | kind | registers | wide | instructions an element | a byte | |
|---|---|--:|--:|--:|--:|---|
{kernels}

## Others of {large} KiB or more that move most bytes in less than 16

| kernel | kind | registers | wide | instructions an element | a byte | |
|---|---|--:|--:|--:|--:|---|
{others}
"""


if __name__ == "__main__":
    sys.exit(main())
