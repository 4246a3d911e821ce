"""Turns one computation into a Procedure: steps become thunks, values become slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Protocol

from xladev.compiler.partition.assignment import (
    COLLECTIVE_OPCODES,
    DEVICE_NUMBER_OPCODES,
    EVALUATOR,
    RANDOM_STATE_OPCODE,
)
from xladev.compiler.partition.collective_schedule import DoneStep, StartStep
from xladev.compiler.partition.memory_spaces import EntrySpaces, in_space
from xladev.compiler.partition.partition import Region, Step, instructions_of, region_outputs
from xladev.compiler.partition.region_module import region_module
from xladev.compiler.partition.region_values import (
    RegionValue,
    operand_sources,
    own_values,
    sources,
    with_sizes,
)
from xladev.compiler.program.collective_thunk import CollectivePlan, plan_collective
from xladev.compiler.program.program import Procedure, Slot
from xladev.compiler.program.result_needs import result_needs
from xladev.compiler.program.thunks import (
    Call,
    Collective,
    CollectiveDone,
    CollectiveStart,
    Conditional,
    Constant,
    DeviceNumber,
    Evaluate,
    RandomState,
    RunExecutable,
    Slots,
    Thunk,
    Transfer,
    While,
)
from xladev.compiler.program.transfer_order import with_early_transfers
from xladev.compiler.signature import Signature
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.shape import Shape
from xladev.instrument import decision, is_deciding

TRANSFER_STEP, RESULT_STEP = "transfer", "result"
"""What decisions here are about: copies to another platform or layout; copies of results."""
_MOST_READERS = 3
"""Readers of a value that are told by name."""


class ProgramContext(Protocol):
    """What a procedure needs from the program that is being built."""

    def platform_index(self, device: str) -> int:
        """Index of a device name in `Program.platforms`."""
        ...

    def platform_name(self, index: int) -> str:
        """The device name of that index."""
        ...

    def boundary_shape(self, shape: Shape, platform: int) -> Shape:
        """The layout that a value has where procedures pass it to each other."""
        ...

    def executable(self, device: str, module: HloModule) -> tuple[int, Signature]:
        """Compiles a region; its number and signature."""
        ...

    def constant(self, value: RegionValue) -> int:
        """Number of a constant."""
        ...

    def procedure(self, computation: HloComputation, home: int) -> int:
        """Number of the procedure of a callee; built before its callers."""
        ...

    def home(self, instruction: HloInstruction) -> int:
        """The platform on which the computations of a control instruction take their values."""
        ...

    def random_seed(self) -> int:
        """The seed of the program's random counter."""
        ...

    def collective_plan(self, instruction: HloInstruction) -> CollectivePlan:
        """Groups and reduction of a collective."""
        ...


