"""Tridiagonal systems by elimination with row exchanges (gtsv): one loop down and one up."""

from __future__ import annotations

from functools import partial

import numpy as np

from xladev.hlo import dtype as dt
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.matrices import Value


def solve_tridiagonal(
    e: Emitter, below: Value, diagonal: Value, above: Value, b: Value, *, perturb: bool = False
) -> tuple[Value, Value]:
    """x with T x = b.

    Args:
        below, diagonal, above: ``[batch, n]``, n not zero; ``below[0]`` and ``above[n - 1]`` are
            not read.
        b: ``[batch, n, k]``.
        perturb: move pivots away from zero, by the type's epsilon times U's largest element, so
            that singular systems have a solution too.

    Returns:
        x, and the number (from 1) of the first zero pivot or 0, s32 ``[batch]``.
    """
    batch, n = diagonal.shape.dims
    k = b.shape.dims[2]
    last = e.compare("EQ", mx.rows(e, above), n - 1)
    above = e.select(last, 0, above)
    columns = [e.reshape(x, (batch, n, 1)) for x in (diagonal, above, e.full_like(above, 0))]
    before = e.reshape(below, (batch, n, 1))
    # A row of what is solved: three coefficients from the diagonal on, then the right-hand sides.
    rows = e.concatenate((*columns, b), 2)
    info = e.full(0, dt.S32, (batch,))
    rows, info, _ = e.repeat(n - 1, (rows, info, before), partial(_eliminate, perturb))
    if perturb:
        rows = _perturbed(e, rows)
    end = e.full(n, dt.S32, (batch,))
    pivot = mx.element(e, mx.row(e, rows, n - 1), 0)
    info = e.select(_first_zero(e, pivot, info), end, info)
    x = e.full(0, b.shape.element_type, (batch, n + 2, k))

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        x, rows = state
        at = e.subtract(e.index(n - 1), number)
        parts = mx.row(e, rows, at)
        rest = e.slice_in(parts, 1, 3, 3 + k)
        for ahead in (1, 2):
            factor = mx.spread(e, mx.element(e, parts, ahead), rest, 0)
            known = mx.row(e, x, e.add(at, ahead))
            rest = e.subtract(rest, e.multiply(factor, known))
        pivot = mx.spread(e, mx.element(e, parts, 0), rest, 0)
        return mx.with_row(e, x, e.divide(rest, pivot), at), rows

    x = e.repeat(n, (x, rows), step)[0]
    return e.slice_in(x, 1, 0, n), info


def _first_zero(e: Emitter, pivot: Value, info: Value) -> Value:
    return mx.both(e, e.compare("EQ", pivot, 0), e.compare("EQ", info, 0))


def _eliminate(perturb: bool, e: Emitter, number: Value, state: list[Value]) -> Values:
    """Removes what is below pivot ``number``, after exchanging rows if that is larger."""
    rows, info, below = state
    batch, _, width = rows.shape.dims
    here, following = mx.row(e, rows, number), mx.row(e, rows, e.add(number, 1))
    lead = mx.row(e, below, e.add(number, 1))
    tail = [e.slice_in(following, 1, 0, 2), e.slice_in(following, 1, 3, width)]
    under = e.concatenate((lead, *tail), 1)
    larger = e.compare(
        "GT", mx.magnitude(e, mx.element(e, under, 0)), mx.magnitude(e, mx.element(e, here, 0))
    )
    larger = mx.spread(e, larger, here, 0)
    upper, lower = e.select(larger, under, here), e.select(larger, here, under)
    pivot = mx.element(e, upper, 0)
    failed = _first_zero(e, pivot, info)
    info = e.select(failed, e.broadcast(e.add(number, 1), (batch,), ()), info)
    divisor = e.select(e.compare("EQ", pivot, 0), 1, pivot) if perturb else pivot
    factor = mx.spread(e, e.divide(mx.element(e, lower, 0), divisor), upper, 0)
    left = e.subtract(lower, e.multiply(factor, upper))
    zero = e.full(0, rows.shape.element_type, (batch, 1))
    moved = [e.slice_in(left, 1, 1, 3), zero, e.slice_in(left, 1, 3, width)]
    rows = mx.with_row(e, rows, upper, number)
    return mx.with_row(e, rows, e.concatenate(moved, 1), e.add(number, 1)), info, below


def _perturbed(e: Emitter, rows: Value) -> Value:
    """Rows ``[batch, n, 3 + k]`` whose pivots, at 0 of the last dimension, are not tiny."""
    batch, n, width = rows.shape.dims
    upper = mx.magnitude(e, e.slice_in(rows, 2, 0, 3))
    eps = float(np.finfo(upper.shape.element_type.np).eps)
    least = e.multiply(e.reduce(upper, (1, 2), "maximum", 0), eps)
    least = e.broadcast(e.select(e.compare("EQ", least, 0), eps, least), (batch, n, 1), (0,))
    pivots = e.slice_in(rows, 2, 0, 1)
    sizes = e.slice_in(upper, 2, 0, 1)
    is_zero = e.compare("EQ", sizes, 0)
    scale = e.divide(least, e.select(is_zero, 1, sizes))
    moved = e.multiply(e.select(is_zero, 1, pivots), e.convert(scale, pivots.shape.element_type))
    pivots = e.select(e.compare("LT", sizes, least), moved, pivots)
    return e.concatenate((pivots, e.slice_in(rows, 2, 1, width)), 2)
