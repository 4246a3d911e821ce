"""Buffer assignment: from a fused module to a kernel plan with every array in its place.

Each computation that runs kernels is walked once, in schedule order. Arrays are assigned virtual
buffers (`compiler/buffers/virtual_buffers.py`): those of the interface, those of a loop's state, or
temporaries whose lifetimes are then packed into one arena. Where a result goes is decided in
`compiler/buffers/buffer_frame.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from xladev.compiler.buffers.arena import ALIGNMENT
from xladev.compiler.buffers.buffer_frame import BufferFrame, Buffers
from xladev.compiler.buffers.in_place import in_place_pairs
from xladev.compiler.buffers.virtual_buffers import BufferPool, VirtualBuffer
from xladev.compiler.plan.kernel_plan import (
    Branch,
    Copy,
    CopyReason,
    KernelPlan,
    Loop,
    RunKernel,
    Space,
)
from xladev.compiler.plan.kernel_table import (
    InPlace,
    KernelTable,
    ProgramKernels,
    kernel_computation,
)
from xladev.compiler.plan.unplaced_steps import BufferUse, UnplacedStep, placed
from xladev.compiler.schedule.work_graph import ordered_computations
from xladev.compiler.streams.concurrency import Concurrency
from xladev.compiler.streams.forks import ForkSpread
from xladev.hlo.array_values import ArrayValue
from xladev.hlo.dtype import PRED
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import Literal
from xladev.hlo.shape import flattened_shapes

_NO_PAIRS: InPlace = frozenset()


def assign_buffers(
    module: HloModule,
    kernels: ProgramKernels,
    aliases: Sequence[tuple[int, int]] = (),
    at_once: Concurrency | ForkSpread | None = None,
    alignment: int = ALIGNMENT,
) -> KernelPlan:
    """The kernel plan of a module whose kernels are single instructions or fusions.

    Args:
        module: calls are inlined; only while and conditional run other programs.
        kernels: of all plans that are tried; those of this one are lowered.
        aliases: pairs (result value, parameter value) that the launch puts in one buffer.
        at_once: how steps are spread over streams, or how loops run at once; None for neither.
        alignment: bytes at whose multiples all slices begin (`arena_alignment`).

    Raises:
        CompileError: an instruction that no kernel can be made of.
    """
    entry = module.entry
    inputs = [s for p in entry.parameters for s in flattened_shapes(p.shape)]
    arguments = [VirtualBuffer(Space.ARGUMENT, n, s.nbytes) for n, s in enumerate(inputs)]
    outputs = flattened_shapes(entry.root.shape)
    results = [VirtualBuffer(Space.RESULT, n, s.nbytes) for n, s in enumerate(outputs)]
    for result, argument in aliases:
        results[result] = arguments[argument]
    walk = _Walk(KernelTable(module, kernels), BufferPool(alignment))
    steps = tuple(walk.computation(entry, arguments, results, {results[r] for r, _ in aliases}))
    shares: Sequence[str] = ()
    if isinstance(at_once, Concurrency):
        shares = walk.table.shares()
        steps = at_once.apply(steps, walk.operations, shares, ordered_computations(module))
    elif at_once is not None:
        steps = at_once.apply(steps, walk.table.specs, walk.operations, module)
    aliased = {r for r, _ in aliases}
    free = [b for n, b in enumerate(results) if n not in aliased]
    scratch_nbytes = walk.pool.place_temporaries(free)
    return KernelPlan(
        name=module.name,
        kernels=tuple(walk.table.specs),
        steps=placed(steps, walk.pool.slice, shares),
        constants=walk.pool.constants,
        argument_nbytes=tuple(b.nbytes for b in arguments),
        result_nbytes=tuple(b.nbytes for b in results),
        aliases=tuple(aliases),
        scratch_nbytes=scratch_nbytes,
        copies=tuple(walk.copies),
        operations=tuple(walk.operations),
        frames=module.header.stack_frames,
    )


class _Walk:
    """Goes through all computations that run kernels, in the order in which they run."""

    def __init__(self, table: KernelTable, pool: BufferPool) -> None:
        self.table = table
        self.pool = pool
        self.copies: list[CopyReason] = []
        self.operations: list[HloInstruction] = []

    def computation(
        self,
        computation: HloComputation,
        arguments: Buffers,
        results: Buffers,
        owned: AbstractSet[VirtualBuffer] = frozenset(),
    ) -> list[UnplacedStep]:
        """Steps that compute ``results`` from ``arguments``.

        Args:
            computation: what to run.
            arguments: a buffer per parameter value.
            results: a buffer per root value.
            owned: those among ``arguments`` that are also in ``results``: may be overwritten.
        """
        frame = BufferFrame(computation, arguments, results, owned)
        self.pool.touch(*arguments)
        steps: list[UnplacedStep] = []
        for at, instruction in enumerate(computation.instructions):
            self.pool.advance()
            steps += self._instruction(frame, at, instruction)
        self.pool.advance()
        steps += self._deliver(frame, results)
        return steps

    def _deliver(self, frame: BufferFrame, results: Buffers) -> list[UnplacedStep]:
        """Copies root values that are not yet where they are wanted, all at once."""
        values = frame.source[frame.computation.root]
        moves = [
            (value, held, wanted)
            for value, held, wanted in zip(
                values, frame.buffers(frame.computation.root), results, strict=True
            )
            if held is not wanted and wanted.nbytes
        ]
        targets = {wanted for _, _, wanted in moves}
        saved: list[tuple[VirtualBuffer, VirtualBuffer]] = []
        steps: list[UnplacedStep] = []
        for value, held, wanted in moves:
            through = self.pool.temporary(held.nbytes) if held in targets else held
            if through is not held:
                self._explain(value, "another result goes where it is: it is moved away first")
                steps.append(self._copy(held, through))
            self._explain(value, _why_delivered(frame, value))
            saved.append((through, wanted))
        steps += [self._copy(through, wanted) for through, wanted in saved]
        self.pool.touch(*results)
        return steps

    def _explain(self, value: ArrayValue, why: str) -> None:
        self.copies.append(CopyReason(value.producer.name, value.shape.nbytes, why))

    def _copy(self, source: VirtualBuffer, destination: VirtualBuffer) -> UnplacedStep:
        self.pool.advance()
        self.pool.touch(source, destination)
        return Copy(self._use(source), self._use(destination, is_written=True))

    def _use(self, buffer: VirtualBuffer, *, is_written: bool = False) -> BufferUse:
        return BufferUse(buffer, self.pool.time, is_written)

    def _instruction(
        self, frame: BufferFrame, at: int, i: HloInstruction
    ) -> Sequence[UnplacedStep]:
        if not _makes_values(frame, i):
            return ()
        match i.opcode:
            case "constant":
                self._constant(frame, i)
                return ()
            case "after-all":
                frame.held[ArrayValue(i, 0)] = self.pool.temporary(0)
                return ()
            case "while":
                return self._while(frame, at, i)
            case "conditional":
                return self._conditional(frame, at, i)
            case "call":
                return self._call(frame, at, i)
            case _:
                return self._kernel(frame, at, i)

    def _constant(self, frame: BufferFrame, i: HloInstruction) -> None:
        literal: Literal = i["literal"]
        for value, part in zip(frame.source[i], literal.leaves(), strict=True):
            frame.held[value] = self.pool.constant(part)

    # Kernels

    def _kernel(self, frame: BufferFrame, at: int, i: HloInstruction) -> Sequence[UnplacedStep]:
        computation = kernel_computation(i)
        operands = _operand_buffers(frame, i)
        self.pool.touch(*operands)
        results = self._results(frame, at, i, operands, in_place_pairs(computation))
        if all(b.nbytes == 0 for b in results):
            return ()
        shared = frozenset(
            (r, o) for r, b in enumerate(results) for o, x in enumerate(operands) if b is x
        )
        number = self.table.number(i, computation, shared)
        code = self.table.kernels.code(self.table.specs[number])
        if code.workspace_nbytes:
            results.append(self.pool.temporary(code.workspace_nbytes))
        self.operations.append(i)
        uses = [self._use(b) for b in operands]
        uses += [self._use(b, is_written=True) for b in results]
        return (RunKernel(number, tuple(uses), len(self.operations) - 1),)

    def _results(
        self, frame: BufferFrame, at: int, i: HloInstruction, operands: Buffers, in_place: InPlace
    ) -> list[VirtualBuffer]:
        """The buffers for the values of an instruction, needed from now on."""
        made: list[VirtualBuffer] = []
        for value in frame.source[i]:
            found = frame.result_buffer(at, value, operands, in_place)
            frame.held[value] = found or self.pool.temporary(value.shape.nbytes)
            made.append(frame.held[value])
        self.pool.touch(*made)
        return made

    # Control flow

    def _while(self, frame: BufferFrame, at: int, i: HloInstruction) -> Sequence[UnplacedStep]:
        steps: list[UnplacedStep] = []
        kept = frame.kept_parts(i)
        state = [
            frame.held[frame.source[i.operands[0]][n]]
            if n in kept
            else self._state(frame, at, i, n, steps)
            for n in range(len(frame.source[i]))
        ]
        predicate = self.pool.temporary(1)
        condition = self.computation(i["condition"], state, [predicate])
        changed = {buffer for n, buffer in enumerate(state) if n not in kept}
        body = self.computation(i["body"], state, state, changed)
        self.pool.advance()
        self.pool.touch(*state, predicate)
        frame.held.update(zip(frame.source[i], state, strict=True))
        steps.append(Loop(tuple(condition), self._use(predicate), tuple(body), i.name))
        return steps

    def _state(
        self, frame: BufferFrame, at: int, i: HloInstruction, number: int, steps: list[UnplacedStep]
    ) -> VirtualBuffer:
        """The buffer of one part of a loop's state; ``steps`` put its initial value there."""
        start = frame.held[frame.source[i.operands[0]][number]]
        found = frame.state_buffer(at, i, number)
        buffer = found or self.pool.temporary(start.nbytes)
        if buffer is not start and buffer.nbytes:
            value = frame.source[i.operands[0]][number]
            self._explain(value, f"{i.name} overwrites its state, and {_why_kept(value)}")
            steps.append(self._copy(start, buffer))
        self.pool.touch(buffer)
        return buffer

    def _conditional(
        self, frame: BufferFrame, at: int, i: HloInstruction
    ) -> Sequence[UnplacedStep]:
        selector, *_ = operands = _operand_buffers(frame, i)
        self.pool.touch(*operands)
        results = self._results(frame, at, i, operands, _NO_PAIRS)
        branches = tuple(
            tuple(self.computation(branch, frame.buffers(o), results))
            for branch, o in zip(i.called, i.operands[1:], strict=True)
        )
        self.pool.advance()
        self.pool.touch(*operands, *results)
        is_predicate = i.operands[0].shape.element_type is PRED
        return (Branch(self._use(selector), is_predicate, branches, i.name),)

    def _call(self, frame: BufferFrame, at: int, i: HloInstruction) -> Sequence[UnplacedStep]:
        operands = _operand_buffers(frame, i)
        results = self._results(frame, at, i, operands, _NO_PAIRS)
        steps = self.computation(i["to_apply"], operands, results)
        self.pool.touch(*operands, *results)
        return steps


def _why_kept(value: ArrayValue) -> str:
    """Why a loop's state does not begin where its first value is."""
    opcode = value.producer.opcode
    kept = opcode in ("parameter", "constant")
    return f"a {opcode} keeps its value" if kept else "the memory of this value is not its own"


def _why_delivered(frame: BufferFrame, value: ArrayValue) -> str:
    """Why a value of the root is not where it is wanted."""
    name, opcode = frame.computation.name, value.producer.opcode
    if opcode in ("parameter", "constant"):
        return f"{name} gives back a {opcode}"
    if frame.given_back[value] > 1:
        return f"{name} gives it back twice"
    return f"{name} gives it back in memory that was not free when it was made"


def _makes_values(frame: BufferFrame, i: HloInstruction) -> bool:
    """False for parameters and grouping opcodes, and for what has no values at all."""
    return i.opcode != "parameter" and frame.source[i][:1] == (ArrayValue(i, 0),)


def _operand_buffers(frame: BufferFrame, i: HloInstruction) -> list[VirtualBuffer]:
    return [b for operand in i.operands for b in frame.buffers(operand)]
