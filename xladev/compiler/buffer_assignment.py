"""Buffer assignment: from a fused module to a kernel plan with every array in its place.

Each computation that runs kernels is walked once, in schedule order. Arrays are assigned virtual
buffers: those of the interface, those of a loop's state, or temporaries whose lifetimes are then
packed into one arena. A result is computed straight into the buffer where it is wanted (a program
result, a loop's state) if nothing reads that buffer's old content afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm.module import plain_name
from xladev.compiler.arena import Lifetime, place
from xladev.compiler.in_place import in_place_pairs
from xladev.compiler.kernel_plan import (
    Branch,
    Copy,
    KernelPlan,
    Loop,
    RunKernel,
    Slice,
    Space,
    Step,
)
from xladev.compiler.leaves import Leaf, last_uses, leaf_shapes, sources
from xladev.errors import CompileError
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import Literal
from xladev.hlo.opdef import OpDef
from xladev.hlo.opset import opdef
from xladev.hlo.shape import Shape
from xladev.passes.value_numbers import ValueNumbers

WorkspaceOf = Callable[[KernelSpec], int]
"""Bytes of workspace that the backend's kernel wants."""


@dataclass(slots=True, eq=False)
class _Buffer:
    """A virtual buffer; temporaries get a place in the arena at the end."""

    space: Space
    index: int
    nbytes: int
    first: int = -1
    last: int = -1

    def touch(self, time: int) -> None:
        """Extends the lifetime to a moment."""
        self.first = time if self.first < 0 else min(self.first, time)
        self.last = max(self.last, time)


@dataclass(frozen=True, slots=True)
class _Frame:
    """One computation being walked.

    Attributes:
        computation: the computation.
        source: what each instruction's leaves really are.
        last: when each leaf is read last.
        held: the buffer of each leaf.
        wanted: where a leaf should be computed.
        owned: buffers that were given with old content, and the leaf that is that content.
        given: all buffers that belong to the caller.
    """

    computation: HloComputation
    source: Mapping[HloInstruction, tuple[Leaf, ...]]
    last: Mapping[Leaf, int]
    held: dict[Leaf, _Buffer] = field(default_factory=dict)
    wanted: dict[Leaf, _Buffer] = field(default_factory=dict)
    owned: dict[_Buffer, Leaf] = field(default_factory=dict)
    given: frozenset[_Buffer] = frozenset()

    def buffers(self, instruction: HloInstruction) -> list[_Buffer]:
        """Buffers of an instruction's leaves."""
        return [self.held[leaf] for leaf in self.source[instruction]]


def assign_buffers(
    module: HloModule, workspace_of: WorkspaceOf, aliases: Sequence[tuple[int, int]] = ()
) -> KernelPlan:
    """The kernel plan of a module whose kernels are single instructions or fusions.

    Args:
        module: calls are inlined; only while and conditional run other programs.
        workspace_of: bytes of workspace per kernel.
        aliases: pairs (result leaf, parameter leaf) that the launch puts in one buffer.

    Raises:
        CompileError: an instruction that no kernel can be made of.
    """
    return _Assignment(module, workspace_of, tuple(aliases)).plan()


