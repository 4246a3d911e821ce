"""From a plan to a script: see `script.py`.

Kernels that only call procedures become part of it (`script_kernel.py`); others stay machine code,
which it calls.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from xladev.codegen.llvm import ModuleBuilder
from xladev.compiler.plan.kernel_plan import Copy, KernelPlan, RunKernel, Slice, Space, Step
from xladev.platforms.cpu.marks import BEGIN, COPY, END
from xladev.platforms.cpu.script import ARGUMENTS, RESULTS, SCRATCH, Kind, Operation, Script
from xladev.platforms.cpu.script_code import NoScriptError, Place, ScriptCode
from xladev.platforms.cpu.script_kernel import write_kernel

MOST_INSTRUCTIONS = 8192
"""Longer programs are left to LLVM, whose code for them is worth its time."""

MOST_KERNELS = 6
"""Kernels that stay machine code. LLVM compiles an entry beside more of them in no time that
counts, and a call from it costs ten nanoseconds less."""


def script_of(
    plan: KernelPlan, module: ModuleBuilder, light: Container[str]
) -> tuple[Script, tuple[str, ...]] | None:
    """The script of a plan, and the kernels that it calls; None if it has to be machine code.

    Args:
        plan: what to run.
        module: with all of its kernels, for the procedures in `ModuleBuilder.procedures`' order.
        light: kernels that only call procedures.
    """
    writer = _Writer(ScriptCode(module), light)
    try:
        writer.program(plan)
    except NoScriptError:
        return None
    return writer.script.script(), tuple(writer.kernels)


@dataclass(slots=True)
class _Writer:
    """Writes the steps of a plan."""

    script: ScriptCode
    light: Container[str]
    kernels: dict[str, int] = field(default_factory=dict[str, int])
    _pointers: dict[tuple[Space, int], int] = field(default_factory=dict[tuple[Space, int], int])

    def program(self, plan: KernelPlan) -> None:
        """Writes all steps of a plan."""
        self.script.mark(BEGIN)
        for step in plan.steps:
            self._step(plan, step)
            if len(self.script.code) > 4 * MOST_INSTRUCTIONS:
                raise NoScriptError
        self.script.mark(END)
        self.script.do(Operation.RETURN)

    def _step(self, plan: KernelPlan, step: Step) -> None:
        match step:
            case RunKernel():
                addresses = [self._address(s) for s in step.buffers]
                self._kernel(plan.kernels[step.kernel].name, addresses)
                self.script.mark(step.operation)
            case Copy():
                places = self._address(step.destination), self._address(step.source)
                to, source = map(self.script.register, places)
                self.script.do(Operation.COPY, to, source, self.script.number(step.source.nbytes))
                self.script.mark(COPY)
            case _:
                raise NoScriptError

    def _kernel(self, name: str, addresses: Sequence[Place]) -> None:
        if name in self.light and name not in self.kernels:
            with suppress(NoScriptError):
                write_kernel(self.script, name, addresses)
                return
        number = self.kernels.setdefault(name, len(self.kernels))
        if number >= MOST_KERNELS:
            raise NoScriptError
        arguments = [self.script.register(a) for a in addresses]
        self.script.call(self.script.held(Kind.KERNEL, number), arguments)

    def _address(self, s: Slice) -> Place:
        if s.space is Space.SCRATCH:
            return Place(SCRATCH, s.offset)
        if s.space is Space.CONSTANT:
            return Place(self.script.held(Kind.CONSTANT, s.index), s.offset)
        key = s.space, s.index
        if key not in self._pointers:
            self._pointers[key] = self.script.fresh()
            of = ARGUMENTS if s.space is Space.ARGUMENT else RESULTS
            self.script.do(Operation.LOAD, of, 8 * s.index, self._pointers[key])
        return Place(self._pointers[key], s.offset)
