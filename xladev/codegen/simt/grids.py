"""One thread for each of some elements: the plainest of all grids."""

from __future__ import annotations

from collections.abc import Callable

from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import Value
from xladev.codegen.simt.kernel_kind import ThreadBuild
from xladev.codegen.simt.launch_plan import BLOCK
from xladev.codegen.simt.primitives import thread_number
from xladev.hlo.shape import Shape


def each_thread(t: ThreadBuild, count: int, body: Callable[[Value], None]) -> LaunchDimensions:
    """Runs ``body(number)`` in ``count`` threads, which must not wait for each other."""
    thread = thread_number(t.b, BLOCK, count)
    with t.b.when(t.b.icmp("ult", thread, count)), t.e.scope():
        body(thread)
    return LaunchDimensions((max(1, -(-count // BLOCK)), 1, 1), (BLOCK, 1, 1))


def index_in_layout(e: ElementalEmitter, shape: Shape, position: IndexValue) -> Index:
    """Coordinates of a position of an array's memory, in elements."""
    order = tuple(reversed(shape.minor_to_major))
    physical = e.at.delinear(position, [shape.dims[d] for d in order])
    at = dict(zip(order, physical, strict=True))
    return tuple(at[d] for d in range(shape.rank))
