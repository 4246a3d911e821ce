"""Drafts of a plan's steps: they name virtual buffers, whose places are not known yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xladev.compiler.kernel_plan import Branch, Copy, Loop, RunKernel, Slice, Step
from xladev.compiler.virtual_buffers import VirtualBuffer

SliceOf = Callable[[VirtualBuffer], Slice]
"""Where a virtual buffer lies."""


@dataclass(frozen=True, slots=True)
class KernelDraft:
    """Becomes `RunKernel`."""

    kernel: int
    buffers: tuple[VirtualBuffer, ...]
    operation: int


@dataclass(frozen=True, slots=True)
class CopyDraft:
    """Becomes `Copy`."""

    source: VirtualBuffer
    destination: VirtualBuffer


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


Draft = KernelDraft | CopyDraft | LoopDraft | BranchDraft


def final_steps(drafts: tuple[Draft, ...], slice_of: SliceOf) -> tuple[Step, ...]:
    """The steps that drafts stand for."""
    return tuple(_final(draft, slice_of) for draft in drafts)


def _final(draft: Draft, slice_of: SliceOf) -> Step:
    match draft:
        case KernelDraft():
            return RunKernel(draft.kernel, tuple(map(slice_of, draft.buffers)), draft.operation)
        case CopyDraft():
            return Copy(slice_of(draft.source), slice_of(draft.destination))
        case LoopDraft():
            return Loop(
                final_steps(draft.condition, slice_of),
                slice_of(draft.predicate),
                final_steps(draft.body, slice_of),
            )
        case BranchDraft():
            branches = tuple(final_steps(b, slice_of) for b in draft.branches)
            return Branch(slice_of(draft.selector), draft.is_predicate, branches)
