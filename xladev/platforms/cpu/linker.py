"""From a kernel plan to one LLVM module: all kernels, and an entry that runs the steps."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat, zip_longest

from xladev.codegen.llvm import (
    I8,
    I32,
    I64,
    PTR,
    VOID,
    FunctionBuilder,
    ModuleBuilder,
    Parameter,
    TargetTraits,
    Value,
)
from xladev.compiler.plan.kernel_plan import (
    Branch,
    Copy,
    Fork,
    KernelPlan,
    Loop,
    RunKernel,
    Slice,
    Space,
    Step,
)
from xladev.instrument.interruption import INTERRUPTED
from xladev.platforms.cpu.codegen.exchange import ExchangePlan, Exchanges, exchanges, is_number
from xladev.platforms.cpu.codegen.table import emit_kernel
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic
from xladev.platforms.cpu.engine import ENTRY, target_traits
from xladev.platforms.cpu.fork import FORK
from xladev.platforms.cpu.interruption import ENDED, Watch, own_ns
from xladev.platforms.cpu.optimization_levels import all_steps, loops
from xladev.platforms.cpu.trace_points import (
    BEGIN,
    COPY,
    END,
    PART,
    PART_ENDED,
    define_marks,
    emit_mark,
    load_record,
)

CONSTANTS = "xladev_constants"
"""Array of pointers to the constants, filled when the code is loaded."""


FEW_STEPS = 4
"""So short a program gains from each nanosecond of a call."""

MOST_STEPS = 64
"""Most steps in one function: LLVM's time for a block grows faster than its length."""


def program_module(
    plan: KernelPlan,
    threads: int | None = None,
    provided: Container[str] = frozenset(),
    target: TargetTraits | None = None,
    exported: str = "",
    tactics: Sequence[Tactic] = (),
) -> ModuleBuilder:
    """The module of a whole plan; its text is LLVM assembly.

    Args:
        plan: what to run.
        threads: most threads that work on it; 0 for as many as the process wants, None for
            code that asks for none.
        provided: microkernels that whoever loads the code has.
        target: what the code is for; None for this machine.
        exported: name of the entry of code that nobody loads: it has its constants within, and
            neither marks to trace it by (`trace_points.py`) nor looks for interruptions.
        tactics: how each kernel is computed; none leave it to them.
    """
    module = kernels_module(plan, threads, provided, target, tactics)
    add_entry(module, plan, exported, threads=threads or 0)
    return module


def kernels_module(
    plan: KernelPlan,
    threads: int | None = None,
    provided: Container[str] = frozenset(),
    target: TargetTraits | None = None,
    tactics: Sequence[Tactic] = (),
) -> ModuleBuilder:
    """As `program_module`, without the entry and the kernels of collectives."""
    module = ModuleBuilder(plan.name, target or target_traits(), provided)
    for spec, tactic in zip(plan.kernels, tactics or repeat(DEFAULT), strict=False):
        if not exchanges(spec) and not is_number(spec):
            emit_kernel(module, spec, threads, tactic)
    return module


def add_exchanges(
    module: ModuleBuilder, plan: KernelPlan, devices: tuple[int, int], threads: int | None
) -> tuple[ExchangePlan | None, Sequence[str]]:
    """Adds the kernels of a plan's collectives and device numbers.

    Args:
        module: with the other kernels.
        plan: what to run.
        devices: replicas, and partitions of each.
        threads: see `program_module`.

    Returns:
        What they want of whoever launches the program, None if there are none; and the kernels
        whose own code need not be good.
    """
    made = Exchanges(module, *devices, threads)
    for spec in plan.kernels:
        if is_number(spec):
            made.emit_number(spec)
        elif exchanges(spec):
            made.emit(spec)
    return made.plan, made.light


def add_entry(
    module: ModuleBuilder,
    plan: KernelPlan,
    exported: str = "",
    *,
    threads: int = 0,
    is_shared: bool = False,
) -> None:
    """Adds the entry to a module that has a plan's kernels; see `program_module`.

    Args:
        module: with all kernels.
        plan: what to run.
        exported: see `program_module`.
        threads: most threads that run parts of a fork; 0 for as many as the process wants.
        is_shared: whether several devices run this code, so that its address is nobody's mark.
    """
    constants = _Within(module, plan) if exported else _Table(module, plan)
    names = ("context", "arguments", "results", "scratch")
    entry = module.function(exported or ENTRY, I32, [Parameter(PTR, name) for name in names])
    if isinstance(constants, _Table):
        define_marks(module, None if is_shared else constants.table)
    watch = Watch(entry) if _may_end(plan, plan.steps) and not exported else None
    around = _Plan(module, plan, constants, not exported, threads)
    context, *memory = entry.arguments
    steps = _Steps(around, entry, [*memory, context], watch)
    steps.mark(BEGIN)
    steps.emit(plan.steps)
    steps.mark(END)
    entry.ret(entry.const(I32, 0))


