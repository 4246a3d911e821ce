"""Reductions of columns: threads of a sub-group have neighbouring columns, a block several rows.

What the rows of a block have is reduced in shared memory. Tall columns are cut into parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.vectors import NotInVectorsError, VectorEmitter
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import Value
from xladev.codegen.reductions import Reduction
from xladev.codegen.scalar.elements import real_of
from xladev.codegen.scalar.storage import load_element, store_element
from xladev.codegen.simt.kernel_kind import KernelKind, Stage, ThreadBuild
from xladev.codegen.simt.launch_plan import BLOCK
from xladev.codegen.simt.machine import SimtMachine
from xladev.codegen.simt.primitives import (
    barrier,
    block_number,
    shared_memory,
    thread_in_block,
)
from xladev.codegen.simt.reductions.partial_reductions import Parts
from xladev.codegen.simt.reductions.reduction_plans import ReductionPlan, reduction_plan, splits_of
from xladev.codegen.simt.reductions.row_reductions import store_others

LEAST_COLUMN = 8
"""Elements below which one thread reduces a column."""
MOST_SHARED_NBYTES = 32 << 10


@dataclass(frozen=True, slots=True)
class ColumnReduction:
    """How columns are spread over threads.

    Attributes:
        plan: what is reduced.
        lanes: neighbouring columns of one thread.
        splits: parts of a column.
        subgroup: threads of a sub-group.
    """

    plan: ReductionPlan
    lanes: int
    splits: int
    subgroup: int

    @property
    def across(self) -> int:
        """Threads of a block that have columns side by side; a power of two."""
        vectors = -(-self.plan.kept // self.lanes)
        return min(self.subgroup, 1 << (vectors - 1).bit_length())

    @property
    def deep(self) -> int:
        """Threads of a block that have the same columns."""
        return BLOCK // self.across

    @property
    def groups(self) -> int:
        """Blocks that have columns side by side."""
        return -(-self.plan.kept // (self.lanes * self.across))

    @property
    def chunk(self) -> int:
        """Elements of a part; the last one may be shorter."""
        return -(-self.plan.length // self.splits)

    @property
    def dimensions(self) -> LaunchDimensions:
        """Blocks for all parts of all columns."""
        return LaunchDimensions((self.groups * self.splits, 1, 1), (BLOCK, 1, 1))

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each reduction has its shared memory, then its size; in bytes."""
        found = [0]
        for reduction in self.plan.reductions:
            found.append(found[-1] + BLOCK * self.lanes * max(1, reduction.dtype.host_nbytes))
        return tuple(found)

    def alignment(self, reduction: Reduction) -> int:
        """Of what a thread keeps in shared memory, in bytes."""
        return min(16, self.lanes * max(1, reduction.dtype.host_nbytes))


