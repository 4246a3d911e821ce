"""Arrays that are copied before part of them is changed, unless they are changed in place."""

from __future__ import annotations

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.simt.kernel_kind import Stage, ThreadBuild
from xladev.codegen.simt.kernels.loops import LoopGroup
from xladev.codegen.simt.launch_plan import BLOCK, launch_dimensions, widest_lanes
from xladev.codegen.simt.primitives import thread_number


def copy_stages(spec: KernelSpec) -> tuple[Stage, ...]:
    """The launch that fills results from the root's operands of the same numbers; none if in place.

    Results have the dimensions of these operands, and all the same.
    """
    apart = [n for n, shape in enumerate(spec.results) if shape.size and not is_in_place(spec, n)]
    if not apart:
        return ()
    return (Stage(lambda t: _emit_copies(t, apart)),)


def is_in_place(spec: KernelSpec, number: int) -> bool:
    """True if result ``number`` is the root's operand of that number."""
    source, parameters = spec.computation.root.operands[number], spec.computation.parameters
    return source in parameters and (number, parameters.index(source)) in spec.in_place


def _emit_copies(t: ThreadBuild, numbers: list[int]) -> LaunchDimensions:
    size = t.results[0].shape.size
    thread = thread_number(t.b, BLOCK, size)
    sources = [t.spec.computation.root.operands[n] for n in numbers]
    group = LoopGroup(t, sources, [t.results[n] for n in numbers])
    return launch_dimensions([group.emit(thread, widest_lanes(t.spec, size))])
