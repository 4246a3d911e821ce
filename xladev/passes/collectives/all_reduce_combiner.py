"""All-reduce combiner: small sums of the same devices that do not need each other become one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xladev.hlo.builder import make_instruction
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.ops.reducers import monoid_of
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.hlo.shape import tuple_of
from xladev.passes.pass_ import HloModulePass

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class AllReduceCombiner(HloModulePass):
    """Makes one all-reduce of several.

    They have the same groups and the same reducer on the same type, and none needs the result of
    another. Each collective is a meeting of all devices, whose cost for small arrays does not
    depend on their size.

    Attributes:
        most_bytes: of one array that is combined with others.
        most_total: bytes of all arrays of one all-reduce.
    """

    name = "all-reduce-combiner"
    only_for = frozenset({"all-reduce"})
    most_bytes: int = 1 << 18
    most_total: int = 1 << 22

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        changed = map_computations(module, self._combined)
        return module if changed is module else with_unique_names(changed)

    def _combined(self, computation: HloComputation) -> HloComputation:
        """One batch at a time: what a batch needs changes with each that was made."""
        while batch := next(self._batches(computation), None):
            computation = _with_one(computation, batch)
        return computation

    def _batches(self, computation: HloComputation) -> Iterator[list[HloInstruction]]:
        needs = _needs(computation)
        open_batches: dict[Key, list[HloInstruction]] = {}
        for i in computation.instructions:
            key = self._key(i)
            if key is None:
                continue
            batch = open_batches.get(key, [])
            total = sum(member.shape.nbytes for member in batch) + i.shape.nbytes
            is_apart = all(member not in needs[i] for member in batch)
            if batch and is_apart and total <= self.most_total:
                batch.append(i)
                continue
            if len(batch) > 1:
                yield batch
            open_batches[key] = [i]
        yield from (batch for batch in open_batches.values() if len(batch) > 1)

    def _key(self, i: HloInstruction) -> Key | None:
        """What those have in common that may be combined; None for one that may not."""
        if i.opcode != "all-reduce" or not i.shape.is_array or i.shape.is_dynamic:
            return None
        if i.shape.nbytes > self.most_bytes or i.note.control_predecessors:
            return None
        body = i["to_apply"]
        if monoid_of(body) is None:
            return None
        return (
            i["replica_groups"], bool(i["channel_id"]), i["use_global_device_ids"],
            body.root.opcode, i.shape.element_type, i.note.device,
        )  # fmt: skip


def _needs(computation: HloComputation) -> dict[HloInstruction, frozenset[HloInstruction]]:
    """For each all-reduce those whose results it needs; for others, what passes through them."""
    found: dict[HloInstruction, frozenset[HloInstruction]] = {}
    for i in computation.instructions:
        sources = (*i.operands, *i.note.control_predecessors)
        through = frozenset[HloInstruction]().union(*(found[s] for s in sources))
        own = frozenset(s for s in sources if s.opcode == "all-reduce")
        found[i] = through | own
    return found


def _with_one(computation: HloComputation, batch: Sequence[HloInstruction]) -> HloComputation:
    first = batch[0]
    operands = tuple(i.operands[0] for i in batch)
    shapes = [i.shape.without_layout() for i in batch]
    combined = replace(
        first, operands=operands, shape=tuple_of(*shapes), name=f"{first.name}.combined"
    )
    parts = {
        i: make_instruction("get-tuple-element", [combined], {"index": n}, name=i.name, note=i.note)
        for n, i in enumerate(batch)
    }
    return rebuild(computation, parts)
