"""While simplifier: loops that run never or once, and parts of the state that nobody needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.opset import opdef
from xladev.hlo.shape import tuple_of
from xladev.passes.effects import acts
from xladev.passes.loops.change import Changes, LoopContext, change_loops
from xladev.passes.loops.loop import KnownLoop
from xladev.passes.loops.state import (
    parameter_parts,
    some_parts,
    with_parameter_parts,
    with_results,
    without_origin,
)
from xladev.passes.loops.trip_count import trip_count
from xladev.passes.pass_ import HloModulePass


@dataclass(frozen=True, slots=True)
class WhileSimplifier(HloModulePass):
    """Removes what a `while` does in vain.

    A loop that never runs is its initial state; one that runs once is a call of its body. A part of
    the state that the body passes on is taken from the initial state. Parts that neither the
    result nor another part nor an effect needs are dropped, with what computes them.
    """

    name = "while-simplifier"
    only_for = frozenset({"while"})

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return change_loops(module, _simplified)


def _simplified(loop: KnownLoop, around: LoopContext) -> Changes:
    old = loop.instruction
    if loop.condition.name in around.effects:
        return {}
    iterations = trip_count(loop)
    if iterations == 0 and old.shape == old.operands[0].shape:
        return {old: old.operands[0]}
    if iterations == 1:
        return {old: replace(old, op=opdef("call"), attrs={"to_apply": loop.body})}
    return _passed_by(loop, around) or _narrowed(loop, around)


def _passed_by(loop: KnownLoop, around: LoopContext) -> Changes:
    """Users of invariant parts, connected to what these are before the loop; but for tokens.

    Who takes a token from a loop waits for the loop.
    """
    if around.parts is None:
        return {}
    changes: Changes = {}
    for number, users in around.parts.items():
        first = loop.held(number)
        if first is not None and not first.shape.is_token:
            changes.update((u, first) for u in users if u.shape == first.shape)
    return changes


def _narrowed(loop: KnownLoop, around: LoopContext) -> Changes:
    """The loop without the parts that are not needed."""
    if around.parts is None:
        return {}
    kept = sorted(_needed(loop, around))
    if not kept or len(kept) == loop.size:
        return {}
    smaller = _with_parts(loop, kept, around.effects)
    return {
        user: replace(user, operands=(smaller,), attrs={"index": at})
        for at, number in enumerate(kept)
        for user in around.parts.get(number, ())
    } | {loop.instruction: smaller}


def _needed(loop: KnownLoop, around: LoopContext) -> set[int]:
    """Parts that the result, the condition, an effect, or another needed part depends on."""
    assert around.parts is not None
    number_of = {i: n for n, users in loop.body_parts.items() for i in users}
    found = {n for n, users in around.parts.items() if users} | set(loop.condition_parts)
    seen: set[HloInstruction] = set()
    stack = [i for i in loop.body.instructions if acts(i, around.effects)]
    stack += [loop.following[n] for n in found]
    while stack:
        i = stack.pop()
        if i in seen:
            continue
        seen.add(i)
        number = number_of.get(i)
        if number is None:
            stack += (*i.operands, *i.note.control_predecessors)
        elif number not in found:
            found.add(number)
            stack.append(loop.following[number])
    return found


def _with_parts(loop: KnownLoop, kept: Sequence[int], effects: set[str]) -> HloInstruction:
    """The loop with some parts of its state only."""
    old = loop.instruction
    body = with_results(loop.body, [loop.following[k] for k in kept], effects)
    body_parts = parameter_parts(body)
    assert body_parts is not None
    attrs = {
        "body": with_parameter_parts(body, body_parts, kept),
        "condition": with_parameter_parts(loop.condition, loop.condition_parts, kept),
    }
    shape = tuple_of(*(old.shape.tuple_shapes[k] for k in kept))
    state = some_parts(old.operands[0], kept, f"{old.name}.state")
    note = without_origin(old.note)
    return replace(old, shape=shape, operands=(state,), attrs={**old.attrs, **attrs}, note=note)
