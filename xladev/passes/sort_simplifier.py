"""Sort simplifier: sorts of nothing, and arrays that are moved along for nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xladev.hlo.builder import make_instruction
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.rebuild import Users, map_computations, rebuild, users_of
from xladev.hlo.shape import tuple_of
from xladev.passes.dce import without_dead
from xladev.passes.effects import computations_with_effects
from xladev.passes.pass_ import HloModulePass


@dataclass(frozen=True, slots=True)
class SortSimplifier(HloModulePass):
    """Drops sorts of at most one element, and arrays that neither order nor are read.

    An array of a sort may go if its sorted form is not used and the comparator looks at none of its
    elements.
    """

    name = "sort-simplifier"
    only_for = frozenset({"sort"})

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        effects = {c.name for c in computations_with_effects(module)}

        def change(computation: HloComputation) -> HloComputation:
            if not any(i.opcode == "sort" for i in computation.instructions):
                return computation
            changes = _changes(computation)
            return without_dead(rebuild(computation, changes), effects) if changes else computation

        changed = map_computations(module, change)
        return module if changed is module else with_unique_names(changed)


def _changes(computation: HloComputation) -> dict[HloInstruction, HloInstruction]:
    users = users_of(computation)
    changes: dict[HloInstruction, HloInstruction] = {}
    for sort in computation.instructions:
        if sort.opcode != "sort" or sort.note.control_predecessors or sort.shape.is_dynamic:
            continue
        if sort.operands[0].shape.dims[sort["dimensions"][0]] <= 1:
            changes[sort] = _unsorted(sort)
        elif sort.shape.is_tuple and sort is not computation.root:
            changes.update(_narrowed(sort, users))
    return {old: new for old, new in changes.items() if old.shape == new.shape}


def _unsorted(sort: HloInstruction) -> HloInstruction:
    if not sort.shape.is_tuple:
        return sort.operands[0]
    made = make_instruction("tuple", sort.operands, name=sort.name, note=sort.note)
    return replace(made, shape=sort.shape)


def _narrowed(sort: HloInstruction, users: Users) -> Mapping[HloInstruction, HloInstruction]:
    """New parts by old ones, of a sort without the arrays that nobody needs."""
    parts = users[sort]
    if any(p.opcode != "get-tuple-element" for p in parts):
        return {}
    wanted = {p["index"] for p in parts} | _compared(sort["to_apply"])
    kept = sorted(wanted) or [0]
    if len(kept) == len(sort.operands):
        return {}
    shapes = [sort.shape.tuple_shapes[n] for n in kept]
    smaller = replace(
        sort,
        operands=tuple(sort.operands[n] for n in kept),
        shape=tuple_of(*shapes) if len(kept) > 1 else shapes[0],
        attrs={**sort.attrs, "to_apply": _comparator(sort["to_apply"], kept)},
    )
    if len(kept) == 1:
        return dict.fromkeys(parts, smaller)
    return {
        p: replace(p, operands=(smaller,), attrs={"index": kept.index(p["index"])}) for p in parts
    }


def _compared(comparator: HloComputation) -> set[int]:
    """Numbers of the arrays whose elements the comparator looks at."""
    alive = without_dead(comparator, set())
    read = {o for i in alive.instructions for o in i.operands} | {alive.root}
    return {n // 2 for n, p in enumerate(comparator.parameters) if p in read}


def _comparator(comparator: HloComputation, kept: Sequence[int]) -> HloComputation:
    """The comparator of the kept arrays only."""
    alive = without_dead(comparator, set())
    numbers = [2 * n + side for n in kept for side in (0, 1)]
    parameters = [
        replace(comparator.parameters[old], attrs={"parameter_number": new})
        for new, old in enumerate(numbers)
    ]
    made = dict(zip((comparator.parameters[n] for n in numbers), parameters, strict=True))
    rest = [i for i in alive.instructions if i.opcode != "parameter"]
    for i in rest:
        made[i] = replace(i, operands=tuple(made[o] for o in i.operands))
    return HloComputation(comparator.name, tuple(made.values()), made[alive.root])
