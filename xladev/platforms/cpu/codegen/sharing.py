"""Loops that several threads share: a function of its own for any part of their range.

A part is computed in the same way whoever takes it and wherever it begins, so that the number of
threads changes nothing but the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.index import IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import I64, PTR, VOID, FunctionBuilder, Parameter, Value
from xladev.platforms.cpu.codegen.cost import estimated_ns
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic

PARALLEL = "xladev_parallel"
"""``void xladev_parallel(ptr function, ptr frame, ptr private, i64 count, i64 grain, i64 nbytes,
i64 threads)``: calls ``function(frame, private, begin, end)`` for parts of all of ``range(count)``,
none shorter than ``grain`` but the last, each in any thread; returns when all have been computed.
``private`` is the caller's memory of ``nbytes``, of which every other thread has its own."""

LEAST_NS = 50_000.0
"""Kernels that take less, in one thread, stay there: waking another one takes 5 to 50 us."""
LEAST_PART_NS = 15_000.0
"""What the shortest part should take."""
MANY_UNITS = 64
"""Units of work that keep all threads busy to the end."""

Part = Callable[[IndexValue, IndexValue], None]
"""Writes the loop over units ``begin`` to ``end``."""


@dataclass(slots=True)
class Sharing:
    """How loops of one kernel are shared.

    Attributes:
        name: symbol of the kernel.
        parameters: of its function, in order; parts have them too, by the same names.
        threads: most threads; 0 for as many as the process wants.
        cost_ns: what the kernel takes in one thread, about.
        part_ns: what the shortest part should take.
        is_inside: true while a part is written: what it contains is not shared again.
    """

    name: str
    parameters: tuple[Parameter, ...]
    threads: int
    cost_ns: float
    part_ns: float
    is_inside: bool = False

    def grain(self, count: int) -> int:
        """Fewest units of a part, of ``count`` in all."""
        return max(1, min(count, round(count * self.part_ns / max(self.cost_ns, 1.0))))


def sharing_of(
    spec: KernelSpec,
    parameters: Sequence[Parameter],
    threads: int | None,
    tactic: Tactic = DEFAULT,
) -> Sharing | None:
    """How a kernel is shared; None if it is not worth it.

    Args:
        spec: the kernel.
        parameters: of its function.
        threads: most threads; 0 for as many as the process wants, None for code without.
        tactic: says how long parts are.
    """
    if threads is None or threads == 1:
        return None
    cost_ns = estimated_ns(spec)
    if cost_ns < LEAST_NS:
        return None
    part_ns = LEAST_PART_NS if tactic.part_ns is None else tactic.part_ns
    return Sharing(spec.name, tuple(parameters), threads, cost_ns, part_ns)


def leading_units(extents: Sequence[int]) -> int:
    """How many of the outermost loops become one, whose iterations are the units of work."""
    taken = 0
    while taken < len(extents) and prod(extents[:taken]) < MANY_UNITS:
        taken += 1
    return taken


def emit_shared(
    b: FunctionBuilder,
    e: ElementalEmitter,
    sharing: Sharing,
    count: int,
    part: Part,
    *,
    captures: Sequence[Value] = (),
    workspace: Value | None = None,
    private_nbytes: int = 0,
    least: int = 1,
) -> None:
    """Writes ``part`` as a function, and shares its ``count`` units among threads.

    Args:
        b: writes the kernel; within ``part``, the function.
        e: elements of the kernel's computation; those made outside are not known within ``part``.
        sharing: the kernel's.
        count: how many units there are.
        part: see `Part`; may use parameters of the kernel and captured values, nothing else that
            was computed outside.
        captures: values of 8 bytes each.
        workspace: the kernel's own memory, if it has some.
        private_nbytes: how much of it each thread needs for itself; 0 if they share it.
        least: fewest units of a part.
    """
    number = b.fresh("part")
    name = f"{sharing.name}.{number}"
    private = workspace if private_nbytes else None
    passed = [p for p in sharing.parameters if private is None or f"%{p.name}" != private.text]
    passed += [Parameter(v.type, v.text.removeprefix("%")) for v in captures]
    own = [] if private is None else [Parameter(PTR, private.text.removeprefix("%"))]
    range_ = [Parameter(I64, f"begin.{number}"), Parameter(I64, f"end.{number}")]
    function = b.module.function(
        name, VOID, [*passed, *own, *range_], linkage="internal", attributes="noinline"
    )
    begin, end = function.arguments[-2:]
    sharing.is_inside = True
    try:
        with b.writing(function), e.apart():
            part(begin, end)
            b.ret()
    finally:
        sharing.is_inside = False
    _emit_runner(b, name, passed, has_private=private is not None)
    frame = b.alloca(I64, max(len(passed), 1))
    for n, p in enumerate(passed):
        b.store(Value(f"%{p.name}", p.type), b.element_address(frame, n, I64))
    grain = max(sharing.grain(count), least)
    numbers = (count, grain, private_nbytes, sharing.threads)
    b.module.declare(PARALLEL, VOID, ("ptr", "ptr", "ptr", "i64", "i64", "i64", "i64"))
    b.call_void(
        PARALLEL,
        Value(f"@{name}.run", PTR),
        frame,
        Value("null", PTR) if private is None else private,
        *(b.const(I64, n) for n in numbers),
    )


def _emit_runner(
    b: FunctionBuilder, name: str, passed: Sequence[Parameter], has_private: bool
) -> None:
    """The function that the pool calls: takes parameters of a part out of the frame."""
    names = [Parameter(PTR, "frame"), Parameter(PTR, "private"),
             Parameter(I64, "begin"), Parameter(I64, "end")]  # fmt: skip
    runner = b.module.function(f"{name}.run", VOID, names, linkage="internal")
    frame, private, begin, end = runner.arguments
    values = [runner.load(p.type, runner.element_address(frame, n, I64))
              for n, p in enumerate(passed)]  # fmt: skip
    runner.call_void(name, *values, *([private] if has_private else []), begin, end)
    runner.ret()
