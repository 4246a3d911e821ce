"""Reductions by any associative computation: of several arrays (argmax), of complex numbers.

The computation may have no neutral element and need not be commutative. So each thread reduces
neighbours, and what threads have is reduced with their neighbours', in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod

from xladev.codegen.elemental.choose import flat, unflat
from xladev.codegen.elemental.computation import Elements, emit_computation
from xladev.codegen.elemental.reduction import reduction_loop
from xladev.codegen.elemental.vectors import is_row_major
from xladev.codegen.index import Index, IndexMath, IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import Value
from xladev.codegen.scalar.storage import load_element, store_element
from xladev.codegen.simt.grids import each_thread
from xladev.codegen.simt.kernel_kind import KernelKind, Stage, ThreadBuild
from xladev.codegen.simt.launch_plan import BLOCK
from xladev.codegen.simt.machine import SimtMachine
from xladev.codegen.simt.primitives import (
    barrier,
    block_number,
    shared_memory,
    thread_in_block,
)
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction

LEAST = 64
"""Elements below which one thread reduces them."""
PART = 1 << 14
"""Most elements that a block reduces, unless there are rows for all blocks."""
ENOUGH_ROWS = 264
ENOUGH_THREADS = 1 << 16
"""Threads that reduce columns, if these are cut into parts for them."""
LEAST_PART = 32
"""Elements of such a part."""
_ALIGNMENT = 64

_ASSOCIATIVE = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "compare", "select", "minimum",
    "maximum", "and", "or", "xor", "not", "add", "multiply", "copy",
})  # fmt: skip
"""Opcodes of computations that are taken to be associative, as HLO asks of reducers."""

Load = Callable[[Value], Elements]
"""Reads the elements at a position of what is reduced."""


@dataclass(frozen=True, slots=True)
class GeneralReduction:
    """A reduce whose elements keep their order.

    Attributes:
        reduce: the instruction.
    """

    reduce: HloInstruction

    @property
    def count(self) -> int:
        """Arrays that are reduced together."""
        return len(self.reduce.operands) // 2

    @property
    def dtypes(self) -> tuple[PrimitiveType, ...]:
        """Of the elements of each array."""
        return tuple(o.shape.element_type for o in self.reduce.operands[: self.count])

    @property
    def dims(self) -> tuple[int, ...]:
        """Of the arrays."""
        return self.reduce.operands[0].shape.dims

    @property
    def reduced(self) -> tuple[int, ...]:
        """Dimensions that are reduced, in order."""
        return tuple(sorted(self.reduce["dimensions"]))

    @property
    def kept_dims(self) -> tuple[int, ...]:
        """Dimensions of the results."""
        return tuple(n for d, n in enumerate(self.dims) if d not in self.reduced)

    @property
    def kept(self) -> int:
        """Elements of a result."""
        return prod(self.kept_dims)

    @property
    def length(self) -> int:
        """Elements that become one."""
        return prod(self.dims[d] for d in self.reduced)

    @property
    def is_along_rows(self) -> bool:
        """True if neighbours in memory are reduced together."""
        inner = [d for d, n in enumerate(self.dims) if n != 1]
        return not inner or inner[-1] in self.reduced

    @property
    def parts(self) -> int:
        """Parts of a row or column, each of which one block or thread reduces."""
        if self.is_along_rows:
            return 1 if self.kept >= ENOUGH_ROWS else -(-self.length // PART)
        return max(1, min(ENOUGH_THREADS // self.kept, self.length // LEAST_PART, BLOCK))

    @property
    def part(self) -> int:
        """Elements of a part; the last one may have fewer, but has some."""
        return -(-self.length // self.parts)

    def offsets(self, states: int) -> tuple[int, ...]:
        """Where each array of so many states begins, then the size of all; in bytes."""
        found = [0]
        for dtype in self.dtypes:
            nbytes = states * max(1, dtype.host_nbytes)
            found.append(found[-1] + -(-nbytes // _ALIGNMENT) * _ALIGNMENT)
        return tuple(found)

    def element(self, t: ThreadBuild, kept: IndexValue, position: IndexValue) -> Elements:
        """The elements of all arrays at positions in what is kept and what is reduced."""
        at = self._index(t.e.at, kept, position)
        return tuple(t.e.element(o, at) for o in self.reduce.operands[: self.count])

    def _index(self, at: IndexMath, kept: IndexValue, position: IndexValue) -> Index:
        outer = iter(at.delinear(kept, self.kept_dims))
        inner = iter(at.delinear(position, [self.dims[d] for d in self.reduced]))
        return tuple(next(inner if d in self.reduced else outer) for d in range(len(self.dims)))

    def combine(self, t: ThreadBuild, held: Elements, new: Elements) -> Elements:
        """Two states as one; the first comes before the second."""
        return emit_computation(t.e, self.reduce["to_apply"], held + new)

    def store_result(self, t: ThreadBuild, kept: Value, total: Elements) -> None:
        """Combines what the reduce starts from with the total."""
        initial = tuple(t.e.element(o, ()) for o in self.reduce.operands[self.count :])
        for result, element in zip(t.results, self.combine(t, initial, total), strict=True):
            store_element(t.b, result.base, kept, result.shape.element_type, element)


def general_reduction_kind(spec: KernelSpec, machine: SimtMachine) -> KernelKind | None:
    """The kind of kernels that are one reduce, of what no other kind reduces."""
    reduction = _general_reduction(spec.computation.root, machine.shared_nbytes)
    if reduction is None or not (reduction.is_along_rows or reduction.parts > 1):
        return None
    if not reduction.is_along_rows:
        stages = Stage(partial(_each_part, reduction)), Stage(partial(_each_column, reduction))
        return KernelKind("general column reduction", stages, _workspace_nbytes(reduction))
    shared = reduction.offsets(BLOCK)[-1]
    if reduction.parts == 1:
        return KernelKind("general reduction", (Stage(partial(_each_row, reduction), shared),))
    stages = (
        Stage(partial(_each_row, reduction), shared),
        Stage(partial(_each_row_of_parts, reduction), shared),
    )
    return KernelKind("general reduction in parts", stages, _workspace_nbytes(reduction))


def _workspace_nbytes(reduction: GeneralReduction) -> int:
    return reduction.offsets(reduction.kept * reduction.parts)[-1]


def _general_reduction(root: HloInstruction, shared_nbytes: int) -> GeneralReduction | None:
    if root.opcode != "reduce":
        return None
    reduction = GeneralReduction(root)
    results = [leaf for _, leaf in root.shape.leaves()]
    arrays = [o.shape for o in root.operands[: reduction.count]]
    if not all(map(is_row_major, (*results, *arrays))) or not arrays[0].size:
        return None
    known = all(i.opcode in _ASSOCIATIVE for i in root["to_apply"].instructions)
    fits = reduction.offsets(BLOCK)[-1] <= shared_nbytes
    return reduction if known and fits and reduction.length >= LEAST else None


# States in memory


def _put(
    t: ThreadBuild,
    reduction: GeneralReduction,
    base: Value,
    states: int,
    at: Value,
    state: Elements,
) -> None:
    for dtype, offset, element in zip(
        reduction.dtypes, reduction.offsets(states), state, strict=False
    ):
        store_element(t.b, t.b.byte_address(base, offset), at, dtype, element)


def _get(
    t: ThreadBuild, reduction: GeneralReduction, base: Value, states: int, at: Value
) -> Elements:
    pairs = zip(reduction.dtypes, reduction.offsets(states), strict=False)
    return tuple(load_element(t.b, t.b.byte_address(base, o), at, d) for d, o in pairs)


# Rows: a block for each part


def _each_row(reduction: GeneralReduction, t: ThreadBuild) -> LaunchDimensions:
    """A block for each part of each row."""
    b, block = t.b, block_number(t.b)
    row, number = b.udiv(block, reduction.parts), b.urem(block, reduction.parts)
    begin = b.mul(number, reduction.part)
    end = b.intrinsic("smin", b.add(begin, reduction.part), reduction.length)
    total = _over_block(
        t, reduction, begin, end, lambda position: reduction.element(t, row, position)
    )
    with b.when(b.icmp("eq", thread_in_block(b), 0)), t.e.scope():
        if reduction.parts == 1:
            reduction.store_result(t, block, total())
        else:
            _put(t, reduction, t.scratch, reduction.kept * reduction.parts, block, total())
    return LaunchDimensions((reduction.kept * reduction.parts, 1, 1), (BLOCK, 1, 1))


def _each_row_of_parts(reduction: GeneralReduction, t: ThreadBuild) -> LaunchDimensions:
    """A block for the parts of each row."""
    b, row = t.b, block_number(t.b)
    begin = b.mul(row, reduction.parts)
    states = reduction.kept * reduction.parts
    end = b.add(begin, reduction.parts)
    total = _over_block(
        t, reduction, begin, end, lambda at: _get(t, reduction, t.scratch, states, at)
    )
    with b.when(b.icmp("eq", thread_in_block(b), 0)), t.e.scope():
        reduction.store_result(t, row, total())
    return LaunchDimensions((reduction.kept, 1, 1), (BLOCK, 1, 1))


def _over_block(
    t: ThreadBuild, reduction: GeneralReduction, begin: Value, end: Value, load: Load
) -> Callable[[], Elements]:
    """What is between two positions combines to; the first thread may read it."""
    b, tid, shared = t.b, thread_in_block(t.b), shared_memory(t.b)
    each = b.udiv(b.add(b.sub(end, begin), BLOCK - 1), BLOCK)
    first = b.add(begin, b.mul(tid, each))
    stop = b.intrinsic("smin", b.add(first, each), end)
    with b.when(b.icmp("slt", first, stop)), t.e.scope():
        _put(t, reduction, shared, BLOCK, tid, _in_turn(t, reduction, first, stop, load))
    apart = 1
    while apart < BLOCK:
        barrier(b)
        other = b.add(tid, apart)
        has_other = b.icmp("slt", b.add(begin, b.mul(other, each)), end)
        is_first = b.icmp("eq", b.and_(tid, 2 * apart - 1), 0)
        with b.when(b.and_(is_first, has_other)), t.e.scope():
            mine, theirs = (_get(t, reduction, shared, BLOCK, at) for at in (tid, other))
            _put(t, reduction, shared, BLOCK, tid, reduction.combine(t, mine, theirs))
        apart *= 2
    return lambda: _get(t, reduction, shared, BLOCK, tid)


def _in_turn(
    t: ThreadBuild, reduction: GeneralReduction, first: Value, stop: Value, load: Load
) -> Elements:
    """What is between two positions, of which there are some, combines to."""
    start = load(first)
    with t.b.carried_loop(t.b.add(first, 1), stop, initial=flat(start)) as loop, t.e.scope():
        held = unflat(loop.values, start)
        loop.carry(*flat(reduction.combine(t, held, load(loop.index))))
    return unflat(loop.values, start)


# Columns: a thread for each part


def _each_part(reduction: GeneralReduction, t: ThreadBuild) -> LaunchDimensions:
    """A thread for each part of each column; neighbours have neighbouring columns."""
    b, states = t.b, reduction.kept * reduction.parts

    def one(thread: Value) -> None:
        column, number = b.urem(thread, reduction.kept), b.udiv(thread, reduction.kept)
        begin = b.mul(number, reduction.part)
        end = b.intrinsic("smin", b.add(begin, reduction.part), reduction.length)
        with b.when(b.icmp("slt", begin, end)), t.e.scope():
            total = _in_turn(t, reduction, begin, end, lambda x: reduction.element(t, column, x))
            _put(t, reduction, t.scratch, states, thread, total)

    return each_thread(t, states, one)


def _each_column(reduction: GeneralReduction, t: ThreadBuild) -> LaunchDimensions:
    """A thread for the parts of each column."""
    states = reduction.kept * reduction.parts
    last = -(-reduction.length // reduction.part)

    def one(column: Value) -> None:
        start = _get(t, reduction, t.scratch, states, column)

        def step(at: Index, held: Elements) -> Elements:
            number = t.e.at.add(t.e.at.mul(at[0], reduction.kept), reduction.kept)
            position = t.b.add(t.e.at.value(number), column)
            return reduction.combine(t, held, _get(t, reduction, t.scratch, states, position))

        total = reduction_loop(t.e, (last - 1,), start, step) if last > 1 else start
        reduction.store_result(t, column, total)

    return each_thread(t, reduction.kept, one)
