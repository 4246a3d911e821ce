"""Where each instruction of a program runs and why, and which values are copied and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xladev.compiler.assignment import (
    CONTROL_OPCODES,
    SDK,
    STRUCTURAL_OPCODES,
    Assignment,
    CompileTarget,
    assign,
)
from xladev.compiler.compile import compile_module
from xladev.compiler.options import CompileOptions
from xladev.compiler.prepare import prepare
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.instrument import collect_decisions
from xladev.passes.pipeline import Instrumentation

Hosts = Callable[[], Sequence[CompileTarget]]
COPY_STEPS = ("transfer", "copy")
"""Steps of the compiler that tell of copies: between platforms or layouts, and within a program."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one instruction runs.

    Attributes:
        instruction: which, of the program after passes and expansions.
        computation: that it stands in.
        device: name of a platform, ``sdk`` or ``evaluator``.
        why: empty where the platform wanted just takes it.
    """

    instruction: HloInstruction
    computation: HloComputation
    device: str
    why: str


@dataclass(frozen=True, slots=True)
class CopiedValue:
    """A value that is copied.

    Attributes:
        name: of the instruction that makes it.
        between: True if it goes to another platform or layout, False within one program's memory.
        why: its size, and a clause without a full stop.
    """

    name: str
    between: bool
    why: str


def placements(
    module: HloModule, target: CompileTarget, options: CompileOptions, hosts: Hosts = tuple
) -> tuple[Placement, ...]:
    """Each instruction that is no structure, in the order of the program.

    Args:
        module: the program.
        target: the platform wanted.
        options: how it is compiled.
        hosts: gives host platforms for what it refuses, best first.

    Raises:
        XladevError: the program cannot be prepared, or nobody runs an instruction.
    """
    ready = prepare(module, target, options, Instrumentation(None, None))
    return tuple(_places(ready, assign(ready, target, hosts, op_by_op=options.op_by_op)))


def _places(module: HloModule, assignment: Assignment) -> Iterator[Placement]:
    homes = _homes(module, assignment)
    for computation in module.computations:
        if computation not in homes and computation is not module.entry:
            continue  # what a reduce applies, and the like: a part of that instruction
        for i in computation.instructions:
            if i.opcode in STRUCTURAL_OPCODES:
                continue
            if i in assignment.devices:
                why = assignment.reasons.get(i, "")
                yield Placement(i, computation, assignment.devices[i], why)
            elif homes[computation] is not None:
                caller = homes[computation]
                assert caller is not None
                yield Placement(i, computation, assignment.devices[caller], f"with {caller.name}")


def _homes(
    module: HloModule, assignment: Assignment
) -> dict[HloComputation, HloInstruction | None]:
    """For each computation that runs as a program: the instruction that takes it along.

    None where its instructions are assigned one by one.
    """
    homes: dict[HloComputation, HloInstruction | None] = {module.entry: None}
    for computation in reversed(module.computations):
        if computation not in homes:
            continue
        for i in computation.instructions:
            if i.opcode in CONTROL_OPCODES:
                caller = homes[computation]
                if caller is None and assignment.devices.get(i) != SDK:
                    caller = i
                for called in i.called:
                    homes.setdefault(called, caller)
    return homes


def copied_values(
    module: HloModule, target: CompileTarget, options: CompileOptions, hosts: Hosts = tuple
) -> tuple[CopiedValue, ...]:
    """The copies that compiling adds to a program; it is compiled to find them.

    Args: as of `placements`.

    Raises:
        XladevError: the program cannot be compiled.
    """
    with collect_decisions() as decisions:
        compile_module(module, target, options, hosts)
    return tuple(
        CopiedValue(d.name, d.step == "transfer", d.why) for d in decisions if d.step in COPY_STEPS
    )
