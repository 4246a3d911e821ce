"""Reductions by any associative computation: of several arrays (argmax), of complex numbers.

Nothing is known that changes no element, and nothing says that elements may change places. So each
thread folds neighbours, and what threads have is folded with their neighbours', in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod

from xladev.codegen.elemental.choose import flat, unflat
from xladev.codegen.elemental.computation import Elements, emit_computation
from xladev.codegen.elemental.reduction import fold_loop
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
"""Elements below which one thread folds them."""
PART = 1 << 14
"""Most elements that a block folds, unless there are rows for all blocks."""
ENOUGH_ROWS = 264
ENOUGH_THREADS = 1 << 16
"""Threads that fold columns, if these are cut into parts for them."""
LEAST_PART = 32
"""Elements of such a part."""
_ALIGNMENT = 64

_ASSOCIATIVE = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "compare", "select", "minimum",
    "maximum", "and", "or", "xor", "not", "add", "multiply", "copy",
})  # fmt: skip
"""Opcodes of computations that are taken to be associative, as HLO asks of reducers."""

Load = Callable[[Value], Elements]
"""Reads the elements at a place of what is folded."""


@dataclass(frozen=True, slots=True)
class GeneralFold:
    """A reduce whose elements keep their order.

    Attributes:
        reduce: the instruction.
    """

    reduce: HloInstruction

    @property
    def count(self) -> int:
        """Arrays that are folded together."""
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
    def folded(self) -> tuple[int, ...]:
        """Dimensions that are folded, in order."""
        return tuple(sorted(self.reduce["dimensions"]))

    @property
    def kept_dims(self) -> tuple[int, ...]:
        """Dimensions of the results."""
        return tuple(n for d, n in enumerate(self.dims) if d not in self.folded)

    @property
    def kept(self) -> int:
        """Elements of a result."""
        return prod(self.kept_dims)

    @property
    def length(self) -> int:
        """Elements that become one."""
        return prod(self.dims[d] for d in self.folded)

    @property
    def is_along_rows(self) -> bool:
        """True if neighbours in memory are folded together."""
        inner = [d for d, n in enumerate(self.dims) if n != 1]
        return not inner or inner[-1] in self.folded

    @property
    def parts(self) -> int:
        """Parts of a row or column, each of which one block or thread folds."""
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

    def element(self, t: ThreadBuild, kept: IndexValue, place: IndexValue) -> Elements:
        """The elements of all arrays at positions in what is kept and what is folded."""
        at = self._index(t.e.at, kept, place)
        return tuple(t.e.element(o, at) for o in self.reduce.operands[: self.count])

    def _index(self, at: IndexMath, kept: IndexValue, place: IndexValue) -> Index:
        outer = iter(at.delinear(kept, self.kept_dims))
        inner = iter(at.delinear(place, [self.dims[d] for d in self.folded]))
        return tuple(next(inner if d in self.folded else outer) for d in range(len(self.dims)))

    def combine(self, t: ThreadBuild, held: Elements, new: Elements) -> Elements:
        """Two states as one; the first comes before the second."""
        return emit_computation(t.e, self.reduce["to_apply"], held + new)

    def store_result(self, t: ThreadBuild, kept: Value, total: Elements) -> None:
        """Combines what the reduce starts from with the total."""
        initial = tuple(t.e.element(o, ()) for o in self.reduce.operands[self.count :])
        for result, element in zip(t.results, self.combine(t, initial, total), strict=True):
            store_element(t.b, result.base, kept, result.shape.element_type, element)


def general_fold_kind(spec: KernelSpec, machine: SimtMachine) -> KernelKind | None:
    """The kind of kernels that are one reduce, of what no other kind folds."""
    fold = _general_fold(spec.computation.root, machine.shared_nbytes)
    if fold is None or not (fold.is_along_rows or fold.parts > 1):
        return None
    if not fold.is_along_rows:
        stages = Stage(partial(_each_part, fold)), Stage(partial(_each_column, fold))
        return KernelKind("general column fold", stages, _workspace_nbytes(fold))
    shared = fold.offsets(BLOCK)[-1]
    if fold.parts == 1:
        return KernelKind("general fold", (Stage(partial(_each_row, fold), shared),))
    stages = (
        Stage(partial(_each_row, fold), shared),
        Stage(partial(_each_row_of_parts, fold), shared),
    )
    return KernelKind("general fold in parts", stages, _workspace_nbytes(fold))


def _workspace_nbytes(fold: GeneralFold) -> int:
    return fold.offsets(fold.kept * fold.parts)[-1]


def _general_fold(root: HloInstruction, shared_nbytes: int) -> GeneralFold | None:
    if root.opcode != "reduce":
        return None
    fold = GeneralFold(root)
    results = [leaf for _, leaf in root.shape.leaves()]
    arrays = [o.shape for o in root.operands[: fold.count]]
    if not all(map(is_row_major, (*results, *arrays))) or not arrays[0].size:
        return None
    known = all(i.opcode in _ASSOCIATIVE for i in root["to_apply"].instructions)
    fits = fold.offsets(BLOCK)[-1] <= shared_nbytes
    return fold if known and fits and fold.length >= LEAST else None


# States in memory


def _put(
    t: ThreadBuild, fold: GeneralFold, base: Value, states: int, at: Value, state: Elements
) -> None:
    for dtype, offset, element in zip(fold.dtypes, fold.offsets(states), state, strict=False):
        store_element(t.b, t.b.byte_address(base, offset), at, dtype, element)


def _get(t: ThreadBuild, fold: GeneralFold, base: Value, states: int, at: Value) -> Elements:
    pairs = zip(fold.dtypes, fold.offsets(states), strict=False)
    return tuple(load_element(t.b, t.b.byte_address(base, o), at, d) for d, o in pairs)


# Rows: a block for each part


def _each_row(fold: GeneralFold, t: ThreadBuild) -> LaunchDimensions:
    """A block for each part of each row."""
    b, block = t.b, block_number(t.b)
    row, number = b.udiv(block, fold.parts), b.urem(block, fold.parts)
    begin = b.mul(number, fold.part)
    end = b.intrinsic("smin", b.add(begin, fold.part), fold.length)
    total = _over_block(t, fold, begin, end, lambda place: fold.element(t, row, place))
    with b.when(b.icmp("eq", thread_in_block(b), 0)), t.e.scope():
        if fold.parts == 1:
            fold.store_result(t, block, total())
        else:
            _put(t, fold, t.scratch, fold.kept * fold.parts, block, total())
    return LaunchDimensions((fold.kept * fold.parts, 1, 1), (BLOCK, 1, 1))


def _each_row_of_parts(fold: GeneralFold, t: ThreadBuild) -> LaunchDimensions:
    """A block for the parts of each row."""
    b, row = t.b, block_number(t.b)
    begin = b.mul(row, fold.parts)
    states = fold.kept * fold.parts
    end = b.add(begin, fold.parts)
    total = _over_block(t, fold, begin, end, lambda at: _get(t, fold, t.scratch, states, at))
    with b.when(b.icmp("eq", thread_in_block(b), 0)), t.e.scope():
        fold.store_result(t, row, total())
    return LaunchDimensions((fold.kept, 1, 1), (BLOCK, 1, 1))


def _over_block(
    t: ThreadBuild, fold: GeneralFold, begin: Value, end: Value, load: Load
) -> Callable[[], Elements]:
    """What lies between two places combines to; the first thread may read it."""
    b, tid, shared = t.b, thread_in_block(t.b), shared_memory(t.b)
    each = b.udiv(b.add(b.sub(end, begin), BLOCK - 1), BLOCK)
    first = b.add(begin, b.mul(tid, each))
    stop = b.intrinsic("smin", b.add(first, each), end)
    with b.when(b.icmp("slt", first, stop)), t.e.scope():
        _put(t, fold, shared, BLOCK, tid, _in_turn(t, fold, first, stop, load))
    apart = 1
    while apart < BLOCK:
        barrier(b)
        other = b.add(tid, apart)
        has_other = b.icmp("slt", b.add(begin, b.mul(other, each)), end)
        is_first = b.icmp("eq", b.and_(tid, 2 * apart - 1), 0)
        with b.when(b.and_(is_first, has_other)), t.e.scope():
            mine, theirs = (_get(t, fold, shared, BLOCK, at) for at in (tid, other))
            _put(t, fold, shared, BLOCK, tid, fold.combine(t, mine, theirs))
        apart *= 2
    return lambda: _get(t, fold, shared, BLOCK, tid)


def _in_turn(t: ThreadBuild, fold: GeneralFold, first: Value, stop: Value, load: Load) -> Elements:
    """What lies between two places, of which there are some, combines to."""
    start = load(first)
    with t.b.carried_loop(t.b.add(first, 1), stop, initial=flat(start)) as loop, t.e.scope():
        held = unflat(loop.values, start)
        loop.carry(*flat(fold.combine(t, held, load(loop.index))))
    return unflat(loop.values, start)


# Columns: a thread for each part


def _each_part(fold: GeneralFold, t: ThreadBuild) -> LaunchDimensions:
    """A thread for each part of each column; neighbours have neighbouring columns."""
    b, states = t.b, fold.kept * fold.parts

    def one(thread: Value) -> None:
        column, number = b.urem(thread, fold.kept), b.udiv(thread, fold.kept)
        begin = b.mul(number, fold.part)
        end = b.intrinsic("smin", b.add(begin, fold.part), fold.length)
        with b.when(b.icmp("slt", begin, end)), t.e.scope():
            total = _in_turn(t, fold, begin, end, lambda x: fold.element(t, column, x))
            _put(t, fold, t.scratch, states, thread, total)

    return each_thread(t, states, one)


def _each_column(fold: GeneralFold, t: ThreadBuild) -> LaunchDimensions:
    """A thread for the parts of each column."""
    states = fold.kept * fold.parts
    last = -(-fold.length // fold.part)

    def one(column: Value) -> None:
        start = _get(t, fold, t.scratch, states, column)

        def step(at: Index, held: Elements) -> Elements:
            number = t.e.at.add(t.e.at.mul(at[0], fold.kept), fold.kept)
            place = t.b.add(t.e.at.value(number), column)
            return fold.combine(t, held, _get(t, fold, t.scratch, states, place))

        total = fold_loop(t.e, (last - 1,), start, step) if last > 1 else start
        fold.store_result(t, column, total)

    return each_thread(t, fold.kept, one)
