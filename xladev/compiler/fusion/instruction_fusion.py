"""Fusion: groups of instructions that become one kernel, as `fusion` instructions.

A producer joins the kernel of its users if all of them are in one kernel and each of its elements
is then computed once, or at a few indices; producers that cost nothing (scalar constants and their
broadcasts, iota) are copied into every kernel that reads them, and so are large ones that cost less
than to write and read them (`producer_recomputation.py`). The backend is asked about all of them
but scalar constants. Since no value leaves a group but its root's, groups can never wait for each
other in a circle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from types import MappingProxyType

from xladev import instrument
from xladev.compiler.fusion.producer_recomputation import is_worth_copying
from xladev.compiler.fusion.repeated_values import RepeatedValues
from xladev.compiler.partition.assignment import COLLECTIVE_OPCODES
from xladev.compiler.support import YES, Support
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.names import UniqueNames
from xladev.hlo.opset import opdef
from xladev.hlo.rebuild import Users, map_computations, rebuild, users_of
from xladev.passes.call_inliner import CallInliner
from xladev.passes.pass_ import HloModulePass

Leaders = Mapping[HloInstruction, tuple[HloInstruction, ...]]
"""For each instruction the roots of the kernels that compute it."""

CanFuse = Callable[[HloInstruction, HloInstruction], Support]
"""The backend's word on (producer, consumer)."""

MAX_GROUP = 128
"""Most instructions in one kernel, without those that cost nothing; bounds code size and the depth
of its expression."""

MAX_COPIES = 8
"""Most times that one kernel computes the same value, at different indices; bounds code size."""

_INDEX_ONLY = frozenset({
    "broadcast", "reshape", "transpose", "slice", "reverse", "pad", "concatenate", "iota", "copy",
    "dynamic-slice", "gather", "bitcast-convert",
})  # fmt: skip
"""Opcodes whose element is an element of an operand, found by an index mapping."""

_ONCE = frozenset({"reduce", "sort", "map"}) | (_INDEX_ONLY - {"broadcast", "gather"})
"""Opcodes, besides elementwise ones, that read each element of an operand at most once."""

_UNFUSED_OPERANDS: Mapping[str, frozenset[int]] = MappingProxyType(
    {"dynamic-update-slice": frozenset({0}), "scatter": frozenset({0})}
)
"""Operands that must be in memory because they are updated in place."""

_READS_MEMORY = COLLECTIVE_OPCODES | {
    "cholesky", "custom-call", "fft", "fusion", "triangular-solve",
}  # fmt: skip
"""Opcodes that nothing is computed for in their kernels, not even what costs nothing."""


def is_free(instruction: HloInstruction) -> bool:
    """True if computing an element anew wherever it is read costs next to nothing."""
    if instruction.opcode == "constant":
        return instruction.shape.is_scalar
    if instruction.opcode == "iota":
        return True
    return instruction.opcode == "broadcast" and is_free(instruction.operands[0])


def default_can_fuse(producer: HloInstruction, consumer: HloInstruction) -> bool:
    """Whether each element of the producer is computed once, or costs nothing."""
    return not _rule_refusal(producer, consumer)


def _rule_refusal(producer: HloInstruction, consumer: HloInstruction) -> str:
    """Why the general rule keeps two instructions apart; empty if it does not."""
    if consumer.opcode in _READS_MEMORY:
        return f"{consumer.name} ({consumer.opcode}) reads its operands from memory"
    if is_free(producer):
        return ""
    if not (producer.op.elementwise or producer.opcode in _INDEX_ONLY):
        formed = producer.opcode == "fusion"
        return "its kernel is formed" if formed else f"{producer.opcode} is a kernel of its own"
    kept = _UNFUSED_OPERANDS.get(consumer.opcode, frozenset())
    if any(consumer.operands[n] is producer for n in kept if n < len(consumer.operands)):
        return f"{consumer.name} ({consumer.opcode}) updates it in place"
    if consumer.op.elementwise or consumer.opcode in _ONCE:
        return ""
    if consumer.opcode in ("broadcast", "gather"):
        again = producer.opcode in ("reshape", "transpose", "broadcast", "slice", "reverse")
        return "" if again else f"{consumer.name} ({consumer.opcode}) would compute it repeatedly"
    if consumer.opcode in ("dynamic-update-slice", "scatter"):
        return ""
    return f"{consumer.name} ({consumer.opcode}) reads its operands from memory"


def _reads_what_is_updated(producer: HloInstruction, root: HloInstruction) -> bool:
    """Whether a kernel that updates an array would read a smaller part of it elsewhere.

    A part that is in memory by itself costs less than a copy of the whole array.
    """
    if root.opcode not in _UNFUSED_OPERANDS or producer is root:
        return False
    count = (len(root.operands) - 1) // 2 if root.opcode == "scatter" else 1
    return any(
        any(operand is whole for operand in producer.operands)
        and producer.shape.nbytes < whole.shape.nbytes
        for whole in root.operands[:count]
    )


