"""What a compilation did, kept for those who want to be told: `xladev explain`.

Nothing here is needed to run the program, and nothing is kept unless somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from xladev.compiler.partition.assignment import Assignment
from xladev.compiler.partition.partition import Step
from xladev.compiler.plan.kernel_plan import KernelPlan
from xladev.compiler.program.program import Program
from xladev.hlo.ir import HloComputation, HloModule
from xladev.instrument import Decision, collect_decisions
from xladev.passes.pipeline import PassRecord


@dataclass(frozen=True, slots=True)
class RegionRecord:
    """What became of one region.

    Attributes:
        name: of its executable.
        platform: that it was compiled for.
        plan: its kernels and steps; None if the platform forms its kernels itself.
        decisions: what the passes that formed them decided.
    """

    name: str
    platform: str
    plan: KernelPlan | None
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class CompileRecord:
    """What became of one program.

    Attributes:
        program: the result.
        module: what was split, after passes and expansions.
        assignment: where its instructions run, and why.
        steps: what runs of each computation, as cut into regions.
        regions: one for each executable of the program, in their order.
        transfers: why values are copied between regions, and into results.
        passes: each run of a pass, in order: of the SDK, of backends, and of forming kernels.
    """

    program: Program
    module: HloModule
    assignment: Assignment
    steps: Mapping[HloComputation, tuple[Step, ...]]
    regions: tuple[RegionRecord, ...]
    transfers: tuple[Decision, ...]
    passes: tuple[PassRecord, ...]


@dataclass(slots=True)
class _Region:
    plan: KernelPlan | None = None
    decisions: list[Decision] = field(default_factory=list[Decision])


_open: ContextVar[_Region | None] = ContextVar("region", default=None)


@contextmanager
def recorded_region() -> Iterator[_Region]:
    """Surrounds the compilation of a region; yields what is told of it."""
    with collect_decisions() as decisions:
        found = _Region(decisions=decisions)
        token = _open.set(found)
        try:
            yield found
        finally:
            _open.reset(token)


def note_plan(plan: KernelPlan) -> None:
    """Tells the plan of the region that is being compiled, if somebody records it."""
    found = _open.get()
    if found is not None:
        found.plan = plan
