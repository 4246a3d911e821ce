"""Row fusion: folds of rows, and what goes on with the rows, become one kernel.

Runs before `compiler/fusion.py`. A value joins the kernel of its users if all of them are in one
kernel of the same rows, so no value leaves a kernel but its root's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xladev import instrument
from xladev.codegen.row_program import RowSpace, row_space
from xladev.compiler.fusion import (
    MAX_GROUP,
    controlled,
    fused_group,
    is_free,
    kernel_programs,
    without_dead,
)
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import Users, map_computations, rebuild, users_of

MOST_FOLDS = 8
"""Most folds of one kernel."""


@dataclass(frozen=True, slots=True)
class RowFusion:
    """The pass that forms kernels of rows.

    Attributes:
        max_group: most instructions in one kernel.
        name: for dumps and timings.
    """

    max_group: int = MAX_GROUP
    name: str = field(default="row-fusion")

    def run(self, module: HloModule) -> HloModule:
        """The module with softmaxes, normalisations and their like as `fusion` instructions."""
        programs = kernel_programs(module)
        return map_computations(module, lambda c: self._fuse(c) if c.name in programs else c)

    def _fuse(self, computation: HloComputation) -> HloComputation:
        spaces = dict.fromkeys(s for i in computation.instructions if (s := row_space(i)))
        if not spaces:
            return computation
        users = users_of(computation)
        alone = controlled(computation) | {computation.root}
        taken: set[HloInstruction] = set()
        replacements: dict[HloInstruction, HloInstruction] = {}
        for space in spaces:
            for root, group in self._groups(space, computation, users, alone, taken):
                taken |= group
                folds = sum(i.opcode == "reduce" for i in group)
                why = f"each row is folded ({folds} times) and used while it is in the cache"
                instrument.decision(self.name, root.name, why)
                replacements[root] = fused_group(root, group, computation.name)
        return without_dead(rebuild(computation, replacements)) if replacements else computation

    def _groups(
        self,
        space: RowSpace,
        computation: HloComputation,
        users: Users,
        alone: set[HloInstruction],
        taken: set[HloInstruction],
    ) -> Iterable[tuple[HloInstruction, set[HloInstruction]]]:
        """Kernels of some rows, by their roots."""
        groups: dict[HloInstruction, set[HloInstruction]] = {}
        leader: dict[HloInstruction, HloInstruction] = {}
        for i in reversed(computation.instructions):
            if i in taken or is_free(i) or i.note.device or not space.may_compute(i):
                continue
            readers = () if i in alone else users[i]
            goals = {leader.get(reader) for reader in readers}
            found = goals.pop() if len(goals) == 1 else None
            joins = found is not None and all(space.may_read(reader, i) for reader in readers)
            full = found is not None and len(groups[found]) >= self.max_group
            goal = found if found is not None and joins and not full else i
            leader[i] = goal
            groups.setdefault(goal, set()).add(i)
        return [(root, group) for root, group in groups.items() if _pays(group)]


def _pays(group: set[HloInstruction]) -> bool:
    """True if the kernel goes on with rows that it folded: else folds are as well on their own."""
    folds = [i for i in group if i.opcode == "reduce"]
    again = any(i.opcode == "broadcast" and i.operands[0] in group for i in group)
    return again and 0 < len(folds) <= MOST_FOLDS
