"""Which device runs which instruction: the attribute `note.device`, or else what backends support.

Control flow and collectives that the target refuses belong to the SDK. Anything else that it
refuses goes to the first host platform that takes it, and then to the evaluator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from xladev.compiler.contract import Compiler
from xladev.compiler.description import DeviceDescription
from xladev.compiler.isolation import expect, plugin_call
from xladev.compiler.program.program import Fallback
from xladev.compiler.support import YES, Support, no
from xladev.errors import EvaluationError, UnsupportedError, XladevError
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.ops.rules import compatible
from xladev.hlo.shape import Layout, Shape, check_shape
from xladev.hlo.valued import no_value

SDK = "sdk"
"""Device name of control flow and collectives that the SDK runs."""

EVALUATOR = "evaluator"
"""Device name of what only the SDK's evaluator runs."""

NOT_PLACED = "NOT_PLACED"
"""Code of the error of an instruction that the device it names does not take."""

CONTROL_OPCODES = frozenset({"while", "conditional", "call", "fusion"})
"""Opcodes whose computations the SDK can run itself, instruction by instruction."""

COLLECTIVE_OPCODES = frozenset(
    {
        "all-gather", "all-reduce", "all-to-all", "collective-broadcast", "collective-permute",
        "collective-reduce", "ragged-all-to-all", "reduce-scatter",
    }
)  # fmt: skip
"""Opcodes that the SDK can run through its communicators."""


def exchanges(instruction: HloInstruction) -> bool:
    """True if the instruction, or half of an asynchronous pair, exchanges data with others."""
    opcode = instruction.opcode.removesuffix("-start").removesuffix("-done")
    return opcode in COLLECTIVE_OPCODES


DEVICE_NUMBER_OPCODES = frozenset({"replica-id", "partition-id"})
RANDOM_STATE_OPCODE = "rng-get-and-update-state"
"""The one opcode whose state outlives a run; the SDK counts for every loaded program."""

STRUCTURAL_OPCODES = frozenset({"parameter", "constant", "tuple", "get-tuple-element"})
"""Opcodes that cost nothing: no backend is asked, they follow their users."""


@dataclass(frozen=True, slots=True)
class CompileTarget:
    """A platform as the compiler sees it.

    Attributes:
        name: device name that assignments use, usually the platform's name.
        compiler: the plugin's compiler.
        description: the device type to compile for.
        ordinal: number of the device among those of its platform; of the platform wanted, the one
            where the program's arrays are.
    """

    name: str
    compiler: Compiler
    description: DeviceDescription
    ordinal: int = 0

    @property
    def device_name(self) -> str:
        """Platform and number, such as ``cpu:0``."""
        return f"{self.name.partition(':')[0]}:{self.ordinal}"

    def supports(self, instruction: HloInstruction) -> Support:
        """The compiler's answer; a compiler that raises is an error naming it.

        Raises:
            PluginError: the compiler raised, or gave no `Support`.
        """
        function = "Compiler.supports"

        def place(error: XladevError) -> None:
            error.where = repr(instruction)

        with plugin_call(self.name, function, place):
            return expect(
                self.compiler.supports(instruction, self.description), Support, self.name, function
            )

    def takes_wherever_it_goes(self, instruction: HloInstruction) -> bool:
        """Whether every device that the instruction may go to takes it."""
        return bool(self.supports(instruction))

    def formed(self, module: HloModule) -> HloModule:
        """What the device is given in place of a module: what it takes in another form, in that."""
        return module

    def rated(self) -> DeviceDescription:
        """The description with rates that may have to be measured first.

        Raises:
            PluginError: the compiler raised, or gave no description.
        """
        function = "Compiler.with_rates"
        with plugin_call(self.name, function):
            found = self.compiler.with_rates(self.description)
            return expect(found, DeviceDescription, self.name, function)

    def device_layout(self, shape: Shape) -> Layout:
        """The layout in which the device wants an array of ``shape``.

        Raises:
            PluginError: the compiler raised, or gave no layout of that rank.
        """
        function = "Compiler.device_layout"

        def place(error: XladevError) -> None:
            error.where = f"{self.name}, {shape}"

        with plugin_call(self.name, function, place):
            layout = expect(self.compiler.device_layout(shape), Layout, self.name, function)
            check_shape(shape.with_layout(layout))
            return layout