def always(first: HloInstruction, second: HloInstruction) -> Support:
    """The answer where no platform is named: whatever the general rule allows."""
    return YES


@dataclass(frozen=True, slots=True)
class Fusion(HloModulePass):
    """Forms kernels: groups of instructions become `fusion` instructions.

    Attributes:
        can_fuse: the backend's answer, asked after the general rule said yes.
        max_group: most instructions in one kernel, without those that cost nothing.
        epilogues: opcodes whose kernels go on with elementwise instructions on their result, of
            the same dimensions; one of them a kernel.
        copied_from_nbytes: size from which cheap producers are copied; None for never.
    """

    name = "fusion"
    can_fuse: CanFuse = always
    max_group: int = MAX_GROUP
    epilogues: frozenset[str] = frozenset()
    copied_from_nbytes: int | None = None

    def run(self, module: HloModule) -> HloModule:
        """The module with groups of two or more instructions as `fusion` instructions.

        Computations that are not programs of kernels (reducers, comparators) stay as they are.
        """
        programs, names = kernel_programs(module), KernelNames(module)
        return map_computations(module, lambda c: self._fuse(c, names) if c.name in programs else c)

    def _fuse(self, computation: HloComputation, names: KernelNames) -> HloComputation:
        users = users_of(computation)
        leader = self._leaders(computation, users, controlled(computation))
        members: dict[HloInstruction, list[HloInstruction]] = {}
        for instruction in computation.instructions:
            for goal in leader[instruction]:
                members.setdefault(goal, []).append(instruction)
        replacements: dict[HloInstruction, HloInstruction] = {}
        dead: set[HloInstruction] = set()
        for root, group in members.items():
            if not is_kernel(root) or is_free(root):
                continue
            whole = with_copies(set(group), self.can_fuse)
            if len(whole) == 1:
                continue
            replacements[root] = fused_group(root, whole, computation.name, names)
            dead.update(i for i in group if i is not root)
        fused = rebuild(computation, replacements)
        return without_dead(fused)

    def _leaders(
        self, computation: HloComputation, users: Users, controlled: AbstractSet[HloInstruction]
    ) -> Leaders:
        """The root of the group that each instruction belongs to; roots, if it is copied."""
        leader: dict[HloInstruction, tuple[HloInstruction, ...]] = {}
        size: dict[HloInstruction, int] = {}
        reads, repeated = _Reads(), RepeatedValues()
        with_core: set[HloInstruction] = set()
        for instruction in reversed(computation.instructions):
            alone = instruction is computation.root or instruction in controlled
            readers = () if alone else users[instruction]
            goals, why = self._goals(instruction, readers, leader, size)
            refusal = repeated.refusal(instruction, readers) if goals else ""
            goals, why = ((), refusal) if refusal else (goals, why)
            if instruction.opcode in self.epilogues and not goals:
                goal = self._epilogue_leader(instruction, readers, leader, size, reads)
                goal = instruction if goal in with_core else goal
                with_core.add(goal)
                goals = () if goal is instruction else (goal,)
            if goals and not reads.join(instruction, users[instruction]):
                goals, why = (), f"it would be computed at more than {MAX_COPIES} indices"
            if not goals:
                reads.lead(instruction)
                instrument.decision(self.name, instruction.name, why)
            else:
                repeated.join(instruction, readers)
            leader[instruction] = goals or (instruction,)
            for goal in leader[instruction]:
                size[goal] = size.get(goal, 0) + (not is_free(instruction))
        return leader

    def _epilogue_leader(
        self,
        core: HloInstruction,
        readers: Sequence[HloInstruction],
        leader: Leaders,
        size: Mapping[HloInstruction, int],
        reads: _Reads,
    ) -> HloInstruction:
        """The root of the kernel that may go on from ``core``; itself if there is none."""
        goals = {goal for reader in readers for goal in leader[reader]}
        if len(goals) != 1 or not core.shape.is_array or core.note.device:
            return core
        (goal,) = goals
        if not is_kernel(goal) or size[goal] >= self.max_group:
            return core
        fits = all(
            reader.op.elementwise
            and reader.shape.dims == core.shape.dims
            and reads.is_at_own_index(reader)
            and self.can_fuse(core, reader)
            for reader in readers
        )
        return goal if fits else core

    def _goals(
        self,
        instruction: HloInstruction,
        readers: Sequence[HloInstruction],
        leader: Leaders,
        size: Mapping[HloInstruction, int],
    ) -> tuple[tuple[HloInstruction, ...], str]:
        """The roots of the kernels that an instruction joins; or none, and why."""
        why = self._refusal(instruction, readers)
        goals = tuple(dict.fromkeys(goal for reader in readers for goal in leader[reader]))
        if not why and any(_reads_what_is_updated(instruction, goal) for goal in goals):
            why = "its kernel could not update in place the array that it reads"
        if not why and any(size[goal] >= self.max_group for goal in goals):
            why = f"the kernel has {self.max_group} instructions"
        least = self.copied_from_nbytes
        if not why and len(goals) > 1:
            is_copied = least is not None and is_worth_copying(instruction, least)
            names = ", ".join(sorted(goal.name for goal in goals))
            why = "" if is_copied else f"its readers are in several kernels: {names}"
        return ((), why) if why else (goals, "")

    def _refusal(self, instruction: HloInstruction, readers: Sequence[HloInstruction]) -> str:
        """Why an instruction cannot join its readers, wherever they are; empty if it can."""
        if not is_kernel(instruction) or instruction.note.device:
            return f"{instruction.opcode} is no step of a kernel"
        if not readers:
            return "it is a result, or has control dependencies"
        for reader in readers:
            if reader.opcode == "tuple":
                return f"it is passed on in memory, as a part of {reader.name}"
            if not is_kernel(reader):
                return f"{reader.name} ({reader.opcode}) reads its operands from memory"
            why = _rule_refusal(instruction, reader)
            if why:
                return why
            answer = self.can_fuse(instruction, reader)
            if not answer:
                return f"with {reader.name}: {answer.reason}"
        return ""


