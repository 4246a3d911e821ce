"""Loops of one program that run at once: steps that need no values of each other become a fork.

Kernels that are long enough are shared by the threads of a device. A loop of short ones is not: it
keeps one thread, and the others wait. So loops are what forks are made for, such as the two
directions of a recurrent layer. Each part of a fork is one loop, with the steps around it that need
that loop alone. What the parts have in common comes before, what needs several of them after.

Memory is not used again within a fork: buffers that its parts touch are kept for all of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xladev import instrument
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.buffers.virtual_buffers import VirtualBuffer
from xladev.compiler.plan.kernel_plan import (
    Branch,
    Copy,
    Fork,
    KernelPlan,
    Loop,
    RunKernel,
    Step,
    all_buffers,
    inner_steps,
    map_bodies,
)
from xladev.compiler.plan.unplaced_steps import BufferUse, UnplacedStep
from xladev.compiler.schedule.work_graph import keeps_order, ordered_computations
from xladev.compiler.streams.stream_choice import STREAMS_STEP
from xladev.compiler.streams.stream_hazards import MemoryAccess, MemoryRange, Needs, needs_of
from xladev.hlo.ir import HloInstruction, HloModule

FORK_S = 20e-6
"""What a fork takes: a thread that sleeps wakes up in about 16 us (Zen 4)."""
LEAST_GAIN_S = 50e-6
"""Seconds that a fork must save each time."""
LEAST_GAIN = 0.05
"""Part of the time of its steps that it must save."""
COPY_NBYTES_PER_S = 10e9
"""Bytes that a copy reads or writes."""
ASSUMED_ITERATIONS = 10
"""Of a loop whose number is not known."""


@dataclass(frozen=True, slots=True)
class ForkSpread:
    """How a backend wants loops of one program run at once.

    Attributes:
        threads: how many work on a program, at least 2.
        kernel_s: seconds of a kernel that so many threads work on.
        iterations: how often each loop runs, by name of the `while`, where that is known.
    """

    threads: int
    kernel_s: Callable[[KernelSpec, int], float]
    iterations: Mapping[str, int] = field(default_factory=dict)

    def may_fork(self, plan: KernelPlan) -> bool:
        """False where no list of steps has two loops, so that there is nothing to try."""
        return _has_two_loops(plan.steps)

    def apply(
        self,
        steps: tuple[UnplacedStep, ...],
        specs: Sequence[KernelSpec],
        operations: Sequence[HloInstruction],
        module: HloModule,
    ) -> tuple[UnplacedStep, ...]:
        """The steps with independent loops in forks; buffers live on as that wants it.

        Args:
            steps: of a whole plan.
            specs: its kernels, by number.
            operations: the instructions of its kernels.
            module: that the plan is of.
        """
        return tuple(_Forks(self, specs, operations, module).within(steps))


@dataclass(frozen=True, slots=True)
class _Group:
    """Loops that could run at once, and the steps from the first of them to the last.

    Attributes:
        before: steps that need none of the loops.
        parts: a loop each, with the steps that need it alone.
        after: steps that need several of them.
    """

    before: Sequence[UnplacedStep]
    parts: Sequence[tuple[UnplacedStep, ...]]
    after: Sequence[UnplacedStep]


class _Forks:
    """The forks of one plan."""

    def __init__(
        self,
        spread: ForkSpread,
        specs: Sequence[KernelSpec],
        operations: Sequence[HloInstruction],
        module: HloModule,
    ) -> None:
        self._spread = spread
        self._specs = specs
        self._operations = operations
        self._ordered = ordered_computations(module)
        self._waiting = {
            i.name
            for computation in module.computations
            for i in computation.instructions
            if i.opcode in ("while", "conditional") and i.note.control_predecessors
        }

    def within(self, steps: Sequence[UnplacedStep]) -> Iterator[UnplacedStep]:
        """Steps, those of loops and branches included; a part of a fork has no forks of its own."""
        at = 0
        for begin, end, group in self._groups(steps):
            forked = self._forked(steps[begin:end], group)
            if forked is not None:
                yield from self._bodies(steps[at:begin])
                yield from self._bodies(group.before)
                yield forked
                yield from self._bodies(group.after)
                at = end
        yield from self._bodies(steps[at:])

    def _bodies(self, steps: Sequence[UnplacedStep]) -> Iterator[UnplacedStep]:
        return (map_bodies(step, self.within) for step in steps)

    def _groups(self, steps: Sequence[UnplacedStep]) -> Iterator[tuple[int, int, _Group]]:
        """Runs of steps with several independent loops: where they begin and end."""
        loops = [n for n, step in enumerate(steps) if isinstance(step, Loop)]
        if len(loops) < 2:
            return
        fixed = [n for n, step in enumerate(steps) if self._keeps_order(step)]
        needs = needs_of([_access(step) for step in steps])
        for group in _independent(loops, fixed, needs):
            begin, end = group[0], group[-1] + 1
            yield begin, end, _divided(steps[begin:end], begin, group, needs)

    def _keeps_order(self, step: UnplacedStep) -> bool:
        if isinstance(step, RunKernel):
            made = self._operations[step.operation]
            return bool(made.note.control_predecessors) or keeps_order(made, self._ordered)
        waits = isinstance(step, Loop | Branch) and step.name in self._waiting
        return waits or any(map(self._keeps_order, inner_steps(step)))

    def _forked(self, steps: Sequence[UnplacedStep], group: _Group) -> Fork[BufferUse] | None:
        """The fork of a group, if it saves enough; its buffers then live for all of it."""
        threads = self._spread.threads
        shared = sum(self._seconds(part, threads) for part in group.parts)
        alone = [self._seconds(part, 1) for part in group.parts]
        together = max(*alone, sum(alone) / min(threads, len(alone))) + FORK_S
        gain, least = shared - together, max(LEAST_GAIN_S, LEAST_GAIN * shared)
        told = f"{len(alone)} loops at once, estimated to save {_us(gain)} of {_us(shared)}"
        name = next(step.name for step in group.parts[0] if isinstance(step, Loop))
        if gain < least:
            why = f"one after the other, not {told}: {_us(least)} are wanted"
            instrument.decision(STREAMS_STEP, name, why)
            return None
        instrument.decision(STREAMS_STEP, name, told)
        _keep(steps)
        return Fork(tuple(group.parts))

    def _seconds(self, steps: Sequence[UnplacedStep], threads: int) -> float:
        return sum(self._step_s(step, threads) for step in steps)

    def _step_s(self, step: UnplacedStep, threads: int) -> float:
        match step:
            case RunKernel():
                return self._spread.kernel_s(self._specs[step.kernel], threads)
            case Loop():
                count = self._spread.iterations.get(step.name, ASSUMED_ITERATIONS)
                return count * self._seconds(inner_steps(step), threads)
            case Branch():
                return max(self._seconds(branch, threads) for branch in step.branches)
            case Copy():
                return 2 * step.source.buffer.nbytes / COPY_NBYTES_PER_S
            case _:
                return self._seconds(inner_steps(step), threads)


def _has_two_loops(steps: Sequence[Step]) -> bool:
    if sum(isinstance(step, Loop) for step in steps) > 1:
        return True
    return any(_has_two_loops(body) for step in steps for body in _bodies_of(step))


def _bodies_of(step: Step) -> Sequence[Sequence[Step]]:
    match step:
        case Loop():
            return (step.condition, step.body)
        case Branch():
            return step.branches
        case _:
            return ()


def _independent(
    loops: Sequence[int], fixed: Sequence[int], needs: Sequence[Needs]
) -> Iterator[Sequence[int]]:
    """Groups of two loops or more, in order, none of which needs another of its group.

    Args:
        loops: numbers of steps, ascending.
        fixed: numbers of steps that are in no group, nor between the loops of one.
        needs: for each step, earlier ones that it must follow.
    """
    bit = {n: 1 << k for k, n in enumerate(loops)}
    reached: list[int] = []
    for number, needed in enumerate(needs):
        mask = bit.get(number, 0)
        for n in needed:
            mask |= reached[n]
        reached.append(mask)
    group: list[int] = []
    seen, fence = 0, 0
    for loop in loops:
        before = bisect_left(fixed, loop)
        if reached[loop] & seen or before != fence:
            if len(group) > 1:
                yield group
            group, seen, fence = [], 0, before
        if loop not in fixed[before : before + 1]:
            group.append(loop)
            seen |= bit[loop]
    if len(group) > 1:
        yield group


def _divided(
    steps: Sequence[UnplacedStep], begin: int, group: Sequence[int], needs: Sequence[Needs]
) -> _Group:
    """The steps from a group's first loop to its last, by which of its loops they need.

    Args:
        steps: of that range.
        begin: number of the first of them.
        group: numbers of the loops.
        needs: of all steps; earlier ones are before the range.
    """
    parts: dict[int, list[UnplacedStep]] = {1 << k: [] for k in range(len(group))}
    own = dict(zip(group, parts, strict=True))
    before: list[UnplacedStep] = []
    after: list[UnplacedStep] = []
    reached: list[int] = []
    for number, step in enumerate(steps, begin):
        mask = own.get(number, 0)
        for n in needs[number]:
            mask |= reached[n - begin] if n >= begin else 0
        reached.append(mask)
        parts.get(mask, after if mask else before).append(step)
    return _Group(before, tuple(map(tuple, parts.values())), after)


def _access(step: UnplacedStep) -> MemoryAccess:
    """The buffers that a step and those within it touch."""
    reads: dict[VirtualBuffer, None] = {}
    writes: dict[VirtualBuffer, None] = {}
    for use in all_buffers((step,)):
        (writes if use.is_written else reads)[use.buffer] = None
    return MemoryAccess(tuple(map(_whole, reads)), tuple(map(_whole, writes)))


def _whole(buffer: VirtualBuffer) -> MemoryRange:
    return MemoryRange(buffer, 0, 1)


def _keep(steps: Sequence[UnplacedStep]) -> None:
    """Lets all buffers that steps touch live from the first of them to the last."""
    uses = list(all_buffers(steps))
    times = [use.time for use in uses]
    for buffer in dict.fromkeys(use.buffer for use in uses):
        buffer.touch(min(times))
        buffer.touch(max(times))


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} us"
