"""Attention fusion: products, softmax and products become one kernel (`codegen/attention.py`).

Runs before the other fusions, whose kernels would come between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xladev import instrument
from xladev.codegen.attention import Attention, attention_of
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


@dataclass(frozen=True, slots=True)
class AttentionFusion:
    """The pass that makes a `fusion` instruction of each attention.

    Attributes:
        fits: whether the backend has a kernel for an attention.
        name: for dumps and timings.
    """

    fits: Callable[[Attention], bool]
    name: str = field(default="attention-fusion")

    def run(self, module: HloModule) -> HloModule:
        """The module; attentions whose weights or scores are needed elsewhere stay as they are."""
        programs = kernel_programs(module)
        return map_computations(module, lambda c: self._fuse(c) if c.name in programs else c)

    def _fuse(self, computation: HloComputation) -> HloComputation:
        if sum(i.opcode == "dot" for i in computation.instructions) < 2:
            return computation
        users, alone = users_of(computation), controlled(computation)
        taken: set[HloInstruction] = set()
        replacements: dict[HloInstruction, HloInstruction] = {}
        for i in reversed(computation.instructions):
            found = None if i in taken else self._found(i, users)
            group = None if found is None else _group(found, computation, users)
            if found is None or group is None or group & alone or any(g.note.device for g in group):
                continue
            taken |= group
            nbytes = found.product.shape.nbytes
            why = f"{nbytes:,} bytes of scores are used block by block while they are in the cache"
            instrument.decision(self.name, i.name, why)
            replacements[i] = fused_group(i, group, computation.name)
        return without_dead(rebuild(computation, replacements)) if replacements else computation

    def _found(self, root: HloInstruction, users: Users) -> Attention | None:
        """The attention of a root."""
        if root.opcode not in ("dot", "transpose"):
            return None
        found = attention_of(root)
        return found if found is not None and self.fits(found) else None


def _group(
    found: Attention, computation: HloComputation, users: Users
) -> set[HloInstruction] | None:
    """What becomes one kernel; None if a part of it is wanted elsewhere too."""
    apart = {*found.product.operands, found.last.operands[found.values.number]}
    if any(is_free(i) for i in apart) or apart & found.within:
        return None
    group = {found.root}
    for i in reversed(computation.instructions):
        mine = i in found.within or (found.may_compute(i) and i not in apart)
        if mine and users[i] and all(user in group for user in users[i]):
            group.add(i)
    is_whole = found.within <= group and len(group) <= MAX_GROUP
    return group if is_whole else None
