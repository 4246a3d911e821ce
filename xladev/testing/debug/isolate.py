"""Names the step, and the instruction or kernel, that makes a program wrong on a platform.

Passes are judged by the evaluator, which runs the program after them; kernels by the platform,
which runs each alone on the operands that the evaluator has for it. Of a program for several
devices that is done with the operands of each; what exchanges data between them cannot run alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from xladev.compiler.fusion.instruction_fusion import kernel_programs
from xladev.compiler.partition.assignment import DEVICE_NUMBER_OPCODES, CompileTarget
from xladev.errors import XladevError
from xladev.hlo.devices import Topology
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import Value
from xladev.hlo.multi_device import evaluate_replicated, topology_of
from xladev.testing.debug.forms import forms_of
from xladev.testing.debug.prefixes import prefixes
from xladev.testing.debug.recording import Recorded, RecordingEvaluator
from xladev.testing.debug.steps import wrong_step
from xladev.testing.debug.suspect import Suspect
from xladev.testing.verdict import Case, Verdict

STAGES = ("schedule=false", "fusion=false", "optimization_level=0")
"""Options that leave out a stage each."""

_PLUMBING = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "after-all", "add-dependency", "domain",
})  # fmt: skip
_BETWEEN_DEVICES = frozenset({"collective", "async", "io"})
"""Categories of opcodes that wait for other devices, or for the host."""
_DRAWN_ANEW = frozenset({"rng", "rng-get-and-update-state"})
"""Opcodes whose results are other ones in another program."""

Progress = Callable[[int, int], None]
"""Told how many kernels were judged, of how many."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """An instruction or kernel that is wrong by itself.

    Attributes:
        instruction: which, in the form of the program that the platform is given.
        verdict: what is wrong with it.
        case: it alone, with its operands.
        inside: for a kernel of several instructions, or a loop, the first of them that is wrong;
            None if each of them is right.
        device: replica and partition whose operands it was given.
        computes_operands: False for what is wrong on operands in memory; True for an instruction
            that is right on them, but wrong where its kernel computes them too.
    """

    instruction: HloInstruction
    verdict: Verdict
    case: Case
    inside: Culprit | None = None
    device: tuple[int, int] = (0, 0)
    computes_operands: bool = False


@dataclass(frozen=True, slots=True)
class Isolation:
    """What is known of a program that is wrong.

    Attributes:
        verdict: on the whole program; nothing else is known if it is not wrong.
        step: the pass after which the evaluator gives something else.
        finding: what that is, or the error that the step raised.
        culprit: the first instruction or kernel that is wrong alone.
        judged: how many instructions and kernels were judged, of how many.
        mended_by: options that make the whole program right.
        devices: how many the program is for.
        exchanges: instructions that were not judged, as they exchange data between devices.
    """

    verdict: Verdict
    step: str = ""
    finding: str = ""
    culprit: Culprit | None = None
    judged: tuple[int, int] = (0, 0)
    mended_by: tuple[str, ...] = ()
    devices: int = 1
    exchanges: tuple[str, ...] = ()


def isolate(
    suspect: Suspect,
    target: CompileTarget,
    module: HloModule,
    arguments: Sequence[Value],
    progress: Progress = lambda _done, _count: None,
) -> Isolation:
    """Finds what makes a program wrong on a suspect.

    Args:
        suspect: runs programs.
        target: the suspect's platform, as the compiler sees it.
        module: the program.
        arguments: one value per parameter, given to each device.
        progress: told how far it is.
    """
    whole = suspect.judge(module, arguments)
    if not whole.is_wrong:
        return Isolation(whole)
    try:
        forms = forms_of(module, target, suspect.options)
    except XladevError as error:
        return Isolation(whole, "a pass", str(error))
    found = wrong_step(forms, arguments)
    if found is not None:
        return Isolation(whole, found[0].step, str(found[1]))
    topology = topology_of(module)
    records = _records(forms[-1].module, arguments, topology)
    several = len(topology.devices)
    for done, record in enumerate(records):
        progress(done, len(records))
        culprit = _judged(suspect, record)
        if culprit is not None:
            judged = done + 1, len(records)
            return Isolation(whole, culprit=culprit, judged=judged, devices=several)
    return Isolation(
        whole,
        judged=(len(records), len(records)),
        mended_by=_mending(suspect, module, arguments),
        devices=several,
        exchanges=tuple(sorted(i.name for i in _exchanging(forms[-1].module))),
    )


def _records(module: HloModule, arguments: Sequence[Value], topology: Topology) -> list[Recorded]:
    """The instructions of entry, loops, branches and calls that run, in their order.

    Those of the first device, then those of others that were given other values.
    """
    evaluator = RecordingEvaluator(wanted=_steps(module))
    if len(topology.devices) == 1:
        evaluator.run(module, *arguments)
        return list(evaluator.first.values())
    rows = [arguments] * len(topology.devices)
    evaluate_replicated(module, rows, topology=topology, evaluator=evaluator)
    kept: dict[HloInstruction, list[Recorded]] = {}
    ordered = sorted(evaluator.first.values(), key=lambda record: record.device)
    for record in ordered:
        others = kept.setdefault(record.instruction, [])
        if not any(record.is_fed_like(other) for other in others):
            others.append(record)
    return sorted((r for rows in kept.values() for r in rows), key=lambda record: record.device)


def _exchanging(module: HloModule) -> frozenset[HloInstruction]:
    """What exchanges data between devices or depends on their numbers, and what runs such."""
    found: set[HloInstruction] = set()
    holding: set[HloComputation] = set()
    for computation in module.computations:
        for i in computation.instructions:
            if (
                i.opcode in DEVICE_NUMBER_OPCODES
                or i.op.category in _BETWEEN_DEVICES
                or holding.intersection(i.called)
            ):
                found.add(i)
        if not found.isdisjoint(computation.instructions):
            holding.add(computation)
    return frozenset(found)


def _steps(module: HloModule) -> frozenset[HloInstruction]:
    programs = kernel_programs(module)
    judgeable = _judgeable(c for c in module.computations if c.name in programs)
    return frozenset(judgeable) - _exchanging(module)


def _judgeable(computations: Iterable[HloComputation]) -> Iterator[HloInstruction]:
    instructions = (i for c in computations for i in c.instructions)
    return (i for i in instructions if i.opcode not in _PLUMBING | _DRAWN_ANEW)


def _judged(suspect: Suspect, record: Recorded) -> Culprit | None:
    case = record.case()
    verdict = suspect.judge(*case)
    if not verdict.is_wrong:
        return None
    inside = next(_inside(suspect, case), None) or next(_grown(suspect, case), None)
    return Culprit(record.instruction, verdict, case, inside, record.device)


def _inside(suspect: Suspect, case: Case) -> Iterator[Culprit]:
    """The instructions of a kernel or a loop that are wrong alone, in their order.

    Those of a loop were right in their first iteration, so that they are judged in their last one.
    """
    module, arguments = case
    root = module.entry.root
    evaluator = RecordingEvaluator(wanted=_within(module, root))
    evaluator.run(module, *arguments)
    for record in evaluator.last.values():
        culprit = _judged(suspect, record)
        if culprit is not None:
            yield culprit


def _grown(suspect: Suspect, case: Case) -> Iterator[Culprit]:
    """The instructions of a kernel that are wrong with all that they are computed from."""
    if case[0].entry.root.opcode != "fusion":
        return
    for instruction, prefix in prefixes(case):
        verdict = suspect.judge(*prefix)
        if verdict.is_wrong:
            yield Culprit(instruction, verdict, prefix, computes_operands=True)


def _within(module: HloModule, root: HloInstruction) -> frozenset[HloInstruction]:
    """The instructions that a kernel, or a loop, branch or call is made of."""
    if root.opcode == "fusion":
        return frozenset(_judgeable((root["calls"],)))
    return _steps(module) - {root}


def _mending(suspect: Suspect, module: HloModule, arguments: Sequence[Value]) -> tuple[str, ...]:
    """The stages without which the program is right."""
    return tuple(
        stage
        for stage in STAGES
        if not suspect.judge(module, arguments, suspect.options.with_option(stage)).is_wrong
    )