def _may_end(plan: KernelPlan, steps: Sequence[Step]) -> bool:
    """Whether some of these steps may end the program early: loops and collectives."""
    ran = (step for step in all_steps(steps) if isinstance(step, RunKernel))
    return loops(steps) or any(exchanges(plan.kernels[step.kernel]) for step in ran)


class _Table:
    """Constants whose addresses are known when the code is loaded."""

    def __init__(self, module: ModuleBuilder, plan: KernelPlan) -> None:
        self.table = module.pointer_array(CONSTANTS, max(len(plan.constants), 1))

    def address(self, b: FunctionBuilder, index: int) -> Value:
        """Address of a constant."""
        return b.load(PTR, b.element_address(self.table, index, PTR))


class _Within:
    """Constants that are part of the code."""

    def __init__(self, module: ModuleBuilder, plan: KernelPlan) -> None:
        self._places = [
            module.constant_bytes(f"xladev.constant.{n}", literal.bits())
            for n, literal in enumerate(plan.constants)
        ]

    def address(self, b: FunctionBuilder, index: int) -> Value:
        """Address of a constant."""
        return self._places[index]


@dataclass(slots=True)
class _Plan:
    """What the functions of one plan share."""

    module: ModuleBuilder
    plan: KernelPlan
    constants: _Table | _Within
    has_marks: bool
    threads: int
    functions: int = 0

    def part(self, *, is_watched: bool) -> FunctionBuilder:
        """A new function for some of the steps; where it is watched, it gives what is left."""
        self.functions += 1
        names = ("arguments", "results", "scratch", "context")
        parameters = [Parameter(PTR, name) for name in names]
        watch = [Parameter(PTR, "watch"), Parameter(I64, "left")] if is_watched else []
        return self.module.function(
            f"{ENTRY}.{self.functions}",
            I64 if is_watched else VOID,
            [*parameters, *watch],
            linkage="internal",
            attributes="noinline",
        )


