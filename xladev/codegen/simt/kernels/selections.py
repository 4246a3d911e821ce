"""Select-and-scatter: each element of the result looks at the windows that may have selected it.

So nothing is written by two threads, and sources are added in the order of their indices.
"""

from __future__ import annotations

from xladev.codegen.elemental.choose import choose_many
from xladev.codegen.elemental.computation import Elements, emit_computation
from xladev.codegen.elemental.reduction import reduction_loop
from xladev.codegen.elemental.selection import selected
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import Value
from xladev.codegen.simt.grids import each_thread, index_in_layout
from xladev.codegen.simt.kernel_kind import KernelKind, Stage, ThreadBuild
from xladev.codegen.simt.machine import SimtMachine
from xladev.hlo.ir import HloInstruction


def selection_kind(spec: KernelSpec, machine: SimtMachine) -> KernelKind | None:
    """The kind of kernels that end with a select-and-scatter."""
    if spec.computation.root.opcode != "select-and-scatter":
        return None
    return KernelKind("select and scatter", (Stage(_each_location),))


def _each_location(t: ThreadBuild) -> LaunchDimensions:
    """A thread for each element of the result."""
    i, e = t.spec.computation.root, t.e
    source, init = i.operands[1:]
    extents = [w.size for w in i["window"]]

    def one(position: Value) -> None:
        at = index_in_layout(e, t.results[0].shape, position)

        def step(inner: Index, held: Elements) -> Elements:
            covers, window = _window_over(t, i, at, inner)
            return choose_many(e, covers, lambda: _taken(t, i, at, window, held), lambda: held)

        initial = (e.element(init, ()),)
        (total,) = reduction_loop(e, extents, initial, step) if source.shape.size else initial
        t.results[0].store(t.b, at, total)

    return each_thread(t, t.results[0].shape.size, one)


def _window_over(
    t: ThreadBuild, i: HloInstruction, at: Index, inner: Index
) -> tuple[Value | bool, Index]:
    """Whether a window has an element at a place of its own, and the window.

    Places are gone through from the last to the first, so windows come in the order of the source.
    """
    e, conditions, window = t.e, list[Value | bool](), list[IndexValue]()
    dims = i.operands[1].shape.dims
    for w, size, x, k in zip(i["window"], dims, at, inner, strict=True):
        place = e.at.mul(e.at.sub(w.size - 1, k), w.window_dilation)
        padded = e.at.add(e.at.mul(x, w.base_dilation), w.pad_low)
        start = e.at.value(e.at.sub(padded, place))
        conditions.append(t.b.icmp("sge", start, 0))
        if w.stride > 1:
            conditions.append(t.b.icmp("eq", t.b.urem(start, w.stride), 0))
        number = e.at.div(start, w.stride)
        conditions.append(e.at.within(number, 0, size))
        window.append(number)
    return e.at.all_of(conditions), tuple(window)


def _taken(t: ThreadBuild, i: HloInstruction, at: Index, window: Index, held: Elements) -> Elements:
    """What is held, with the source of a window if that selects the element at ``at``."""
    e = t.e
    found, where = selected(t.e, i, window)
    same = [t.b.icmp("eq", e.at.value(x), e.at.value(y)) for x, y in zip(where, at, strict=True)]

    def scattered() -> Elements:
        return emit_computation(e, i["scatter"], (*held, e.element(i.operands[1], window)))

    return choose_many(e, e.at.all_of([found, *same]), scattered, lambda: held)
