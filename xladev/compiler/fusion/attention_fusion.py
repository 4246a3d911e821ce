"""Attention fusion: products, softmax and products become one kernel (`codegen/attention.py`).

Runs before the other fusions, whose kernels would come between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from xladev import instrument
from xladev.codegen.attention import Attention
from xladev.codegen.attention_search import NotTaken, find_attention
from xladev.compiler.fusion.instruction_fusion import (
    MAX_GROUP,
    KernelNames,
    controlled,
    fused_group,
    is_free,
    kernel_programs,
    with_copies,
    without_dead,
)
from xladev.compiler.support import YES, Support
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import Users, map_computations, rebuild, users_of
from xladev.passes.pass_ import HloModulePass

Takes = Callable[[Attention], Support]
"""Whether a backend has a kernel for an attention, and why not."""


def _any(found: Attention) -> Support:
    return YES


@dataclass(frozen=True, slots=True)
class AttentionFusion(HloModulePass):
    """Makes a `fusion` instruction of each attention: products, softmax and products.

    Attributes:
        takes: whether the backend has a kernel for an attention. A refusal is recorded.
    """

    name = "attention-fusion"
    only_for = frozenset({"dot"})
    takes: Takes = _any

    def run(self, module: HloModule) -> HloModule:
        """The module; attentions whose weights or scores are needed elsewhere stay as they are."""
        programs, names = kernel_programs(module), KernelNames(module)
        return map_computations(module, lambda c: self._fuse(c, names) if c.name in programs else c)

    def _fuse(self, computation: HloComputation, names: KernelNames) -> HloComputation:
        replacements: dict[HloInstruction, HloInstruction] = {}
        refused: dict[HloInstruction, str] = {}
        for found, group in attention_groups(computation, self.takes, refused):
            nbytes = found.product.shape.nbytes
            why = f"{nbytes:,} bytes of scores are used block by block and never written"
            instrument.decision(self.name, found.root.name, why)
            whole = with_copies(set(group))
            replacements[found.root] = fused_group(found.root, whole, computation.name, names)
        for root, why in refused.items():
            instrument.decision(self.name, root.name, f"no attention in one kernel: {why}")
        return without_dead(rebuild(computation, replacements)) if replacements else computation


def attention_groups(
    computation: HloComputation, takes: Takes, refused: dict[HloInstruction, str]
) -> Iterator[tuple[Attention, frozenset[HloInstruction]]]:
    """Each attention that can be one kernel, with its instructions; last ones first.

    Args:
        computation: where to look.
        takes: the backend's answer.
        refused: gets the reason for the last product of each that cannot be.
    """
    if sum(i.opcode == "dot" for i in computation.instructions) < 2:
        return
    users, alone = users_of(computation), controlled(computation)
    taken: set[HloInstruction] = set()
    for i in reversed(computation.instructions):
        found = None if i in taken else find_attention(i)
        if found is None:
            continue
        group = _Group(computation, users, alone, takes).of(found)
        if isinstance(group, str):
            refused[_last_product(i)] = group
            continue
        assert isinstance(found, Attention)
        refused.pop(found.last, None)
        taken |= group
        yield found, group


def _last_product(root: HloInstruction) -> HloInstruction:
    while root.opcode != "dot":
        root = root.operands[0]
    return root


@dataclass(frozen=True, slots=True)
class _Group:
    """What becomes one kernel with an attention."""

    computation: HloComputation
    users: Users
    alone: set[HloInstruction]
    takes: Takes

    def of(self, found: Attention | NotTaken) -> frozenset[HloInstruction] | str:
        """Its instructions, or why there is no such kernel."""
        if isinstance(found, NotTaken):
            return found.reason
        support = self.takes(found)
        if not support:
            return support.reason
        apart = frozenset(found.operands)
        if any(is_free(i) for i in apart) or apart & found.within:
            return "queries, keys or values are constants, or parts of the scores"
        group = self._grown(found, apart)
        for i in reversed(self.computation.instructions):
            if i in found.within and i not in group:
                return f"{i.name} is used elsewhere too, or in a way that no kernel of scores has"
        if len(group) > MAX_GROUP:
            return f"{len(group)} instructions are more than the {MAX_GROUP} of a kernel"
        if group & self.alone or any(i.note.device for i in group):
            return "control dependencies or devices hold its instructions apart"
        return frozenset(group)

    def _grown(self, found: Attention, apart: frozenset[HloInstruction]) -> set[HloInstruction]:
        """All that only the attention needs and each score can compute for itself."""
        group = {found.root}
        for i in reversed(self.computation.instructions):
            mine = i in found.within or (found.may_compute(i) and i not in apart)
            if mine and self.users[i] and all(user in group for user in self.users[i]):
                group.add(i)
        return group
