"""Unplaced steps: the steps of a plan on virtual buffers, whose places are not known yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from xladev.compiler.buffers.virtual_buffers import VirtualBuffer
from xladev.compiler.plan.kernel_plan import (
    Copy,
    Parallel,
    RunKernel,
    Slice,
    Step,
    StepOn,
    map_bodies,
    map_buffers,
    own_buffers,
)
from xladev.compiler.streams.stream_hazards import MemoryAccess, MemoryRange, needs_of
from xladev.compiler.streams.stream_waits import fewest_waits


class BufferUse(NamedTuple):
    """One use of a virtual buffer: what stands for a slice in an unplaced step.

    Attributes:
        buffer: what is used.
        time: when the step runs, by the pool's clock.
        is_written: True for results, workspace and the destination of a copy.
    """

    buffer: VirtualBuffer
    time: int
    is_written: bool = False


UnplacedStep = StepOn[BufferUse]
"""A step whose buffers have no places yet."""

StraightStep = RunKernel[BufferUse] | Copy[BufferUse]
"""An unplaced step that may run beside others."""


def access_of(
    step: StraightStep, place_of: Callable[[VirtualBuffer], MemoryRange], shares: Sequence[str]
) -> MemoryAccess:
    """The memory that a step touches, and what else it shares with others.

    Args:
        step: a kernel or a copy.
        place_of: where a virtual buffer is.
        shares: what launches of other kernels use too, by kernel number (`KernelCode.shares`).
    """
    uses = [use for use in own_buffers(step) if use.buffer.nbytes]
    read = tuple(place_of(use.buffer) for use in uses if not use.is_written)
    written = tuple(place_of(use.buffer) for use in uses if use.is_written)
    shared = shares[step.kernel] if isinstance(step, RunKernel) else ""
    return MemoryAccess(read, (*written, MemoryRange(shared, 0, 1)) if shared else written)


def placed(
    steps: Iterable[UnplacedStep],
    slice_of: Callable[[VirtualBuffer], Slice],
    shares: Sequence[str],
) -> tuple[Step, ...]:
    """The steps on slices, with the waits that places make necessary.

    Args:
        steps: in their order.
        slice_of: where a virtual buffer is.
        shares: as in `access_of`.
    """

    def place_of(buffer: VirtualBuffer) -> MemoryRange:
        s = slice_of(buffer)
        return MemoryRange((s.space, s.index), s.offset, s.offset + s.nbytes)

    def ordered(steps: Iterable[UnplacedStep]) -> tuple[UnplacedStep, ...]:
        return tuple(map(with_waits, steps))

    def with_waits(step: UnplacedStep) -> UnplacedStep:
        if not isinstance(step, Parallel):
            return map_bodies(step, ordered)
        needs = needs_of([access_of(inner, place_of, shares) for inner in step.steps])
        waits = fewest_waits(needs, step.streams)
        return replace(step, waits=waits.before, joins=waits.joined)

    return map_buffers(ordered(steps), lambda use: slice_of(use.buffer))
