"""Call inliner: the instructions of a called computation take the place of the call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from xladev.hlo.attributes import Metadata
from xladev.hlo.builder import make_instruction
from xladev.hlo.ir import (
    NO_ANNOTATIONS,
    Annotations,
    HloComputation,
    HloInstruction,
    HloModule,
)
from xladev.hlo.names import UniqueNames, with_unique_names
from xladev.hlo.rebuild import map_computations, with_operands
from xladev.hlo.shape import Shape
from xladev.passes.effects import has_effect
from xladev.passes.pass_ import HloModulePass


@dataclass(frozen=True, slots=True)
class CallInliner(HloModulePass):
    """Inlines `call`, nested calls and composites included.

    Metadata, control dependencies, frontend attributes and the device assignment of a call pass to
    the instructions that take its place, where these have none of their own. A bitcast of a
    parameter, or of the result of a call, is given a copy where what takes its place has another
    layout. A call stays if the computation that it is in would grow beyond ``max_instructions``, or
    if a frontend attribute ``inlineable`` says ``false``.

    Attributes:
        max_instructions: most instructions that a computation may grow to.
    """

    name = "call-inliner"
    only_for = frozenset({"call"})
    max_instructions: int = 1_000_000

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        changed = map_computations(module, self._inline)
        return module if changed is module else with_unique_names(changed)

    def _inline(self, computation: HloComputation) -> HloComputation:
        chosen: set[HloInstruction] = set()
        size = len(computation.instructions)
        for instruction in computation.instructions:
            if not _is_inlineable(instruction):
                continue
            size += len(instruction["to_apply"].instructions)
            if size > self.max_instructions:
                break
            chosen.add(instruction)
        return _Inlining(chosen).run(computation) if chosen else computation


def _is_inlineable(instruction: HloInstruction) -> bool:
    if instruction.opcode != "call":
        return False
    return ("inlineable", "false") not in instruction.note.frontend_attributes


class _Inlining:
    """One sweep over one computation.

    Attributes:
        chosen: the calls to inline.
        made: what stands for each instruction now.
        last: for each call, what must have run before its control successors do.
        names: of what was made.
    """

    def __init__(self, chosen: set[HloInstruction]) -> None:
        self.chosen = chosen
        self.made: dict[HloInstruction, HloInstruction] = {}
        self.last: dict[HloInstruction, tuple[HloInstruction, ...]] = {}
        self.names = UniqueNames()
        self.out: list[HloInstruction] = []

    def run(self, computation: HloComputation) -> HloComputation:
        for instruction in computation.instructions:
            if instruction in self.chosen:
                self._replace(instruction)
            else:
                self.made[instruction] = self._copy(instruction, self.made)
        root = self.made[computation.root]
        return HloComputation(computation.name, tuple(self.out), root, computation.execution_thread)

    def _replace(self, call: HloInstruction) -> None:
        body: HloComputation = call["to_apply"]
        inner = {p: self.made[o] for p, o in zip(body.parameters, call.operands, strict=True)}
        outer = self._before(call)
        effects: list[HloInstruction] = []
        for instruction in body.instructions:
            if instruction in inner:
                continue
            note = _inherited(instruction, call, instruction is body.root)
            passed_on = instruction if note is instruction.note else instruction.with_note(note)
            inner[instruction] = self._copy(passed_on, inner, outer)
            if has_effect(instruction, frozenset()):
                effects.append(inner[instruction])
        self.made[call] = inner[body.root]
        self.last[call] = (inner[body.root], *effects)

    def _copy(
        self,
        instruction: HloInstruction,
        made: Mapping[HloInstruction, HloInstruction],
        outer: tuple[HloInstruction, ...] = (),
    ) -> HloInstruction:
        """The instruction on what its operands have become; no sooner than ``outer``."""
        operands = [made[o] for o in instruction.operands]
        if instruction.opcode == "bitcast":  # what it means depends on the layout of its operand
            operands = [self._laid_out(operands[0], instruction.operands[0].shape)]
        copy = with_operands(instruction, tuple(operands))
        before = instruction.note.control_predecessors
        if before or (outer and _starts(instruction)):
            after = dict.fromkeys((*outer, *self._mapped(before, made)))
            copy = copy.with_note(replace(copy.note, control_predecessors=tuple(after)))
        name = self.names.take(copy.name)
        if name != copy.name:
            copy = copy.with_name(name)
        self.out.append(copy)
        return copy

    def _laid_out(self, value: HloInstruction, shape: Shape) -> HloInstruction:
        """A value in the layout that a parameter had, or the result of a call."""
        if value.shape.with_default_layout() == shape.with_default_layout():
            return value
        name = self.names.take(f"{value.name}.laid_out")
        self.out.append(make_instruction("copy", (value,), shape=shape, name=name))
        return self.out[-1]

    def _before(self, call: HloInstruction) -> tuple[HloInstruction, ...]:
        return tuple(self._mapped(call.note.control_predecessors, self.made))

    def _mapped(
        self,
        predecessors: tuple[HloInstruction, ...],
        made: Mapping[HloInstruction, HloInstruction],
    ) -> list[HloInstruction]:
        return [now for p in predecessors for now in self.last.get(p, (made[p],))]


def _starts(instruction: HloInstruction) -> bool:
    """True for what depends on no other instruction of its computation that does anything."""
    return all(o.opcode in ("parameter", "constant") for o in instruction.operands)


def _inherited(instruction: HloInstruction, call: HloInstruction, is_root: bool) -> Annotations:
    """The instruction's annotations, with the call's where it has none."""
    own, outer = instruction.note, call.note
    if outer is NO_ANNOTATIONS:
        return own
    attributes = own.frontend_attributes
    passed = _passed_attributes(outer)
    if passed:
        attributes = tuple(sorted((dict(passed) | dict(attributes)).items()))
    return replace(
        own,
        metadata=own.metadata if _says_where(own.metadata) else outer.metadata,
        frontend_attributes=attributes,
        sharding=(own.sharding or outer.sharding) if is_root else own.sharding,
        device=own.device or outer.device,
    )


def _says_where(metadata: Metadata) -> bool:
    return bool(metadata.op_name or metadata.source_file)


def _passed_attributes(note: Annotations) -> tuple[tuple[str, str], ...]:
    """Frontend attributes of a call that hold for what it calls, too."""
    return tuple(
        (key, value)
        for key, value in note.frontend_attributes
        if not key.startswith("composite.") and key != "inlineable"
    )
