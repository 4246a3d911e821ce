"""Expand: replaces opcodes by what the table of expanders says, whatever a device supports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.rebuild import map_computations, rebuild, with_operands
from xladev.passes.expanders import EXPANDERS
from xladev.passes.pass_ import HloModulePass


@dataclass(frozen=True, slots=True)
class Expand(HloModulePass):
    """Expands opcodes, for looking at expansions and for pipelines of backends.

    The compiler does the same on its own for what a device rejects, and only for that.

    Attributes:
        opcodes: which, joined by ``+``, such as ``cholesky+fft``; all that have expanders if empty.
    """

    name = "expand"
    opcodes: str = ""

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        wanted = set(self.opcodes.split("+")) if self.opcodes else set(EXPANDERS)
        return expand_where(module, lambda i: expansion_of(i) if i.opcode in wanted else None)


Expansion = Callable[[HloInstruction], HloComputation | None]
"""What stands for an instruction; None if it stays."""


def expand_where(module: HloModule, expansion: Expansion) -> HloModule:
    """The module with every instruction replaced for which there is an expansion.

    Reducers, comparators and the like are left alone: an expansion of what calls them may change
    them itself.
    """
    programs = _programs(module)

    def change(computation: HloComputation) -> HloComputation:
        return _expanded(computation, expansion) if computation.name in programs else computation

    changed = map_computations(module, change)
    return module if changed is module else with_unique_names(changed)


_CONTROL = frozenset({"while", "conditional", "call", "async-start"})


def _programs(module: HloModule) -> set[str]:
    """Names of the entry and of what control flow reaches from it."""
    found = {module.entry.name}
    for computation in reversed(module.computations):
        if computation.name in found:
            for instruction in computation.instructions:
                if instruction.opcode in _CONTROL:
                    found.update(c.name for c in instruction.called)
    return found


def _expanded(computation: HloComputation, expansion: Expansion) -> HloComputation:
    replacements: dict[HloInstruction, HloInstruction] = {}
    for instruction in computation.instructions:
        made = expansion(instruction)
        if made is not None:
            replacements[instruction] = inlined(instruction, made)
    return rebuild(computation, replacements)


def expansion_of(instruction: HloInstruction) -> HloComputation | None:
    """What an instruction is in simpler opcodes; None if no expander applies.

    Dynamic shapes are never expanded: expansions count with whole arrays.
    """
    shapes = (instruction.shape, *(o.shape for o in instruction.operands))
    if any(leaf.is_dynamic for shape in shapes for _, leaf in shape.leaves()):
        return None
    found = (expander(instruction) for expander in EXPANDERS.get(instruction.opcode, ()))
    return next((made for made in found if made is not None), None)


def inlined(instruction: HloInstruction, expansion: HloComputation) -> HloInstruction:
    """The root of a copy of the expansion on the instruction's operands.

    Everything in it gets the instruction's metadata and device; the root all its annotations.
    """
    made = dict(zip(expansion.parameters, instruction.operands, strict=True))
    note = instruction.note
    inner_note = note.place
    for inner in expansion.instructions:
        if inner in made:
            continue
        copy = with_operands(inner, tuple([made[o] for o in inner.operands]))
        is_root = inner is expansion.root
        new_note = replace(note, backend_config="") if is_root else inner_note
        if note.control_predecessors and not copy.operands and not is_root:
            new_note = replace(inner_note, control_predecessors=note.control_predecessors)
        made[inner] = replace(copy, name=f"{instruction.name}.{inner.name}", note=new_note)
    root = made[expansion.root]
    same = root.shape == instruction.shape or expansion.root in expansion.parameters
    return root if same else replace(root, shape=instruction.shape)
