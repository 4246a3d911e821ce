"""Conditional simplifier: branches that are known, equal, or compute what nobody reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.ops.control import branches
from xladev.hlo.opset import opdef
from xladev.hlo.rebuild import map_computations, rebuild, users_of
from xladev.hlo.shape import tuple_of
from xladev.passes.dce import without_dead
from xladev.passes.effects import computations_with_effects
from xladev.passes.loops.change import (
    MOST_ROUNDS,
    Changes,
    is_ordered,
    ordered_instructions,
)
from xladev.passes.loops.state import (
    Parts,
    has_tuple_sharding,
    parameter_parts,
    part,
    parts_among,
    some_parts,
    with_parameter_parts,
    with_results,
    without_origin,
)
from xladev.passes.pass_ import HloModulePass
from xladev.passes.splats import splat_of
from xladev.passes.value_numbers import ValueNumbers


@dataclass(frozen=True, slots=True)
class ConditionalSimplifier(HloModulePass):
    """Makes calls of conditionals whose branch is known, and narrows the others.

    A branch is known if the selector is a constant, if there is only one, or if all branches and
    their arguments are equal. Results that nobody reads, and parts of arguments that a branch does
    not read, are dropped.
    """

    name = "conditional-simplifier"
    only_for = frozenset({"conditional"})

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        for _ in range(MOST_ROUNDS):
            before, module = module, _changed_once(module)
            if module is before:
                break
        return module


def _changed_once(module: HloModule) -> HloModule:
    if not any(i.opcode == "conditional" for c in module.computations for i in c.instructions):
        return module
    effects = {c.name for c in computations_with_effects(module)}
    numbers = ValueNumbers()

    def change(computation: HloComputation) -> HloComputation:
        changes = _changes(computation, numbers, effects)
        if changes:
            return without_dead(rebuild(computation, changes), effects)
        return computation

    changed = map_computations(module, change)
    return module if changed is module else with_unique_names(changed)


def _changes(computation: HloComputation, numbers: ValueNumbers, effects: set[str]) -> Changes:
    conditionals = [i for i in computation.instructions if i.opcode == "conditional"]
    if not conditionals:
        return {}
    users, ordered = users_of(computation), ordered_instructions(computation)
    changes: Changes = {}
    for i in conditionals:
        if is_ordered(i, users, ordered):
            continue
        chosen = _known_branch(i, numbers)
        if chosen is not None:
            changes[i] = _call(i, chosen)
            continue
        parts = None if i is computation.root else parts_among(users[i])
        changes.update(_narrowed(i, parts, effects))
    return changes


def _known_branch(i: HloInstruction, numbers: ValueNumbers) -> int | None:
    """Number of the only branch that can run, or that all others are equal to."""
    found = branches(i)
    value = splat_of(i.operands[0])
    if len(found) == 1:
        return 0
    if value is not None and value.dtype == bool:
        return 0 if value else 1
    if value is not None:
        return int(value) if 0 <= value < len(found) else len(found) - 1
    same = len({numbers.add(c) for c in found}) == 1 and len(set(i.operands[1:])) == 1
    return 0 if same else None


def _call(i: HloInstruction, number: int) -> HloInstruction:
    attrs = {"to_apply": branches(i)[number]}
    return replace(i, op=opdef("call"), operands=(i.operands[number + 1],), attrs=attrs)


def _narrowed(i: HloInstruction, parts: Parts | None, effects: set[str]) -> Changes:
    """The conditional without unread results and arguments."""
    kept = sorted(parts) if parts and not has_tuple_sharding(i) else None
    if kept is not None and len(kept) == len(i.shape.tuple_shapes):
        kept = None
    made = i if kept is None else _with_results(i, kept, effects)
    made = _with_arguments(made)
    if made is i:
        return {}
    if kept is None or parts is None:
        return {i: made}
    return {
        user: replace(user, operands=(made,), attrs={"index": at})
        for at, number in enumerate(kept)
        for user in parts[number]
    } | {i: made}


def _with_results(i: HloInstruction, kept: Sequence[int], effects: set[str]) -> HloInstruction:
    smaller = tuple(with_results(c, [part(c.root, k) for k in kept], effects) for c in branches(i))
    shape = tuple_of(*(i.shape.tuple_shapes[k] for k in kept))
    narrow = replace(i, shape=shape, note=without_origin(i.note))
    return _with_branches(narrow, smaller, i.operands[1:])


def _with_arguments(i: HloInstruction) -> HloInstruction:
    """The conditional whose branches take only what they read."""
    found, arguments = list(branches(i)), list(i.operands[1:])
    for number, branch in enumerate(found):
        read = parameter_parts(branch)
        argument = arguments[number]
        if read is None or argument.opcode != "tuple" or len(read) == len(argument.operands):
            continue
        kept = sorted(read)
        found[number] = with_parameter_parts(branch, read, kept)
        arguments[number] = some_parts(argument, kept, f"{argument.name}.some")
    return i if found == list(branches(i)) else _with_branches(i, tuple(found), tuple(arguments))


def _with_branches(
    i: HloInstruction,
    chosen: tuple[HloComputation, ...],
    arguments: tuple[HloInstruction, ...],
) -> HloInstruction:
    attrs = dict(i.attrs)
    if i["branch_computations"] is not None:
        attrs["branch_computations"] = chosen
    else:
        attrs["true_computation"], attrs["false_computation"] = chosen
    return replace(i, operands=(i.operands[0], *arguments), attrs=attrs)
