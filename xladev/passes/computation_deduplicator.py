"""Computation deduplicator: equal reducers, comparators and bodies become one computation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import rebuild, with_called
from xladev.passes.pass_ import HloModulePass
from xladev.passes.value_numbers import ValueNumbers


@dataclass(frozen=True, slots=True)
class ComputationDeduplicator(HloModulePass):
    """Lets callers of computations that differ only in names and metadata call the first of them.

    The bodies of `fusion` stay apart, since each belongs to one kernel.
    """

    name = "computation-deduplicator"

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        if len(module.computations) == 1:
            return module
        numbers = ValueNumbers()
        first: dict[int, HloComputation] = {}
        now: dict[HloComputation, HloComputation] = {}
        for computation in module.computations:
            number = numbers.add(computation)
            if number in first:
                now[computation] = first[number]
                continue
            after = rebuild(computation, _recalled(computation, now))
            if after is not computation:
                now[computation] = after
            first[number] = after
        return replace(module, entry=now[module.entry]) if module.entry in now else module


def _recalled(
    computation: HloComputation, now: dict[HloComputation, HloComputation]
) -> dict[HloInstruction, HloInstruction]:
    if not now:
        return {}
    return {
        i: with_called(i, now)
        for i in computation.instructions
        if i.attrs and any(c in now for c in i.called)
    }
