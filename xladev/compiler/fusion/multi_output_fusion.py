"""Multi-output fusion: kernels that go over the same elements become one kernel of several results.

Siblings read the same operand, which is then read once. A producer that others need too joins a
consumer, which then need not read it back. Runs after `compiler/fusion/instruction_fusion.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from xladev import instrument
from xladev.compiler.buffers.in_place import read_at_own_index
from xladev.compiler.fusion.instruction_fusion import always, is_free, is_kernel, kernel_programs
from xladev.compiler.fusion.kernel_groups import KernelGroups
from xladev.compiler.plan.kernel_table import kernel_computation
from xladev.compiler.schedule.work_graph import keeps_order, ordered_computations
from xladev.compiler.support import Support
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.opset import opdef
from xladev.hlo.rebuild import map_computations, rebuild, users_of
from xladev.hlo.shape import tuple_of
from xladev.passes.pass_ import HloModulePass

CanShare = Callable[[HloInstruction, HloInstruction], Support]
"""The backend's word on two kernels, single instructions or fusions."""

MAX_RESULTS = 8
"""Most results of one kernel; bounds how many values are held in registers."""

MAX_INSTRUCTIONS = 96
"""Most instructions in one kernel of several results; bounds code size."""

_LOOPS = frozenset({
    "broadcast", "reshape", "transpose", "slice", "reverse", "pad", "concatenate", "copy",
    "dynamic-slice", "gather", "bitcast-convert",
})  # fmt: skip
"""Opcodes, besides elementwise ones, whose kernels are one loop over the elements of the result."""


MAX_OPEN = 4
"""Most groups of readers of one value that a further reader is tried with; bounds the time."""


class LoopSpace(NamedTuple):
    """The elements that a kernel goes over.

    Attributes:
        dims: sizes of the loops.
        reduced: which of them a reduction reduces; None if an element is stored at each index.
    """

    dims: tuple[int, ...]
    reduced: tuple[int, ...] | None


def loop_space(i: HloInstruction) -> LoopSpace | None:
    """What a kernel of one array goes over; None for kernels that are no such loop."""
    if not is_kernel(i) or is_free(i) or not i.shape.is_array:
        return None
    root = _root(i)
    if i.opcode == "fusion" and not all(map(_is_by_element, set(i["calls"].instructions) - {root})):
        return None
    if root.opcode == "reduce":
        return LoopSpace(root.operands[0].shape.dims, tuple(sorted(root["dimensions"])))
    return LoopSpace(root.shape.dims, None) if _is_by_element(root) else None


def _is_by_element(i: HloInstruction) -> bool:
    """True for what is computed or moved element by element, unlike a product with an epilogue."""
    return i.op.elementwise or i.opcode in _LOOPS or i.opcode in ("parameter", "constant", "iota")


def _root(i: HloInstruction) -> HloInstruction:
    return i["calls"].root if i.opcode == "fusion" else i


@dataclass(frozen=True, slots=True)
class MultiOutputFusion(HloModulePass):
    """Joins kernels that go over the same elements into kernels of several results.

    Attributes:
        can_share: the backend's answer, asked after the general rule said yes.
    """

    name = "multi-output-fusion"
    can_share: CanShare = always

    def run(self, module: HloModule) -> HloModule:
        """The module with joined kernels as fusions whose root is a tuple."""
        programs = kernel_programs(module)
        ordered = ordered_computations(module)

        def change(computation: HloComputation) -> HloComputation:
            if computation.name not in programs:
                return computation
            groups = KernelGroups(computation, ordered)
            self._form(computation, groups)
            self._form_single(computation, groups)
            replacements: dict[HloInstruction, HloInstruction] = {}
            for group in groups.groups():
                replacements.update(_joined(group, computation))
            changed = rebuild(computation, replacements)
            same = _in_order(changed, ordered) == _in_order(computation, ordered)
            return changed if same else computation

        changed = map_computations(module, change)
        return module if changed is module else with_unique_names(changed)

    def _form(self, computation: HloComputation, groups: KernelGroups) -> None:
        """Joins kernels that go over the elements of a value: its readers, and what makes it."""
        users = users_of(computation)
        for value in computation.instructions:
            if not value.shape.is_array or is_free(value) or value.shape.size < 2:
                continue
            found: list[HloInstruction] = []
            for kernel in (value, *users[value]):
                space = loop_space(kernel)
                if space is None or space.dims != value.shape.dims:
                    continue
                if not any(self._join(f, kernel, groups) for f in found[-MAX_OPEN:]):
                    found.append(kernel)

    def _form_single(self, computation: HloComputation, groups: KernelGroups) -> None:
        """Joins kernels of one element, whatever they read: a call costs more than they do."""
        open_kernels: dict[tuple[int, ...], list[HloInstruction]] = {}
        for kernel in computation.instructions:
            if not kernel.shape.is_array or kernel.shape.size != 1:
                continue
            space = loop_space(kernel)
            if space is None or prod(space.dims) != 1:
                continue
            found = open_kernels.setdefault(space.dims, [])
            if not any(self._join(f, kernel, groups) for f in found[: -MAX_OPEN - 1 : -1]):
                found.append(kernel)

    def _join(self, first: HloInstruction, second: HloInstruction, groups: KernelGroups) -> bool:
        have, more = groups.members(first), groups.members(second)
        if have is more:
            return True
        why = _refusal(have, more)
        answers = (self.can_share(a, b) for a in have for b in more)
        why = why or next((answer.reason for answer in answers if not answer), "")
        if not why and not groups.join(first, second):
            why = "one would have to wait for the other"
        if why:
            what = f"not joined with {_root(first).name}: {why}"
            instrument.decision(self.name, _root(second).name, what)
        return not why


