"""A kernel plan: what a program of kernels does, step by step, on slices of a few allocations.

It is the result of buffer assignment and the input of `KernelCompiler.link`; data only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

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


@dataclass(frozen=True, slots=True)
class RunKernel:
    """Runs a kernel on its operands, results and workspace, in this order.

    Attributes:
        kernel: which one.
        buffers: what it works on.
        operation: number of the instruction that it stands for, among the plan's operations.
    """

    kernel: int
    buffers: tuple[Slice, ...]
    operation: int


@dataclass(frozen=True, slots=True)
class Copy:
    """Copies bytes between slices of equal length that do not overlap."""

    source: Slice
    destination: Slice


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
class Loop:
    """Repeats: run ``condition``, stop if the predicate byte is 0, run ``body``."""

    condition: tuple[Step, ...]
    predicate: Slice
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """Runs one branch.

    Attributes:
        selector: pred[] (nonzero is branch 0) or s32[] (out of range is the last branch).
        is_predicate: which of the two it is.
        branches: the steps of each branch.
    """

    selector: Slice
    is_predicate: bool
    branches: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True, slots=True)
class Parallel:
    """Runs steps on several streams; those of one stream in order.

    They are in an order that is right on a single stream, too. Stream 0 is the launch's own. An
    event is given by the number of the step that it is recorded after; -1 is before the first.

    Attributes:
        steps: kernels and copies.
        streams: the stream of each.
        waits: the events that its stream waits for before each.
        joins: the events that stream 0 waits for at the end.
    """

    steps: tuple[RunKernel | Copy, ...]
    streams: tuple[int, ...]
    waits: tuple[tuple[int, ...], ...]
    joins: tuple[int, ...]


Step = RunKernel | Copy | Loop | Branch | Parallel


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
    return lines