def column_reduction_kind(spec: KernelSpec, machine: SimtMachine) -> KernelKind | None:
    """The kind of kernels that reduce columns."""
    plan = reduction_plan(spec)
    if plan is None or plan.is_along_rows or plan.length < LEAST_COLUMN:
        return None
    widest = _fitting(plan, machine)[0]
    splits = splits_of(plan.length, widest.groups, widest.deep)
    splits = -(-plan.length // ColumnReduction(plan, 1, splits, machine.subgroup).chunk)
    parts = Parts(plan, splits)
    stages = Stage(partial(_emit, parts), widest.offsets[-1]), *parts.stages
    return KernelKind("column reduction", stages, parts.workspace_nbytes)


def _fitting(plan: ReductionPlan, machine: SimtMachine, splits: int = 1) -> list[ColumnReduction]:
    """With vectors of all lengths that shared memory has room for; the last of one element."""
    tried = (*plan.lanes(), 1)
    found = [ColumnReduction(plan, lanes, splits, machine.subgroup) for lanes in tried]
    most = min(MOST_SHARED_NBYTES, machine.shared_nbytes)
    fit = [c for c in found if c.offsets[-1] <= most]
    return fit or found[-1:]


def _emit(parts: Parts, t: ThreadBuild) -> LaunchDimensions:
    """Writes the code of one thread, with the longest vectors that can be."""
    b, e = t.b, t.e
    *wide, narrow = _fitting(parts.plan, t.machine, parts.splits)
    for columns in wide:
        mark, functions, held = b.mark(), b.module.mark(), e.scopes()
        try:
            _emit_thread(t, columns, parts, VectorEmitter(e, columns.lanes))
        except NotInVectorsError:
            b.reset(mark)
            b.module.reset(functions)
            e.leave(held)
            continue
        return columns.dimensions
    _emit_thread(t, narrow, parts, e)
    return narrow.dimensions


def _emit_thread(
    t: ThreadBuild, columns: ColumnReduction, parts: Parts, e: ElementalEmitter
) -> None:
    b, plan = t.b, columns.plan
    tid, block = thread_in_block(b), block_number(b)
    x, y = b.urem(tid, columns.across), b.udiv(tid, columns.across)
    group, split = b.urem(block, columns.groups), b.udiv(block, columns.groups)
    first = b.mul(b.add(b.mul(group, columns.across), x), columns.lanes)
    inside = b.icmp("ult", first, plan.kept)
    begin = b.mul(split, columns.chunk)
    end = b.intrinsic("smin", b.add(begin, columns.chunk), plan.length)
    stop = b.select(inside, end, begin)
    totals = _reduced(t, columns, e, first, (b.add(begin, y), stop))
    _over_rows(t, columns, totals, tid, y)
    with b.when(b.and_(inside, b.icmp("eq", y, 0))), t.e.scope():
        parts.store(t, _held(t, columns, tid), first, split)


def _reduced(
    t: ThreadBuild,
    columns: ColumnReduction,
    e: ElementalEmitter,
    first: Value,
    positions: tuple[Value, Value],
) -> list[Value]:
    """What this thread reduces of its columns: every ``deep``-th row from one on to another."""
    b, plan = t.b, columns.plan
    if isinstance(e, VectorEmitter):
        e.at.start(first, columns.lanes)
    initial = [reduction.start(columns.lanes) for reduction in plan.reductions]
    begin, stop = positions
    with b.carried_loop(begin, stop, columns.deep, initial=initial) as loop, e.scope():
        index = plan.index(e.at, first, loop.index)
        pairs = zip(plan.reductions, loop.values, strict=True)
        held = [f.combine(b, v, e.element(f.reduce.operands[0], index)) for f, v in pairs]
        store_others(t, plan, e, index)
        loop.carry(*held)
    return list(loop.values)


def _over_rows(
    t: ThreadBuild, columns: ColumnReduction, totals: list[Value], tid: Value, y: Value
) -> None:
    """Reduces what threads of the same columns have; the first of them have it in shared memory."""
    b, half = t.b, columns.deep // 2
    _keep(t, columns, totals, tid)
    while half:
        barrier(b)
        with b.when(b.icmp("ult", y, half)), t.e.scope():
            mine = _held(t, columns, tid)
            others = _held(t, columns, b.add(tid, half * columns.across))
            pairs = zip(columns.plan.reductions, mine, others, strict=True)
            _keep(t, columns, [reduction.combine(b, m, o) for reduction, m, o in pairs], tid)
        half //= 2


def _keep(t: ThreadBuild, columns: ColumnReduction, totals: list[Value], tid: Value) -> None:
    b = t.b
    for reduction, offset, total in zip(
        columns.plan.reductions, columns.offsets, totals, strict=False
    ):
        base = b.byte_address(shared_memory(b), offset)
        position, align = b.mul(tid, columns.lanes), columns.alignment(reduction)
        store_element(b, base, position, reduction.dtype, total, align=align)


def _held(t: ThreadBuild, columns: ColumnReduction, tid: Value) -> list[Value]:
    b, found = t.b, list[Value]()
    for reduction, offset in zip(columns.plan.reductions, columns.offsets, strict=False):
        base, position = b.byte_address(shared_memory(b), offset), b.mul(tid, columns.lanes)
        element = load_element(
            b,
            base,
            position,
            reduction.dtype,
            lanes=columns.lanes,
            align=columns.alignment(reduction),
        )
        found.append(real_of(element, "a reduction"))
    return found
