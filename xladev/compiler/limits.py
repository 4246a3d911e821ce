"""Limits of what is compiled: how deep computations nest, and how much they come to written out.

A file of some kilobytes can call two copies of a function that calls two copies of another, and so
on: written out it would fill any memory. Such programs are refused before work grows with them.
"""

from __future__ import annotations

from xladev.compiler.program.program_check import MAX_NESTING
from xladev.errors import CompileError
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule

MOST_WRITTEN_OUT = 200_000
"""Instructions that any program may come to when each use of a computation is counted."""

MOST_GROWTH = 20
"""Larger programs may come to so many times the instructions that they are written with."""


def refuse_growth(module: HloModule) -> None:
    """Refuses a program that is small only because it uses the same computations many times.

    Raises:
        CompileError: more than `MOST_WRITTEN_OUT` instructions, and `MOST_GROWTH` times the file's.
    """
    sizes: dict[HloComputation, int] = {}
    for computation in module.computations:
        called = (c for i in computation.instructions for c in i.called)
        sizes[computation] = len(computation.instructions) + sum(sizes[c] for c in called)
    size = sizes[module.entry]
    if size > max(MOST_WRITTEN_OUT, MOST_GROWTH * module.instruction_count):
        raise CompileError(
            f"written out, {module.name} has {_number(size)} instructions",
            where=f"module {module.name}, of {module.instruction_count} instructions",
            why=f"at most {MOST_WRITTEN_OUT} are compiled, or {MOST_GROWTH} times the module's own",
            hint="use loops instead of calls that call each other again and again",
        )


def refuse_depth(module: HloModule, *, with_calls: bool) -> None:
    """Refuses a program whose computations call each other deeper than is run.

    Args:
        module: what to check.
        with_calls: False to count no `call`, since calls are about to be inlined.

    Raises:
        CompileError: more than `MAX_NESTING` levels.
    """
    depths: dict[HloComputation, int] = {}
    for computation in module.computations:
        below = (
            depths[c] + (with_calls or i.opcode != "call")
            for i in computation.instructions
            for c in i.called
        )
        depths[computation] = max(below, default=1)
    depth = depths[module.entry]
    if depth > MAX_NESTING:
        raise CompileError(
            f"loops, branches and calls of {module.name} are nested {depth} deep",
            where=f"module {module.name}, in {_deepest(module, depths)!r}",
            why=f"at most {MAX_NESTING} levels are compiled",
            hint="inline calls: optimization_level must not be 0" if with_calls else None,
        )


def _deepest(module: HloModule, depths: dict[HloComputation, int]) -> HloInstruction:
    """The instruction of the entry under which most levels are."""
    calling = [i for i in module.entry.instructions if i.called]
    return max(calling, key=lambda i: max(depths[c] for c in i.called))


def _number(size: int) -> str:
    return str(size) if size < 10**12 else f"about 10^{len(str(size)) - 1}"
