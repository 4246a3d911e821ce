"""The kernels of a plan: what each computes, equal ones listed once."""

from __future__ import annotations

from dataclasses import replace

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm.module import plain_name
from xladev.errors import CompileError
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.opset import opdef
from xladev.passes.value_numbers import ValueNumbers

InPlace = frozenset[tuple[int, int]]
"""Pairs (result, operand) of a kernel that are one buffer."""


class KernelTable:
    """Collects kernels while a plan is made.

    Attributes:
        specs: the kernels by number.
    """

    def __init__(self, module: HloModule) -> None:
        self._values = ValueNumbers()
        self._values.add_all(module)
        self._numbers: dict[tuple[int, InPlace], int] = {}
        self.specs: list[KernelSpec] = []

    def number(self, i: HloInstruction, computation: HloComputation, in_place: InPlace) -> int:
        """Number of the kernel of ``i``; equal kernels, whatever their names, are one."""
        key = (self._values.add(computation), in_place)
        if key not in self._numbers:
            self._numbers[key] = number = len(self.specs)
            name = f"k{number}.{plain_name(i.name)}"
            self.specs.append(KernelSpec(name, computation, in_place))
        return self._numbers[key]


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
