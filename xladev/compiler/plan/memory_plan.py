"""The kernel plan of a module of kernels that needs little memory: ordered, then assigned.

Schedule and rematerialisation count live bytes. What a plan really needs also depends on the holes
between buffers and on which of them are shared, so plans are made and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xladev import instrument
from xladev.compiler.buffers.arena import ALIGNMENT
from xladev.compiler.buffers.buffer_assignment import assign_buffers
from xladev.compiler.plan.kernel_plan import KernelPlan
from xladev.compiler.plan.kernel_table import ProgramKernels
from xladev.compiler.schedule.rematerialization import Rematerialization
from xladev.compiler.schedule.schedule import Schedule
from xladev.compiler.streams.concurrency import Concurrency
from xladev.compiler.streams.forks import ForkSpread
from xladev.compiler.streams.stream_choice import STREAMS_STEP, StreamSpread
from xladev.hlo.ir import HloModule
from xladev.hlo.text import print_module
from xladev.passes.pipeline import run_pass

ATTEMPTS = 4
"""Times that values are recomputed for a tighter limit, until the plan fits the real one."""

MOST_GROWTH = 1.25
"""How much more memory a run may take, so that kernels can run at once."""

LITTLE_NBYTES = 4 << 20
"""So much more is nobody's concern."""

PIPELINE = "memory"
"""Name of the passes that run while memory is planned, as often as plans are made."""

_log = instrument.logger("compile")


def plan_memory(
    module: HloModule,
    kernels: ProgramKernels,
    aliases: Sequence[tuple[int, int]] = (),
    *,
    schedule: bool = True,
    limit_nbytes: int | None = None,
    spread: StreamSpread | ForkSpread | None = None,
    apart: Callable[[], HloModule] | None = None,
    alignment: int = ALIGNMENT,
) -> KernelPlan:
    """The plan of the module in the better of two orders: its own, and the scheduled one.

    Args:
        module: its fusions are made.
        kernels: lowers each kernel once; orders go by the workspaces known so far.
        aliases: pairs (result leaf, parameter leaf) that the launch puts in one buffer.
        schedule: False to keep the module's order.
        limit_nbytes: bytes that arguments, results, constants and temporaries should do with; if
            they do not, values are recomputed. None if there is no limit.
        spread: how independent steps, or loops, run at once; None for one after the other.
        apart: gives the module with kernels of one result each, which are those that can run
            again; planned if nothing else keeps to the limit.
        alignment: bytes at whose multiples all slices begin (`arena_alignment`).

    Raises:
        CompileError: an instruction that no kernel can be made of.
    """

    def assign(ordered: HloModule, at_once: Concurrency | ForkSpread | None = None) -> KernelPlan:
        return assign_buffers(ordered, kernels, aliases, at_once, alignment)

    workspace_of = kernels.likely_workspace_nbytes
    plan = assign(module)
    if schedule:
        scheduled = run_pass(Schedule(workspace_of, alignment), module, PIPELINE)
        other = plan if scheduled is module else assign(scheduled)
        if other.scratch_nbytes < plan.scratch_nbytes:
            module, plan = scheduled, other
            _dump(module, "scheduled")
    if limit_nbytes is not None and total_nbytes(plan) > limit_nbytes:
        repeat = partial(Rematerialization, workspace_of=workspace_of, alignment=alignment)
        module, plan = _within(module, plan, assign, repeat, limit_nbytes)
        if apart is not None and total_nbytes(plan) > limit_nbytes:
            other = plan_memory(
                apart(),
                kernels,
                aliases,
                schedule=schedule,
                limit_nbytes=limit_nbytes,
                spread=spread,
                alignment=alignment,
            )
            if other.scratch_nbytes < plan.scratch_nbytes:
                return other
        elif total_nbytes(plan) > limit_nbytes:
            _warn(module, plan, limit_nbytes)
    if spread is None:
        return plan
    return _at_once(module.name, plan, partial(assign, module), spread, limit_nbytes)


def _at_once(
    name: str,
    plan: KernelPlan,
    assign: Callable[[Concurrency | ForkSpread], KernelPlan],
    spread: StreamSpread | ForkSpread,
    limit_nbytes: int | None,
) -> KernelPlan:
    """The plan whose steps run at once as they may, if the memory for that is there."""
    if isinstance(spread, StreamSpread):
        return _on_streams(name, plan, assign, spread, limit_nbytes)
    if not spread.may_fork(plan):
        return plan
    told = "forks: none, because they"
    return _if_it_fits(name, plan, assign(spread), limit_nbytes, told)


def _on_streams(
    name: str,
    plan: KernelPlan,
    assign: Callable[[Concurrency], KernelPlan],
    spread: StreamSpread,
    limit_nbytes: int | None,
) -> KernelPlan:
    """The plan on several streams, if the memory for that is there."""
    wide = assign(Concurrency(spread))
    nbytes = total_nbytes(wide)
    fits = limit_nbytes is None or nbytes <= max(limit_nbytes, total_nbytes(plan))
    if spread.is_forced:
        return wide if fits else assign(Concurrency(spread, keeps_memory=False))
    return _if_it_fits(name, plan, wide, limit_nbytes, "streams: 1, because several")


def _if_it_fits(
    name: str, plan: KernelPlan, wide: KernelPlan, limit_nbytes: int | None, told: str
) -> KernelPlan:
    """A plan whose steps run at once, unless it takes more memory than is worth it."""
    nbytes = total_nbytes(wide)
    most = max(int(MOST_GROWTH * total_nbytes(plan)), total_nbytes(plan) + LITTLE_NBYTES)
    most = most if limit_nbytes is None else min(most, max(limit_nbytes, total_nbytes(plan)))
    if nbytes <= most:
        return wide
    why = f"{told} take {nbytes:,} bytes of memory, and {most:,} are allowed"
    instrument.decision(STREAMS_STEP, name, why)
    return plan


def total_nbytes(plan: KernelPlan) -> int:
    """Bytes of memory that one run of a plan takes."""
    aliased = sum(plan.result_nbytes[result] for result, _ in plan.aliases)
    constants = sum(literal.shape.nbytes for literal in plan.constants)
    given = sum(plan.argument_nbytes) + sum(plan.result_nbytes) - aliased
    return given + constants + plan.scratch_nbytes


def _within(
    module: HloModule,
    plan: KernelPlan,
    assign: Callable[[HloModule], KernelPlan],
    repeat: Callable[[int], Rematerialization],
    limit_nbytes: int,
) -> tuple[HloModule, KernelPlan]:
    """A plan that recomputes values to keep to the limit, and its module; else the best one."""
    best = plan
    chosen = module
    allowed = limit_nbytes - (total_nbytes(plan) - plan.scratch_nbytes)
    target = allowed
    for _ in range(ATTEMPTS):
        changed = run_pass(repeat(max(target, 0)), module, PIPELINE)
        if changed is module:
            break
        found = assign(changed)
        if found.scratch_nbytes < best.scratch_nbytes:
            best, chosen = found, changed
            _dump(changed, "rematerialized")
        if best.scratch_nbytes <= allowed:
            break
        target -= found.scratch_nbytes - allowed
    return chosen, best


def _warn(module: HloModule, plan: KernelPlan, limit_nbytes: int) -> None:
    _log.warning(
        "%s needs %d bytes of memory, more than %d, and nothing cheap is left to recompute",
        module.name,
        total_nbytes(plan),
        limit_nbytes,
    )


def _dump(module: HloModule, stage: str) -> None:
    instrument.dump(f"{module.name}.{stage}", "hlo", lambda: print_module(module))