class _Assignment:
    def __init__(
        self, module: HloModule, workspace_of: WorkspaceOf, aliases: tuple[tuple[int, int], ...]
    ) -> None:
        self.module = module
        self.workspace_of = workspace_of
        self.aliases = aliases
        self.time = 0
        self.temporaries: list[_Buffer] = []
        self.constants: dict[Literal, _Buffer] = {}
        self.numbers = ValueNumbers()
        self.numbers.add_all(module)
        self.kernels: dict[tuple[int, frozenset[tuple[int, int]]], int] = {}
        self.specs: list[KernelSpec] = []
        self.slices: dict[_Buffer, Slice] = {}

    # -- the whole program ------------------------------------------------------------------------

    def plan(self) -> KernelPlan:
        entry = self.module.entry
        arguments = [
            self._interface(Space.ARGUMENT, n, s)
            for n, s in enumerate(s for p in entry.parameters for s in leaf_shapes(p.shape))
        ]
        results = [
            self._interface(Space.RESULT, n, s) for n, s in enumerate(leaf_shapes(entry.root.shape))
        ]
        for result, argument in self.aliases:
            results[result] = arguments[argument]
        owned = {results[r] for r, _ in self.aliases}
        steps = self._computation(entry, arguments, results, owned)
        scratch = self._place_temporaries()
        return KernelPlan(
            name=self.module.name,
            kernels=tuple(self.specs),
            steps=tuple(self._final(step) for step in steps),
            constants=tuple(self.constants),
            argument_nbytes=tuple(b.nbytes for b in arguments),
            result_nbytes=tuple(b.nbytes for b in results),
            aliases=self.aliases,
            scratch_nbytes=scratch,
        )

    def _interface(self, space: Space, index: int, shape: Shape) -> _Buffer:
        return _Buffer(space, index, shape.nbytes)

    def _temporary(self, nbytes: int) -> _Buffer:
        buffer = _Buffer(Space.SCRATCH, len(self.temporaries), nbytes)
        buffer.touch(self.time)
        self.temporaries.append(buffer)
        return buffer

    def _place_temporaries(self) -> int:
        lifetimes = [Lifetime(t.nbytes, t.first, t.last) for t in self.temporaries]
        offsets, nbytes = place(lifetimes)
        for buffer, offset in zip(self.temporaries, offsets, strict=True):
            self.slices[buffer] = Slice(Space.SCRATCH, 0, offset, buffer.nbytes)
        return nbytes

    def _slice(self, buffer: _Buffer) -> Slice:
        found = self.slices.get(buffer)
        return found or Slice(buffer.space, buffer.index, 0, buffer.nbytes)

    # -- one computation --------------------------------------------------------------------------

    def _computation(
        self,
        computation: HloComputation,
        arguments: Sequence[_Buffer],
        results: Sequence[_Buffer],
        owned: set[_Buffer],
    ) -> list[_Draft]:
        """Steps that compute ``results`` from ``arguments``.

        Args:
            computation: what to run.
            arguments: a buffer per parameter leaf.
            results: a buffer per root leaf.
            owned: those among ``arguments`` that are also in ``results``: may be overwritten.
        """
        source = sources(computation)
        given = frozenset((*arguments, *results))
        frame = _Frame(computation, source, last_uses(computation, source), given=given)
        remaining = iter(arguments)
        for parameter in computation.parameters:
            for leaf in source[parameter]:
                frame.held[leaf] = buffer = next(remaining)
                buffer.touch(self.time)
                if buffer in owned:
                    frame.owned[buffer] = leaf
        for leaf, buffer in zip(source[computation.root], results, strict=True):
            frame.wanted.setdefault(leaf, buffer)
        steps: list[_Draft] = []
        for at, instruction in enumerate(computation.instructions):
            self.time += 1
            steps += self._instruction(frame, at, instruction)
        self.time += 1
        steps += self._deliver(frame, results)
        return steps

    def _deliver(self, frame: _Frame, results: Sequence[_Buffer]) -> list[_Draft]:
        """Copies root leaves that are not yet where they are wanted, all at once."""
        moves = [
            (held, wanted)
            for held, wanted in zip(frame.buffers(frame.computation.root), results, strict=True)
            if held is not wanted and wanted.nbytes
        ]
        targets = {wanted for _, wanted in moves}
        saved: list[tuple[_Buffer, _Buffer]] = []
        steps: list[_Draft] = []
        for held, wanted in moves:
            through = self._temporary(held.nbytes) if held in targets else held
            if through is not held:
                steps.append(self._copy(held, through))
            saved.append((through, wanted))
        steps += [self._copy(through, wanted) for through, wanted in saved]
        for buffer in results:
            buffer.touch(self.time)
        return steps

    def _copy(self, source: _Buffer, destination: _Buffer) -> _Draft:
        self.time += 1
        source.touch(self.time)
        destination.touch(self.time)
        return _CopyDraft(source, destination)

    # -- one instruction --------------------------------------------------------------------------

    def _instruction(self, frame: _Frame, at: int, i: HloInstruction) -> list[_Draft]:
        if i.opcode in ("parameter", "tuple", "get-tuple-element") or frame.source[i][:1] != (
            Leaf(i, 0),
        ):
            return []
        if i.opcode == "constant":
            self._constant(frame, i)
            return []
        if i.opcode == "while":
            return self._while(frame, at, i)
        if i.opcode == "conditional":
            return self._conditional(frame, at, i)
        if i.opcode == "call":
            return self._call(frame, at, i)
        if i.opcode == "after-all":
            frame.held[Leaf(i, 0)] = self._temporary(0)
            return []
        return self._kernel(frame, at, i)

    def _constant(self, frame: _Frame, i: HloInstruction) -> None:
        literal: Literal = i["literal"]
        parts = literal.parts if literal.shape.is_tuple else (literal,)
        for leaf, part in zip(frame.source[i], parts, strict=True):
            if part not in self.constants:
                nbytes = part.shape.nbytes
                self.constants[part] = _Buffer(Space.CONSTANT, len(self.constants), nbytes)
            frame.held[leaf] = self.constants[part]

    def _kernel(self, frame: _Frame, at: int, i: HloInstruction) -> list[_Draft]:
        computation = kernel_computation(i)
        operands = [b for o in i.operands for b in frame.buffers(o)]
        for buffer in operands:
            buffer.touch(self.time)
        leaves = frame.source[i]
        pairs = in_place_pairs(computation)
        results = [self._result(frame, at, i, leaf, operands, pairs) for leaf in leaves]
        if all(b.nbytes == 0 for b in results):
            return []
        shared = frozenset(
            (r, o) for r, b in enumerate(results) for o, x in enumerate(operands) if b is x
        )
        number = self._kernel_number(i, computation, shared)
        buffers = [*operands, *results]
        nbytes = self.workspace_of(self.specs[number])
        if nbytes:
            buffers.append(self._temporary(nbytes))
        return [_KernelDraft(number, tuple(buffers))]

    def _result(
        self,
        frame: _Frame,
        at: int,
        i: HloInstruction,
        leaf: Leaf,
        operands: Sequence[_Buffer],
        pairs: frozenset[tuple[int, int]],
    ) -> _Buffer:
        """The buffer for one result: the wanted one, a dying operand's, or a new one."""
        chosen = self._wanted(frame, at, leaf, operands, pairs)
        if chosen is None:
            chosen = self._reused(frame, at, i, leaf, operands, pairs)
        if chosen is None:
            chosen = self._temporary(leaf.shape.nbytes)
        chosen.touch(self.time)
        frame.held[leaf] = chosen
        return chosen

    def _wanted(
        self,
        frame: _Frame,
        at: int,
        leaf: Leaf,
        operands: Sequence[_Buffer],
        pairs: frozenset[tuple[int, int]],
    ) -> _Buffer | None:
        """The buffer where the leaf is wanted, if its old content is not needed any more."""
        buffer = frame.wanted.get(leaf)
        if buffer is None:
            return None
        old = frame.owned.get(buffer)
        if old is None:
            return buffer
        last = frame.last.get(old, -1)
        if last > at:
            return None
        reads = [n for n, b in enumerate(operands) if b is buffer]
        if all((leaf.number, n) in pairs for n in reads):
            return buffer
        return None

    def _reused(
        self,
        frame: _Frame,
        at: int,
        i: HloInstruction,
        leaf: Leaf,
        operands: Sequence[_Buffer],
        pairs: frozenset[tuple[int, int]],
    ) -> _Buffer | None:
        """A temporary that only this instruction still reads, and may overwrite."""
        taken = [frame.held[x] for x in frame.source[i] if x in frame.held]
        flat = [x for o in i.operands for x in frame.source[o]]
        for result, number in sorted(pairs):
            buffer = operands[number]
            if result != leaf.number or buffer.space is not Space.SCRATCH:
                continue
            if buffer in taken or buffer in frame.given or operands.count(buffer) > 1:
                continue
            dying = frame.last.get(flat[number], -1) == at
            if dying and buffer.nbytes == leaf.shape.nbytes:
                return buffer
        return None

    def _kernel_number(
        self, i: HloInstruction, computation: HloComputation, shared: frozenset[tuple[int, int]]
    ) -> int:
        """Number of the kernel; equal kernels, whatever their names, are one."""
        key = (self.numbers.add(computation), shared)
        if key not in self.kernels:
            self.kernels[key] = number = len(self.specs)
            self.specs.append(KernelSpec(f"k{number}.{plain_name(i.name)}", computation, shared))
        return self.kernels[key]

    # -- control flow -----------------------------------------------------------------------------

    def _while(self, frame: _Frame, at: int, i: HloInstruction) -> list[_Draft]:
        steps: list[_Draft] = []
        state = [
            self._state(frame, at, leaf, initial, n, i, steps)
            for n, (leaf, initial) in enumerate(
                zip(frame.source[i], frame.source[i.operands[0]], strict=True)
            )
        ]
        predicate = self._temporary(1)
        condition = self._computation(i["condition"], state, [predicate], set())
        body = self._computation(i["body"], state, state, set(state))
        self.time += 1
        for buffer in (*state, predicate):
            buffer.touch(self.time)
        frame.held.update(zip(frame.source[i], state, strict=True))
        steps.append(_LoopDraft(tuple(condition), predicate, tuple(body)))
        return steps

    def _state(
        self,
        frame: _Frame,
        at: int,
        leaf: Leaf,
        initial: Leaf,
        number: int,
        i: HloInstruction,
        steps: list[_Draft],
    ) -> _Buffer:
        """The buffer of one part of a loop's state, holding its initial value."""
        start = frame.held[initial]
        all_initial = frame.source[i.operands[0]]
        once = all_initial.count(initial) == 1
        same = frozenset({(leaf.number, number)}) if once else frozenset[tuple[int, int]]()
        operands = [frame.held[x] for x in all_initial]
        buffer = self._wanted(frame, at, leaf, operands, same)
        dying = frame.last.get(initial, -1) == at and once and operands.count(start) == 1
        if buffer is None and dying and start.space is Space.SCRATCH and start not in frame.given:
            buffer = start
        if buffer is None:
            buffer = self._temporary(leaf.shape.nbytes)
        if buffer is not start and buffer.nbytes:
            steps.append(self._copy(start, buffer))
        buffer.touch(self.time)
        return buffer

    def _call(self, frame: _Frame, at: int, i: HloInstruction) -> list[_Draft]:
        operands = [b for o in i.operands for b in frame.buffers(o)]
        results = [
            self._result(frame, at, i, leaf, operands, frozenset()) for leaf in frame.source[i]
        ]
        steps = self._computation(i["to_apply"], operands, results, set())
        for buffer in (*operands, *results):
            buffer.touch(self.time)
        return steps

    def _conditional(self, frame: _Frame, at: int, i: HloInstruction) -> list[_Draft]:
        (selector,) = frame.buffers(i.operands[0])
        operands = [frame.buffers(o) for o in i.operands[1:]]
        flat = [selector, *(b for row in operands for b in row)]
        for buffer in flat:
            buffer.touch(self.time)
        results = [self._result(frame, at, i, leaf, flat, frozenset()) for leaf in frame.source[i]]
        branches = [
            tuple(self._computation(c, arguments, results, set()))
            for c, arguments in zip(i.called, operands, strict=True)
        ]
        self.time += 1
        for buffer in (*flat, *results):
            buffer.touch(self.time)
        is_predicate = i["branch_computations"] is None
        return [_BranchDraft(selector, is_predicate, tuple(branches))]

    # -- drafts to steps --------------------------------------------------------------------------

    def _final(self, draft: _Draft) -> Step:
        match draft:
            case _KernelDraft():
                return RunKernel(draft.kernel, tuple(map(self._slice, draft.buffers)))
            case _CopyDraft():
                return Copy(self._slice(draft.source), self._slice(draft.destination))
            case _LoopDraft():
                return Loop(
                    tuple(map(self._final, draft.condition)),
                    self._slice(draft.predicate),
                    tuple(map(self._final, draft.body)),
                )
            case _BranchDraft():
                branches = tuple(tuple(map(self._final, b)) for b in draft.branches)
                return Branch(self._slice(draft.selector), draft.is_predicate, branches)


