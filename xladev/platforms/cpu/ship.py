"""Compiles the microkernels that come with xladev: ``python -m xladev.platforms.cpu.ship``.

A build of a wheel does the same (`hatch_build.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from xladev.codegen.llvm import ModuleBuilder
from xladev.compiler.compile import compile_module
from xladev.compiler.executable import Executable
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.plan.kernel_plan import KernelPlan
from xladev.compiler.signature import Signature
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.bytecode_runner import RUNNER_LEVEL, runner_text
from xladev.platforms.cpu.codegen.fourier.catalogue import call_all_transforms
from xladev.platforms.cpu.codegen.lapack.catalogue import call_all_linear_algebra
from xladev.platforms.cpu.codegen.products.catalogue import call_all_products
from xladev.platforms.cpu.compiler import CpuCompiler
from xladev.platforms.cpu.engine import (
    compile_text,
    object_code,
    parsed,
    run_passes,
    target_machine,
)
from xladev.platforms.cpu.exchange import EXCHANGE_LEVEL, exchange_text
from xladev.platforms.cpu.interruption import INTERRUPTION_LEVEL, interruption_text
from xladev.platforms.cpu.lapack.threads import LAPACK_THREADS_LEVEL, lapack_threads_text
from xladev.platforms.cpu.linker import program_module
from xladev.platforms.cpu.pool import POOL_LEVEL, pool_text
from xladev.platforms.cpu.shipped import FOLDER, LEVELS, OPTIMIZATION_LEVEL, packed, text_symbol
from xladev.platforms.cpu.targets import CpuTarget

SORT_SIZES = 16, 64, 1024, 8192
"""Rows of each of these are sorted in another way."""
FLOATS, INTEGERS = ("f32", "f64", "bf16"), ("s32", "u32")
TOP = (100, 5), (1000, 10), (32768, 64)
"""Sizes of rows, and how many of the largest are wanted."""

_OF_FLOATS = """c {{ {more}a = {t}[] parameter(0)  m = pred[] compare(a, a), direction=NE
  n = {t}[] constant(nan)  z = {t}[] constant(0)  e = pred[] compare(a, z), direction=EQ
  f = {t}[] select(e, z, a)  g = {t}[] select(m, n, f)  b = {t}[] parameter(1)
  o = pred[] compare(b, b), direction=NE  h = pred[] compare(b, z), direction=EQ
  i = {t}[] select(h, z, b)  j = {t}[] select(o, n, i)
  ROOT r = pred[] compare(g, j), direction=LT, type=TOTALORDER }}"""
_OF_INTEGERS = """c {{ {more}a = {t}[] parameter(0)  b = {t}[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }}"""


def ship(folder: Path = FOLDER) -> list[Path]:
    """Compiles all microkernels for all levels, a minute's work; the files that it wrote.

    Raises:
        CompileError: LLVM rejects one.
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for level in LEVELS:
        path = folder / f"{level.name}.objects"
        path.write_bytes(packed(_compiled(level.compiled_for()), level.name))
        written.append(path)
    return written


def programs() -> Iterator[str]:
    """Programs, as HLO, whose microkernels are shipped besides those of products and transforms.

    Comparators are spelled as JAX spells them.
    """
    for size, (t, comparator) in product(
        SORT_SIZES, [(t, _OF_FLOATS) for t in FLOATS] + [(t, _OF_INTEGERS) for t in INTEGERS]
    ):
        yield f"""HloModule sort
{comparator.format(t=t, more="")}
ENTRY e {{ x = {t}[{size}] parameter(0)
  ROOT s = {t}[{size}] sort(x), dimensions={{0}}, is_stable=true, to_apply=c }}"""
        more = "k = s32[] parameter(2)  l = s32[] parameter(3)  "
        yield f"""HloModule argsort
{comparator.format(t=t, more=more)}
ENTRY e {{ x = {t}[{size}] parameter(0)  i = s32[{size}] iota(), iota_dimension=0
  ROOT s = ({t}[{size}], s32[{size}]) sort(x, i), dimensions={{0}}, is_stable=true, to_apply=c }}"""
    for (size, k), t, stable in product(TOP, FLOATS, ("true", "false")):
        yield f"""HloModule top
ENTRY e {{ x = {t}[2,{size}] parameter(0)
  ROOT t = ({t}[2,{k}], s32[2,{k}]) topk(x), k={k}, is_stable={stable} }}"""


class _Collector(CpuCompiler):
    """Keeps the modules that it would compile."""

    def __init__(self, target: CpuTarget) -> None:
        super().__init__()
        self._target = target
        self.modules: list[ModuleBuilder] = []

    def link(
        self,
        plan: KernelPlan,
        codes: Sequence[KernelCode],
        signature: Signature,
        options: CompileOptions,
    ) -> Executable:
        """Nothing that runs."""
        self.modules.append(program_module(plan, target=self._target.traits))
        return Executable(signature, b"")


def _modules(target: CpuTarget) -> list[ModuleBuilder]:
    products = ModuleBuilder("products", target.traits)
    call_all_products(products)
    transforms = ModuleBuilder("transforms", target.traits)
    call_all_transforms(transforms)
    call_all_linear_algebra(products)
    collector = _Collector(target)
    device = CompileTarget("cpu", collector, collector.describe())
    for text in programs():
        compile_module(parse_module(text), device, CompileOptions())
    return [products, transforms, *collector.modules]


def _compiled(target: CpuTarget) -> dict[str, bytes]:
    machine = target_machine(OPTIMIZATION_LEVEL, target)
    found: dict[str, bytes] = {}
    for module in _modules(target):
        for symbol in module.microkernels():
            if symbol in found:
                continue
            code = parsed(symbol, module.microkernel(symbol))
            code.data_layout = str(machine.target_data)
            run_passes(machine, code, OPTIMIZATION_LEVEL)
            found[symbol] = object_code(symbol, machine, code)
    return found | _compiled_texts(target)


def _compiled_texts(target: CpuTarget) -> dict[str, bytes]:
    """What every process needs beside microkernels: its threads among it."""
    texts = (
        ("pool", pool_text(target.traits.triple), POOL_LEVEL),
        ("bytecode", runner_text(), RUNNER_LEVEL),
        ("interruption", interruption_text(), INTERRUPTION_LEVEL),
        ("lapack_threads", lapack_threads_text(), LAPACK_THREADS_LEVEL),
        ("exchange", exchange_text(target.traits.triple), EXCHANGE_LEVEL),
    )
    return {
        text_symbol(name, text, level): compile_text(name, text, level, target)
        for name, text, level in texts
    }


if __name__ == "__main__":
    for made in ship():
        sys.stdout.write(f"{made}: {made.stat().st_size:,} bytes\n")
