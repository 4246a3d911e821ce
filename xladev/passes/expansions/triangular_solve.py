"""triangular-solve as blocked forward substitution: products of matrices around small loops.

All options are brought to one form, a lower triangle on the left: upper triangles by reversing rows
and columns, right-hand sides by transposing both.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.passes.expansions.blocking import Blocking, blocking, padded_rows, padded_square
from xladev.passes.expansions.emit import Emitter, Operand, Values, begin
from xladev.passes.expansions.precision import wider_float

_MOST_LARGE = 2


class SolveOptions(NamedTuple):
    """The options of triangular-solve."""

    left_side: bool
    lower: bool
    unit_diagonal: bool
    transpose: str


def expand_triangular_solve(instruction: HloInstruction) -> HloComputation:
    """Solves op(a) x = b, or x op(a) = b; only the triangle that ``lower`` names is read."""
    e, (a, b) = begin(instruction)
    names = ("left_side", "lower", "unit_diagonal", "transpose_a")
    return e.build(solve(e, a, b, SolveOptions(*(instruction[name] for name in names))))


def solve(
    e: Emitter, a: HloInstruction, b: HloInstruction, options: SolveOptions
) -> HloInstruction:
    """x with op(a) x = b or x op(a) = b, of the type of b."""
    element_type = b.shape.element_type
    wide = wider_float(element_type)
    a, b = e.convert(a, wide), e.convert(b, wide)
    left, lower = options.left_side, options.lower
    if options.transpose == "ADJOINT":
        a = e.conjugate(a)
    if (options.transpose != "NO_TRANSPOSE") == left:
        a, lower = e.swap_last(a), not lower
    b = b if left else e.swap_last(b)
    if not lower:
        a, b = e.reverse(a, -1, -2), e.reverse(b, -2)
    x = solve_lower(e, a, b, options.unit_diagonal)
    x = x if lower else e.reverse(x, -2)
    return e.convert(x if left else e.swap_last(x), element_type)


def solve_lower(
    e: Emitter, a: HloInstruction, b: HloInstruction, unit_diagonal: bool = False
) -> HloInstruction:
    """x with a x = b for lower triangles a ``[..., n, n]`` and b ``[..., n, k]``."""
    n = a.shape.dims[-1]
    if 0 in b.shape.dims:
        return b
    blocks = blocking(n, _MOST_LARGE)
    a, b = padded_square(e, a, blocks.rows), padded_rows(e, b, blocks.rows)
    solved: list[HloInstruction] = []
    for start in range(0, blocks.rows, blocks.large_rows):
        limit = start + blocks.large_rows
        rows = e.slice_in(a, -2, start, limit)
        rest = e.slice_in(b, -2, start, limit)
        if solved:
            known = e.concatenate(solved, -2)
            rest = e.subtract(rest, e.matmul(e.slice_in(rows, -1, 0, start), known))
        diagonal = e.slice_in(rows, -1, start, limit)
        solved.append(_solve_large(e, diagonal, rest, blocks, unit_diagonal))
    return e.slice_in(e.concatenate(solved, -2), -2, 0, n)


def _solve_large(
    e: Emitter, a: HloInstruction, b: HloInstruction, blocks: Blocking, unit_diagonal: bool
) -> HloInstruction:
    """The same for one large block: small block after small block."""
    if blocks.per_large == 1:
        return substitute(e, a, b, unit_diagonal)
    batch, (width, k) = b.shape.dims[:-2], b.shape.dims[-2:]
    size, none = blocks.small, [0] * len(batch)

    def step(e: Emitter, number: HloInstruction, state: list[HloInstruction]) -> Values:
        x, a, b = state
        start = e.multiply(number, size)
        rows = e.dynamic_slice(a, [*none, start, 0], (*batch, size, width))
        diagonal = e.dynamic_slice(rows, [*none, 0, start], (*batch, size, size))
        column = e.iota(dt.S32, rows.shape.dims, -1)
        left = e.select(e.compare("LT", column, start), rows, 0)
        rest = e.dynamic_slice(b, [*none, start, 0], (*batch, size, k))
        found = substitute(e, diagonal, e.subtract(rest, e.matmul(left, x)), unit_diagonal)
        return e.dynamic_update_slice(x, found, [*none, start, 0]), a, b

    return e.repeat(blocks.per_large, (e.full_like(b, 0), a, b), step)[0]


def substitute(
    e: Emitter, a: HloInstruction, b: HloInstruction, unit_diagonal: bool = False
) -> HloInstruction:
    """x with a x = b for one small block, row after row; only the lower triangle is read."""
    rank, dims = a.shape.rank, a.shape.dims
    n, k = b.shape.dims[-2:]
    batch = dims[:-2]
    row, column = e.iota(dt.S32, dims, -2), e.iota(dt.S32, dims, -1)
    below = e.select(e.compare("GT", row, column), a, 0)
    diagonal = e.full(1, a.shape.element_type, (*batch, n, 1))
    if not unit_diagonal:
        kept = e.select(e.compare("EQ", row, column), a, 0)
        diagonal = e.reshape(e.reduce(kept, (-1,)), (*batch, n, 1))

    def step(e: Emitter, number: HloInstruction, state: list[HloInstruction]) -> Values:
        x, below, diagonal, b = state
        at: list[Operand] = [*([0] * (rank - 2)), number, 0]
        factors = e.dynamic_slice(below, at, (*batch, 1, n))
        rest = e.subtract(e.dynamic_slice(b, at, (*batch, 1, k)), e.matmul(factors, x))
        pivot = e.dynamic_slice(diagonal, at, (*batch, 1, 1))
        spread = e.broadcast(
            e.reshape(pivot, batch), (*batch, 1, k), tuple(range(len(batch)))
        )  # fmt: skip
        return e.dynamic_update_slice(x, e.divide(rest, spread), at), below, diagonal, b

    return e.repeat(n, (e.full_like(b, 0), below, diagonal, b), step)[0]
