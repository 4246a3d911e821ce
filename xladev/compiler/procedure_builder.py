"""Turns one computation into a Procedure: steps become thunks, leaves become slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xladev.compiler.assignment import (
    COLLECTIVE_OPCODES,
    DEVICE_NUMBER_OPCODES,
    EVALUATOR,
    RANDOM_STATE_OPCODE,
)
from xladev.compiler.collective_thunk import CollectivePlan, plan_collective
from xladev.compiler.partition import Region, Step, region_outputs
from xladev.compiler.program import Procedure, Slot
from xladev.compiler.region_module import region_module
from xladev.compiler.signature import Signature
from xladev.compiler.thunks import (
    Call,
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
from xladev.compiler.value_leaves import ValueLeaf, operand_sources, own_leaves, sources, with_sizes
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.shape import Shape
from xladev.instrument import decision


class Surroundings(Protocol):
    """What a procedure needs from the program that is being built."""

    def platform_index(self, device: str) -> int:
        """Index of a device name in `Program.platforms`."""
        ...

    def platform_name(self, index: int) -> str:
        """The device name of that index."""
        ...

    def boundary_shape(self, shape: Shape, platform: int) -> Shape:
        """The layout that a leaf has where procedures pass it to each other."""
        ...

    def executable(self, device: str, module: HloModule) -> tuple[int, Signature]:
        """Compiles a region; its number and signature."""
        ...

    def constant(self, leaf: ValueLeaf) -> int:
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
        home: index of the platform on which parameters and results lie.
    """

    def __init__(
        self,
        around: Surroundings,
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
        self._origin: dict[ValueLeaf, int] = {}
        self._elsewhere: dict[tuple[ValueLeaf, Slot], int] = {}
        self._unshareable: set[int] = set()
        self._reader = ""

    def build(self, *, own_results: bool) -> Procedure:
        """The procedure.

        Args:
            own_results: True for the entry, whose results must be neither parameters nor
                constants nor each other.
        """
        parameters = with_sizes(
            leaf for parameter in self._computation.parameters for leaf in own_leaves(parameter)
        )
        slots = tuple(self._define(leaf, self._boundary(leaf)) for leaf in parameters)
        self._unshareable.update(slots)
        outputs = region_outputs(self._steps, self._computation.root)
        for step in self._steps:
            self._reader = _name_of(step)
            if isinstance(step, Region):
                self._run_region(step, outputs[step])
            else:
                self._run_instruction(step)
        root = with_sizes(sources(self._computation.root))
        self._reader = f"the result of {self._computation.name}"
        results = tuple(self._read(leaf, self._boundary(leaf)) for leaf in root)
        if own_results:
            results = tuple(map(self._own, root, results))
        return Procedure(
            self._computation.name, tuple(self._slots), slots, results, tuple(self._thunks)
        )

    # Slots

    def _boundary(self, leaf: ValueLeaf) -> Slot:
        shape = self._around.boundary_shape(leaf.shape, self._home)
        return Slot(shape, self._home)

    def _new(self, slot: Slot) -> int:
        self._slots.append(slot)
        return len(self._slots) - 1

    def _define(self, leaf: ValueLeaf, slot: Slot) -> int:
        self._origin[leaf] = self._new(slot)
        return self._origin[leaf]

    def _define_all(self, leaves: Sequence[ValueLeaf]) -> Slots:
        """New slots, as procedures pass them, for what an SDK thunk gives."""
        return tuple(self._define(leaf, self._boundary(leaf)) for leaf in leaves)

    def _read(self, leaf: ValueLeaf, wanted: Slot) -> int:
        """A slot that holds the leaf on the platform and in the layout wanted."""
        if (leaf, wanted) in self._elsewhere:
            return self._elsewhere[leaf, wanted]
        if leaf.producer.opcode == "constant":
            result = self._new(wanted)
            self._thunks.append(Constant(self._around.constant(leaf), result))
            self._unshareable.add(result)
        elif self._slots[self._origin[leaf]] == wanted:
            return self._origin[leaf]
        else:
            result = self._new(wanted)
            self._explain(leaf, self._slots[self._origin[leaf]], wanted)
            self._thunks.append(Transfer(self._origin[leaf], result))
        self._elsewhere[leaf, wanted] = result
        return result

    def _explain(self, leaf: ValueLeaf, held: Slot, wanted: Slot) -> None:
        """Tells why a value is transferred."""
        places = [self._around.platform_name(slot.platform) for slot in (held, wanted)]
        if held.platform != wanted.platform:
            why = f"made on {places[0]}, read by {self._reader} on {places[1]}"
        else:
            why = f"{self._reader} wants it as {wanted.shape}"
        decision("transfer", leaf.producer.name, f"{leaf.shape.nbytes:,} bytes: {why}")

    def _read_anywhere(self, leaf: ValueLeaf) -> int:
        """A slot that holds the leaf, on whatever platform it is."""
        if leaf in self._origin:
            return self._origin[leaf]
        return self._read(leaf, self._boundary(leaf))

    def _read_all(self, leaves: Sequence[ValueLeaf]) -> Slots:
        return tuple(self._read(leaf, self._boundary(leaf)) for leaf in leaves)

    def _own(self, leaf: ValueLeaf, slot: int) -> int:
        """The slot, or a copy if it is not this result's alone."""
        if slot in self._unshareable:
            copy = self._new(self._slots[slot])
            what = f"{leaf.shape.nbytes:,} bytes: a result is a parameter, or given back twice"
            decision("transfer", leaf.producer.name, what)
            self._thunks.append(Transfer(slot, copy))
            return copy
        self._unshareable.add(slot)
        return slot

    # Steps

    def _run_region(self, region: Region, outputs: Sequence[ValueLeaf]) -> None:
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
            self._read(leaf, Slot(shape, platform))
            for leaf, shape in zip(inputs, signature.argument_shapes, strict=True)
        )
        results = tuple(
            self._define(leaf, Slot(shape, platform))
            for leaf, shape in zip(with_sizes(outputs), signature.result_shapes, strict=True)
        )
        self._thunks.append(RunExecutable(number, arguments, results))

    def _run_instruction(self, instruction: HloInstruction) -> None:
        opcode = instruction.opcode
        if opcode in COLLECTIVE_OPCODES:
            self._run_collective(instruction)
        elif opcode in DEVICE_NUMBER_OPCODES:
            (result,) = self._define_all([ValueLeaf(instruction)])
            self._thunks.append(DeviceNumber(opcode.removesuffix("-id"), result))
        elif opcode == RANDOM_STATE_OPCODE:
            (result,) = self._define_all([ValueLeaf(instruction)])
            seed = self._around.random_seed()
            self._thunks.append(RandomState(seed, instruction["delta"], result))
        else:
            self._run_control(instruction)

    def _run_collective(self, instruction: HloInstruction) -> None:
        plan = self._around.collective_plan(instruction)
        arguments = self._read_all(operand_sources(instruction.operands))
        results = self._define_all(list(own_leaves(instruction)))
        self._thunks.append(plan_collective(instruction, plan, arguments, results))

    def _run_control(self, instruction: HloInstruction) -> None:
        """while, conditional, call, fusion; their values lie on the callees' platform."""
        home = self._around.home(instruction)
        procedures = tuple(self._around.procedure(c, home) for c in instruction.called)
        operands = instruction.operands
        rows = [self._read_for_callee(operand, home) for operand in operands]
        results = tuple(
            self._define(leaf, Slot(self._around.boundary_shape(leaf.shape, home), home))
            for leaf in with_sizes(own_leaves(instruction))
        )
        self._thunks.append(_control_thunk(instruction, procedures, rows, results))

    def _read_for_callee(self, operand: HloInstruction, home: int) -> list[tuple[ValueLeaf, int]]:
        return [
            (leaf, self._read(leaf, Slot(self._around.boundary_shape(leaf.shape, home), home)))
            for leaf in with_sizes(sources(operand))
        ]


def _name_of(step: Step) -> str:
    """The instruction, or the first and the number of those that run with it."""
    if not isinstance(step, Region):
        return step.name
    more = len(step.instructions) - 1
    return step.instructions[0].name + (f" and {more} more" if more else "")


def _control_thunk(
    instruction: HloInstruction,
    procedures: tuple[int, ...],
    rows: Sequence[Sequence[tuple[ValueLeaf, int]]],
    results: Slots,
) -> Thunk:
    """Args: rows: for each operand, its leaves, sizes last, and their slots."""
    if instruction.opcode == "while":
        condition, body = procedures
        return While(condition, body, _slots_of(rows[0]), results)
    if instruction.opcode == "conditional":
        ((_, index),) = rows[0]
        return Conditional(index, procedures, tuple(map(_slots_of, rows[1:])), results)
    together = [pair for row in rows for pair in row]
    data = [slot for leaf, slot in together if leaf.dimension < 0]
    sizes = [slot for leaf, slot in together if leaf.dimension >= 0]
    return Call(procedures[0], (*data, *sizes), results)


def _slots_of(row: Sequence[tuple[ValueLeaf, int]]) -> Slots:
    return tuple(slot for _, slot in row)
