"""The kernels that a backend will make of a region: formed as it forms them, and not compiled."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from xladev.compiler.cost import loop_iterations, program_cost
from xladev.compiler.executable import Executable
from xladev.compiler.isolation import plugin_call
from xladev.compiler.kernel_compiler import PLAIN, KernelCompiler
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import EVALUATOR, CompileTarget
from xladev.compiler.placement.rates import Work
from xladev.compiler.signature import Signature
from xladev.hlo.ir import HloModule
from xladev.hlo.shape import Shape


class KernelWork(NamedTuple):
    """What one kernel does, and how often a run of its region launches it."""

    work: Work
    launches: int


class PlannedRegions:
    """Stands for the backends of a program that is not compiled yet.

    Attributes:
        kernels: of each region that was asked for, in order.
    """

    def __init__(self) -> None:
        self.kernels: list[tuple[KernelWork, ...]] = []

    def __call__(
        self, target: CompileTarget | None, module: HloModule, options: CompileOptions
    ) -> Executable:
        """An executable without code, with the signature that the region would have."""
        self.kernels.append(region_kernels(target, module, options))
        name = EVALUATOR if target is None else target.name

        def laid_out(shape: Shape) -> Shape:
            if shape.is_tuple:
                return replace(shape, tuple_shapes=tuple(map(laid_out, shape.tuple_shapes)))
            if target is None or not shape.is_array:
                return shape.without_layout().with_default_layout()
            plain = shape.without_layout()
            return plain.with_layout(target.device_layout(plain))

        entry = module.entry
        parameters = tuple(laid_out(p.shape) for p in entry.parameters)
        return Executable(Signature(module.name, name, parameters, laid_out(entry.root.shape)), b"")


def region_kernels(
    target: CompileTarget | None, module: HloModule, options: CompileOptions
) -> tuple[KernelWork, ...]:
    """What a region costs: its kernels, or its instructions where a backend forms none.

    Raises:
        PluginError: the backend raised.
    """
    loops = loop_iterations(module)
    if target is not None and isinstance(target.compiler, KernelCompiler) and options.fusion:
        module = target.formed(module)
        with plugin_call(target.name, "Compiler.fusion_pipeline", where=f"module {module.name}"):
            module = target.compiler.fusion_pipeline(options).run(PLAIN.run(module))
    costs = program_cost(module, loops).instructions
    return tuple(KernelWork(Work.of(each.instruction), each.iterations) for each in costs)
