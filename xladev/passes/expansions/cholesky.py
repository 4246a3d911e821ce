"""cholesky as blocked factorisation: products of matrices around small loops over columns.

Computes the upper factor R with A = R* R, block row after block row, since its rows are contiguous.
"""

from __future__ import annotations

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.passes.expansions.blocking import Blocking, blocking, padded_square
from xladev.passes.expansions.emit import Emitter, Values, begin
from xladev.passes.expansions.precision import wider_float
from xladev.passes.expansions.triangular_solve import substitute

_MOST_LARGE = 2


def expand_cholesky(instruction: HloInstruction) -> HloComputation:
    """The factor of the triangle that ``lower`` names; zero in the other.

    All NaN in the triangle of a matrix that is not positive definite.
    """
    e, (a,) = begin(instruction)
    wide = e.convert(a, wider_float(a.shape.element_type))
    lower = instruction["lower"]
    factor, failed = cholesky_factor(e, wide, lower)
    good = e.compare("EQ", failed, 0)
    rank = wide.shape.rank
    row, column = e.iota(dt.S32, wide.shape.dims, -2), e.iota(dt.S32, wide.shape.dims, -1)
    other = e.compare("LT" if lower else "GT", row, column)
    keep = e.op("or", e.broadcast(good, wide.shape.dims, tuple(range(rank - 2))), other)
    checked = e.select(keep, factor, float("nan"))
    return e.build(e.convert(checked, instruction.shape.element_type))


def cholesky_factor(
    e: Emitter, a: HloInstruction, lower: bool
) -> tuple[HloInstruction, HloInstruction]:
    """The factor, zero in the other triangle, and where it failed.

    Returns:
        ``[batch..., n, n]``, and s32 ``[batch...]``: the number from 1 of the first pivot that is
        not positive, or 0. Nothing is said of a factor from there on.
    """
    if not a.shape.size:
        return e.full_like(a, 0), e.full(0, dt.S32, a.shape.dims[:-2])
    factor = _upper_factor(e, _adjoint(e, a) if lower else a)
    failed = _first_failure(e, factor)
    return (_adjoint(e, factor) if lower else factor), failed


def _adjoint(e: Emitter, x: HloInstruction) -> HloInstruction:
    return e.swap_last(e.conjugate(x))


def _upper_factor(e: Emitter, a: HloInstruction) -> HloInstruction:
    """R with a = R* R, reading only the upper triangle of ``a``."""
    n = a.shape.dims[-1]
    blocks = blocking(n, _MOST_LARGE)
    a = padded_square(e, a, blocks.rows)
    rows: list[HloInstruction] = []
    for start in range(0, blocks.rows, blocks.large_rows):
        limit = start + blocks.large_rows
        panel = e.slice_in(e.slice_in(a, -2, start, limit), -1, start, blocks.rows)
        if rows:
            above = e.concatenate([_last_columns(e, row, panel) for row in rows], -2)
            left = _adjoint(e, e.slice_in(above, -1, 0, blocks.large_rows))
            panel = e.subtract(panel, e.matmul(left, above))
        rows.append(_large_row(e, panel, blocks))
    whole = e.concatenate([_padded(e, row, blocks.rows) for row in rows], -2)
    return e.slice_in(e.slice_in(whole, -2, 0, n), -1, 0, n)


def _last_columns(e: Emitter, row: HloInstruction, panel: HloInstruction) -> HloInstruction:
    """As many last columns of a block row as the panel has."""
    width = row.shape.dims[-1]
    return e.slice_in(row, -1, width - panel.shape.dims[-1], width)


def _padded(e: Emitter, row: HloInstruction, n: int) -> HloInstruction:
    missing = n - row.shape.dims[-1]
    return e.pad(row, (*((0, 0, 0),) * (row.shape.rank - 1), (missing, 0, 0)))


