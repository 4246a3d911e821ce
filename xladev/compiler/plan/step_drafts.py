"""Drafts of a plan's steps: they name virtual buffers, whose places are not known yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xladev.compiler.buffers.virtual_buffers import VirtualBuffer
from xladev.compiler.plan.kernel_plan import Branch, Copy, Loop, Parallel, RunKernel, Slice, Step
from xladev.compiler.streams.stream_hazards import Access, Place, needs_of
from xladev.compiler.streams.stream_waits import fewest_waits

SliceOf = Callable[[VirtualBuffer], Slice]
"""Where a virtual buffer lies."""


@dataclass(frozen=True, slots=True)
class KernelDraft:
    """Becomes `RunKernel`.

    Attributes:
        kernel, buffers, operation: as there.
        read: how many of the buffers are operands; they come first.
        time: when it runs, by the pool's clock.
        shares: what launches of other kernels use too (`KernelCode.shares`).
    """

    kernel: int
    buffers: tuple[VirtualBuffer, ...]
    operation: int
    read: int
    time: int
    shares: str = ""


@dataclass(frozen=True, slots=True)
class CopyDraft:
    """Becomes `Copy`."""

    source: VirtualBuffer
    destination: VirtualBuffer
    time: int


@dataclass(frozen=True, slots=True)
class LoopDraft:
    """Becomes `Loop`."""

    condition: tuple[Draft, ...]
    predicate: VirtualBuffer
    body: tuple[Draft, ...]


@dataclass(frozen=True, slots=True)
class BranchDraft:
    """Becomes `Branch`."""

    selector: VirtualBuffer
    is_predicate: bool
    branches: tuple[tuple[Draft, ...], ...]


@dataclass(frozen=True, slots=True)
class ParallelDraft:
    """Becomes `Parallel`, with the waits that places make necessary."""

    steps: tuple[KernelDraft | CopyDraft, ...]
    streams: tuple[int, ...]


Draft = KernelDraft | CopyDraft | LoopDraft | BranchDraft | ParallelDraft


def access_of(draft: KernelDraft | CopyDraft, place_of: Callable[[VirtualBuffer], Place]) -> Access:
    """The memory that a step touches, and what else it shares with others."""
    if isinstance(draft, CopyDraft):
        return Access((place_of(draft.source),), (place_of(draft.destination),))
    places = [place_of(b) if b.nbytes else None for b in draft.buffers]
    read = tuple(p for p in places[: draft.read] if p is not None)
    written = tuple(p for p in places[draft.read :] if p is not None)
    shared = (Place(draft.shares, 0, 1),) if draft.shares else ()
    return Access(read, (*written, *shared))


def final_steps(drafts: tuple[Draft, ...], slice_of: SliceOf) -> tuple[Step, ...]:
    """The steps that drafts stand for."""
    return tuple(_final(draft, slice_of) for draft in drafts)


def _final(draft: Draft, slice_of: SliceOf) -> Step:
    match draft:
        case KernelDraft() | CopyDraft():
            return _step(draft, slice_of)
        case LoopDraft():
            return Loop(
                final_steps(draft.condition, slice_of),
                slice_of(draft.predicate),
                final_steps(draft.body, slice_of),
            )
        case BranchDraft():
            branches = tuple(final_steps(b, slice_of) for b in draft.branches)
            return Branch(slice_of(draft.selector), draft.is_predicate, branches)
        case ParallelDraft():
            return _parallel(draft, slice_of)


def _parallel(draft: ParallelDraft, slice_of: SliceOf) -> Parallel:
    def place_of(buffer: VirtualBuffer) -> Place:
        s = slice_of(buffer)
        return Place((s.space, s.index), s.offset, s.offset + s.nbytes)

    needs = needs_of([access_of(step, place_of) for step in draft.steps])
    waits = fewest_waits(needs, draft.streams)
    steps = tuple(_step(step, slice_of) for step in draft.steps)
    return Parallel(steps, draft.streams, waits.before, waits.joined)


def _step(draft: KernelDraft | CopyDraft, slice_of: SliceOf) -> RunKernel | Copy:
    if isinstance(draft, CopyDraft):
        return Copy(slice_of(draft.source), slice_of(draft.destination))
    return RunKernel(draft.kernel, tuple(map(slice_of, draft.buffers)), draft.operation)
