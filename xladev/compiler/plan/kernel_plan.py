"""A kernel plan: what a program of kernels does, step by step, on slices of a few allocations.

It is the result of buffer assignment and the input of `KernelCompiler.link`; data only. The steps
are generic over what stands for a buffer: a `Slice` in a plan, and something else before places are
known (`unplaced_steps.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

from xladev.codegen.kernel_spec import KernelSpec
from xladev.hlo.ir import HloInstruction, StackFrames
from xladev.hlo.literal import Literal

NO_FRAMES = StackFrames()


class Space(Enum):
    """The allocations that a plan works on."""

    ARGUMENT = "argument"
    RESULT = "result"
    SCRATCH = "scratch"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Slice:
    """Bytes of one allocation.

    Attributes:
        space: which kind of allocation.
        index: which one; 0 for scratch, of which there is one.
        offset: first byte.
        nbytes: length in bytes.
    """

    space: Space
    index: int
    offset: int
    nbytes: int

    def __str__(self) -> str:
        where = f"{self.space.value}{'' if self.space is Space.SCRATCH else self.index}"
        return f"{where}[{self.offset}:{self.offset + self.nbytes}]"


if TYPE_CHECKING:  # Python knows defaults from 3.13 on, type checkers in any version
    B = TypeVar("B", default=Slice)
else:
    B = TypeVar("B")
C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class RunKernel(Generic[B]):
    """Runs a kernel on its operands, results and workspace, in this order.

    Attributes:
        kernel: which one.
        buffers: what it works on.
        operation: number of the instruction that it stands for, among the plan's operations.
    """

    kernel: int
    buffers: tuple[B, ...]
    operation: int


@dataclass(frozen=True, slots=True)
class Copy(Generic[B]):
    """Copies bytes between slices of equal length that do not overlap."""

    source: B
    destination: B


@dataclass(frozen=True, slots=True)
class CopyReason:
    """Why a plan has a `Copy`.

    Attributes:
        name: of the instruction whose value is copied.
        nbytes: length in bytes.
        why: a clause without a full stop.
    """

    name: str
    nbytes: int
    why: str


@dataclass(frozen=True, slots=True)
class Loop(Generic[B]):
    """Repeats: run ``condition``, stop if the predicate byte is 0, run ``body``.

    Attributes:
        condition, body: what is repeated.
        predicate: one byte.
        name: of the `while`; known where the plan was made, not saved with it.
    """

    condition: tuple[StepOn[B], ...]
    predicate: B
    body: tuple[StepOn[B], ...]
    name: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Branch(Generic[B]):
    """Runs one branch.

    Attributes:
        selector: pred[] (nonzero is branch 0) or s32[] (out of range is the last branch).
        is_predicate: which of the two it is.
        branches: the steps of each branch.
        name: of the `conditional`; known where the plan was made, not saved with it.
    """

    selector: B
    is_predicate: bool
    branches: tuple[tuple[StepOn[B], ...], ...]
    name: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Parallel(Generic[B]):
    """Runs steps on several streams; those of one stream in order.

    They are in an order that is right on a single stream, too. Stream 0 is the launch's own. An
    event is given by the number of the step that it is recorded after; -1 is before the first.

    Attributes:
        steps: kernels and copies.
        streams: the stream of each.
        waits: the events that its stream waits for before each.
        joins: the events that stream 0 waits for at the end.
    """

    steps: tuple[RunKernel[B] | Copy[B], ...]
    streams: tuple[int, ...]
    waits: tuple[tuple[int, ...], ...]
    joins: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fork(Generic[B]):
    """Runs parts at once, or one after the other in any order; it ends when all have ended.

    No part touches memory that another one writes.

    Attributes:
        parts: the steps of each part, in order.
    """

    parts: tuple[tuple[StepOn[B], ...], ...]


Step = RunKernel | Copy | Loop | Branch | Parallel | Fork
StepOn = RunKernel[B] | Copy[B] | Loop[B] | Branch[B] | Parallel[B] | Fork[B]
"""A step on whatever stands for a buffer."""


def own_buffers(step: StepOn[B]) -> tuple[B, ...]:
    """What a step itself names: not what is named by the steps within it."""
    match step:
        case RunKernel():
            return step.buffers
        case Copy():
            return (step.source, step.destination)
        case Loop():
            return (step.predicate,)
        case Branch():
            return (step.selector,)
        case Parallel() | Fork():
            return ()


def inner_steps(step: StepOn[B]) -> tuple[StepOn[B], ...]:
    """The steps that a step runs: all branches, and all parts, one after the other."""
    match step:
        case Loop():
            return (*step.condition, *step.body)
        case Branch():
            return tuple(inner for branch in step.branches for inner in branch)
        case Parallel():
            return step.steps
        case Fork():
            return tuple(inner for part in step.parts for inner in part)
        case _:
            return ()


def all_buffers(steps: Iterable[StepOn[B]]) -> Iterator[B]:
    """What steps name, those in loops and branches included."""
    for step in steps:
        yield from own_buffers(step)
        yield from all_buffers(inner_steps(step))


def map_bodies(
    step: StepOn[B], of: Callable[[tuple[StepOn[B], ...]], Iterable[StepOn[B]]]
) -> StepOn[B]:
    """The step with other steps in its loop, branches or parts; ``of`` is called for each body."""
    match step:
        case Loop():
            return replace(step, condition=tuple(of(step.condition)), body=tuple(of(step.body)))
        case Branch():
            return replace(step, branches=tuple(tuple(of(branch)) for branch in step.branches))
        case Fork():
            return Fork(tuple(tuple(of(part)) for part in step.parts))
        case _:
            return step


def map_buffers(steps: Iterable[StepOn[B]], of: Callable[[B], C]) -> tuple[StepOn[C], ...]:
    """The same steps on other buffers, those in loops and branches included."""
    return tuple(_on_others(step, of) for step in steps)


def _on_others(step: StepOn[B], of: Callable[[B], C]) -> StepOn[C]:
    match step:
        case RunKernel() | Copy():
            return _straight_on_others(step, of)
        case Loop():
            condition, body = map_buffers(step.condition, of), map_buffers(step.body, of)
            return Loop(condition, of(step.predicate), body, step.name)
        case Branch():
            branches = tuple(map_buffers(branch, of) for branch in step.branches)
            return Branch(of(step.selector), step.is_predicate, branches, step.name)
        case Parallel():
            steps = tuple(_straight_on_others(inner, of) for inner in step.steps)
            return Parallel(steps, step.streams, step.waits, step.joins)
        case Fork():
            return Fork(tuple(map_buffers(part, of) for part in step.parts))


def _straight_on_others(
    step: RunKernel[B] | Copy[B], of: Callable[[B], C]
) -> RunKernel[C] | Copy[C]:
    if isinstance(step, Copy):
        return Copy(of(step.source), of(step.destination))
    return RunKernel(step.kernel, tuple(map(of, step.buffers)), step.operation)


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """A whole program of kernels.

    Attributes:
        name: of the module.
        kernels: the kernels that steps name by number; equal kernels are listed once.
        steps: the program.
        constants: the arrays behind ``Space.CONSTANT``.
        argument_nbytes, result_nbytes: sizes of the interface's buffers.
        aliases: pairs (result, argument) that are one buffer.
        scratch_nbytes: size of the one scratch allocation.
        copies: why there are copies; known where the plan was made, not saved with it.
        operations: the instructions whose kernels run, in the order of the steps.
        frames: where they come from, for those that refer to it by number.
    """

    name: str
    kernels: tuple[KernelSpec, ...]
    steps: tuple[Step, ...]
    constants: tuple[Literal, ...]
    argument_nbytes: tuple[int, ...]
    result_nbytes: tuple[int, ...]
    aliases: tuple[tuple[int, int], ...]
    scratch_nbytes: int
    copies: tuple[CopyReason, ...] = field(default=(), compare=False, repr=False)
    operations: tuple[HloInstruction, ...] = ()
    frames: StackFrames = NO_FRAMES

    def __str__(self) -> str:
        head = (
            f"plan {self.name}: {len(self.kernels)} kernels, scratch {self.scratch_nbytes} bytes, "
            f"arguments {list(self.argument_nbytes)}, results {list(self.result_nbytes)}, "
            f"aliases {list(self.aliases)}"
        )
        return "\n".join([head, *_lines(self, self.steps, 1)])


def _lines(plan: KernelPlan, steps: tuple[Step, ...], depth: int) -> list[str]:
    pad = "  " * depth
    lines: list[str] = []
    for step in steps:
        match step:
            case RunKernel():
                buffers = ", ".join(map(str, step.buffers))
                lines.append(f"{pad}{plan.kernels[step.kernel].name}({buffers})")
            case Copy():
                lines.append(f"{pad}{step.destination} = {step.source}")
            case Loop():
                lines.append(f"{pad}while:")
                lines += _lines(plan, step.condition, depth + 1)
                lines.append(f"{pad}  test {step.predicate}")
                lines += _lines(plan, step.body, depth + 1)
            case Branch():
                lines.append(f"{pad}switch {step.selector}:")
                for number, branch in enumerate(step.branches):
                    lines.append(f"{pad}  case {number}:")
                    lines += _lines(plan, branch, depth + 2)
            case Parallel():
                lines.append(f"{pad}parallel, then wait for {list(step.joins)}:")
                for number, inner in enumerate(step.steps):
                    (text,) = _lines(plan, (inner,), 0)
                    waits = f" after {list(step.waits[number])}" if step.waits[number] else ""
                    lines.append(f"{pad}  {number}, stream {step.streams[number]}{waits}: {text}")
            case Fork():
                lines.append(f"{pad}fork:")
                for number, part in enumerate(step.parts):
                    lines.append(f"{pad}  part {number}:")
                    lines += _lines(plan, part, depth + 2)
    return lines
