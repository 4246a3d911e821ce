"""Loop kernels: each thread computes a few neighbouring elements of the results, and nothing else.

The elements themselves come from the shared elemental emitters; here is only which thread computes
which, and in how wide accesses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.reduction import reduce_elements, reduce_window_elements
from xladev.codegen.elemental.vectors import (
    NotInVectorsError,
    VectorEmitter,
    is_row_major,
)
from xladev.codegen.index import Index
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.scalar.elements import Element
from xladev.codegen.scalar.storage import store_element
from xladev.codegen.simt.grids import index_in_layout
from xladev.codegen.simt.kernel_kind import KernelKind, Stage, ThreadBuild
from xladev.codegen.simt.kernels.merged import MergedEmitter
from xladev.codegen.simt.launch_plan import (
    BLOCK,
    Spread,
    launch_dimensions,
    widest_lanes,
)
from xladev.codegen.simt.primitives import thread_number
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape


def loops_kind(spec: KernelSpec) -> KernelKind:
    """The kind of kernels that compute their elements one by one."""
    return KernelKind("loop", (Stage(emit_loops),))


def emit_loops(t: ThreadBuild) -> LaunchDimensions:
    """Code for all results; each group of equal dimensions spreads over the same threads."""
    most = max((a.shape.size for a in t.results), default=1)
    thread = thread_number(t.b, BLOCK, most)
    spreads = [
        LoopGroup(t, roots, members).emit(thread, widest_lanes(t.spec, members[0].shape.size))
        for roots, members in _groups(t.spec.computation.root, t.results)
    ]
    return launch_dimensions(spreads)


def _groups(
    root: HloInstruction, results: Sequence[IrArray]
) -> list[tuple[list[HloInstruction], list[IrArray]]]:
    """Results of equal dimensions and layout, with what computes them; none for no elements."""
    roots = root.operands if root.opcode == "tuple" else (root,) * len(results)
    groups: dict[object, tuple[list[HloInstruction], list[IrArray]]] = {}
    for instruction, result in zip(roots, results, strict=True):
        if result.shape.size:
            key = (result.shape.dims, result.shape.minor_to_major)
            members = groups.setdefault(key, ([], []))
            members[0].append(instruction)
            members[1].append(result)
    return list(groups.values())


class LoopGroup:
    """Results of equal dimensions and layout, computed by the same threads.

    Args:
        t: the code of one thread.
        roots: what computes the results; one variadic reduce, or one instruction for each.
        results: where they are stored.
    """

    def __init__(
        self, t: ThreadBuild, roots: Sequence[HloInstruction], results: Sequence[IrArray]
    ) -> None:
        self.e = t.e
        self.b: FunctionBuilder = t.b
        self.vector_rules = t.vector_rules
        self.roots = roots
        self.results = results
        self.shape: Shape = results[0].shape

    def emit(self, thread: Value, widest: int) -> Spread:
        """Writes the code of one thread; how the elements are spread.

        Args:
            thread: its number, i64.
            widest: elements that one thread should compute, if they are neighbours.
        """
        for lanes in _halved(widest):
            spread = Spread(self.shape.size, lanes)
            for emit in (self._flat, self._along_rows):
                if self._attempt(emit, spread, thread):
                    return spread
        spread = Spread(self.shape.size, 1)
        with self.b.when(self.b.icmp("ult", thread, spread.threads)), self.e.scope():
            self._single(thread)
        return spread

    def _attempt(
        self, emit: Callable[[Spread, Value], None], spread: Spread, thread: Value
    ) -> bool:
        """Emits vectors; False, and nothing is emitted, where that cannot be."""
        mark, functions, held = self.b.mark(), self.b.module.mark(), self.e.scopes()
        try:
            emit(spread, thread)
        except NotInVectorsError:
            self.b.reset(mark)
            self.b.module.reset(functions)
            self.e.leave(held)
            return False
        return True

    # One element

    def _single(self, position: Value) -> None:
        """The element at a position of memory order."""
        index = self._index(self.e, position)
        for result, element in zip(self.results, self._elements(index), strict=True):
            result.store(self.b, index, element)

    def _index(self, e: ElementalEmitter, position: Value) -> Index:
        """Coordinates of a position of memory order."""
        return index_in_layout(e, self.shape, position)

    def _elements(self, index: Index) -> Sequence[Element]:
        variadic = _VARIADIC.get(self.roots[0].opcode)
        if variadic is not None and len(set(self.roots)) == 1:
            return variadic(self.e, self.roots[0], index)
        return [self.e.element(root, index) for root in self.roots]

    # Vectors

    def _flat(self, spread: Spread, thread: Value) -> None:
        """All arrays in the same order, or spread over it: a vector has one position."""
        if not is_row_major(self.shape):
            raise NotInVectorsError("a result in another order")
        e = MergedEmitter(self.e, spread.lanes)
        self._in_vectors(spread, thread, e, lambda at: (at,))

    def _along_rows(self, spread: Spread, thread: Value) -> None:
        """Vectors within rows, which are whole numbers of vectors."""
        inner = next((d for d in self.shape.minor_to_major if self.shape.dims[d] != 1), None)
        if inner is None or self.shape.dims[inner] % spread.lanes:
            raise NotInVectorsError("rows that are no whole number of vectors")
        e = VectorEmitter(self.e, spread.lanes, self.vector_rules)
        self._in_vectors(spread, thread, e, lambda at: self._index(e, at))

    def _in_vectors(
        self, spread: Spread, thread: Value, e: VectorEmitter, index: Callable[[Value], Index]
    ) -> None:
        if any(_is_one_by_one(root) for root in self.roots):
            raise NotInVectorsError("a reduction is computed element by element")
        with self.b.when(self.b.icmp("ult", thread, spread.vectors)), e.scope():
            at = self.b.binary("mul nuw nsw", thread, spread.lanes)
            e.at.start(at, spread.lanes)
            self._vector(e, index(at), at)
        if spread.threads > spread.vectors:
            self._rest(spread, thread)

    def _vector(self, e: VectorEmitter, index: Index, at: Value) -> None:
        """Stores at a position of memory order, whose alignment LLVM sees, not at an index."""
        elements = [e.element(root, index) for root in self.roots]
        for result, element in zip(self.results, elements, strict=True):
            dtype = result.shape.element_type
            store_element(self.b, result.base, at, dtype, element)

    def _rest(self, spread: Spread, thread: Value) -> None:
        """The elements after the last whole vector, one for each of the threads that follow."""
        place = self.b.sub(thread, spread.vectors)
        inside = self.b.icmp("ult", place, spread.threads - spread.vectors)
        with self.b.when(inside), self.e.scope():
            self._single(self.b.add(place, spread.vectors * spread.lanes))


def _halved(lanes: int) -> Sequence[int]:
    """Powers of two from the largest in ``lanes`` down to 2."""
    return [1 << n for n in range(lanes.bit_length() - 1, 0, -1)]


def _is_one_by_one(root: HloInstruction) -> bool:
    """Whether a result is reduced from elements that are no vectors; windows of channels are."""
    return root.opcode == "reduce" or (root.opcode in _VARIADIC and len(root.operands) != 2)


_VARIADIC = {"reduce": reduce_elements, "reduce-window": reduce_window_elements}
"""Opcodes with a result for each operand, computed in one loop."""
