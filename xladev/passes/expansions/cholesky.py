"""cholesky as blocked factorisation: products of matrices around small loops over columns.

Computes the upper factor R with A = R* R, block row after block row, since its rows are contiguous.
"""

from __future__ import annotations

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.passes.expansions.emit import Emitter, Values, begin
from xladev.passes.expansions.precision import working_type
from xladev.passes.expansions.triangular_solve import block_starts, solve_lower


def expand_cholesky(instruction: HloInstruction) -> HloComputation:
    """The factor of the triangle that ``lower`` names; zero in the other.

    All NaN in the triangle of a matrix that is not positive definite.
    """
    e, (a,) = begin(instruction)
    a = e.convert(a, working_type(a.shape.element_type))
    if not a.shape.size:
        return e.build(e.full_like(e.convert(a, instruction.shape.element_type), 0))
    lower = instruction["lower"]
    factor = _upper_factor(e, _adjoint(e, a) if lower else a)
    factor = _checked(e, factor)
    factor = _adjoint(e, factor) if lower else factor
    return e.build(e.convert(factor, instruction.shape.element_type))


def _adjoint(e: Emitter, x: HloInstruction) -> HloInstruction:
    return e.swap_last(e.conjugate(x))


def _upper_factor(e: Emitter, a: HloInstruction) -> HloInstruction:
    """R with a = R* R, reading only the upper triangle of ``a``."""
    n = a.shape.dims[-1]
    starts = block_starts(n)
    rows: list[HloInstruction] = []
    for start in starts:
        limit = min(start + starts.step, n)
        panel = e.slice_in(e.slice_in(a, -2, start, limit), -1, start, n)
        if rows:
            above = e.concatenate([_columns_from(e, row, start, n) for row in rows], -2)
            left = _adjoint(e, e.slice_in(above, -1, 0, limit - start))
            panel = e.subtract(panel, e.matmul(left, above))
        rows.append(_block_row(e, panel))
    return e.concatenate([_padded(e, row, n) for row in rows], -2)


def _columns_from(e: Emitter, row: HloInstruction, start: int, n: int) -> HloInstruction:
    """Columns ``start`` to n of a block row, which begins at its own diagonal."""
    width = row.shape.dims[-1]
    return e.slice_in(row, -1, start - (n - width), width)


def _padded(e: Emitter, row: HloInstruction, n: int) -> HloInstruction:
    missing = n - row.shape.dims[-1]
    return e.pad(row, (*((0, 0, 0),) * (row.shape.rank - 1), (missing, 0, 0)))


def _block_row(e: Emitter, panel: HloInstruction) -> HloInstruction:
    """The block row of R that begins at the diagonal, from what is left of A there."""
    height, width = panel.shape.dims[-2:]
    factor = _small_factor(e, e.conjugate(e.slice_in(panel, -1, 0, height)))
    diagonal = e.conjugate(factor)
    if width == height:
        return diagonal
    right = solve_lower(e, e.swap_last(factor), e.slice_in(panel, -1, height, width))
    return e.concatenate([diagonal, right], -1)


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


def _checked(e: Emitter, factor: HloInstruction) -> HloInstruction:
    """NaN in the upper triangle of factors with a pivot that is not positive."""
    dims = factor.shape.dims
    batch = dims[:-2]
    row, column = e.iota(dt.S32, dims, -2), e.iota(dt.S32, dims, -1)
    positive = e.compare("GT", e.real(factor), 0)
    apart = e.compare("NE", row, column)
    good = e.reduce(e.op("or", apart, positive), (-1, -2), "and", True)
    spread = e.broadcast(good, dims, tuple(range(len(batch))))
    keep = e.op("or", spread, e.compare("GT", row, column))
    return e.select(keep, factor, float("nan"))