_NO_DEVICES: Mapping[str, CompileTarget] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Assignment:
    """A device name for each instruction that is no structure.

    Attributes:
        devices: `SDK`, `EVALUATOR` or the name of a target, by instruction.
        fallbacks: what the first target refused and the SDK does not run itself.
        reasons: why an instruction is not on the first target, or not where its own attribute
            wants it.
        launch_order: the devices of a program whose devices are to work beside one another, in the
            order in which they are given work that does not depend on each other's; empty for one
            that has a host for what it refuses.
        estimates: seconds of a run by estimate, where that decided: of this assignment, then of
            others, each with what it is.
    """

    devices: Mapping[HloInstruction, str]
    fallbacks: tuple[Fallback, ...]
    reasons: Mapping[HloInstruction, str] = field(default_factory=dict[HloInstruction, str])
    launch_order: tuple[str, ...] = ()
    estimates: tuple[tuple[str, float], ...] = ()


class _Choice(NamedTuple):
    device: str
    refusal: str = ""
    why: str = ""


def assign(
    module: HloModule,
    target: CompileTarget,
    hosts: Callable[[], Sequence[CompileTarget]] = tuple,
    *,
    op_by_op: bool = False,
    devices: Mapping[str, CompileTarget] = _NO_DEVICES,
    soft: bool = True,
) -> Assignment:
    """Assigns every instruction that the SDK may have to run separately.

    Args:
        module: what to assign.
        target: the platform wanted.
        hosts: gives platforms for what it refuses, best first; asked only if there is any.
        op_by_op: no platform gets control flow; the SDK runs it, so that it sees each instruction.
        devices: those, besides target and hosts, that attributes of instructions may name.
        soft: False: an instruction that the device it names does not take is an error.

    Raises:
        UnsupportedError: nobody runs an instruction; with every platform's reason. Or not ``soft``,
            and a device does not take what names it (code `NOT_PLACED`).
        PluginError: a compiler raised.
    """
    return _Assigner(target, hosts, op_by_op, devices, soft).run(module)


