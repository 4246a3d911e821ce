"""Dynamic-update-slice in place: only what is updated is written.

Where the array cannot be overwritten, one loop over the result chooses for each element instead.
"""

from __future__ import annotations

from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.indexing import clamped_starts
from xladev.codegen.elemental.vectors import NotInVectorsError, VectorEmitter, position
from xladev.codegen.index import Index
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import Value
from xladev.codegen.scalar.storage import store_element
from xladev.codegen.simt.grids import each_thread
from xladev.codegen.simt.kernel_kind import KernelKind, Stage, ThreadBuild
from xladev.codegen.simt.kernels.copies import is_in_place
from xladev.codegen.simt.machine import SimtMachine

_ACCESS_NBYTES = 16
_LANES = (8, 4, 2)


def slice_update_kind(spec: KernelSpec, machine: SimtMachine) -> KernelKind | None:
    """The kind of kernels that end with a dynamic-update-slice in place."""
    root = spec.computation.root
    if root.opcode != "dynamic-update-slice" or not is_in_place(spec, 0):
        return None
    return KernelKind("update in place", (Stage(_emit),))


def _emit(t: ThreadBuild) -> LaunchDimensions:
    """Neighbouring elements of the update for each thread, as many as can be."""
    update = t.spec.computation.root.operands[1].shape
    inner = update.dims[-1] if update.rank else 1
    nbytes = max(1, update.element_type.host_nbytes)
    for lanes in _LANES:
        if lanes * nbytes > _ACCESS_NBYTES or inner % lanes:
            continue
        mark, functions, held = t.b.mark(), t.b.module.mark(), t.e.scopes()
        try:
            return _emit_update(t, VectorEmitter(t.e, lanes), lanes)
        except NotInVectorsError:
            t.b.reset(mark)
            t.b.module.reset(functions)
            t.e.leave(held)
    return _emit_update(t, t.e, 1)


def _emit_update(t: ThreadBuild, e: ElementalEmitter, lanes: int) -> LaunchDimensions:
    i, result = t.spec.computation.root, t.results[0]
    update = i.operands[1]

    def one(thread: Value) -> None:
        starts = clamped_starts(t.e, i.operands[2:], i.shape.dims, update.shape.dims)
        first = t.b.mul(thread, lanes)
        if isinstance(e, VectorEmitter):
            e.at.start(first, lanes)
        index = e.at.delinear(first, update.shape.dims)
        element = e.element(update, index)
        at: Index = tuple(e.at.add(x, s) for x, s in zip(index, starts, strict=True))
        place = position(e.at, result.shape, at)
        if isinstance(e, VectorEmitter):
            e.store(result, place, element)
            return
        store_element(t.b, result.base, place, result.shape.element_type, element)

    return each_thread(t, update.shape.size // lanes, one)
