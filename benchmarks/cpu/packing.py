"""How much of a program's scratch memory kernels take for packed copies of their operands."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.compile import compile_module
from xladev.compiler.executable import Executable
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.plan.kernel_plan import KernelPlan
from xladev.compiler.signature import Signature
from xladev.hlo.ir import HloModule
from xladev.platforms.cpu.compiler import CpuCompiler


class _WithoutWorkspaces(CpuCompiler):
    """Plans the same kernels as if none needed memory of its own; what it makes cannot run."""

    def lower(self, spec: KernelSpec, options: CompileOptions) -> KernelCode:
        return KernelCode(spec.name, b"")

    def link(
        self,
        plan: KernelPlan,
        codes: Sequence[KernelCode],
        signature: Signature,
        options: CompileOptions,
    ) -> Executable:
        return Executable(signature, b"")


def values_nbytes(module: HloModule) -> int:
    """Bytes of scratch memory that the values of a program take, packed operands left out."""
    compiler = _WithoutWorkspaces()
    target = CompileTarget("cpu", compiler, compiler.describe())
    program = compile_module(module, target, CompileOptions.from_environment(), lambda: ())
    return sum(e.signature.scratch_nbytes for e in program.executables)
