"""Programs whose loops may run at once, in text; and a check that the parts of a fork may."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import permutations

from xladev.compiler.plan.kernel_plan import (
    Branch,
    Copy,
    Fork,
    KernelPlan,
    Loop,
    RunKernel,
    Slice,
    Step,
    inner_steps,
)
from xladev.compiler.streams.stream_hazards import MemoryAccess, MemoryRange

_LOOP = """
b{n} {{ s = (s32[], f32[{size}], f32[{size}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0  x = f32[{size}] get-tuple-element(s), index=1
  k = f32[{size}] get-tuple-element(s), index=2  one = s32[] constant(1)  j = s32[] add(i, one)
  r = f32[{size}] reverse(x), dimensions={{0}}  m = f32[{size}] {opcode}(r)
  y = f32[{size}] add(m, k)  ROOT t = (s32[], f32[{size}], f32[{size}]) tuple(j, y, k) }}
c{n} {{ s = (s32[], f32[{size}], f32[{size}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({count})  ROOT p = pred[] compare(i, n), direction=LT }}
"""


def loop(n: int, opcode: str = "tanh", count: int = 5000, size: int = 64) -> str:
    """The computations of loop ``n``: the state is a counter, a value, and what is added to it."""
    return _LOOP.format(n=n, opcode=opcode, count=count, size=size)


def run_loop(n: int, name: str, start: str, added: str, size: int = 64) -> str:
    """Instructions that run loop ``n`` from two arrays; the result is called ``name``."""
    state = f"(s32[], f32[{size}], f32[{size}])"
    return (
        f"  {name}.z = s32[] constant(0)  {name}.s = {state} tuple({name}.z, {start}, {added})\n"
        f"  {name}.w = {state} while({name}.s), condition=c{n}, body=b{n}\n"
        f"  {name} = f32[{size}] get-tuple-element({name}.w), index=1\n"
    )


TWO = (
    "HloModule two\n"
    + loop(0)
    + loop(1, "sine")
    + "ENTRY e {\n  a = f32[64] parameter(0)\n  b = f32[64] parameter(1)\n"
    + run_loop(0, "u", "a", "b")
    + run_loop(1, "v", "b", "a")
    + "  ROOT r = f32[64] subtract(u, v)\n}\n"
)
"""Two loops that have their arguments in common, and nothing else."""


def random_program(draw: random.Random) -> str:
    """Loops and kernels that read each other at random; results are some of their values."""
    loops, lines = "", []
    values = ["a", "b"]
    for n in range(draw.randint(2, 5)):
        for _ in range(draw.randint(0, 2)):
            name = f"k{len(values)}"
            first, second = draw.choice(values), draw.choice(values)
            lines.append(f"  {name}.e = f32[64] multiply({first}, {second})\n")
            lines.append(f"  {name} = f32[64] reverse({name}.e), dimensions={{0}}\n")
            values.append(name)
        loops += loop(n, draw.choice(["tanh", "sine", "cosine"]), draw.choice([30, 2000, 5000]))
        lines.append(run_loop(n, f"w{n}", draw.choice(values), draw.choice(values)))
        values.append(f"w{n}")
    kept = sorted({values[-1], *draw.sample(values[2:], min(2, len(values) - 2))})
    shape = ", ".join(["f32[64]"] * len(kept))
    return (
        f"HloModule r\n{loops}ENTRY e {{\n  a = f32[64] parameter(0)\n  b = f32[64] parameter(1)\n"
        f"{''.join(lines)}  ROOT t = ({shape}) tuple({', '.join(kept)})\n}}\n"
    )


def forks_of(steps: Sequence[Step]) -> Iterator[Fork]:
    """All forks, those in loops and branches included."""
    for step in steps:
        if isinstance(step, Fork):
            yield step
        yield from forks_of(inner_steps(step))


def conflicts(plan: KernelPlan) -> list[str]:
    """Memory that a part of a fork writes and another one touches."""
    found: list[str] = []
    for fork in forks_of(plan.steps):
        accesses = [_access(plan, part) for part in fork.parts]
        for one, other in permutations(accesses, 2):
            touched = (*other.reads, *other.writes)
            found += [f"{w} and {t}" for w in one.writes for t in touched if w.meets(t)]
    return found


def _access(plan: KernelPlan, steps: Sequence[Step]) -> MemoryAccess:
    reads: list[MemoryRange] = []
    writes: list[MemoryRange] = []
    for step in steps:
        match step:
            case RunKernel():
                count = len(plan.kernels[step.kernel].operands)
                reads += map(_range, step.buffers[:count])
                writes += map(_range, step.buffers[count:])
            case Copy():
                reads.append(_range(step.source))
                writes.append(_range(step.destination))
            case Loop():
                reads.append(_range(step.predicate))
            case Branch():
                reads.append(_range(step.selector))
            case _:
                pass
        inside = _access(plan, inner_steps(step))
        reads += inside.reads
        writes += inside.writes
    return MemoryAccess(tuple(reads), tuple(writes))


def _range(s: Slice) -> MemoryRange:
    return MemoryRange((s.space, s.index), s.offset, s.offset + s.nbytes)