class _Assigner:
    """Answers of one compilation, each asked once."""

    def __init__(
        self,
        target: CompileTarget,
        hosts: Callable[[], Sequence[CompileTarget]],
        op_by_op: bool,
        devices: Mapping[str, CompileTarget],
        soft: bool,
    ) -> None:
        self._target = target
        self._op_by_op = op_by_op
        self._named = devices
        self._soft = soft
        self._find_hosts = hosts
        self._hosts: tuple[CompileTarget, ...] | None = None
        self._answers: dict[tuple[str, HloInstruction], Support] = {}
        self._devices: dict[HloInstruction, str] = {}
        self._fallbacks: list[Fallback] = []
        self._reasons: dict[HloInstruction, str] = {}

    def run(self, module: HloModule) -> Assignment:
        for computation in reversed(control_computations(module)):
            self._answer_control(computation)
        pending, seen = [module.entry], {module.entry}
        while pending:
            for instruction in pending.pop().instructions:
                if instruction.opcode in STRUCTURAL_OPCODES:
                    continue
                if self._assign(instruction) == SDK and instruction.opcode in CONTROL_OPCODES:
                    called = [c for c in instruction.called if c not in seen]
                    pending.extend(called)
                    seen.update(called)
        return Assignment(self._devices, tuple(self._fallbacks), self._reasons)

    @property
    def hosts(self) -> tuple[CompileTarget, ...]:
        """Platforms for what the target refuses."""
        if self._hosts is None:
            self._hosts = tuple(self._find_hosts())
        return self._hosts

    def _answer_control(self, computation: HloComputation) -> None:
        """Asks the target for each control instruction with all it calls, callees first."""
        for instruction in computation.instructions:
            if instruction.opcode in CONTROL_OPCODES:
                answer = self._target.supports(instruction)
                if self._op_by_op and is_run_by_sdk(instruction):
                    answer = no("the program runs op by op")
                elif answer:
                    answer = next(self._refusals_within(self._target, instruction), YES)
                self._answers[self._target.name, instruction] = answer

    def _refusals_within(
        self, target: CompileTarget, instruction: HloInstruction
    ) -> Iterator[Support]:
        for computation in dict.fromkeys(instruction.called):
            for inner in computation.instructions:
                if inner.opcode in STRUCTURAL_OPCODES:
                    continue
                wanted = inner.note.device
                if wanted not in (None, target.name) and self._device(wanted) is not None:
                    yield no(f"{inner.name} in {computation.name} runs on {wanted}")
                answer = self._support(target, inner)
                if not answer:
                    yield no(f"{inner.name} in {computation.name}: {answer.reason}")

    def _device(self, name: str | None) -> CompileTarget | None:
        """The device of that name, if it takes part."""
        if name is None or name == self._target.name:
            return self._target
        if name in self._named:
            return self._named[name]
        return next((host for host in self.hosts if host.name == name), None)

    def _support(self, target: CompileTarget, instruction: HloInstruction) -> Support:
        key = target.name, instruction
        if key not in self._answers:
            self._answers[key] = target.supports(instruction)
        return self._answers[key]

    def _assign(self, instruction: HloInstruction) -> str:
        choice = self._wanted(instruction) or self._by_support(instruction)
        self._devices[instruction] = choice.device
        self._check_wish(instruction, choice)
        reason = self._reason(instruction, choice)
        if reason:
            self._reasons[instruction] = reason
        if choice.refusal:
            self._fallbacks.append(
                Fallback(instruction.name, instruction.opcode, choice.device, choice.refusal)
            )
        return choice.device

    def _reason(self, instruction: HloInstruction, choice: _Choice) -> str:
        """Why the instruction runs there, unless the target just takes it."""
        refusal = choice.refusal or choice.why
        said = f"{self._target.name}: {refusal}" if refusal else ""
        wanted = instruction.note.device
        if wanted is None:
            return said
        if wanted == choice.device:
            return "the program asks for it"
        if self._device(wanted) is None:
            return f"the program asks for {wanted}, which is not there" + (said and f"; {said}")
        return f"{wanted}, which the program asks for, does not take it" + (said and f"; {said}")

    def _wanted(self, instruction: HloInstruction) -> _Choice | None:
        """What the instruction's own attribute says, if that device takes it."""
        wanted = instruction.note.device
        if wanted is None or wanted == self._target.name:
            return None
        target = self._device(wanted)
        if target is None or not self._support(target, instruction):
            return None
        if instruction.opcode in CONTROL_OPCODES:
            within = self._refusals_within(target, instruction)
            if self._op_by_op or next(within, None) is not None:
                return None
        return _Choice(target.name)

    def _check_wish(self, instruction: HloInstruction, choice: _Choice) -> None:
        """Refuses to move what names its device, unless placement is soft.

        Control flow that the SDK runs is nowhere itself.
        """
        wanted = instruction.note.device
        if self._soft or wanted in (None, choice.device) or choice.device == SDK:
            return
        raise UnsupportedError(
            f"{instruction.name} ({instruction.opcode}) cannot run on {wanted}",
            where=repr(instruction),
            why=self._wish_refusal(instruction),
            hint="place it elsewhere, or compile with soft_placement=True, which moves it",
            code=NOT_PLACED,
        )

    def _wish_refusal(self, instruction: HloInstruction) -> str:
        """Why the device that an instruction names does not take it."""
        target = self._device(instruction.note.device)
        if target is None:
            return f"there is no device {instruction.note.device}"
        answer = self._support(target, instruction)
        if answer:
            answer = next(self._refusals_within(target, instruction), answer)
        return answer.reason

    def _by_support(self, instruction: HloInstruction) -> _Choice:
        answer = self._support(self._target, instruction)
        if answer:
            return _Choice(self._target.name)
        if is_run_by_sdk(instruction):
            _refuse_dynamic_exchange(instruction)
            return _Choice(SDK, why=answer.reason)
        for target in self.hosts:
            if self._support(target, instruction):
                return _Choice(target.name, answer.reason)
        refusal = no_value(instruction)
        if refusal is None:
            return _Choice(EVALUATOR, answer.reason)
        raise self._nobody(instruction, refusal)

    def _nobody(self, instruction: HloInstruction, last: EvaluationError) -> UnsupportedError:
        reasons = [
            f"{target.name}: {self._support(target, instruction).reason}"
            for target in (self._target, *self.hosts)
        ]
        reasons.append(f"evaluator: {last.what}" + (f", {last.why}" if last.why else ""))
        return UnsupportedError(
            f"no platform runs {_kind_of(instruction)}",
            where=repr(instruction),
            why="; ".join(reasons),
            hint=last.hint,
        )


