"""While loop invariant motion: what no iteration changes is computed once, before the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xladev.hlo.builder import make_instruction
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import rebuild
from xladev.hlo.shape import Shape, tuple_of
from xladev.passes.dce import without_dead
from xladev.passes.effects import acts, communicates
from xladev.passes.loops.change import Changes, LoopContext, change_loops
from xladev.passes.loops.loop import KnownLoop
from xladev.passes.loops.state import (
    parameter_changes,
    part,
    with_parameter_parts,
    without_origin,
)
from xladev.passes.loops.trip_count import trip_count
from xladev.passes.pass_ import HloModulePass

_STAYS = frozenset({
    "constant", "broadcast", "iota", "reshape", "bitcast", "get-tuple-element", "tuple", "copy",
    "convert", "slice", "transpose", "reverse", "pad",
})  # fmt: skip
"""Opcodes that are not worth a part of the state of their own: each reader's kernel takes them in.

Their expense does not say so: a convert stays, and a sum, which costs as much, is moved. XLA's list
is `NotWorthHoistingIndividually` in while_loop_invariant_code_motion.cc.
"""

_NEVER = frozenset({
    "parameter", "opt-barrier", "after-all", "add-dependency", "domain", "custom-call", "while",
    "conditional", "call", "fusion",
})  # fmt: skip
"""What has to stay in its place, or might fail or never end where the loop would not have run."""

_SMALL_NBYTES = 64
"""Results up to this size are worth their place, whatever they are made of."""


@dataclass(frozen=True, slots=True)
class WhileInvariantMotion(HloModulePass):
    """Moves what depends on nothing that changes out of the body of each `while`.

    Values that are cheap to make, or larger than what they are made of, stay in the body. What is
    moved is computed even if the loop never runs, so nothing moves that might fail or not end:
    custom calls, control flow.
    """

    name = "while-invariant-motion"
    only_for = frozenset({"while"})

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return change_loops(module, _moved)


def _moved(loop: KnownLoop, around: LoopContext) -> Changes:
    if loop.initial is None or trip_count(loop) in (0, 1):
        return {}
    constant = _invariants(loop, around.effects)
    wanted = _frontier(loop, constant)
    if not wanted:
        return {}
    before = _copied_out(loop, constant, wanted)
    added = [w.shape for w in wanted]
    body = without_dead(_taking(loop, wanted, added), around.effects)
    condition = with_parameter_parts(loop.condition, loop.condition_parts, range(loop.size), added)
    return _around(loop, body, condition, before, added)


def _invariants(loop: KnownLoop, effects: set[str]) -> set[HloInstruction]:
    """Instructions of the body that give the same in every iteration."""
    parts = loop.body_parts
    found = {i for n, users in parts.items() if loop.held(n) is not None for i in users}
    for i in loop.body.instructions:
        if _is_movable(i, effects) and all(o in found for o in i.operands):
            found.add(i)
    return found


def _is_movable(i: HloInstruction, effects: set[str]) -> bool:
    if i.opcode in _NEVER or i.note.control_predecessors or communicates(i):
        return False
    if any(inner.called for c in i.called for inner in c.instructions):
        return False
    return not acts(i, effects)


def _frontier(loop: KnownLoop, constant: set[HloInstruction]) -> list[HloInstruction]:
    """Invariant values worth keeping that something which changes reads."""
    read = {
        o
        for i in loop.body.instructions
        if i not in constant or i is loop.body.root
        for o in i.operands
        if o in constant and _is_worth_it(o)
    }
    return [i for i in loop.body.instructions if i in read]


def _is_worth_it(i: HloInstruction) -> bool:
    if i.opcode in _STAYS or not i.shape.is_array or not i.operands:
        return False
    return i.shape.nbytes <= max(sum(o.shape.nbytes for o in i.operands), _SMALL_NBYTES)


def _copied_out(
    loop: KnownLoop, constant: set[HloInstruction], wanted: Sequence[HloInstruction]
) -> list[HloInstruction]:
    """The wanted values, computed before the loop, on the device that computed them in it."""
    device = loop.instruction.note.device
    made: dict[HloInstruction, HloInstruction] = {}
    for number, users in loop.body_parts.items():
        first = loop.held(number)
        if first is not None:
            made.update(dict.fromkeys(users, first))
    for i in loop.body.instructions:
        if i in constant and i not in made:
            note = replace(i.note, device=device) if device and not i.note.device else i.note
            made[i] = replace(i, operands=tuple(made[o] for o in i.operands), note=note)
    return [made[w] for w in wanted]


def _taking(
    loop: KnownLoop, wanted: Sequence[HloInstruction], added: Sequence[Shape]
) -> HloComputation:
    """The body with some of its values taken from further parts of the state."""
    body = loop.body
    parameter, changes = parameter_changes(body, loop.body_parts, range(loop.size), added)
    taken = {
        w: make_instruction(
            "get-tuple-element", (parameter,), {"index": loop.size + n}, note=w.note.place,
            name=f"{w.name}.held",
        )
        for n, w in enumerate(wanted)
    }  # fmt: skip
    following = (*loop.following, *taken.values())
    root = make_instruction("tuple", following, name=body.root.name, note=body.root.note.place)
    return rebuild(body, {**changes, **taken, body.root: root})


def _around(
    loop: KnownLoop,
    body: HloComputation,
    condition: HloComputation,
    before: Sequence[HloInstruction],
    added: Sequence[Shape],
) -> Changes:
    """The new loop, and the parts of it that the old one gave."""
    old = loop.instruction
    place = old.note.place
    assert loop.initial is not None
    initial = (*loop.initial, *before)
    made = replace(
        old,
        shape=tuple_of(*old.shape.tuple_shapes, *added),
        operands=(make_instruction("tuple", initial, name=f"{old.name}.state", note=place),),
        attrs={**old.attrs, "body": body, "condition": condition},
        note=without_origin(old.note),
    )
    parts = tuple(part(made, n) for n in range(loop.size))
    whole = make_instruction("tuple", parts, name=f"{old.name}.parts", note=place)
    return {old: replace(whole, shape=old.shape)}
