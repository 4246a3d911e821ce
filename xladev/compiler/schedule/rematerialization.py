"""Rematerialisation: values that are cheap to compute are computed again rather than kept.

Only kernels of one result that go over elements or move them are repeated, never what has an
effect, draws random numbers, communicates or has control dependencies. Which, and where, is
decided in `compiler/schedule/recomputation.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from xladev.compiler.buffers.arena import ALIGNMENT
from xladev.compiler.fusion.instruction_fusion import controlled, kernel_programs
from xladev.compiler.fusion.multi_output_fusion import loop_space
from xladev.compiler.plan.kernel_table import no_workspace
from xladev.compiler.schedule.recomputation import recompute
from xladev.compiler.schedule.schedule import WorkGraphs, WorkspaceOf
from xladev.compiler.schedule.work_graph import (
    WorkGraph,
    keeps_order,
    live_bytes,
    ordered_computations,
)
from xladev.hlo.array_values import array_values, is_grouping
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.rebuild import map_computations, postorder, with_operands
from xladev.passes.pass_ import HloModulePass


@dataclass(frozen=True, slots=True)
class Rematerialization(HloModulePass):
    """Repeats cheap instructions rather than keep their values; run on kernels in final order.

    Attributes:
        allowed_nbytes: bytes of temporary memory that should be enough.
        workspace_of: bytes of workspace per kernel.
        alignment: of values in memory, in bytes.
    """

    name = "rematerialization"
    allowed_nbytes: int = 0
    workspace_of: WorkspaceOf = no_workspace
    alignment: int = ALIGNMENT

    def run(self, module: HloModule) -> HloModule:
        """The module with instructions repeated where it needs too much; itself if nowhere."""
        programs = kernel_programs(module)
        ordered = ordered_computations(module)
        graphs = WorkGraphs(module, self.workspace_of, self.alignment)
        allowed = _allowances(module, programs, graphs, self.allowed_nbytes)

        def change(computation: HloComputation) -> HloComputation:
            if computation.name not in programs:
                return computation
            graph = graphs.of(computation)
            repeatable = _repeatable(computation, graph, ordered)
            order = recompute(graph, repeatable, allowed[computation.name])
            changed = computation
            if len(order) > len(graph.steps):
                changed = _with_repeats(computation, [graph.steps[n] for n in order])
            after = graphs.of(changed)
            graphs.note_peak(changed, max(live_bytes(after, range(len(after.steps))), default=0))
            return changed

        changed = map_computations(module, change)
        return module if changed is module else with_unique_names(changed)


def _allowances(
    module: HloModule, programs: AbstractSet[str], graphs: WorkGraphs, nbytes: int
) -> dict[str, int]:
    """Bytes that each computation may need, given what its callers hold meanwhile."""
    found: dict[str, tuple[WorkGraph, list[int]]] = {}
    for computation in module.computations:
        if computation.name in programs:
            graph = graphs.of(computation)
            live = live_bytes(graph, range(len(graph.steps)))
            graphs.note_peak(computation, max(live, default=0))
            found[computation.name] = graph, live
    allowed = {module.entry.name: nbytes}
    for computation in reversed(module.computations):
        if computation.name not in found:
            continue
        graph, live = found[computation.name]
        for at, step in enumerate(graph.steps):
            room = allowed[computation.name] - (live[at] - graph.inner[at])
            for callee in step.called:
                allowed[callee.name] = min(allowed.get(callee.name, room), room)
    return allowed


def _repeatable(
    computation: HloComputation, graph: WorkGraph, ordered: AbstractSet[str]
) -> frozenset[int]:
    """Numbers of the steps that may run again."""
    excluded = controlled(computation) | set(_read_through_tuples(computation))
    return frozenset(
        n
        for n, step in enumerate(graph.steps)
        if step not in excluded and _is_cheap(step) and not keeps_order(step, ordered)
    )


def _is_cheap(step: HloInstruction) -> bool:
    """True for kernels that compute or move each element by itself."""
    space = loop_space(step)
    return space is not None and space.reduced is None


def _read_through_tuples(computation: HloComputation) -> Iterator[HloInstruction]:
    """What is read as a part of a tuple: there, it cannot be given anew."""
    source = array_values(computation)
    for i in computation.instructions:
        if is_grouping(i):
            for value in source[i]:
                yield value.producer


def _with_repeats(computation: HloComputation, steps: Sequence[HloInstruction]) -> HloComputation:
    """The computation with its steps in an order where some occur again, as copies."""
    rewrite = _Rewrite()
    for parameter in computation.parameters:
        rewrite.bring(parameter)
    for step in steps:
        rewrite.run(step)
    for i in (computation.root, *computation.instructions):
        rewrite.bring(i)
    root = rewrite.now[computation.root]
    return HloComputation(computation.name, tuple(rewrite.made), root, computation.execution_thread)


class _Rewrite:
    """Instructions in their new order.

    Attributes:
        now: for each old instruction, its latest copy.
        made: what was made, in order.
    """

    def __init__(self) -> None:
        self.now: dict[HloInstruction, HloInstruction] = {}
        self.made: list[HloInstruction] = []
        self._done: set[HloInstruction] = set()

    def bring(self, i: HloInstruction) -> None:
        """Adds an instruction and what it needs, as far as they are not there."""
        for needed in postorder((i,), self._done):
            self._add(needed, self._relinked(needed))

    def run(self, step: HloInstruction) -> None:
        """Adds a step; one that is there already is made anew for those that come after."""
        if step in self.now:
            self._add(step, replace(self._relinked(step), name=f"{step.name}.again"))
        else:
            self.bring(step)

    def _add(self, old: HloInstruction, new: HloInstruction) -> None:
        self.now[old] = new
        self.made.append(new)

    def _relinked(self, i: HloInstruction) -> HloInstruction:
        new = with_operands(i, tuple(self.now[o] for o in i.operands))
        before = tuple(self.now[p] for p in i.note.control_predecessors)
        if before == i.note.control_predecessors:
            return new
        return replace(new, note=replace(new.note, control_predecessors=before))
