"""Products of few rows in parts of the depth, each with sums of its own, which are added in order.

Few rows times a large matrix take as long as its memory is read. Threads that read halves of each
of its rows get half of what memory gives to threads that read whole rows, so they share the depth.
The cut follows from the shapes alone: bits do not depend on the number of threads.
"""

from __future__ import annotations

from math import prod

from xladev.codegen.arrays import IrArray
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import Value
from xladev.codegen.scalar.elementwise import emit_elementwise
from xladev.hlo.shape import Shape, array
from xladev.platforms.cpu.codegen.build import KernelBuild

PART_NBYTES = 512 << 10
"""Least bytes of the right operand in a part. Measured as good as twice and half as many."""
LEAST_DEPTH = 64
"""Least steps of a part."""
SUMS_SHARE = 32
"""The sums of all parts are at most one in so many of the elements of the right operand."""
MOST_PARTS = 16
_BLOCK = 4096
"""Elements of the result that one thread adds at once."""


def depth_parts(rows: int, depth: int, row_nbytes: int) -> int:
    """In how many parts the depth of a product of few rows is cut: a power of two.

    Args:
        rows: of the left operand.
        depth: of the product.
        row_nbytes: bytes of a row of the right operand, which lies along memory.
    """
    least = max(LEAST_DEPTH, SUMS_SHARE * rows)
    most = min(MOST_PARTS, depth * row_nbytes // PART_NBYTES, depth // least)
    return 1 << max(0, most.bit_length() - 1)


def part_depth(depth: int, parts: int, step: int = 1) -> int:
    """Steps of each part but the last ones, of which there may be fewer; ``step`` divides it."""
    return -(-depth // (parts * step)) * step


def part_steps(k: KernelBuild, part: IndexValue, size: int, depth: int) -> tuple[Value, Value]:
    """The first step of a part, and the one after its last; the last parts may be shorter."""
    first = k.b.intrinsic("smin", k.e.at.value(k.e.at.mul(part, size)), depth)
    return first, k.b.intrinsic("smin", k.b.add(first, size), depth)


def add_parts(k: KernelBuild, shape: Shape, offset: int = 0) -> None:
    """Writes the kernel's result: the sums of all parts, in order.

    Args:
        k: the kernel, whose result is row-major.
        shape: of the sums, ``[parts, ...]``, row-major; the rest is the shape of the result.
        offset: where they begin in the workspace, in bytes.
    """
    dtype, (parts, *dims) = shape.element_type, shape.dims
    count = prod(dims)

    def block(at: Index) -> None:
        sums = IrArray(k.b.byte_address(k.scratch, offset), array(dtype, (parts, count)))
        result = IrArray(k.results[0].base, array(dtype, (count,)), k.results[0].metadata)
        first = k.e.at.value(k.e.at.mul(at[0], _BLOCK))
        last = k.b.intrinsic("smin", k.b.add(first, _BLOCK), count)
        with k.b.loop(first, last) as n:
            total = sums.load(k.b, (0, n))
            for part in range(1, parts):
                more = sums.load(k.b, (part, n))
                total = emit_elementwise(k.b, "add", (dtype, dtype), dtype, (total, more))
            result.store(k.b, (n,), total)

    k.split_nest((-(-count // _BLOCK),), block)