def _kind_of(instruction: HloInstruction) -> str:
    if instruction.opcode != "custom-call":
        return instruction.opcode
    return f"custom call {instruction['custom_call_target']!r}"


_RUN_BY_SDK = CONTROL_OPCODES | COLLECTIVE_OPCODES | DEVICE_NUMBER_OPCODES | {RANDOM_STATE_OPCODE}


def is_run_by_sdk(instruction: HloInstruction) -> bool:
    """True for control flow, collectives, device numbers and the random counter.

    Not for a conditional of which only some branches give a dynamic shape: the others have no sizes
    to hand over.
    """
    opcode = instruction.opcode
    if opcode == "conditional":
        return all(compatible(c.root.shape, instruction.shape) for c in instruction.called)
    return opcode in _RUN_BY_SDK


def _refuse_dynamic_exchange(instruction: HloInstruction) -> None:
    values = (*instruction.operands, instruction)
    if not exchanges(instruction) or not any(_is_dynamic(v.shape) for v in values):
        return
    raise UnsupportedError(
        f"{instruction.opcode} of a dynamic shape",
        where=repr(instruction),
        why="devices exchange whole buffers; how much of each is live would be lost",
        hint="pad the value first (pad, or a select on iota), and exchange its size beside it",
    )


def _is_dynamic(shape: Shape) -> bool:
    return any(leaf.is_dynamic for _, leaf in shape.leaves())


def control_computations(module: HloModule) -> list[HloComputation]:
    """Computations that the SDK may have to run, callers before callees."""
    wanted = {module.entry}
    for computation in reversed(module.computations):
        if computation in wanted:
            for instruction in computation.instructions:
                if instruction.opcode in CONTROL_OPCODES:
                    wanted.update(instruction.called)
    return [c for c in reversed(module.computations) if c in wanted]


def refuse_fallbacks(name: str, fallbacks: Sequence[Fallback], shown: int = 20) -> None:
    """Raises if anything fell back, for strict compilation.

    Raises:
        UnsupportedError: lists what fell back and why.
    """
    if not fallbacks:
        return
    lines = [str(f) for f in fallbacks[:shown]]
    if len(fallbacks) > shown:
        lines.append(f"and {len(fallbacks) - shown} more")
    raise UnsupportedError(
        f"{len(fallbacks)} instructions would fall back to the host, which strict forbids",
        where=f"module {name}",
        why="\n    ".join(lines),
        hint="compile without strict=True (XLADEV_STRICT), or implement these in the backend",
    )
