"""The kernel plan of a module of kernels that needs little memory: ordered, then assigned."""

from __future__ import annotations

from collections.abc import Sequence

from xladev import instrument
from xladev.compiler.buffer_assignment import WorkspaceOf, assign_buffers
from xladev.compiler.kernel_plan import KernelPlan
from xladev.compiler.options import CompileOptions
from xladev.compiler.schedule import Schedule
from xladev.hlo.ir import HloModule
from xladev.hlo.text import print_module


def plan_memory(
    module: HloModule,
    workspace_of: WorkspaceOf,
    aliases: Sequence[tuple[int, int]],
    options: CompileOptions,
) -> KernelPlan:
    """The plan of the module in the better of two orders: its own, and the scheduled one.

    A schedule counts live bytes. What an order really needs also depends on the holes between
    buffers and on which of them are shared, so the plans are made and compared.

    Raises:
        CompileError: an instruction that no kernel can be made of.
    """
    plan = assign_buffers(module, workspace_of, aliases)
    if not options.schedule:
        return plan
    scheduled = Schedule().run(module)
    if scheduled is module:
        return plan
    instrument.dump(f"{module.name}.scheduled", "hlo", lambda: print_module(scheduled))
    other = assign_buffers(scheduled, workspace_of, aliases)
    return min(plan, other, key=lambda p: p.scratch_nbytes)
