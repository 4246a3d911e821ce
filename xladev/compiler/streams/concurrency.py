"""Spreads the steps of a plan over streams: runs of kernels and copies, between loops and branches.

Streams are chosen while buffers have no places yet, by what steps compute from each other. Memory
that a run uses again is then kept until nothing that could still use it is under way, so that
places order nothing more. Where that takes too much memory, places order more, by events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from xladev import instrument
from xladev.compiler.buffers.virtual_buffers import VirtualBuffer
from xladev.compiler.plan.kernel_plan import Space
from xladev.compiler.plan.step_drafts import (
    BranchDraft,
    CopyDraft,
    Draft,
    KernelDraft,
    LoopDraft,
    ParallelDraft,
    access_of,
)
from xladev.compiler.schedule.work_graph import keeps_order
from xladev.compiler.streams.stream_choice import STREAMS_STEP, Spread, StepCost
from xladev.compiler.streams.stream_hazards import Needs, Place, needs_of
from xladev.compiler.streams.stream_waits import clocks_of, fewest_waits
from xladev.hlo.ir import HloInstruction

Free = KernelDraft | CopyDraft
"""What may run beside others."""


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How a plan is spread over streams.

    Attributes:
        spread: how many, and what is worth it.
        keeps_memory: memory is not used again while work of other streams may need it; else events
            order its uses.
    """

    spread: Spread
    keeps_memory: bool = True

    def apply(
        self,
        drafts: tuple[Draft, ...],
        operations: Sequence[HloInstruction],
        ordered: AbstractSet[str],
    ) -> tuple[Draft, ...]:
        """The drafts with runs of independent steps as `ParallelDraft`.

        Args:
            drafts: of a whole plan; its buffers have no places yet.
            operations: the instructions of its kernels.
            ordered: names of computations whose runs keep their order.
        """
        straight = all(isinstance(d, KernelDraft | CopyDraft) for d in drafts)
        is_recorded = straight and self.spread.device.replays_launches
        walk = _Runs(self, operations, ordered, is_recorded)
        return tuple(walk.within(drafts))


class _Runs:
    """The runs of one plan."""

    def __init__(
        self,
        concurrency: Concurrency,
        operations: Sequence[HloInstruction],
        ordered: AbstractSet[str],
        is_recorded: bool,
    ) -> None:
        self._concurrency = concurrency
        self._operations = operations
        self._ordered = ordered
        self._is_recorded = is_recorded

    def within(self, drafts: Sequence[Draft]) -> Iterator[Draft]:
        """Steps, those of loops and branches included, with runs spread where that is worth it."""
        for is_free, run in groupby(drafts, self._is_free):
            if is_free:
                yield from self._spread([d for d in run if isinstance(d, Free)])
            else:
                yield from map(self._inside, run)

    def _is_free(self, draft: Draft) -> bool:
        if isinstance(draft, KernelDraft):
            made = self._operations[draft.operation]
            return not (made.note.control_predecessors or keeps_order(made, self._ordered))
        return isinstance(draft, CopyDraft)

    def _inside(self, draft: Draft) -> Draft:
        match draft:
            case LoopDraft():
                condition, body = map(tuple, map(self.within, (draft.condition, draft.body)))
                return replace(draft, condition=condition, body=body)
            case BranchDraft():
                return replace(draft, branches=tuple(map(tuple, map(self.within, draft.branches))))
            case _:
                return draft

    def _spread(self, run: Sequence[Free]) -> Sequence[Draft]:
        needs = needs_of([access_of(draft, _whole) for draft in run])
        spread, costs = self._concurrency.spread, list(map(self._cost, run))
        choice = spread.choice(needs, costs, is_recorded=self._is_recorded)
        streams = choice.streams
        if choice.why:
            instrument.decision(STREAMS_STEP, self._name(run), choice.why)
        if not any(streams):
            return run
        if self._concurrency.keeps_memory:
            self._keep(run, needs, streams)
        return (ParallelDraft(tuple(run), streams),)

    def _name(self, run: Sequence[Free]) -> str:
        """The first kernel of a run."""
        made = (self._operations[d.operation].name for d in run if isinstance(d, KernelDraft))
        return next(made, "copies")

    def _cost(self, draft: Free) -> StepCost:
        spread = self._concurrency.spread
        if isinstance(draft, CopyDraft):
            return spread.cost_of_copy(draft.source.nbytes)
        return spread.cost_of(self._operations[draft.operation])

    def _keep(self, run: Sequence[Free], needs: Sequence[Needs], streams: Sequence[int]) -> None:
        """Lets buffers live on until every later step begins after all that use them."""
        clocks = np.array(clocks_of(streams, fewest_waits(needs, streams)))
        for buffer, users in _users(run).items():
            last = np.full(clocks.shape[1], clocks.min())
            for user in users:
                last[streams[user]] = user
            beside = np.flatnonzero((clocks < last).any(axis=1))
            buffer.touch(run[int(beside[-1])].time)


def _whole(buffer: VirtualBuffer) -> Place:
    return Place(buffer, 0, 1)


def _users(run: Sequence[Free]) -> dict[VirtualBuffer, list[int]]:
    """The steps that use each temporary, ascending."""
    found: dict[VirtualBuffer, list[int]] = {}
    for number, draft in enumerate(run):
        if isinstance(draft, CopyDraft):
            buffers: tuple[VirtualBuffer, ...] = (draft.source, draft.destination)
        else:
            buffers = draft.buffers
        for buffer in dict.fromkeys(buffers):
            if buffer.space is Space.SCRATCH:
                found.setdefault(buffer, []).append(number)
    return found