def _large_row(e: Emitter, panel: HloInstruction, blocks: Blocking) -> HloInstruction:
    """The large block row of R that begins at the diagonal, from what is left of A there."""
    batch, (height, width) = panel.shape.dims[:-2], panel.shape.dims[-2:]
    size, none = blocks.small, [0] * len(batch)
    if blocks.per_large == 1:
        return _small_row(e, panel, e.scalar(0, dt.S32))

    def step(e: Emitter, number: HloInstruction, state: list[HloInstruction]) -> Values:
        found, panel = state
        start = e.multiply(number, size)
        rows = e.dynamic_slice(panel, [*none, start, 0], (*batch, size, width))
        left = e.dynamic_slice(found, [*none, 0, start], (*batch, height, size))
        rows = e.subtract(rows, e.matmul(_adjoint(e, left), found))
        new = _small_row(e, rows, start)
        return e.dynamic_update_slice(found, new, [*none, start, 0]), panel

    return e.repeat(blocks.per_large, (e.full_like(panel, 0), panel), step)[0]


def _small_row(e: Emitter, rows: HloInstruction, start: HloInstruction) -> HloInstruction:
    """The rows of R from what is left of A there; ``start`` is the column of the diagonal."""
    batch, size = rows.shape.dims[:-2], rows.shape.dims[-2]
    none = [0] * len(batch)
    diagonal = e.dynamic_slice(rows, [*none, 0, start], (*batch, size, size))
    turned = _small_factor(e, e.conjugate(diagonal))
    if rows.shape.dims[-1] == size:
        return e.conjugate(turned)
    solved = substitute(e, e.swap_last(turned), rows)
    column = e.iota(dt.S32, rows.shape.dims, -1)
    right = e.select(e.compare("GE", column, start), solved, 0)
    return e.dynamic_update_slice(right, e.conjugate(turned), [*none, 0, start])


def _small_factor(e: Emitter, turned: HloInstruction) -> HloInstruction:
    """The transpose of the lower factor of a small matrix given transposed, row after row."""
    rank, dims = turned.shape.rank, turned.shape.dims
    batch, n = dims[:-2], dims[-1]

    def step(e: Emitter, number: HloInstruction, state: list[HloInstruction]) -> Values:
        factor, turned = state
        zeros = (0,) * (rank - 2)
        column = e.dynamic_slice(factor, (*zeros, 0, number), (*batch, n, 1))
        weights = e.reshape(e.conjugate(column), (*batch, 1, n))
        row = e.dynamic_slice(turned, (*zeros, number, 0), (*batch, 1, n))
        row = e.subtract(row, e.matmul(weights, factor))
        pivot = e.real(e.dynamic_slice(row, (*zeros, 0, number), (*batch, 1, 1)))
        root = e.convert(e.op("sqrt", pivot), row.shape.element_type)
        spread = e.broadcast(e.reshape(root, batch), (*batch, 1, n), tuple(range(len(batch))))
        at = e.iota(dt.S32, (*batch, 1, n), -1)
        after = e.select(e.compare("GT", at, number), e.divide(row, spread), 0)
        new = e.select(e.compare("EQ", at, number), spread, after)
        return e.dynamic_update_slice(factor, new, (*zeros, number, 0)), turned

    return e.repeat(n, (e.full_like(turned, 0), turned), step)[0]


def _first_failure(e: Emitter, factor: HloInstruction) -> HloInstruction:
    """Number from 1 of the first element of the diagonal that is not positive, or 0."""
    dims = factor.shape.dims
    row, column = e.iota(dt.S32, dims, -2), e.iota(dt.S32, dims, -1)
    positive = e.compare("GT", e.real(factor), 0)
    fine = e.op("or", e.compare("NE", row, column), positive)
    none = dims[-1] + 1
    first = e.reduce(e.select(fine, none, e.add(row, 1)), (-1, -2), "minimum", none)
    return e.select(e.compare("EQ", first, none), e.full_like(first, 0), first)
