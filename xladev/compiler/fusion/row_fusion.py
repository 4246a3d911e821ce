"""Row fusion: reductions of rows, and what goes on with the rows, become one kernel.

Runs before `instruction_fusion.py`. A value joins the kernel of its users if all of them are in one
kernel of the same rows, so no value leaves a kernel but its root's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xladev import instrument
from xladev.codegen.row_program import RowSpace, row_space
from xladev.compiler.fusion.instruction_fusion import (
    MAX_GROUP,
    CanFuse,
    KernelNames,
    always,
    controlled,
    fused_group,
    is_free,
    kernel_programs,
    with_copies,
    without_dead,
)
from xladev.errors import counted
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import Users, map_computations, rebuild, users_of
from xladev.passes.pass_ import HloModulePass

MOST_REDUCTIONS = 8
"""Most reductions of one kernel."""


@dataclass(frozen=True, slots=True)
class RowFusion(HloModulePass):
    """Forms kernels of rows: reductions of rows, and what goes on with the rows.

    Attributes:
        max_group: most instructions in one kernel.
        can_fuse: the backend's word on each value and its reader, after the rule said yes.
    """

    name = "row-fusion"
    max_group: int = MAX_GROUP
    can_fuse: CanFuse = always

    def run(self, module: HloModule) -> HloModule:
        """The module with softmaxes, normalisations and their like as `fusion` instructions."""
        programs, names = kernel_programs(module), KernelNames(module)
        return map_computations(module, lambda c: self._fuse(c, names) if c.name in programs else c)

    def _fuse(self, computation: HloComputation, names: KernelNames) -> HloComputation:
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
                times = counted(sum(i.opcode == "reduce" for i in group), "time")
                why = f"each row is reduced ({times}) and used while it is in the cache"
                instrument.decision(self.name, root.name, why)
                whole = with_copies(group, self.can_fuse)
                replacements[root] = fused_group(root, whole, computation.name, names)
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
            joins = found is not None and all(
                space.may_read(reader, i) and self.can_fuse(i, reader) for reader in readers
            )
            full = found is not None and len(groups[found]) >= self.max_group
            goal = found if found is not None and joins and not full else i
            leader[i] = goal
            groups.setdefault(goal, set()).add(i)
        return [(root, group) for root, group in groups.items() if _pays(group)]


def _pays(group: set[HloInstruction]) -> bool:
    """True if the kernel uses rows again that it reduced; otherwise reductions stay alone."""
    reductions = [i for i in group if i.opcode == "reduce"]
    again = any(i.opcode == "broadcast" and i.operands[0] in group for i in group)
    return again and 0 < len(reductions) <= MOST_REDUCTIONS
