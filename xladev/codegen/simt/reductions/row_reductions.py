"""Reductions along rows: a few threads, a sub-group or blocks reduce each, reading side by side.

Threads reduce vectors of their own, then exchange what they have within the sub-group, and
those of a block through shared memory. Long rows of which there are few are cut into parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.vectors import FlatEmitter, NotInVectorsError, VectorEmitter
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import I64, Value
from xladev.codegen.scalar.storage import store_element
from xladev.codegen.simt.exchanges import over_block, over_subgroup, slots_nbytes
from xladev.codegen.simt.kernel_kind import KernelKind, Stage, ThreadBuild
from xladev.codegen.simt.launch_plan import BLOCK
from xladev.codegen.simt.machine import SimtMachine
from xladev.codegen.simt.primitives import block_number, thread_in_block
from xladev.codegen.simt.reductions.partial_reductions import Parts
from xladev.codegen.simt.reductions.reduction_plans import ReductionPlan, reduction_plan, splits_of

LEAST_ROW = 8
"""Elements below which one thread reduces a row."""
MOST_OF_SUBGROUP = 2048
"""Elements above which a whole block reduces a row, or part of one."""
_WIDEST = 8
_IN_TURN = 4
"""Elements of each thread from which a sub-group is shared by several rows no more."""


@dataclass(frozen=True, slots=True)
class RowReduction:
    """How rows are spread over threads.

    Attributes:
        plan: what is reduced.
        threads: that reduce one part of a row.
        splits: parts of a row.
    """

    plan: ReductionPlan
    threads: int
    splits: int

    @property
    def chunk(self) -> int:
        """Elements of a part, a whole number of vectors; the last one may be shorter."""
        return -(-self.plan.length // (self.splits * _WIDEST)) * _WIDEST

    @property
    def dimensions(self) -> LaunchDimensions:
        """Blocks for all parts of all rows."""
        per_block = BLOCK // self.threads
        return LaunchDimensions(
            (-(-self.plan.kept * self.splits // per_block), 1, 1), (BLOCK, 1, 1)
        )


def row_reduction_kind(spec: KernelSpec, machine: SimtMachine) -> KernelKind | None:
    """The kind of kernels that reduce along rows."""
    plan = reduction_plan(spec)
    if plan is None or not plan.is_along_rows or plan.length < LEAST_ROW:
        return None
    rows = _spread(plan, machine.subgroup)
    parts = Parts(plan, rows.splits)
    shared = (
        slots_nbytes(len(plan.reductions), BLOCK, machine.subgroup) if rows.threads == BLOCK else 0
    )
    stages = Stage(partial(_emit, rows, parts), shared), *parts.stages
    return KernelKind("row reduction", stages, parts.workspace_nbytes)


def _spread(plan: ReductionPlan, subgroup: int) -> RowReduction:
    if plan.length <= MOST_OF_SUBGROUP:
        wanted = -(-plan.length // _IN_TURN)
        return RowReduction(plan, min(subgroup, 1 << (wanted - 1).bit_length()), 1)
    splits = splits_of(plan.length, plan.kept, BLOCK)
    return RowReduction(plan, BLOCK, -(-plan.length // RowReduction(plan, BLOCK, splits).chunk))


def _emit(rows: RowReduction, parts: Parts, t: ThreadBuild) -> LaunchDimensions:
    """Writes the code of one thread."""
    b, plan = t.b, rows.plan
    tid = thread_in_block(b)
    lane = b.urem(tid, rows.threads)
    group = b.add(b.mul(block_number(b), BLOCK // rows.threads), b.udiv(tid, rows.threads))
    inside = b.icmp("ult", group, plan.kept * rows.splits)
    part = _Part.of(t, rows, group, inside)
    totals = _over_part(t, rows, part, lane)
    if rows.threads > t.subgroup:
        whole = [
            over_subgroup(b, f, v, t.subgroup) for f, v in zip(plan.reductions, totals, strict=True)
        ]
        totals = over_block(b, plan.reductions, whole, tid, BLOCK, t.subgroup)
    else:
        reduced = zip(plan.reductions, totals, strict=True)
        totals = [over_subgroup(b, reduction, value, rows.threads) for reduction, value in reduced]
    with b.when(b.and_(inside, b.icmp("eq", lane, 0))), t.e.scope():
        parts.store(t, totals, part.row, part.number)
    return rows.dimensions


@dataclass(frozen=True, slots=True)
class _Part:
    """Part of a row.

    Attributes:
        row: which row.
        number: which part of it.
        begin, end: its first element, and the one after its last; nothing of rows that are none.
        is_last: whether the row ends with it.
    """

    row: Value
    number: Value
    begin: Value
    end: Value
    is_last: Value

    @staticmethod
    def of(t: ThreadBuild, rows: RowReduction, group: Value, inside: Value) -> _Part:
        b, length = t.b, rows.plan.length
        if rows.splits == 1:
            zero = b.const(I64, 0)
            return _Part(group, zero, zero, b.select(inside, b.const(I64, length), 0), inside)
        number = b.urem(group, rows.splits)
        begin = b.mul(number, rows.chunk)
        end = b.intrinsic("smin", b.add(begin, rows.chunk), length)
        is_last = b.and_(inside, b.icmp("eq", number, rows.splits - 1))
        return _Part(
            b.udiv(group, rows.splits), number, begin, b.select(inside, end, begin), is_last
        )


def _over_part(t: ThreadBuild, rows: RowReduction, part: _Part, lane: Value) -> list[Value]:
    """What this thread reduces of its part, in vectors where neighbours can be read at once."""
    e, b = t.e, t.b
    for make, lanes in _vectors(t, rows):
        mark, functions, held = b.mark(), b.module.mark(), e.scopes()
        try:
            return _in_vectors(t, rows, part, lane, make(e, lanes))
        except NotInVectorsError:
            b.reset(mark)
            b.module.reset(functions)
            e.leave(held)
    start = [reduction.start(1) for reduction in rows.plan.reductions]
    return _reduced(t, rows, part, b.add(part.begin, lane), part.end, start, e)


def _vectors(t: ThreadBuild, rows: RowReduction) -> list[tuple[type[VectorEmitter], int]]:
    """Emitters of vectors to try; all of an array has positions, whatever its dimensions."""
    found: list[tuple[type[VectorEmitter], int]] = []
    if rows.plan.kept == 1:
        nbytes = min(
            f.reduce.operands[0].shape.element_type.host_nbytes for f in rows.plan.reductions
        )
        found += [(FlatEmitter, n) for n in (8, 4, 2) if n * max(1, nbytes) <= 16]
    return found + [(VectorEmitter, n) for n in rows.plan.lanes()]


def _in_vectors(
    t: ThreadBuild, rows: RowReduction, part: _Part, lane: Value, e: VectorEmitter
) -> list[Value]:
    """Whole vectors, then the elements that are left of the last part."""
    b, plan, lanes = t.b, rows.plan, e.lanes
    whole = plan.length // lanes * lanes
    end = part.end if whole == plan.length else b.intrinsic("smin", part.end, whole)
    start = [reduction.start(lanes) for reduction in plan.reductions]
    first = b.add(part.begin, b.mul(lane, lanes))
    found = _reduced(t, rows, part, first, end, start, e)
    totals: list[Value] = []
    for reduction, vector in zip(plan.reductions, found, strict=True):
        total = b.extract(vector, 0)
        for n in range(1, lanes):
            total = reduction.combine(b, total, b.extract(vector, n))
        totals.append(total)
    if whole == plan.length:
        return totals
    stop = b.select(part.is_last, b.const(I64, plan.length), whole)
    return _reduced(t, rows, part, b.add(lane, whole), stop, totals, t.e)


def _reduced(
    t: ThreadBuild,
    rows: RowReduction,
    part: _Part,
    first: Value,
    stop: Value,
    initial: list[Value],
    e: ElementalEmitter,
) -> list[Value]:
    """Reduces every ``rows.threads``-th element or vector from the first on."""
    b, plan = t.b, rows.plan
    lanes = e.lanes if isinstance(e, VectorEmitter) else 1
    step = rows.threads * lanes
    with b.carried_loop(first, stop, step, initial=initial) as loop, e.scope():
        if isinstance(e, VectorEmitter):
            e.at.start(loop.index, lanes)
        is_flat = isinstance(e, FlatEmitter)
        index = (loop.index,) if is_flat else plan.index(e.at, part.row, loop.index)
        pairs = zip(plan.reductions, loop.values, strict=True)
        held = [f.combine(b, v, e.element(f.reduce.operands[0], index)) for f, v in pairs]
        store_others(t, plan, e, index)
        loop.carry(*held)
    return list(loop.values)


def store_others(t: ThreadBuild, plan: ReductionPlan, e: ElementalEmitter, index: Index) -> None:
    """Writes what else is computed from the elements at an index."""
    for root, number in plan.stores:
        element, result = e.element(root, index), t.results[number]
        if not isinstance(e, VectorEmitter):
            result.store(t.b, index, element)
            continue
        position: IndexValue = e.offset(result, index)
        store_element(t.b, result.base, position, result.shape.element_type, element)