@dataclass(frozen=True, slots=True)
class _KernelDraft:
    kernel: int
    buffers: tuple[_Buffer, ...]


@dataclass(frozen=True, slots=True)
class _CopyDraft:
    source: _Buffer
    destination: _Buffer


@dataclass(frozen=True, slots=True)
class _LoopDraft:
    condition: tuple[_Draft, ...]
    predicate: _Buffer
    body: tuple[_Draft, ...]


@dataclass(frozen=True, slots=True)
class _BranchDraft:
    selector: _Buffer
    is_predicate: bool
    branches: tuple[tuple[_Draft, ...], ...]


_Draft = _KernelDraft | _CopyDraft | _LoopDraft | _BranchDraft


def kernel_computation(i: HloInstruction) -> HloComputation:
    """The computation of a kernel: that of a fusion, or one around a single instruction.

    Raises:
        CompileError: operands that are no arrays.
    """
    if i.opcode == "fusion":
        called: HloComputation = i["calls"]
        return called
    for operand in i.operands:
        if not operand.shape.is_array:
            raise CompileError(f"{i.opcode} of {operand.shape} cannot be a kernel", where=repr(i))
    parameter: OpDef = opdef("parameter")
    parameters = tuple(
        HloInstruction(parameter, o.shape, (), {"parameter_number": n}, f"param_{n}")
        for n, o in enumerate(i.operands)
    )
    note = replace(i.note, control_predecessors=())
    root = replace(i, operands=parameters, note=note)
    return HloComputation(f"kernel.{i.name}", (*parameters, root), root)
