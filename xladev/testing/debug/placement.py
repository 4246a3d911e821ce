"""Where each instruction of a program ran and why, which kernels there are, and what is copied.

All of it is read off what a compilation did (`compiler/compile_record.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xladev.compiler.compile_record import CompileRecord, RegionRecord
from xladev.compiler.kernel_compiler import COPY_STEP
from xladev.compiler.partition.assignment import CONTROL_OPCODES, SDK, STRUCTURAL_OPCODES
from xladev.compiler.partition.partition import instructions_of
from xladev.compiler.program.procedure_builder import TRANSFER_STEP
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.testing.debug.assembly import Split


@dataclass(frozen=True, slots=True)
class InstructionPlacement:
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
class PlacedKernel:
    """One kernel of a program.

    Attributes:
        kernel: the instruction that it stands for, a fusion or a single one.
        platform: where it runs.
        runs: steps of the plan that run it; those of a loop count once.
        reasons: what passes decided on its results, by the name of the instruction.
    """

    kernel: HloInstruction
    platform: str
    runs: int
    reasons: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class CopiedValue:
    """A value that is copied.

    Attributes:
        name: of the instruction that makes it.
        between: True if it goes to another platform or layout, False within one program's memory.
        why: its size, and a clause without a full stop.
        platform: whose memory; empty if several are concerned.
    """

    name: str
    between: bool
    why: str
    platform: str = ""


def placements(record: CompileRecord | Split) -> tuple[InstructionPlacement, ...]:
    """Each instruction that runs and is no structure, in the order of the program."""
    return tuple(_places(record))


def _places(record: CompileRecord | Split) -> Iterator[InstructionPlacement]:
    assignment = record.assignment
    homes = _homes(record)
    for computation in record.module.computations:
        steps, caller = record.steps.get(computation), homes.get(computation)
        if steps is not None:
            live = {i for step in steps for i in instructions_of(step)}
            for i in filter(live.__contains__, computation.instructions):
                why = assignment.reasons.get(i, "")
                yield InstructionPlacement(i, computation, assignment.devices[i], why)
        elif caller is not None:
            device = assignment.devices[caller]
            for i in computation.instructions:
                if i.opcode not in STRUCTURAL_OPCODES:
                    yield InstructionPlacement(i, computation, device, f"with {caller.name}")


def _homes(record: CompileRecord | Split) -> dict[HloComputation, HloInstruction]:
    """For each computation that a platform runs with what calls it: the outermost caller."""
    homes: dict[HloComputation, HloInstruction] = {}
    for computation in reversed(record.module.computations):
        steps = record.steps.get(computation)
        if steps is None and computation not in homes:
            continue  # what a reduce applies, and the like: a part of that instruction
        inside = [i for step in steps or () for i in instructions_of(step)]
        for i in computation.instructions if steps is None else inside:
            if i.opcode in CONTROL_OPCODES and record.assignment.devices.get(i) != SDK:
                for called in i.called:
                    homes.setdefault(called, homes.get(computation, i))
    return homes


def kernels(record: CompileRecord) -> tuple[PlacedKernel, ...]:
    """The kernels that the SDK formed, in the order of executables and their steps."""
    return tuple(kernel for region in record.regions for kernel in _kernels(region))


def _kernels(region: RegionRecord) -> Iterator[PlacedKernel]:
    if region.plan is None:
        return
    reasons: dict[str, dict[str, None]] = {}
    for d in region.decisions:
        if d.step == COPY_STEP:
            continue  # told as what it is
        reasons.setdefault(d.name, {})[d.why] = None
    told = {name: tuple(filter(None, whys)) for name, whys in reasons.items()}
    for kernel, runs in Counter(region.plan.operations).items():
        yield PlacedKernel(kernel, region.platform, runs, told)


def formers(record: CompileRecord) -> tuple[str, ...]:
    """Platforms that form the kernels of their regions themselves."""
    names = (region.platform for region in record.regions if region.plan is None)
    return tuple(name for name in dict.fromkeys(names) if name in record.program.platforms)


def copied_values(record: CompileRecord) -> tuple[CopiedValue, ...]:
    """The copies that the program has and its instructions have not."""
    between = (CopiedValue(d.name, d.step == TRANSFER_STEP, d.why) for d in record.transfers)
    within = (
        CopiedValue(c.name, False, f"{c.nbytes:,} bytes: {c.why}", region.platform)
        for region in record.regions
        if region.plan is not None
        for c in region.plan.copies
    )
    return (*between, *within)
