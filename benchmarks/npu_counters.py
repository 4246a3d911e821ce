"""What the template NPU moves and how long it takes, with fusion and double-buffering on and off.

``python -m benchmarks.npu_counters`` prints a table; ``--write`` makes the reference page of it.
Counters are deterministic and known when a command list is loaded, so nothing is run; a test holds
them against a run, and the page against the code.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.npu_programs import PROGRAMS, NpuProgram
from xladev.compiler.options import CompileOptions
from xladev.compiler.plan.kernel_plan import Copy, RunKernel
from xladev.compiler.plan.plan_file import read_plan
from xladev.hlo.ir import HloModule
from xladev.passes.default import default_pipeline
from xladev.platforms.template_npu.compiler import TemplateNpuCompiler
from xladev.platforms.template_npu.device.sequencer import schedule
from xladev.platforms.template_npu.device.timing import Counters

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "npu-counters.md"

OFF = ("fusion=false", "template_npu.double_buffer=false")
"""The options that switch one optimisation off."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One program.

    Attributes:
        name: of the program.
        bound_nbytes: that any schedule moves at least.
        full: counters with everything on.
        off: counters with each of `OFF` in turn.
    """

    name: str
    bound_nbytes: int
    full: Counters
    off: tuple[Counters, ...]

    @property
    def moved_nbytes(self) -> int:
        """Loads and stores with everything on."""
        return nbytes(self.full)

    @property
    def ratio(self) -> float:
        """Bytes moved over the bound; 1 is the least possible."""
        return self.moved_nbytes / self.bound_nbytes


def nbytes(counters: Counters) -> int:
    """Bytes loaded and stored."""
    return counters.loaded_nbytes + counters.stored_nbytes


def program_counters(module: HloModule, options: CompileOptions) -> Counters:
    """Sum over the kernels of one run; copies between them count as a load and a store."""
    ready = default_pipeline().run(module)
    plan = read_plan(TemplateNpuCompiler().compile(ready, options))
    found = [schedule(k.code).counters for k in plan.kernels]
    total = Counters()
    for step in plan.steps:
        if isinstance(step, RunKernel):
            total += found[step.kernel]
        elif isinstance(step, Copy):
            moved = step.source.nbytes
            total += Counters(loaded_nbytes=moved, stored_nbytes=moved)
    return total


def measure(name: str, program: NpuProgram) -> Measured:
    """Counters of a program with everything on, and with each optimisation off."""
    module = program.module("m")
    variants = [CompileOptions(), *(CompileOptions().with_option(off) for off in OFF)]
    full, *off = [program_counters(module, options) for options in variants]
    return Measured(name, program.bound_nbytes(module), full, tuple(off))


def line(found: Measured) -> str:
    """A row of the table."""
    base = found.full.cycles
    engine, share = max(found.full.occupancy.items(), key=lambda item: item[1])
    apart, single = found.off
    slower, alone = apart.cycles / base, single.cycles / base
    return (
        f"| {found.name} | {found.bound_nbytes / 1e6:.1f} | {found.moved_nbytes / 1e6:.1f} | "
        f"{found.ratio:.2f} | {base / 1e6:.2f} | {nbytes(apart) / 1e6:.1f} MB, "
        f"{slower:.2f} x | {alone:.2f} x | {engine} {100 * share:.0f}% |"
    )


def table(rows: Sequence[Measured]) -> str:
    """Markdown."""
    head = [
        "| program | least MB | moved MB | ratio | million cycles | without fusion | "
        "without double-buffering | busiest engine |",
        "|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    return "\n".join([*head, *map(line, rows)])


def page(rows: Sequence[Measured]) -> str:
    """The reference page, with these rows in its table."""
    before, _, rest = PAGE.read_text("utf-8").partition("| program |")
    after = rest[rest.index("\n\n") :]
    return before + table(rows) + after


def main() -> int:
    """Prints the table of all programs, or of those named."""
    parser = argparse.ArgumentParser(description="counters of the template NPU")
    parser.add_argument("names", nargs="*", metavar="NAME", help="; ".join(PROGRAMS))
    parser.add_argument("--write", action="store_true", help="the table of the reference page")
    arguments = parser.parse_args()
    rows = [measure(name, PROGRAMS[name]) for name in arguments.names or PROGRAMS]
    if arguments.write:
        PAGE.write_text(page(rows), "utf-8")
    else:
        print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
