"""Unplaced steps: placing them keeps the program, and adds the waits that places make necessary."""

from __future__ import annotations

from xladev.compiler.buffers.virtual_buffers import VirtualBuffer
from xladev.compiler.plan.kernel_plan import (
    Branch,
    Copy,
    Loop,
    Parallel,
    RunKernel,
    Slice,
    Space,
    all_buffers,
)
from xladev.compiler.plan.unplaced_steps import (
    BufferUse,
    StraightStep,
    UnplacedStep,
    access_of,
    placed,
)
from xladev.compiler.streams.stream_hazards import MemoryAccess, MemoryRange

A, B, C = (VirtualBuffer(Space.SCRATCH, n, 8) for n in range(3))
EMPTY = VirtualBuffer(Space.SCRATCH, 3, 0)
SHARES = ("", "queue")


def read(buffer: VirtualBuffer) -> BufferUse:
    return BufferUse(buffer, 1)


def written(buffer: VirtualBuffer) -> BufferUse:
    return BufferUse(buffer, 1, is_written=True)


def kernel(source: VirtualBuffer, result: VirtualBuffer, number: int = 0) -> StraightStep:
    return RunKernel(number, (read(source), written(result)), 5)


def apart(buffer: VirtualBuffer) -> Slice:
    """Each buffer in a place of its own."""
    return Slice(Space.SCRATCH, 0, 64 * buffer.index, buffer.nbytes)


def together(buffer: VirtualBuffer) -> Slice:
    """A and C in one place."""
    return Slice(Space.SCRATCH, 0, 64 * (buffer.index % 2), buffer.nbytes)


def whole(buffer: VirtualBuffer) -> MemoryRange:
    return MemoryRange(buffer, 0, 1)


def test_each_kind_of_step_is_placed() -> None:
    steps: tuple[UnplacedStep, ...] = (
        kernel(A, B),
        Copy(read(B), written(C)),
        Loop((kernel(A, C),), read(C), (kernel(B, A),)),
        Branch(read(A), False, ((kernel(A, B),), (Copy(read(A), written(B)),), ())),
    )
    a, b, c = map(apart, (A, B, C))
    assert placed(steps, apart, SHARES) == (
        RunKernel(0, (a, b), 5),
        Copy(b, c),
        Loop((RunKernel(0, (a, c), 5),), c, (RunKernel(0, (b, a), 5),)),
        Branch(a, False, ((RunKernel(0, (a, b), 5),), (Copy(a, b),), ())),
    )


def test_places_make_waits_wherever_streams_are() -> None:
    parallel: UnplacedStep = Parallel((kernel(A, B), kernel(C, C)), (0, 1), (), ())
    (loop,) = placed((Loop((), read(A), (parallel,)),), apart, SHARES)
    assert isinstance(loop, Loop)
    (inner,) = loop.body
    assert isinstance(inner, Parallel)
    assert inner.waits == ((), (-1,))
    (inner,) = placed((parallel,), together, SHARES)
    assert isinstance(inner, Parallel)
    assert inner.waits == ((), (0,)), "what the second one writes is where the first one reads"
    assert inner.joins == (1,)


def test_kernels_that_share_something_are_ordered() -> None:
    steps = (kernel(A, A, 1), kernel(B, B, 1))
    (inner,) = placed((Parallel(steps, (0, 1), (), ()),), apart, SHARES)
    assert isinstance(inner, Parallel)
    assert inner.waits == ((), (0,))


def test_an_access_has_what_is_read_and_written_and_shared() -> None:
    step: StraightStep = RunKernel(1, (read(A), read(EMPTY), written(A), written(B)), 0)
    shared = MemoryRange("queue", 0, 1)
    expected = MemoryAccess((whole(A),), (whole(A), whole(B), shared))
    assert access_of(step, whole, SHARES) == expected
    copy: StraightStep = Copy(read(A), written(C))
    assert access_of(copy, whole, SHARES) == MemoryAccess((whole(A),), (whole(C),))


def test_all_buffers_are_those_of_inner_steps_too() -> None:
    body = (Parallel((kernel(A, B),), (0,), (), ()),)
    steps = (Branch(read(C), True, ((Loop(body, read(B), ()),), ())),)
    assert [use.buffer for use in all_buffers(steps)] == [C, B, A, B]
