"""What a kind of kernel is: the launches that compute it, and how each thread of them is written.

`codegen.simt.kinds` lists the kinds; each has a file of its own, with a function that looks at a
`KernelSpec` and gives a `KernelKind`, or None if it is none of its business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.emitter import ElementalEmitter, ElementRule
from xladev.codegen.elemental.vectors import VECTOR_RULES
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.simt.machine import SimtMachine
from xladev.errors import CompileError


@dataclass(frozen=True, slots=True)
class ThreadBuild:
    """What the code of one thread is written with.

    Attributes:
        spec: what the kernel computes.
        machine: the device.
        e: elements of its computation; ``e.b`` is the function of the thread.
        operands, results: the arrays in memory.
        workspace: address of the kernel's own memory, if its kind asks for some.
        vector_rules: code for vectors of opcodes that are not elementwise, by opcode.
    """

    spec: KernelSpec
    machine: SimtMachine
    e: ElementalEmitter
    operands: tuple[IrArray, ...]
    results: tuple[IrArray, ...]
    workspace: Value | None = None
    vector_rules: Mapping[str, ElementRule] = field(default_factory=lambda: VECTOR_RULES)

    @property
    def subgroup(self) -> int:
        """Threads of a sub-group."""
        return self.machine.subgroup

    @property
    def b(self) -> FunctionBuilder:
        """The function of the thread."""
        return self.e.b

    @property
    def scratch(self) -> Value:
        """The workspace.

        Raises:
            CompileError: the kind asked for none.
        """
        if self.workspace is None:
            raise CompileError("a kernel without workspace wants some", where=self.spec.name)
        return self.workspace


@dataclass(frozen=True, slots=True)
class Stage:
    """One launch of a kernel.

    Attributes:
        emit: writes the code of one thread, and says what grid it is written for.
        shared_nbytes: static shared memory of one block.
        resident: blocks that should run on one core at once, and so share its registers.
    """

    emit: Callable[[ThreadBuild], LaunchDimensions]
    shared_nbytes: int = 0
    resident: int = 1


@dataclass(frozen=True, slots=True)
class KernelKind:
    """How a kernel is computed.

    Attributes:
        name: for dumps and reports, such as ``row reduction``.
        stages: its launches; each sees all that the ones before it wrote.
        workspace_nbytes: memory that stages share with one another, besides operands and results.
    """

    name: str
    stages: tuple[Stage, ...]
    workspace_nbytes: int = 0


Recogniser = Callable[[KernelSpec, SimtMachine], KernelKind | None]
"""Looks whether a kernel is of a kind, and how it is spread over a device."""


def single(
    name: str,
    emit: Callable[[ThreadBuild], None],
    dimensions: LaunchDimensions,
    shared_nbytes: int = 0,
    resident: int = 1,
) -> KernelKind:
    """A kind of one launch, whose grid is known beforehand."""

    def stage(t: ThreadBuild) -> LaunchDimensions:
        emit(t)
        return dimensions

    return KernelKind(name, (Stage(stage, shared_nbytes, resident),))
