"""The element that a window of a select-and-scatter selects, and where it is."""

from __future__ import annotations

from xladev.codegen.elemental.choose import choose_many, flat, unflat
from xladev.codegen.elemental.computation import emit_computation
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.reduction import base_index, reduction_loop
from xladev.codegen.index import Index
from xladev.codegen.llvm import I1, I64, Value
from xladev.codegen.scalar.constants import constant_element
from xladev.codegen.scalar.elements import Element, real_of
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.selection_parts import SelectionParts


def selected(e: ElementalEmitter, i: HloInstruction, index: Index) -> tuple[Value, Index]:
    """Whether a select-and-scatter's window has any element, and where the selected one is."""
    parts = SelectionParts.of(i)
    operand = parts.operand
    dims = operand.shape.dims
    zero_index = tuple(e.b.const(I64, 0) for _ in dims)
    nothing = constant_element(operand.shape.element_type, 0)
    state: tuple[Element, ...] = (e.b.const(I1, 0), nothing, *zero_index)

    def step(inner: Index, held: tuple[Element, ...]) -> tuple[Element, ...]:
        inside, at = base_index(e, parts.window, dims, index, inner)

        def consider() -> tuple[Element, ...]:
            candidate = e.element(operand, at)
            (keep,) = emit_computation(e, parts.select, (held[1], candidate))
            chosen = e.b.and_(real_of(held[0], "found"), real_of(keep, "a selection"))
            taken = (e.b.const(I1, 1), candidate, *(e.at.value(x) for x in at))
            before = flat(held)
            values = [e.b.select(chosen, a, b) for a, b in zip(before, flat(taken), strict=True)]
            values[0] = e.b.const(I1, 1)
            return unflat(tuple(values), held)

        return choose_many(e, inside, consider, lambda: held)

    found, _, *at = reduction_loop(e, parts.extents, state, step)
    return real_of(found, "found"), tuple(real_of(x, "an index") for x in at)
