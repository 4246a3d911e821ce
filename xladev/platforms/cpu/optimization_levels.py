"""How much of LLVM's time each kernel of a plan is worth.

All of its passes take half of all compile time or more. They leave loops that were written in
vectors as they are (measured: as fast without), but make loops over single elements up to four
times as fast. Kernels that only call microkernels get nothing at all, not even good code: that
takes a fifth of the time, and they spend theirs elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xladev.codegen.llvm import ModuleBuilder
from xladev.compiler.plan.kernel_plan import (
    Branch,
    Fork,
    KernelPlan,
    Loop,
    RunKernel,
    Step,
    inner_steps,
)

FEW_TRIPS = 16
"""Iterations of a scalar loop, a few nanoseconds of work, that are not worth the passes."""

FEW_REPEATED_TRIPS = 4
"""The same in a kernel that the program runs again and again."""


MOST_LIGHT_TRIPS = 64
"""Iterations of its own that a kernel without good code may have: far less than a microsecond."""


def light_kernels(module: ModuleBuilder, plan: KernelPlan) -> list[str]:
    """Names of the kernels that leave their work to microkernels.

    Args:
        module: with all kernels of the plan.
        plan: says which of them are in loops; there, none are.
    """
    repeated = _repeated(plan.steps, in_loop=False)
    once = [spec.name for n, spec in enumerate(plan.kernels) if n not in repeated]
    return [name for name, trips in module.busy_trips(once).items() if trips <= MOST_LIGHT_TRIPS]


def has_loops(plan: KernelPlan) -> bool:
    """Whether steps of a plan run again and again, so that those between kernels count."""
    return loops(plan.steps)


def loops(steps: Sequence[Step]) -> bool:
    """Whether any of some steps runs again and again."""
    return any(isinstance(step, Loop) for step in all_steps(steps))


def kernels_worth_passes(module: ModuleBuilder, plan: KernelPlan) -> list[str]:
    """Names of the kernels with long loops over single elements.

    Args:
        module: with all kernels of the plan.
        plan: says which of them are in loops.
    """
    repeated = _repeated(plan.steps, in_loop=False)
    trips = module.scalar_trips(spec.name for spec in plan.kernels)
    few = [FEW_REPEATED_TRIPS if n in repeated else FEW_TRIPS for n in range(len(plan.kernels))]
    return [name for (name, most), least in zip(trips.items(), few, strict=True) if most > least]


def _repeated(steps: Sequence[Step], *, in_loop: bool) -> set[int]:
    """Numbers of the kernels that run in loops."""
    found: set[int] = set()
    for step in steps:
        match step:
            case RunKernel():
                found |= {step.kernel} if in_loop else set()
            case Loop():
                found |= _repeated((*step.condition, *step.body), in_loop=True)
            case Branch():
                for branch in step.branches:
                    found |= _repeated(branch, in_loop=in_loop)
            case Fork():
                for part in step.parts:
                    found |= _repeated(part, in_loop=in_loop)
            case _:
                pass
    return found


def all_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """Steps, and those within branches and forks."""
    for step in steps:
        yield step
        if isinstance(step, Branch | Fork):
            yield from all_steps(inner_steps(step))
