"""From a plan to bytecode: see `bytecode.py`.

Kernels that only call microkernels become part of it (`bytecode_kernel.py`); others stay machine
code, which it calls.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from xladev.codegen.llvm import ModuleBuilder
from xladev.compiler.plan.kernel_plan import Copy, KernelPlan, RunKernel, Slice, Space, Step
from xladev.platforms.cpu.bytecode import (
    ARGUMENTS,
    RESULTS,
    SCRATCH,
    Bytecode,
    BytecodeOperation,
    OperandKind,
)
from xladev.platforms.cpu.bytecode_code import BytecodeCode, NoBytecodeError, Place
from xladev.platforms.cpu.bytecode_kernel import write_kernel
from xladev.platforms.cpu.trace_points import BEGIN, COPY, END

MOST_INSTRUCTIONS = 8192
"""Longer programs are left to LLVM, whose code for them is worth its time."""

MOST_KERNELS = 6
"""Kernels that stay machine code. LLVM compiles an entry beside more of them in no time that
counts, and a call from it costs ten nanoseconds less."""


def bytecode_of(
    plan: KernelPlan, module: ModuleBuilder, light: Container[str]
) -> tuple[Bytecode, tuple[str, ...]] | None:
    """The bytecode of a plan, and the kernels that it calls; None if it has to be machine code.

    Args:
        plan: what to run.
        module: with all of its kernels; microkernels are in the order of its `microkernels`.
        light: kernels that only call microkernels.
    """
    writer = _Writer(BytecodeCode(module), light)
    try:
        writer.program(plan)
    except NoBytecodeError:
        return None
    return writer.bytecode.bytecode(), tuple(writer.kernels)


@dataclass(slots=True)
class _Writer:
    """Writes the steps of a plan."""

    bytecode: BytecodeCode
    light: Container[str]
    kernels: dict[str, int] = field(default_factory=dict[str, int])
    _pointers: dict[tuple[Space, int], int] = field(default_factory=dict[tuple[Space, int], int])

    def program(self, plan: KernelPlan) -> None:
        """Writes all steps of a plan."""
        self.bytecode.mark(BEGIN)
        for step in plan.steps:
            self._step(plan, step)
            if len(self.bytecode.code) > 4 * MOST_INSTRUCTIONS:
                raise NoBytecodeError
        self.bytecode.mark(END)
        self.bytecode.do(BytecodeOperation.RETURN)

    def _step(self, plan: KernelPlan, step: Step) -> None:
        match step:
            case RunKernel():
                addresses = [self._address(s) for s in step.buffers]
                self._kernel(plan.kernels[step.kernel].name, addresses)
                self.bytecode.mark(step.operation)
            case Copy():
                places = self._address(step.destination), self._address(step.source)
                to, source = map(self.bytecode.register, places)
                self.bytecode.do(
                    BytecodeOperation.COPY, to, source, self.bytecode.number(step.source.nbytes)
                )
                self.bytecode.mark(COPY)
            case _:
                raise NoBytecodeError

    def _kernel(self, name: str, addresses: Sequence[Place]) -> None:
        if name in self.light and name not in self.kernels:
            with suppress(NoBytecodeError):
                write_kernel(self.bytecode, name, addresses)
                return
        number = self.kernels.setdefault(name, len(self.kernels))
        if number >= MOST_KERNELS:
            raise NoBytecodeError
        arguments = [self.bytecode.register(a) for a in addresses]
        self.bytecode.call(self.bytecode.held(OperandKind.KERNEL, number), arguments)

    def _address(self, s: Slice) -> Place:
        if s.space is Space.SCRATCH:
            return Place(SCRATCH, s.offset)
        if s.space is Space.CONSTANT:
            return Place(self.bytecode.held(OperandKind.CONSTANT, s.index), s.offset)
        key = s.space, s.index
        if key not in self._pointers:
            self._pointers[key] = self.bytecode.fresh()
            of = ARGUMENTS if s.space is Space.ARGUMENT else RESULTS
            self.bytecode.do(BytecodeOperation.LOAD, of, 8 * s.index, self._pointers[key])
        return Place(self._pointers[key], s.offset)
