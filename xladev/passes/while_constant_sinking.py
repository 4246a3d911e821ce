"""While constant sinking: constants that a loop carries along are written into its body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import rebuild
from xladev.passes.loops.change import Changes, LoopContext, change_loops
from xladev.passes.loops.loop import KnownLoop
from xladev.passes.loops.state import Parts
from xladev.passes.pass_ import HloModulePass


@dataclass(frozen=True, slots=True)
class WhileConstantSinking(HloModulePass):
    """Replaces parts of a loop's state that are the same constant in every iteration.

    Broadcasts of constant scalars count as constants. The body and the condition can then be
    simplified further, and the part be dropped from the state (see the while simplifier).
    """

    name = "while-constant-sinking"
    only_for = frozenset({"while"})

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return change_loops(module, _sunk)


def _sunk(loop: KnownLoop, around: LoopContext) -> Changes:
    held = ((number, loop.held(number)) for number in range(loop.size))
    constants = {n: first for n, first in held if first is not None and _is_constant(first)}
    body = _with_constants(loop.body, loop.body_parts, constants, kept=loop.body.root)
    condition = _with_constants(loop.condition, loop.condition_parts, constants)
    if body is loop.body and condition is loop.condition:
        return {}
    old = loop.instruction
    return {old: replace(old, attrs={**old.attrs, "body": body, "condition": condition})}


def _is_constant(i: HloInstruction) -> bool:
    if i.opcode == "broadcast":
        return i.operands[0].shape.is_scalar and _is_constant(i.operands[0])
    return i.opcode == "constant" and i.shape.is_array and not i.note.control_predecessors


def _with_constants(
    computation: HloComputation,
    parts: Parts,
    constants: Mapping[int, HloInstruction],
    kept: HloInstruction | None = None,
) -> HloComputation:
    """The computation with constants instead of parts of its parameter.

    Args:
        computation: what to change.
        parts: how it takes its parameter apart.
        constants: by number of the part.
        kept: an instruction that is to go on using the parts: the next state, so that a part can
            still be seen not to change.
    """
    read = {o for i in computation.instructions if i is not kept for o in i.operands}
    read.add(computation.root)
    changes = {
        taken: _copied(constants[number], taken)
        for number, users in parts.items()
        for taken in users
        if number in constants and taken in read
    }
    if changes and kept is not None:
        operands = (replace(o) if o in changes else o for o in kept.operands)
        changes[kept] = replace(kept, operands=tuple(operands))
    return rebuild(computation, changes)


def _copied(constant: HloInstruction, taken: HloInstruction) -> HloInstruction:
    """A constant, or broadcast of one, of a computation's own, in the place of a part."""
    operands = tuple(_copied(o, o) for o in constant.operands)
    return replace(constant, shape=taken.shape, operands=operands, note=taken.note.place)
