"""Elements of opcodes that combine many elements: reduce, reduce-window, map."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import prod
from types import MappingProxyType

from xladev.codegen.elemental.choose import choose_many, flat, unflat
from xladev.codegen.elemental.computation import Elements, emit_computation
from xladev.codegen.elemental.emitter import ElementalEmitter, ElementRule
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import Value
from xladev.codegen.scalar.elements import Element, real_of
from xladev.codegen.scalar.elementwise import emit_elementwise
from xladev.codegen.scalar.storage import round_to
from xladev.hlo import dtype as dt
from xladev.hlo.attributes import WindowDim
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.reduction_parts import ReductionParts

MOST_WRITTEN = 9
"""Elements of a window along vectors up to which each is written out: it then is known in which
vectors it is padding."""


def reduction_loop(
    e: ElementalEmitter,
    extents: Sequence[int],
    initial: Elements,
    step: Callable[[Index, Elements], Elements],
    unrolled: AbstractSet[int] = frozenset(),
) -> Elements:
    """Carries elements through nested loops over ``extents``, outermost first.

    Args:
        e: where to emit.
        extents: how often each loop runs.
        initial: what is carried first.
        step: from an index and what is carried to what is carried next.
        unrolled: numbers of loops that are written out.
    """
    return _reduction(e, tuple(extents), (), initial, step, unrolled)


def _reduction(
    e: ElementalEmitter,
    extents: tuple[int, ...],
    outer: Index,
    initial: Elements,
    step: Callable[[Index, Elements], Elements],
    unrolled: AbstractSet[int],
) -> Elements:
    if not extents:
        return step(outer, initial)
    if extents[0] == 1 or len(outer) in unrolled:
        for n in range(extents[0]):
            initial = _reduction(e, extents[1:], (*outer, n), initial, step, unrolled)
        return initial
    with e.b.carried_loop(0, extents[0], initial=flat(initial)) as loop, e.scope():
        held = unflat(loop.values, initial)
        after = _reduction(e, extents[1:], (*outer, loop.index), held, step, unrolled)
        loop.carry(*flat(after))
    return unflat(loop.values, initial)


Combine = Callable[[Elements, Elements], Elements]


def accumulation(e: ElementalEmitter, i: HloInstruction) -> Combine:
    """How elements are combined with what is held: by the reducer, unless sums are kept wide."""
    opcode = _kept_wide(i)
    if not opcode:
        reducer = ReductionParts.of(i).reducer
        return lambda held, new: emit_computation(e, reducer, held + new)
    wide = (dt.F32, dt.F32)
    return lambda held, new: (emit_elementwise(e.b, opcode, wide, dt.F32, (held[0], new[0])),)


def _kept_wide(i: HloInstruction) -> str:
    """The opcode of a reducer that adds or multiplies two narrow floats; empty for others.

    Such a result is accumulated in f32 and rounded once, as the evaluator does.
    """
    computation = ReductionParts.of(i).reducer
    root, dtype = computation.root, computation.root.shape.element_type
    plain = (
        len(computation.instructions) == 3
        and root.opcode in ("add", "multiply")
        and set(root.operands) == set(computation.parameters)
    )
    return root.opcode if plain and dtype.is_narrow_float else ""


def _rounded(e: ElementalEmitter, i: HloInstruction, held: Elements) -> Elements:
    if not _kept_wide(i):
        return held
    dtype = ReductionParts.of(i).reducer.root.shape.element_type
    return (round_to(e.b, real_of(held[0], "a sum"), dtype),)


def reduce_elements(e: ElementalEmitter, i: HloInstruction, index: Index) -> Elements:
    """One element of each result of a (variadic) reduce."""
    return reduce_together(e, (i,), index, lambda full: None)


def reduce_together(
    e: ElementalEmitter,
    reduces: Sequence[HloInstruction],
    index: Index,
    visit: Callable[[Index], None],
) -> Elements:
    """One element of each result of reduces over the same dimensions, in one loop.

    Args:
        e: where to emit.
        reduces: all of operands of the same dimensions, and reducing the same of them.
        index: which element of each result.
        visit: called within the loop, where it may emit what else belongs to an index of the
            operands.

    Returns:
        The results of each reduce, one after another.
    """
    dims = reduces[0].operands[0].shape.dims
    reduced = ReductionParts.of(reduces[0]).dims
    reductions = [_Reduction(e, i) for i in reduces]

    def step(inner: Index, held: Elements) -> Elements:
        at = iter(inner)
        kept = iter(index)
        full = tuple(next(at) if d in reduced else next(kept) for d in range(len(dims)))
        new = [tuple(e.element(a, full) for a in reduction.arrays) for reduction in reductions]
        visit(full)
        after = [
            reduction.combine(part, elements)
            for reduction, part, elements in zip(
                reductions, _parts(reductions, held), new, strict=True
            )
        ]
        return tuple(element for elements in after for element in elements)

    initial = tuple(e.element(init, ()) for reduction in reductions for init in reduction.inits)
    extents = [dims[d] for d in range(len(dims)) if d in reduced]
    in_parts = [
        _is_long_sum(i, extents)
        for i, reduction in zip(reduces, reductions, strict=True)
        for _ in reduction.arrays
    ]
    found = _reduce_in_parts(e, extents, initial, step, in_parts)
    parts = zip(reduces, _parts(reductions, found), strict=True)
    return tuple(element for i, part in parts for element in _rounded(e, i, part))


class _Reduction:
    """One of the reduces of a loop: what it reads and how it combines."""

    def __init__(self, e: ElementalEmitter, i: HloInstruction) -> None:
        parts = ReductionParts.of(i)
        self.arrays, self.inits = parts.arrays, parts.inits
        self.combine = accumulation(e, i)


def _parts(reductions: Sequence[_Reduction], held: Elements) -> list[Elements]:
    """What is held, apart by reduce."""
    left = iter(held)
    return [tuple(next(left) for _ in reduction.arrays) for reduction in reductions]


_PART = 1024
"""Most terms that are added one after the other: rounding grows with their number."""


def _is_long_sum(i: HloInstruction, extents: Sequence[int]) -> bool:
    """True for a sum of so many floats that one accumulator would lose digits."""
    reducer = ReductionParts.of(i).reducer
    root = reducer.root
    plain = len(reducer.instructions) == 3 and root.opcode == "add"
    return plain and root.shape.element_type.is_float and prod(extents) > _PART


def _reduce_in_parts(
    e: ElementalEmitter,
    extents: Sequence[int],
    initial: Elements,
    step: Callable[[Index, Elements], Elements],
    in_parts: Sequence[bool],
) -> Elements:
    """As `reduction_loop`; where ``in_parts``, each part of the last dimension is summed first."""
    if not any(in_parts):
        return reduction_loop(e, extents, initial, step)
    *outer, last = extents
    whole, rest = divmod(last, _PART)

    def begun(held: Element, sums: bool) -> Element:
        return e.b.const(real_of(held, "a sum").type, -0.0) if sums else held

    def ended(held: Element, part: Element, sums: bool) -> Element:
        return e.b.fadd(real_of(held, "a sum"), real_of(part, "a sum")) if sums else part

    def added(at: Index, start: IndexValue, count: int, held: Elements) -> Elements:
        def next_term(inner: Index, total: Elements) -> Elements:
            return step((*at, e.at.add(start, inner[0])), total)

        part = reduction_loop(e, (count,), tuple(map(begun, held, in_parts)), next_term)
        return tuple(map(ended, held, part, in_parts))

    def row(at: Index, held: Elements) -> Elements:
        held = reduction_loop(
            e,
            (whole,),
            held,
            lambda part, total: added(at, e.at.mul(part[0], _PART), _PART, total),
        )
        return added(at, whole * _PART, rest, held) if rest else held

    return reduction_loop(e, outer, initial, row)


def _reduce(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    return reduce_elements(e, i, index)[0]


def window_position(
    e: ElementalEmitter, window: Sequence[WindowDim], output: Index, inner: Index
) -> Index:
    """Coordinates of a window element in the dilated base; may be outside of it."""
    padded: list[IndexValue] = []
    for w, out, k in zip(window, output, inner, strict=True):
        offset = e.at.sub(w.size - 1, k) if w.reversal else k
        at = e.at.add(e.at.mul(out, w.stride), e.at.mul(offset, w.window_dilation))
        padded.append(e.at.sub(at, w.pad_low))
    return tuple(padded)


def base_index(
    e: ElementalEmitter,
    window: Sequence[WindowDim],
    dims: Sequence[int],
    output: Index,
    inner: Index,
) -> tuple[Value | bool, Index]:
    """Where a window element is in the base, and whether it is an element at all.

    Args:
        e: where to emit.
        window: the window, one entry per dimension.
        dims: sizes of the base.
        output: position of the window.
        inner: position within the window.

    Returns:
        A condition (padding and dilation holes are not elements), and the base coordinates.
    """
    inside: list[Value | bool] = []
    mapped: list[IndexValue] = []
    padded = window_position(e, window, output, inner)
    for w, size, x in zip(window, dims, padded, strict=True):
        extent = (size - 1) * w.base_dilation + 1 if size else 0
        if not _always_inside(w, size):
            inside.append(e.at.within(x, 0, extent))
        if w.base_dilation > 1:
            hole = e.at.uniform(e.at.rem(x, w.base_dilation))
            inside.append(hole == 0 if isinstance(hole, int) else e.b.icmp("eq", hole, 0))
            x = e.at.div(x, w.base_dilation)
        mapped.append(x)
    return e.at.all_of(inside), tuple(mapped)


def _always_inside(w: WindowDim, size: int) -> bool:
    """True if no padding is ever seen in this dimension."""
    return w.pad_low <= 0 and w.pad_high <= 0 and w.base_dilation == 1 and size > 0


def reduce_window_elements(e: ElementalEmitter, i: HloInstruction, index: Index) -> Elements:
    """One element of each result of a (variadic) reduce-window."""
    parts = ReductionParts.of(i)
    arrays, inits, window = parts.arrays, parts.inits, parts.window
    initial = tuple(e.element(init, ()) for init in inits)

    def step(inner: Index, held: Elements) -> Elements:
        inside, at = base_index(e, window, arrays[0].shape.dims, index, inner)

        def combine() -> Elements:
            return accumulate(held, tuple(e.element(a, at) for a in arrays))

        return choose_many(e, inside, combine, lambda: accumulate(held, initial))

    accumulate = accumulation(e, i)
    unrolled = {
        d
        for d, (x, w) in enumerate(zip(index, window, strict=True))
        if e.at.moves(x)
        and w.size <= MOST_WRITTEN
        and not _always_inside(w, arrays[0].shape.dims[d])
    }
    extents = [w.size for w in window]
    return _rounded(e, i, reduction_loop(e, extents, initial, step, unrolled))


def _reduce_window(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    return reduce_window_elements(e, i, index)[0]


def _map(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    elements = tuple(e.element(o, index) for o in i.operands)
    return emit_computation(e, i["to_apply"], elements)[0]


REDUCTION_RULES: Mapping[str, ElementRule] = MappingProxyType(
    {"reduce": _reduce, "reduce-window": _reduce_window, "map": _map}
)
"""Code by opcode; variadic forms have one function per kernel instead."""
