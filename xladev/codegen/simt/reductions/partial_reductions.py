"""What becomes of reduced elements: results, or parts of them that another launch reduces.

Parts are reduced in one order, whichever block was done first, so sums are the same on every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import Value
from xladev.codegen.scalar.elements import real_of, splat
from xladev.codegen.scalar.storage import load_element, store_element
from xladev.codegen.simt.exchanges import over_subgroup
from xladev.codegen.simt.kernel_kind import Stage, ThreadBuild
from xladev.codegen.simt.launch_plan import BLOCK
from xladev.codegen.simt.primitives import block_number, thread_in_block
from xladev.codegen.simt.reductions.reduction_plans import ReductionPlan

_ALIGNMENT = 64
MOST_BY_ONE = 16
"""Parts of an element above which a sub-group reduces them."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Where totals go.

    Attributes:
        plan: what is reduced.
        splits: parts of each element; one is the element itself.
    """

    plan: ReductionPlan
    splits: int

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where parts of each reduction begin in the workspace, then its size; in bytes."""
        found = [0]
        for reduction in self.plan.reductions:
            size = self.splits * self.plan.kept * max(1, reduction.dtype.host_nbytes)
            found.append(found[-1] + -(-size // _ALIGNMENT) * _ALIGNMENT)
        return tuple(found)

    @property
    def workspace_nbytes(self) -> int:
        """For all parts."""
        return self.offsets[-1] if self.splits > 1 else 0

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The launch that reduces parts, if there are any."""
        return (Stage(self._reduction),) if self.splits > 1 else ()

    def store(
        self, t: ThreadBuild, totals: Sequence[Value], kept: Value, split: Value | int
    ) -> None:
        """Writes what one thread has of neighbouring elements, from position ``kept`` on."""
        if self.splits == 1:
            _store_results(t, self.plan, totals, kept)
            return
        position = t.b.add(t.e.at.value(t.e.at.mul(split, self.plan.kept)), kept)
        for reduction, offset, total in zip(
            self.plan.reductions, self.offsets, totals, strict=False
        ):
            store_element(
                t.b, t.b.byte_address(t.scratch, offset), position, reduction.dtype, total
            )

    def _reduction(self, t: ThreadBuild) -> LaunchDimensions:
        """A thread or a sub-group for each element."""
        threads = 1 if self.splits <= MOST_BY_ONE else t.subgroup
        b, tid = t.b, thread_in_block(t.b)
        per_block = BLOCK // threads
        element = b.add(b.mul(block_number(b), per_block), b.udiv(tid, threads))
        inside, lane = b.icmp("ult", element, self.plan.kept), b.urem(tid, threads)
        stop = b.select(inside, b.const(lane.type, self.splits), 0)
        totals = self._total(t, element, lane, stop, threads)
        with b.when(b.and_(inside, b.icmp("eq", lane, 0))), t.e.scope():
            _store_results(t, self.plan, totals, element)
        return LaunchDimensions((-(-self.plan.kept // per_block), 1, 1), (BLOCK, 1, 1))

    def _total(
        self, t: ThreadBuild, element: Value, lane: Value, stop: Value, threads: int
    ) -> list[Value]:
        b, reductions = t.b, self.plan.reductions
        initial = [reduction.start(1) for reduction in reductions]
        with b.carried_loop(lane, stop, threads, initial=initial) as loop, t.e.scope():
            position = b.add(b.mul(loop.index, self.plan.kept), element)
            held: list[Value] = []
            for reduction, offset, total in zip(
                reductions, self.offsets, loop.values, strict=False
            ):
                base = b.byte_address(t.scratch, offset)
                held.append(
                    reduction.combine(b, total, load_element(b, base, position, reduction.dtype))
                )
            loop.carry(*held)
        return [
            over_subgroup(b, f, v, threads) for f, v in zip(reductions, loop.values, strict=True)
        ]


def _store_results(
    t: ThreadBuild, plan: ReductionPlan, totals: Sequence[Value], kept: Value
) -> None:
    """Combines totals with what the reduces start from."""
    for reduction, number, total in zip(plan.reductions, plan.numbers, totals, strict=True):
        start = splat(t.b, t.e.element(reduction.reduce.operands[1], ()), total.lanes)
        reduced = reduction.rounded(
            t.b, reduction.combine(t.b, real_of(start, "a reduction"), total)
        )
        result = t.results[number]
        store_element(t.b, result.base, kept, result.shape.element_type, reduced)
