"""Select-and-scatter in vectors: windows that are side by side select at once.

Each lane remembers the number of the element that its window selects; then the windows are gone
through again, and lanes whose element has come by change it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from xladev.codegen.elemental.choose import choose_many, flat, unflat
from xladev.codegen.elemental.computation import Elements, emit_computation
from xladev.codegen.elemental.reduction import base_index, reduction_loop
from xladev.codegen.elemental.vectors import NotInVectorsError, VectorEmitter
from xladev.codegen.index import Index, IndexMath, IndexValue
from xladev.codegen.llvm import I1, I32, Value, vector
from xladev.codegen.scalar.constants import constant_element
from xladev.codegen.scalar.elements import Element, real_of
from xladev.hlo.attributes import WindowDim
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.selection_parts import SelectionParts
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.tiling import innermost
from xladev.platforms.cpu.codegen.vectors import in_vectors_and_rest, lanes_for, store_at

SINGLE_OPCODE = 3
"""Instructions in a computation of one opcode: vectors need not look into larger ones."""


@dataclass(frozen=True, slots=True)
class SelectedInVectors:
    """The loops of one kernel, without those that fill the result.

    Attributes:
        k: the kernel.
        parts: what it computes.
        e: emits vectors along the innermost dimension.
    """

    k: KernelBuild
    parts: SelectionParts
    e: VectorEmitter

    def window(self, index: Index, inner: Index) -> tuple[Value | bool, Index, Value]:
        """Whether an element of the windows is one, where it is, and its number."""
        parts = self.parts
        inside, at = base_index(self.e, parts.window, parts.operand.shape.dims, index, inner)
        position = IndexMath(self.e.b).linear(inner, parts.extents)
        number = self.e.b.resize(self.e.at.value(position), I32, signed=False)
        return inside, at, self.e.b.splat(number, self.e.lanes)

    def select(self, index: Index) -> tuple[Value, Value]:
        """Which lanes select any element, and the number of that."""
        parts, b, lanes = self.parts, self.e.b, self.e.lanes
        nothing = constant_element(parts.operand.shape.element_type, 0, lanes)
        none = b.const(vector(I1, lanes), 0)
        state: Elements = (none, nothing, b.const(vector(I32, lanes), 0))

        def step(inner: Index, held: Elements) -> Elements:
            inside, at, number = self.window(index, inner)

            def consider() -> Elements:
                candidate = self.e.element(parts.operand, at)
                (keep,) = emit_computation(self.e, parts.select, (held[1], candidate))
                stays = b.and_(real_of(held[0], "found"), real_of(keep, "a selection"))
                taken = (b.const(vector(I1, lanes), 1), candidate, number)
                pairs = zip(flat(taken), flat(held), strict=True)
                values = [b.select(stays, old, new) for new, old in pairs]
                values[0] = b.const(vector(I1, lanes), 1)
                return unflat(tuple(values), held)

            return choose_many(self.e, inside, consider, lambda: held)

        found, _, number = reduction_loop(self.e, parts.extents, state, step)
        return real_of(found, "found"), real_of(number, "a number")

    def scatter(self, index: Index) -> None:
        """Adds vectors of the source where their windows selected."""
        parts, result = self.parts, self.k.results[0]
        found, chosen = self.select(index)
        new = self.e.element(parts.source, index)

        def step(inner: Index, held: Elements) -> Elements:
            inside, at, number = self.window(index, inner)

            def change() -> Elements:
                here = self.e.b.and_(found, self.e.b.icmp("eq", chosen, number))
                before = self.e.load(result, at)
                (after,) = emit_computation(self.e, parts.scatter, (before, new))
                self._store(at, here, before, after)
                return ()

            choose_many(self.e, inside, change, lambda: ())
            return held

        reduction_loop(self.e, parts.extents, (), step)

    def _store(self, at: Index, here: Value, before: Element, after: Element) -> None:
        old, new = real_of(before, "a result"), real_of(after, "a result")
        result = self.k.results[0]
        value = self.e.b.select(here, new, old)
        store_at(self.k, result, self.e.offset(result, at), value)


SingleSource = Callable[[Index], None]
"""Emits the windows of one element of the source."""


def select_and_scatter_in_vectors(k: KernelBuild, single: SingleSource) -> bool:
    """Goes over the source in vectors, and calls ``single`` for what is left of its rows.

    False, and nothing is emitted, where windows are not side by side.
    """
    i: HloInstruction = k.root
    parts = SelectionParts.of(i)
    shape = parts.source.shape
    inner = innermost(shape)
    if inner is None or not _is_plain(i, parts, inner):
        return False
    lanes = lanes_for(k, shape.dims[inner])
    order = [d for d in reversed(shape.minor_to_major) if d != inner]

    def emit() -> None:
        if lanes == 1:
            raise NotInVectorsError("no vectors of such rows")
        loops = SelectedInVectors(k, parts, VectorEmitter(k.e, lanes))

        def row(outer: Index) -> None:
            at = dict(zip(order, outer, strict=True))

            def index(x: IndexValue) -> Index:
                return tuple(at.get(d, x) for d in range(shape.rank))

            extent = shape.dims[inner]
            in_vectors_and_rest(
                loops.e, 0, extent, lambda x: loops.scatter(index(x)), lambda x: single(index(x))
            )

        extents, apart = [shape.dims[d] for d in order], windows_apart(i, order)
        k.split_nest(
            extents[:apart], lambda outer: k.nest(extents[apart:], lambda at: row((*outer, *at)))
        )

    return k.attempt(emit)


def windows_apart(i: HloInstruction, order: Sequence[int]) -> int:
    """How many dimensions, of the first in an order, have windows that never meet."""
    plain, window = WindowDim(1), SelectionParts.of(i).window
    return next((n for n, d in enumerate(order) if window[d] != plain), len(order))


def _is_plain(i: HloInstruction, parts: SelectionParts, inner: int) -> bool:
    """True if windows have one element along rows, and both computations are of one opcode."""
    if i.shape.element_type.is_complex or prod(parts.extents) >= 1 << 31:
        return False
    w = parts.window[inner]
    beside = (w.size, w.stride, w.pad_low, w.pad_high, w.base_dilation) == (1, 1, 0, 0, 1)
    return beside and all(
        len(c.instructions) == SINGLE_OPCODE for c in (parts.select, parts.scatter)
    )