class ProcedureBuilder:
    """Builds one procedure.

    Args:
        around: the program.
        computation: what to build.
        steps: its partition.
        home: index of the platform on which parameters and results are.
    """

    def __init__(
        self,
        around: ProgramContext,
        computation: HloComputation,
        steps: tuple[Step, ...],
        home: int,
    ) -> None:
        self._around = around
        self._computation = computation
        self._steps = steps
        self._home = home
        self._slots: list[Slot] = []
        self._thunks: list[Thunk] = []
        self._origin: dict[RegionValue, int] = {}
        self._elsewhere: dict[tuple[RegionValue, Slot], int] = {}
        self._unshareable: set[int] = set()
        self._from_callees: set[int] = set()
        self._reader: Step | str = ""
        self._moves: dict[int, _Move] = {}
        self._begun: dict[HloInstruction, CollectiveStart] = {}

    def build(self, spaces: EntrySpaces | None) -> Procedure:
        """The procedure.

        Args:
            spaces: of the entry, where its parameters and results are wanted; the results must then
                be neither parameters nor constants nor each other. None for others.
        """
        parameters = with_sizes(
            value for parameter in self._computation.parameters for value in own_values(parameter)
        )
        wanted = _with_spaces(parameters, spaces.parameters if spaces else ())
        slots = tuple(self._define(value, self._boundary(value, space)) for value, space in wanted)
        self._unshareable.update(slots)
        outputs = region_outputs(self._steps, self._computation.root)
        for step in self._steps:
            self._reader = step
            self._run_step(step, outputs)
        root = with_sizes(sources(self._computation.root))
        self._reader = f"the result of {self._computation.name}"
        wanted = _with_spaces(root, spaces.results if spaces else ())
        results = tuple(self._read(value, self._boundary(value, space)) for value, space in wanted)
        if spaces is not None:
            results = tuple(map(self._own, root, results))
        for move in self._moves.values():
            move.tell()
        thunks = with_early_transfers(self._thunks, self._slots, slots)
        return Procedure(self._computation.name, tuple(self._slots), slots, results, thunks)

    # Slots

    def _boundary(self, value: RegionValue, space: int = 0) -> Slot:
        shape = self._around.boundary_shape(value.shape, self._home)
        return Slot(in_space(shape, space), self._home)

    def _new(self, slot: Slot) -> int:
        self._slots.append(slot)
        return len(self._slots) - 1

    def _define(self, value: RegionValue, slot: Slot) -> int:
        self._origin[value] = self._new(slot)
        return self._origin[value]

    def _define_all(self, values: Sequence[RegionValue]) -> Slots:
        """New slots, as procedures pass them, for what an SDK thunk gives."""
        return tuple(self._define(value, self._boundary(value)) for value in values)

    def _read(self, value: RegionValue, wanted: Slot) -> int:
        """A slot that holds the value on the platform and in the layout wanted."""
        if (value, wanted) in self._elsewhere:
            self._note_reader(value, self._elsewhere[value, wanted])
            return self._elsewhere[value, wanted]
        if value.producer.opcode == "constant":
            result = self._new(wanted)
            self._thunks.append(Constant(self._around.constant(value), result))
            self._unshareable.add(result)
        elif self._slots[self._origin[value]] == wanted:
            return self._origin[value]
        else:
            result = self._new(wanted)
            self._note_move(value, self._slots[self._origin[value]], result)
            self._thunks.append(Transfer(self._origin[value], result))
        self._elsewhere[value, wanted] = result
        return result

    def _note_move(self, value: RegionValue, held: Slot, result: int) -> None:
        """Remembers why a value is transferred, if somebody wants to know."""
        if not is_deciding():
            return
        wanted = self._slots[result]
        source, target = (self._around.platform_name(s.platform) for s in (held, wanted))
        verb = "given" if value.producer.opcode == "parameter" else "made"
        if held.platform == wanted.platform:
            self._moves[result] = _Move(value, "read by", f"as {wanted.shape}")
        else:
            self._moves[result] = _Move(value, f"{verb} on {source}, read by", f"on {target}")
        self._note_reader(value, result)

    def _note_reader(self, value: RegionValue, result: int) -> None:
        move = self._moves.get(result)
        if move is not None:
            move.readers.update(dict.fromkeys(_readers(value, self._reader)))

    def _read_anywhere(self, value: RegionValue) -> int:
        """A slot that holds the value, on whatever platform it is."""
        if value in self._origin:
            return self._origin[value]
        return self._read(value, self._boundary(value))

    def _read_all(self, values: Sequence[RegionValue]) -> Slots:
        return tuple(self._read(value, self._boundary(value)) for value in values)

    def _own(self, value: RegionValue, slot: int) -> int:
        """The slot, or a copy if it is not this result's alone."""
        if slot in self._unshareable:
            copy = self._new(self._slots[slot])
            opcode = value.producer.opcode
            is_kept = opcode in ("parameter", "constant")
            self._copied(value, f"a result is a {opcode}" if is_kept else "it is given back twice")
            self._thunks.append(Transfer(slot, copy))
            return copy
        if slot in self._from_callees:
            self._copied(value, f"{value.producer.name} gives it in memory of its own")
        self._unshareable.add(slot)
        return slot

    def _copied(self, value: RegionValue, why: str) -> None:
        decision(RESULT_STEP, _value_name(value), f"{value.shape.nbytes:,} bytes: {why}")

    # Steps

    def _run_step(self, step: Step, outputs: Mapping[Region, Sequence[RegionValue]]) -> None:
        match step:
            case Region():
                self._run_region(step, outputs[step])
            case StartStep():
                self._run_collective(step.instruction, CollectiveStart)
            case DoneStep():
                begun = self._begun.pop(step.instruction)
                self._thunks.append(CollectiveDone(begun.name, begun.arguments, begun.results))
            case _:
                self._run_instruction(step)

    def _run_region(self, region: Region, outputs: Sequence[RegionValue]) -> None:
        first, number = region.instructions[0].name, len(self._thunks)
        name = f"{self._computation.name}.{number if len(region.instructions) > 1 else first}"
        made = region_module(name, region.instructions, outputs)
        number, signature = self._around.executable(region.device, made.module)
        inputs = with_sizes(made.inputs)
        if region.device == EVALUATOR:
            arguments = tuple(map(self._read_anywhere, inputs))
            results = self._define_all(with_sizes(outputs))
            self._thunks.append(Evaluate(number, arguments, results))
            return
        platform = self._around.platform_index(region.device)
        arguments = tuple(
            self._read(value, Slot(shape, platform))
            for value, shape in zip(inputs, signature.argument_shapes, strict=True)
        )
        results = tuple(
            self._define(value, Slot(shape, platform))
            for value, shape in zip(with_sizes(outputs), signature.result_shapes, strict=True)
        )
        known = len(arguments) == len(made.inputs) and len(results) == len(outputs)
        needs = result_needs(made.module) if known else ()
        self._thunks.append(RunExecutable(number, arguments, results, needs))

    def _run_instruction(self, instruction: HloInstruction) -> None:
        opcode = instruction.opcode
        if opcode in COLLECTIVE_OPCODES:
            self._run_collective(instruction)
        elif opcode in DEVICE_NUMBER_OPCODES:
            (result,) = self._define_all([RegionValue(instruction)])
            self._thunks.append(DeviceNumber(opcode.removesuffix("-id"), result))
        elif opcode == RANDOM_STATE_OPCODE:
            (result,) = self._define_all([RegionValue(instruction)])
            seed = self._around.random_seed()
            self._thunks.append(RandomState(seed, instruction["delta"], result))
        else:
            self._run_control(instruction)

    def _run_collective(
        self, instruction: HloInstruction, kind: type[Collective] = Collective
    ) -> None:
        plan = self._around.collective_plan(instruction)
        arguments = self._read_all(operand_sources(instruction.operands))
        results = self._define_all(list(own_values(instruction)))
        thunk = plan_collective(instruction, plan, arguments, results, kind)
        if isinstance(thunk, CollectiveStart):
            self._begun[instruction] = thunk
        self._thunks.append(thunk)

    def _run_control(self, instruction: HloInstruction) -> None:
        """while, conditional, call, fusion; their values are on the callees' platform."""
        home = self._around.home(instruction)
        procedures = tuple(self._around.procedure(c, home) for c in instruction.called)
        operands = instruction.operands
        rows = [self._read_for_callee(operand, home) for operand in operands]
        results = tuple(
            self._define(value, Slot(self._around.boundary_shape(value.shape, home), home))
            for value in with_sizes(own_values(instruction))
        )
        self._from_callees.update(results)
        self._thunks.append(_control_thunk(instruction, procedures, rows, results))

    def _read_for_callee(self, operand: HloInstruction, home: int) -> list[tuple[RegionValue, int]]:
        return [
            (value, self._read(value, Slot(self._around.boundary_shape(value.shape, home), home)))
            for value in with_sizes(sources(operand))
        ]


