"""The memory-minimising schedule: an order of steps in which few bytes live at once.

The best order is hard to find (it is a pebbling game), so some that suit different shapes of
programs are tried, and the one that needs the fewest bytes is taken: the program's own, greedy from
the front, greedy from the back, and depth first. Each is near-linear in steps and operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.buffers.arena import ALIGNMENT
from xladev.compiler.fusion.instruction_fusion import is_kernel, kernel_programs
from xladev.compiler.plan.kernel_table import kernel_computation, no_workspace
from xladev.compiler.schedule.schedule_orders import backward, depth_first, forward
from xladev.compiler.schedule.work_graph import (
    WorkGraph,
    live_bytes,
    ordered_computations,
    work_graph,
)
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import map_computations, postorder
from xladev.passes.pass_ import HloModulePass

WorkspaceOf = Callable[[KernelSpec], int]
"""Bytes of workspace that a kernel is likely to want."""


@dataclass(frozen=True, slots=True)
class Schedule(HloModulePass):
    """Orders instructions so that few bytes live at once; run when kernels are formed.

    Operands, control dependencies, and the order of effects and of communication are kept.

    Attributes:
        workspace_of: bytes of workspace per kernel.
        alignment: of values in memory, in bytes.
    """

    name = "schedule"
    workspace_of: WorkspaceOf = no_workspace
    alignment: int = ALIGNMENT

    def run(self, module: HloModule) -> HloModule:
        """The module with the same instructions in another order."""
        programs = kernel_programs(module)
        graphs = WorkGraphs(module, self.workspace_of, self.alignment)

        def change(computation: HloComputation) -> HloComputation:
            if computation.name not in programs:
                return computation
            graph = graphs.of(computation)
            order, peak = best_order(graph)
            graphs.note_peak(computation, peak)
            if list(order) == sorted(order):
                return computation
            return in_order(computation, [graph.steps[n] for n in order])

        return map_computations(module, change)


class WorkGraphs:
    """Makes the graphs of a module's computations, callees first."""

    def __init__(
        self,
        module: HloModule,
        workspace_of: WorkspaceOf = no_workspace,
        alignment: int = ALIGNMENT,
    ) -> None:
        self._workspace_of = workspace_of
        self._alignment = alignment
        self._ordered = ordered_computations(module)
        self._bodies = frozenset(
            i["body"].name
            for c in module.computations
            for i in c.instructions
            if i.opcode == "while"
        )
        self._peaks: dict[str, int] = {}

    def of(self, computation: HloComputation) -> WorkGraph:
        """The graph of a computation; the peaks of those that it calls must have been noted."""
        is_body = computation.name in self._bodies
        return work_graph(computation, self._ordered, self._within, self._alignment, is_body)

    def note_peak(self, computation: HloComputation, nbytes: int) -> None:
        """Notes the most bytes that live at once in a computation."""
        self._peaks[computation.name] = nbytes

    def _within(self, step: HloInstruction) -> int:
        if is_kernel(step):
            return self._workspace_of(KernelSpec(step.name, kernel_computation(step)))
        return max((self._peaks.get(c.name, 0) for c in step.called), default=0)


def best_order(graph: WorkGraph) -> tuple[Sequence[int], int]:
    """The best order found, and the most bytes that live at once in it; ties keep the program's."""
    program = range(len(graph.steps))
    orders: Iterable[Sequence[int]] = (program, *(find(graph) for find in _ORDERS))
    peaks = [(max(live_bytes(graph, order), default=0), order) for order in orders]
    peak, order = min(peaks, key=lambda found: found[0])
    return order, peak


_ORDERS = (forward, backward, depth_first)


def in_order(computation: HloComputation, steps: Sequence[HloInstruction]) -> HloComputation:
    """The computation with its steps in another order; tuples and their parts where needed."""
    starts = (*computation.parameters, *steps, computation.root, *computation.instructions)
    instructions = tuple(postorder(starts))
    return HloComputation(
        computation.name, instructions, computation.root, computation.execution_thread
    )