def controlled(computation: HloComputation) -> set[HloInstruction]:
    """Instructions with control dependencies: within another's kernel, they would be lost."""
    found = {p for i in computation.instructions for p in i.note.control_predecessors}
    return found | {i for i in computation.instructions if i.note.control_predecessors}


class _Reads:
    """At which indices the instructions of a kernel are computed.

    Elementwise readers ask for the element at their own index, which is computed once for all of
    them. Any other reader asks at an index of its own: two slices of a sum compute the sum twice,
    two slices of a sum of two slices four times, and so on.
    """

    def __init__(self) -> None:
        self._at: dict[HloInstruction, frozenset[int]] = {}
        self._numbers: dict[tuple[HloInstruction, int, int], int] = {}

    def lead(self, root: HloInstruction) -> None:
        """Begins a kernel: its root is computed at the index of the kernel's loop."""
        self._at[root] = frozenset({0})

    def is_at_own_index(self, instruction: HloInstruction) -> bool:
        """True if it is computed at the index of the kernel's loop and nowhere else."""
        return self._at[instruction] == {0}

    def join(self, producer: HloInstruction, readers: Sequence[HloInstruction]) -> bool:
        """Adds a producer to the kernel of its readers, unless it would be computed too often."""
        at = frozenset(n for reader in readers for n in self._asked(reader, producer))
        if len(at) > MAX_COPIES and not is_free(producer):
            return False
        self._at[producer] = at
        return True

    def _asked(self, reader: HloInstruction, producer: HloInstruction) -> Iterator[int]:
        if reader.op.elementwise:
            yield from self._at[reader]
            return
        for operand, value in enumerate(reader.operands):
            for index in self._at[reader] if value is producer else ():
                key = (reader, operand, index)
                yield self._numbers.setdefault(key, len(self._numbers) + 1)


@dataclass(frozen=True, slots=True)
class Defuser(HloModulePass):
    """Takes fusions of another compiler apart: they hold what that one could put in a kernel."""

    name = "defuser"
    only_for = frozenset({"fusion"})

    def run(self, module: HloModule) -> HloModule:
        """The module with the instructions of every `fusion` in its place."""
        return without_fusions(module)


def without_fusions(module: HloModule) -> HloModule:
    """The module with the instructions of every `fusion` in its place.

    Fusions of another compiler hold what that one could put in a kernel.
    """
    opened = map_computations(module, _fusions_as_calls)
    return module if opened is module else CallInliner().run(opened)


def _fusions_as_calls(computation: HloComputation) -> HloComputation:
    replacements = {
        i: replace(i, op=opdef("call"), attrs={"to_apply": i["calls"]})
        for i in computation.instructions
        if i.opcode == "fusion"
    }
    return rebuild(computation, replacements) if replacements else computation


def kernel_programs(module: HloModule) -> frozenset[str]:
    """Names of computations whose instructions run one by one: entry, loops, branches, calls."""
    found = {module.entry.name}
    for computation in reversed(module.computations):
        if computation.name not in found:
            continue
        for instruction in computation.instructions:
            if instruction.opcode in ("while", "conditional", "call"):
                found.update(c.name for c in instruction.called)
    return frozenset(found)


