"""Spreads the steps of a plan over streams: runs of kernels and copies, between loops and branches.

Streams are chosen while buffers have no places yet, by what steps compute from each other. Memory
that a run uses again is then kept until nothing that could still use it is under way, so that
places order nothing more. Where that takes too much memory, places order more, by events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from xladev import instrument
from xladev.compiler.buffers.virtual_buffers import VirtualBuffer
from xladev.compiler.plan.kernel_plan import (
    Copy,
    Parallel,
    RunKernel,
    Space,
    map_bodies,
    own_buffers,
)
from xladev.compiler.plan.unplaced_steps import StraightStep, UnplacedStep, access_of
from xladev.compiler.schedule.work_graph import keeps_order
from xladev.compiler.streams.stream_choice import STREAMS_STEP, StepCost, StreamSpread
from xladev.compiler.streams.stream_hazards import MemoryRange, Needs, needs_of
from xladev.compiler.streams.stream_waits import clocks_of, fewest_waits
from xladev.hlo.ir import HloInstruction


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How a plan is spread over streams.

    Attributes:
        spread: how many, and what is worth it.
        keeps_memory: memory is not used again while work of other streams may need it; else events
            order its uses.
    """

    spread: StreamSpread
    keeps_memory: bool = True

    def apply(
        self,
        steps: tuple[UnplacedStep, ...],
        operations: Sequence[HloInstruction],
        shares: Sequence[str],
        ordered: AbstractSet[str],
    ) -> tuple[UnplacedStep, ...]:
        """The steps with runs of independent ones as `Parallel`, which has no waits yet.

        Args:
            steps: of a whole plan.
            operations: the instructions of its kernels.
            shares: what launches of other kernels use too, by kernel number.
            ordered: names of computations whose runs keep their order.
        """
        straight = all(isinstance(step, RunKernel | Copy) for step in steps)
        is_recorded = straight and self.spread.device.replays_launches
        walk = _Runs(self, operations, shares, ordered, is_recorded)
        return tuple(walk.within(steps))


class _Runs:
    """The runs of one plan."""

    def __init__(
        self,
        concurrency: Concurrency,
        operations: Sequence[HloInstruction],
        shares: Sequence[str],
        ordered: AbstractSet[str],
        is_recorded: bool,
    ) -> None:
        self._concurrency = concurrency
        self._operations = operations
        self._shares = shares
        self._ordered = ordered
        self._is_recorded = is_recorded

    def within(self, steps: Sequence[UnplacedStep]) -> Iterator[UnplacedStep]:
        """Steps, those of loops and branches included, with runs spread where that is worth it."""
        for is_free, run in groupby(steps, self._is_free):
            if is_free:
                yield from self._spread(
                    [step for step in run if isinstance(step, RunKernel | Copy)]
                )
            else:
                yield from (map_bodies(step, self.within) for step in run)

    def _is_free(self, step: UnplacedStep) -> bool:
        if isinstance(step, RunKernel):
            made = self._operations[step.operation]
            return not (made.note.control_predecessors or keeps_order(made, self._ordered))
        return isinstance(step, Copy)

    def _spread(self, run: Sequence[StraightStep]) -> Sequence[UnplacedStep]:
        needs = needs_of([access_of(step, _whole, self._shares) for step in run])
        spread, costs = self._concurrency.spread, list(map(self._cost, run))
        choice = spread.choice(needs, costs, is_recorded=self._is_recorded)
        streams = choice.streams
        if choice.why:
            instrument.decision(STREAMS_STEP, self._name(run), choice.why)
        if not any(streams):
            return run
        if self._concurrency.keeps_memory:
            self._keep(run, needs, streams)
        return (Parallel(tuple(run), streams, waits=(), joins=()),)

    def _name(self, run: Sequence[StraightStep]) -> str:
        """The first kernel of a run."""
        made = (self._operations[s.operation].name for s in run if isinstance(s, RunKernel))
        return next(made, "copies")

    def _cost(self, step: StraightStep) -> StepCost:
        spread = self._concurrency.spread
        if isinstance(step, Copy):
            return spread.cost_of_copy(step.source.buffer.nbytes)
        return spread.cost_of(self._operations[step.operation])

    def _keep(
        self, run: Sequence[StraightStep], needs: Sequence[Needs], streams: Sequence[int]
    ) -> None:
        """Lets buffers live on until every later step begins after all that use them."""
        clocks = np.array(clocks_of(streams, fewest_waits(needs, streams)))
        for buffer, users in _users(run).items():
            last = np.full(clocks.shape[1], clocks.min())
            for user in users:
                last[streams[user]] = user
            beside = np.flatnonzero((clocks < last).any(axis=1))
            buffer.touch(_time(run[int(beside[-1])]))


def _whole(buffer: VirtualBuffer) -> MemoryRange:
    return MemoryRange(buffer, 0, 1)


def _time(step: StraightStep) -> int:
    """When a step runs; it uses something."""
    return own_buffers(step)[0].time


def _users(run: Sequence[StraightStep]) -> dict[VirtualBuffer, list[int]]:
    """The steps that use each temporary, ascending."""
    found: dict[VirtualBuffer, list[int]] = {}
    for number, step in enumerate(run):
        for buffer in dict.fromkeys(use.buffer for use in own_buffers(step)):
            if buffer.space is Space.SCRATCH:
                found.setdefault(buffer, []).append(number)
    return found
