"""Checks a kernel plan read from a file: every slice is within what a launch gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xladev.compiler.options import MOST_STREAMS
from xladev.compiler.plan.kernel_plan import (
    Branch,
    Copy,
    Fork,
    Loop,
    Parallel,
    RunKernel,
    Slice,
    Space,
    Step,
    all_buffers,
)
from xladev.compiler.streams.stream_waits import START
from xladev.errors import FormatError

PlanSizes = Mapping[Space, Sequence[int]]
"""Bytes of each allocation, by space and number."""

_PREDICATE_NBYTES = 1
_INDEX_NBYTES = 4


def check_plan(steps: Sequence[Step], kernels: int, sizes: PlanSizes) -> None:
    """Checks all steps, those of loops and branches included.

    Args:
        steps: what the plan does.
        kernels: how many kernels it has.
        sizes: the allocations of a launch.

    Raises:
        FormatError: a kernel, a slice or a branch that is not there, or of a wrong size.
    """
    for step in steps:
        match step:
            case RunKernel():
                _check_kernel(step, kernels, sizes)
            case Copy():
                _check_copy(step, sizes)
            case Loop():
                _check_selector(step.predicate, _PREDICATE_NBYTES, sizes)
                check_plan((*step.condition, *step.body), kernels, sizes)
            case Branch():
                nbytes = _PREDICATE_NBYTES if step.is_predicate else _INDEX_NBYTES
                _check_selector(step.selector, nbytes, sizes)
                _check_branches(step, kernels, sizes)
            case Parallel():
                check_plan(step.steps, kernels, sizes)
                _check_streams(step)
            case Fork():
                for part in step.parts:
                    check_plan(part, kernels, sizes)


def check_alignment(steps: Sequence[Step], alignment: int) -> None:
    """Checks that all slices begin at multiples of ``alignment`` bytes.

    Raises:
        FormatError: the plan was made for memory of another alignment.
    """
    for s in all_buffers(steps):
        if s.offset % alignment:
            raise FormatError(
                "this kernel plan is of another alignment than the device's memory",
                why=f"{s} is used, at no multiple of {alignment} bytes",
                hint="compile the program again; what `Compiler.describe` says of the alignment "
                "must hold for the device, too",
            )


def _check_kernel(step: RunKernel, kernels: int, sizes: PlanSizes) -> None:
    if not 0 <= step.kernel < kernels:
        raise _wrong(f"kernel {step.kernel} is run", f"it has {kernels} kernels")
    for buffer in step.buffers:
        _check_slice(buffer, sizes)


def _check_copy(step: Copy, sizes: PlanSizes) -> None:
    _check_slice(step.source, sizes)
    _check_slice(step.destination, sizes)
    if step.source.nbytes != step.destination.nbytes:
        raise _wrong(f"{step.source} is copied to {step.destination}", "their lengths differ")


def _check_branches(step: Branch, kernels: int, sizes: PlanSizes) -> None:
    if len(step.branches) < (2 if step.is_predicate else 1):
        raise _wrong(f"a branch chooses among {len(step.branches)}", "those are too few")
    for branch in step.branches:
        check_plan(branch, kernels, sizes)


def _check_streams(step: Parallel) -> None:
    count = len(step.steps)
    if len(step.streams) != count or len(step.waits) != count:
        raise _wrong(f"{count} steps run in parallel", "not each has its stream and its waits")
    if not all(0 <= stream < MOST_STREAMS for stream in step.streams):
        raise _wrong(f"streams {list(step.streams)} are used", f"{MOST_STREAMS} are the most")
    for number, waits in enumerate((*step.waits, step.joins)):
        if not all(START <= awaited < number for awaited in waits):
            raise _wrong(f"step {number} waits for {list(waits)}", "those are not before it")


def _check_selector(selector: Slice, nbytes: int, sizes: PlanSizes) -> None:
    _check_slice(selector, sizes)
    if selector.nbytes != nbytes:
        raise _wrong(f"{selector} decides", f"what decides has {nbytes} bytes")


def _check_slice(s: Slice, sizes: PlanSizes) -> None:
    there = sizes[s.space]
    if not 0 <= s.index < len(there):
        raise _wrong(f"{s} is used", f"there are {len(there)} of its kind")
    if min(s.offset, s.nbytes) < 0 or s.offset + s.nbytes > there[s.index]:
        raise _wrong(f"{s} is used", f"that allocation has {there[s.index]} bytes")


def _wrong(what: str, why: str) -> FormatError:
    return FormatError(f"damaged kernel plan: {what}", why=why)