_NOT_KERNELS = frozenset({
    "parameter", "tuple", "get-tuple-element", "while", "conditional", "call", "after-all",
    "add-dependency", "domain",
})  # fmt: skip


def is_kernel(instruction: HloInstruction) -> bool:
    """True if the instruction computes, rather than names, groups or runs other computations."""
    return instruction.opcode not in _NOT_KERNELS and (
        instruction.opcode != "constant" or instruction.shape.is_scalar
    )


def with_copies(
    group: AbstractSet[HloInstruction], can_fuse: CanFuse = always
) -> set[HloInstruction]:
    """A kernel's instructions, and the values that cost nothing which it computes for itself.

    Scalar constants are part of any kernel. Others the backend allows, for each of their readers in
    the kernel: what one of them has to read from memory, all of them read there.
    """
    copied: set[HloInstruction] = set()
    refused: set[HloInstruction] = set()
    readers = sorted((i for i in group if i.opcode not in _READS_MEMORY), key=lambda i: i.name)
    while readers:
        reader = readers.pop()
        for value in (o for o in reader.operands if is_free(o) and o not in group):
            if value.opcode != "constant" and not (answer := can_fuse(value, reader)):
                refused.add(value)
                why = f"read from memory by {reader.name}: {answer.reason}"
                instrument.decision("fusion", value.name, why)
            elif value not in copied:
                copied.add(value)
                readers.append(value)
    return (copied - refused) | group


class KernelNames:
    """Names for what is in kernels: different from all others in the module.

    Args:
        module: whose kernels are formed.
    """

    def __init__(self, module: HloModule) -> None:
        self._names = UniqueNames({i.name for c in module.computations for i in c.instructions})
        self._inside: set[str] = set()

    def parameter(self, number: int) -> str:
        """The name of a parameter of a kernel."""
        return self._names.take(f"param_{number}")

    def within(self, i: HloInstruction) -> str:
        """The name of an instruction in a kernel: its own, unless there may be others of it."""
        if i.name in self._inside or is_free(i):
            return self._names.take(i.name)
        self._inside.add(i.name)
        return i.name


def fused_group(
    root: HloInstruction, group: set[HloInstruction], where: str, names: KernelNames
) -> HloInstruction:
    """A fusion instruction that computes ``root``: a group, from values outside of it."""
    inside, outside = _inside_and_outside(root, group)
    made: dict[HloInstruction, HloInstruction] = {}
    parameter = opdef("parameter")
    for number, value in enumerate(outside):
        made[value] = HloInstruction(
            parameter, value.shape, (), {"parameter_number": number}, names.parameter(number)
        )
    for old in inside:
        operands = tuple(made[o] for o in old.operands)
        note = replace(old.note, control_predecessors=())
        made[old] = replace(old, operands=operands, note=note, name=names.within(old))
    body = HloComputation(f"fused.{where}.{root.name}", tuple(made.values()), made[root])
    attrs = {"kind": _kind(root), "calls": body}
    return HloInstruction(
        opdef("fusion"), root.shape, tuple(outside), attrs, f"{root.name}.fusion", root.note
    )


def _kind(root: HloInstruction) -> str:
    return "kInput" if root.opcode in ("reduce", "reduce-window", "scatter") else "kLoop"


def _inside_and_outside(
    root: HloInstruction, group: set[HloInstruction]
) -> tuple[list[HloInstruction], list[HloInstruction]]:
    """Instructions to compute inside, operands first, and values to be given; iterative."""
    inside: list[HloInstruction] = []
    outside: list[HloInstruction] = []
    seen = {root}
    stack = [(root, iter(root.operands))]
    while stack:
        instruction, operands = stack[-1]
        following = next((o for o in operands if o not in seen), None)
        if following is None:
            inside.append(instruction)
            stack.pop()
            continue
        seen.add(following)
        if following in group:
            stack.append((following, iter(following.operands)))
        else:
            outside.append(following)
    return inside, outside


def without_dead(computation: HloComputation) -> HloComputation:
    """Drops instructions that nothing needs any more."""
    live: set[HloInstruction] = {computation.root}
    kept: list[HloInstruction] = []
    for instruction in reversed(computation.instructions):
        wanted = instruction in live or instruction.op.side_effect
        if not wanted and instruction.opcode != "parameter":
            continue
        kept.append(instruction)
        live.update(instruction.operands)
        live.update(instruction.note.control_predecessors)
    if len(kept) == len(computation.instructions):
        return computation
    return HloComputation(
        computation.name, tuple(reversed(kept)), computation.root, computation.execution_thread
    )
