"""While transpose sinking: a loop carries what its dots read, in place of a transpose of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from xladev.hlo.builder import make_instruction
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import rebuild, users_of
from xladev.hlo.shape import Shape, tuple_of
from xladev.passes.loops.change import Changes, LoopContext, change_loops
from xladev.passes.loops.loop import KnownLoop
from xladev.passes.loops.state import Parts, without_origin
from xladev.passes.pass_ import HloModulePass
from xladev.passes.transpose_folding import folded_dot

ReadsWell = Callable[[HloInstruction], bool]
"""Says of a dot whether it reads its operands as fast as a transpose of one of them."""


@dataclass(frozen=True, slots=True)
class WhileTransposeSinking(HloModulePass):
    """Lets the dots of a loop read a matrix by other dimension numbers.

    A recurrent network that reads its weights in each iteration no longer transposes them before
    the first one.

    Attributes:
        reads_well: asked about each dot as it will be; the transpose stays if it denies one. None
            to ask nobody.
    """

    name = "while-transpose-sinking"
    only_for = frozenset({"while"})
    reads_well: ReadsWell | None = None

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return change_loops(module, self._sunk)

    def _sunk(self, loop: KnownLoop, around: LoopContext) -> Changes:
        """One transpose at a time; `change_loops` comes again."""
        if around.parts is None or loop.initial is None:
            return {}
        for number in range(loop.size):
            moved = loop.held(number)
            if moved is None or moved.opcode != "transpose":
                continue
            taken = loop.body_parts[number]
            is_read = loop.condition_parts.get(number) or around.parts.get(number)
            if is_read or sum(part in taken for part in loop.following) > 1:
                continue
            dots = self._dots(loop, number, moved)
            if dots:
                return _with_source(loop, number, moved.operands[0], dots)
        return {}

    def _dots(
        self, loop: KnownLoop, number: int, moved: HloInstruction
    ) -> Mapping[HloInstruction, HloInstruction]:
        """What reads a part, and how it reads what that is a transpose of; empty if not all can."""
        if moved.note.control_predecessors or moved.shape.is_dynamic:
            return {}
        users, taken = users_of(loop.body), loop.body_parts[number]
        readers = {u: t for t in taken for u in users[t] if u is not loop.body.root}
        found: dict[HloInstruction, HloInstruction] = {}
        for user in readers:
            numbers = [n for n, o in enumerate(user.operands) if o in taken]
            if user.opcode != "dot" or len(user.operands) != 2 or len(numbers) != 1:
                return {}
            operands = tuple(moved if o in taken else o for o in user.operands)
            folded = folded_dot(replace(user, operands=operands))
            if folded is None or not (self.reads_well is None or self.reads_well(folded)):
                return {}
            found[user] = folded
        return found


def _with_source(
    loop: KnownLoop,
    number: int,
    source: HloInstruction,
    dots: Mapping[HloInstruction, HloInstruction],
) -> Changes:
    """The loop carrying what a part is a transpose of."""
    old, place = loop.instruction, loop.instruction.note.place
    assert loop.initial is not None
    shapes = list(old.shape.tuple_shapes)
    shapes[number] = source.shape.with_default_layout()
    state = tuple_of(*shapes)
    initial = (*loop.initial[:number], source, *loop.initial[number + 1 :])
    first = make_instruction("tuple", initial, name=f"{old.name}.state", note=place)
    body = _with_parameter(loop.body, loop.body_parts, state, number)
    body.update({loop.body.root: replace(loop.body.root, shape=state)})
    (taken, *_) = loop.body_parts[number]
    for dot, folded in dots.items():
        operands = tuple(body[taken] if o is source else o for o in folded.operands)
        body[dot] = replace(folded, operands=operands)
    condition = _with_parameter(loop.condition, loop.condition_parts, state, number)
    attrs = {
        **old.attrs,
        "body": rebuild(loop.body, body),
        "condition": rebuild(loop.condition, condition),
    }
    note = without_origin(old.note)
    return {old: replace(old, shape=state, operands=(first,), attrs=attrs, note=note)}


def _with_parameter(
    computation: HloComputation, parts: Parts, state: Shape, number: int
) -> Changes:
    """Changes that give a part of the only parameter another shape."""
    (old,) = computation.parameters
    made = replace(old, shape=state, note=without_origin(old.note))
    changes = {old: made}
    for n, taken in parts.items():
        for i in taken:
            shape = state.tuple_shapes[n] if n == number else i.shape
            changes[i] = replace(i, operands=(made,), shape=shape)
    return changes