class _Steps:
    """Writes steps into one function, and long runs of them into functions that it calls."""

    def __init__(
        self, around: _Plan, b: FunctionBuilder, memory: Sequence[Value], watch: Watch | None = None
    ) -> None:
        self.around = around
        self.b = b
        self.watch = watch
        self.memory = memory
        self.arguments, self.results, self.scratch, self.context = memory
        self.record = load_record(b) if around.has_marks else None

    def emit(self, steps: Sequence[Step]) -> None:
        """Runs the steps, one after the other."""
        if len(steps) <= MOST_STEPS:
            for step, following in zip_longest(steps, steps[1:]):
                self._step(step)
                if isinstance(step, Copy) and not isinstance(following, Copy):
                    self.mark(COPY)  # one for all copies in a row
            return
        for start in range(0, len(steps), MOST_STEPS):
            self._part(steps[start : start + MOST_STEPS])

    def _part(self, steps: Sequence[Step]) -> None:
        """Runs steps in a function of their own."""
        if self.watch is None or not _may_end(self.around.plan, steps):
            part = self.around.part(is_watched=False)
            _Steps(self.around, part, part.arguments).emit(steps)
            part.ret()
            self.b.call_void(part.name, *self.memory)
            return
        part = self.around.part(is_watched=True)
        *memory, state, left = part.arguments
        watch = Watch(part, state, left)
        _Steps(self.around, part, memory, watch).emit(steps)
        part.ret(watch.left)
        arguments = (*self.memory, self.watch.state, self.watch.left)
        self.watch.set(self.b.call(part.name, I64, *arguments))
        self._end_if(self.b.icmp("eq", self.watch.left, ENDED))

    def mark(self, mark: int) -> None:
        """Says what was done, if the code can be traced."""
        if self.record is not None:
            asks_first = len(self.around.plan.steps) <= FEW_STEPS
            emit_mark(self.b, self.record, mark, self.context, asks_first=asks_first)

    def _step(self, step: Step) -> None:
        match step:
            case RunKernel():
                self._kernel(step)
                self.mark(step.operation)
            case Copy():
                self.b.copy_bytes(
                    self._pointer(step.destination),
                    self._pointer(step.source),
                    step.source.nbytes,
                )
            case Loop():
                self._loop(step)
            case Branch():
                self._branch(step)
            case Fork():
                self._fork(step)

    def _kernel(self, step: RunKernel) -> None:
        spec = self.around.plan.kernels[step.kernel]
        pointers = [self._pointer(s) for s in step.buffers]
        if exchanges(spec):
            status = self.b.call(spec.name, I32, *pointers, self.context)
            self._end_if(self.b.icmp("ne", status, 0))
        elif is_number(spec):
            self.b.call_void(spec.name, *pointers, self.context)
        else:
            self.b.call_void(spec.name, *pointers)

    def _pointer(self, s: Slice) -> Value:
        if s.space is Space.SCRATCH:
            return self.b.byte_address(self.scratch, s.offset)
        if s.space is Space.CONSTANT:
            base = self.around.constants.address(self.b, s.index)
        else:
            table = self.arguments if s.space is Space.ARGUMENT else self.results
            base = self.b.load(PTR, self.b.element_address(table, s.index, PTR))
        return self.b.byte_address(base, s.offset) if s.offset else base

    def _loop(self, step: Loop) -> None:
        def condition(_: Sequence[Value]) -> Value:
            self.emit(step.condition)
            return self.b.icmp("ne", self.b.load(I8, self._pointer(step.predicate)), 0)

        def body(_: Sequence[Value]) -> Sequence[Value]:
            self.emit(step.body)
            self._look((*step.condition, *step.body))
            return ()

        self.b.while_loop((), condition, body)

    def _look(self, steps: Sequence[Step]) -> None:
        """Looks for an interruption, now and then, at the end of an iteration of these steps."""
        if self.watch is None:
            return
        self.watch.count(own_ns(self.around.plan, steps))
        with self.b.when(self.b.icmp("slt", self.watch.left, 0)):
            self._end_if(self.b.icmp("eq", self.watch.poll(), ENDED))

    def _end_if(self, ended: Value) -> None:
        """Leaves the function if `POLL` said so."""
        with self.b.leave_when(ended):
            if self.b.name == ENTRY:
                self.mark(END)
                self.b.ret(self.b.const(I32, INTERRUPTED))
            else:
                self.b.ret(self.b.const(I64, ENDED))

    def _branch(self, step: Branch) -> None:
        if step.is_predicate:
            chosen = self.b.icmp("eq", self.b.load(I8, self._pointer(step.selector)), 0)
            index = self.b.resize(chosen, I64, signed=False)
        else:
            index = self.b.resize(self.b.load(I32, self._pointer(step.selector)), I64, signed=True)
        self.b.switch(index, [partial(self._case, steps) for steps in step.branches])

    def _case(self, steps: Sequence[Step]) -> None:
        """Runs the steps of a branch; the loop around it knows nothing of what they take."""
        self.emit(steps)
        if self.watch is not None and steps:
            self.watch.count(own_ns(self.around.plan, steps))

    def _fork(self, step: Fork) -> None:
        """Runs parts at once, each in a function of its own."""
        if self.watch is None:  # code that nobody loads has one thread for its steps
            for steps in step.parts:
                self.emit(steps)
            return
        around, b = self.around, self.b
        around.module.declare(FORK, I64, ("ptr", "ptr", "i64", "i64", "ptr", "i64"))
        chosen = _emit_chosen(around, [_emit_part(around, steps) for steps in step.parts])
        frame = b.alloca(PTR, len(self.memory))
        for n, address in enumerate(self.memory):
            b.store(address, b.element_address(frame, n, PTR))
        numbers = (b.const(I64, n) for n in (len(step.parts), around.threads))
        watch = self.watch
        self.watch.set(
            b.call(FORK, I64, Value(f"@{chosen}", PTR), frame, *numbers, watch.state, watch.left)
        )
        self._end_if(b.icmp("eq", watch.left, ENDED))


def _emit_part(around: _Plan, steps: Sequence[Step]) -> str:
    """The function of one part of a fork."""
    part = around.part(is_watched=True)
    *memory, state, left = part.arguments
    watch = Watch(part, state, left)
    _Steps(around, part, memory, watch).emit(steps)
    part.ret(watch.left)
    return part.name


def _emit_chosen(around: _Plan, parts: Sequence[str]) -> str:
    """The function that a fork calls for each part, by its number."""
    around.functions += 1
    names = [Parameter(PTR, "frame"), Parameter(I64, "number"),
             Parameter(PTR, "state"), Parameter(I64, "left")]  # fmt: skip
    name = f"{ENTRY}.fork.{around.functions}"
    b = around.module.function(name, I64, names, linkage="internal", attributes="noinline")
    frame, number, state, left = b.arguments
    memory = [b.load(PTR, b.element_address(frame, n, PTR)) for n in range(4)]
    rest = b.alloca(I64)

    def call(part: str) -> None:
        b.store(b.call(part, I64, *memory, state, left), rest)

    steps = _Steps(around, b, memory)
    steps.mark(PART)
    b.switch(number, [partial(call, part) for part in parts])
    steps.mark(PART_ENDED)  # of a part that was interrupted, too
    b.ret(b.load(I64, rest))
    return name
