"""The kernels of a plan: what each computes, equal ones listed once; and their code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm.module import plain_name
from xladev.compiler.kernel_code import KernelCode
from xladev.errors import CompileError
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.opset import opdef
from xladev.passes.value_numbers import ValueNumbers

InPlace = frozenset[tuple[int, int]]
"""Pairs (result, operand) of a kernel that are one buffer."""


def no_workspace(spec: KernelSpec) -> int:
    """Of a backend whose kernels want none."""
    return 0


def no_code(spec: KernelSpec) -> KernelCode:
    """Of a backend whose kernels are looked at and not run."""
    return KernelCode(spec.name, b"")


class ProgramKernels:
    """The kernels of one compilation, whatever plans are tried: each is named and lowered once.

    Args:
        lower: gives the code of a kernel.
    """

    def __init__(self, lower: Callable[[KernelSpec], KernelCode] = no_code) -> None:
        self._lower = lower
        self._values = ValueNumbers()
        self._specs: dict[tuple[int, InPlace], KernelSpec] = {}
        self._codes: dict[KernelSpec, KernelCode] = {}
        self._workspaces: dict[int, int] = {}

    def add_all(self, module: HloModule) -> None:
        """Makes the computations of a module known, those that kernels call among them."""
        self._values.add_all(module)

    def spec(self, i: HloInstruction, computation: HloComputation, in_place: InPlace) -> KernelSpec:
        """The kernel of ``i``; equal kernels, whatever their names, are one."""
        key = (self._values.add(computation), in_place)
        if key not in self._specs:
            name = f"k{len(self._specs)}.{plain_name(i.name)}"
            self._specs[key] = KernelSpec(name, computation, in_place)
        return self._specs[key]

    def code(self, spec: KernelSpec) -> KernelCode:
        """The code of a kernel of `spec`."""
        found = self._codes.get(spec)
        if found is None:
            found = self._codes[spec] = self._lower(spec)
            self._workspaces[self._values.add(spec.computation)] = found.workspace_nbytes
        return found

    def likely_workspace_nbytes(self, spec: KernelSpec) -> int:
        """What a kernel of the same computation wanted; 0 if none was lowered yet."""
        return self._workspaces.get(self._values.add(spec.computation), 0)


class KernelTable:
    """Collects kernels while a plan is made.

    Attributes:
        kernels: those of all plans of the compilation.
        specs: the plan's, by number.
    """

    def __init__(self, module: HloModule, kernels: ProgramKernels) -> None:
        self.kernels = kernels
        kernels.add_all(module)
        self._numbers: dict[KernelSpec, int] = {}
        self.specs: list[KernelSpec] = []

    def number(self, i: HloInstruction, computation: HloComputation, in_place: InPlace) -> int:
        """Number of the kernel of ``i`` in the plan."""
        spec = self.kernels.spec(i, computation, in_place)
        if spec not in self._numbers:
            self._numbers[spec] = len(self.specs)
            self.specs.append(spec)
        return self._numbers[spec]

    def shares(self) -> list[str]:
        """What launches of other kernels use too (`KernelCode.shares`), by kernel number."""
        return [self.kernels.code(spec).shares for spec in self.specs]


def kernel_computation(i: HloInstruction) -> HloComputation:
    """The computation of a kernel: that of a fusion, or one around a single instruction.

    Raises:
        CompileError: operands that are no arrays.
    """
    if i.opcode == "fusion":
        called: HloComputation = i["calls"]
        return called
    for operand in i.operands:
        if not operand.shape.is_array:
            raise CompileError(f"{i.opcode} of {operand.shape} cannot be a kernel", where=repr(i))
    parameter = opdef("parameter")
    parameters = tuple(
        HloInstruction(parameter, o.shape, (), {"parameter_number": n}, f"param_{n}")
        for n, o in enumerate(i.operands)
    )
    note = replace(i.note, control_predecessors=())
    root = replace(i, operands=parameters, note=note)
    return HloComputation(f"kernel.{i.name}", (*parameters, root), root)
