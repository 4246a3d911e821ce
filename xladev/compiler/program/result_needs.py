"""Which arguments of a region each of its results is computed from, so that failures stay apart.

Cheap work without connection is put into one region for the sake of one launch. What fails then
before the region poisons the results that are computed from it; the region still runs for the
others, with zeros in place of what is not there. So this is told only of regions that end whatever
they are given and do nothing that is seen from outside.
"""

from __future__ import annotations

from xladev.hlo.ir import HloInstruction, HloModule
from xladev.passes.effects import has_effect

_NOT_WITH_ZEROS = frozenset({"while", "custom-call", "conditional"})
"""What may not end, or may run the user's code."""


def result_needs(module: HloModule) -> tuple[tuple[int, ...], ...]:
    """For each part of the root, the numbers of the parameters that it is computed from.

    Empty if each is computed from all of them, or the module must not run without them.
    """
    root, count = module.entry.root, len(module.entry.parameters)
    if count < 2 or root.opcode != "tuple" or len(root.operands) < 2:
        return ()
    instructions = [i for c in module.computations for i in c.instructions]
    if any(i.opcode in _NOT_WITH_ZEROS or has_effect(i, frozenset()) for i in instructions):
        return ()
    needed: dict[HloInstruction, frozenset[int]] = {}
    for i in module.entry.instructions:
        own = [i["parameter_number"]] if i.opcode == "parameter" else []
        before = (*i.operands, *i.note.control_predecessors)
        needed[i] = frozenset(own).union(*(needed[operand] for operand in before))
    found = tuple(tuple(sorted(needed[part])) for part in root.operands)
    return () if all(len(row) == count for row in found) else found
