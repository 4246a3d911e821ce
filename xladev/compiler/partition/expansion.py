"""Expands what the target rejects, and only if it supports the whole expansion.

A native top-k or cholesky is never hidden from the backend that has it: `Compiler.supports` is
asked first. What no expansion makes fit goes to the host as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xladev.compiler.partition.assignment import (
    CONTROL_OPCODES,
    STRUCTURAL_OPCODES,
    CompileTarget,
    control_computations,
    is_run_by_sdk,
)
from xladev.errors import XladevError
from xladev.hlo.ir import (
    HloComputation,
    HloInstruction,
    HloModule,
)
from xladev.hlo.names import with_unique_names
from xladev.hlo.rebuild import map_computations, rebuild, with_operands
from xladev.passes.expanders import EXPANDERS
from xladev.passes.pass_ import HloModulePass

Expander = Callable[[HloInstruction], HloComputation | None]
"""Gives a computation of the instruction's operands that computes the same; None if it cannot."""

Expanders = Mapping[str, Sequence[Expander]]
"""Expanders to try, in order, by opcode."""

_IN_ORDER = frozenset({"custom-call", "scatter", "select-and-scatter"})
"""Opcodes whose first expander goes first even where another keeps the opcode.

Custom calls share an opcode and nothing else; sums of a scatter are rounded after each addition,
which only a loop over elements of the narrow type does.
"""

MAX_DEPTH = 8
"""How often what an expansion is made of may itself be expanded."""


def expand_rejected(module: HloModule, target: CompileTarget, expanders: Expanders) -> HloModule:
    """The module with everything expanded that the target rejects but can run expanded.

    Raises:
        PluginError: the compiler raised.
    """
    if not expanders:
        return module
    inside = {computation.name for computation in control_computations(module)}
    expansion = _Expansion(target, expanders)

    def change(computation: HloComputation) -> HloComputation:
        if computation.name not in inside:
            return computation
        return expansion.expand(computation, MAX_DEPTH)

    changed = map_computations(module, change)
    return module if changed is module else with_unique_names(changed)


@dataclass(frozen=True, slots=True)
class ExpandRejected(HloModulePass):
    """Expands what the platform rejects, if it supports the whole expansion.

    Attributes:
        target: whose answers count; None, where no platform is named, changes nothing.
        expanders: tried in order, by opcode.
    """

    name = "expand-rejected"
    target: CompileTarget | None = None
    expanders: Expanders = field(default_factory=lambda: EXPANDERS)

    def run(self, module: HloModule) -> HloModule:
        """See the class.

        Raises:
            PluginError: the compiler raised.
        """
        return (
            module if self.target is None else expand_rejected(module, self.target, self.expanders)
        )


class _Expansion:
    def __init__(self, target: CompileTarget, expanders: Expanders) -> None:
        self._target = target
        self._expanders = expanders

    def expand(self, computation: HloComputation, depth: int) -> HloComputation:
        """The computation with what is rejected expanded, where that helps."""
        replacements: dict[HloInstruction, HloInstruction] = {}
        for instruction in computation.instructions:
            expanded = self._expanded(instruction, depth)
            if expanded is not None:
                replacements[instruction] = _inlined(instruction, expanded)
        return rebuild(computation, replacements)

    def _expanded(self, instruction: HloInstruction, depth: int) -> HloComputation | None:
        """A supported computation of the operands; None if there is none or no need of one."""
        found = self._expanders.get(instruction.opcode)
        if not found or not depth or self._target.supports(instruction):
            return None
        if _is_dynamic(instruction):
            return None
        made = [c for expander in found if (c := _expansion_by(expander, instruction)) is not None]
        for computation in made:
            if _keeps_opcode(instruction, computation) and self._is_supported(computation, depth):
                return computation
        for computation in made:
            expanded = self.expand(computation, depth - 1)
            if self._is_supported(expanded, depth):
                return expanded
        return None

    def _is_supported(self, computation: HloComputation, depth: int) -> bool:
        return all(self._is_instruction_supported(i, depth) for i in computation.instructions)

    def _is_instruction_supported(self, instruction: HloInstruction, depth: int) -> bool:
        if instruction.opcode in STRUCTURAL_OPCODES or self._target.supports(instruction):
            return True
        if instruction.opcode in CONTROL_OPCODES and depth:
            return all(self._is_supported(c, depth - 1) for c in instruction.called)
        return is_run_by_sdk(instruction)


def _expansion_by(expander: Expander, instruction: HloInstruction) -> HloComputation | None:
    """What the expander gives; its errors, such as an array too large to be, say at which place."""
    try:
        return expander(instruction)
    except XladevError as error:
        raise error.at(f"the expansion of {instruction}") from None


def _keeps_opcode(instruction: HloInstruction, expansion: HloComputation) -> bool:
    """True for the same opcode on other types or in canonical form.

    Where the device has that as it stands, it goes before what writes the opcode out in others,
    which rounds more often and gets less of the device.
    """
    opcode = instruction.opcode
    return opcode not in _IN_ORDER and any(i.opcode == opcode for i in expansion.instructions)


def _is_dynamic(instruction: HloInstruction) -> bool:
    """True if a size is only known when it runs: expanders rely on those that shapes tell."""
    shapes = (instruction.shape, *(operand.shape for operand in instruction.operands))
    return any(leaf.is_dynamic for shape in shapes for _, leaf in shape.leaves())


def _inlined(instruction: HloInstruction, expansion: HloComputation) -> HloInstruction:
    """The root of a copy of the expansion on the instruction's operands."""
    made: dict[HloInstruction, HloInstruction] = dict(
        zip(expansion.parameters, instruction.operands, strict=True)
    )
    note = instruction.note.place
    for inner in expansion.instructions:
        if inner in made:
            continue
        copy = with_operands(inner, tuple(made[o] for o in inner.operands))
        name = f"{instruction.name}.{inner.name}"
        made[inner] = replace(copy, name=name, note=note)
    return made[expansion.root]