def _with_spaces(
    values: Sequence[RegionValue], spaces: Sequence[int]
) -> Iterator[tuple[RegionValue, int]]:
    """Each value with its memory space; those beyond them, hidden sizes, are in the first one."""
    return zip(values, chain(spaces, repeat(0)), strict=False)


@dataclass(slots=True)
class _Move:
    """Why a value is transferred: what is said before and after the names of its readers."""

    value: RegionValue
    before: str
    after: str
    readers: dict[str, None] = field(default_factory=dict[str, None])

    def tell(self) -> None:
        """Tells it."""
        names = list(self.readers)
        if len(names) > _MOST_READERS:
            names[_MOST_READERS:] = [f"{len(names) - _MOST_READERS} more"]
        *first, last = names
        shown = f"{', '.join(first)} and {last}" if first else last
        what = f"{self.value.shape.nbytes:,} bytes: {self.before} {shown} {self.after}"
        decision(TRANSFER_STEP, _value_name(self.value), what)


def _value_name(value: RegionValue) -> str:
    """The instruction, with the part of its result that it is."""
    return value.producer.name + "".join(f"{{{index}}}" for index in value.part)


def _readers(value: RegionValue, reader: Step | str) -> Iterator[str]:
    """Names of what reads a value: of instructions, or of a result."""
    if isinstance(reader, str):
        yield reader
        return
    whole = value._replace(dimension=-1)
    for instruction in instructions_of(reader):
        if whole in operand_sources(instruction.operands):
            yield instruction.name


def _control_thunk(
    instruction: HloInstruction,
    procedures: tuple[int, ...],
    rows: Sequence[Sequence[tuple[RegionValue, int]]],
    results: Slots,
) -> Thunk:
    """Args: rows: for each operand, its values, sizes last, and their slots."""
    if instruction.opcode == "while":
        condition, body = procedures
        return While(condition, body, _slots_of(rows[0]), results)
    if instruction.opcode == "conditional":
        ((_, index),) = rows[0]
        return Conditional(index, procedures, tuple(map(_slots_of, rows[1:])), results)
    together = [pair for row in rows for pair in row]
    data = [slot for value, slot in together if value.dimension < 0]
    sizes = [slot for value, slot in together if value.dimension >= 0]
    return Call(procedures[0], (*data, *sizes), results)


def _slots_of(row: Sequence[tuple[RegionValue, int]]) -> Slots:
    return tuple(slot for _, slot in row)