def _in_order(computation: HloComputation, ordered: AbstractSet[str]) -> list[str]:
    """Names of what must keep its order; a join may draw operands forward, past each other."""
    return [i.name for i in computation.instructions if keeps_order(i, ordered)]


def _refusal(have: Sequence[HloInstruction], more: Sequence[HloInstruction]) -> str:
    """Why two groups of kernels cannot be one, whatever the backend says; empty if they can."""
    if not _is_small_enough(have, more):
        return "too many results or instructions for one kernel"
    return "" if _go_together(have, more) else "they do not go over the same elements in step"


def _is_small_enough(have: Sequence[HloInstruction], more: Sequence[HloInstruction]) -> bool:
    both = [*have, *more]
    size = sum(len(i["calls"].instructions) if i.opcode == "fusion" else 1 for i in both)
    return len(both) <= MAX_RESULTS and size <= MAX_INSTRUCTIONS


def _go_together(have: Sequence[HloInstruction], more: Sequence[HloInstruction]) -> bool:
    """True if one loop nest can compute both: the same loops, the same of them reduced.

    Kernels that store at each index go with a reduction only if that reduces the innermost loops:
    else they would no longer go through memory in order. What one kernel makes, another may use
    only at the index where it is made.
    """
    spaces = [loop_space(i) for i in (*have, *more)]
    reduced = {s.reduced for s in spaces if s is not None} - {None}
    rank = len(spaces[0].dims) if spaces[0] else 0
    if None in spaces or len({s.dims for s in spaces if s is not None}) > 1 or len(reduced) > 1:
        return False
    stores = any(s is not None and s.reduced is None for s in spaces)
    if stores and any(f and f != tuple(range(rank - len(f), rank)) for f in reduced):
        return False
    makers = {*have, *more}
    return all(_reads_in_step(i, o) for i in makers for o in i.operands if o in makers)


def _reads_in_step(consumer: HloInstruction, producer: HloInstruction) -> bool:
    """True if the consumer reads the producer only at the index that it is computing."""
    if _root(producer).opcode == "reduce":
        return False
    computation = kernel_computation(consumer)
    root = computation.root
    start = root.operands[0] if root.opcode == "reduce" else root
    in_step = read_at_own_index(computation, (start,))
    read = zip(computation.parameters, consumer.operands, strict=True)
    return all(p in in_step for p, operand in read if operand is producer)


def _joined(
    group: Sequence[HloInstruction], computation: HloComputation
) -> Iterator[tuple[HloInstruction, HloInstruction]]:
    """For each kernel of a group, the part of the new fusion that takes its place."""
    position = {i: n for n, i in enumerate(computation.instructions)}
    kernels = sorted(group, key=position.__getitem__)
    body, outside = _joined_body(kernels)
    last = kernels[-1]
    before = [p for k in kernels for p in k.note.control_predecessors if p not in kernels]
    note = replace(last.note, control_predecessors=tuple(dict.fromkeys(before)))
    reductions = any(_root(k).opcode == "reduce" for k in kernels)
    attrs = {"kind": "kInput" if reductions else "kLoop", "calls": body}
    name = f"{last.name}.joined"
    fusion = HloInstruction(opdef("fusion"), body.root.shape, outside, attrs, name, note)
    for number, kernel in enumerate(kernels):
        part = opdef("get-tuple-element")
        yield kernel, HloInstruction(part, kernel.shape, (fusion,), {"index": number}, kernel.name)


def _joined_body(
    kernels: Sequence[HloInstruction],
) -> tuple[HloComputation, tuple[HloInstruction, ...]]:
    """A computation of all results, and the values that it takes."""
    made: dict[HloInstruction, HloInstruction] = {}
    instructions: list[HloInstruction] = []
    outside: list[HloInstruction] = []
    for kernel in kernels:
        for operand in kernel.operands:
            if operand not in made:
                number = {"parameter_number": len(outside)}
                name = f"param_{len(outside)}"
                made[operand] = HloInstruction(opdef("parameter"), operand.shape, (), number, name)
                instructions.append(made[operand])
                outside.append(operand)
        copies = _copies(kernel_computation(kernel), [made[o] for o in kernel.operands])
        instructions += copies
        made[kernel] = copies[-1]
    roots = tuple(made[k] for k in kernels)
    root = HloInstruction(opdef("tuple"), tuple_of(*(r.shape for r in roots)), roots, {}, "results")
    name = f"joined.{kernels[-1].name}"
    return HloComputation(name, (*instructions, root), root), tuple(outside)


def _copies(
    computation: HloComputation, arguments: Sequence[HloInstruction]
) -> list[HloInstruction]:
    """The instructions of a kernel on other arguments, its root last."""
    made = dict(zip(computation.parameters, arguments, strict=True))
    for i in computation.instructions:
        if i not in made:
            made[i] = replace(i, operands=tuple(made[o] for o in i.operands))
    copies = list(made.values())[len(arguments) :]
    return [c for c in copies if c is not made[computation.root]] + [made[computation.root]]
